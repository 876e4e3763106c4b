# SPDX-License-Identifier: BSD-3-Clause
# paro-shard edit: tensors dropped, renamed and converted, held against a reader in Python; and
# folders of the Hugging Face hub's cache.

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    chmod 755 .
    varied_model "$ROOT/examples/models/llama-tiny.json" model
    echo '{"a": 1}' > model/tokenizer_config.json
    mkdir model/sub
    echo kept > model/sub/notes
    paro-plan -m model -i synth:2x1 > plan.yaml
    paro-shard split model -p plan.yaml -o ckpt
    paro-shard merge ckpt --max-shard 100kB -o cut
}

# tensors FOLDER: a line for each tensor in the order of the files: name, type, shape, sum of the data.
tensors() {
    python3 - "$1" <<'PY'
import glob, hashlib, json, struct, sys
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    head.pop("__metadata__", None)
    for name, t in sorted(head.items(), key=lambda x: x[1]["data_offsets"]):
        a, b = t["data_offsets"]
        print(name, t["dtype"], t["shape"], hashlib.md5(data[a:b]).hexdigest())
PY
}

@test "edit: drop and rename keep all other bytes" {
    # shellcheck disable=SC2016 # $1 is the pattern's
    quiet paro-shard edit "$G/model" --drop 'mlp\.up_proj' --drop '^lm_head' \
        --rename '^model\.layers\.(\d+)\.=layer$1.' --rename 'self_attn=attn' -o out
    tensors "$G/model" | grep -v 'mlp.up_proj\|^lm_head' |
        sed -E 's/^model\.layers\.([0-9]+)\./layer\1./; s/self_attn/attn/' > want
    tensors out > got
    diff want got
    [ "$(wc -l < got)" -lt "$(tensors "$G/model" | wc -l)" ]
    diff -r --exclude model.safetensors out "$G/model"
}

@test "edit: several files and their index; one that is left without a tensor" {
    quiet paro-shard edit "$G/cut" --rename '^model=base' -o all
    tensors "$G/cut" | sed 's/^model/base/' | diff - <(tensors all)
    sed 's/"model\./"base./' "$G/cut/model.safetensors.index.json" > want.json
    cmp_json all/model.safetensors.index.json want.json
    paro-shard edit "$G/cut" --drop 'embed_tokens' -o less
    tensors "$G/cut" | grep -v embed_tokens | diff - <(tensors less)
    [ "$(find less -name 'model-*.safetensors' | wc -l)" -lt "$(find "$G/cut" -name 'model-*.safetensors' | wc -l)" ]
    paro-shard ls less > listed
}

cmp_json() {
    python3 -c 'import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["weight_map"] == b["weight_map"], (a, b)' "$1" "$2"
}

@test "edit: casts are merge --type, tensor by tensor, and config.json says what all have become" {
    paro-shard merge "$G/ckpt" --type bf16 -o half
    quiet paro-shard edit "$G/model" --cast '.*=bf16' -o out
    tensors half | sort | diff - <(tensors out | sort)
    cmp half/config.json out/config.json
    # A part alone: the rest is as it was, and so is config.json.  The last cast counts.
    quiet paro-shard edit "$G/model" --cast '.*=f16' --cast 'norm=f32' --cast 'proj=bf16' --cast 'embed|lm_head=f32' -o some
    { tensors half | grep proj; tensors "$G/model" | grep -v proj; } | sort | diff - <(tensors some | sort)
    cmp some/config.json "$G/model/config.json"
    quiet paro-shard edit "$G/model/model.safetensors" --cast '.*=bf16' -o alone
    cmp alone/model.safetensors out/model.safetensors
    [ "$(ls alone)" = model.safetensors ]
}

@test "edit: --dry-run prints what would be done, and writes nothing" {
    run -0 paro-shard edit "$G/model" --drop '^lm_head' --cast 'model.norm=f16' --rename '^model\.norm=last' --dry-run
    printf '%s\n' 'rename model.norm.weight last.weight' 'cast model.norm.weight F32 F16' \
        'drop lm_head.weight' | sort > want
    echo "$output" | sort | diff want -
}

@test "edit: what is refused" {
    local m=$G/model
    refuses 2 "'nothing' matches no tensor" paro-shard edit "$m" --drop nothing -o x
    refuses 2 "'(' missing" paro-shard edit "$m" --drop '(' -o x
    refuses 2 "'abc' no '=' PATTERN=REPLACEMENT" paro-shard edit "$m" --rename abc -o x
    refuses 2 "type 'i8' f32, bf16, f16 f64" paro-shard edit "$m" --cast .=i8 -o x
    refuses 2 "q_proj k_proj both name 'model.layers.0.self_attn.x.weight'" \
        paro-shard edit "$m" --rename '[qk]_proj=x' -o x
    refuses 2 "gets the name ''" paro-shard edit "$m" --rename '.*=' -o x
    refuses 2 "gets the name '__metadata__'" paro-shard edit "$m" --rename '^lm_head\.weight$=__metadata__' -o x
    refuses 2 "name of 70 bytes, expected at most 60" \
        paro-shard edit "$m" --max-name 60 --rename "^lm_head.weight$=$(printf 'x%.0s' {1..70})" -o x
    refuses 2 "no tensor left" paro-shard edit "$m" --drop . -o x
    refuses 2 "match limit" paro-shard edit "$m" --drop '(.|..)*[A-Z]$' -o x
    refuses 2 "missing --output" paro-shard edit "$m" --drop lm_head
    refuses 2 "missing --drop, --rename or --cast" paro-shard edit "$m" -o x
    refuses 2 "'$G/ckpt'" paro-shard edit "$G/ckpt" --drop lm_head -o x
    mkdir old
    refuses 2 "'old' exists --force" paro-shard edit "$m" --drop lm_head -o old
    refuses 2 "inside" paro-shard edit "$m" --drop lm_head -o "$m/sub/x"
    [ ! -e x ]
    [ ! -e .x.paro-tmp ]
    quiet paro-shard edit "$m" --drop lm_head -o old --force
}

@test "edit: a sharded checkpoint of another program is refused" {
    tar xzf "$ROOT/tests/data/trainers.tar.gz"
    for from in fsdp2 grid-hf deepspeed-3; do
        refuses 2 "$from/from sharded checkpoint split and merge" paro-shard edit $from/from --drop norm -o x
        refuses 2 "$from/from sharded checkpoint split and merge" paro-shard edit $from/from --drop norm --dry-run
    done
    [ ! -e x ] && [ ! -e .x.paro-tmp ]
}

@test "the hub's cache: a folder, a name, and which root is taken" {
    local one=models--org--tiny
    mkdir -p hub/$one/blobs hub/$one/snapshots/abc123 hub/$one/refs
    cp "$G/model/model.safetensors" hub/$one/blobs/1
    cp "$G/model/config.json" hub/$one/blobs/2
    ln -s ../../blobs/1 hub/$one/snapshots/abc123/model.safetensors
    ln -s ../../blobs/2 hub/$one/snapshots/abc123/config.json
    printf abc123 > hub/$one/refs/main
    quiet paro-shard diff hub/$one "$G/model"
    HF_HUB_CACHE=$PWD/hub HF_HOME=/nowhere quiet paro-shard diff org/tiny "$G/model"
    mkdir -p home/.cache/huggingface
    cp -a hub home/.cache/huggingface/hub
    HOME=$PWD/home quiet paro-shard diff org/tiny "$G/model"
    HF_HOME=$PWD/home/.cache/huggingface quiet paro-shard split org/tiny -p "$G/plan.yaml" -o ckpt
    quiet paro-shard diff ckpt "$G/ckpt"
    HF_HUB_CACHE=$PWD/hub paro-plan -m org/tiny -i synth:2x1 2> plan.err | diff - "$G/plan.yaml"
    HF_HUB_CACHE=$PWD/hub refuses 2 "'org/other' No such file" paro-shard ls org/other
    HF_HUB_CACHE=$PWD/hub refuses 2 "'org/../tiny' No such file" paro-shard ls org/../tiny
    mkdir -p org/tiny # what is there is meant
    HF_HUB_CACHE=$PWD/hub refuses 2 "'org/tiny'" paro-shard ls org/tiny
    # Only a folder of that name, and only a file.
    cp -a hub/$one hub/other
    refuses 2 "hub/other" paro-shard ls hub/other
    paro-shard ls hub/$one/ > listed
    rm hub/$one/refs/main
    mkfifo hub/$one/refs/main
    refuses 2 "hub/$one" timeout 10 paro-shard ls hub/$one
    rm hub/$one/refs/main
    printf gone > hub/$one/refs/main
    refuses 2 "hub/$one" paro-shard ls hub/$one
}
