# SPDX-License-Identifier: BSD-3-Clause
# paro-shard with the folders that people have: GPT-2's names, masks and tied heads, adapters of
# PEFT; what does not fit, by name.

load refuses

setup_file() {
    export DATA=$ROOT/tests/data
    cd "$BATS_FILE_TMPDIR" || return
    paro-shard init -m "$MODELS/gpt2-tiny.json" -o gpt2
    paro-plan -m gpt2/config.json -i 'synth:[3,2]' > gpt2.yaml
    cat > retype.py <<'EOP'
# retype.py FROM TO [bare] [mask] [head] [odd] [lack=NAME] [more=NAME] [cut=NAME]: a weights file
# with other names, buffers, a second head (with one bit turned), a tensor less, more or shorter.
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data = json.loads(raw[8:8 + n]), raw[8 + n:]
head.pop("__metadata__", None)
all = {k: [v["dtype"], v["shape"], data[slice(*v["data_offsets"])]] for k, v in head.items()}
for what in sys.argv[3:]:
    word, _, name = what.partition("=")
    if word == "bare":
        all = {k.removeprefix("transformer."): v for k, v in all.items()}
    elif word == "mask":
        for i in range(4):
            all[f"h.{i}.attn.bias"] = ["U8", [1, 1, 3, 7], bytes(range(i, 21 + i))]
            all[f"h.{i}.attn.masked_bias"] = ["F32", [], b"\0\0\x1c\xc6"]
    elif word == "inv_freq":
        all["model.layers.0.self_attn.rotary_emb.inv_freq"] = ["F32", [16], bytes(range(64))]
    elif word in ("head", "odd"):
        t, s, d = next(v for k, v in all.items() if k.endswith(("wte.weight", "embed_tokens.weight")))
        all["lm_head.weight"] = [t, s, d[:400] + bytes([d[400] ^ (word == "odd")]) + d[401:]]
    elif word == "lack":
        del all[name]
    elif word == "more":
        all[name] = ["F32", [2], bytes(8)]
    elif word == "cut":
        t, s, d = all[name]
        all[name] = [t, [s[0] - 1] + s[1:], d[:len(d) // s[0] * (s[0] - 1)]]
out, at, body = {}, 0, b""
for k in sorted(all):
    t, s, d = all[k]
    out[k] = {"dtype": t, "shape": s, "data_offsets": [at, at + len(d)]}
    at += len(d)
    body += d
text = json.dumps(out).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body)
EOP
}

setup() {
    command -v python3 > /dev/null || skip "no python3 here"
    cd "$BATS_TEST_TMPDIR" || return
    G=$BATS_FILE_TMPDIR # what setup_file made: never changed
}

# retyped FROM WORD...: the folder FROM as w, its weights file changed.
retyped() {
    rm -rf w
    cp -r "$1" w
    python3 "$G/retype.py" "$1/model.safetensors" w/model.safetensors "${@:2}"
}

@test "init: GPT-2's tensors, and values that are its own" {
    paro-shard ls "$G/gpt2" > out
    grep -q '^transformer.h.3.mlp.c_fc.weight *F32 \[128, 512\]' out
    grep -q '^transformer.wpe.weight *F32 \[512, 128\]' out
    run -1 grep lm_head out
    [ "$(tail -n 1 out)" = '52 tensors, 3.40 MiB' ]
    paro-shard verify "$G/gpt2"
}

@test "split, merge: with and without a prefix, masks, a second head: byte for byte" {
    local words
    for words in bare mask head 'bare mask head'; do
        # shellcheck disable=SC2086
        retyped "$G/gpt2" $words
        paro-shard verify w
        paro-shard split --force w -p "$G/gpt2.yaml" -o ckpt
        paro-shard verify ckpt
        paro-shard merge --force ckpt -o back
        diff -r w back
        [ -z "$(paro-shard diff ckpt w)" ] # by the model's names
        [ -z "$(paro-shard diff w ckpt)" ]
        [ -z "$(paro-shard diff ckpt "$G/gpt2")" ]
    done
    [ "$(wc -c < ckpt/source/rest/model.safetensors)" = $((4 * (21 + 4))) ]
}

@test "families: init, plan, split, merge byte for byte, train" {
    seq 1 2000 > text
    local family
    for family in qwen2 qwen3 smollm3 phi3 gemma3 mistral; do
        rm -rf hf ckpt back run
        paro-shard init -m "$MODELS/$family-tiny.json" -o hf
        paro-shard verify hf
        paro-plan -m hf/config.json -i 'synth:[3,2]' > plan.yaml
        paro-shard split hf -p plan.yaml -o ckpt
        paro-shard merge ckpt -o back
        diff -r hf back
        paro-plan -m hf/config.json -i synth:1x1 --seq 32 > one.yaml
        paro-shard split hf -p one.yaml -o one --force
        paro-train one.yaml -d text --init one -o run --steps 2
        [ "$(wc -l < run/log.jsonl)" = 2 ]
        run -1 paro-shard diff run/latest one
    done
    refuses 2 "--seq: 129 128 'hf' (sliding_window)" paro-plan -m hf -i synth:1x1 --seq 129
}

@test "what was kept of the masks is checked too" {
    retyped "$G/gpt2" mask
    paro-shard split w -p "$G/gpt2.yaml" -o ckpt
    printf X | dd of=ckpt/source/rest/model.safetensors bs=1 seek=5 conv=notrunc 2> dd.log
    run -1 paro-shard verify ckpt
    has_words "$output" "ckpt/source/rest/model.safetensors: damaged checksum"
    refuses 2 "ckpt/source/rest/model.safetensors: damaged checksum" paro-shard merge ckpt -o back
    rm ckpt/source/rest/model.safetensors
    refuses 2 "'ckpt/source/rest/model.safetensors': No such" paro-shard merge ckpt -o back
}

@test "a tied head that is not the embedding" {
    retyped "$G/gpt2" bare odd
    refuses 2 "w/model.safetensors: 'lm_head.weight' 'wte.weight' element 100 tie_word_embeddings" \
        paro-shard split w -p "$G/gpt2.yaml" -o x
    retyped "$G/gpt2" head cut=lm_head.weight
    run -1 paro-shard verify w
    has_words "$output" "w/model.safetensors: 'lm_head.weight' F32 [255, 128] expected F32 [256, 128] 'transformer.wte.weight'"
    # Llama's, where the config ties it; where it does not, they are two.
    paro-shard init -m "$MODELS/llama-tiny.json" -o llama
    retyped llama inv_freq head
    paro-shard verify w
    paro-plan -m w/config.json -i synth:2x2 > plan.yaml
    paro-shard split w -p plan.yaml -o ckpt
    paro-shard merge ckpt -o back
    diff -r w back
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' w/config.json
    paro-shard verify w
    retyped llama odd
    paro-shard verify w
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' w/config.json
    run -1 paro-shard verify w
    has_words "$output" "w/model.safetensors: 'lm_head.weight' 'model.embed_tokens.weight'"
}

@test "missing, extra, misshapen, twice: by name" {
    splits() { # KEY-WORDS WORD...: another weights file
        retyped "$G/gpt2" "${@:2}"
        refuses 2 "$1" paro-shard split w -p "$G/gpt2.yaml" -o x
    }
    splits "w: 'transformer.h.2.ln_1.bias' missing config" lack=transformer.h.2.ln_1.bias
    splits "w/model.safetensors: 'transformer.h.4.ln_1.bias' config" more=transformer.h.4.ln_1.bias
    splits "w/model.safetensors: 'wpe.weight' F32 [511, 128] expected F32 [512, 128]" bare cut=wpe.weight
    splits "w/model.safetensors: 'transformer.ln_f.bias' 'ln_f.bias'" more=ln_f.bias
    splits "w/model.safetensors: 'h.1.attn.masked_biased' config" more=h.1.attn.masked_biased
}

@test "another architecture: of the folder, of the plan" {
    paro-shard init -m "$MODELS/llama-tiny.json" -o llama
    local split=(-p "$G/gpt2.yaml" -o x)
    refuses 2 "llama: 'model_type' llama config.json gpt2 plan" paro-shard split llama "${split[@]}"
    cp -r "$G/gpt2" w
    sed -i 's/gelu_new/gelu/' w/config.json
    refuses 2 "w: 'activation_function' gelu config.json gelu_new plan" paro-shard split w "${split[@]}"
    cp llama/model.safetensors w
    sed -i 's/gelu/gelu_new/' w/config.json
    refuses 2 "w: 'transformer.wpe.weight' missing" paro-shard split w "${split[@]}"
    sed -i 's/"model_type": "gpt2"/"model_type": "opt"/' w/config.json
    refuses 2 "w/config.json:3: 'model_type' \"opt\" expected \"llama\" \"mistral\" \"qwen2\" \"qwen3\" \"smollm3\" \"phi3\" \"gemma3_text\" \"gpt2\"" paro-shard split w "${split[@]}"
}

@test "adapters: PEFT's folder in, the same out, and added into the weights" {
    paro-plan -m "$DATA/peft_gpt2" -i synth:2x2 \
        --trainable lora=2,alpha=5,targets=c_attn+mlp.c_proj > plan.yaml
    paro-shard split "$DATA/peft_gpt2" -p plan.yaml --adapter "$DATA/peft_gpt2/adapter" -o ckpt
    paro-shard verify ckpt
    [ "$(paro-shard ls ckpt | head -n 1)" = 'checkpoint of 4 ranks (2x2), strategy '"$(sed -n 's/^strategy: //p' plan.yaml)"', trains lora=2,alpha=5,targets=c_attn+mlp.c_proj' ]
    paro-shard merge ckpt -o adapter
    [ "$(ls adapter)" = "$(printf 'adapter_config.json\nadapter_model.safetensors')" ]
    [ -z "$(paro-shard diff adapter/adapter_model.safetensors "$DATA/peft_gpt2/adapter/adapter_model.safetensors")" ]
    python3 -c 'import json
c = json.load(open("adapter/adapter_config.json"))
assert c["r"] == 2 and c["lora_alpha"] == 5 and c["fan_in_fan_out"] is True
assert c["target_modules"] == ["c_attn", "mlp.c_proj"] and c["peft_type"] == "LORA"'
    paro-plan -m "$DATA/peft_gpt2" -i synth:1x1 > one.yaml
    refuses 2 "'adapter' adapters of PEFT alone expected folder paro-shard split BASE -p PLAN --adapter adapter" \
        paro-train one.yaml -d plan.yaml -o no --init adapter
    paro-shard split "$DATA/peft_gpt2" -p plan.yaml --adapter adapter -o again
    [ -z "$(paro-shard diff ckpt again)" ]
    # What they adapt, and of the hub's cache by its name there.
    grep -qF "\"base_model_name_or_path\": \"$(realpath "$DATA/peft_gpt2")\"," adapter/adapter_config.json
    mkdir -p hub/models--org--a--b/snapshots/12
    cp "$DATA"/peft_gpt2/*.* hub/models--org--a--b/snapshots/12
    paro-shard split hub/models--org--a--b/snapshots/12 -p plan.yaml --adapter adapter -o hub.ckpt
    paro-shard merge hub.ckpt -o hub.adapter
    grep -qF '"base_model_name_or_path": "org/a--b",' hub.adapter/adapter_config.json
    paro-shard merge ckpt --fuse -o whole
    [ "$(ls whole)" = "$(printf 'config.json\nmodel.safetensors')" ]
    paro-shard verify whole
    run -1 paro-shard diff whole/model.safetensors "$DATA/peft_gpt2/model.safetensors"
    [ "${#lines[@]}" = 4 ] # two matrices of two layers
    paro-shard split "$DATA/peft_gpt2" -p plan.yaml --seed 5 -o first
    paro-shard merge first --fuse -o same # B is 0
    cmp <(paro-shard ls same) <(paro-shard ls "$DATA/peft_gpt2/model.safetensors")
    [ -z "$(paro-shard diff same/model.safetensors "$DATA/peft_gpt2/model.safetensors")" ]
}

@test "adapters that do not fit the plan" {
    local adapter=$DATA/peft_llama/adapter base=$DATA/peft_llama
    paro-plan -m "$base" -i synth:2x2 > all.yaml
    refuses 2 "plan no adapters lora=RANK" \
        paro-shard split "$base" -p all.yaml --adapter "$adapter" -o x
    paro-plan -m "$base" -i synth:2x2 --trainable lora=4,alpha=6,targets=q_proj > rank.yaml
    refuses 2 "$adapter/adapter_config.json:31: 'r' 3 plan 4" \
        paro-shard split "$base" -p rank.yaml --adapter "$adapter" -o x
    paro-plan -m "$base" -i synth:2x2 --trainable lora=3,alpha=6,targets=q_proj+v_proj > few.yaml
    refuses 2 "down_proj.lora_A.weight' plan lora=3,alpha=6,targets=q_proj+v_proj" \
        paro-shard split "$base" -p few.yaml --adapter "$adapter" -o x
    refuses 2 "'none/adapter_config.json': No such" \
        paro-shard split "$base" -p rank.yaml --adapter none -o x
    paro-shard split "$base" -p all.yaml -o ckpt
    refuses 2 "'ckpt' no adapters" paro-shard merge ckpt --fuse -o x
    [ ! -e x ]
}
