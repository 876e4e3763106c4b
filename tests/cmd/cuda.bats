# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Builds with CUDA: what nvcc has to say, where there is one; what a machine without a GPU says;
# and devices as tests/gpu/device_check.c knows them, on the GPU in software.

load refuses

DATA=$ROOT/tests/data
CHECK=${B_EMULATED:-${B/build/build-emulated}}/gpu/device_check

plan() {
    "$BIN/paro-plan" -m "$DATA/llama_tied.json" -i "$1" --seq 16 --micro-batch 2 >plan.yaml
    seq 1 20000 >text
}

@test "make CUDA=1 compiles without a warning, and what it makes knows that there is no GPU" {
    command -v nvcc >/dev/null || skip "no nvcc"
    local small=()
    [ -n "$LONG" ] || small=(ARCH=90)
    # Kernels and what calls them; the rest is shared with this build.
    run -0 make -C "$ROOT" CUDA=1 DEPS=no SAN="$SAN" "${small[@]}" \
        B="$PWD/cuda" BIN="$PWD/cuda/bin" "$PWD/cuda/bin/paro-train" "$PWD/cuda/gpu/device_check"
    [[ $output == *kern_cuda* ]]
    [[ ${output,,} != *warning* ]]
    cuda/gpu/device_check cpu
    ! nvidia-smi -L 2>/dev/null | grep -q GPU || skip "compiled; there is a GPU"
    plan synth:1x2
    for device in cuda cuda:0; do
        refuses 2 'device cuda: machine no' \
            ranks 2 cuda/bin/paro-train plan.yaml -d text -o run --device $device
        [[ $refusal =~ no\ (driver|GPU) ]]
        [ ! -e run ]
    done
}

@test "a build without CUDA says so" {
    plan synth:1x2
    refuses 2 'build no CUDA' \
        ranks 2 "$BIN/paro-train" plan.yaml -d text -o run --device cuda
    refuses 2 "device 'gpu' cpu cuda cuda:N" \
        ranks 2 "$BIN/paro-train" plan.yaml -d text -o run --device gpu
    [ ! -e run ]
}

@test "a device does what every device must: the processor, a GPU in software" {
    "$CHECK" cpu
    "$CHECK" cuda
    EMULATED_GPUS=3 "$CHECK" cuda:2
    EMULATED_GUARD=1 "$CHECK" cuda
    EMULATED_LATE=1 "$CHECK" cuda
    run ! "$CHECK" cuda:1
    has_words "$output" 'Bail out! device cuda:1: 1 GPU cuda:0'
}

@test "tables of kernels: batches, alignments, sums, room that grows" {
    local check=${CHECK%device_check}kern_check
    "$B/gpu/kern_check" cpu table
    EMULATED_CAPABILITY=80 "$check" cuda table # has less room, which grows
    EMULATED_LATE=1 "$check" cuda table
    EMULATED_GUARD=1 "$check" cuda table
    run -0 "$check" cuda product quick
    [ "$(grep -c '^ok' <<<"$output")" -gt 100 ]
    EMULATED_CAPABILITY=75 run -1 "$check" cuda table
    has_words "$output" 'capability 7.5 8.0'
    EMULATED_FAIL=cublasLtMatmul:5 run -1 "$check" cuda table
    has_words "$output" 'cuBLASLt CUBLAS_STATUS_EXECUTION_FAILED'
    EMULATED_FAIL=cudaLaunchKernel:2 run -1 "$check" cuda table
    has_words "$output" 'failed sumsq: unspecified launch failure'
}

@test "a driver that is missing or too old" {
    EMULATED_GPUS=0 run -2 "$CHECK" cuda
    has_words "$output" 'Bail out! device cuda: no GPU'
    EMULATED_DRIVER=0 run -2 "$CHECK" cuda
    has_words "$output" 'no driver NVIDIA CUDA 13.0'
    EMULATED_DRIVER=12040 run -2 "$CHECK" cuda:0
    has_words "$output" 'driver CUDA 12.4 13.0'
}

@test "a GPU that is too small" {
    EMULATED_GPU_BYTES=1000000 run -1 "$CHECK" cuda
    grep -q '^not ok 1 - memory is zeroed' <<<"$output"
    grep -q '^ok [0-9]* - too much is refused' <<<"$output"
    # memory that is short once is no end of the device
    EMULATED_FAIL=cudaMalloc:2 run -1 "$CHECK" cuda
    [ "$(grep -c '^not ok' <<<"$output")" = 1 ]
}

@test "a GPU that fails has failed for good, and says at what" {
    for call in cudaMemcpyAsync:3 cudaMemsetAsync:2 cudaStreamSynchronize:5 cudaEventRecord:1 \
        cudaEventQuery:1 cudaEventSynchronize:1 cudaStreamWaitEvent:1 cudaHostAlloc:1; do
        EMULATED_FAIL=$call run -1 "$CHECK" cuda
        has_words "$output" "# device cuda:0 ( failed ${call%:*}: unspec"
        grep -q '^not ok 6 - too much' <<<"$output"
    done
}
