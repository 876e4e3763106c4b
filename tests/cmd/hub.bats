# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# The tutorial from a model of the hub to llama.cpp (paro(7)), its commands as they stand, on a
# small model.

load train
load documents

# The commands of a section of paro(7).
commands_of() {
    awk -v section=".Ss $1" '
        /^\.S[sh] / { in_it = $0 == section }
        !in_it { next }
        /^\$ / { print substr($0, 3); more = /\\e$/; next }
        more { print; more = /\\e$/ }' "$ROOT/man/paro.7" | sed 's/\\e$/\\/'
}

@test "from a model of the hub to adapters, to an answer and to a file for llama.cpp" {
    cd "$BATS_TEST_TMPDIR"
    local models=$ROOT/examples/models hub=$PWD/hub name
    name=$hub/models--HuggingFaceTB--SmolLM2-135M-Instruct
    sed 's/"vocab_size": *[0-9]*/"vocab_size": 260/' "$models/llama-tiny.json" > model.json
    mkdir -p "$name/refs" "$name/snapshots"
    printf 0123abcd > "$name/refs/main"
    paro-shard init -m model.json -o "$name/snapshots/0123abcd"
    make_tokenizer tok
    cp tok/tokenizer.json "$name/snapshots/0123abcd"
    for i in $(seq 60); do
        printf '{"messages": [{"role": "user", "content": "%d?"}, ' "$i"
        printf '{"role": "assistant", "content": "%d"}]}\n' $((i * 11))
    done > chats.jsonl
    commands_of "From a model of the hub to llama.cpp" |
        sed 's/--seq 512/--seq 64/; s/--steps 200/--steps 4/' > six.sh
    [ "$(grep -c '^[a-z]' six.sh)" = 6 ]
    HF_HUB_CACHE=$hub bash -eu six.sh > out
    [ -s adapters/adapter_model.safetensors ]
    [ -s tuned/model.safetensors ]
    cmp tuned/tokenizer.json tok/tokenizer.json
    [ "$(head -c 4 tuned.gguf)" = GGUF ]
    grep -qa 'tokenizer.ggml.tokens' tuned.gguf
    [ "$(paro-train --generate '3?' --chat --init tuned --length 5 --json | grep -c '"tokens"')" = 1 ]
}
