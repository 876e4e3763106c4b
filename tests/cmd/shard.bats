# SPDX-License-Identifier: BSD-3-Clause
# paro-shard: round trips, every kind of damage by name, hostile input, memory.

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    paro-plan -m model/config.json -i synth:2x2 --strategy IIG > plan.yaml
    paro-plan -m model/config.json -i 'synth:[3,2]' --strategy GGG > ragged.yaml
    echo 'not read, kept' > model/tokenizer.txt
    mkdir -p model/sub/deep
    : > model/sub/deep/empty
    paro-shard split model -p plan.yaml -o ckpt
}

@test "init: the same seed gives the same bytes, another seed others" {
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o a
    cmp a/model.safetensors "$G/model/model.safetensors"
    cmp a/config.json "$MODELS/llama-tiny.json"
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 2 -o b
    run -1 cmp a/model.safetensors b/model.safetensors
    # A golden sum: the values are part of the contract, on every machine the same.
    sha256sum < a/model.safetensors | grep -q "^$(cat "$ROOT/tests/data/llama-tiny-seed1.sha256")"
}

@test "init: bf16 weights are the f32 ones rounded" {
    sed 's/float32/bfloat16/' "$MODELS/llama-tiny.json" > half.json
    paro-shard init -m half.json -o half
    paro-shard ls half | grep -q 'model.norm.weight *BF16 \[128\]'
    [ "$(stat -c %s half/model.safetensors)" -lt 1600000 ]
}

@test "split, merge: byte for byte, equal and ragged, other files too" {
    quiet paro-shard verify "$G/ckpt"
    quiet paro-shard verify --quick "$G/ckpt"
    quiet paro-shard merge "$G/ckpt" -o back
    diff -r "$G/model" back
    quiet paro-shard split "$G/model/" -p "$G/ragged.yaml" -o ragged/
    [ "$(ls ragged)" = "$(printf '%s\n' config.json manifest.json shard-0000{0,1,2,3,4}.safetensors source)" ]
    quiet paro-shard merge ragged -o back2
    diff -r "$G/model" back2
    quiet paro-shard diff ragged "$G/ckpt"
}

@test "split: each block once, the shards as even as they can be" {
    paro-shard split "$G/model" -p "$G/ragged.yaml" -o ragged
    local least most total
    most=$(stat -c %s ragged/shard-* | sort -n | tail -n 1)
    least=$(stat -c %s ragged/shard-* | sort -n | head -n 1)
    total=$(stat -c %s ragged/shard-* | awk '{ s += $1 } END { print s }')
    # 6 units, each piece rounded by less than 2 elements for each of at most 4 segments.
    [ $((most - least)) -le $((6 * 4 * 2 * 4)) ]
    [ "$total" -lt $(($(stat -c %s "$G/model/model.safetensors") + 5 * 4096)) ]
}

@test "split: one file alone" {
    quiet paro-shard split "$G/model/model.safetensors" -p "$G/plan.yaml" -o one
    quiet paro-shard merge one -o back
    [ "$(ls back)" = model.safetensors ]
    cmp "$G/model/model.safetensors" back/model.safetensors
}

# Two weights files and an index, as transformers writes large models.
shard_folder() {
    python3 - "$G/model/model.safetensors" "$1" <<'EOF'
import json, os, struct, sys
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data = json.loads(raw[8:8 + n]), raw[8 + n:]
head.pop("__metadata__")
names, index = sorted(head), {}
os.mkdir(sys.argv[2])
for part in range(2):
    at, out, body = 0, {}, b""
    for name in names[part::2]:
        lo, hi = head[name]["data_offsets"]
        out[name] = dict(head[name], data_offsets=[at, at + hi - lo])
        at += hi - lo
        body += data[lo:hi]
        index[name] = f"model-{part + 1}.safetensors"
    text = json.dumps(out).encode()
    open(f"{sys.argv[2]}/model-{part + 1}.safetensors", "wb").write(
        struct.pack("<Q", len(text)) + text + body)
json.dump({"metadata": {}, "weight_map": index},
          open(f"{sys.argv[2]}/model.safetensors.index.json", "w"), indent=1)
EOF
    cp "$G/model/config.json" "$1"
}

@test "split, merge: several weights files and their index" {
    command -v python3 > /dev/null || skip "no python3 here"
    shard_folder parts
    quiet paro-shard diff parts "$G/model"
    quiet paro-shard split parts -p "$G/ragged.yaml" -o ckpt
    quiet paro-shard merge ckpt -o back
    diff -r parts back
    rm parts/model-2.safetensors
    refuses 2 "cannot open 'parts/model-2.safetensors': No such file" paro-shard split parts -p "$G/plan.yaml" -o no
    [ ! -e no ]
}

@test "split, merge: tied embeddings, half precision, more ranks than a norm has elements" {
    cat > tied.json <<'EOF'
{"model_type": "llama", "vocab_size": 31, "hidden_size": 6, "intermediate_size": 7,
 "num_hidden_layers": 2, "num_attention_heads": 3, "tie_word_embeddings": true,
 "torch_dtype": "float16"}
EOF
    paro-shard init -m tied.json -o tied
    paro-plan -m tied.json -i 'synth:[8,8,7]' > plan.yaml
    quiet paro-shard split tied -p plan.yaml -o ckpt
    quiet paro-shard verify ckpt
    quiet paro-shard merge ckpt -o back
    diff -r tied back
    paro-shard ls back | grep -q '^model.norm.weight *F16 \[6\]'
    run -1 grep -a lm_head back/model.safetensors
}

@test "split: a plan of a bare number of parameters has nothing to split" {
    paro-plan -m params=7e6 -i 'synth:2x2,memory=80e9' > plan.yaml
    refuses 2 "plan's model number of parameters, expected config.json" paro-shard split "$G/model" -p plan.yaml -o no
}

@test "an index that lies is refused" {
    command -v python3 > /dev/null || skip "no python3 here"
    shard_folder parts
    sed -i '/"lm_head.weight"/s/model-1/model-2/' parts/model.safetensors.index.json
    refuses 2 "parts/model.safetensors.index.json: 'lm_head.weight' 'model-1.safetensors' model-2.safetensors" \
        paro-shard ls parts
    sed -i '/"lm_head.weight"/{s/model-2/model-1/; h; s/lm_head/other/; s/,*$/,/; G}' parts/model.safetensors.index.json
    refuses 2 "index.json: 'other.weight' 'model-1.safetensors'" paro-shard ls parts
    sed -i '/"lm_head.weight"/s,model-1,../model-1,' parts/model.safetensors.index.json
    refuses 2 "index.json: 'lm_head.weight' ../model-1.safetensors" paro-shard ls parts
}

@test "verify: one flipped bit, named by tensor and elements" {
    cp -r "$G/ckpt" bad
    flip bad/shard-00002.safetensors 300000
    local what="bad/shard-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params [0, 41600) damaged checksum"
    finds "$what" paro-shard verify bad
    quiet paro-shard verify --quick bad
    refuses 2 "$what" paro-shard merge bad -o back
    [ "$(names)" = bad ]
    run -1 paro-shard verify --json bad
    echo "$output" | grep -q '"tensor":"model.layers.1.mlp.gate_proj.weight".*"ok":false}$'
}

@test "verify: all that is wrong is said" {
    cp -r "$G/ckpt" bad
    rm bad/shard-00001.safetensors bad/source/files/tokenizer.txt
    truncate -s -1 bad/shard-00000.safetensors
    flip bad/shard-00003.safetensors 12
    flip bad/source/headers/model.safetensors 3000
    run -1 --separate-stderr paro-shard verify bad
    [ "${#lines[@]}" = 5 ]
    [ -z "$stderr" ]
    has_words "$output" 'bad/shard-00000.safetensors: 792191 bytes, 792192
        bad/shard-00001.safetensors: missing
        bad/shard-00003.safetensors: header damaged
        bad/source/headers/model.safetensors: damaged checksum
        bad/source/files/tokenizer.txt No such file'
    refuses 2 'bad/source/headers/model.safetensors: damaged checksum' paro-shard merge bad -o back
}

@test "a manifest that is cut, changed or gone" {
    cp -r "$G/ckpt" bad
    truncate -s -10 bad/manifest.json
    finds 'bad/manifest.json: checksum' paro-shard verify bad
    cp "$G/ckpt/manifest.json" bad
    sed -i 's/"strategy":"IIG"/"strategy":"IIN"/' bad/manifest.json
    finds 'bad/manifest.json: damaged checksum' paro-shard verify bad
    rm bad/manifest.json
    refuses 2 "'bad' manifest.json checkpoint" paro-shard merge bad -o x
    rm bad/config.json
    cp "$G/ckpt/manifest.json" bad
    refuses 2 "cannot open 'bad/config.json': No such file" paro-shard merge bad -o x
}

@test "a folder that does not fit its config" {
    cp -r "$G/model" m
    sed -i 's/"intermediate_size": 344/"intermediate_size": 340/' m/config.json
    finds "m/model.safetensors: 'model.layers.0.mlp.gate_proj.weight' F32 [344, 128], expected F32 [340, 128]" \
        paro-shard verify m
    refuses 2 "m: 'intermediate_size' 340 config.json 344 plan" paro-shard split m -p "$G/plan.yaml" -o c
    sed 's/"num_hidden_layers": 4/"num_hidden_layers": 5/' "$G/model/config.json" > m/config.json
    finds "m: 'model.layers.4.self_attn.q_proj.weight' missing" paro-shard verify m
    sed 's/"num_hidden_layers": 4/"num_hidden_layers": 3/' "$G/model/config.json" > m/config.json
    finds "m/model.safetensors: 'model.layers.3. tensor config" paro-shard verify m
    sed 's/10000.0/500.0/' "$G/model/config.json" > m/config.json
    refuses 2 "m: 'rope_theta' 500 config.json 10000 plan" paro-shard split m -p "$G/plan.yaml" -o c
    [ "$(names)" = m ]
}

@test "diff: what, how many, how much" {
    cp -r "$G/model" m
    # The last element of lm_head, the last tensor: the sign.
    local size
    size=$(stat -c %s m/model.safetensors)
    printf '\x3f' | dd of=m/model.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2> dd.log
    finds 'lm_head.weight: 1 of 32768 first 32767' paro-shard diff "$G/ckpt" m
    run -1 paro-shard diff --json "$G/ckpt" m
    [[ "$output" == '{"schema":"paro.shard.diff/1","differences":[{"name":"lm_head.weight","what":"values",'*'"same":false}' ]]
    quiet paro-shard diff "$G/ckpt" "$G/model"
}

@test "ls: a checkpoint, a folder, JSON" {
    paro-shard ls "$G/ckpt" > out
    [ "$(head -n 1 out)" = 'checkpoint of 4 ranks (2x2), strategy IIG' ]
    [ "$(tail -n 1 out)" = '39 tensors, 3.02 MiB' ]
    grep -q '^model.layers.2.self_attn.k_proj.weight  *F32 \[64, 128\]  *32.0 KiB$' out
    paro-shard ls "$G/ckpt" | tail -n +2 | diff - <(paro-shard ls "$G/model")
    if command -v python3 > /dev/null; then
        paro-shard ls --json "$G/ckpt" | python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["schema"] == "paro.shard.ls/1" and d["kind"] == "checkpoint" and d["ranks"] == 4
assert d["bytes"] == sum(t["bytes"] for t in d["tensors"]) and len(d["tensors"]) == 39'
    fi
}

@test "an existing target is refused, and with --force exchanged whole" {
    mkdir there
    echo mine > there/file
    refuses 2 "'there' exists, --force" paro-shard merge "$G/ckpt" -o there
    [ "$(cat there/file)" = mine ]
    quiet paro-shard merge --force "$G/ckpt" -o there
    diff -r "$G/model" there
}

@test "a full standard output is an error" {
    [ -w /dev/full ] || skip "no /dev/full here"
    refuses 2 'standard output No space left' sh -c "paro-shard ls '$G/model' > /dev/full"
    run -2 sh -c "paro-shard --help > /dev/full"
}

@test "memory stays bounded, whatever the tensors" {
    command -v python3 > /dev/null || skip "no python3 here"
    [ -z "$SAN" ] || skip "sanitizers take memory of their own"
    # Two tensors of 96 MB.
    cat > wide.json <<'EOF'
{"model_type": "llama", "vocab_size": 24000, "hidden_size": 1000, "intermediate_size": 8,
 "num_hidden_layers": 1, "num_attention_heads": 10}
EOF
    # Two blocks of at most 32 MiB, and 16 MiB for the program with its libraries.
    local most=$(((64 + 16) * 1024))
    peak $most paro-shard init -m wide.json -o wide
    paro-plan -m wide.json -i synth:2x2 > plan.yaml
    peak $most paro-shard split wide -p plan.yaml -o ckpt
    rm -r wide # the disk of a small machine
    peak $most paro-shard verify ckpt
    peak $most paro-shard merge ckpt -o back
    [ "$(stat -c %s back/model.safetensors)" -gt 190000000 ]
    rm -r back
    paro-plan -m wide.json -i 'synth:[2,1]' > other.yaml
    peak $most paro-shard reshard ckpt -p other.yaml -o x
    peak $(((32 + 16) * 1024)) paro-shard reshard ckpt -p other.yaml --buffer 32Mi -o y
    cmp x/manifest.json y/manifest.json
    rm -r y
    quiet paro-shard diff ckpt x
}
