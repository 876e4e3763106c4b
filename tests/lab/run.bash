# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# paro-run on emulated nodes that lose ranks and hosts, for run.bats and run_local.bats.


# run_begin STEPS: text, fabric.yaml, the hashes of an undisturbed run in `want`, and disturb.sh.
run_begin() {
    find_lab || return 0
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    local batch=(--seq 32 --global-batch 12 --micro-batch 1)
    paro-topo -i synth:3x2,inter=500mbit,flops=1e10 --hosts 'node[0-2]' > fabric.yaml
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1,flops=1e10 "${batch[@]}" > one.yaml 2> said
    paro-train one.yaml -d text -o one --exact --steps "$1" > out 2> said
    hashes one > want
    cp "$BATS_TEST_DIRNAME/disturb.sh" .
}

run_setup() {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    cd "$BATS_TEST_TMPDIR" || return
    cp "$BATS_FILE_TMPDIR"/{text,fabric.yaml,want,disturb.sh} .
}

hashes() { sed -n 's/.*"step":\([0-9]*\).*"state_hash":"\([0-9a-f]*\)".*/\1 \2/p' "$1/log.jsonl"; }

# lab_run SCRIPT OPTION...: paro-run in the lab while SCRIPT disturbs it, with PLAN and TRAIN as more options of the
# plan and the run, and links of RATE.
lab_run() {
    {
        echo '. ./disturb.sh'
        printf 'paro-run -i fabric.yaml -m %s -o run --plan "--seq 32 --global-batch 12 --micro-batch 1 %s" --log log %s' \
            "$MODELS/llama-tiny.json" "${PLAN-}" "${*:2}"
        echo " -- -d text --exact --steps $STEPS --deadline 5 ${TRAIN---save-every 5} > out & run=\$!"
        echo "$1"
        echo "wait \$run"
    } > job.sh
    timeout 240 paro-lab --head ${RATE:+-r $RATE} -g 3 -p 2 -- sh job.sh > said 2>&1
}

# said PATTERN: in the log, after date and time.  Which step a checkpoint is of depends on the load.
said() { grep -qE "^[^ ]+ [^ ]+ .*$1" log || { cat log said; return 1; }; }
