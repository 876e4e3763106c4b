#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# paro-train --force: a run that is begun in another one's folder takes its place with its first
# checkpoint, and nothing is lost before.

bats_require_minimum_version 1.5.0
load train
load mounts
load refuses

setup_file() { runs_begin; }
setup() { runs_setup; }

# anew: begins a run in a copy of one that has ended, and waits for its first step; $! is it.
anew() {
    cp -a "$G/ended" run
    paro-train "$G/one.yaml" -d "$TEXT" -o run --seed 2 --steps 99999 --force > out 2> said 3>&- &
    for _ in $(seq 600); do
        [ ! -s run/.new.paro-tmp/log.jsonl ] || return 0
        sleep 0.05
    done
    return 1
}

@test "--force: the old run stands until the new one has a checkpoint" {
    anew
    diff -r "$G/ended" run -x .new.paro-tmp
    refuses 2 "'run' another run" paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto
    touch run/SAVE
    for _ in $(seq 600); do [ -e run/.new.paro-tmp ] || break; sleep 0.05; done
    [ ! -e run/.new.paro-tmp ] && [ -e run/latest ]
    kill -KILL $!
    wait $! || true
    grep -q '^seed: 2$' run/settings.yaml
    paro-shard verify run/latest > /dev/null
    [ "$(cd run && echo step-*)" = "$(readlink run/latest)" ] && [ ! -L "run/$(readlink run/latest)" ]

    rm -r run
    anew
    kill -KILL $!
    wait $! || true
    cp -a run killed
    diff -r "$G/ended" run -x .new.paro-tmp
    paro-train --print-config --resume=auto -o run | cmp - run/settings.yaml
    paro-train --print-config --resume=run/latest | cmp - run/settings.yaml
    said="paro-train: 'run': first checkpoint, log, 'run/log.failed.jsonl':"
    run -2 --separate-stderr paro-train "$G/one.yaml" -d "$TEXT" -o run
    [ "$(wc -l <<< "$stderr")" = 2 ]
    has_words "$stderr" "$said paro-train: 'run' new folder, --resume=auto --force"
    count=$(wc -l < killed/.new.paro-tmp/log.jsonl)
    head -n "$count" killed/.new.paro-tmp/log.jsonl | cmp - run/log.failed.jsonl
    diff -r -x log.failed.jsonl "$G/ended" run
    rm -r run
    mv killed run
    # Its settings are read, not those of the one that was killed: their seed is another.
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 5 > out 2> said
    one_warning "$said"
    [ "$(bits run/log.jsonl | wc -l)" = 5 ]
    head -n 4 run/log.jsonl | cmp - "$G/ended/log.jsonl"
}

# The latest checkpoint is whole, and of the new run, as are the settings.
finishes() {
    paro-shard verify run/latest > /dev/null
    for from in auto run/latest run/latest/; do
        paro-train --print-config --resume="$from" -o run > shown
        cmp shown new/settings.yaml
    done
    refuses 2 "'run' new folder, --resume=auto --force" paro-train "$G/one.yaml" -d "$TEXT" -o run
    diff -r new run
    rm -r run
}

@test "--force: killed while the new run takes the old one's place: the next one finishes that" {
    paro-train "$G/one.yaml" -d "$TEXT" -o new --seed 2 --steps 4 > out
    [ "$(readlink new/latest)" = "$(readlink "$G/ended/latest")" ] # they meet
    step=$(readlink new/latest)
    taken() { # of the old run, the names that stay
        mkdir run run/.new.paro-tmp
        for name in .lock "$@"; do cp -a "$G/ended/$name" run; done
        (cd new && cp -a log.jsonl plan.yaml settings.yaml "$step" ../run/.new.paro-tmp)
        ln -s ".new.paro-tmp/$step" run/latest
    }
    moved() { # the old one is gone, STEP is a link
        taken
        ln -s ".new.paro-tmp/$step" "run/$step"
        ln -sfn "$step" run/latest
    }
    taken log.jsonl plan.yaml settings.yaml "$step" step-00000002
    finishes
    taken settings.yaml
    finishes
    taken
    ln -s ".new.paro-tmp/$step" "run/$step"
    finishes
    moved
    finishes
    moved
    mv run/.new.paro-tmp/{settings.yaml,log.jsonl} run
    finishes
    moved
    mv run/.new.paro-tmp/*.* run
    rm "run/$step"
    mv "run/.new.paro-tmp/$step" run
    ln -s ".new.paro-tmp/$step" "run/.new.paro-tmp/$step"
    finishes
}

# bats test_tags=full
@test "--force: a run that fails before its first checkpoint leaves the old one as it was" {
    cp -a "$G/ended" run
    # Each file up to half of a shard.
    half=$(($(stat -c %s run/latest/shard-00000.safetensors) / 2048))
    # too_large WORDS OPTION...: it fails at its first checkpoint.
    too_large() {
        run -2 --separate-stderr bash -c "ulimit -f $half; paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o run \
            --force --steps 50 ${*:2}"
        [ "$(grep -c '^paro-train: ' <<< "$stderr")" = 1 ]
        has_words "$stderr" "paro-train: File too large; log $1"
    }
    too_large "'run/log.failed.jsonl'" --save-every 2
    [ "$(bits run/log.failed.jsonl | wc -l)" -ge 2 ]
    cp run/log.failed.jsonl failed
    # One after it has a log of its own, and a run that has a checkpoint removes both.
    too_large "'run/log.failed-00000002.jsonl'" --save-every 3 --seed 5
    cmp failed run/log.failed.jsonl
    run ! cmp -s failed run/log.failed-00000002.jsonl
    cp -a run both
    paro-train "$G/one.yaml" -d "$TEXT" -o both --force --steps 1 > out
    [ -z "$(find both -name '*failed*')" ]
    rm run/log.failed*
    diff -r "$G/ended" run
    # Without a line of its own it leaves nothing.
    run -2 --separate-stderr mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o run --force --log no/log
    has_words "$stderr" "cannot open log 'no/log'"
    diff -r "$G/ended" run
    # One that is told to end has a checkpoint.
    rm -r run
    anew
    kill -TERM $!
    rc=0
    wait $! || rc=$?
    [ "$rc" = 3 ]
    paro-shard verify run/latest > /dev/null
    [ -z "$(find run -name '*.paro-tmp')" ]
    [ "$(cd run && echo step-*)" = "$(readlink run/latest)" ]
}

@test "--force: the folder as '.', by a link, and as a disk of its own" {
    cp -a "$G/ended" run
    (cd run && paro-train "$G/one.yaml" -d "$TEXT" -o . --force --steps 1 > ../out 2> ../said)
    no_warning said
    paro-shard verify run/latest > /dev/null
    ln -s run link
    paro-train "$G/one.yaml" -d "$TEXT" -o link/ --force --steps 2 > out 2> said
    no_warning said && [ -L link ]
    paro-shard verify link/latest > /dev/null
    [ "$(ls -A run)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000002)" ]
    rm -r run
    mkdir run
    # shellcheck disable=SC2016 # its own shell's
    mounted 'mount -t tmpfs none run && cp -a "$G/ended/." run && anew --steps 1 > out 2> said && cp -a run kept'
    no_warning said
    paro-shard verify kept/latest > /dev/null
    [ "$(ls -A kept)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000001)" ]
}

# mounted COMMANDS: by sh, where mounts can be made that nobody else sees.
mounted() {
    mounts_begin
    "${ALONE[@]}" sh -c "fix() { mount --bind \"\$1\" \"\$1\"; }
        anew() { paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o run --force --seed 2 \"\$@\"; }
        go_on() { paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o run --resume=auto \"\$@\"; }
        $1"
}

@test "--force: what cannot be removed of the old run blocks neither the new one nor the next" {
    cp -a "$G/ended" run
    # In a folder something stays; the folder itself has another name then.
    mounted 'fix run/step-00000002/manifest.json
        anew --steps 1 > out 2> said && ls -A run > names && ls -A run/.gone-* > stays &&
        go_on --steps 2 > out 2> said.next'
    one_warning "paro-train: cannot remove 'run/.gone-00000001.paro-tmp': resource busy"
    cmp <(warnings said) <(warnings said.next)
    [ "$(cat names)" = "$(printf '%s\n' .gone-00000001.paro-tmp .lock latest log.jsonl plan.yaml settings.yaml step-00000001)" ]
    [ "$(cat stays)" = manifest.json ] # and nothing that could be removed
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 3 > out 2> said
    no_warning said
    [ -z "$(find run -name '*.paro-tmp')" ]
    [ "$(bits run/log.jsonl | wc -l)" = 3 ]
}

@test "--force: a checkpoint of the old run that cannot even be renamed stays, and is told" {
    cp -a "$G/ended" run
    mounted 'fix run/step-00000002
        anew --steps 1 > out 2> said && ls -A run > names && go_on --steps 3 > out 2> said.next'
    one_warning "paro-train: cannot remove 'run/step-00000002': resource busy"
    [ "$(cat names)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000001 step-00000002)" ]
    [ "$(readlink run/latest)" = step-00000003 ]
    paro-shard verify run/latest > /dev/null
    # What the new run needs the name of is an error, and the new run is there all the same.
    rm -r run
    cp -a "$G/ended" run
    mounted 'fix run/log.jsonl
        anew --steps 1 > out 2> said && exit 1
        go_on > out 2>> said && exit 1
        paro-shard verify run/latest'
    [ "$(warnings said | wc -l)" = 2 ]
    [ "$(grep -c "^paro-train: cannot remove 'run/log.jsonl': .* busy" said)" = 2 ] || { cat said; return 1; }
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 2 > out 2> said
    no_warning said
    [ "$(bits run/log.jsonl | wc -l)" = 2 ]
    [ -z "$(find run -name '*.paro-tmp')" ]
}

@test "--force: what a killed run left and cannot be removed blocks no other" {
    cp -a "$G/ended" run
    mkdir run/.new.paro-tmp run/.step-00000004.paro-tmp
    echo '{"step":1}' | tee run/.new.paro-tmp/log.jsonl > run/.step-00000004.paro-tmp/half
    touch run/.new.paro-tmp/settings.yaml
    mounted 'fix run/.new.paro-tmp/settings.yaml
        fix run/.step-00000004.paro-tmp/half
        go_on --steps 4 > out 2> said && go_on --steps 5 > out 2>> said && anew --steps 4 > out 2>> said'
    grep -q "^paro-train: 'run': .* first checkpoint" said
    [ "$(grep -c "^paro-train: cannot remove 'run/.gone-0000000[12].paro-tmp': .* busy" said)" = 3 ]
    [ "$(warnings said | wc -l)" = 4 ]
    [ "$(readlink run/latest)" = step-00000004 ]
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 5 > out 2> said
    no_warning said
    [ -z "$(find run -name '*.paro-tmp')" ]
}

# layered COMMANDS: by sh, where `run` is a copy of $G/ended in a lower layer of overlayfs, which
# renames no folder of it.
layered() {
    mounts_begin
    mkdir -p layers run
    "${ALONE[@]}" sh -c 'mount -t tmpfs none layers && cd layers && mkdir low up work top &&
        mount -t overlay none -o redirect_dir=off,lowerdir=low,upperdir=up,workdir=work top' ||
        skip "no overlayfs here"
    mounted "mount -t tmpfs none layers && mkdir -p layers/low layers/up layers/work &&
        cp -a \"\$G/ended\" layers/low/run &&
        mount -t overlay none -o redirect_dir=off,lowerdir=layers/low,upperdir=layers/up,workdir=layers/work run &&
        { $1; }"
}

@test "folders that overlayfs cannot rename: pruned, replaced and written again where they are" {
    # One that is resumed, with too many checkpoints.
    layered 'cd run
        go_on --steps 6 --keep 1 > ../out 2> ../said && cp -a run ../pruned'
    no_warning said
    [ "$(cd pruned && echo step-*)" = step-00000006 ] && [ "$(readlink pruned/latest)" = step-00000006 ]
    [ -z "$(find pruned -name '*.paro-tmp')" ]
    # One that comes to a checkpoint again that is there.
    # shellcheck disable=SC2016 # its own shell's
    layered 'cd run && paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 4 > ../out 2> ../said &&
        cp -a run ../again'
    no_warning said
    diff -r -x log.jsonl "$G/ended" again
    # One that takes the place of another.
    layered 'cd run && anew --steps 2 > ../out 2> ../said && cp -a run ../new'
    no_warning said
    [ "$(cd new && echo step-*)" = step-00000002 ] && [ ! -L new/step-00000002 ]
    [ -z "$(find new -name '*.paro-tmp')" ]
    paro-shard verify new/latest > /dev/null
    # A folder for which no other name can be had is said to be in the way before it is written.
    layered 'cd run/run && ! paro-shard merge step-00000004 --force -o step-00000002 2> ../../said'
    one_line "'step-00000002' file system cannot exchange"
}

# exchange ERRNO: makes ./no.so, with which no two names change places, for that reason; with
# -DNO_NEW no folder gets a new name either.
exchange() {
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    cat > no.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"), a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
#ifdef NO_NEW
    if (number == SYS_renameat2 && (a[4] & 0xffffffff) == RENAME_NOREPLACE) {
        errno = EIO;
        return -1;
    }
#endif
    if (number != SYS_renameat2 || (a[4] & 0xffffffff) != RENAME_EXCHANGE)
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    errno = WHY;
    return -1;
}
END
    gcc -O1 -shared -fPIC -DWHY="$1" ${2+"$2"} -o no.so no.c -ldl
}

@test "--force: a file system that cannot exchange two names" {
    paro-train "$G/one.yaml" -d "$TEXT" -o new --seed 2 --steps 2 > out
    for why in EINVAL ENOSYS; do
        exchange $why
        rm -rf run
        cp -a "$G/ended" run
        LD_PRELOAD=$PWD/no.so paro-train "$G/one.yaml" -d "$TEXT" -o run --seed 2 --steps 2 --force > out 2> said
        no_warning said
        [ "$(bits run/log.jsonl)" = "$(bits new/log.jsonl)" ]
        [ ! -L run/step-00000002 ]
        diff -r -x log.jsonl new run
    done
    # Killed between the two names, by which `latest` leads nowhere.
    mkdir run/.new.paro-tmp
    mv run/step-00000002 run/.new.paro-tmp
    rm new/log.jsonl run/log.jsonl
    refuses 2 "'run' new folder, --resume=auto --force" \
        env LD_PRELOAD="$PWD/no.so" paro-train "$G/one.yaml" -d "$TEXT" -o run
    finishes
}

@test "a checkpoint is written again where two names cannot be exchanged" {
    exchange EINVAL
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 6 --save-every 2 --keep 9 > out
    cp -a run begun
    cp -a run/step-00000006 .
    LD_PRELOAD=$PWD/no.so paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 6 > out 2> said
    no_warning said
    diff -r step-00000006 run/step-00000006
    [ "$(cd run && echo step-*)" = "step-00000002 step-00000004 step-00000006" ]
    [ -z "$(find run -name '*.paro-tmp')" ]
    [ "$(readlink run/latest)" = step-00000006 ]
    # A new one that cannot be put there: latest leads to the one that was gone on with.
    exchange EINVAL -DNO_NEW
    run -2 --separate-stderr env LD_PRELOAD="$PWD/no.so" paro-train "$G/one.yaml" -d "$TEXT" -o begun \
        --resume begun/step-00000002 --steps 6 --save-every 0
    [ "$(wc -l <<< "$stderr")" = 2 ]
    has_words "$stderr" "paro-train: resumes paro-train: 'begun/.step-00000006.paro-tmp' 'begun/step-00000006': Input/output error"
    [ "$(readlink begun/latest)" = step-00000002 ]
    paro-shard verify begun/latest > /dev/null
}

@test "--force: an exchange that fails is an error, and the next run makes it good" {
    exchange EIO
    cp -a "$G/ended" run
    run -2 --separate-stderr env LD_PRELOAD="$PWD/no.so" paro-train "$G/one.yaml" -d "$TEXT" -o run \
        --seed 2 --steps 2 --force
    [ "$(wc -l <<< "$stderr")" = 1 ]
    has_words "$stderr" "paro-train: 'run/.new.paro-tmp/step-00000002' 'run/step-00000002': Input/output error"
    paro-shard verify run/latest > /dev/null
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 3 > out 2> said
    no_warning said
    [ "$(bits run/log.jsonl | wc -l)" = 3 ]
    [ ! -L run/step-00000002 ]
    [ -z "$(find run -name '*.paro-tmp')" ]
}
