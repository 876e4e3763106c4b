# SPDX-License-Identifier: BSD-3-Clause
# A run's folder stands for its newest checkpoint, and for its log.
# shellcheck disable=SC2086

load train

setup_file() { runs_begin; }

# same WORDS...: what a command prints for the run is what it prints for FILE in it, @ in the words.
same() {
    local file=$1
    shift
    "${@//@/$G/ended}" > one
    "${@//@/$G/ended/$file}" > two
    [ -s one ] && cmp one two
}

@test "paro-shard takes a run's folder for its newest checkpoint" {
    same latest paro-shard ls @
    paro-shard verify "$G/ended"
    same latest paro-shard ls --json @
    paro-shard diff "$G/ended" "$G/ended/step-00000004"
    run -1 paro-shard diff "$G/ended/step-00000002" "$G/ended"
    local verb
    for verb in merge "reshard -p $G/one.yaml" repair; do
        paro-shard $verb "$G/ended" -o one.out
        paro-shard $verb "$G/ended/step-00000004" -o two.out
        diff -r one.out two.out
        rm -r one.out two.out
    done
    # The output may not replace what is read.
    cp -a "$G/ended" run
    refuses 2 "inside outside" paro-shard repair run -o run --force
    [ -L run/latest ]
}

@test "paro-train --generate, --init and --resume take a run's folder" {
    same latest paro-train --generate 'one ' --length 8 --init @
    paro-train "$G/one.yaml" -d "$TEXT" -o a --init "$G/ended" --steps 1 > out
    paro-train "$G/one.yaml" -d "$TEXT" -o b --init "$G/ended/latest" --steps 1 > out
    paro-shard diff a b
    paro-train "$G/one.yaml" -d "$TEXT" -o c --resume "$G/ended/" --steps 5 > out
    [ "$(readlink c/latest)" = step-00000005 ]
    cmp <(grep save_every c/settings.yaml) <(grep save_every "$G/ended/settings.yaml")
}

@test "a run's folder stands for its log" {
    same log.jsonl paro-train --svg @
    paro-plan --check "$G/ended" > one
    paro-plan --check "$G/ended/log.jsonl" > two
    cmp <(sed '1s,/ended ,/ended/log.jsonl ,' one) two
    paro-rank "$G/ended" > one
    (cd "$G/ended" && paro-rank log.jsonl) > two
    cmp <(sed "s|$G/ended|log.jsonl|" one) two
}

@test "a folder that is neither is refused: what was expected" {
    mkdir none
    refuses 2 "'none' log.jsonl expected run" paro-train --svg none
    refuses 2 "'none' log.jsonl expected run" paro-plan --check none
    refuses 2 "'none' log.jsonl expected run" paro-rank none
    refuses 2 "'none' manifest.json latest expected run" paro-shard merge none -o no
    refuses 2 "'none' manifest.json latest expected run" paro-shard reshard none -p "$G/one.yaml" -o no
    refuses 2 "'none' manifest.json latest expected run" paro-shard repair none -o no
    refuses 2 "'none' expected Hugging Face" paro-shard ls none
    refuses 2 "'none' manifest.json expected run" paro-train "$G/one.yaml" -d "$TEXT" -o no --resume none
    [ ! -e no ]
    # A run that lost its newest checkpoint.
    cp -a "$G/ended" run
    rm -r run/step-00000004
    refuses 2 "'run/latest' manifest.json" paro-shard merge run -o no
}
