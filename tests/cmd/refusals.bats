# SPDX-License-Identifier: BSD-3-Clause
# Every row of tests/cmd/refusals: a command line that must be refused.

load refuses

export DATA=$ROOT/tests/data

# rows COMMAND: all of its rows, and nothing is left behind.
rows() {
    local name=$1 status words line n=0 bad=0
    while IFS=$'\t' read -r status words line; do
        [[ $line == "$name "* || $line == "$name" || $line == *"| $name "* ]] || continue
        n=$((n + 1))
        refuses "$status" "$words" bash -c "$line" || bad=$((bad + 1))
        [ -z "$(ls)" ] || { echo "left behind by $line: $(ls)"; rm -rf ./*; bad=$((bad + 1)); }
    done < <(grep -v '^#' "$ROOT/tests/cmd/refusals")
    [ "$n" -gt 0 ] || { echo "no row of $name"; return 1; }
    [ "$bad" = 0 ]
}

@test "paro-topo" { rows paro-topo; }
@test "paro-plan" { rows paro-plan; }
@test "paro-sched" { rows paro-sched; }
@test "paro-bench" { rows paro-bench; }
@test "paro-shard" { rows paro-shard; }
@test "paro-train" { rows paro-train; }
@test "paro-rank" { rows paro-rank; }
@test "paro-lab" { rows paro-lab; }
@test "paro-launch" { rows paro-launch; }
@test "paro-run" { rows paro-run; }
@test "horing-check" { rows horing-check; }
@test "horing-watch" { rows horing-watch; }
