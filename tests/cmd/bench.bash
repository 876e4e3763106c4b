# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-bench share.

load mpi
load fails # its setup stands
load refuses
