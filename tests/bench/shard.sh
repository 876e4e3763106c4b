#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Checkpoints beside a plain copy of the same bytes: `make bench-shard`.
#
# split, merge and reshard of a model of LAYERS layers of 50 MB, each in turns with
# `cp -r --reflink=never` and `sync -f` of what it reads, on the same disk, ROUNDS times: the
# median of each, and of the rounds' ratios, 1 where we are as fast as cp and above where faster.
# What paro-shard writes is synced when it ends.  warm: what is read is in memory; cold: its pages
# were dropped (of these files alone).
#
# repair is of a checkpoint with a copy of each shard, one of which is gone, beside cp of the whole
# one: it reads all twice, first to know what is good.  verify is beside `cat` of all files.
#
# At the end, what it holds in memory of 200 GB (shard_memory.sh); MEMORY=no does without.
# shellcheck disable=SC2086
. "$(dirname "$0")/begin.sh"
settings ROUNDS=5 LAYERS=20 FROM=2x2 TO='[3,2]' CACHES='warm cold' \
    VERBS='split merge reshard repair verify'
HERE=$(cd "$(dirname "$0")" && pwd)

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# cache HOW DIR: has all files of DIR in memory, or none.
cache() {
    find "$2" -type f | while read -r file; do
        case $1 in
        warm) cat "$file" > pages ;;
        cold) dd if="$file" iflag=nocache count=0 2> said || die "cannot drop the pages of $file" ;;
        esac
        : > pages
    done
}

# Milliseconds of a command that writes the folder `out`, in $took.
clock() {
    t0=$(now_ms)
    "$@" > said 2>&1 || die "$*: $(cat said)"
    took=$(($(now_ms) - t0))
    rm -rf out
    sync -f .
}

copy() { cp -r --reflink=never "$1" out && sync -f out; }
pass() { find "$1" -type f -exec cat {} + > pages; }

# Numbers, one a line: their median.
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

rm -rf "$OUT/shard"
mkdir -p "$OUT/shard" || exit 2
cd "$OUT/shard" || exit 2
ln -s /dev/null pages
# A layer of 12.6 M parameters in f32, and next to nothing beside the layers.
cat > config.json <<EOF
{"model_type": "llama", "vocab_size": 256, "hidden_size": 1024, "intermediate_size": 2731,
 "num_hidden_layers": $LAYERS, "num_attention_heads": 16}
EOF
paro-shard init -m config.json -o model || die "no model"
paro-plan -m config.json -i "synth:$FROM" --strategy IIG > from.yaml || die "no plan"
paro-plan -m config.json -i "synth:$TO" --strategy GGG > to.yaml || die "no plan"
paro-shard split model -p from.yaml -o ckpt || die "no checkpoint"
case " $VERBS " in
*' repair '*) # the same files but one
    paro-shard split model -p from.yaml --copies 1 -o safe || die "no checkpoint with copies"
    cp -al safe hurt && rm hurt/shard-00001.safetensors
    ;;
esac

echo "# $(du -sm model | cut -f 1) MiB of f32, $FROM to $TO, $ROUNDS rounds in turns, $(stat -f -c %T .) disk,"
echo "# $(nproc) processors, load average $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo "#cache verb        cp_s    paro_s  cp/paro   (verify: cat for cp)"
for cache in $CACHES; do
    for verb in $VERBS; do
        other=copy
        case $verb in
        split) in=model && set -- "$in" -p from.yaml -o out ;;
        merge) in=ckpt && set -- "$in" -o out ;;
        reshard) in=ckpt && set -- "$in" -p to.yaml -o out ;;
        repair) in=safe && set -- hurt -o out ;;
        verify) in=ckpt other=pass && set -- "$in" ;;
        *) die "verb '$verb', expected split, merge, reshard, repair or verify" ;;
        esac
        : > rows
        for round in $(seq "$ROUNDS"); do
            cache "$cache" $in
            clock $other $in
            cp_ms=$took
            cache "$cache" $in
            clock paro-shard "$verb" "$@"
            echo "$round $cp_ms $took" >> rows
        done
        printf '%-6s %-8s %7.2f   %7.2f  %7.2f\n' "$cache" "$verb" \
            "$(awk '{ print $2 / 1000 }' rows | median)" \
            "$(awk '{ print $3 / 1000 }' rows | median)" "$(awk '{ print $2 / $3 }' rows | median)"
    done
done
echo "# load average after it $(cut -d ' ' -f 1-3 /proc/loadavg)"
cd .. && rm -rf shard
[ "${MEMORY-yes}" = no ] || OUT=. sh "$HERE/shard_memory.sh"
