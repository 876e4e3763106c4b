#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/import: checkpoints of PyTorch and DeepSpeed, written by these (tests/reference/
# make_imports.py), come in bit for bit, and paro-train goes on as PyTorch does.
#
# PYTHON is one with torch, transformers, safetensors, numpy and, for the last, deepspeed; where
# that is not python3 itself:  PYTHON=DIR/bin/python make check

load mpi
load torch
load refuses

MODELS=$BATS_TEST_DIRNAME/../../examples/models
IMPORT=$BATS_TEST_DIRNAME/../../examples/import/import_torch.py
MAKE=$BATS_TEST_DIRNAME/../reference/make_imports.py
TEXT=/usr/share/common-licenses/GPL-3

setup() {
    export PYTHONDONTWRITEBYTECODE=1
    PATH=$BIN:$PATH PYTHON=${PYTHON:-python3}
    cd "$BATS_TEST_TMPDIR" || return
}

# make KIND [MODEL]: from/, want/ and train.dump in the folder KIND, which several tests ask for.
make() {
    local why=0
    MODEL=$MODELS/${2:-llama-tiny}.json
    command -v "$PYTHON" > /dev/null || skip "no $PYTHON here"
    "$PYTHON" "$MAKE" available "$1" > why || why=$?
    [ "$why" != 77 ] || skip "$(cat why)"
    [ -r "$TEXT" ] || skip "no $TEXT here"
    KIND=$BATS_FILE_TMPDIR/$1${2:-} DUMP=$BATS_FILE_TMPDIR/$1${2:-}/train.dump
    [ ! -e "$DUMP" ] || return 0
    paro-shard init -m "$MODEL" --seed 2 -o model
    timeout 250 "$PYTHON" "$MAKE" model "$1" "$KIND" --data "$TEXT" > made 2>&1 ||
        { cat made; return 1; }
}

import() { "$PYTHON" "$IMPORT" "$@" -m "$MODEL" -o new; }

# comes_in RANKS SOURCE... [OPTION...]: it is what was saved beside it, and trains on as that.
comes_in() {
    local ranks=$1
    import "${@:2}" 2> said || { cat said; return 1; }
    [ "$(cat said)" = "new: 39 tensors, step 4, with optimizer state" ]
    [ ! -e .new.import-tmp ]
    cmp new/model/config.json "$MODEL"
    paro-shard verify new/model
    paro-shard diff new/model/model.safetensors "$KIND/want/model.safetensors"
    paro-shard split new/model -p plan.yaml --optimizer new/optimizer.safetensors -o ckpt
    paro-shard verify ckpt
    paro-shard diff ckpt "$KIND/want/states.safetensors"
    settings
    timeout 100 mpirun -np "$ranks" paro-train plan.yaml -d "$TEXT" -o run --resume ckpt \
        "${SETTINGS[@]}" > out 2> said || { cat said; return 1; }
    compare
}

@test "without torch it says so" {
    command -v python3 > /dev/null || skip "no python3 here"
    # -S: without what is installed.
    refuses 2 "import_torch.py: package torch missing" \
        python3 -I -S "$IMPORT" from -m "$MODEL" -o new
}

# bats test_tags=long
@test "FSDP2's, in .distcp: 2 ranks go on, NGG" {
    make fsdp2
    plan 2x1 NGG 2
    comes_in 2 "$KIND/from"
}

@test "FSDP2's, one folder for the model and one for the optimizer: 4 ranks in groups of 3 and 1, GGG" {
    make fsdp2-apart
    plan '[3,1]' GGG 4
    comes_in 4 "$KIND/from/model" "$KIND/from/optimizer"
}

# bats test_tags=long
@test "FSDP2's, flattened, compiled: 1 rank" {
    make fsdp2-flat
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

# bats test_tags=long
@test "FSDP2's in bf16: 1 rank" {
    make fsdp2-bf16
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

# bats test_tags=long
@test "DDP's, not sharded: 1 rank" {
    make ddp
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

@test "DeepSpeed's, universal, of ZeRO-3: 4 ranks, IIG" {
    make deepspeed-3
    plan 2x2 IIG 4
    comes_in 4 "$KIND/from"
}

# bats test_tags=long
@test "DeepSpeed's, universal, of ZeRO-1 in bf16: 2 ranks, NGG" {
    make deepspeed-1-bf16
    plan 2x1 NGG 2
    comes_in 2 "$KIND/from" --dtype bf16
}

# bats test_tags=long
@test "DeepSpeed's, universal, of ZeRO-1 and ZeRO-2: 1 rank" {
    for stage in 1 2; do
        make deepspeed-$stage
        plan 1x1 NNN 1
        comes_in 1 "$KIND/from"
        rm -r new ckpt run model
    done
}

# bats test_tags=long
@test "GPT-2's, of DDP, its tied head twice: the weights and the state" {
    make ddp gpt2-tiny
    import "$KIND/from"
    paro-shard verify new/model
    paro-shard diff new/model/model.safetensors "$KIND/want/model.safetensors"
    paro-plan -m "$MODEL" -i synth:2x1 --strategy IGG > plan.yaml
    paro-shard split new/model -p plan.yaml --optimizer new/optimizer.safetensors -o ckpt
    paro-shard diff ckpt "$KIND/want/states.safetensors"
}

# refused WORDS SOURCE... [OPTION...]: nothing is left behind.
refused() {
    refuses 2 "import_torch.py: $1" import "${@:2}"
    [ ! -e new ]
    [ ! -e .new.import-tmp ]
}

@test "what is wrong with a .distcp folder is told in a line, and nothing is left" {
    make fsdp2-apart
    cp -r "$KIND/from/model" m
    f=$(stat -c %s m/__1_0.distcp)
    refused "'nowhere': No such file" nowhere
    mkdir empty
    refused "'empty': .metadata zero/" \
        empty
    refused "'model.embed_tokens.weight' twice m: model.model.embed_tokens.weight m: model.model.embed_tokens.weight" \
        m m
    truncate -s $((f - 10)) m/__1_0.distcp
    refused "'m/__1_0.distcp' $((f - 10)) bytes, $f" m
    cp "$KIND/from/model/__1_0.distcp" m
    # The middle of a tensor's numbers.
    printf garbage | dd of=m/__1_0.distcp bs=1 seek=12000 conv=notrunc status=none
    refused "'m/__1_0.distcp': CRC-32 'archive/data/0'" m
    rm m/__1_0.distcp
    refused "'m/__1_0.distcp': No such file" m
    rm m/.metadata
    refused "'m': .distcp no .metadata" m
    limited() (ulimit -f 100; import "$@")
    refuses 2 "import_torch.py: cannot write File too large" limited "$KIND/from/model"
    [ ! -e new ]
    [ ! -e .new.import-tmp ]
    mkdir new
    refuses 2 "import_torch.py: 'new' exists" import "$KIND/from/model"
}

@test "a .metadata that names a function, or a file elsewhere, is not believed" {
    make fsdp2-apart
    cp -r "$KIND/from/model" m
    "$PYTHON" -c 'import os, pickle, sys
class Evil:
    def __reduce__(self):
        return os.system, ("touch pwned",)
d = pickle.load(open(sys.argv[1] + "/.metadata", "rb"))
for info in d.storage_data.values():
    info.relative_path = "../m/" + info.relative_path
pickle.dump(d, open("m/.metadata", "wb"))
os.mkdir("evil")
pickle.dump(Evil(), open("evil/.metadata", "wb"))' "$KIND/from/model"
    refused "'evil/.metadata': posix.system" evil
    [ ! -e pwned ]
    refused "'../m/__ _0.distcp', 'm'" m
}

@test "a config that is not the model's" {
    make fsdp2-apart
    from=$KIND/from/model right=$MODEL
    MODEL=$MODELS/gpt2-tiny.json
    refused "'model.model.embed_tokens.weight' [256, 128] not '$MODEL'; --ignore=model.model.embed_tokens.weight" \
        "$from"
    MODEL=c.json
    other() { # WORDS IN_CONFIG INSTEAD
        sed "s/$2/$3/" "$right" > c.json
        refused "$1" "$from"
    }
    other "'model.embed_tokens.weight' [256, 128] $from: model.model.embed_tokens.weight, [256, 64], 'c.json'" \
        '"hidden_size": 128' '"hidden_size": 64'
    other "'model.layers.4.input_layernorm.weight' missing, [128]" \
        'layers": 4' 'layers": 5'
    other "'model.model.layers.3.self_attn.q_proj.weight' [128, 128] not 'c.json'; --ignore=model.model.layers.3.self_attn.q_proj.weight" \
        'layers": 4' 'layers": 3'
    other "'lm_head.weight' $from: model.lm_head.weight differs 'model.embed_tokens.weight', 'c.json'" \
        'tie_word_embeddings": false' 'tie_word_embeddings": true'
    other "'c.json' 'mamba', llama gpt2" '"llama"' '"mamba"'
    other "'c.json' 'hidden_size'," '"hidden_size"' '"size"'
    # What is left out is left out.
    MODEL=$right
    refused "'lm_head.weight' missing, [256, 128]" "$from" --ignore model.lm_head
}

@test "the model alone; another type" {
    make fsdp2-apart
    import "$KIND/from/model" --dtype bf16 2> said
    [ "$(cat said)" = "new: 39 tensors, without optimizer state" ]
    [ "$(ls new)" = model ]
    [ "$(paro-shard ls new/model | grep -c ' BF16 ')" = 39 ]
}

@test "what is wrong with a universal folder is told in a line, and nothing is left" {
    make deepspeed-3
    cp -r "$KIND/from" u
    t=model.norm.weight
    states() { # SKIPPED: the model's states, of step 4
        "$PYTHON" -c "import sys, torch; torch.save(dict(global_steps=4, skipped_steps=$1), sys.argv[1])" \
            u/zero_pp_rank_0_mp_rank_00_model_states.pt
    }
    no_step="no step, --step N"
    states 1 # a step that was skipped is none of the optimizer's
    import u 2> told
    [ "$(cat told)" = "new: 39 tensors, step 3, with optimizer state" ]
    rm -r new
    states 5
    refused "$no_step: model_states.pt' global_steps 4 skipped_steps 5," u
    states sys.exit
    refused "$no_step: 'u/zero_pp_rank_0_mp_rank_00_model_states.pt' unpickling" u
    rm u/*_model_states.pt
    refused "$no_step: 'u' *model_states.pt" u
    printf garbage | dd of=u/zero/$t/fp32.pt bs=1 seek=1000 conv=notrunc status=none
    refused "'u/zero/$t/fp32.pt': CRC-32 'fp32/data/0'" u --step 4
    cp "$KIND/from/zero/$t/fp32.pt" u/zero/$t
    rm u/zero/$t/exp_avg.pt
    refused "'$t/exp_avg' missing, [128]; --weights-only" \
        u --step 4
    refused "'$KIND/ds/t': DeepSpeed ds_to_universal" \
        "$KIND/ds/t"
    import u --weights-only
    paro-shard diff new/model/model.safetensors "$KIND/want/model.safetensors"
}
