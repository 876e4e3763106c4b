# SPDX-License-Identifier: BSD-3-Clause
# JSON as other programs write it: a key that no one uses never decides, whatever its value.

load refuses

# odd FILE [KEY]: puts odd values into the object of FILE, under KEY (default: odd), which no one uses.
odd() {
    python3 -c 'import sys
path, key = sys.argv[1:]
text = open(path).read()
deep = "[" * 1000 + "]" * 1000
odd = ("{\"a\": 1000000000000000019884624838656, \"b\": 18446744073709551616, \"c\": [1e400, NaN, Infinity, "
       "-Infinity], \"d\": 1, \"d\": {\"x\": \"\\u0000\"}, \"e\": -9223372036854775809, \"f\": " + deep + "}")
at = text.index("{") + 1
open(path, "w").write(text[:at] + "\"" + key + "\": " + odd + ", " + text[at:])' "$1" "${2:-odd}"
}

setup_file() {
    local data=$ROOT/tests/data
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 3000 > text
    sed 's/"vocab_size": 256/"vocab_size": 1000/' "$ROOT/examples/models/llama-tiny.json" > large.json
    paro-shard init -m large.json -o model
    cp "$data/bpe/encoder.json" model/vocab.json
    cp "$data/bpe/vocab.bpe" model/merges.txt
    echo '{"model_max_length": 1000000000000000019884624838656, "eos_token": "<|endoftext|>"}' > model/tokenizer_config.json
    echo '{"eos_token_id": 0}' > model/generation_config.json
    paro-shard merge model --format gguf -o model.gguf
    cp -r model odd
    odd odd/config.json transformers_version
    odd odd/tokenizer_config.json
    odd odd/generation_config.json
    for m in model odd; do paro-plan -m "$m" -i synth:1x1 --seq 32 > "$m.yaml"; done
}

@test "config.json: what is not used may be anything" {
    grep '^[a-z]' "$G/odd.yaml" > is
    grep '^[a-z]' "$G/model.yaml" > want
    [ "$(wc -l < want)" -gt 10 ]
    diff is want
    sed 's/"hidden_size": [0-9]*/"hidden_size": 1000000000000000019884624838656/' "$G/large.json" > c.json
    refuses 2 "c.json:5: 'hidden_size' 1000000000000000019884624838656 whole number from 1" paro-plan -m c.json -i synth:1x1
    sed 's/"rms_norm_eps": [^,]*/"rms_norm_eps": NaN/' "$G/large.json" > c.json
    refuses 2 "c.json: 'rms_norm_eps' NaN number" paro-plan -m c.json -i synth:1x1
}

@test "tokenizer_config.json and generation_config.json as transformers writes them" {
    for m in model odd; do
        paro-train --tokenize "$m.tok" -d "$G/text" --tokenizer "$G/$m"
        paro-train "$G/$m.yaml" -d "$G/text" -o "run-$m" --init "$G/$m" --steps 1 > out
        paro-train --generate "12 13" --init "run-$m" --length 8 > "$m.out"
    done
    cmp model.tok odd.tok
    cmp model.out odd.out
    cp -r "$G/model" m
    echo '{"eos_token_id": 18446744073709551616}' > m/generation_config.json
    refuses 2 "m/generation_config.json:1: 'eos_token_id' 18446744073709551616 whole" paro-train --tokenize no -d "$G/text" --tokenizer m
    echo '{"tokenizer_class": "GPT2Tokenizer", "tokenizer_class": "Other"}' > m/tokenizer_config.json
    refuses 2 "m/tokenizer_config.json 'tokenizer_class' given twice" \
        paro-train "$G/model.yaml" -d "$G/text" -o no --init m --steps 1
}

@test "GGUF: the same file from a folder with odd keys" {
    paro-shard merge "$G/odd" --format gguf -o odd.gguf
    cmp odd.gguf "$G/model.gguf"
}

@test "model.safetensors.index.json: odd metadata" {
    cp -r "$G/model" cut
    python3 -c 'import json, struct
raw = open("cut/model.safetensors", "rb").read()
head = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
head.pop("__metadata__", None)
json.dump({"metadata": {}, "weight_map": {k: "part.safetensors" for k in head}},
          open("cut/model.safetensors.index.json", "w"))'
    mv cut/model.safetensors cut/part.safetensors
    odd cut/model.safetensors.index.json
    paro-shard diff cut "$G/model"
}

@test "adapter_config.json: odd values in keys without effect" {
    local data=$ROOT/tests/data/peft_gpt2
    cp -r "$data/adapter" adapter
    odd adapter/adapter_config.json revision
    paro-plan -m "$data" -i synth:2x2 --trainable lora=2,alpha=5,targets=c_attn+mlp.c_proj > plan.yaml
    paro-shard split "$data" -p plan.yaml --adapter adapter -o ckpt
    sed 's/"r": 2/"r": 1e400/' "$data/adapter/adapter_config.json" > adapter/adapter_config.json
    refuses 2 "adapter_config.json 'r' beyond number" paro-shard split "$data" -p plan.yaml --adapter adapter -o no
}

@test "conversations: odd values in keys that no one reads" {
    echo '{"text": "hello"}' > a.jsonl
    cp a.jsonl b.jsonl
    odd b.jsonl
    for f in a b; do paro-train --tokenize "$f.bin" -d "$f.jsonl" --tokenizer "$G/model"; done
    cmp a.bin b.bin
}

@test "a trace of PyTorch and a flight recorder: odd values in keys that no one reads" {
    local f
    printf '{"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [\n%s\n]}\n' \
        '{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 1.5, "dur": 2, "args": {"Collective name": "allreduce", "In msg nelems": 4}}' > t.json
    printf '{"version": "2.4", "entries": [], "pg_config": {}}\n' > r.json
    for f in t r; do
        cp $f.json $f.odd.json
        odd $f.odd.json
        horing-watch $f.json > is 2>&1 || true
        horing-watch $f.odd.json > want 2>&1 || true
        sed "s/$f.odd/$f/" want | diff is -
    done
}
