# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# What goes wrong at every place where it can, of all verbs a sample; the whole campaign is
# `make check-faults`.

# sampled N CASE...: nothing is wrong, and each case has been run.
sampled() {
    local rc=0
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be loaded first, and bears no tracer"
    local out=$BATS_TEST_TMPDIR
    [ ! -w /dev/shm ] || out=$(mktemp -d /dev/shm/paro-fault.XXXXXX)
    cd "$ROOT" || return
    OUT=$out/fault kinds=${kinds-} SAMPLE=$1 JOBS=2 timeout 250 sh tests/fault/run "${@:2}" > "$BATS_TEST_TMPDIR/table" 2>&1 || rc=$?
    rm -rf "$out/fault"
    cat "$BATS_TEST_TMPDIR/table"
    [ "$rc" != 77 ] || skip "$(tail -n 1 "$BATS_TEST_TMPDIR/table")"
    [ "$rc" = 0 ]
    for name in "${@:2}"; do
        awk -v name="$name" '$1 == name && $NF == 0 { n++ } END { exit n < 1 }' "$BATS_TEST_TMPDIR/table"
    done
}

@test "allocations and system calls that fail: the old target or the new one, one line, no litter" {
    sampled 2 split-copies reshard-copies repair merge-files init verify-copies
}

@test "a run that is killed or cannot write: its checkpoints are whole, and it goes on" {
    kinds=change,lost,rename sampled 1 resume
}

@test "a run begun anew that cannot write: the old run is there or the new one" {
    kinds=change,rename,remove sampled 1 anew
}
