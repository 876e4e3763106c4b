/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the texts of errors: one line, the place first, never longer than its room. */
#include "unit.h"

#include <errno.h>

TEST(set_keeps_code_and_words)
{
    assert_int_equal(err_set(&err, ERR_MISMATCH, "%d ranks, expected %d", 3, 4), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_string_equal(err.text, "3 ranks, expected 4");
    assert_string_equal(err.file, "");
    assert_string_equal(err.key, "");
    assert_int_equal(err.line, 0);
}

TEST(set_forgets_an_earlier_place)
{
    err_at(&err, "f.yaml", 3, "k", "is wrong");
    err_set(&err, ERR_SYS, "another");
    assert_int_equal(err.line, 0);
    assert_string_equal(err.file, "");
    assert_string_equal(err.key, "");
}

TEST(sys_adds_the_systems_words)
{
    errno = EACCES;
    assert_int_equal(err_sys(&err, "cannot open '%s'", "x"), -1);
    assert_int_equal(err.code, ERR_SYS);
    assert_string_equal(err.text, "cannot open 'x': Permission denied");
    errno = ENOENT;
    err_sys(&err, "cannot open '%s'", "x");
    assert_int_equal(err.code, ERR_ABSENT);
}

TEST(at_names_file_line_and_key)
{
    assert_int_equal(err_at(&err, "f.yaml", 14, "port_Bps", "is %d, expected more", -3), -1);
    assert_string_equal(err.text, "f.yaml:14: 'port_Bps' is -3, expected more");
    assert_int_equal(err.code, ERR_INPUT);
    assert_string_equal(err.file, "f.yaml");
    assert_string_equal(err.key, "port_Bps");
    assert_int_equal(err.line, 14);
    err_at(&err, "f.yaml", 0, NULL, "is empty");
    assert_string_equal(err.text, "f.yaml: is empty");
}

TEST(prefix_goes_before)
{
    err_at(&err, "f.yaml", 14, "k", "is wrong");
    assert_int_equal(err_prefix(&err, "cannot read '%s': ", "dir"), -1);
    assert_string_equal(err.text, "cannot read 'dir': f.yaml:14: 'k' is wrong");
    assert_int_equal(err.line, 14);
}

TEST(suffix_goes_behind)
{
    err_at(&err, "f.yaml", 14, "k", "is wrong");
    assert_int_equal(err_suffix(&err, "; see '%s'", "a\nb"), -1);
    assert_string_equal(err.text, "f.yaml:14: 'k' is wrong; see 'a?b'");
    assert_int_equal(err.line, 14);
}

TEST(hostile_text_stays_one_line)
{
    err_set(&err, ERR_INPUT, "name '%s'", "a\nb\x1b[31m\r\x7f");
    assert_string_equal(err.text, "name 'a?b?[31m?"
                                  "?'");
    err_at(&err, "a\nb", 1, "c\nd", "%s", "e\nf");
    assert_null(strchr(err.text, '\n'));
    err_prefix(&err, "%s", "g\nh");
    assert_null(strchr(err.text, '\n'));
    errno = EIO;
    err_sys(&err, "%s", "i\nj");
    assert_null(strchr(err.text, '\n'));
}

/* Also where a long text is cut within a character. */
TEST(foreign_text_is_printable)
{
    err_at(&err, "a\xff", 3, "b\xe2\x80\xae", "is '%s'", "\xc3\xa4\xe2\x81\xa7\xc2\x9b");
    assert_string_equal(err.text, "a?:3: 'b?' is '\xc3\xa4?\x3f'");
    assert_string_equal(err.file, "a\xff");
    err_set(&err, ERR_INPUT, "%*s\xc3\xa4", (int)sizeof err.text - 2, "");
    assert_string_equal(err.text + sizeof err.text - 2, "?");
    err_prefix(&err, "%s", "\xe2\x80\xaa");
    assert_int_equal(err.text[0], '?');
}

TEST(long_text_is_cut)
{
    char big[4096];

    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    err_set(&err, ERR_INPUT, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    err_prefix(&err, "%s", "ab");
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_memory_equal(err.text, "abx", 3);
    err_suffix(&err, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    err_prefix(&err, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    err_at(&err, big, 2147483647, big, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(strlen(err.file), sizeof err.file - 1);
    assert_int_equal(strlen(err.key), sizeof err.key - 1);
    errno = EIO;
    err_sys(&err, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

TEST(codes_have_distinct_names)
{
    assert_string_equal(err_code_name(ERR_INPUT), "input");
    for (int a = ERR_NONE; a <= ERR_DEVICE; a++)
        for (int b = ERR_NONE; b < a; b++)
            assert_string_not_equal(err_code_name((enum err_code)a),
                                    err_code_name((enum err_code)b));
}
