# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests share that hold a run against PyTorch's, written down in the file DUMP.

# The value of a key in the dump's head.
fact() { sed -n "/^\$/q; s/^$1 //p" "$DUMP"; }

# plan FABRIC STRATEGY RANKS: f32 throughout; all shapes see the dump's micro-batches.
plan() {
    paro-plan -m "$MODEL" -i "synth:$1" --strategy "$2" --param-type f32 --wire-type f32 \
        --grad-type f32 --micro-batch "$(fact micro_batch)" --seq "$(fact seq)" \
        --accum $(($(fact micro_batches) / $3)) > plan.yaml
}

# SETTINGS: paro-train's options, as the dump has them.
settings() {
    local s
    SETTINGS=()
    for s in steps lr min_lr warmup beta1 beta2 eps weight_decay clip seed; do
        SETTINGS+=("--${s//_/-}=$(fact $s)")
    done
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
