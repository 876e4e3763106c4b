# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Begins a benchmark, in the root of the tree: commands of BIN are found, OUT is its folder.
set -u
PATH=${BIN:=$PWD/bin}:$PATH
OUT=${OUT:-bench}

die() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# settings NAME=DEFAULT...: variables of the benchmark that the environment may set.
settings() {
    for setting; do
        eval "${setting%%=*}=\${${setting%%=*}:-\${setting#*=}}"
    done
}
