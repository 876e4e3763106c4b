# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Attention on a GPU compared with sums in double, on the GPU in software:
# tests/gpu/cuda_attention_check.c.

setup() {
    GPU=${B_EMULATED:-${B/build/build-emulated}}/gpu
    [ -d "$GPU" ] || skip "built without the GPU in software"
}

@test "attention: plain, on tensor cores, with sm_90a products and by cuDNN agree with sums in double" {
    run timeout 300 "$GPU/cuda_attention_check" cuda
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" = 26 ]
    [ "$(echo "$output" | grep -c 'ok.* hopper')" = 6 ]
    [ "$(echo "$output" | grep -c '^ok.* cuDNN')" = 6 ]
}

@test "cuda_attention_check says that there is no GPU" {
    EMULATED_GPUS=0 run timeout 60 "$GPU/cuda_attention_check" cuda
    [ "$status" = 2 ]
    [[ $output == 'Bail out! '*GPU* ]]
}
