# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# horing-check --device: messages from GPU to GPU.  The GPU is one in software (make emulated), or
# with GPU_BIN=build-cuda/bin GPU_REAL=1 a real one, which all hosts share.
# shellcheck disable=SC2016,SC2034
bats_require_minimum_version 1.5.0
load lab
load health_says

setup_file() {
    find_lab || return 0
    find_gpu horing-check || return 0
    export BASELINE=$BATS_FILE_TMPDIR/gpu.yaml
    PATH=$GPU_BIN:$PATH
    timeout 60 paro-lab -p 1 -r 200mbit -- "$GPU_BIN/horing-check" --learn -t 30 \
        --device "$DEVICE" > "$BASELINE"
}

# ON is what the environment has on node1 alone.
LAB=(-r 200mbit) ONE_LINE=1
CHECK=(sh -c '[ "$(hostname)" = node1 ] || ON=; exec env $ON "$@"' sh "${GPU_BIN-}/horing-check" -t 20)

# EXPRESSION: of the document $d
json() { perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>); exit !('"$1"')' < out || { cat out; false; }; }

@test "a baseline is of GPUs or of hosts' memory, and none is the other's" {
    grep -qx 'device: cuda' "$BASELINE"
    again says 0 '^HORING OK - 2 hosts' -p 1 -- -b "$BASELINE" --device "$DEVICE" -w 20: -c 10:
    says 3 '^HORING UNKNOWN - .*is of the memory of GPUs, expected that of hosts' \
        -p 1 -- -b "$BASELINE"
    timeout 60 paro-lab -p 1 -r 200mbit -- horing-check --learn -t 30 > hosts.yaml
    run ! grep device hosts.yaml
    says 3 '^HORING UNKNOWN - .*is of the memory of hosts, expected that of GPUs .*--device cuda' \
        -p 1 -- -b "$PWD/hosts.yaml" --device "$DEVICE"
}

@test "each rank's GPU is in the document and in the record, which is judged again alike" {
    again says 0 '"device":"cuda"' -g 3 -p 2 -- --device "$DEVICE" --json -w 20: -c 10: \
        --record "$PWD/record"
    json '@{$d->{gpus}} == 6 && $d->{gpus}[5]{host} eq "node2" && $d->{gpus}[5]{rank} == 5 &&
          $d->{gpus}[5]{gpu} == 0 && $d->{gpus}[5]{name} && $d->{wrong_words} == 0'
    horing-check --replay record --json -w 20: -c 10: > replayed
    cmp out replayed
    if [ -z "${GPU_REAL-}" ]; then
        EMULATED_GPUS=2 again says 0 '"device":"cuda"' -g 3 -p 2 -- --device cuda --json -w 20: -c 10:
        json 'join(" ", map { $_->{gpu} } @{$d->{gpus}}) eq "0 1 0 1 0 1"'
    fi
}

@test "a word that a GPU or a copy made wrong is its own, not the wire's" {
    in_software
    ON=EMULATED_COPY=flip-out:30 says 2 \
        '^HORING CRITICAL - node1 cuda:0 made 1 words wrong when sending, not the wire' \
        -g 3 -p 1 -- --device cuda:0
    ON=EMULATED_COPY=lose-in:30 says 2 '"code":"HC-502"' -g 3 -p 1 -- --device cuda:0 --json
    json '$d->{wrong_words} == 0 && @{$d->{findings}} == 1 && $d->{findings}[0]{rank} == 1 &&
          $d->{gpus}[1]{wrong_words_in} > 1 && $d->{gpus}[1]{wrong_words_out} == 0'
}

@test "and one that the wire made wrong is not the GPU's" {
    in_software
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be loaded first"
    gcc -O1 -shared -fPIC -o corrupt.so "$BATS_TEST_DIRNAME/corrupt.c" -ldl
    LD_PRELOAD=$PWD/corrupt.so CORRUPT_HOST=node1 again says 2 '"code":"HC-501"' \
        -g 3 -p 1 --mca mpi_yield_when_idle 1 -- --device cuda:0 --json -w 20: -c 10:
    json '$d->{wrong_words} > 0 &&
          (grep { $_->{text} =~ /^node1 sends wrong data/ } @{$d->{findings}}) &&
          !grep { $_->{code} eq "HC-502" } @{$d->{findings}}'
}

@test "a GPU that fails in mid-check, or is not there, is UNKNOWN" {
    in_software
    ON=EMULATED_FAIL=cudaMemcpyAsync:200 says 3 \
        '^HORING UNKNOWN - rank 1 \(node1\): device cuda:0 \(a GPU in software\) failed at cuda' \
        -g 3 -p 1 -- --device cuda:0
    ON=EMULATED_FAIL=cudaEventQuery:200 says 3 '^HORING UNKNOWN - rank 1 \(node1\): .*failed at ' \
        -g 3 -p 1 -- --device cuda:0
    ON=EMULATED_DRIVER=0 says 3 '^HORING UNKNOWN - rank 1 \(node1\): .*no driver of NVIDIA' \
        -g 3 -p 1 -- --device cuda
    says 3 '^HORING UNKNOWN - rank 0 \(node0\): device cuda:3: this machine has 1 GPU' \
        -g 3 -p 1 -- --device cuda:3
    says 3 '^HORING UNKNOWN - rank 1 \(node0\): .*no GPU of its own' -g 3 -p 2 -- --device cuda
    says 3 "^HORING UNKNOWN - rank 0 \(node0\): device 'gpu', expected cpu, cuda or cuda:N" \
        -g 3 -p 1 -- --device gpu
    ON=EMULATED_GPU_BYTES=100000 says 3 '^HORING UNKNOWN - rank 1 .node1.: cannot have .* of memory of cuda:0' \
        -g 3 -p 1 -- --device cuda:0
}
