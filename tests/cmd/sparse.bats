# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs of sparse models.  Masks: tests/unit/model_sparse_test.c; gradients and bytes of all
# strategies: tests/cmd/engine.bats.

load train

setup_file() {
    runs_begin
    paro-shard init -m "$MODELS/llama-tiny.json" -o llama
}

# planned NAME SHAPE STRATEGY ACCUM WHAT ARGS...
planned() {
    paro-plan -m "$MODELS/llama-tiny.json" -i "synth:$2" --seq 32 --strategy "$3" --accum "$4" \
        --trainable "$5" "${@:6}" > "$1.yaml"
}

# hashes NAME RANKS STEPS ARGS...: of the states after each step, masks with them
hashes() {
    ranks "$2" paro-train "$1.yaml" -d "$TEXT" -o "$1" --exact --steps "$3" --json "${@:4}" |
        sed -n 's/.*"state_hash":"\([0-9a-f]*\)".*/\1/p'
}

@test "one hash on 1, 4, 6 ranks and ragged groups, under six strategies" {
    for what in sparse=0.9,every=0.25 sparse=0.8,mode=em,every=0.25,scheme=block4,lambda=0.5 \
        sparse=0.9,mode=em,p=0.02,every=0.25,scheme=block4; do
        planned one 1x1 NNN 12 $what
        rm -rf one
        hashes one 1 4 > one.hash
        [ "$(sort -u one.hash | wc -l)" = 4 ]
        for run in '4 2x2 NNN 3' '4 2x2 IGG 3' '6 3x2 NIG 2' '6 [3,2,1] IIG 2' \
            '4 [3,1] GGG 3' '6 2x3 IGI 2'; do
            # shellcheck disable=SC2086 # words
            set -- $run
            planned other "$2" "$3" "$4" $what
            rm -rf other
            hashes other "$1" 4 | cmp - one.hash
        done
    done
}

# The change before step 3 counts the gradient of step 2, whose checkpoint has it behind it.
@test "a run goes on, with its masks, under another strategy and another number of ranks" {
    planned whole 2x2 IGG 1 sparse=0.9,every=0.34,lambda=3
    hashes whole 4 6 --save-every 2 --keep 9 --init "$G/llama" > whole.hash
    tail -n 4 whole.hash > want
    planned next 1x2 GGG 2 sparse=0.9,every=0.34,lambda=3
    hashes next 2 6 --resume whole/step-00000002 < /dev/null | cmp - want
    paro-shard reshard whole/step-00000002 -p next.yaml -o cut
    paro-shard diff whole/step-00000002 cut
    paro-shard ls cut | grep -E '^model.layers.0.self_attn.q_proj.weight +F32 \[2458\] '
    rm -rf next
    hashes next 2 6 --resume cut < /dev/null | cmp - want
    planned dense 1x1 NNN 1 all
    refuses 2 "mask checkpoint plan" paro-train dense.yaml -d "$TEXT" -o dense --init cut
    planned other 1x1 NNN 1 sparse=0.8
    refuses 2 "sparse=0.9 sparse=0.8" paro-train other.yaml -d "$TEXT" -o other --init cut
}

# The merged matrices are 0 where the mask is: dense, they give the same loss; made sparse again,
# the same places are the largest.
@test "merge writes whole matrices, which are the sparse ones" {
    planned a 2x1 GGG 1 sparse=0.9,p=0
    ranks 2 paro-train a.yaml -d "$TEXT" -o a --steps 3
    paro-shard merge a/latest -o merged
    planned sparse 1x1 NNN 2 sparse=0.9,p=0 --param-type f32 --wire-type f32
    planned dense 1x1 NNN 2 all --param-type f32 --wire-type f32
    for run in sparse dense; do
        paro-train $run.yaml -d "$TEXT" -o $run --steps 1 --json --init merged > $run.out
        sed -n 's/.*"loss":\([^,]*\).*/\1/p' $run.out > $run.loss
    done
    # The same but for the order of sums: 40 * 64 * 2^-24, tests/mpi/engine_check.c.
    paste sparse.loss dense.loss | awk '{ n++; far += ($1 - $2) ^ 2 > (1.5e-4 * $2) ^ 2 } END { exit n != 1 || far }'
    # 90 % of the matrices of layers are zeros, and nothing else is.
    planned again 1x1 NNN 1 sparse=0.9,p=0
    paro-train again.yaml -d "$TEXT" -o again --steps 1 --lr 0 --weight-decay 0 --init merged
    paro-shard merge again/latest -o twice
    paro-shard diff merged twice
}

# Of an element, which a dense model sends three times (two gathers, one reduction), values are 0.1
# and masks 1/8, which is not reduced: 0.55 of 3 in the matrices of layers, all of 1 in the rest (8 %).
@test "what a sparse model sends and keeps" {
    planned dense 4x1 GGG 1 all
    planned sparse 4x1 GGG 1 sparse=0.9,p=0
    for run in dense sparse; do
        ranks 4 paro-train $run.yaml -d "$TEXT" -o $run --steps 1 --json > $run.out
        grep -o '"slow_bytes":[0-9]*' $run.out | cut -d : -f 2 > $run.slow
        grep -o '"state_bytes":[0-9]*' $run.out | cut -d : -f 2 > $run.state
    done
    echo "slow $(cat sparse.slow) of $(cat dense.slow), state $(cat sparse.state) of $(cat dense.state)"
    [ $((100 * $(cat sparse.slow))) -lt $((26 * $(cat dense.slow))) ]
    [ $((100 * $(cat sparse.state))) -lt $((20 * $(cat dense.state))) ]
}

@test "what cannot be sparse is refused" {
    refuses 2 "sparse: mode 'x'" paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x1 \
        --trainable sparse=0.9,mode=x
    planned a 2x1 GGG 1 sparse=0.9
    refuses 2 "--against sparse" ranks 2 paro-train a.yaml -d "$TEXT" -o a --against NNN
    refuses 2 "sparse paro-train --init" paro-shard split "$G/llama" -p a.yaml -o c
    refuses 2 "sparse slow-params masks" paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x1 \
        --trainable sparse=0.9 --slow-params int8
    refuses 2 "sparse GPU" paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x1 \
        --trainable sparse=0.9 --device cuda
    planned dense 1x1 NNN 1 all
    paro-train dense.yaml -d "$TEXT" -o dense --steps 1
    planned one 1x1 NNN 1 sparse=0.9
    refuses 2 "not of a sparse model --init" paro-train one.yaml -d "$TEXT" -o one --steps 2 \
        --resume=dense/latest
}
