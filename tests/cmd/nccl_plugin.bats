# SPDX-License-Identifier: BSD-3-Clause
# libparo-nccl-plugin.so as a file; what it does the unit test nccl_plugin_test knows.

load refuses

LIB=$B/libparo-nccl-plugin.so

names() { nm -D --defined-only "$LIB" | awk '{print $3}'; }

@test "it exports what NCCL looks up, and nothing else" {
    [ -z "${SAN-}" ] || skip "a sanitizer exports its own"
    diff <(names) <(printf 'ncclProfiler_v%d\n' 1 2 3 4 5
        printf 'ncclTunerPlugin_v%d\n' 2 3 4 5)
}

@test "it needs neither MPI nor CUDA nor kernels, and stays when NCCL closes it" {
    objdump -p "$LIB" > needs
    run -1 grep -E 'NEEDED.*(mpi|cuda|nccl|dnnl)' needs
    grep -qE 'FLAGS_1 +0x0*8$' needs
}

@test "the NCCL of this machine looks up these names" {
    local nccl name
    for nccl in "${NCCL_HOME-/usr/local/cuda}"/lib*/libnccl.so.2 /usr/lib/*/libnccl.so.2; do
        [ ! -f "$nccl" ] || break
    done
    [ -f "$nccl" ] || skip "no NCCL here"
    for name in ncclProfiler_v5 ncclTunerPlugin_v5; do
        names | grep -qx "$name"
        grep -aqw "$name" "$nccl"
    done
}
