#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes small tokenizers of the kinds in use, and says what tokens other libraries make of texts.

    python3 -m venv DIR && DIR/bin/pip install tokenizers sentencepiece
    DIR/bin/python tests/reference/dump_tokenizer.py tests/data/tokenizer

Written are NAME.json of the tokenizers library, and sentencepiece.model of SentencePiece, trained on a licence that Debian has and on the texts below, and NAME.dump, which
tests/unit/tokenizer_test.c reads: for each of 10,000 texts four digits, the end of a hash (FNV-1a, 64 bits) of
its tokens, of those with the special tokens as text (four bytes each, the lowest first), and of what the former
decode to.  SentencePiece takes special tokens as text in both.  Every third text has what the post-processor adds.  The texts are made from their number, by a generator
that the test has too, of the pieces and ranges in pieces.txt.
"""
import io
import json
import pathlib
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = 10000
MASK = (1 << 64) - 1
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN35 = LLAMA3.replace("{1,3}", "").replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}", r"\s\p{L}\p{M}\p{N}")
UPPER, LOWER = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]")
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?" + letters + r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                  for letters in (UPPER + "*" + LOWER + "+", UPPER + "+" + LOWER + "*")]
                 + [r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"])
PIECES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u0085", "\u2028", " \n", "\x0b",
          "\u180e", "\u200b", "\ufeff", "'s", "'S", "'re", "'LL", "'\u017f", "''", "1", "22", "333", "4444", "\u0663", "\u00bd",
          "\u2167", "-", "--", "...", "?!", "\u2581", "\u2581\u2581", "<0x0A>", "<unk>", "<s>", "</s>", "Hello", "the", " world", "n't",
          "\u00e9", "e\u0301", "\u00f1", "\uac00", "\u1100", "\u1161", "\u11a8", "\u0915\u094d\u0937\u093f", "\U0001f468\u200d\U0001f469",
          "\U0001f1e9\U0001f1ea", "\U0001f600", "\u4e2d\u6587", "\uff0c", "\u3002", "\u65e5\u672c\u8a9e", "\u041f\u0440\u0438\u0432\u0435\u0442",
          "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "_", "a_b", "http://x.y/z?a=1&b=2",
          "\x7f", "\ufffd", "int main(void)\n{\n    return x[i++] != 0 ? a->b : ~c;\n}\n", "  /* c */", "<|im_start|>",
          "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<tool_call>", "It's", "QUICK", "brown", "\u212b", "\u0958"]
RANGES = [(0x20, 0x7f), (0xa0, 0x250), (0x300, 0x370), (0x391, 0x3ca), (0x400, 0x482), (0x5d0, 0x5eb), (0x621, 0x64b),
          (0x905, 0x93a), (0xe01, 0xe31), (0x10d0, 0x10f6), (0x1100, 0x1200), (0x1e00, 0x1ef0), (0x2010, 0x2028), (0x2190, 0x2400),
          (0x2460, 0x24ff), (0x2600, 0x2700), (0x3041, 0x3097), (0x30a1, 0x30fb), (0x3400, 0x3500), (0x4e00, 0x9f00),
          (0xac00, 0xd7a4), (0xf900, 0xfa00), (0xff01, 0xff5f), (0x1f300, 0x1f580), (0x1d400, 0x1d454), (0x20000, 0x20100)]


class Random:
    """Knuth's MMIX generator; the high bits."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % n


def text(index):
    r, out = Random(index), b""
    for _ in range(1 + r.below(30)):
        kind = r.below(8)
        if kind == 0:
            lo, hi = RANGES[r.below(len(RANGES))]
            out += chr(lo + r.below(hi - lo)).encode()
        elif kind == 1:
            out += bytes([r.below(0x80)])
        else:
            out += PIECES[r.below(len(PIECES))].encode()
    return out.decode()


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = ((h ^ b) * 0x100000001b3) & MASK
    return h


def byte_level(name, split, normalizer, special, ignore):
    t = Tokenizer(models.BPE(ignore_merges=ignore))
    if normalizer:
        t.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "smollm")
    t.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(corpus(), trainer)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("QUICK", lstrip=True, rstrip=True),
                  AddedToken("brown", single_word=True)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single=special[0] + " $A", special_tokens=[(special[0], t.token_to_id(special[0]))])])
    return t


def sentence_piece(name):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trained.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, limit_alphabet=120,
                                                             special_tokens=special))
    if name == "llama2":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    elif name == "mistral":
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Replace(" ", "\u2581")
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    t.decoder = decoders.Sequence(steps + ([] if name == "gemma" else [decoders.Strip(" ", 1, 0)]))
    tree, model = json.loads(t.to_str()), json.loads(trained.to_str())["model"]
    tree["model"]["vocab"] = model["vocab"]
    tree["model"]["merges"] = [" ".join(m) for m in model["merges"]] if name == "llama2" else model["merges"]
    tree["added_tokens"] = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": i == 2,
                             "normalized": False, "special": True} for i, s in enumerate(special[:3])]
    t = Tokenizer.from_str(json.dumps(tree))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t, name == "llama2"


def corpus():
    yield pathlib.Path("/usr/share/common-licenses/Apache-2.0").read_text()
    for i in range(0, TEXTS, 20):
        yield text(i)


def write(folder, name, t, old=False):
    tree = json.loads(t.to_str())
    if old:  # as before merges were pairs
        tree["model"]["merges"] = [" ".join(m) for m in tree["model"]["merges"]]
    (folder / f"{name}.json").write_text(json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(folder / f"{name}.dump", "w") as f:
        for i in range(TEXTS):
            s = text(i)
            t.encode_special_tokens = False
            ids = t.encode(s, add_special_tokens=i % 3 == 0).ids
            t.encode_special_tokens = True
            plain = t.encode(s, add_special_tokens=False).ids
            decoded = t.decode(ids, skip_special_tokens=False).encode()
            put_hash(f, ids + plain, decoded)
        f.write("\n")


def put_hash(f, ids, decoded):
    h = fnv(b"".join(x.to_bytes(4, "little") for x in ids) + decoded)
    f.write(f"{h & 0xffff:04x}")


def write_sentencepiece(folder):
    out = io.BytesIO()
    lines = (line for part in corpus() for line in part.split("\n") if line.strip("\0"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line.replace("\0", "") for line in lines), model_writer=out, vocab_size=900, model_type="bpe",
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        byte_fallback=True, split_digits=True, user_defined_symbols=["<tool_call>", "QUICK", "<|im"], num_threads=1,
        minloglevel=2)
    (folder / "sentencepiece.model").write_bytes(out.getvalue())
    t = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    with open(folder / "sentencepiece.dump", "w") as f:
        for i in range(TEXTS):
            plain = t.encode(text(i))
            wrapped = i % 3 == 0
            put_hash(f, [t.bos_id()] * wrapped + plain + plain, b"<s> " * wrapped + t.decode(plain).encode())
        f.write("\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    with open(folder / "pieces.txt", "w") as f:
        f.writelines(p.encode().hex() + "\n" for p in PIECES)
        f.writelines(f"{lo} {hi}\n" for lo, hi in RANGES)
    llama3 = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    qwen2 = pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated")
    chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    write(folder, "llama3", byte_level("llama3", llama3, None, ["<|begin_of_text|>", "<|eot_id|>"], True))
    write(folder, "qwen2", byte_level("qwen2", qwen2, normalizers.NFC(), chat, False))
    write(folder, "smollm", byte_level("smollm", pre_tokenizers.Digits(individual_digits=True), None, chat, False))
    write(folder, "qwen35", byte_level("qwen35", pre_tokenizers.Split(Regex(QWEN35), "isolated"), normalizers.NFC(), chat, False))
    write(folder, "o200k", byte_level("o200k", pre_tokenizers.Split(Regex(O200K), "isolated"), None, chat, True))
    for name in ("llama2", "mistral", "gemma"):
        write(folder, name, *sentence_piece(name))
    write_sentencepiece(folder)


if __name__ == "__main__":
    main()
