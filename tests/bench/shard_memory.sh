#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What paro-shard holds in memory, on a checkpoint larger than any machine's: `make
# bench-shard_memory`.
#
# The weights are a file of holes with a header, of 200 GB, and what is written has holes too, so
# it takes next to nothing of the disk; every byte is moved and summed all the same.  Of split,
# reshard and merge the peak of what was resident (VmHWM) must be at most --buffer (BUFFER MiB), 20 times the
# headers (that of the weights, and the manifest), and 16 MiB for the program with its libraries
# and its threads' slices.
. "$(dirname "$0")/begin.sh"
settings VOCAB=1000000 HIDDEN=8192 INNER=22016 LAYERS=42 BUFFER=64

# The header's JSON of a Llama in f32, and behind it, on a line of its own, the bytes of its data.
header() {
    awk -v v="$VOCAB" -v h="$HIDDEN" -v i="$INNER" -v n="$LAYERS" '
        function put(name, rows, cols) {
            printf "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d%s],\"data_offsets\":[%.0f,%.0f]}", at ? "," : "{", name,
                rows, cols ? "," cols : "", at, at + 4 * rows * (cols ? cols : 1)
            at += 4 * rows * (cols ? cols : 1)
        }
        BEGIN {
            put("model.embed_tokens.weight", v, h)
            for (l = 0; l < n; l++) {
                p = "model.layers." l "."
                put(p "input_layernorm.weight", h)
                for (k = 1; k <= 4; k++) put(p "self_attn." substr("qkvo", k, 1) "_proj.weight", h, h)
                put(p "post_attention_layernorm.weight", h)
                put(p "mlp.gate_proj.weight", i, h)
                put(p "mlp.up_proj.weight", i, h)
                put(p "mlp.down_proj.weight", h, i)
            }
            put("model.norm.weight", h)
            put("lm_head.weight", v, h)
            printf "}\n%.0f\n", at
        }'
}

# The 8 bytes of a number, lowest first.
le64() {
    n=$1
    for _ in 1 2 3 4 5 6 7 8; do
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((n % 256)))"
        n=$((n / 256))
    done
}

# peak COMMAND...: its VmHWM in KiB, in $kib, and seconds, in $took.
peak() {
    t0=$(date +%s)
    "$@" > said 2>&1 &
    pid=$!
    kib=0
    while now=$(awk '/^VmHWM/ { print $2 }' /proc/$pid/status 2> none); do
        [ -z "$now" ] || [ "$now" -le "$kib" ] || kib=$now
        [ "$(cut -d ' ' -f 3 /proc/$pid/stat 2> none)" != Z ] || break
        sleep 0.05
    done
    wait $pid || die "$*: $(cat said)"
    took=$(($(date +%s) - t0))
}

rm -rf "$OUT/memory"
mkdir -p "$OUT/memory/model" || exit 2
cd "$OUT/memory" || exit 2
cat > model/config.json <<END
{"model_type": "llama", "vocab_size": $VOCAB, "hidden_size": $HIDDEN, "intermediate_size": $INNER,
 "num_hidden_layers": $LAYERS, "num_attention_heads": 8}
END
header > text
head=$(($(head -n 1 text | tr -d '\n' | wc -c)))
data=$(tail -n 1 text)
{
    le64 $head
    head -n 1 text | tr -d '\n'
} > model/model.safetensors
truncate -s $((8 + head + data)) model/model.safetensors || die "no file of $data bytes here"
paro-plan -m model/config.json -i synth:2x4 --strategy IIG > from.yaml || die "no plan"
paro-plan -m model/config.json -i 'synth:[3,2]' --strategy GGG > to.yaml || die "no plan"

echo "# $data bytes of zeros in f32, the largest tensor $((4 * VOCAB * HIDDEN)), --buffer ${BUFFER}Mi"
echo "#verb     MiB_peak  MiB_bound  seconds"
wrong=0
for verb in split reshard merge; do
    case $verb in
    split) set -- model -p from.yaml -o a ;;
    reshard) set -- a -p to.yaml -o b ;;
    merge) set -- b -o back ;;
    esac
    peak paro-shard $verb "$@" --buffer "${BUFFER}Mi"
    heads=$((head + $(cat [ab]/manifest.json | wc -c)))
    bound=$(((BUFFER + 16) * 1024 + 20 * heads / 1024))
    printf '%-8s %9.1f  %9.1f  %7d\n' $verb "$(echo "$kib" | awk '{ print $1 / 1024 }')" \
        "$(echo "$bound" | awk '{ print $1 / 1024 }')" "$took"
    [ "$kib" -gt 1000 ] || die "$verb: its memory was not seen"
    [ "$kib" -le "$bound" ] || wrong=1
done
[ "$(stat -c %s back/model.safetensors)" = $((8 + head + data)) ] || die "merge: another size"
cmp -n $((8 + head)) model/model.safetensors back/model.safetensors || die "merge: another header"
used=$(du -sm . | cut -f 1)
echo "# on the disk $used MiB"
cd .. && rm -rf memory
[ $wrong = 0 ] || die "more memory than the bound"
