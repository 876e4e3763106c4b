#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A step of PyTorch's DDP and FSDP2 over the backend "paro" and over gloo, in turns, on emulated
# fabrics: a line for each.  Linear layers with GELU, AdamW; all ranks share the processors.
#
#   python3 -m venv DIR && DIR/bin/pip install torch
#   make bench-backend PYTHON=DIR/bin/python
. "$(dirname "$0")/begin.sh"
# CASES: groups x ranks of each, rate.  BATCH: rows of a rank.
settings PYTHON=python3 CASES='2x2:500mbit 2x4:500mbit 4x2:200mbit' WIDTH=1024 LAYERS=8 BATCH=8 \
    STEPS=6 ROUNDS=3
processors=$(nproc)
export PYTHONPATH="$PWD/lib/python" PARO_LIBRARY="$PWD/build/libparo.so" OMP_NUM_THREADS=1
"$PYTHON" -c 'import torch.distributed.fsdp' || die "$PYTHON has no torch; the head of this file says how to get it"
mkdir -p "$OUT" || die "cannot make $OUT"
for case in $CASES; do
    shape=${case%%:*} rate=${case#*:}
    echo "# $case: $LAYERS layers of $WIDTH, $ROUNDS x $STEPS steps, $processors processors"
    paro-lab -g "${shape%x*}" -p "${shape#*x}" -r "$rate" -- "$PYTHON" \
        "$(dirname "$0")/backend.py" "$WIDTH" "$LAYERS" "$BATCH" "$STEPS" "$ROUNDS" 2> "$OUT/said" ||
        { cat "$OUT/said" >&2; die "$case failed"; }
done
