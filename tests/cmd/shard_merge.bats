# SPDX-License-Identifier: BSD-3-Clause
# paro-shard merge into other types and several files, and what reads those: ls, diff, split.

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    paro-shard init -m "$ROOT/examples/models/llama-tiny.json" --seed 1 -o model
    paro-plan -m model/config.json -i 'synth:[2,1]' --strategy GGI > plan.yaml
    mkdir model/sub
    echo 'not read, kept' > model/sub/tokenizer.txt
    paro-shard split model -p plan.yaml -o ckpt
    echo '{"weights": "of another"}' > model/model.safetensors.index.json
    paro-shard split model -p plan.yaml -o indexed
}

@test "merge: several files, cut where transformers cuts" {
    local size
    for size in 100000 300000 1048576; do
        quiet paro-shard merge "$G/ckpt" --max-shard $size -o cut
        # All lines but the first and the last of the table: NAME TYPE [SHAPE] SIZE UNIT FILE.
        paro-shard ls cut | sed '1d;$d' | awk -v s=$size '{ print s, $1, $NF }' > got
        grep "^$size " "$ROOT/tests/data/shards_llama-tiny.txt" | diff - got
        [ "$(find cut -name 'model-*.safetensors' | wc -l)" = "$(cut -d' ' -f3 got | sort -u | wc -l)" ]
        quiet paro-shard verify cut
        quiet paro-shard diff cut "$G/model"
        quiet paro-shard diff "$G/ckpt" cut
        cmp cut/sub/tokenizer.txt "$G/model/sub/tokenizer.txt"
        cmp cut/config.json "$G/model/config.json"
        rm -r cut
    done
}

@test "merge: one file is enough, and then there is no index" {
    quiet paro-shard merge "$G/indexed" --max-shard 1GB -o one
    [ "$(ls one)" = "$(printf 'config.json\nmodel.safetensors\nsub')" ]
    quiet paro-shard merge "$G/indexed" -o back
    diff -r "$G/model" back
}

@test "split, merge: several files with an index, byte for byte" {
    quiet paro-shard merge "$G/ckpt" --max-shard 300kB -o cut
    quiet paro-shard split cut -p "$G/plan.yaml" -o again
    quiet paro-shard diff again "$G/ckpt"
    quiet paro-shard merge again -o back
    diff -r cut back
}

@test "the index: its total, and JSON" {
    command -v python3 > /dev/null || skip "no python3 here"
    quiet paro-shard merge "$G/ckpt" --type bf16 --max-shard 300kB -o cut
    python3 - <<'PY'
import json
index = json.load(open("cut/model.safetensors.index.json"))
assert index["metadata"] == {"total_size": 2 * 791680}, index["metadata"]
assert list(index["weight_map"]) == sorted(index["weight_map"]) and len(index["weight_map"]) == 39
config = json.load(open("cut/config.json"))
assert config.pop("torch_dtype") == "bfloat16"
PY
    paro-shard ls --json cut | python3 -c 'import json, sys
index = json.load(open("cut/model.safetensors.index.json"))["weight_map"]
for t in json.load(sys.stdin)["tensors"]:
    assert index[t["name"]] == t["file"] and t["type"] == "BF16"'
}

@test "merge --type: there and back is exact where the wider holds the narrower" {
    local type
    quiet paro-shard merge "$G/ckpt" --type f32 -o f32
    diff -r <(cd "$G/ckpt/source/files" && find . -type f | sort) <(cd f32 && find . -type f ! -name model.safetensors | sort)
    cmp f32/model.safetensors "$G/model/model.safetensors" # it is theirs: as it was
    for type in bf16 f16 f64; do
        quiet paro-shard merge "$G/ckpt" --type $type -o $type
        quiet paro-shard verify $type
        quiet paro-shard split $type -p "$G/plan.yaml" -o $type.ckpt
        quiet paro-shard merge $type.ckpt --type f64 -o $type.wide
        if [ $type != f64 ]; then # wider: another type, and not one other value
            run -1 paro-shard diff $type.wide $type
            [ "$(echo "$output" | grep -c 'the values are the same$')" = 39 ]
        fi
        run -1 paro-shard diff "$G/model" $type
        [ "${#lines[@]}" = 39 ]
    done
    quiet paro-shard diff f64 f64.wide
    quiet paro-shard merge f64.ckpt --type f32 -o narrow
    quiet paro-shard diff narrow "$G/model"
    grep -q '"torch_dtype": "float32"' narrow/config.json
    grep -q '"torch_dtype": "float64"' f64/config.json
}

@test "merge --type: what rounding to bf16 costs is what diff says" {
    command -v python3 > /dev/null || skip "no python3 here"
    quiet paro-shard merge "$G/ckpt" --type bf16 -o half
    paro-shard diff --json "$G/model" half > said || [ $? = 1 ]
    python3 - "$G/model/model.safetensors" half/model.safetensors <<'PY'
import json, struct, sys
def read(path):
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (t["dtype"], raw[8 + n:][t["data_offsets"][0]:t["data_offsets"][1]])
            for k, t in head.items()}
a, b = read(sys.argv[1]), read(sys.argv[2])
for d in json.load(open("said"))["differences"]:
    x = struct.unpack(f"<{len(a[d['name']][1]) // 4}f", a[d["name"]][1])
    raw = b[d["name"]][1]
    y = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    gaps = [(abs(p - q), -i) for i, (p, q) in enumerate(zip(x, y)) if p != q]
    assert d["elems_differ"] == len(gaps)
    if not gaps:
        assert d["first"] is None and d["max_abs_at"] is None and d["max_abs"] == 0
        continue
    most, at = max(gaps)
    assert (d["max_abs"], d["max_abs_at"], d["first"]) == (most, -at, min(-i for _, i in gaps))
    rel = max(abs(p - q) / max(abs(p), abs(q)) for p, q in zip(x, y) if p != q)
    assert d["max_rel"] == rel <= 2**-8 # half an ulp of 8 bits
PY
}

@test "a run's checkpoint, tied and not, with adapters: any combination" {
    # What a run would write: split without a source is a plan that trains adapters.
    paro-plan -m "$G/model" --trainable lora=4,alpha=8,targets=q_proj -i synth:2x1 > lora.yaml
    quiet paro-shard split "$G/model" -p lora.yaml -o lora
    refuses 2 "adapters --fuse no --max-shard" paro-shard merge lora --max-shard 1MB -o no
    quiet paro-shard merge lora --type bf16 -o adapter
    [ "$(ls adapter)" = "$(printf 'adapter_config.json\nadapter_model.safetensors')" ]
    paro-shard ls adapter/adapter_model.safetensors | grep -q BF16
    # First values: B is 0, so that the sum is the matrix itself.
    quiet paro-shard merge lora --fuse --max-shard 300kB --jobs 3 --buffer 1Mi -o fused
    quiet paro-shard diff fused "$G/model"
    quiet paro-shard merge lora --fuse --type f16 -o fused16
    quiet paro-shard merge "$G/ckpt" --type f16 -o plain16
    quiet paro-shard diff fused16 plain16
}

@test "more files than may be open at once" {
    cat > deep.json <<'END'
{"model_type": "llama", "vocab_size": 31, "hidden_size": 6, "intermediate_size": 7,
 "num_hidden_layers": 40, "num_attention_heads": 3}
END
    paro-shard init -m deep.json -o deep
    paro-plan -m deep.json -i synth:2x1 > plan.yaml
    paro-shard split deep -p plan.yaml -o ckpt
    ulimit -n 256 # of 40 * 9 + 3 files
    quiet paro-shard merge ckpt --max-shard 1 -o files
    [ "$(find files -name 'model-*' | wc -l)" = 363 ]
    quiet paro-shard diff files deep
    quiet paro-shard verify files
    quiet paro-shard split files -p plan.yaml -o again
    quiet paro-shard merge again -o back
    diff -r files back
}

@test "merge --type: the config says it, and nothing else of it changes" {
    local config
    while read -r config; do
        sed "s/\"torch_dtype\": \"float32\",/$config/" "$G/model/config.json" > c.json
        rm -rf m ck half
        paro-shard init -m c.json -o m
        paro-shard split m -p "$G/plan.yaml" -o ck
        quiet paro-shard merge ck --type f16 -o half
        quiet paro-shard verify half
        if [ "$config" ]; then
            sed 's/float32/float16/g' m/config.json | diff - half/config.json
        else # it said nothing: now it does
            sed '1s/{/{"torch_dtype": "float16", /' m/config.json | diff - half/config.json
        fi
    done <<'END'
"dtype": "float32",
"torch_dtype" : "float32" ,
"torch_dtype":\n "float32", "dtype": "float32",

END
}

@test "merge: a buffer that is too small, a damaged block, a file that is there" {
    refuses 2 "buffer of 1024 bytes, at least 20480 (--buffer)" \
        paro-shard merge "$G/ckpt" --buffer 1Ki -o no
    cp -r "$G/ckpt" bad
    printf 'x' | dd of=bad/shard-00001.safetensors bs=1 seek=500000 conv=notrunc 2> dd.log
    refuses 2 "bad/shard-00001.safetensors: params [ ) damaged checksum" \
        paro-shard merge bad --type bf16 --max-shard 300kB -o no
    [ "$(names)" = bad ]
}
