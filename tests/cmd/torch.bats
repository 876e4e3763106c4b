#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# paro-train's losses and gradient norms are PyTorch's: tests/data/train_llama-tiny.dump, which
# tests/reference/train_llama.py made with transformers' model and torch.optim.AdamW.

bats_require_minimum_version 1.5.0

DUMP=$BATS_TEST_DIRNAME/../data/train_llama-tiny.dump
MODEL=$BATS_TEST_DIRNAME/../../examples/models/llama-tiny.json

# The value of a key in the dump's head.
fact() { sed -n "/^\$/q; s/^$1 //p" "$DUMP"; }

setup() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    DATA=$(fact data)
    [ -r "$DATA" ] || skip "no $DATA here"
    [ "$(sha256sum < "$DATA")" = "$(fact data_sha256)  -" ] ||
        skip "$DATA differs from the dump's (sha256 $(fact data_sha256))"
}

# plan FABRIC STRATEGY RANKS: f32 throughout; all shapes see the dump's micro-batches.
plan() {
    paro-plan -m "$MODEL" -i "synth:$1" --strategy "$2" --param-type f32 --wire-type f32 \
        --grad-type f32 --micro-batch "$(fact micro_batch)" --seq "$(fact seq)" \
        --accum $(($(fact micro_batches) / $3)) > plan.yaml
}

# train RANKS [OPTION...]: with the dump's settings, then the given ones; logs to run/log.jsonl.
train() {
    local ranks=$1 s words=()
    for s in steps lr min_lr warmup beta1 beta2 eps weight_decay clip seed; do
        words+=("--${s//_/-}=$(fact $s)")
    done
    timeout 100 mpirun -np "$ranks" paro-train plan.yaml -d "$DATA" -o run --force \
        "${words[@]}" "${@:2}" > out 2> said || { cat said; return 1; }
}

# Says how far the log is from PyTorch; fails when that is too far or a step is missing.
#
# The bound, relative: float64 is taken for the truth.  PyTorch's own float32 run strays from
# it by rounding alone, over the same sums and the same steps: the largest such distance of a
# column (4e-8 of the loss, 1.3e-6 of the norm) is what float32 costs here.  Ours adds in another
# order, and on another processor in yet another one; 32 times the distance leaves five bits for
# that.  Twice the epsilon, a clip of 1.01 for 1, embeddings without decay: all are outside.
compare() {
    perl -MJSON::PP -e '
        my ($dump, $log) = @ARGV;
        my (@want, %names, %stray, %off);
        open my $in, "<", $dump or die "$dump: $!";
        while (<$in>) {
            push @want, [split] if /^\d/;
            %names = map { $_ => $n++ } split if /^step /;
        }
        open $in, "<", $log or die "$log: $!";
        my @got = map { decode_json($_) } <$in>;
        die "no steps\n" unless @want;
        die @got . " steps, expected " . @want . "\n" unless @got == @want;
        for my $i (0 .. $#want) {
            die "step $got[$i]{step}\n" unless $got[$i]{step} == $want[$i][0];
            for my $key ("loss", "grad_norm") {
                my ($torch, $true) = @{$want[$i]}[@names{$key, "${key}_f64"}];
                my ($o, $s) = (abs($got[$i]{$key} / $true - 1), abs($torch / $true - 1));
                $off{$key} = $o if $o >= ($off{$key} // 0);
                $stray{$key} = $s if $s >= ($stray{$key} // 0);
            }
        }
        my $bad = 0;
        for my $key (sort keys %off) {
            my $bound = 32 * $stray{$key};
            printf "%s: off by %.3g, allowed %.3g\n", $key, $off{$key}, $bound;
            die "a bound that says nothing\n" unless $bound > 0 && $bound < 1e-4;
            $bad = 1 unless $off{$key} <= $bound;
        }
        exit $bad;' "$DUMP" run/log.jsonl
}

@test "20 steps of one rank are PyTorch's" {
    plan 1x1 NNN 1
    train 1
    compare
}

@test "20 steps of two ranks in two groups, NGG, are PyTorch's" {
    plan 2x1 NGG 2
    train 2
    compare
}

@test "20 steps of four ranks, 2x2, IIG, are PyTorch's" {
    plan 2x2 IIG 4
    train 4
    compare
}

@test "20 steps of four ranks in unequal groups, 3 and 1, GGG, are PyTorch's" {
    plan '[3,1]' GGG 4
    train 4
    compare
}

@test "the comparison objects to every setting that is a little off" {
    local way
    plan 1x1 NNN 1
    for way in --lr=3.003e-3 --min-lr=3.1e-4 --warmup=3 --beta1=0.901 --beta2=0.951 --eps=2e-8 \
        --weight-decay=0.98 --clip=1.01 --seed=1; do
        train 1 "$way"
        run -1 compare
        [[ $output == *allowed* ]] || { echo "$way: $output"; return 1; }
    done
}
