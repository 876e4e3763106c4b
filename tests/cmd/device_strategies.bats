# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# All strategies on a GPU beside one on the processor: device.bash.

bats_require_minimum_version 1.5.0

setup_file() {
    load device.bash
    device_begin || return 0
}

setup() {
    load device.bash
    device_setup
}

@test "27 strategies, 4 ranks in 2 groups on one GPU, over MPI and over NCCL" {
    for s in {N,I,G}{N,I,G}{N,I,G}; do
        plan "$s" synth:2x2 tied --strategy "$s" --accum 2
        if [ "$s" = NNN ]; then
            run_on cpu "$s"
            mv NNN-cpu base
        fi
        run_on "$DEVICE" "$s" || { echo "$s"; return 1; }
        close base "$s-cuda" 1e-5 || { echo "$s"; return 1; }
        # NCCL takes seconds to begin with: on a real GPU three of them.
        [ -z "${GPU_REAL-}" ] || [[ $s == @(GGG|NIG|INI) ]] || continue
        mv "$s-cuda" mpi
        run_on "$DEVICE" "$s" --transport nccl || { echo "$s"; return 1; }
        cmp <(bits mpi) <(bits "$s-cuda") || { echo "$s"; return 1; }
        same mpi/latest "$s-cuda/latest" || { echo "$s"; return 1; }
        rm -rf mpi
    done
}
