/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests UTF-8: which bytes are a character, and what of a text a terminal gets to see. */
#include "unit.h"

#include "base/utf8.h"

/* The first and the last of each length, and their neighbours that are none: RFC 3629. */
TEST(sequences)
{
    static const struct {
        const char *text;
        int bytes;
        uint32_t code;
    } cases[] =
        LIST({"\x01", 1, 1}, {"\x7f", 1, 0x7f}, {"\x80", 0, 0}, {"\xc1\xbf", 0, 0},
             {"\xc2\x80", 2, 0x80}, {"\xdf\xbf", 2, 0x7ff}, {"\xe0\x9f\xbf", 0, 0},
             {"\xe0\xa0\x80", 3, 0x800}, {"\xed\x9f\xbf", 3, 0xd7ff}, {"\xed\xa0\x80", 0, 0},
             {"\xed\xbf\xbf", 0, 0}, {"\xee\x80\x80", 3, 0xe000}, {"\xef\xbf\xbf", 3, 0xffff},
             {"\xf0\x8f\xbf\xbf", 0, 0}, {"\xf0\x90\x80\x80", 4, 0x10000},
             {"\xf4\x8f\xbf\xbf", 4, 0x10ffff}, {"\xf4\x90\x80\x80", 0, 0},
             {"\xf8\x88\x80\x80\x80", 0, 0}, {"\xe2\x82", 0, 0}, {"\xe2\x82z", 0, 0});

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t code = 0;
        assert_int_equal(utf8_next(cases[i].text, &code), cases[i].bytes);
        assert_int_equal(code, cases[i].code);
    }
}

static void shown(const char *text, const char *never, const char *expected)
{
    FILE *f = unit_stream();
    int said = utf8_put(text, never, f);
    char *seen = unit_text(f);

    assert_string_equal(seen, expected);
    assert_int_equal(said, strlen(expected));
    assert_int_equal(utf8_controls(seen, said), 0);
    free(seen);
    if (never[0])
        return;
    char *same = strdup(text);
    utf8_clean(same);
    assert_string_equal(same, expected);
    free(same);
}

/* Nothing steers the terminal: both sets of controls, what is no character, what is unwanted.
 */
TEST(put)
{
    shown("", "", "");
    shown("a b~", "", "a b~");
    shown("\x1b[31m\n\t\x7f", "", "?[31m???");
    shown("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    shown("x\xc2\x9bm\xc2\x80\xc2\x9f\xc2\xa0", "", "x?m??\xc2\xa0"); /* CSI in one */
    shown("\xff\xc3", "", "??");                                      /* cut short */
    shown("\xc3z", "", "?z");
    /* Marks of direction, separators of lines; but no other mark of the same blocks. */
    shown("a\xe2\x80\xaez\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", "", "a?z???");
    shown("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf\xe2\x80\xa7", "", "??\xe2\x80\xaf\xe2\x80\xa7");
    shown("a|b", "", "a|b");
    shown("a|b;", ";|", "a?b?");
}
