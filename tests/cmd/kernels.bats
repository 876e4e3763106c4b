# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# The kernels of a device against the double reference, and the network over them beside the
# processor's: tests/gpu/{kern,net,cuda_attention}_check.c, of the processor and of a GPU that is
# emulated; of a real one: build-cuda/gpu/kern_check cuda:0.

bats_require_minimum_version 1.5.0

setup() {
    emulated=${B%/build*}/build-emulated${B##*/build}/gpu
}

# agree LEAST PROGRAM ARG...: so many tests at least, none of which fails
agree() {
    least=$1
    shift
    run "$@"
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" -ge "$least" ]
}

@test "the processor's kernels agree with their reference" {
    agree 500 "$B/gpu/kern_check" cpu
}

@test "an emulated GPU's kernels agree with it" {
    agree 700 "$emulated/kern_check" cuda quick
}

@test "the network gives on an emulated GPU what it gives on the processor" {
    agree 90 "$emulated/net_check" cuda quick
}

@test "and gives it, bit for bit, when no layer can be captured as a graph" {
    EMULATED_CAPTURE=9 agree 300 "$emulated/net_check" cuda refused
}

@test "kern_check says what it cannot do" {
    run -1 "$B/gpu/kern_check" cpu nothing
    echo "$output" | grep -x "Bail out! no group begins with 'nothing'"
}

@test "attention: plain, on tensor cores, with sm_90a products and by cuDNN agree with sums in double" {
    run timeout 300 "$emulated/cuda_attention_check" cuda
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" = 23 ]
    [ "$(echo "$output" | grep -c 'ok.* hopper')" = 6 ]
    [ "$(echo "$output" | grep -c '^ok.* cuDNN')" = 3 ]
}

@test "cuda_attention_check says that there is no GPU" {
    EMULATED_GPUS=0 run timeout 60 "$emulated/cuda_attention_check" cuda
    [ "$status" = 2 ]
    [[ $output == 'Bail out! '*GPU* ]]
}
