/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests files that are no tokenizer: models of SentencePiece that it refuses, and parts of
 * files.
 */
#include "unit.h"

#include "base/io.h"
#include "token/token_parts.h"
#include "words_fixture.h"

#define DATA "tests/data/tokenizer/"

#define UNK     "\n\x09\n\x05<unk>\x18\x02"
#define TRAINER "\x12\x02\x18\x02" /* the model's type */
#define NORMAL  "\x1a\x02\x20\x00" /* no removal of extra spaces */

static void parse_model(const char *model, size_t bytes, const char *words)
{
    struct tokenizer *t = NULL;
    err = (struct err){0};

    assert_int_equal(tokenizer_parse(&t, "t.model", model, (int64_t)bytes, &err), -!!words);
    if (words)
        assert_words(err.text, words);
    tokenizer_close(t);
}

#define MODEL_IS(model, words) parse_model(model, sizeof(model) - 1, words)

TEST(wrong_models)
{
    MODEL_IS(UNK "\n\x03\n\x01z" TRAINER NORMAL, NULL);
    MODEL_IS("x\n", "'t.model' unsupported SentencePiece tokenizer.json");
    MODEL_IS(UNK TRAINER "\x1a\x03\x20\x00", "'t.model' unsupported");
    MODEL_IS(UNK "\x12\x02\x18\x01" NORMAL, "t.model: UNIGRAM BPE");
    MODEL_IS(UNK NORMAL, "t.model: UNIGRAM BPE");
    MODEL_IS(UNK TRAINER, "t.model: remove_extra_whitespaces");
    MODEL_IS(UNK TRAINER "\x1a\x05\x20\x00\x12\x01x", "t.model: precompiled_charsmap");
    MODEL_IS(UNK TRAINER "\x1a\x04\x20\x00\x28\x00", "t.model: escape_whitespaces");
    MODEL_IS(UNK "\x12\x05\x18\x02\xc0\x01\x01" NORMAL, "treat_whitespace_as_suffix");
    MODEL_IS("\n\x03\n\x01z" TRAINER NORMAL, "t.model: no piece unknown");
    MODEL_IS(UNK "\n\x02\n\x00" TRAINER NORMAL, "t.model: piece 1 UTF-8 1024");
    MODEL_IS(UNK "\n\x03\n\x01\xff" TRAINER NORMAL, "t.model: piece 1 UTF-8 1024");
    MODEL_IS(UNK "\n\x05\n\x01z\x18\x05" TRAINER NORMAL, "t.model: piece 1 type 5");
    MODEL_IS(UNK UNK TRAINER NORMAL, "t.model: piece 0 piece 1");
    MODEL_IS(UNK "\n\x03\n\x01z\n\x03\n\x01z" TRAINER NORMAL, "t.model: piece 1 piece 2");
    MODEL_IS(UNK "\n\x07\n\x03<s>\x18\x02" TRAINER NORMAL, "t.model: pieces 0 and 1 unknown");
    /* SentencePiece wants all bytes, spelled as it spells them, or none. */
    MODEL_IS(UNK "\n\x0a\n\x06<0x41>\x18\x06" TRAINER NORMAL, "t.model: 1 byte pieces none");
    MODEL_IS(UNK "\n\x0a\n\x06<0x41>\x18\x06"
                 "\x12\x05\x18\x02\x98\x02\x01" NORMAL,
             "t.model: 1 byte pieces 1 all 256");
    MODEL_IS(UNK "\n\x03\n\x01z\n\x04\n\x02zy" TRAINER NORMAL, "t.model: piece 2 'zy' 'y'");
}

/* Each byte piece of a model is "<0x00>" to "<0xFF>": with any other letter it is none. */
TEST(wrong_bytes)
{
    char *text = NULL;
    int64_t bytes = 0;
    int pieces = 0;

    assert_ok(io_read_text(DATA "sentencepiece.model", 1 << 20, &text, &bytes, &err));
    for (char *at = text; (at = memmem(at, (size_t)(text + bytes - at), "<0x", 3)); at += 6)
        for (int i = 0; i < 6; i++) {
            char kept = at[i];
            at[i] = i == 4 ? 'a' : 'g'; /* a small digit is none, either */
            parse_model(text, (size_t)bytes, "byte pieces");
            at[i] = kept;
            pieces += i == 0;
        }
    assert_int_equal(pieces, 256);
    mem_free(text);
}

/* No part of a file is a tokenizer, and each says so. */
TEST(cut_files)
{
    char *text = NULL;
    int64_t bytes = 0;

    assert_ok(io_read_text(DATA "llama2.json", 1 << 20, &text, &bytes, &err));
    for (int64_t n = 0; n < bytes - 2; n += n < 3000 ? 1 : 97) {
        struct tokenizer *t = NULL;
        char *part = mem_new((size_t)n + 1, 1);
        memcpy(part, text, (size_t)n);
        assert_refused(tokenizer_parse(&t, "cut", part, n, &err), "cut");
        mem_free(part);
    }
    mem_free(text);
}
