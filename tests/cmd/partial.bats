# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs in which a part of the model trains, and how checkpoints pass between them.  Gradients and
# bytes of all strategies: tests/cmd/engine.bats.

load train

setup_file() {
    runs_begin
    paro-shard init -m "$MODELS/llama-tiny.json" -o llama
    paro-shard init -m "$MODELS/gpt2-tiny.json" -o gpt2
}

planned() { # NAME FAMILY SHAPE STRATEGY TRAINS
    paro-plan -m "$MODELS/$2-tiny.json" -i "synth:$3" --seq 32 --strategy "$4" \
        --trainable "$5" --accum "${6:-1}" > "$1.yaml"
}

run_of() { # NAME RANKS STEPS ARGS...: its hashes
    mpirun -np "$2" paro-train "$1.yaml" -d "$TEXT" -o "$1" --exact --steps "$3" --json "${@:4}" |
        sed -n 's/.*"state_hash":"\([0-9a-f]*\)".*/\1/p'
}

@test "one hash under every strategy and rank count, adapters and patterns, both families" {
    for what in gpt2:lora=4 'llama:freeze=model.embed*,*.mlp.*' llama:lora=2,targets=q_proj; do
        for s in NNN ING IIG GGG; do
            planned $s "${what%%:*}" 2x2 $s "${what#*:}"
            rm -rf $s
            run_of $s 4 3 --init "$G/${what%%:*}" > $s.hash
            cmp NNN.hash $s.hash
        done
        planned one "${what%%:*}" 1x1 NNN "${what#*:}" 4
        rm -rf one
        run_of one 1 3 --init "$G/${what%%:*}" | cmp - NNN.hash
    done
}

@test "a run goes on under another strategy and another number of ranks" {
    planned whole llama 2x2 IGG lora=3
    run_of whole 4 6 --save-every 3 --keep 9 --init "$G/llama" > whole.hash
    planned other llama 3x1 GNG lora=3
    tail -n 3 whole.hash > want
    while read -r strategy shape accum ranks; do
        planned next llama "$shape" "$strategy" lora=3 "$accum"
        rm -rf next
        run_of next "$ranks" 6 --resume whole/step-00000003 < /dev/null | cmp - want
    done << END
NNG 2x2 1 4
GGG 4x1 1 4
ING 1x2 2 2
END
}

@test "--against holds two strategies of a part against each other" {
    planned a llama 2x2 IIG lora=2
    mpirun -np 4 paro-train a.yaml -d "$TEXT" -o a --steps 2 --against NNN --init "$G/llama" > out
    planned b gpt2 2x2 GGG 'train=*ln_*'
    mpirun -np 4 paro-train b.yaml -d "$TEXT" -o b --steps 2 --against ING > out
}

@test "from a checkpoint of the whole to a part, and back" {
    planned part llama 1x1 NNN lora=2
    paro-train part.yaml -d "$TEXT" -o part --init "$G/ended/latest" --steps 2 > out
    # B begins at 0: the first loss is the whole model's in the same types.  An adapter keeps q, k
    # and v apart, so products of inner length 344 and less may be summed in another order: a
    # logit is off by 2^-24 sqrt(344) of each of 32 operands, as a walk 6e-6 of the largest.
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1 --seq 32 --param-type f32 --wire-type f32 > whole.yaml
    paro-train whole.yaml -d "$TEXT" -o whole --init "$G/ended/latest" --steps 1 > out
    loss() { sed -n '1s/.*"loss":\([0-9.]*\),.*/\1/p' "$1/log.jsonl"; }
    awk "BEGIN { off = $(loss part) / $(loss whole) - 1; exit !(off < 1e-5 && off > -1e-5) }"
    # What is frozen is as it was, bit for bit.
    paro-shard diff "$G/ended/latest" part/latest --json > d || [ $? = 1 ]
    run ! grep -q '"name": "model.layers.0.self_attn.q_proj.weight"' d
    planned norms llama 1x1 NNN 'train=*norm*'
    paro-train norms.yaml -d "$TEXT" -o norms --init whole/latest --steps 2 > out
    paro-train whole.yaml -d "$TEXT" -o after --init norms/latest --steps 1 > out
}

@test "what cannot be begun with says why" {
    planned two llama 1x1 NNN lora=2
    planned three llama 1x1 NNN lora=3
    planned whole llama 1x1 NNN all
    for resume in '' --resume=auto; do
        refuses 2 "adapters lora=2 --init" paro-train two.yaml -d "$TEXT" -o two $resume
        [ ! -e two ]
    done
    paro-train two.yaml -d "$TEXT" -o two --init "$G/llama" --steps 1 > out
    refuses 2 "two/latest: rank 2 alpha 2 plan rank 3 alpha 3" \
        paro-train three.yaml -d "$TEXT" -o x --init two/latest --steps 1
    refuses 2 "two/latest: 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight' adapter checkpoint plan" \
        paro-train whole.yaml -d "$TEXT" -o x --init two/latest --steps 1
    # PEFT's folder has no model, but says whose it is.
    paro-shard merge two -o adapter
    [ "$(sed -n 's/.*"base_model_name_or_path": "\(.*\)",/\1/p' adapter/adapter_config.json)" = "$G/llama" ]
    refuses 2 "'adapter' PEFT paro-shard split BASE -p PLAN --adapter adapter" \
        paro-train two.yaml -d "$TEXT" -o x --init adapter
    paro-train two.yaml -d "$TEXT" -o two --resume --steps 2 > out
    paro-shard merge two -o again
    cmp adapter/adapter_config.json again/adapter_config.json
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1 --seq 32 --trainable 0.5 > half.yaml
    refuses 2 "plan trained parameters expected --trainable" paro-train half.yaml -d "$TEXT" -o x
    sed 's/^  trains: .*/  trains: lora=x/' two.yaml > bad.yaml
    refuses 2 "bad.yaml: 'model.trains' rank: 'x'" paro-train bad.yaml -d "$TEXT" -o x
    [ ! -e x ]
}

@test "--fuse of adapters that are 0 is the base, byte for byte, of every type" {
    for type in float32 float16 bfloat16; do
        rm -rf base run fused
        sed "s/float32/$type/" "$MODELS/llama-tiny.json" > c.json
        paro-shard init -m c.json -o base
        # A weight of -0, to which 0 is added: a projection's last element.
        perl -0777 -pe '$n = 8 + unpack "Q<"; /up_proj.weight".*?\[\d+,(\d+)\]\}/;
            substr $_, $n + $1 - 4, 4, "\0\x80\0\x80"' -i base/model.safetensors
        paro-plan -m base -i synth:2x2 --seq 32 --trainable lora=2 --strategy IGG > p.yaml
        run -0 --separate-stderr ranks 4 paro-train p.yaml -d "$TEXT" -o run --init base --lr 0 --steps 2
        echo "$stderr" > said
        no_warning said
        paro-shard merge run/latest --fuse -o fused
        cmp base/model.safetensors fused/model.safetensors
        cmp base/config.json fused/config.json
    done
    paro-shard merge run/latest --fuse --type f32 -o wide
    grep -q '"torch_dtype": "float32"' wide/config.json
    # A plan that rounds what is frozen says so.
    paro-plan -m "$G/llama" -i synth:1x1 --seq 32 --trainable lora=2 --param-type bf16 > p.yaml
    run -0 --separate-stderr paro-train p.yaml -d "$TEXT" -o rounded --init "$G/llama" --steps 1
    has_words "$stderr" "'$G/llama' f32 bf16 --param-type f32"
}
