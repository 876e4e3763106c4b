# SPDX-License-Identifier: BSD-3-Clause
# paro-train --force: a run that is begun in another one's folder takes its place with its first
# checkpoint, and nothing is lost before.
# shellcheck disable=SC2016

load train
load mounts
load network

setup_file() { runs_begin; }

# anew: begins a run in a copy of one that has ended, and waits for its first step; $! is it.
anew() {
    cp -a "$G/ended" run
    paro-train "$G/one.yaml" -d "$TEXT" -o run --seed 2 --steps 99999 --force > out 2> said 3>&- &
    soon test -s .run.paro-tmp/log.jsonl
}

# Nothing is next to the folder, and nothing half in it.
no_litter() { [ -z "$(find . -name '*.paro-tmp')" ]; }

@test "--force: the old run stands until the new one has a checkpoint" {
    anew
    diff -r "$G/ended" run
    refuses 2 "'run' another run" paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto
    touch run/SAVE
    soon test ! -e .run.paro-tmp
    [ -e run/latest ]
    [ ! -e run/SAVE ]
    refuses 2 "'run' another run" paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto
    kill -KILL $!
    wait $! || true
    grep -q '^seed: 2$' run/settings.yaml
    paro-shard verify run/latest > /dev/null
    [ "$(cd run && echo step-*)" = "$(readlink run/latest)" ]

    rm -r run
    anew
    kill -KILL $!
    wait $! || true
    cp -a .run.paro-tmp killed
    diff -r "$G/ended" run
    paro-train --print-config --resume=auto -o run | cmp - run/settings.yaml
    said="paro-train: 'run': first checkpoint, log, 'run/log.failed.jsonl':"
    run -2 --separate-stderr paro-train "$G/one.yaml" -d "$TEXT" -o run
    [ "$(wc -l <<< "$stderr")" = 2 ]
    has_words "$stderr" "$said paro-train: 'run' new folder, --resume=auto --force"
    count=$(wc -l < killed/log.jsonl)
    head -n "$count" killed/log.jsonl | cmp - run/log.failed.jsonl
    diff -r -x log.failed.jsonl "$G/ended" run
    mv killed .run.paro-tmp
    rm run/log.failed.jsonl
    # Its settings are read, not those of the one that was killed: their seed is another.
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 5 > out 2> said
    one_warning "$said"
    [ "$(bits run/log.jsonl | wc -l)" = 5 ]
    head -n 4 run/log.jsonl | cmp - "$G/ended/log.jsonl"
    no_litter
}

@test "--force: killed while the new run takes the old one's place: the next one finishes that" {
    paro-train "$G/one.yaml" -d "$TEXT" -o new --seed 2 --steps 4 > out
    # stands RUN: what is in run is that one, and the next run leaves nothing else there.
    stands() {
        refuses 2 "'run' new folder, --resume=auto --force" paro-train "$G/one.yaml" -d "$TEXT" -o run
        diff -r "$1" run
        no_litter
        rm -r run
    }
    cp -a "$G/ended" run
    cp -a new .run.paro-tmp # it is whole, and has not been exchanged
    stands "$G/ended"
    cp -a new run
    cp -a "$G/ended" .run.paro-tmp # it has
    stands new
    cp -a new run # and what somebody put there since stays
    cp -a "$G/ended" .run.paro-tmp
    touch .run.paro-tmp/notes
    refuses 2 "'run' new folder, --resume=auto --force" paro-train "$G/one.yaml" -d "$TEXT" -o run
    rm run/notes
    diff -r new run
    no_litter
    rm -r run
    cp -a new .run.paro-tmp # moved, where no two names can be exchanged
    cp -a "$G/ended" .run.old.paro-tmp
    stands new
    cp -a new run
    cp -a "$G/ended" .run.old.paro-tmp
    stands new
    # A job script that makes the folder before it looks for a run there loses neither.
    mkdir run
    cp -a new .run.paro-tmp
    cp -a "$G/ended" .run.old.paro-tmp
    stands new
    mkdir run
    touch run/notes
    cp -a new .run.paro-tmp
    cp -a "$G/ended" .run.old.paro-tmp
    refuses 2 "'.run.paro-tmp' 'run' absent or empty" paro-train "$G/one.yaml" -d "$TEXT" -o run
    diff -r new .run.paro-tmp
    diff -r "$G/ended" .run.old.paro-tmp
    rm -r run .run.*
    # What is left of an old run is none to finish.
    cp -a "$G/ended" .run.paro-tmp
    rm .run.paro-tmp/settings.yaml
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 1 > out 2> said
    no_warning said
    no_litter
}

@test "the staging folder of another one that is called NAME.old stays" {
    mkdir .run.old.paro-tmp
    (
        flock 9
        paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 1 > out
    ) 9< .run.old.paro-tmp
    [ -d .run.old.paro-tmp ]
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 2 > out
    [ ! -e .run.old.paro-tmp ]
}

@test "--force: killed before its first checkpoint, and the old run's folder is removed since" {
    cp -a "$G/ended" killed
    rm -r killed/latest killed/step-*
    for again in "" "mkdir run"; do
        cp -a killed .run.paro-tmp
        $again
        paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 1 > out 2> said
        one_warning "'run' before its first checkpoint, and is removed"
        run ! grep -q "old run stands" said
        [ ! -e run/log.failed.jsonl ]
        no_litter
        rm -r run
    done
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
    ends 3 wait $!
    paro-shard verify run/latest > /dev/null
    no_litter
    [ "$(cd run && echo step-*)" = "$(readlink run/latest)" ]
}

@test "--force: the folder as '.' and by a link; a disk or a log of one's own there is refused; files stay" {
    cp -a "$G/ended" run
    (cd run && paro-train "$G/one.yaml" -d "$TEXT" -o . --force --steps 4 --save-every 2 > ../out 2> ../said)
    no_warning said
    [ "$(readlink run/latest)" = step-00000004 ]
    paro-shard verify run/latest > /dev/null
    ln -s run link
    paro-train "$G/one.yaml" -d "$TEXT" -o link/ --force --steps 2 > out 2> said
    no_warning said
    [ -L link ]
    paro-shard verify link/latest > /dev/null
    [ "$(ls -A run)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000002)" ]
    no_litter
    mkdir run/notes
    paro-train "$G/one.yaml" -d "$TEXT" -o run --force --steps 2 > out 2> said
    no_warning said
    rmdir run/notes
    no_litter
    cp -a run was
    for log in mine.jsonl log.jsonl; do
        refuses 2 "log 'run/$log' 'run' --force" paro-train "$G/one.yaml" -d "$TEXT" -o run --force --log "run/$log"
        diff -r was run
        no_litter
    done
    rm -r run
    mkdir run
    mounted 'mount -t tmpfs none run && cp -a "$G/ended/." run && ! anew --steps 1 2> said && cp -a run kept'
    one_line "'run' is a mount point, --force"
    diff -r "$G/ended" kept
    rm -r kept run
    cp -a "$G/ended" run
    mounted 'mount --bind run run && ! anew --steps 1 2> said'
    one_line "'run' is a mount point, --force"
    diff -r "$G/ended" run
}

# mounted COMMANDS: by sh, where mounts can be made that nobody else sees.
mounted() {
    mounts_begin
    "${ALONE[@]}" sh -c "fix() { mount --bind \"\$1\" \"\$1\"; }
        anew() { paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o run --force --seed 2 \"\$@\"; }
        go_on() { paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o run --resume=auto \"\$@\"; }
        $1"
}

@test "what cannot be removed of a run blocks neither the new one nor the next" {
    cp -a "$G/ended" run
    # In the old run's folder something stays, which has another name then.
    mounted 'fix run/step-00000002/manifest.json
        anew --steps 1 > out 2> said && ls -A run > names && go_on --steps 2 > out 2> said.next'
    one_warning "paro-train: cannot remove '.run.paro-tmp': resource busy"
    [ "$(cat names)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000001)" ]
    mv said.next said
    one_warning "paro-train: cannot remove '.run.paro-tmp': resource busy"
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 3 > out 2> said
    no_warning said
    no_litter
    # So it is with a checkpoint that is pruned, and with one that cannot even be renamed.
    for fixed in step-00000002/manifest.json step-00000002; do
        rm -r run
        cp -a "$G/ended" run
        mounted "fix run/$fixed
            go_on --steps 6 --keep 1 > out 2> said && ls -A run > names && go_on --steps 7 > out 2>> said"
        [ "$(grep -c "^paro-train: cannot remove 'run/.*step-00000002.*': .* busy" said)" = 2 ]
        grep -q '^step-00000006$' names
        paro-shard verify run/latest > /dev/null
    done
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
    [ "$(cd pruned && echo step-*)" = step-00000006 ]
    [ "$(readlink pruned/latest)" = step-00000006 ]
    [ -z "$(find pruned -name '*.paro-tmp')" ]
    # One that comes to a checkpoint again that is there.
    layered 'cd run && paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 4 > ../out 2> ../said &&
        cp -a run ../again'
    no_warning said
    diff -r -x log.jsonl "$G/ended" again
    # One that another would take the place of stands.
    layered 'cd run && ! anew --steps 2 > ../out 2> ../said && cp -a run ../old'
    one_line "cannot exchange 'run' the one before it stands"
    diff -r -x 'log.failed*' "$G/ended" old
    # A folder for which no other name can be had is said to be in the way before it is written.
    layered 'cd run/run && ! paro-shard merge step-00000004 --force -o step-00000002 2> ../../said'
    one_line "'step-00000002' file system cannot exchange"
}

@test "--force: a file system that cannot exchange two names" {
    paro-train "$G/one.yaml" -d "$TEXT" -o new --seed 2 --steps 2 > out
    network
    for why in 22 38; do # EINVAL, ENOSYS
        rm -rf run
        cp -a "$G/ended" run
        WHY=$why lacking exchange paro-train "$G/one.yaml" -d "$TEXT" -o run --seed 2 --steps 2 --force > out 2> said
        no_warning said
        [ "$(bits run/log.jsonl)" = "$(bits new/log.jsonl)" ]
        diff -r -x log.jsonl new run
        no_litter
    done
}

@test "--force: remains that are in the way and cannot be removed are an error before the first step" {
    network
    cp -a "$G/ended" run
    mkdir .run.old.paro-tmp
    touch .run.old.paro-tmp/open
    mounted "fix .run.old.paro-tmp/open
        export LACKS=exchange LD_PRELOAD=$PWD/network.so
        ! anew --steps 1 2> said"
    one_line "'.run.old.paro-tmp' is in the way"
    diff -r "$G/ended" run
}

@test "a checkpoint is written again where two names cannot be exchanged" {
    network
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 6 --save-every 2 --keep 9 > out
    cp -a run begun
    cp -a run/step-00000006 .
    lacking exchange paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 6 > out 2> said
    no_warning said
    diff -r step-00000006 run/step-00000006
    [ "$(cd run && echo step-*)" = "step-00000002 step-00000004 step-00000006" ]
    [ -z "$(find run -name '*.paro-tmp')" ]
    [ "$(readlink run/latest)" = step-00000006 ]
    # A new one that cannot be put there: latest leads to the one that was gone on with.
    run -2 --separate-stderr lacking "exchange new" paro-train "$G/one.yaml" -d "$TEXT" -o begun \
        --resume begun/step-00000002 --steps 6 --save-every 0
    [ "$(wc -l <<< "$stderr")" = 2 ]
    has_words "$stderr" "paro-train: resumes paro-train: 'begun/.step-00000006.paro-tmp' 'begun/step-00000006': Input/output error"
    [ "$(readlink begun/latest)" = step-00000002 ]
    paro-shard verify begun/latest > /dev/null
}

@test "--force: an exchange that fails is an error, and the old run stands" {
    network
    cp -a "$G/ended" run
    # EIO
    WHY=5 run -2 --separate-stderr lacking exchange paro-train "$G/one.yaml" -d "$TEXT" -o run \
        --seed 2 --steps 2 --force
    [ "$(wc -l <<< "$stderr")" = 1 ]
    has_words "$stderr" "paro-train: '.run.paro-tmp/a' '.run.paro-tmp/b': Input/output error"
    diff -r "$G/ended" run
    no_litter
}
