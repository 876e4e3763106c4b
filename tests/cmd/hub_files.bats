# SPDX-License-Identifier: BSD-3-Clause
# Files of a model's folder as libraries and clones of the hub leave them.

load refuses

DATA=$ROOT/tests/data

# alone MODEL OUT: what safetensors.torch.save_model writes of tied weights: the tensor under one name, the
# other name in the metadata.
alone() {
    cp -r "$1" "$2"
    python3 - "$2/model.safetensors" <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", raw[:8])
head = json.loads(raw[8:8 + n])
embed = next(k for k in head if k.endswith(("embed_tokens.weight", "wte.weight")))
head = {("lm_head.weight" if k == embed else k): v for k, v in head.items() if k != "__metadata__"}
head["__metadata__"] = {"format": "pt", embed: "lm_head.weight"}
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + raw[8 + n:])
PY
}

@test "tied weights under the head's name alone: the same model, and merged as it was" {
    local m
    sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$MODELS/llama-tiny.json" > llama.json
    cp "$MODELS/gpt2-tiny.json" gpt2.json
    cp "$MODELS/gemma3-tiny.json" gemma3.json
    for m in llama gpt2 gemma3; do
        paro-shard init -m $m.json -o $m
        alone $m $m.head
        paro-plan -m $m.head -i synth:2x1 --strategy NGG > plan.yaml
        paro-shard split $m.head -p plan.yaml -o $m.ckpt
        paro-shard diff $m.ckpt $m
        paro-shard merge $m.ckpt -o $m.back
        diff -r $m.head $m.back
        paro-shard merge $m --format gguf -o $m.gguf
        paro-shard merge $m.head --format gguf -o $m.head.gguf
        cmp $m.gguf $m.head.gguf
        paro-train --generate abc --init $m --length 8 > want
        paro-train --generate abc --init $m.head --length 8 > is
        cmp want is
    done
}

# pointer FILE: what a clone has without git-lfs.
pointer() {
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4976698672\n' 0 > "$1"
}

@test "a pointer of Git LFS in a file's place is named" {
    local f
    paro-shard init -m "$MODELS/llama-tiny.json" -o model
    paro-plan -m model -i synth:1x1 --seq 32 > plan.yaml
    seq 1 1000 > text
    cp -r model weights
    pointer weights/model.safetensors
    refuses 2 "'weights/model.safetensors' Git LFS pointer" paro-shard ls weights
    refuses 2 "'weights/model.safetensors' Git LFS pointer" paro-shard split weights -p plan.yaml -o no
    refuses 2 "'weights/model.safetensors' Git LFS pointer" paro-train plan.yaml -d text -o no --init weights
    pointer config.json
    refuses 2 "'config.json' Git LFS pointer" paro-plan -m config.json -i synth:1x1
    for f in tokenizer.json tokenizer.model; do
        mkdir "in-$f"
        pointer "in-$f/$f"
        refuses 2 "'in-$f/$f' Git LFS pointer" paro-train --tokenize no -d text --tokenizer "in-$f"
    done
    cp -r model index
    pointer index/model.safetensors.index.json
    rm index/model.safetensors
    refuses 2 "'index/model.safetensors.index.json' Git LFS pointer" paro-shard ls index
    tar xzf "$DATA/trainers.tar.gz"
    f=fsdp2/from/__0_0.distcp
    pointer "$f"
    refuses 2 "'$f' Git LFS pointer" paro-shard ls fsdp2/from
    f=deepspeed-3/from/zero/model.norm.weight/fp32.pt
    pointer $f
    refuses 2 "'$f' Git LFS pointer" paro-shard ls deepspeed-3/from
    pointer fsdp2/from/.metadata
    refuses 2 "'fsdp2/from/.metadata' Git LFS pointer" paro-shard ls fsdp2/from
    # A checkpoint's own files, and data.
    paro-shard split model -p plan.yaml -o ckpt
    f=ckpt/shard-00000.safetensors
    pointer $f
    run -1 paro-shard verify ckpt
    [[ $output == *"'$f' is a Git LFS pointer"* ]]
    refuses 2 "'$f' Git LFS pointer" paro-shard merge ckpt -o no
    for f in text data.jsonl; do
        pointer $f
        refuses 2 "'$f' Git LFS pointer" paro-train plan.yaml -d $f -o no
        refuses 2 "'$f' Git LFS pointer" paro-train --tokenize no -d $f --tokenizer "$DATA/tokenizer/llama2.json"
    done
}
