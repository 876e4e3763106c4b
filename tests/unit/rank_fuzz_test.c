/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of logs under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {
    "{\"step\":", ",\"loss\":", "\"loss\": ", "null",  "NaN",   "-Infinity", "}",
    "{",          "s:",         " trl:",      "step:", "step ", "/9",        " | ",
    "loss ",      "train ",     "0",          "1",     "7",     "-1",        "1e5",
    "nan",        "-inf",       "\r\n",       "0x1p3", ".5",    "1.",        "\"",
    "\\u00e9",    "1e-400",     "00000001"};

int main(int argc, char **argv)
{
    static const char *const names[] = {"json", "llmc",   "nano", "console",
                                        "back", "digits", "mark", "over"};
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,|/", 30000, 200);
    char path[80];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "tests/fuzz/corpus/rank/%s", names[i]);
        fuzz_add_file(&t, path);
    }
    return fuzz_main(&t, argc, argv);
}
