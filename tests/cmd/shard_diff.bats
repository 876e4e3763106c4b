# SPDX-License-Identifier: BSD-3-Clause
# paro-shard diff: of values that are known, by how much and where; and any kind with any other.

load shard
load skip

setup_file() {
    command -v python3 > /dev/null || { skip_file "no python3 here"; return; }
    cat > "$BATS_FILE_TMPDIR/put.py" <<'PY'
# put.py FILE NAME TYPE SHAPE VALUE... [, NAME TYPE SHAPE VALUE...]...: values of a type, or hex.
import json, struct, sys
KIND = dict(F32="f", F64="d", F16="e", I8="b", U8="B", I16="h", U16="H", I32="i", U32="I",
            I64="q", U64="Q", BOOL="B")
head, data, words = {}, b"", sys.argv[2:] + [","]
while words:
    at = words.index(",")
    (name, kind, shape, *values), words = words[:at], words[at + 1:]
    if kind in KIND:
        number = float if KIND[kind] in "fde" else int
        body = b"".join(struct.pack("<" + KIND[kind], number(v)) for v in values)
    else:
        body = bytes.fromhex("".join(values))
    head[name] = dict(dtype=kind, shape=json.loads(shape),
                      data_offsets=[len(data), len(data) + len(body)])
    data += body
text = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
}

put() { python3 "$BATS_FILE_TMPDIR/put.py" "$@"; }

# differs NUMBERS [WORDS]: diff of a and b is one line of x, with WORDS and just these NUMBERS.
differs() {
    finds "x: ${2-}" paro-shard diff a.safetensors b.safetensors
    [ "$(grep -oE '\<(nan|inf|[0-9][0-9.]*)\>' <<< "$output" | xargs)" = "$1" ] || { echo "$output"; return 1; }
}

same() {
    run -0 paro-shard diff a.safetensors b.safetensors
    [ -z "$output" ]
}

@test "floating values: the largest difference and where, the relative one apart" {
    put a.safetensors x F32 '[2, 3]' 1 2 3 1000 5 6
    put b.safetensors x F32 '[2, 3]' 1 2.5 3 1008 5 6
    # |1000 - 1008| / 1008 = 0.0079, |2 - 2.5| / 2.5 = 0.2
    differs '2 6 1 8 3 1 0 0.2'
    run -1 paro-shard diff --json a.safetensors b.safetensors
    [[ "$output" == '{"schema":"paro.shard.diff/1","differences":[{"name":"x","what":"values","text":"2 of 6 '*'","elems_differ":2,"first":1,"max_abs":8,"max_abs_at":3,"max_rel":0.2}],"same":false}' ]]
    put b.safetensors x F32 '[2, 3]' 1 2 3 1000 5 6
    same
    put a.safetensors x F64 '[]' 1
    put b.safetensors x F64 '[]' -1
    differs '1 1 0 2 0 2'
}

@test "what is no number, or of two signs" {
    put a.safetensors x F32 '[4]' nan 1 nan inf
    put b.safetensors x F32 '[4]' nan 1 nan inf
    same
    put b.safetensors x F32 '[4]' nan 2 3 4
    differs '3 4 1 nan 2 2 nan'
    run -1 paro-shard diff --json a.safetensors b.safetensors
    [[ "$output" == *'"elems_differ":3,"first":1,"max_abs":null,"max_abs_at":2,"max_rel":null}'* ]]
    put a.safetensors x F32 '[2]' inf 1
    put b.safetensors x F32 '[2]' -inf 3
    differs '2 2 0 inf 0 0 2'
    put a.safetensors x F16 '[2]' 0.0 1
    put b.safetensors x F16 '[2]' -0.0 1
    differs '1 2 0 0 0 0 0'
}

@test "whole numbers, to the last bit; types that are bits to us" {
    put a.safetensors x I64 '[2]' 9007199254740993 -9223372036854775808
    put b.safetensors x I64 '[2]' 9007199254740992 -9223372036854775808
    differs '1 2 0 1 0 0 0'
    put a.safetensors x U64 '[1]' 18446744073709551615
    put b.safetensors x U64 '[1]' 18446744073709551614
    differs '1 1 0 1 0 0 0'
    put a.safetensors x I8 '[3]' -128 0 1
    put b.safetensors x I8 '[3]' 127 0 2
    differs '2 3 0 255 0 0 1.99'
    put a.safetensors x BOOL '[2]' 0 1
    put b.safetensors x BOOL '[2]' 1 1
    differs '1 2 0 1 0 0 1'
    put a.safetensors x F8_E4M3 '[2]' 00 38
    put b.safetensors x F8_E4M3 '[2]' 00 39
    differs '1 2 1 nan 1 1 nan'
}

@test "two types: values are compared, two shapes are not" {
    put a.safetensors x F32 '[3]' 1 2 nan
    put b.safetensors x F16 '[3]' 1 2 nan
    differs '3 3' 'F32 [3] F16 [3] same'
    put b.safetensors x I16 '[3]' 1 4 7
    differs '3 3 2 3 1 nan 2 2 nan' 'F32 [3] I16 [3]'
    put b.safetensors x F8_E5M2 '[3]' 00 00 00
    differs '3 3' 'F32 [3] F8_E5M2 [3]'
    put b.safetensors x F32 '[3, 1]' 1 2 3
    differs '3 3 1' 'F32 [3] F32 [3, 1]'
    put b.safetensors y U8 '[0]' , x F32 '[0]'
    run -1 paro-shard diff a.safetensors b.safetensors
    [ "${#lines[@]}" = 2 ]
    has_words "$output" 'x: F32 [3] F32 [0] y: second'
}

@test "a checkpoint, a folder, several files, one file: each with each" {
    paro-shard init -m "$ROOT/examples/models/gpt2-tiny.json" -o folder
    paro-plan -m folder -i 'synth:[2,1]' --strategy GNI > plan.yaml
    paro-shard split folder -p plan.yaml -o ckpt
    paro-shard merge ckpt --max-shard 100kB -o files
    cp folder/model.safetensors file.safetensors
    # One value of the last tensor, changed, in each kind.
    size=$(stat -c %s file.safetensors)
    mkdir changed
    cp file.safetensors changed/file.safetensors
    printf '\x3f' | dd of=changed/file.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2> dd.log
    cp -r folder changed/folder
    cp changed/file.safetensors changed/folder/model.safetensors
    paro-shard split changed/folder -p plan.yaml -o changed/ckpt
    paro-shard merge changed/ckpt --max-shard 100kB -o changed/files
    local a b
    for a in ckpt folder files file.safetensors; do
        for b in ckpt folder files file.safetensors; do
            run -0 paro-shard diff $a $b
            [ -z "$output" ]
            finds ": 1 of first" paro-shard diff $a changed/$b
        done
        refuses 2 "cannot open 'nowhere': No such file" paro-shard diff $a nowhere
    done
}
