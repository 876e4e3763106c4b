# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# The mistakes that a sharded step makes without anybody noticing (paro-method(7), PITFALLS),
# one test each, under all 27 strategies.  The programs under tests/mpi say what they work out
# and why.

load refuses

export DATA=$ROOT/tests/data

# check RANKS PROGRAM ARGUMENT...
check() { timeout 300 mpirun -np "$1" "$B/mpi/$2" "${@:3}"; }

@test "overflow on one rank of one group: every rank of every group skips the step" {
    check 4 mistakes_check skip 2x2 "$DATA/llama_untied.json" 2
    check 5 mistakes_check skip '[3,2]' "$DATA/llama_untied.json" 1
}

@test "the clipping norm is that of the gradient reduced over all groups, on every rank" {
    check 4 mistakes_check norm 2x2 "$DATA/llama_untied.json" 2
    check 5 mistakes_check norm '[3,2]' "$DATA/llama_untied.json" 2
    check 4 mistakes_check norm 0,1,0,1 "$DATA/llama_untied.json" 1
}

@test "no triple runs another's code: bytes at rest and on the way are the tables'" {
    check 4 placed_check 2x2 "$DATA/llama_untied.json" 2
    check 8 placed_check 4x2 "$DATA/llama_untied.json" 2
}

# Gradients against plain training: f32, where the bound is narrow; a mean over the members of a
# group and then over groups is another number on every one of these shapes but 2x2.
@test "one average over all ranks, not one in each hop" {
    check 5 engine_check '[3,2]' "$DATA/llama_untied.json" f32 2 1
    check 5 engine_check 0,1,0,0,1 "$DATA/llama_tied.json" f32 1 1
    check 4 engine_check 2x2 "$DATA/llama_tied.json" f32 2 1
}

# placed_check lays the buffers side by side; engine_check holds their sum against the planner's.
@test "no buffer is sized for I where G is used, nor the other way" {
    check 5 placed_check '[3,2]' "$DATA/llama_untied.json" 1
    check 5 engine_check '[3,2]' "$DATA/llama_tied.json" f32 1 1
}

@test "unequal groups are groups: [4,4,3]" {
    check 11 placed_check '[4,4,3]' "$DATA/llama_untied.json" 1
    check 11 engine_check '[4,4,3]' "$DATA/llama_untied.json" f32 1 2
    check 7 engine_check '[2+1+1,2+1]' "$DATA/llama_untied.json" f32 1 2
}
