# SPDX-License-Identifier: BSD-3-Clause
# paro-shard, where the system does not let a file be read, or where another thing than a file
# stands in its place: a copy does instead, and nobody waits.
# shellcheck disable=SC2086

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    chmod 755 . # others run here, too
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    echo 'not read, kept' > model/tokenizer.txt
    paro-plan -m model/config.json -i synth:2x2 --strategy IIG > plan.yaml
    paro-shard split model -p plan.yaml --copies 1 -o ckpt
    paro-shard split model -p plan.yaml -o plain
}

# shard COMMAND...: paro-shard, which must end by itself.
shard() { timeout -k 1 20 paro-shard "$@"; }

# cured WORDS CURE: verify of `bad` failed with one line of these words, which names the cure.
cured() {
    [ "${#lines[@]}" = 1 ] && has_words "$output" "$1 '$2'"
}

# healed WORDS FILE: verify says so of FILE in `bad` and names its cure; repair and merge make
# what was.
healed() {
    local cure=copy-1/$2
    [ "$2" != shard-00001.safetensors ] || cure=shard-00003.copy-00001.safetensors
    run -1 shard verify bad
    cured "$1" "$cure"
    rm -rf good back
    shard repair bad -o good > said
    [ "$(wc -l < said)" = 1 ]
    has_words "$(cat said)" "$2: rebuilt '$cure'"
    diff -r "$G/ckpt" good
    shard merge bad -o back 2> said
    diff -r "$G/model" back
    has_words "$(cat said)" "$1"
}

@test "a shard that cannot be opened: a copy does" {
    cp -r "$G/ckpt" bad
    rm bad/shard-00001.safetensors
    ln -s shard-00001.safetensors bad/shard-00001.safetensors
    healed "'bad/shard-00001.safetensors': Too many levels of symbolic links" \
        shard-00001.safetensors
    run -1 shard verify --quick bad
    cured "bad/shard-00001.safetensors" shard-00003.copy-00001.safetensors
    run -1 shard verify --json bad
    [[ "$output" == *'"file":"bad/shard-00001.safetensors",'*'"repair_from":"shard-00003.copy-00001.safetensors"'* ]]
    # And what is small.
    rm -r bad
    cp -r "$G/ckpt" bad
    rm bad/manifest.json
    ln -s manifest.json bad/manifest.json
    healed "'bad/manifest.json': Too many levels of symbolic links" manifest.json
}

@test "where nothing else has it, it is not called lost" {
    local what
    cp -r "$G/plain" bad
    rm bad/shard-00001.safetensors
    ln -s shard-00001.safetensors bad/shard-00001.safetensors
    for what in 'verify bad' 'verify --quick bad' 'repair bad -o no'; do
        refuses 2 "'bad/shard-00001.safetensors': Too many levels of symbolic links" shard $what
    done
    rm -r bad
    cp -r "$G/plain" bad
    ln -sf tokenizer.txt bad/source/files/tokenizer.txt
    refuses 2 "'bad/source/files/tokenizer.txt': Too many levels of symbolic links" \
        shard repair bad -o no
    [ "$(ls)" = bad ]
}

@test "a shard that others may not read: a copy does" {
    command -v setpriv > /dev/null || skip "no setpriv here"
    open_place
    cp -r "$G/ckpt" bad
    cp "$BIN/paro-shard" .
    run_as_user ./paro-shard verify bad || skip "others cannot come to $PWD"
    mkdir -m 777 open
    chmod 000 bad/shard-00001.safetensors bad/source/headers/model.safetensors
    run -1 run_as_user ./paro-shard verify bad
    [ "${#lines[@]}" = 2 ]
    has_words "${lines[0]}" "'bad/shard-00001.safetensors': Permission denied 'shard-00003.copy-00001.safetensors'"
    has_words "${lines[1]}" "'bad/source/headers/model.safetensors': Permission denied 'copy-1/source/headers/model.safetensors'"
    run_as_user ./paro-shard repair bad -o open/good
    diff -r "$G/ckpt" open/good
}

# A disk that cannot read the first SICK_BYTES of a file whose name ends in SICK.
sick_disk() {
    command -v gcc > /dev/null || skip "no gcc here"
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    cat > sick.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
    ssize_t (*real)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    const char *sick = getenv("SICK");
    char link[64], name[4096];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, name, sizeof name - 1);
    name[got > 0 ? got : 0] = 0;
    const char *slash = strrchr(name, '/');
    if (slash && strcmp(slash + 1, sick) == 0 && at < atol(getenv("SICK_BYTES"))) {
        errno = EIO;
        return -1;
    }
    return real(fd, to, n, at);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    return pread64(fd, to, n, at);
}
C
    gcc -O1 -shared -fPIC -o sick.so sick.c -ldl
    export SICK=shard-00001.safetensors
}

@test "a disk that cannot read a header: a copy does" {
    sick_disk
    SICK_BYTES=1 LD_PRELOAD=$PWD/sick.so run -1 shard verify "$G/ckpt"
    cured "$G/ckpt/shard-00001.safetensors: 0: Input/output error" shard-00003.copy-00001.safetensors
    SICK_BYTES=1 LD_PRELOAD=$PWD/sick.so shard repair "$G/ckpt" -o good > said
    [ "$(wc -l < said)" = 1 ]
    has_words "$(cat said)" "shard-00001.safetensors: header 'shard-00003.copy-00001.safetensors'"
    diff -r "$G/ckpt" good
    # Without a copy it follows from the manifest.
    SICK_BYTES=1 LD_PRELOAD=$PWD/sick.so run -1 shard verify "$G/plain"
    has_words "$output" 'Input/output error'
    [[ $output != *copy* ]]
    SICK_BYTES=1 LD_PRELOAD=$PWD/sick.so shard repair "$G/plain" -o plain > said
    diff -r "$G/plain" plain
    # And where the data cannot be read, either.
    SICK_BYTES=1000000 LD_PRELOAD=$PWD/sick.so shard repair "$G/ckpt" -o all > said
    diff -r "$G/ckpt" all
}

@test "a pipe, a socket, a folder or a device in a file's place: nobody waits" {
    local file kind
    for file in shard-00001.safetensors manifest.json config.json source/files/tokenizer.txt \
        source/headers/model.safetensors; do
        for kind in 'mkfifo' 'mkdir' 'ln -s /dev/zero'; do
            rm -rf bad
            cp -r "$G/ckpt" bad
            rm bad/$file
            $kind bad/$file
            healed "bad/$file: not a regular file" $file
        done
    done
    command -v python3 > /dev/null || return 0
    rm "bad/$file"
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "bad/$file"
    healed "bad/$file: not a regular file" "$file"
}

@test "a pipe in a folder of weights: nobody waits" {
    mkdir m
    cp "$G/model/model.safetensors" m
    mkfifo m/config.json
    refuses 2 "'m/config.json' file folder" shard split m -p "$G/plan.yaml" -o no
    rm m/config.json m/model.safetensors
    mkfifo m/model.safetensors.index.json
    refuses 2 'm/model.safetensors.index.json: not a regular file' shard ls m
    rm m/model.safetensors.index.json
    mkfifo m/config.json
    refuses 2 'm/config.json: not a regular file' shard init -m m -o no
    paro-plan -m "$G/model" -i synth:2x1 --trainable lora=2,targets=q_proj > lora.yaml
    paro-shard split "$G/model" -p lora.yaml -o lora
    paro-shard merge lora -o adapter
    rm adapter/adapter_config.json
    mkfifo adapter/adapter_config.json
    refuses 2 'adapter/adapter_config.json: not a regular file' shard split "$G/model" -p lora.yaml --adapter adapter -o no
}

@test "what a user names may be a pipe" {
    paro-shard split "$G/model" -p <(cat "$G/plan.yaml") --copies 1 -o ckpt
    diff -r "$G/ckpt" ckpt
    paro-shard split "$G/model" -p - --copies 1 -o ckpt2 < "$G/plan.yaml"
    diff -r "$G/ckpt" ckpt2
    paro-shard init -m <(sleep 0.2; cat "$G/model/config.json") -o again
    cmp "$G/model/model.safetensors" again/model.safetensors
    mkfifo config
    cat "$G/model/config.json" > config &
    paro-plan -m config -i <(paro-topo -i synth:2x2) --strategy IIG | diff - "$G/plan.yaml"
}
