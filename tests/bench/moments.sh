# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Random moments, the same for a SEED, and the bits of a run, for kill.sh and local.sh.

now_ms() { echo $(($(date +%s%N) / 1000000)); }
bits() { grep -oE '"(step|loss|grad_norm|state_hash)":[^,}]*' "$1" 2> /dev/null; }

draws=0
# draw N: a whole number from 0 to N - 1, the next of SEED's, in $drawn.
# shellcheck disable=SC2034 # of who sources this
draw() {
    draws=$((draws + 1))
    drawn=$(awk -v s="$SEED" -v k="$draws" -v n="$1" 'BEGIN { srand(s * 100003 + k); rand(); print int(rand() * n) }')
}
