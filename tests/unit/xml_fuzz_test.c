/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of XML under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char one[] =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n"
    "<a x='1' y=\"&lt;&#65;\">t &amp; u<b/><c k='v'>\n</c></a>\n<!-- c -->\n";
static const char other[] =
    "<system version=\"1\">\n <cpu numaid=\"0\">\n  <pci busid=\"a\"/>\n"
    "  <!-- gone -->\n </cpu>\n</system>";
static const char *const words[] = {
    "&lt;",     "&#x41;", "&#0;",  "&b;",       "<!--", "-->",
    "<a>",      "</a>",   "<b/>",  "<![CDATA[", "]]>",  "<!ENTITY b \"c\">",
    "<?x?>",    "a",      "x='1'", "=",         "\"",   "'",
    "\xc3\xa4", "\xff",   "\x01",  "\n"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n\"'=<>/&;",
                           .cases = 20000,
                           .seed = 1,
                           .part = 20};

    fuzz_add(&t, one, sizeof one - 1);
    fuzz_add(&t, other, sizeof other - 1);
    return fuzz_main(&t, argc, argv);
}
