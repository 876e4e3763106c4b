/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of YAML under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char block[] = "format: fuzz/1\nname: \"a \\u00e9\"\nitems:\n  - key: a\n"
                            "    number: 1e-3\n  - key: >\n      folded\n      text\n"
                            "words: [x, 'y''s']\n";
static const char flow[] =
    "# flow\n{\"format\": \"fuzz/1\", \"items\": [{\"key\": \"a\"}, {\"key\": \"b\",\n"
    " \"number\": \"0\"}]}\n";
static const char *const words[] = {
    "- ",           ": ",        "? ",    "|",      ">", "---", "...",   "&a",       "*a",
    "!!int",        "%YAML 1.1", "{",     "}",      "[", "]",   "\"",    "'",        "#",
    "format",       "key",       "items", "number", "~", "nan", "12abc", "\xc3\xa9", "\xff",
    "\xef\xbb\xbf", "\t",        "\n",    "\\x41",  "<<"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n\"',:[]{}",
                           .cases = 8000,
                           .seed = 1,
                           .part = 20};

    fuzz_add(&t, block, sizeof block - 1);
    fuzz_add(&t, flow, sizeof flow - 1);
    return fuzz_main(&t, argc, argv);
}
