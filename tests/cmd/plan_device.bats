# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Memory as it is planned for a device beside what is taken there: tests/gpu/plan_check.c, on the
# processor and on a GPU in software.
# shellcheck disable=SC2016,SC2086

load refuses

setup() {
    load mpi
    export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_SOCKET_IFNAME=lo # ranks may share the GPU
    EMULATED=${B%/build*}/build-emulated${B##*/build}
    DATA=$ROOT/tests/data TINY=$ROOT/examples/models/llama-tiny.json
    cd "$BATS_TEST_TMPDIR" || exit
}

# agree LEAST COMMAND...: so many checks at least, none of which fails
agree() {
    local least=$1
    shift
    run "$@"
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" -ge "$least" ]
}

plan() { # DEVICE [WORD...]
    paro-plan -m "$DATA/llama_tied.json" --seq 8 --micro-batch 2 --device "$@"
}

activations() { # PLAN
    sed -n 's/^    activations: //p' "$1"
}

@test "device and type of products are those that the fabric was measured by, unless told" {
    paro-topo -i synth:2x2,flops=1e14 > plain.yaml
    sed 's/^flops:.*/&\ncompute_type: bf16/; s/^groups:/device: cuda\n&/' plain.yaml > gpus.yaml
    paro-topo -i gpus.yaml | cmp - <(paro-topo -i <(paro-topo -i gpus.yaml))
    for words in 'cuda bf16 gpus' 'cpu f32 plain' 'cpu f32 gpus --device cpu --compute-type f32' \
        'cuda bf16 plain --device cuda --compute-type bf16'; do
        set -- $words
        paro-plan -m "$TINY" -i "$3.yaml" "${@:4}" > plan.yaml 2> said
        # Rates of another device, or another type, are named.
        [ $(($# > 3)) = "$(grep -c "^paro-plan: .*measured on .* $1 .*$2" said)" ]
        [ $(($# > 3)) = "$(grep -cE '^  rates_of: (cpu f32|cuda bf16)$' plan.yaml)" ]
        grep -qx "device: $1" plan.yaml
        grep -qx "  compute: $2" plan.yaml
    done
    paro-plan -m "$TINY" -i plain.yaml --device cuda --compute-type bf16 --list > told
    grep -qx 'rates of cpu f32: the fabric was not measured for cuda bf16' told
    cmp <(grep -v '^rates of' told) <(paro-plan -m "$TINY" -i gpus.yaml --list)
    for what in '' --list; do # one is of the plan alone
        paro-plan -m "$TINY" -i plain.yaml --compute-type bf16 --json $what > told 2> said
        grep -q '"rates_of": "cpu f32"' told
        paro-plan -m "$TINY" -i plain.yaml --json $what > told
        grep -q '"rates_of": null' told
    done
    has_words "$(cat said)" "measured on cpu f32 bf16"
    # Of a fabric that is made up, and of one without a compute rate, nothing was measured in a type.
    paro-topo -i synth:2x2,memory=8e9 > bare.yaml
    paro-plan -m "$TINY" -i bare.yaml --compute-type bf16 > told 2> said
    paro-plan -m "$TINY" -i synth:2x2,flops=1e14,memory=8e9 --device cuda > told 2>> said
    run ! grep 'measured on' said
    # A plan is read with them, as it was written.
    paro-plan -m "$TINY" -i gpus.yaml --device cpu --mem 8G > plan.yaml 2> said
    refuses 2 "'/dev/null' no step" paro-plan --check=/dev/null plan.yaml
    for s in 1 2; do
        echo "{\"step\":$s,\"step_s\":1,\"compute_s\":1,\"exposed_comm_s\":0,\"tokens_per_s\":1,\"slow_bytes\":0,\"fast_bytes\":0,\"state_bytes\":0}"
    done > log
    run -1 paro-plan --check=log plan.yaml
    grep -q '^the fabric was measured for cuda bf16: times are predicted with those rates$' <<<"$output"
    run -1 paro-plan --check=log --json plan.yaml
    grep -q '"rates_of": "cuda bf16"' <<<"$output"
    sed -i 's/rates_of: .*/rates_of: cuda int8/' plan.yaml
    refuses 2 "rates_of' 'cuda int8' expected device type" paro-plan --check=/dev/null plan.yaml
    # The memory of one device is none of the other's.
    sed 's/^flops:/memory_bytes: 8000000000\n&/' gpus.yaml > large.yaml
    refuses 2 "--device cpu 8000000000 cuda expected --mem" paro-plan -m "$TINY" -i large.yaml --device cpu
    paro-plan -m "$TINY" -i large.yaml --device cpu --mem 8G > plan.yaml 2> said
    sed 's/^compute_type: .*/compute_type: int8/' gpus.yaml > bad.yaml
    refuses 2 "'compute_type' 'int8' expected f32 bf16" paro-topo -i bad.yaml
}

@test "what a network takes is planned to the byte, on the processor and on a GPU" {
    for family in gpt2 llama; do
        agree 150 "$B/gpu/plan_check" cpu "$DATA/${family}_tied.json" "$DATA/${family}_untied.json"
        agree 150 "$EMULATED/gpu/plan_check" cuda "$DATA/${family}_tied.json" \
            "$DATA/${family}_untied.json"
    done
}

@test "what a rank takes is planned, under 27 strategies, and gone of the GPU's memory" {
    for types in 'f32 f32 f32' 'f32 bf16 bf16' 'bf16 bf16 bf16'; do
        read -r rest wire compute <<< "$types"
        plan cuda -i synth:1x1 --param-type "$rest" --wire-type "$wire" --compute-type "$compute" > one.yaml
        agree 81 "$EMULATED/gpu/plan_check" cuda mpi one.yaml
    done
}

@test "and what each of four ranks takes, over NCCL to the byte" {
    plan cuda -i synth:2x2 --compute-type bf16 --recompute > four.yaml
    agree 54 timeout 250 mpirun -np 4 sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh \
        "$EMULATED/gpu/plan_check" cuda:0 nccl four.yaml
}

@test "a GPU too small for the sums of collectives alone is told so before anything is taken" {
    plan cuda -i synth:2x2 --strategy NNN > four.yaml
    seq 1 2000 > text
    # Less by half of those sums; the GPU's pages and what it wants to be left are less than that.
    planned=$(sed -n 's/^    total: //p' four.yaml)
    EMULATED_GPU_BYTES=$((planned - 8000)) run mpirun -np 4 \
        sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh "$EMULATED/bin/paro-train" four.yaml \
        -d text -o run --steps 1 --device cuda:0 --transport nccl
    has_words "$output" "$((planned - 8000)) expected states buffers strategies"
}

@test "--device goes into the plan, in YAML and in JSON, and into the tables" {
    plan cuda -i synth:2x2 --compute-type bf16 > cuda.yaml
    plan cpu -i synth:2x2 --compute-type bf16 > cpu.yaml
    paro-plan -m "$DATA/llama_tied.json" --seq 8 --micro-batch 2 -i synth:2x2 --compute-type bf16 | cmp - cpu.yaml
    grep -qx 'device: cuda' cuda.yaml
    grep -qx 'device: cpu' cpu.yaml
    # bf16 activations are half of f32 ones, and nothing is rounded into another place.
    [ "$(activations cuda.yaml)" -lt "$(($(activations cpu.yaml) * 6 / 10))" ]
    plan cuda -i synth:2x2 --json | grep -qx '  "device": "cuda",'
    plan cuda -i synth:2x2 --list --json | grep -qx '  "device": "cuda",'
    plan cuda -i synth:2x2,memory=1e9 --list | grep -q ', memory 858 MiB of 954 MiB per rank on cuda, '
    grep -q ' per rank on cpu, products in f32, ' <(plan cpu -i synth:2x2 --list)
}

@test "a plan without the key is the processor's; another word is refused" {
    plan cpu -i synth:1x1 > now.yaml
    grep -v '^device:' now.yaml > before.yaml
    seq 1 2000 > text
    paro-train before.yaml -d text -o run --steps 1
    sed 's/^device: .*/device: tpu/' now.yaml > wrong.yaml
    refuses 2 "device 'tpu' expected cpu cuda" paro-train wrong.yaml -d text -o wrong --steps 1
}

@test "a run says what is planned for its own device, whatever the plan was priced for" {
    seq 1 2000 > text
    for priced in cpu cuda; do
        plan $priced -i synth:1x1 --compute-type bf16 > plan.yaml
        "$EMULATED/bin/paro-train" plan.yaml -d text -o run --steps 1 --force --device cuda:0 2> $priced.err
    done
    cmp cpu.err cuda.err
    [ "$(sed -n 's/.*: \(.*\) taken, .*/\1/p' cuda.err)" = "$(sed -n 's/.* taken, \(.*\) planned, .*/\1/p' cuda.err)" ]
}

# MODEL BATCH SEQ FLOPS COPY STEP: an H200's rates as paro-topo measured them, and the median step
# of paro-train there (tests/gpu/FIGURES.md), in seconds
predicted() {
    paro-topo -i synth:1x1 | sed "/^groups:/i device: cuda\nmemory_bytes: 150109880320\nflops: $4" |
        sed "/^groups:/i compute_type: bf16\nmemory_Bps: $5" >h200.yaml
    paro-plan -m "$ROOT/tests/gpu/$1.json" -i h200.yaml --strategy NNN --micro-batch "$2" --seq "$3" \
        --compute-type bf16 |
        awk -v is="$6" '$1 == "step_s:" {print; near = $2 > 0.95 * is && $2 < 1.05 * is}
                        END {exit !near}'
}

@test "a step on a GPU is predicted within 5 %: an H200, two models" {
    predicted llama-1b 8 2048 6.604e14 4.134e12 0.2120
    predicted gpt2-124m 16 1024 6.139e14 4.167e12 0.0307
}
