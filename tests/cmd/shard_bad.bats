# SPDX-License-Identifier: BSD-3-Clause
# paro-shard: files that ask for too much, or lie; places that cannot be written; two writers.
# One line each, status 2 (1 where verify answers), and nothing left behind.
# shellcheck disable=SC2016,SC2059,SC2086

load shard
load mounts
load network

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    chmod 755 . # others run here, too
    paro-shard init -m "$ROOT/examples/models/llama-tiny.json" --seed 1 -o model
    paro-shard init -m "$ROOT/examples/models/llama-tiny.json" --seed 2 -o other
    paro-plan -m model/config.json -i synth:2x1 > plan.yaml
    paro-shard split model -p plan.yaml -o ckpt
    paro-shard split other -p plan.yaml -o other.ckpt
    paro-shard merge ckpt --max-shard 300kB -o cut
}

# header FILE JSON: a file of that header, without data.
header() {
    python3 -c 'import struct, sys
j = sys.argv[2].encode("utf-8", "surrogateescape")
open(sys.argv[1], "wb").write(struct.pack("<Q", len(j)) + j)' "$1" "$2"
}

@test "limits: who meets one is told the option, and one more lets it through" {
    local f=$G/model/model.safetensors bytes
    bytes=$(od -An -tu8 -N8 "$f" | tr -d ' ')
    refuses 2 "$f: header $bytes bytes, $((bytes - 1)) (--max-header)" \
        paro-shard ls --max-header $((bytes - 1)) "$f"
    refuses 2 "$f: 38 tensors (--max-tensors)" paro-shard diff "$G/ckpt" "$G/model" --max-tensors 38
    refuses 2 "$f: name 46 bytes, 45 (--max-name)" \
        paro-shard split "$f" -p "$G/plan.yaml" --max-name 45 -o no
    quiet paro-shard verify --max-header "$bytes" --max-tensors 39 --max-name 46 "$f"
    refuses 2 "index.json: 13 files (--max-files)" paro-shard ls --max-files 13 "$G/cut"
    refuses 2 "index.json: 'weight_map' 39 tensors, 38 (--max-tensors)" \
        paro-shard ls --max-tensors 38 "$G/cut"
    bytes=$(stat -c %s "$G/cut/model.safetensors.index.json")
    refuses 2 "index.json' $((bytes - 1)) bytes (--max-header)" \
        paro-shard ls --max-header $((bytes - 1)) "$G/cut"
    quiet paro-shard verify --max-header "$bytes" --max-files 14 "$G/cut"
    bytes=$(stat -c %s "$G/ckpt/manifest.json")
    refuses 2 "$G/ckpt/manifest.json' $((bytes - 1)) bytes (--max-manifest)" \
        paro-shard merge --max-manifest $((bytes - 1)) "$G/ckpt" -o no
    quiet paro-shard merge --max-manifest "$bytes" "$G/ckpt" -o back
    diff -r "$G/model" back
    # An answer of verify, not an error.
    finds "$f: 38 tensors (--max-tensors)" paro-shard verify --max-tensors 38 "$f"
    [ ! -e no ]
}

# bats test_tags=full
@test "a million tensors: memory below 20 times the header" {
    command -v python3 > /dev/null || skip "no python3 here"
    [ -z "$SAN" ] || skip "sanitizers take memory of their own"
    cat > many.py <<'PY'
import struct
j = ("{" + ",".join(f'"{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}'
                    for i in range(1000001)) + "}").encode()
open("many.safetensors", "wb").write(struct.pack("<Q", len(j)) + j + bytes(1000001))
PY
    python3 many.py
    local kib=$((($(stat -c %s many.safetensors) - 1000001) / 1024)) # of the header
    refuses 2 "many.safetensors: 1000000 tensors (--max-tensors)" paro-shard ls many.safetensors
    peak $((20 * kib)) paro-shard ls --max-tensors 1000001 many.safetensors > rows
    peak $((20 * kib)) paro-shard verify --max-tensors 1000001 many.safetensors > rows
    # Two of them: each has its own.
    peak $((40 * kib)) paro-shard diff --max-tensors 1000001 many.safetensors many.safetensors > rows
}

@test "an index that leads out of its folder, or is none" {
    command -v python3 > /dev/null || skip "no python3 here"
    mkdir m
    cp "$G/model/config.json" m
    cp "$G/model/model.safetensors" outside.safetensors
    local list=m/model.safetensors.index.json text
    # weight_map WORDS TEXT...: refused with WORDS for each TEXT as the index's weight_map.
    weight_map() {
        for text in "${@:2}"; do
            printf "{\"weight_map\": $text}" > $list
            refuses 2 "$list:$1" paro-shard ls m
        done
    }
    weight_map " 'a' file of this folder" '{"a": "'{../outside.safetensors,/etc/passwd,.,..,./x,x/y,x/../y}'"}' \
        '{"a": ""}' '{"a": "a\\nb"}' '{"a": "a\\u001b[2J"}' '{"a": "a\\u009b"}' '{"a": ["x"]}'
    weight_map " 'a' text 0 byte file of this folder" '{"a": "x\\u0000.safetensors"}'
    weight_map " 'weight_map'" '[]' '{}' '"x"' 'null' '3'
    weight_map "1: JSON: " '{"a": "\xff"}'
    weight_map " 'a' given twice file of this folder" '{"a": "x", "a": "y"}'
    python3 -c 'print("{\"weight_map\": " * 5000 + "}" * 5000)' > $list
    refuses 2 "$list:1: JSON: depth" paro-shard ls m
    echo '{"weight_map": {"a": "config.json"}}' > $list
    refuses 2 "m/config.json: header bytes, expected" paro-shard ls m
}

@test "an index that names one large file many times: none is read but the first" {
    command -v python3 > /dev/null || skip "no python3 here"
    [ -z "$SAN" ] || skip "sanitizers take memory of their own"
    mkdir m
    cat > many.py <<'PY'
import json, os, struct
j = ("{" + ",".join(f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
                    for i in range(200000)) + "}").encode()
open("m/0", "wb").write(struct.pack("<Q", len(j)) + j)
for i in range(1, 100):
    os.link("m/0", f"m/{i}")
json.dump({"weight_map": {str(i): str(i) for i in range(100)}},
          open("m/model.safetensors.index.json", "w"))
PY
    python3 many.py
    ls_bounded() { (ulimit -v 1000000 && paro-shard ls m); }
    refuses 2 "m/model.safetensors.index.json: is in '0'," ls_bounded
}

# seal DIR: gives the manifest the checksum of what stands in it.
seal() {
    local sums
    sums=$(paro-shard verify "$1" | grep -oE '\<[0-9a-f]{32}\>')
    sed -i "s/${sums%%$'\n'*}/${sums##*$'\n'}/" "$1/manifest.json"
}

@test "a manifest that asks for much, or names what cannot be: refused before anything is made" {
    cp -r "$G/ckpt" c
    local deep
    deep=$(printf 'd/%.0s' $(seq 17))
    sed -i "s,\"name\":\"config.json\",\"name\":\"${deep}f\"," c/manifest.json
    seal c
    refuses 2 "c/manifest.json: source '${deep}f'" paro-shard merge c -o no
    rm -r c
    cp -r "$G/ckpt" c
    sed -i '/^"states"/s/f32/i32/' c/manifest.json
    seal c
    refuses 2 "c/manifest.json: 'states[0].type' 'i32', f32, bf16, f16 f64" paro-shard merge c --type bf16 -o no
    refuses 2 "'shard-00000.safetensors' header bytes, 100 (--max-header)" \
        paro-shard merge --max-header 100 "$G/ckpt" -o no
    rm -r c
    cp -r "$G/ckpt" c
    truncate -s 4T c/source/files/config.json || skip "no files of that size here"
    refuses 2 "c/source/files/config.json: 4398046511104 bytes, 440" \
        timeout -s KILL 60 paro-shard merge c -o no
    [ ! -e no ] && [ ! -e .no.paro-tmp ]
}

@test "two files of 5 EiB of holes" {
    command -v python3 > /dev/null || skip "no python3 here"
    mounts_begin
    cat > holes.py <<'PY'
import json, struct, sys
n = 5 << 60
for name in "ab":
    j = json.dumps({name: {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
    with open(f"{sys.argv[1]}/{name}.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(j)) + j)
        try:
            f.truncate(8 + len(j) + n)
        except OSError:
            sys.exit(3)
json.dump({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}},
          open(f"{sys.argv[1]}/model.safetensors.index.json", "w"))
PY
    run inside "python3 holes.py small && paro-shard ls small"
    [ "$status" != 3 ] || skip "no files of that size here"
    [ "$status" = 2 ]
    has_words "$output" "paro-shard: small/model.safetensors.index.json: 2^63 bytes"
}

@test "headers that lie reach nobody: split, diff, verify" {
    command -v python3 > /dev/null || skip "no python3 here"
    header a.safetensors '{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'
    refuses 2 "a.safetensors: 'a' 2^63 elements" paro-shard split a.safetensors -p "$G/plan.yaml" -o no
    header a.safetensors '{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}}'
    refuses 2 "a.safetensors: 'a' F64 [1152921504606846976] 2^63 bytes" \
        paro-shard diff a.safetensors "$G/model"
    header a.safetensors '{"a":{"dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807]}}'
    finds "a.safetensors: 'a' data_offsets [9223372036854775807, 9223372036854775807], 0 bytes" \
        paro-shard verify a.safetensors
    header a.safetensors '{"../a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    run -0 paro-shard ls a.safetensors # a name is a name: nothing is made of it
    mkfifo pipe.safetensors
    refuses 2 "pipe.safetensors: not a regular file" timeout 10 paro-shard ls pipe.safetensors
    [ ! -e no ]
}

@test "a shard of another run, or of another rank" {
    cp -r "$G/ckpt" mixed
    cp "$G/other.ckpt/shard-00001.safetensors" mixed
    run -1 paro-shard verify mixed
    [ "${#lines[@]}" -gt 5 ]
    local line
    for line in "${lines[@]}"; do
        has_words "$line" "mixed/shard-00001.safetensors: damaged checksum"
    done
    refuses 2 mixed/shard-00001.safetensors: paro-shard merge mixed -o no
    refuses 2 mixed/shard-00001.safetensors: paro-shard reshard mixed -p "$G/plan.yaml" -o no
    cp "$G/ckpt/shard-00000.safetensors" mixed/shard-00001.safetensors
    run -1 paro-shard verify mixed
    cp "$G/other.ckpt/manifest.json" mixed
    run -1 paro-shard verify mixed
    [[ "${lines[0]}" == "mixed/shard-00000.safetensors: "*"damaged"* ]]
    [ "$(names)" = mixed ]
}

@test "a folder that may not be written, or read" {
    command -v setpriv > /dev/null || skip "no setpriv here"
    open_place
    cp -r "$G/model" "$G/ckpt" "$G/plan.yaml" .
    cp "$BIN/paro-shard" .
    run_as_user ./paro-shard verify ckpt || skip "others cannot come to $PWD"
    mkdir -m 555 closed
    refuses 2 "'closed/.m.paro-tmp': Permission denied" run_as_user ./paro-shard merge ckpt -o closed/m
    refuses 2 "'closed/.c.paro-tmp': Permission denied" run_as_user ./paro-shard split model -p plan.yaml -o closed/c
    mkdir -m 777 open
    run -0 run_as_user ./paro-shard merge ckpt -o open/m
    run -0 run_as_user rm -r open/m
    chmod 000 ckpt/shard-00001.safetensors
    refuses 2 "cannot open 'ckpt/shard-00001.safetensors': Permission denied" \
        run_as_user ./paro-shard merge ckpt -o open/m
    [ -z "$(ls -A open)$(ls -A closed)" ]
}

# inside SCRIPT: in a mount namespace of its own, where `small` is a tmpfs of SIZE (1 MiB), after
# mounts_begin.
inside() {
    mkdir -p small
    "${ALONE[@]}" sh -c "mount -t tmpfs -o size=${SIZE:-1m} none small && { $1; }"
}

@test "a target that is no name: at once" {
    local to verb
    mkdir k
    for to in . .. k/. k/.. '' / ./ ../; do
        for verb in "merge $G/ckpt" "split $G/model -p $G/plan.yaml" "init -m $G/model" \
            "reshard $G/ckpt -p $G/plan.yaml" "repair $G/ckpt"; do
            refuses 2 "'$to' expected path name" paro-shard $verb --force -o "$to"
        done
    done
    [ "$(names):$(ls -A k)" = k: ]
    quiet paro-shard merge "$G/ckpt" --force -o k//
    diff -r "$G/model" k
}

@test "a read-only file system: one line" {
    mounts_begin
    run inside "mount -o remount,ro small"
    [ "$status" = 0 ] || skip "no remount here: $output"
    refuses 2 "'small/.m.paro-tmp': Read-only file system" \
        inside "mount -o remount,ro small && paro-shard merge '$G/ckpt' -o small/m"
}

@test "a file system that is too small: one line, nothing left" {
    mounts_begin
    local what size
    for what in "merge '$G/ckpt'" "merge '$G/ckpt' --type bf16" "merge '$G/ckpt' --max-shard 300kB" \
        "reshard '$G/ckpt' -p '$G/plan.yaml'" "split '$G/model' -p '$G/plan.yaml'"; do
        for size in 4k 64k 1m 1400k; do
            SIZE=$size refuses 2 "No space left" inside "paro-shard $what -o small/m; rc=\$?; ls -A small; exit \$rc"
        done
    done
    run -2 inside "mkdir small/m; echo old > small/m/f; paro-shard merge '$G/ckpt' --force -o small/m
        rc=\$?; ls -A small; cat small/m/f; exit \$rc"
    [ "${lines[1]} ${lines[2]}" = "m old" ]
    # A file that may not grow so far.
    refuses 2 '/shard-00000.safetensors: File too large' \
        bash -c 'ulimit -f 100; paro-shard reshard "$0/ckpt" -p "$0/plan.yaml" -o x' "$G"
    [ ! -e x ] && [ ! -e .x.paro-tmp ]
}

@test "a network file system: written all the same" {
    network
    local what
    for what in lock room sync copy flush flags 'lock room sync copy flush flags'; do
        quiet lacking "$what" paro-shard split "$G/model" -p "$G/plan.yaml" -o c
        quiet paro-shard verify c
        quiet lacking "$what" paro-shard reshard c -p "$G/plan.yaml" -o r
        quiet paro-shard diff c r
        quiet lacking "$what" paro-shard merge r -o m
        diff -r "$G/model" m
        quiet lacking "$what" paro-shard init -m "$G/model" -o i
        [ "$(names | tr '\n' ' ')" = 'c i m network.c network.so r ' ]
        rm -r c r m i
    done
}

@test "a network file system: what it cannot do is said, before anything is written" {
    network
    mkdir m .n.paro-tmp
    echo old > m/f
    refuses 2 "'m' file system cannot exchange expected new name" \
        lacking flags paro-shard merge "$G/ckpt" --force -o m
    [ "$(ls -A m):$(cat m/f):$(find . -name '.m*')" = "f:old:" ]
    # Where there are no locks a writer's folder and a killed one's look alike.
    refuses 2 "'./.n.paro-tmp' './n' no locks remove" \
        lacking lock paro-shard merge "$G/ckpt" -o ./n
    rmdir .n.paro-tmp
    quiet lacking lock paro-shard merge "$G/ckpt" -o n
    # A target that came while it was written.
    quiet lacking 'lock flags' paro-shard merge "$G/ckpt" --force -o o
    refuses 2 "'o' exists, --force" lacking flags paro-shard merge "$G/ckpt" -o o
}

# bats test_tags=full
@test "two writers: one wins, the other says so" {
    mkdir .m.paro-tmp
    : > .m.paro-tmp/of_the_first
    { flock 9 && exec sleep 300; } 9< .m.paro-tmp 3>&- & # no child that holds it on
    local holder=$!
    taken() { ! flock -n .m.paro-tmp true; }
    soon taken
    refuses 2 "'m' another process" paro-shard merge "$G/ckpt" -o m
    refuses 2 "'m' another process" paro-shard split "$G/model" -p "$G/plan.yaml" -o m
    [ "$(ls .m.paro-tmp)" = of_the_first ]
    [ ! -e m ]
    kill $holder
    wait $holder || true
    # It is free when its holder is gone, and what was left in it is removed.
    flock .m.paro-tmp true
    quiet paro-shard merge "$G/ckpt" -o m
    diff -r "$G/model" m
    # In earnest, some times: each one is done, or says why not, and what is there is whole.
    for _ in 1 2 3 4 5 6; do
        rm -rf r
        paro-shard reshard "$G/ckpt" -p "$G/plan.yaml" -o r 2> one &
        local first=$! a=0 b=0
        paro-shard reshard "$G/ckpt" -p "$G/plan.yaml" -o r 2> two || b=$?
        wait $first || a=$?
        case $a$b in
        02 | 20) ;;
        *) false ;;
        esac
        cat one two > said
        one_line "paro-shard: 'r' another process" || one_line "paro-shard: 'r' exists, --force"
        quiet paro-shard verify r
        [ "$(names | tr '\n' ' ')" = 'm one r two ' ]
    done
}
