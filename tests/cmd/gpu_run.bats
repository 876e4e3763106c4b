# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# How tests/gpu/run goes from check to check, with commands in place of a GPU's: tests/gpu/checks.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir bin
    printf '#!/bin/sh\necho "a GPU"\n' >bin/nvidia-smi
    # Two of three pass, and it says a line more; it fails.
    printf 'echo ok 1 - one\necho ok 2 - two\necho not ok 3 - three\necho 1..3\nexit 1\n' >three
    printf 'echo ok 1 - one\necho 1..2\n' >less
    # What it begins has a group and a session of its own, and outlives it.
    printf 'setsid sleep 300 & echo $! >sleeper\nsetsid sleep 300\n' >hangs
    # shellcheck disable=SC2016
    printf 'echo "NCCL WARN a wire is cut" >"$(echo "$NCCL_DEBUG_FILE" | sed s/%%p/$$/)"; exit 3\n' >warns
    chmod +x bin/*
    PATH=$PWD/bin:$PATH
}

# run_checks LINE...: of a script that has sourced tests/gpu/checks
run_checks() {
    {
        echo "set -u; out=$PWD/out machine=\${machine-gpu} names=\${names-} seconds=\${seconds-}"
        echo ". $ROOT/tests/gpu/checks"
        printf '%s\n' "$@"
        echo summary
    } >script
    run sh script
    echo "$output"
}

@test "programs that speak TAP, and those whose status tells" {
    run_checks "check good true" "check bad false" "check three sh three" "check less sh less" \
        "skip absent 'no such thing'"
    [ "$status" = 1 ]
    [ "${lines[-1]}" = "4 passed, 3 failed, 1 skipped" ]
    grep -q '^not ok - less (status 0, ' <<<"$output"
    grep -qx 'not ok - less: 1 of 2 tests ran' out/tap
    grep -q '^not ok 3 - three' <<<"$output"
    [ "$(grep -c '^# ---- ' out/checks.log)" = 4 ]
    run_checks "check good true"
    [ "$status" = 0 ] && [ "${lines[-1]}" = "1 passed, 0 failed, 0 skipped" ]
}

@test "what says that it was skipped counts as that; what says that it failed, whatever its status" {
    printf 'echo "1..0 # SKIP a build without NCCL"\n' >none
    printf 'echo "ok 1 - one # skip no driver"\necho 1..1\n' >inside
    printf 'echo "not ok 1 - one"\necho 1..1\n' >silent
    run_checks "check none sh none" "check inside sh inside" "check silent sh silent"
    grep -qx 'ok - none # SKIP a build without NCCL' <<<"$output"
    grep -q '^not ok - silent (status 0, ' <<<"$output"
    [ "${lines[-1]}" = "0 passed, 1 failed, 2 skipped" ]
}

@test "one that hangs ends in its time with all that it began, and the next one goes on" {
    run_checks "LIMIT=1 check hangs sh hangs" "check next true"
    grep -qE '^not ok - hangs \(status 124, [0-9]+ s of 1\)' <<<"$output"
    grep -q '^ok - next' <<<"$output"
    [ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
    [ "$(grep -c '^# left over, ended: [0-9]* sleep 300' <<<"$output")" = 2 ]
    [ -z "$(tr -d '\0' <"/proc/$(cat sleeper)/cmdline" 2>/dev/null)" ] # nobody may have buried it
}

@test "those that are wanted alone; no time left; no GPU" {
    names='^b' run_checks "check a1 false" "check b1 true" "skip a2 x" "skip b2 x"
    [ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
    seconds=4 run_checks "check late false"
    grep -qx 'ok - late # SKIP no time left of 4 s' <<<"$output"
    machine='' run_checks "check one false"
    [ "$output" = "ok - one # SKIP no GPU here
0 passed, 0 failed, 1 skipped" ]
}

@test "what NCCL said of a check that failed is shown, and kept" {
    run_checks "check warns sh warns" "check good true"
    grep -q 'NCCL WARN a wire is cut' <<<"$output"
    grep -q 'of the GPU in use afterwards: a GPU' <<<"$output"
    grep -rq 'a wire is cut' out/nccl.1
}

@test "ended from outside: what there is counts" {
    run_checks 'check good true' "( sleep 1; kill -TERM \$\$ ) &" "check slow sleep 60" "check never true"
    [ "$status" = 1 ]
    grep -qx 'not ok - slow was ended from outside' <<<"$output"
    [ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
    run ! grep -q never out/tap
}
