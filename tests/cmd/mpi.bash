# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# mpirun on this machine, also for programs that know MPI alone: a command of paro sees by itself
# that its ranks share a host and need no IPv6.
. "$ROOT/examples/mpirun-env"
export OMPI_MCA_btl_tcp_disable_family=6

# ranks N COMMAND...: under mpirun, without mpirun's own lines on standard error.
ranks() {
    { timeout 100 mpirun -np "$1" "${@:2}" 2>&1 >&4 | grep -E '^(paro|horing)-' >&2; return "${PIPESTATUS[0]}"; } 4>&1
}
