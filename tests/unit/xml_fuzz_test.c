/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of XML under texts that are nearly right.  The same cases every time, or others by
 *
 *     build/unit/xml_fuzz_test CASES SEED
 *
 * `make check-fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "../fuzz/xml_fuzz.h"
#include "mutate_fixture.h"

static char one[] = "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n"
                    "<a x='1' y=\"&lt;&#65;\">t &amp; u<b/><c k='v'>\n</c></a>\n<!-- c -->\n";
static char other[] = "<system version=\"1\">\n <cpu numaid=\"0\">\n  <pci busid=\"a\"/>\n"
                      "  <!-- gone -->\n </cpu>\n</system>";
static const char *const words[] = {
    "&lt;",     "&#x41;", "&#0;",  "&b;",       "<!--", "-->",
    "<a>",      "</a>",   "<b/>",  "<![CDATA[", "]]>",  "<!ENTITY b \"c\">",
    "<?x?>",    "a",      "x='1'", "=",         "\"",   "'",
    "\xc3\xa4", "\xff",   "\x01",  "\n"};

static uint64_t cases = 20000, seed = 1;

static void mutations_are_read_or_refused(void **state)
{
    static struct mutate m;
    const struct mutate_text from[] = {{one, sizeof one - 1}, {other, sizeof other - 1}};
    int outcomes[2] = {0};

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(xml_fuzz_case((const uint8_t *)from[i].at, from[i].bytes), 1);
    m = (struct mutate){.from = from,
                        .count = 2,
                        .words = words,
                        .word_count = sizeof words / sizeof *words,
                        .ends = " \n\"'=<>/&;",
                        .seed = seed};
    for (m.stream = 0; m.stream < cases; m.stream++) {
        mutate_case(&m);
        outcomes[xml_fuzz_case((const uint8_t *)m.text, m.bytes)]++;
    }
    /* Mutations that are all refused at the first line would test the first line. */
    if (outcomes[0] < (int)(cases / 20) || outcomes[1] < (int)(cases / 20))
        fail_msg("%d refused, %d taken: too few", outcomes[0], outcomes[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutations_are_read_or_refused)};

    if (argc > 1)
        cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
