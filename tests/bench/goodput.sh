#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What failures leave of a large run: `make bench-goodput`, in a minute or two on one core.
#
# At each number of ranks paro-plan predicts the goodput twice: with checkpoints in a shared folder
# alone, and with local saves and their copies too.  Each run is then simulated, node by node, until
# it has failed FAILURES times (tests/unit/goodput_fixture.h).  Printed for each:
#
#   job        mean time between failures of all nodes
#   shared     steps from one save in the shared folder to the next; local: the same of local ones
#   lost       share of failures after which the shared folder is needed
#   goodput    predicted, simulated, and the standard error of the latter
#
# Costs: MTBF is that of the Llama 3 paper (419 interruptions in 54 days of 2048 nodes).  FLOPS and
# the pauses are measured (FIGURES.md); rates, TOTAL (of the shared folder, all nodes together) and
# RESTARTS, in seconds, are what the variables say.
#
# Rows stay in bench/goodput.csv, the picture in bench/goodput.svg.
. "$(dirname "$0")/begin.sh"
settings RANKS='64 256 1024 4096 16384' MTBF=6300 RESTARTS='60 600' TOTAL=20e9 PORT=50GB/s \
    LOCAL=2GB/s FLOPS=543e12 FAILURES=2000 PLOT=build/bench/goodput_plot

mkdir -p "$OUT" || exit 2
cat > "$OUT/goodput.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 8192,
 "intermediate_size": 22016, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 64,
 "max_position_embeddings": 2048, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
KEYS='mtbf_s nodes copies local_every save_every local_pause_s pause_s local_restart_s restart_s lost_share goodput'
CSV=$OUT/goodput.csv
echo "way,restart,ranks,strategy,step_s,$(echo "$KEYS" | tr ' ' ,)" > "$CSV"
for restart in $RESTARTS; do
    for ranks in $RANKS; do
        rate=$(awk -v t="$TOTAL" -v n="$((ranks / 8))" 'BEGIN { printf "%.0f", t / n }')
        for copies in 0 auto; do
            [ $copies = 0 ] && way='shared folder alone' || way='local saves with copies'
            paro-plan -m "$OUT/goodput.json" --accum 4 --recompute=auto --mtbf "$MTBF" --copies $copies \
                -i "synth:$((ranks / 8))x8,inter=$PORT:12us,memory=149e9,device=cuda,compute_type=bf16,flops=$FLOPS" \
                --restart "$restart" --local-storage "$LOCAL" --storage "${rate}B/s" --seq 2048 > "$OUT/goodput.yaml" || exit 2
            row="$way,$restart,$ranks,$(sed -n 's/^strategy: //p' "$OUT/goodput.yaml"),$(sed -n 's/^  step_s: //p' "$OUT/goodput.yaml")"
            for key in $KEYS; do
                row="$row,$(sed -n "s/^    $key: //p" "$OUT/goodput.yaml")"
            done
            echo "$row" >> "$CSV"
        done
    done
done
"$PLOT" "65.3 G parameters, a node of 8 ranks fails every $MTBF hours" "$FAILURES" < "$CSV" 3> "$OUT/goodput.svg" || exit 2
echo "# rows in $CSV, the picture in $OUT/goodput.svg"
