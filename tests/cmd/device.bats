# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs on a GPU beside runs on the processor: device.bash.

load refuses

setup_file() {
    load device.bash
    device_begin || return 0
    plan one synth:1x1 tied
    plan four synth:2x2 tied --strategy GGG --accum 2
    run_on cpu one
}

setup() {
    load device.bash
    device_setup
}

@test "f32: the same losses, and a line that says what was taken" {
    run_on "$DEVICE" one
    close "$G/one-cpu" one-cuda 1e-5
    grep -qE 'on cuda:[0-9]+, .*: .*B allocated, .*B planned, .*B free' one-cuda.err
    no_warning "$G/one-cpu.err"
}

@test "again the same bits; bf16 parameters at rest; a tied and an untied head" {
    run_on "$DEVICE" one --fastest
    close "$G/one-cpu" one-cuda 1e-5
    for model in tied untied; do
        plan one synth:1x1 $model --param-type bf16 --wire-type bf16
        run_on cpu one
        run_on "$DEVICE" one
        close one-cpu one-cuda 1e-5
        bits one-cuda > first
        run_on "$DEVICE" one
        cmp first <(bits one-cuda)
    done
}

@test "bf16: products and activations" {
    [[ $(cpu_types) == *bf16* ]] || skip "no bf16 products on this processor"
    plan one synth:1x1 untied --compute-type bf16
    run_on "$DEVICE" one
    run_on cpu one
    close one-cpu one-cuda 2e-2
    plan one synth:1x1 tied --compute-type bf16 --param-type bf16 --wire-type bf16 --recompute=yes
    run_on cpu one
    run_on "$DEVICE" one
    close one-cpu one-cuda 2e-2
}

# Moments that differ by a rounding of f32 may be rounded apart: by 2^-8 of a parameter's step.
@test "moments in bf16 and int8: losses near the processor's" {
    for m in bf16 int8; do
        plan one synth:1x1 untied --moments $m
        run_on cpu one
        run_on "$DEVICE" one
        close one-cpu one-cuda 1e-3
    done
}

@test "bf16 of f32 parameters: a weight is rounded in one launch, not row by row" {
    in_software
    # A step has some 150 launches; the weights have 600 rows, each read two or three times.
    plan one synth:1x1 untied --compute-type bf16
    EMULATED_FAIL=cudaLaunchKernel:1000 run_on "$DEVICE" one --steps 1
}

@test "bf16 on the wire, kept units, buckets; --against: within the bounds of another strategy" {
    for s in GGG IIG NGI; do
        plan $s synth:2x2 untied --strategy $s --accum 2 --param-type bf16 --wire-type bf16 \
            --compute-type bf16 --grad-type bf16 --prefetch 2 --keep 2
        run_on "$DEVICE" $s --against NNN || { echo $s; return 1; }
    done
}

@test "int8 between groups: losses near the processor's, copies equal" {
    plan four synth:2x2 tied --strategy IIG --slow-params int8 --slow-grads int8 --accum 2
    run_on cpu four
    run_on "$DEVICE" four
    # A block's values are rounded to 2^-8 of its largest: what is off by f32's 1e-5 may round
    # the other way, so that later steps are off as if by one such rounding.
    close four-cpu four-cuda 4e-3
}

@test "adapters: what is frozen stays, what trains does as on the processor" {
    paro-shard init -m "$DATA/llama_tied.json" -o base
    for s in GGG NIG; do
        plan four synth:2x2 tied --strategy $s --trainable lora=4
        run_on cpu four --init base
        run_on "$DEVICE" four --init base
        close four-cpu four-cuda 1e-5
    done
}

@test "each family, in f32 and in bf16, and with adapters: near the processor's" {
    # An element whose gradient is all rounding takes a step of AdamW as long as any: short ones.
    local f type short=(--lr 1e-4)
    for f in gemma3 smollm3 phi3 qwen3 mistral; do
        sed 's/"vocab_size": *[0-9]*/"vocab_size": 256/' "$DATA/$f.json" > $f.json
        for type in $(cpu_types); do
            paro-plan -m $f.json -i synth:1x1 --seq 8 --micro-batch 2 --compute-type "$type" > one.yaml
            run_on cpu one "${short[@]}"
            run_on "$DEVICE" one "${short[@]}"
            close one-cpu one-cuda "$([ "$type" = f32 ] && echo 1e-5 || echo 2e-2)" || { echo "$f $type"; return 1; }
        done
        rm -rf base
        paro-shard init -m $f.json -o base
        paro-plan -m $f.json -i synth:2x2 --strategy NIG --seq 8 --micro-batch 2 --trainable lora=2 > four.yaml
        run_on cpu four --init base "${short[@]}"
        run_on "$DEVICE" four --init base "${short[@]}"
        close four-cpu four-cuda 1e-5 || { echo "$f adapters"; return 1; }
    done
}

has_state() { [ -n "$(find local -path "*/step-*/manifest.json")" ]; }

@test "--local-save: killed, and resumed by what the hosts kept, with the same bits; PARO_METER" {
    # Enough of them for the kill to come first.
    local on=(--device "$DEVICE" --lr 1e-3 --steps "$([ -n "${GPU_REAL-}" ] && echo 600 || echo 60)")
    PARO_METER=$PWD/m run_on "$DEVICE" four "${on[@]}"
    mv four-cuda whole
    [ "$(find m -name '*.train' | wc -l)" = 4 ]
    run "$GPU_BIN/horing-watch" m
    echo "$output"
    [[ $output == 'WATCH '[OWC]*' - '* ]]
    local local=(paro-train "$G/four.yaml" -d "$G/text" -o run --local-save local --local-every 5 "${on[@]}")
    mpirun -np 4 "${local[@]}" > out 2> said &
    for _ in $(seq 600); do
        sleep 0.05
        ! has_state || break
    done
    pkill -KILL -n -f "^paro-train $G/four.yaml -d $G/text -o run"
    wait $! || true
    has_state
    timeout 100 mpirun -np 4 "${local[@]}" --resume=auto > out 2> said
    cat said
    grep -q '^paro-train: resumes from .*local copies of 1 host' said
    cmp <(bits whole) <(bits run)
    same whole/latest run/latest
}

@test "checkpoints: a run that is gone on with has the same bits; on another device it goes on" {
    for p in one four; do
        run_on "$DEVICE" $p --save-every 2 --keep 4
        cp -r $p-cuda whole
        rm -rf "$p-cuda/step-00000003"
        ln -sfn step-00000002 $p-cuda/latest
        ranks=1
        [ $p != four ] || ranks=4
        cp -r $p-cuda other
        again=(--lr 1e-3 --resume auto)
        timeout 100 mpirun -np $ranks paro-train "$G/$p.yaml" -d "$G/text" -o $p-cuda "${again[@]}" \
            --device "$DEVICE"
        cmp <(bits whole) <(bits $p-cuda)
        same whole/latest $p-cuda/latest
        timeout 100 mpirun -np $ranks paro-train "$G/$p.yaml" -d "$G/text" -o other "${again[@]}"
        close whole other 1e-5
        rm -rf whole other
    done
}

@test "a validation loss, a trace, settings beside it" {
    run_on "$DEVICE" four --eval-every 2 --eval-batches 2 --trace-step 3 --skip-nonfinite 0 \
        --clip 0
    [ "$(grep -c '"eval_loss":[0-9]' four-cuda/log.jsonl)" = 1 ]
    [ -s four-cuda/trace-00000003.json ]
    run_on cpu four --eval-every 2 --eval-batches 2 --skip-nonfinite 0 --clip 0
    close four-cpu four-cuda 1e-5
}

@test "layers as CUDA graphs: the same bits, however they are launched" {
    for s in NNN GGG IIG; do
        plan four synth:2x2 untied --strategy $s --accum 3 --layered 2 --prefetch 2 --keep 1 --recompute=yes
        run_on "$DEVICE" four --cuda-graphs never --eval-every 2 --eval-batches 1
        mv four-cuda never
        for graphs in always auto; do
            run_on "$DEVICE" four --cuda-graphs $graphs --eval-every 2 --eval-batches 1
            cmp <(bits never) <(bits four-cuda) || { echo "$s $graphs"; return 1; }
            same never/latest four-cuda/latest
            grep -qE '^paro-train: [1-9][0-9]* CUDA graphs of layers, launched [1-9]' four-cuda.err
        done
        run_on cpu four --eval-every 2 --eval-batches 1
        close four-cpu never 1e-5
        rm -rf never
    done
}

@test "isolated documents, in f32 and in bf16; a CUDA graph of them is refused" {
    load documents.bash
    make_tokenizer tok
    for i in $(seq 200); do
        printf '{"text": "%s"}\n' "$(seq -s ' ' "$i" $((i + i % 3)))"
    done > texts.jsonl
    sed 's/"vocab_size": *[0-9]*/"vocab_size": 260/' "$DATA/llama_untied.json" > model.json
    export TEXT=$PWD/texts.jsonl
    local how=(--tokenizer tok --documents)
    for type in $(cpu_types); do
        paro-plan -m model.json -i synth:2x2 --seq 32 --micro-batch 2 --compute-type "$type" > four.yaml
        run_on cpu four "${how[@]}" isolate
        run_on "$DEVICE" four "${how[@]}" isolate --fastest
        close four-cpu four-cuda "$([ "$type" = f32 ] && echo 1e-5 || echo 2e-2)"
        grep -q 'attention by kernels of our own' four-cuda.err
    done
    paro-plan -m model.json -i synth:1x1 --seq 32 --micro-batch 2 > one.yaml
    run_on "$DEVICE" one "${how[@]}" isolate
    mv one-cuda isolated
    run_on "$DEVICE" one "${how[@]}" join
    run ! close isolated one-cuda 1e-3
    fails "--cuda-graphs=always with --documents=isolate" paro-train one.yaml -d "$TEXT" -o x \
        --steps 1 --device "$DEVICE" "${how[@]}" isolate --cuda-graphs always
}

@test "what cannot be captured as a graph: the same bits, and why" {
    in_software
    run_on "$DEVICE" one --cuda-graphs never
    mv one-cuda never
    EMULATED_CAPTURE=20 run_on "$DEVICE" one
    cmp <(bits never) <(bits one-cuda)
    grep -xE 'paro-train: kernels are launched one by one: cannot capture a CUDA graph: .*:.*' \
        one-cuda.err
    run_on "$DEVICE" one
    run ! grep 'one by one' one-cuda.err
}

@test "what there is not: one line, status 2" {
    train=(paro-train "$G/one.yaml" -d "$G/text" -o new)
    fails "cuda-graphs 'off', expected auto" "${train[@]}" --device "$DEVICE" --cuda-graphs off
    fails 'device cuda:77: this machine has' "${train[@]}" --device cuda:77
    fails "expected the device 'cpu' for exact" "${train[@]}" --device "$DEVICE" --exact
    fails 'no GPU of its own' mpirun -np 4 paro-train "$G/four.yaml" -d "$G/text" -o new \
        --device cuda
    sed 's/"head_dim": *[0-9]*/"head_dim": 258/' "$DATA/llama_untied.json" > wide.json
    paro-plan -m wide.json -i synth:1x1 --seq 8 > wide.yaml
    fails 'heads of 258 .*expected 256' \
        paro-train wide.yaml -d "$G/text" -o new --device "$DEVICE"
    [ ! -e new ]
}

@test "a GPU that is not there, or too small: what is missing, and what would fit" {
    in_software
    train=(paro-train "$G/one.yaml" -d "$G/text" -o new)
    EMULATED_GPUS=0 fails 'no GPU' "${train[@]}" --device cuda
    # What kernels need for themselves is there; then nothing is left.
    work=$(((32 << 20) + (1 << 18)))
    EMULATED_GPU_BYTES=$work fails \
        'has [0-9]* bytes free of [0-9]*, expected [0-9]* for .* none of' \
        "${train[@]}" --device cuda:0
    # Of 800,000 parameters NNN keeps 18 bytes each in full.
    paro-plan -m "$DATA/../../examples/models/llama-tiny.json" -i synth:2x2 --seq 8 \
        --strategy NNN > big.yaml
    EMULATED_GPU_BYTES=$((work + (12 << 20))) fails 'these strategies would: .*GGG' \
        mpirun -np 4 paro-train big.yaml -d "$G/text" -o new --device cuda:0
}

@test "a GPU that fails on one rank ends all of them, with its name" {
    in_software
    words=("$G/four.yaml" -d "$G/text" -o new --steps 20 --device cuda:0 --force)
    for fault in cudaLaunchKernel:400 cudaMemcpyAsync:200 cudaMemsetAsync:80 cudaEventQuery:300 \
        cudaEventRecord:300 cudaGraphLaunch:5; do
        fails "rank 2 (.*): device cuda:0 .* failed at " timeout 100 \
            mpirun -np 4 "$ROOT/tests/cmd/on-rank" 2 EMULATED_FAIL=$fault paro-train "${words[@]}" || { echo $fault; return 1; }
    done
}

@test "a GPU that fails on one rank while strategies are compared ends all of them" {
    in_software
    words=("$G/four.yaml" -d "$G/text" -o new --steps 6 --device cuda:0 --force --against NNN)
    for n in 440 460; do
        fails "rank 2 (.*): device cuda:0 .* failed at " timeout 100 \
            mpirun -np 4 "$ROOT/tests/cmd/on-rank" 2 EMULATED_FAIL=cudaMemcpyAsync:$n \
            paro-train "${words[@]}" || { echo $n; return 1; }
    done
}

@test "work that is done as late as it may be: the same bits" {
    in_software
    for s in GGG NIG NNG; do
        plan four synth:2x2 untied --strategy $s --accum 2 --param-type bf16 --wire-type bf16
        run_on "$DEVICE" four --save-every 3
        mv four-cuda early
        for seed in 1 2; do
            EMULATED_LATE=$seed run_on "$DEVICE" four --save-every 3
            cmp <(bits early) <(bits four-cuda) || { echo "$s $seed"; return 1; }
            same early/step-00000003 four-cuda/step-00000003
            same early/latest four-cuda/latest
        done
        rm -rf early
    done
}
