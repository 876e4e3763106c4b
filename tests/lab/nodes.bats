# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train on emulated nodes: the whole way of a user, ranks placed by slot and by node, a port
# that carries what the plan said, a lab that is killed.

bats_require_minimum_version 1.5.0
load lab

setup_file() {
    find_lab || return 0
    export TINY=$ROOT/examples/models/llama-tiny.json
    export MODEL_DATA=$ROOT/tests/data
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    paro-plan -m "$TINY" -i synth:2x2 --seq 32 --strategy IGG > plan.yaml
}

# lab ARG...: its standard error goes to said; mpirun's talk of other things is not ours.
lab() { paro-lab "$@" 2> said < /dev/null; }
ours() { grep '^paro-' said | grep -vE ': (resumes from|done)' || true; }
losses() { grep -oE '"loss":[^,]*,"grad_norm":[^,]*' "$1"; }

@test "nodes, by slot: trains, stops, goes on as one run" {
    lab -r 500mbit -- paro-train "$G/plan.yaml" -d "$G/text" -o a --steps 6 > out
    [ -z "$(ours)" ]
    [ "$(wc -l < out)" = 7 ]
    lab -r 500mbit -- paro-train "$G/plan.yaml" -d "$G/text" -o b --steps 6 --save-every 3 > out
    rm -r b/step-00000006
    ln -sfn step-00000003 b/latest
    lab -r 500mbit -- paro-train "$G/plan.yaml" -d "$G/text" -o b --resume=auto > out
    diff <(losses a/log.jsonl) <(losses b/log.jsonl)
    [ "$(losses a/log.jsonl | wc -l)" = 6 ]
    paro-shard diff a/latest b/latest
    paro-shard merge a/latest -o trained
    paro-shard verify trained
}

@test "by node: said, the same losses as by slot" {
    lab -- paro-train "$G/plan.yaml" -d "$G/text" -o a --steps 3 > out
    lab --map-by node -- paro-train "$G/plan.yaml" -d "$G/text" -o b --steps 3 > out
    [ "$(ours)" = "paro-train: ranks 0 and 1 are in one group of the plan, but on two hosts: slower than planned" ]
    # The same groups, schedules and sums: the same bits, wherever the ranks are.
    diff <(losses a/log.jsonl) <(losses b/log.jsonl)
}

@test "groups of several nodes, where the plan has them so: nothing to say, the same losses" {
    # Four nodes of a rank each; level 0 of the first fabric is a node, level 1 joins two.
    paro-plan -m "$TINY" -i synth:2x2x1 --seq 32 --strategy IGG --group-level 1 > wide.yaml
    grep -qx '      - \[3\]' wide.yaml
    lab -g 4 -p 1 -- paro-train wide.yaml -d "$G/text" -o a --steps 3 > out
    [ -z "$(ours)" ]
    lab -g 4 -p 1 -- paro-train "$G/plan.yaml" -d "$G/text" -o b --steps 3 > out
    [[ $(ours) == "paro-train: ranks 0 and 1 are in one group of the plan, but on two hosts:"* ]]
    diff <(losses a/log.jsonl) <(losses b/log.jsonl)
    [ "$(losses a/log.jsonl | wc -l)" = 3 ]
}

@test "27 strategies on unequal nodes, by slot and by node" {
    lab -p 3,2 -- "$B/mpi/engine_check" hosts "$MODEL_DATA/llama_untied.json" bf16 1 3
    lab -p 3,2 --map-by node -- "$B/mpi/engine_check" hosts "$MODEL_DATA/llama_tied.json" f32 2 3
}

@test "lines that cannot be written are the status 2, and the run is whole" {
    run -2 --separate-stderr bash -c 'paro-lab -- paro-train "$@" > /dev/full' - "$G/plan.yaml" -d "$G/text" -o a --steps 3
    [ "$(grep -v '^paro-train: done' <<<"$stderr")" = "paro-lab: cannot write to standard output" ]
    [ "$(losses a/log.jsonl | wc -l)" = 3 ]
}

@test "an error is one line and the status, through the lab" {
    run -2 lab -g 3 -- paro-train "$G/plan.yaml" -d "$G/text" -o new
    [ "$(ours)" = "paro-train: rank 0 (node0): the plan is for 4 ranks, but 6 run" ]
    [ ! -e new ]
}
