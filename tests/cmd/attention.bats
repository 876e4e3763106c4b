# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Attentions of a GPU beside sums in double, on the GPU in software:
# tests/gpu/cuda_attention_check.c.

setup() {
    GPU=${B_EMULATED:-${B/build/build-emulated}}/gpu
    [ -d "$GPU" ] || skip "built without the GPU in software"
}

@test "plain attention, that on tensor cores and that of sm_90a agree with sums in double" {
    run timeout 300 "$GPU/cuda_attention_check" cuda
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" = 20 ]
    [ "$(echo "$output" | grep -c 'ok.* hopper')" = 6 ]
}

@test "cuda_attention_check says that there is no GPU" {
    EMULATED_GPUS=0 run timeout 60 "$GPU/cuda_attention_check" cuda
    [ "$status" = 2 ]
    [[ $output == 'Bail out! '*GPU* ]]
}
