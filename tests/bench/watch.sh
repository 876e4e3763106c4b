#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# horing-watch: how often runs with known faults are judged right, how long a verdict takes, and
# what the meter costs.
#
#   make bench-watch                     RUNS=100 made-up runs of each fault, ten times as many healthy
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
runs=$(dirname "$PLOT")/watch_runs
"$runs" "${RUNS:-100}"
"$runs" ranks 64
"$runs" ranks 4096
"$runs" cost "$dir/disk"
"$runs" cost "/dev/shm/watch.$$" && rm -r "/dev/shm/watch.$$"

# A program of small collectives, with and without the meter, in turns: its steps a second.
if command -v mpicc >/dev/null; then
    mpicc -O2 -o "$dir/loop" tests/lab/watch_loop.c
    for _ in 1 2 3 4 5; do
        for meter in '' "$dir/m"; do
            printf '%s: ' "$([ -n "$meter" ] && echo with the meter || echo without)"
            mpirun -np 2 env LD_PRELOAD="$PWD/build/libparo-mpi.so" PARO_METER="$meter" \
                PARO_MPI_MODE=never STEPS=1 "$dir/loop" 2 200
        done
    done
fi
