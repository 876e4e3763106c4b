# SPDX-License-Identifier: BSD-3-Clause
# examples/nas.sh: four small runs, their correlations and the search.

bats_require_minimum_version 1.5.0

@test "the search for an architecture: correlations of five scores, and what it stops" {
    cd "$BATS_TEST_TMPDIR"
    HIDDEN="16 32" LAYERS="1 2" WIDER=2 STEPS=40 SEEDS=1 SEQ=32 sh "$BATS_TEST_DIRNAME/../../examples/nas.sh" > page
    [ "$(wc -l < page)" = 8 ]
    # Each is a correlation of 4 ranks without ties, 1 - d/10 for an even d; at last the results' own is 1.
    awk 'NR > 2 && NR < 8 { for (i = 2; i < 6; i++) if ($i < -1 || $i > 1 || ($i * 5) % 1 > 1e-9) exit 1 }' page
    grep -qx 'validation .* 1.000' page
    tail -n 1 page | grep -qE '^search: [0-3] of 4 runs stopped after a quarter, [0-9]+ of 160 steps, finds number [1-4]: loss [0-9.]+$'
    # The steps are those of the logs' rows: 40, or 10 of one that is stopped.
    stopped=$(sed -n 's/^search: \([0-9]\).*/\1/p' page)
    grep -q " $((160 - 30 * stopped)) of 160 steps" page
}
