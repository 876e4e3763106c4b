# SPDX-License-Identifier: BSD-3-Clause
# paro-shard merge --format gguf: the same bytes as Python's gguf package writes, of folders and of
# checkpoints; what has no such form; places that cannot be written.

load shard
load mounts
load swap

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    chmod 755 .
    varied_model "$ROOT/examples/models/llama-tiny.json" model
    paro-plan -m model -i 'synth:[2,1]' --strategy GGI > plan.yaml
    paro-shard split model -p plan.yaml -o ckpt
    paro-shard merge model --format gguf -o f32.gguf 2> said
}

# gguf WORDS...: paro-shard merge into a GGUF file; of these models without a tokenizer.
gguf() { paro-shard merge --format gguf "$@"; }
without() {
    gguf "$@" 2> said
    one_line "no tokenizer, so none"
}

@test "gguf: every family and type, byte for byte as Python's gguf package writes them" {
    local sum name model
    while read -r sum name; do
        model=$(basename "${name%.*}")
        if [ ! -e "$model" ]; then
            varied_model "$ROOT/${name%.*}.json" "$model"
        fi
        gguf "$model" --type "${name##*.}" -o x.gguf --force 2>> said
        echo "$sum  x.gguf" | sha256sum -c --quiet || { echo "$name"; return 1; }
    done < "$ROOT/tests/data/gguf.sha256"
    grep -q "matrices are f16 instead of q8_0, since 32 does not divide their rows" said
}

@test "gguf: of a checkpoint, of one with a damaged block and a copy, and in small bands" {
    without "$G/ckpt" -o a.gguf
    cmp a.gguf "$G/f32.gguf"
    without "$G/ckpt" --buffer 1 -o b.gguf
    cmp b.gguf "$G/f32.gguf"
    paro-shard split "$G/model" -p "$G/plan.yaml" --copies 1 -o copies
    flip copies/shard-00001.safetensors 9000
    gguf copies -o c.gguf 2> said
    grep -q "1 block and 0 other files were read from copies" said
    cmp c.gguf "$G/f32.gguf"
    flip copies/shard-00002.copy-00001.safetensors 9000 || true
    cp -r "$G/ckpt" hurt
    flip hurt/shard-00001.safetensors 9000
    refuses 2 "hurt/shard-00001.safetensors checksum" gguf hurt -o d.gguf
    [ ! -e d.gguf ]
}

@test "gguf: adapters that are fused, and sparse matrices" {
    paro-plan -m "$G/model" --trainable lora=4,alpha=8 -i synth:2x1 > lora.yaml
    paro-shard split "$G/model" -p lora.yaml -o lora
    refuses 2 "'lora' adapters --fuse" gguf lora -o x.gguf
    paro-shard merge lora --fuse -o whole
    without whole -o a.gguf
    without lora --fuse -o b.gguf
    cmp a.gguf b.gguf
    gguf whole --type q8_0 -o a8.gguf 2> said
    gguf lora --fuse --type q8_0 -o b8.gguf 2> said
    cmp a8.gguf b8.gguf
}

# rope NAME KEYS: folder rope of the model in tests/data/NAME.json with these rope_scaling.
rope() {
    rm -rf rope
    python3 - "$ROOT/tests/data/$1.json" "$2" <<'PY' > rope.json
import json, sys
c = json.load(open(sys.argv[1]))
c.pop("rope_parameters", None)
c["rope_scaling"] = json.loads('{"rope_type": ' + sys.argv[2] + "}")
json.dump(c, sys.stdout, indent=1)
PY
    paro-shard init -m rope.json -o rope
}

@test "gguf: what has no such form is refused by name" {
    refuses 2 "'$G/model' no adapters" gguf "$G/model" --fuse -o x.gguf
    refuses 2 "type f64 expected --type f32, f16, bf16 or q8_0" gguf "$G/model" --type f64 -o x.gguf
    refuses 2 "--max-shard --format gguf" gguf "$G/model" --max-shard 1M -o x.gguf
    refuses 2 "--type q8_0 --format gguf" paro-shard merge "$G/ckpt" --type q8_0 -o x
    refuses 2 "'$G/model' manifest.json" paro-shard merge "$G/model" -o x
    paro-shard init -m "$ROOT/tests/data/llama_yarn.json" -o yarn
    refuses 2 "yarn beta_fast 2 llama.cpp 32" gguf yarn -o x.gguf
    rope llama_untied '"longrope", "short_factor": [1, 1, 1, 1, 1, 2], "long_factor": [1, 1, 1, 2, 3, 4], "original_max_position_embeddings": 32'
    refuses 2 "longrope llama phi3 alone" gguf rope -o x.gguf
    rope qwen3 '"llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32'
    refuses 2 "llama3 qwen3 llama alone" gguf rope -o x.gguf
    paro-shard init -m "$ROOT/tests/data/smollm3.json" -o nope
    refuses 2 "layer 0 smollm3 kind 0 every 4th layer no other kind 0" gguf nope -o x.gguf
    cp -r "$G/model" bad
    printf '\0\0\300\177' | dd of=bad/model.safetensors bs=1 conv=notrunc 2> dd.log \
        seek=$(($(stat -c %s bad/model.safetensors) - 4))
    refuses 2 "elements 32736 q8_0 infinite, NaN" gguf bad --type q8_0 -o x.gguf
    gguf bad --type f16 -o nan.gguf 2> said
    one_line "'bad' no tokenizer"
    rm bad/config.json
    refuses 2 "config.json" gguf bad -o x.gguf
    [ ! -e x.gguf ] && [ ! -e .x.gguf.paro-tmp ]
}

@test "gguf: a link out of the folder, of weights, tokenizer or template, is refused" {
    local name
    echo '{{ secret }}' > secret
    for name in model.safetensors chat_template.jinja tokenizer_config.json; do
        rm -rf linked
        cp -r "$G/model" linked
        [ ! -e "linked/$name" ] || mv "linked/$name" secret
        ln -s ../secret "linked/$name"
        refuses 2 "linked/$name symbolic link out" gguf linked -o x.gguf
    done
    refuses 2 "linked/tokenizer_config.json symbolic link out" gguf linked/model.safetensors -o x.gguf
    [ ! -e x.gguf ]
}

@test "gguf: of a checkpoint only files that its manifest has are read" {
    local name
    echo '{"chat_template": "secret"}' > secret
    for name in chat_template.jinja chat_template.json tokenizer_config.json tokenizer.json; do
        rm -rf odd
        cp -r "$G/ckpt" odd
        mkdir -p odd/source/files
        ln -s ../../../secret "odd/source/files/$name"
        refuses 2 "'odd/source/files/$name' not in the manifest" gguf odd -o y.gguf
        refuses 2 "'odd/source/files/$name' not in the manifest" paro-train --generate a --init odd
        rm "odd/source/files/$name"
        echo '{}' > "odd/source/files/$name"
        refuses 2 "'odd/source/files/$name' not in the manifest" gguf odd -o y.gguf
    done
    [ ! -e y.gguf ]
}

@test "gguf: --force does not replace what is read" {
    cp -r "$G/model" own
    refuses 2 "'own/model.safetensors' inside 'own'" gguf own -o own/model.safetensors --force
    refuses 2 "'own/x.gguf' inside 'own'" gguf own -o own/x.gguf
    refuses 2 "'own/../own/model.safetensors' what is read" \
        gguf own/model.safetensors -o own/../own/model.safetensors --force
    ln -s own/model.safetensors link
    refuses 2 "'own/model.safetensors' what is read" gguf link -o own/model.safetensors --force
    diff -r own "$G/model"
}

@test "gguf: an existing file, a folder in its place, no permission, a full disk" {
    echo kept > old.gguf
    refuses 2 "'old.gguf' exists --force" gguf "$G/model" -o old.gguf
    [ "$(cat old.gguf)" = kept ]
    without "$G/model" -o old.gguf --force
    cmp old.gguf "$G/f32.gguf"
    mkdir folder.gguf
    refuses 2 "'folder.gguf' not a regular file" gguf "$G/model" -o folder.gguf --force
    refuses 2 "'/dev/full' not a regular file" gguf "$G/model" -o /dev/full --force
    refuses 2 "nowhere/.x.gguf No such file" gguf "$G/model" -o nowhere/x.gguf
    run -2 bash -c "ulimit -f 100; exec paro-shard merge --format gguf '$G/model' -o small.gguf"
    has_words "$output" "File too large"
    [ ! -e small.gguf ]
    open_place
    cp -r "$G/model" .
    cp "$BIN/paro-shard" .
    run_as_user ./paro-shard ls model || skip "others cannot come to $PWD"
    mkdir -m 555 locked
    refuses 2 "locked/.x.gguf.paro-tmp Permission" run_as_user ./paro-shard merge --format gguf \
        model -o locked/x.gguf
}

@test "gguf: a full disk, and SIGTERM, leave nothing" {
    # shellcheck disable=SC2016 # its own shell's
    small_disk 'paro-shard merge --format gguf "$1" -o full/x.gguf' 'ls -A full > listed'
    run -2 "${ALONE[@]}" sh inside 1m "$G/model"
    has_words "$output" "No space left"
    [ ! -s listed ]
    paro-shard init -m "$ROOT/examples/models/stories-15m.json" -o large
    paro-shard merge --format gguf --type q8_0 large -o x.gguf 2> said &
    soon test -e .x.gguf.paro-tmp -o -e x.gguf # a quick one has ended
    kill -TERM $! 2> gone || true # it may have ended
    local rc=0
    wait $! || rc=$?
    [ "$rc" = 143 ] || [ "$rc" = 0 ]
    [ "$rc" = 0 ] || [ ! -e x.gguf ]
    [ ! -e .x.gguf.paro-tmp ]
}

# model_of VOCAB FOLDER: a model with so many tokens.
model_of() {
    sed -E "s/(\"vocab_size\": *)[0-9]+/\1$1/" "$ROOT/examples/models/llama-tiny.json" > config.json
    paro-shard init -m config.json -o "$2"
}

@test "gguf: GPT-2's tokenizer, padded to the model's vocabulary" {
    model_of 1010 gpt2
    cp "$ROOT"/tests/data/bpe/{encoder.json,vocab.bpe} gpt2
    quiet gguf gpt2 -o x.gguf
    python3 "$BATS_TEST_DIRNAME/gguf_keys.py" x.gguf > keys.json
    python3 - <<'PY'
import json
keys = {k[len("tokenizer.ggml."):]: v for k, v in json.load(open("keys.json")).items() if k.startswith("tokenizer.ggml.")}
vocab = json.load(open("gpt2/encoder.json"))
merges = open("gpt2/vocab.bpe").read().splitlines()[1:]
tokens = sorted(vocab, key=vocab.get)
assert (keys["model"], keys["pre"]) == ("gpt2", "gpt-2")
assert keys["tokens"] == tokens + [f"[PAD{i}]" for i in range(len(tokens), 1010)]
assert keys["merges"] == merges
end = vocab["<|endoftext|>"]
assert [i for i, t in enumerate(keys["token_type"]) if t != 1] == [end, *range(len(tokens), 1010)]
assert keys["token_type"][end] == 3 and keys["token_type"][-1] == 5
assert keys["eos_token_id"] == end and keys["add_bos_token"] is False
PY
    # The checkpoint has it as well; a model with fewer tokens is another's.
    paro-plan -m gpt2 -i synth:2x1 > plan.yaml 2> said
    paro-shard split gpt2 -p plan.yaml -o ckpt
    quiet gguf ckpt -o y.gguf
    cmp x.gguf y.gguf
    model_of 100 few
    cp gpt2/encoder.json gpt2/vocab.bpe few
    refuses 2 "tokenizer 'few' tokens model 100" gguf few -o z.gguf
}

@test "gguf: a SentencePiece tokenizer: scores by merges, bytes, special tokens, a chat template" {
    model_of 300 spm
    python3 - <<'PY'
import json
words = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581", "a", "b", "c", "ab", "\u2581ab", "abc"]
vocab = {w: i for i, w in enumerate(words)}
added = [{"id": i, "content": words[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False,
          "normalized": False} for i in range(3)]
added.append({**added[0], "id": len(words), "content": "<user>", "special": False})
space = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
         {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": space,
           "pre_tokenizer": None, "post_processor": {"type": "TemplateProcessing",
               "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
           "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
               {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
           "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                     "vocab": vocab, "merges": ["a b", "\u2581 ab", "ab c"]}}, open("spm/tokenizer.json", "w"))
json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": {"content": "<unk>"}, "pad_token": "</s>",
           "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": "{{ x }}"}]},
          open("spm/tokenizer_config.json", "w"))
PY
    quiet gguf spm -o x.gguf
    python3 "$BATS_TEST_DIRNAME/gguf_keys.py" x.gguf > keys.json
    python3 - <<'PY'
import json
all = json.load(open("keys.json"))
keys = {k[len("tokenizer.ggml."):]: v for k, v in all.items() if k.startswith("tokenizer.ggml.")}
assert (keys["model"], keys["pre"], keys["add_space_prefix"]) == ("llama", "default", True)
score = dict(zip(keys["tokens"], keys["scores"]))
assert (score["ab"], score["\u2581ab"], score["abc"], score["a"]) == (0, -1, -2, -3), score
kind = dict(zip(keys["tokens"], keys["token_type"]))
assert [kind[t] for t in ("<unk>", "<s>", "<0x41>", "ab", "<user>", "[PAD299]")] == [2, 3, 6, 1, 4, 5]
assert (keys["bos_token_id"], keys["eos_token_id"], keys["unknown_token_id"], keys["padding_token_id"]) == (1, 2, 0, 2)
assert keys["add_bos_token"] is True and keys["add_eos_token"] is False and "merges" not in keys
assert all["tokenizer.chat_template"] == "{{ x }}"
PY
    echo '{"chat_template": "by json"}' > spm/chat_template.json
    gguf spm -o x.gguf --force
    python3 "$BATS_TEST_DIRNAME/gguf_keys.py" x.gguf | grep -q '"tokenizer.chat_template": "by json"'
    echo 'by jinja' > spm/chat_template.jinja
    gguf spm -o x.gguf --force
    python3 "$BATS_TEST_DIRNAME/gguf_keys.py" x.gguf | grep -q '"tokenizer.chat_template": "by jinja'
    echo '{' > spm/tokenizer_config.json
    refuses 2 tokenizer_config.json gguf spm -o y.gguf
}

@test "gguf: a tokenizer.model: equal scores stay equal" {
    model_of 300 spm
    python3 - <<'PY'
import struct
def field(number, data): return bytes([number << 3 | 2, len(data)]) + data
def piece(text, score, kind): return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))
scores = {"a": -9, "b": -9, "c": -9, "\u2581": -9, "ab": 0, "bc": 0, "\u2581a": -1}
with open("spm/tokenizer.model", "wb") as f: # BPE, bytes as the fallback, spaces are kept
    f.write(piece("<unk>", 0, 2) + b"".join(piece(f"<0x{i:02X}>", 0, 6) for i in range(256)) +
            b"".join(piece(text, s, 1) for text, s in scores.items()) +
            field(2, b"\x18\x02\x98\x02\x01") + field(3, b"\x20\x00"))
PY
    quiet gguf spm -o x.gguf
    python3 "$BATS_TEST_DIRNAME/gguf_keys.py" x.gguf > keys.json
    python3 -c 'import json
k = json.load(open("keys.json"))
score = dict(zip(k["tokenizer.ggml.tokens"], k["tokenizer.ggml.scores"]))
assert score["ab"] == score["bc"] > score["\u2581a"] > score["a"] == score["c"]'
}

@test "gguf: a file that becomes a link out of the folder while it is read" {
    build_swap
    local name after swapped=0
    model_of 1010 model
    cp "$ROOT"/tests/data/bpe/{encoder.json,vocab.bpe} model
    echo '{{ own }}' > model/chat_template.jinja
    echo '{"chat_template": "{{ own }}"}' > model/tokenizer_config.json
    paro-plan -m model -i synth:1x1 > plan.yaml 2> said
    paro-shard split model -p plan.yaml -o ckpt
    cp -r model plain
    rm plain/chat_template.jinja
    echo '{"chat_template": "{{ secret }}"}' > secret
    for name in model/chat_template.jinja plain/tokenizer_config.json ckpt/source/files/chat_template.jinja; do
        for after in 1 2 3 4; do
            rm -rf now x.gguf
            cp -r "${name%%/*}" now
            ln -sfn "$PWD/secret" evil
            SWAP=now/${name#*/} AFTER=$after LD_PRELOAD=$PWD/swap.so gguf now -o x.gguf > out 2> said || true
            [ -L evil ] || swapped=$((swapped + 1))
            run ! grep -aqs secret x.gguf
        done
    done
    [ "$swapped" -ge 6 ]
    # The weights that are checked are those that were opened.
    cp -r "$G/model" now2
    cp "$G/model/model.safetensors" other
    rm -f evil
    mv other evil
    SWAP=now2/model.safetensors AFTER=1 LD_PRELOAD=$PWD/swap.so refuses 2 \
        "'now2/model.safetensors' changed while it was read" gguf now2 -o y.gguf
}
