# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# What a run starts with (--init): folders as checkpoints.

load train

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    paro-shard init -m "$MODELS/llama-tiny.json" -o base
    plan start synth:2x2
    paro-shard split base -p start.yaml -o ckpt
    paro-shard merge ckpt --max-shard 900kB -o shards
    paro-shard merge ckpt --type bf16 -o half
}

# hashes PLAN DIR ARGUMENT...: of two steps on four ranks.
hashes() {
    rm -rf run
    ranks 4 paro-train "$1" -d "$TEXT" -o run --exact --steps 2 --json --init "${@:2}" |
        sed -n 's/.*"state_hash":"\([0-9a-f]*\)".*/\1/p' > hash.txt
    [ "$(wc -l < hash.txt)" = 2 ] && cat hash.txt
}

@test "a folder starts the run that its checkpoint does, under every strategy" {
    local x y z
    for x in N I G; do for y in N I G; do for z in N I G; do
        plan p synth:2x2 --seq 32 --strategy $x$y$z
        [ "$(hashes p.yaml "$G/base")" = "$(hashes p.yaml "$G/ckpt")" ]
    done; done; done
}

@test "in files, of another type, as one file, in uneven groups, and beside adapters" {
    plan p 'synth:[3,1]' --seq 32 --strategy GIG
    hashes p.yaml "$G/ckpt" > want
    hashes p.yaml "$G/shards" | cmp - want
    hashes p.yaml "$G/base/model.safetensors" | cmp - want
    paro-shard split "$G/half" -p p.yaml -o half
    [ "$(hashes p.yaml "$G/half")" = "$(hashes p.yaml half)" ]
    plan lora synth:2x2 --seq 32 --trainable lora=2 --strategy IIG
    [ "$(hashes lora.yaml "$G/shards")" = "$(hashes lora.yaml "$G/ckpt")" ]
    # GPT-2's names as the hub has them.
    paro-shard init -m "$MODELS/gpt2-tiny.json" -o gpt2
    perl -0777 -pe '$n = unpack "Q<"; $h = substr $_, 8, $n; $h =~ s/"transformer\./"/g;
        $_ = pack("Q<", length $h) . $h . substr $_, 8 + $n' -i gpt2/model.safetensors
    paro-plan -m gpt2 -i synth:2x2 --seq 32 > p.yaml
    paro-shard split gpt2 -p p.yaml -o ckpt
    [ "$(hashes p.yaml gpt2)" = "$(hashes p.yaml ckpt)" ]
}

@test "a folder that does not fit is refused on all ranks, and nothing is made" {
    plan p synth:2x1 --seq 32
    not() { refuses 2 "$1" ranks 2 paro-train p.yaml -d "$TEXT" -o new --init "$2" && [ ! -e new ]; }
    cp -r "$G/base" other
    sed -i 's/"rope_theta": 10000.0/"rope_theta": 5000.0/' other/config.json
    not "other: 'rope_theta' 5000 10000" other
    cp -r "$G/shards" lacks
    rm lacks/model-00002-of-*
    not "lacks/model-00002-of No such file" lacks
    cp -r "$G/base" cut
    truncate -s -4 cut/model.safetensors
    not cut/model.safetensors cut
    paro-shard init -m "$MODELS/gpt2-tiny.json" -o gpt2
    not "gpt2: 'model_type' gpt2 llama" gpt2
    mkdir empty
    not "'empty' manifest.json, model.safetensors expected" empty
    refuses 2 "'$G/base' manifest.json expected run" ranks 2 paro-train p.yaml -d "$TEXT" -o new --resume="$G/base"
}
