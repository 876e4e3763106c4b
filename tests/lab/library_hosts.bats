# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# libparo between hosts: what goes by messages, of which on one host there are none; groups by
# host, and found by host in a topology.

bats_require_minimum_version 1.5.0
load lab.bash

setup_file() {
    find_lab || return 0
    cd "$ROOT" || exit 1
    export T=$BATS_FILE_TMPDIR
    O=$B PREFIX=$T/prefix sh tests/packaging/install
    export PKG_CONFIG_PATH=$T/prefix/lib/pkgconfig LD_LIBRARY_PATH=$T/prefix/lib
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    # shellcheck disable=SC2046
    for p in user wrong; do
        mpicc ${SAN:+-fsanitize=$SAN -fno-sanitize-recover=all} -o "$T/$p" "tests/preload/paro_$p.c" \
            $(pkg-config --cflags --libs paro) || return 1
    done
}

# right SHAPE... -- PROGRAM [OPTION...]
right() {
    run --separate-stderr paro-lab "$@"
    printf '%s\n' "$output" "${stderr-}"
    [ "$status" = 0 ] && [[ "$output" == "ok "* ]]
}

@test "hosts are groups" {
    right -g 2 -p 2 -- "$T/user"
    right -g 3 -p 2,1,1 -- "$T/user"
}

@test "in a topology hosts are found by their names, however many ranks each has" {
    paro-topo -i synth:2x3 | awk '/^ *- ranks:/ { sub(/- ranks/, "- host: node" 1 - n++ "\n    ranks") } 1' >fabric.yaml
    [ "$(grep -c 'host: node' fabric.yaml)" = 2 ]
    right -g 2 -p 2,1 -- "$T/user" topology="$PWD/fabric.yaml"
    run -3 paro-lab -g 3 -p 1 -- "$T/user" topology="$PWD/fabric.yaml"
    [[ "$output" == *"error 3: "*" has no host 'node2', and 6 ranks where MPI_COMM_WORLD has 3, expected"* ]]
}

@test "errors in the same words, a rank that is late" {
    right -g 2 -p 1,2 -- "$T/wrong"
    right -g 2 -p 1,2 -- "$T/wrong" late
}
