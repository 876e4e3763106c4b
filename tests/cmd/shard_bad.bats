#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# paro-shard: files that ask for too much, or lie; places that cannot be written; two writers.
# One line each, status 2 (1 where verify answers), and nothing left behind.

bats_require_minimum_version 1.5.0
load fails
load shard # its setup stands
load mounts

setup_file() {
    export ROOT=$BATS_TEST_DIRNAME/../..
    PATH=$BIN:$PATH
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
    fails "paro-shard: $f: header has $bytes bytes, expected at most $((bytes - 1)) (--max-header)" \
        paro-shard ls --max-header $((bytes - 1)) "$f"
    fails "paro-shard: $f: header has more than 38 tensors (--max-tensors)" \
        paro-shard diff "$G/ckpt" "$G/model" --max-tensors 38
    fails "paro-shard: $f: a tensor's name has 46 bytes, expected at most 45 (--max-name)" \
        paro-shard split "$f" -p "$G/plan.yaml" --max-name 45 -o no
    quiet paro-shard verify --max-header "$bytes" --max-tensors 39 --max-name 46 "$f"
    fails "paro-shard: $G/cut/model.safetensors.index.json: names more than 13 files (--max-files)" \
        paro-shard ls --max-files 13 "$G/cut"
    fails "paro-shard: $G/cut/model.safetensors.index.json: 'weight_map' has 39 tensors, expected at most 38 (--max-tensors)" \
        paro-shard ls --max-tensors 38 "$G/cut"
    bytes=$(stat -c %s "$G/cut/model.safetensors.index.json")
    fails "paro-shard: '$G/cut/model.safetensors.index.json' has more than $((bytes - 1)) bytes (--max-header)" \
        paro-shard ls --max-header $((bytes - 1)) "$G/cut"
    quiet paro-shard verify --max-header "$bytes" --max-files 14 "$G/cut"
    bytes=$(stat -c %s "$G/ckpt/manifest.json")
    fails "paro-shard: '$G/ckpt/manifest.json' has more than $((bytes - 1)) bytes (--max-manifest)" \
        paro-shard merge --max-manifest $((bytes - 1)) "$G/ckpt" -o no
    quiet paro-shard merge --max-manifest "$bytes" "$G/ckpt" -o back
    diff -r "$G/model" back
    # An answer of verify, not an error.
    run -1 paro-shard verify --max-tensors 38 "$f"
    [ "$output" = "$f: header has more than 38 tensors (--max-tensors)" ]
    fails "paro-shard: --max-tensors: '0', expected a whole number from 1 to 1000000000 (80e9 is one)" \
        paro-shard ls --max-tensors 0 "$f"
    [ ! -e no ]
}

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
    fails "paro-shard: many.safetensors: header has more than 1000000 tensors (--max-tensors)" \
        paro-shard ls many.safetensors
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
    local list=m/model.safetensors.index.json name
    for name in ../outside.safetensors /etc/passwd . .. ./x x/y x/../y '' 'a\nb' 'a\u001b[2J' 'a\u009b'; do
        printf '{"weight_map": {"a": "%s"}}' "$name" > $list
        fails "paro-shard: $list: 'a' is in no file of this folder" paro-shard ls m
    done
    printf '{"weight_map": {"a": "x\\u0000.safetensors"}}' > $list
    run -2 paro-shard ls m
    [[ "$output" == "paro-shard: $list:1: no valid JSON: "*u0000* ]]
    printf '{"weight_map": {"a": "\xff"}}' > $list
    run -2 paro-shard ls m
    [[ "$output" == "paro-shard: $list:1: no valid JSON: "* ]]
    printf '{"weight_map": {"a": "x", "a": "y"}}' > $list
    run -2 paro-shard ls m
    [[ "$output" == "paro-shard: $list:1: no valid JSON: duplicate object key"* ]]
    for name in '[]' '{}' '"x"' 'null' '3'; do
        echo "{\"weight_map\": $name}" > $list
        fails "paro-shard: $list: 'weight_map' is no object that names tensors" paro-shard ls m
    done
    echo '{"weight_map": {"a": ["x"]}}' > $list
    fails "paro-shard: $list: 'a' is in no file of this folder" paro-shard ls m
    python3 -c 'print("{\"weight_map\": " * 5000 + "}" * 5000)' > $list
    run -2 paro-shard ls m
    [[ "$output" == "paro-shard: $list:1: no valid JSON: maximum parsing depth reached"* ]]
    echo '{"weight_map": {"a": "config.json"}}' > $list
    run -2 paro-shard ls m
    [[ "$output" == "paro-shard: m/config.json: header claims "*" bytes, expected at most "* ]]
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
    ends_with_2 ls_bounded
    [ "$(wc -l < said)" = 1 ]
    grep -q "^paro-shard: m/model.safetensors.index.json: '[0-9]*' is in '0', the index says " said
}

# seal DIR: gives the manifest the checksum of what stands in it.
seal() {
    local said
    said=$(paro-shard verify "$1") || true
    said=${said#*: is damaged: its checksum is }
    sed -i "s/${said%%, *}/${said##* }/" "$1/manifest.json"
}

@test "a manifest that asks for much, or names what cannot be: refused before anything is made" {
    cp -r "$G/ckpt" c
    local deep
    deep=$(printf 'd/%.0s' $(seq 17))
    sed -i "s,\"name\":\"config.json\",\"name\":\"${deep}f\"," c/manifest.json
    seal c
    fails "paro-shard: c/manifest.json: source '${deep}f' is no name within a folder with its size and checksum" \
        paro-shard merge c -o no
    rm -r c
    cp -r "$G/ckpt" c
    sed -i '/^"states"/s/f32/i32/' c/manifest.json
    seal c
    fails "paro-shard: c/manifest.json: state 'params' is i32, expected f32, bf16, f16 or f64" \
        paro-shard merge c --type bf16 -o no
    run -2 paro-shard merge --max-header 100 "$G/ckpt" -o no
    [[ "$output" == *"'shard-00000.safetensors' has a header of "*" bytes, expected at most 100 (--max-header)" ]]
    rm -r c
    cp -r "$G/ckpt" c
    truncate -s 4T c/source/files/config.json || skip "no files of that size here"
    fails "paro-shard: c/source/files/config.json: has 4398046511104 bytes, expected 440" \
        timeout -s KILL 60 paro-shard merge c -o no
    [ ! -e no ] && [ ! -e .no.paro-tmp ]
}

@test "two files of 5 EiB of holes" {
    command -v python3 > /dev/null || skip "no python3 here"
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
    [ "$output" = "paro-shard: small/model.safetensors.index.json: names files of more than 2^63 bytes together" ]
}

@test "headers that lie reach nobody: split, diff, verify" {
    command -v python3 > /dev/null || skip "no python3 here"
    header a.safetensors '{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'
    fails "paro-shard: a.safetensors: 'a' has a shape of more than 2^63 elements" \
        paro-shard split a.safetensors -p "$G/plan.yaml" -o no
    header a.safetensors '{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}}'
    fails "paro-shard: a.safetensors: 'a' is F64 [1152921504606846976]: more than 2^63 bytes" \
        paro-shard diff a.safetensors "$G/model"
    header a.safetensors '{"a":{"dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807]}}'
    run -1 paro-shard verify a.safetensors
    [ "$output" = "a.safetensors: 'a' has data_offsets [9223372036854775807, 9223372036854775807], expected within the 0 bytes of data" ]
    header a.safetensors '{"../a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    run -0 paro-shard ls a.safetensors # a name is a name: nothing is made of it
    mkfifo pipe.safetensors
    fails "paro-shard: pipe.safetensors: is not a regular file" timeout 10 paro-shard ls pipe.safetensors
    [ ! -e no ]
}

@test "a shard of another run, or of another rank" {
    cp -r "$G/ckpt" mixed
    cp "$G/other.ckpt/shard-00001.safetensors" mixed
    run -1 paro-shard verify mixed
    [ "${#lines[@]}" -gt 5 ]
    local line
    for line in "${lines[@]}"; do
        [[ "$line" == "mixed/shard-00001.safetensors: "*" are damaged: checksum "* ]]
    done
    run -2 paro-shard merge mixed -o no
    [ "${#lines[@]}" = 1 ]
    [[ "$output" == "paro-shard: mixed/shard-00001.safetensors: "* ]]
    run -2 paro-shard reshard mixed -p "$G/plan.yaml" -o no
    [ "${#lines[@]}" = 1 ]
    cp "$G/ckpt/shard-00000.safetensors" mixed/shard-00001.safetensors
    run -1 paro-shard verify mixed
    cp "$G/other.ckpt/manifest.json" mixed
    run -1 paro-shard verify mixed
    [[ "${lines[0]}" == "mixed/shard-00000.safetensors: "*"damaged"* ]]
    [ "$(ls -A)" = mixed ]
}

@test "a folder that may not be written, or read" {
    command -v setpriv > /dev/null || skip "no setpriv here"
    open_place
    cp -r "$G/model" "$G/ckpt" "$G/plan.yaml" .
    cp "$BIN/paro-shard" .
    run_as_user ./paro-shard verify ckpt || skip "others cannot come to $PWD"
    mkdir -m 555 closed
    run -2 run_as_user ./paro-shard merge ckpt -o closed/m
    [ "$output" = "paro-shard: cannot make folder 'closed/.m.paro-tmp': Permission denied" ]
    run -2 run_as_user ./paro-shard split model -p plan.yaml -o closed/c
    [ "$output" = "paro-shard: cannot make folder 'closed/.c.paro-tmp': Permission denied" ]
    mkdir -m 777 open
    run -0 run_as_user ./paro-shard merge ckpt -o open/m
    run -0 run_as_user rm -r open/m
    chmod 000 ckpt/shard-00001.safetensors
    run -2 run_as_user ./paro-shard merge ckpt -o open/m
    [ "$output" = "paro-shard: cannot open 'ckpt/shard-00001.safetensors': Permission denied" ]
    [ -z "$(ls -A open)$(ls -A closed)" ]
}

# inside SCRIPT: in a mount namespace of its own, where `small` is a tmpfs of 1 MiB.
inside() {
    mounts_begin
    mkdir -p small
    "${ALONE[@]}" sh -c "mount -t tmpfs -o size=1m none small && { $1; }"
}

@test "a target that is no name: at once" {
    local to verb
    mkdir k
    for to in . .. k/. k/.. '' / ./ ../; do
        for verb in "merge $G/ckpt" "split $G/model -p $G/plan.yaml" "init -m $G/model" \
            "reshard $G/ckpt -p $G/plan.yaml" "repair $G/ckpt"; do
            # shellcheck disable=SC2086
            fails "paro-shard: '$to' cannot be written, expected a path that ends in a name" \
                paro-shard $verb --force -o "$to"
        done
    done
    [ "$(ls -A . k)" = "$(printf '.:\nk\nout\nsaid\n\nk:')" ]
    quiet paro-shard merge "$G/ckpt" --force -o k//
    diff -r "$G/model" k
}

@test "a read-only file system: one line" {
    run -2 inside "mount -o remount,ro small && paro-shard merge '$G/ckpt' -o small/m"
    [ "$output" = "paro-shard: cannot make folder 'small/.m.paro-tmp': Read-only file system" ]
}

@test "a file system that is too small: one line, nothing left" {
    local what
    for what in "merge '$G/ckpt'" "merge '$G/ckpt' --type bf16" "merge '$G/ckpt' --max-shard 300kB" \
        "reshard '$G/ckpt' -p '$G/plan.yaml'" "split '$G/model' -p '$G/plan.yaml'"; do
        run -2 inside "paro-shard $what -o small/m; rc=\$?; ls -A small; exit \$rc"
        [ "${#lines[@]}" = 1 ]
        [[ "$output" == "paro-shard: "*": No space left on device" ]]
    done
    run -2 inside "mkdir small/m; echo old > small/m/f; paro-shard merge '$G/ckpt' --force -o small/m
        rc=\$?; ls -A small; cat small/m/f; exit \$rc"
    [ "${lines[1]} ${lines[2]}" = "m old" ]
}

# What network file systems do not have: locks, renameat2's flags, fallocate, fsync of a folder.
network() {
    command -v gcc > /dev/null || skip "no gcc here"
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    cat > network.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

static int lacks(const char *what, int number)
{
    const char *list = getenv("LACKS");

    if (!list || !strstr(list, what))
        return 0;
    errno = number;
    return 1;
}

int flock(int fd, int how)
{
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");

    return lacks("lock", ENOLCK) ? -1 : real(fd, how);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    int (*real)(int, int, off_t, off_t) =
        (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");

    return lacks("room", EOPNOTSUPP) ? -1 : real(fd, mode, at, n);
}

int fallocate64(int fd, int mode, off_t at, off_t n)
{
    return fallocate(fd, mode, at, n);
}

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && lacks("sync", EINVAL) ? -1 : real(fd);
}

ssize_t copy_file_range(int in, off_t *a, int out, off_t *b, size_t n, unsigned flags)
{
    ssize_t (*real)(int, off_t *, int, off_t *, size_t, unsigned) =
        (ssize_t(*)(int, off_t *, int, off_t *, size_t, unsigned))dlsym(RTLD_NEXT,
                                                                        "copy_file_range");

    return lacks("copy", EOPNOTSUPP) ? -1 : real(in, a, out, b, n, flags);
}

int sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
    int (*real)(int, off_t, off_t, unsigned) =
        (int (*)(int, off_t, off_t, unsigned))dlsym(RTLD_NEXT, "sync_file_range");

    return lacks("flush", ENOSYS) ? -1 : real(fd, at, n, flags);
}

long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_renameat2 && a[4] && lacks("flags", EINVAL))
        return -1;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
C
    gcc -O1 -shared -fPIC -o network.so network.c -ldl
}

# lacking WHAT COMMAND...
lacking() {
    local what=$1
    shift
    LACKS=$what LD_PRELOAD=$PWD/network.so "$@"
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
        [ "$(ls -A)" = "$(printf 'c\ni\nm\nnetwork.c\nnetwork.so\nr')" ]
        rm -r c r m i
    done
}

@test "a network file system: what it cannot do is said, before anything is written" {
    network
    mkdir m .n.paro-tmp
    echo old > m/f
    fails "paro-shard: 'm' is there, and this file system cannot exchange it in one step: expected a new name, or to have it moved away first" \
        lacking flags paro-shard merge "$G/ckpt" --force -o m
    [ "$(ls -A m):$(cat m/f):$(find . -name '.m*')" = "f:old:" ]
    # Where there are no locks a writer's folder and a killed one's look alike.
    fails "paro-shard: './.n.paro-tmp' is there: another process writes './n', or one was killed; this file system has no locks that would tell: remove it" \
        lacking lock paro-shard merge "$G/ckpt" -o ./n
    rmdir .n.paro-tmp
    quiet lacking lock paro-shard merge "$G/ckpt" -o n
    # A target that came while it was written.
    quiet lacking 'lock flags' paro-shard merge "$G/ckpt" --force -o o
    fails "paro-shard: 'o' exists, expected a new name (or --force)" \
        lacking flags paro-shard merge "$G/ckpt" -o o
}

@test "two writers: one wins, the other says so" {
    mkdir .m.paro-tmp
    : > .m.paro-tmp/of_the_first
    flock .m.paro-tmp sleep 30 3>&- &
    local holder=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        flock -n .m.paro-tmp true || break
        sleep 0.1
    done
    fails "paro-shard: 'm' is being written by another process" paro-shard merge "$G/ckpt" -o m
    fails "paro-shard: 'm' is being written by another process" \
        paro-shard split "$G/model" -p "$G/plan.yaml" -o m
    [ "$(ls .m.paro-tmp)" = of_the_first ] && [ ! -e m ]
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
        [ "$(cat one two)" = "paro-shard: 'r' is being written by another process" ] ||
            [ "$(cat one two)" = "paro-shard: 'r' exists, expected a new name (or --force)" ]
        quiet paro-shard verify r
        [ "$(ls -A)" = "$(printf 'm\none\nout\nr\nsaid\ntwo')" ]
    done
}
