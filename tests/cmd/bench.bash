# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-bench share.

load mpi
load fails # its setup stands

# fails LINE COMMAND...: status 2, nothing on stdout, and that line among its and mpirun's words.
fails() {
    ends_with_2 "${@:2}" || return
    grep -qxF "$1" said || { echo "stderr of ${*:2}:"; cat said; return 1; }
}
