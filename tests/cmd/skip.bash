# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# `skip` in setup_file is a failure in bats 1.8 (Debian 12): each test skips in its setup.

# In setup_file: `skip_file WHY; return`
skip_file() { export SKIP_FILE=$1; }
# In setup
skip_test() { [ -z "${SKIP_FILE-}" ] || skip "$SKIP_FILE"; }

# PROGRAM: in setup_file, what tests with a GPU in software (make emulated) or a real one (GPU_BIN,
# GPU_REAL) run; 1: there is no such build.
find_gpu() {
    export GPU_BIN=${GPU_BIN:-${B%/*}/build-emulated${B##*/build}/bin} DEVICE=${DEVICE:-cuda:0}
    [ -x "$GPU_BIN/$1" ] || { skip_file "no build with CUDA in $GPU_BIN (make emulated)"; return 1; }
}
in_software() { [ -z "${GPU_REAL-}" ] || skip "a real GPU does not do that"; }
