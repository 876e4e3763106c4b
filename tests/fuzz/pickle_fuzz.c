/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of pickles: whatever was accepted lies within them. */
#include "reader_fuzz.h"

#include "ckpt/ckpt_pickle.h"

static void check(const struct pickle_file *f, const char *text, size_t bytes)
{
    assert(f->root && f->count <= (int64_t)bytes);
    for (int64_t i = 0; i < f->count; i++) {
        const struct pickle *v = f->value[i];
        if (v->kind == PICKLE_TEXT || v->kind == PICKLE_NAME) {
            assert(v->n >= 0 && v->text >= text && v->text + v->n <= text + bytes);
            mem_free(pickle_text(v));
        }
        for (int64_t k = 0; v->kind >= PICKLE_LIST && v->kind != PICKLE_NAME && k < v->n; k++)
            assert(v->item[k] && v->item[k]->kind != PICKLE_MARK);
        assert(v->kind != PICKLE_DICT || v->n % 2 == 0);
        pickle_get(v, "param");
    }
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct pickle_file f;
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(pickle_read(&f, FUZZ_NAME, text, (int64_t)bytes, &err), &err);

    if (rc == 0) {
        check(&f, text, bytes);
        pickle_release(&f);
    }
    mem_free(text);
    return rc == 0;
}

FUZZ_SET(.name = "pickle", .cases = 20000, .part = 1000, .ends = "qhR\x86",
         .words = FUZZ_LIST("(", ")", "]", "}", "t", "e", "u", "a", "s", "b", ".", "Q", "N",
                            "R", "\x85", "\x87", "\x94", "\x93", "\x81", "K\x01", "h\x01",
                            "q\x01", "r\xff\xff\xff\x7f", "ctorch\nSize\n", "cos\nsystem\n",
                            "\x8c\x01w", "X\xff\xff\xff\xff", "\x8a\x09",
                            "\x8a\x08\x80\x80\x80\x80\x80\x80"),
         .files = FUZZ_LIST("tests/fuzz/corpus/pickle/metadata",
                            "tests/fuzz/corpus/pickle/tensor"));
