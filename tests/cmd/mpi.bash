# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Ranks exceed cores on a small machine, and in a container one is root.  (tests/run reads it, too.)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
