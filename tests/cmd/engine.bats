# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# The training step under every strategy against training without shards (tests/mpi/engine_check.c
# has the bounds and where they come from), and what it allocates.

load refuses

export MODEL_DATA=$ROOT/tests/data

plan() { paro-plan -m "$MODELS/llama-tiny.json" -i "$2" --seq 32 "${@:3}" > "$1.yaml"; }

check() { # SHAPE MODEL TYPE ACCUM STEPS [params8|params16] [grads8|grads16]
    local n=$1
    case $n in 2x2 | 0,1,0,1 | '[2+2]') n=4 ;; *) n=5 ;; esac
    mpirun -np $n "$B/mpi/engine_check" "$1" "$MODEL_DATA/llama_$2.json" "${@:3}"
}

@test "27 strategies on 2x2: first gradients, 20 losses, bytes" {
    check 2x2 tied bf16 1 20
    check 2x2 untied f32 2 3
    check 2x2 tied f32 1 3
    check 2x2 untied bf16 2 3
}

@test "27 strategies on [3,2]: first gradients, 20 losses" {
    check '[3,2]' untied bf16 1 20
    check '[3,2]' tied f32 2 3
    check '[3,2]' untied f32 1 3
    check '[3,2]' tied bf16 2 3
}

@test "27 strategies on groups of several cells: [2+2], [2+1,2]" {
    check '[2+2]' tied bf16 2 3
    check '[2+1,2]' untied f32 2 3
    check '[2+1,2]' tied bf16 1 3 params8 grads8
}

@test "27 strategies with ranks placed by node" {
    check 0,1,0,1 untied bf16 2 3
    check 0,1,0,1,0 tied f32 1 3
}

@test "27 strategies where a part trains: patterns and adapters, gradients, losses, bytes" {
    check 2x2 tied bf16 2 3 'freeze=model.embed*,*.mlp.*'
    check '[3,2]' untied f32 2 3 'train=*layers.1.*,lm_head*'
    check 2x2 untied f32 1 20 lora=3
    check '[3,2]' tied bf16 2 3 lora=1,alpha=2,targets=q_proj+down_proj
    check 0,1,0,1 untied bf16 2 3 'train=model.norm*' params8 grads8
    check 0,1,0,1,0 tied f32 1 3 'freeze=*layernorm*,model.embed*'
}

@test "27 strategies of a sparse model, by entries and by blocks: gradients, losses, bytes" {
    check 2x2 tied bf16 2 3 sparse=0.8
    check '[3,2]' untied f32 1 20 sparse=0.9,scheme=block4
    check 0,1,0,1,0 tied f32 2 3 sparse=0.7,mode=em
    check 2x2 untied f32 2 3 sparse=0.9,mode=em,p=0.02,scheme=block4
    check '[3,2]' tied f32 1 3 sparse=0.93,mode=em,p=0.02
}

@test "27 strategies, int8 blocks and bf16 between groups: gradients, 20 losses, equal copies, bytes" {
    check 2x2 tied bf16 1 20 params8 grads8
    check 2x2 untied f32 2 3 grads8
    check '[3,2]' untied bf16 1 3 grads8
    check '[3,2]' tied f32 2 20 params8
    check 0,1,0,1 untied f32 2 3 params8 grads8
    check 0,1,0,1,0 tied bf16 1 3 params8 grads8
    check 2x2 untied f32 2 3 params16
    check '[3,2]' tied f32 1 20 grads16
}

@test "27 strategies, moments in bf16 and int8: gradients, equal copies, bytes" {
    check 2x2 tied bf16 1 3 moments-bf16
    check 2x2 untied f32 2 3 moments-int8
    check '[3,2]' untied bf16 1 3 moments-int8
    check '[3,2]' tied f32 2 3 params8 grads8 moments-int8
    check 0,1,0,1 untied bf16 2 3 lora=3 moments-int8
    check 0,1,0,1,0 tied f32 2 3 sparse=0.7,mode=em moments-int8
}

@test "27 strategies: what several ranks keep is read by one of them, or fails on all" {
    local tied=$MODEL_DATA/llama_tied.json untied=$MODEL_DATA/llama_untied.json
    mpirun -np 4 "$B/mpi/spread_check" 2x2 "$tied" bf16
    mpirun -np 5 "$B/mpi/spread_check" '[3,2]' "$untied" f32
    mpirun -np 4 "$B/mpi/spread_check" '[3,1]' "$untied" bf16 params8
    mpirun -np 5 "$B/mpi/spread_check" 0,1,0,1,0 "$tied" f32 'freeze=model.embed*,*.mlp.*'
    mpirun -np 1 "$B/mpi/spread_check" 1x1 "$tied" f32
}

@test "no allocation in the step loop" {
    seq 1 20000 > text
    plan one synth:1x1
    "$B/mpi/alloc_check" one.yaml text a
    for s in GGG NNN IIG; do
        plan two synth:2x1 --accum 2 --strategy $s
        mpirun -np 2 "$B/mpi/alloc_check" two.yaml text "$s"
        plan coded synth:2x1 --accum 2 --strategy $s --slow-params int8 --slow-grads int8
        mpirun -np 2 "$B/mpi/alloc_check" coded.yaml text "$s-8"
        plan moments synth:2x1 --accum 2 --strategy $s --moments int8
        mpirun -np 2 "$B/mpi/alloc_check" moments.yaml text "$s-m"
    done
}
