# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# What proves a run right: the audit before the first step, the hash of the states, --against.
# tests/mpi/proof_check.c breaks one thing at a time inside the engine; here are the runs.

load refuses

setup_file() {
    export DATA=$ROOT/tests/data
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    plan one 1x1 NNN
    plan four 2x2 IIG
    plan six 3x2,cabling=ring GGG
    plan five '[3,2]' GGG --wire-type f32 --param-type f32
}

plan() {
    paro-plan -m "$MODELS/llama-tiny.json" -i "synth:$2" --seq 32 --strategy "$3" "${@:4}" > "$1.yaml"
}

check() { timeout 300 mpirun -np "$1" "$B/mpi/proof_check" "${@:2}"; }
train() { timeout 100 mpirun -np "$1" paro-train "$G/$2.yaml" -d "$G/text" "${@:3}"; }
bits() { grep -oE '"(step|loss|grad_norm|lr)":[^,}]*' "$1"; }

@test "the audit names state, unit and elements" {
    check 4 audit 2x2 "$DATA/llama_untied.json"
    check 5 audit '[3,2]' "$DATA/llama_untied.json"
}

@test "the hash: one bit of any state, on any rank" {
    check 4 hash 2x2 "$DATA/llama_untied.json"
    check 5 hash 0,1,0,1,0 "$DATA/llama_untied.json"
}

@test "--against names state, tensor and elements of the first difference" {
    check 4 against 2x2 "$DATA/llama_untied.json"
    check 5 against '[3,2]' "$DATA/llama_untied.json"
}

# 30 steps of 27 strategies, each against another one: no bound is too narrow.
@test "--against has nothing to say of an honest run, of skipped steps neither" {
    check 4 honest 2x2 "$DATA/llama_untied.json" bf16 30 0
    check 5 honest '[3,2]' "$DATA/llama_tied.json" f32 30 1
    check 5 honest 0,1,0,1,0 "$DATA/llama_untied.json" bf16 30 2
}

@test "a run with --against is the run without" {
    train 4 four -o a --steps 5 --lr 1e-2 --clip 0.1 > out
    train 4 four -o b --steps 5 --lr 1e-2 --clip 0.1 --against NGN > out 2> said
    one_warning 'paro-train: states IIG NGN agreed all 5 steps tolerance exp_avg'
    # What was added in another order differs, and by no more than what is allowed.
    awk '/agreed/ { exit !($NF > 0 && $NF < 1) }' said
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    [ "$(bits b/log.jsonl | wc -l)" = 20 ]
    paro-shard diff a/latest b/latest
    # Itself, by an alias; alone; with exact sums; unequal groups.
    train 4 four -o c --steps 2 --against hfsdp > out
    paro-train "$G/one.yaml" -d "$G/text" -o d --steps 2 --against zero3 > out
    train 4 four -o e --steps 3 --against ddp --exact > out 2> said
    one_warning 'paro-train: states IIG NNN agreed all 3 steps bit for bit'
    train 5 five -o f --steps 3 --against IIG > out
    train 5 five -o g --steps 3 --against NNG --exact > out
    # A ring of cables: both ways round.
    train 6 six -o h --steps 3 --against NNN --exact > out
}

@test "a run that goes astray is skipped or goes on alike under both" {
    train 4 four -o a --steps 12 --lr 1e3 --min-lr 1e3 --clip 0 --against GGG > out 2> said
    one_warning 'states IIG GGG agreed of 12 steps not finite'
    [ "$(grep -c '"skipped":true' a/log.jsonl)" -gt 0 ]
    # What is not finite cannot be compared, but both have it.
    train 4 four -o b --steps 12 --lr 1e3 --min-lr 1e3 --clip 0 --skip-nonfinite 0 --against GGG > out 2> said
    one_warning 'states IIG GGG agreed of 12 steps not finite'
    [ "$(grep -c '"skipped":true' b/log.jsonl || true)" = 0 ]
    grep -q '"grad_norm":null' b/log.jsonl
}

# Changes one element of the first engine's master while the line of step 2 is being said: the first
# large block of memory is that engine's, and begins with the embedding's accumulator (f64, as sums
# are exact) and its master.
one_bit() {
    cat > bit.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static char *first;
static int lines;

int posix_memalign(void **out, size_t align, size_t bytes)
{
    int (*real)(void **, size_t, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "posix_memalign");
    int rc = real(out, align, bytes);
    if (rc == 0 && !first && bytes > 8 << 20)
        first = *out;
    return rc;
}

int fflush(FILE *f)
{
    int (*real)(FILE *);
    *(void **)&real = dlsym(RTLD_NEXT, "fflush");
    int rc = real(f);
    if (f == stdout && ++lines == 2 && first)
        first[256 * 128 * 8 + 4 * 100 + 1] ^= 16;
    return rc;
}
END
    gcc -O1 -shared -fPIC -o bit.so bit.c
}

@test "one element that differs: status 1, one line, the log ends before that step" {
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    one_bit
    run -1 --separate-stderr env LD_PRELOAD="$PWD/bit.so" paro-train "$G/one.yaml" -d "$G/text" \
        -o a --steps 9 --exact --against GGG
    has_words "$stderr" "paro-train: step 3: master 'model.embed_tokens.weight', 100 101: NNN, expected GGG 1"
    [ "$(wc -l <<< "$stderr")" = 1 ]
    [ "$(wc -l < a/log.jsonl)" = 2 ]
    # On two ranks another copy is not what it was, which the hash alone finds.
    plan two 2x1 NNN
    rm -rf a
    run -1 --separate-stderr mpirun -np 2 "$ROOT/tests/cmd/on-rank" 0 LD_PRELOAD="$PWD/bit.so" \
        paro-train two.yaml -d "$G/text" -o a --steps 9 --exact
    has_words "$(grep '^paro' <<< "$stderr")" "paro-train: 'master' 'embed' differ"
    [ "$(grep -c '^paro' <<< "$stderr")" = 1 ]
    [ "$(wc -l < a/log.jsonl)" = 2 ]
}

@test "--against wants a strategy" {
    local s
    for s in XYZ NN NNNN '' 'N N' zero4; do
        refuses 2 "--against: '$s'" paro-train "$G/one.yaml" -d "$G/text" -o new --against "$s"
        [ ! -e new ]
    done
}
