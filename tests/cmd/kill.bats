# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# A run that is killed, told to end, or finds its disk full: `make bench-kill`, a few times.

setup() { cd "$ROOT" || return; }

@test "killed, stopped, out of disk: all gone, and on from the last checkpoint to the last bit" {
    [ -z "${SAN-}" ] || skip "its moments are those of a run without a sanitizer"
    export SEED=${SEED:-$RANDOM} # make check-full SEED=N repeats the moments
    echo "# SEED=$SEED" >&3
    OUT=$BATS_TEST_TMPDIR KILLS=3 TERMS=1 FULLS=1 STEPS=14 sh tests/bench/kill.sh > "$BATS_TEST_TMPDIR/table" 2>&1 || {
        cat "$BATS_TEST_TMPDIR/table"
        return 1
    }
    cat "$BATS_TEST_TMPDIR/table"
    grep -qE '^kill -9 of a rank +3 +3 ' "$BATS_TEST_TMPDIR/table"
    [ "$(wc -l < "$BATS_TEST_TMPDIR/table")" = 6 ]
}
