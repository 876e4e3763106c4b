#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says what tokens the tokenizers library makes of texts that are hard to cut into words.

    python3 -m venv DIR && DIR/bin/pip install tokenizers
    DIR/bin/python tests/reference/dump_bpe.py tests/data/bpe            trains a small vocabulary there
    DIR/bin/python tests/reference/dump_bpe.py tests/data/bpe GPT2       and dumps by GPT-2's too

GPT2: a folder with gpt2-encoder.json and gpt2-vocab.bpe.  Written are encoder.json and vocab.bpe
(small ones, of a thousand tokens, trained on a licence that Debian has and on the texts), small.dump
and gpt2.dump: a line a text, its bytes in hexadecimal and, behind a blank each, its tokens.
tests/unit/bpe_test.c reads them.
"""
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
TEXTS = [
    "", " ", "  ", "\n", "\n\n", "a", " a", "a ", "a b", "a  b", "a   b", " a  b ", "hello world",
    "Hello, World! It's 2024.", "I'm you're he's we'll they've I'd don't can't",
    "I'M YOU'RE HE'S WE'LL THEY'VE I'D DON'T", "'s 't 're 've 'm 'll 'd", "''s '''s 's's", "it 's",
    "rock'n'roll o'clock 'tis 'twas '90s", "x'", "'", "'l", "'r", "'v", "\u2019s it\u2019s",
    "int main(void)\n{\n    return x[i++] != 0 ? a->b : ~c;\n}\n", "\tif (x)\n\t\ty();\n",
    "#include <stdio.h>  /* c */", "a\tb\t\tc", "a\r\nb\r\n\r\nc", "   leading", "trailing   ",
    "line \n next", "line\n   next", " \n \n ", "\n \n", "\t \t", "\x0b\x0c", "a\x00b\x00", "\x01\x02\x7f",
    "a\x1cb\x1d \x1e\x1f", "a\x85b", "a\u00a0b", "a\u00a0\u00a0 b", "\u00a0", "a\u2003b\u2003 c",
    "a\u3000b", "a\u1680b", "a\u180eb \u180e", "a\u200bb", "a\u200db", "a\u2060b", "\ufeffa", "a\u2028b\u2029c",
    "a\u202fb", "a\u205fb", "0123456789", "1 22 333 4444", "3.14159 -2e10 0x7f", "\u0661\u0662\u0663",
    "\u00b2\u00b3\u00b9 \u00bd \u2167 \u2460", "\u0967\u0968 x\u0969", "caf\u00e9 na\u00efve \u00fcber stra\u00dfe",
    "cafe\u0301 e\u0301\u0302 a\u0308", "\u0301", " \u0301a", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f \u4e16\u754c",
    "\uc548\ub155\ud558\uc138\uc694", "\U0001f600", "a\U0001f600b \U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd", "\U00020000\U0002a6d6 x", "\U0001d400\U0001d7d8", "\ue000\U0010fffd", "\ufffd\ufffe",
    "\u01c5\u02b0\u00aa\u00ba", "_a __b__ a_b", "a-b--c---d", "...!!!???", " ... ", "$100 \u20ac50 \u00a33 %20 &amp;",
    "https://example.org/a?b=c&d=%20e#f", "user@example.org", "a/b\\c|d", "\u201cquoted\u201d \u2018x\u2019 \u2014 \u2026",
    "x\u00d7y\u00f7z \u2211 \u221e \u2260", "\u2190\u2192\u2191\u2193", "\u00ad soft\u00adhyphen", "A" * 50, " " * 50 + "x", "ab" * 40, "\n" * 20,
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    END, "a" + END + "b", "a " + END + " b", END + END, "<|endoftext|", "|endoftext|>", "<|endof<|endoftext|>text|>",
    "<|im_start|>x",
]
PIECES = ["a", "the", "ing", "I", "'s", "'", " ", "  ", "\n", "\t", "1", "23", "\u00e9", "e\u0301", "\u4e16", "\U0001f600",
          "\u00a0", "\u200d", ".", ", ", "-", "_", "\u0661", "\u00bd", "\u2003", "''ll", END, "Z", "\u0416", "\r\n", "\x00", "\u0300"]


# Unicode's spaces and what looks like them: beside a blank, a letter and a mark.
SPACES = [0x09, 0x0b, 0x1c, 0x1f, 0x20, 0x85, 0xa0, 0x1680, 0x180e, *range(0x2000, 0x200d), 0x2028, 0x2029, 0x202f,
          0x205f, 0x2060, 0x3000, 0xfeff]


def texts():
    draw = random.Random(1)
    return TEXTS + [f"a {chr(c)}!{chr(c)}{chr(c)}.{chr(c)}{chr(c)}b " for c in SPACES] + ["".join(draw.choices(PIECES, k=draw.randrange(2, 16))) for _ in range(150)]


def tokenizer(vocab, merges):
    t = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([END])
    return t


def train(folder):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as f:
        # A blank and the first byte of many spaces are a merge of GPT-2's: they have to be one here.
        blanks = "".join(f" {chr(c)}" for c in [*range(0xa1, 0xc0), *range(0x1800, 0x2000, 32),
                                                *range(0x2100, 0x4000, 64)]) * 20
        t.train_from_iterator([f.read(), blanks, *(x for x in texts() * 3 if END not in x)], trainer)
    for path in t.model.save(str(folder)):
        path = pathlib.Path(path)
        path.rename(folder / {"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"}[path.name])


def dump(path, t):
    with open(path, "w", encoding="ascii") as f:
        for text in texts():
            ids = t.encode(text).ids
            assert t.decode(ids, skip_special_tokens=False) == text, text
            f.write(" ".join([text.encode().hex() or "-", *map(str, ids)]) + "\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: dump_bpe.py FOLDER [GPT2]")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    train(folder)
    dump(folder / "small.dump", tokenizer(folder / "encoder.json", folder / "vocab.bpe"))
    if len(sys.argv) == 3:
        gpt2 = pathlib.Path(sys.argv[2])
        dump(folder / "gpt2.dump", tokenizer(gpt2 / "gpt2-encoder.json", gpt2 / "gpt2-vocab.bpe"))


if __name__ == "__main__":
    main()
