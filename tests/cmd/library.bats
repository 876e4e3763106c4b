# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# libparo as a program's author has it: installed, found by pkg-config, compiled with mpicc against
# paro.h, linked with the shared library and with the static one.  What it must do the programs of
# tests/preload know: paro_user and paro_wrong.
# shellcheck disable=SC2046,SC2086

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$ROOT" || exit 1
    export D=$BATS_FILE_TMPDIR/prefix T=$BATS_FILE_TMPDIR
    O=$B PREFIX=$D sh tests/packaging/install
    # A sanitizer's library wants a program that has it, too; what leaks of the program's and of
    # libparo's is found as in the commands (keep_loaded.c).
    local keep=${SAN:+tests/lint/keep_loaded.c}
    export PKG_CONFIG_PATH=$D/lib/pkgconfig LD_LIBRARY_PATH=$D/lib \
        FLAGS="-g -Wall -Wextra -Wpedantic -Werror ${SAN:+-fsanitize=$SAN -fno-sanitize-recover=all}"
    shared=$(pkg-config --cflags --libs paro)
    static=$(pkg-config --cflags --libs --static paro | sed 's/-lparo/-l:libparo.a/')
    for p in user wrong; do
        mpicc $FLAGS -o "$T/$p" "tests/preload/paro_$p.c" $keep $shared &&
            mpicc $FLAGS -o "$T/${p}_static" "tests/preload/paro_$p.c" $keep $static || return 1
    done
}

setup() { cd "$ROOT" || exit 1; }

# right RANKS PROGRAM [OPTION...]: on all ranks all is well
right() {
    local n=$1
    shift
    run --separate-stderr mpirun -np "$n" "$@"
    printf '%s\n' "$output" "${stderr-}"
    [ "$status" = 0 ] && [[ "$output" == "ok "* ]]
}

@test "paro.h is C99 and C++, and needs nothing before it" {
    echo '#include <paro.h>' >"$T/one.c"
    mpicc -std=c99 -Wall -Wextra -Wpedantic -Werror -c -o "$T/one.o" "$T/one.c" -I"$D/include"
    cp "$T/one.c" "$T/one.cc"
    mpicxx -DOMPI_SKIP_MPICXX -std=c++11 -Wall -Wextra -Wpedantic -Werror -c -o "$T/one.o" \
        "$T/one.cc" -I"$D/include"
}

@test "paro_* is exported and nothing else, by both libraries: what the header declares" {
    grep -oE 'PARO_API [^(]*\(' lib/paro/paro.h | grep -oE 'paro_[a-z_]+\(' | tr -d '(' | sort >"$T/declared"
    [ -s "$T/declared" ]
    nm -D --defined-only "$D/lib/libparo.so" | awk '{print $3}' | sort | diff "$T/declared" -
    nm -g --defined-only "$D/lib/libparo.a" | awk 'NF == 3 {print $3}' | grep -v '^DW\.ref\.' | sort |
        diff "$T/declared" -
}

@test "the shared library needs MPI and readers of YAML, and no kernels" {
    [ -z "${SAN-}" ] || skip "a sanitizer needs its own"
    objdump -p "$D/lib/libparo.so" | grep -q 'SONAME *libparo.so.0$'
    run bash -c "objdump -p '$D/lib/libparo.so' | awk '/NEEDED/ {print \$2}' | paste -sd' '"
    [[ "$output" == *libmpi.so* ]]
    [[ "$output" == *libcyaml.so* ]]
    [[ ! "$output" =~ dnnl|gomp|hwloc|cuda|nccl ]]
}

@test "a program with the static library does not load the shared one" {
    [ "$(objdump -p "$T/user_static" | grep -c 'NEEDED.*libparo')" = 0 ]
    objdump -p "$T/user" | grep -q 'NEEDED.*libparo.so.0$'
}

@test "pkg-config follows an installation that was moved" {
    cp -r "$D" "$T/moved"
    run env PKG_CONFIG_PATH="$T/moved/lib/pkgconfig" pkg-config --define-prefix --variable=libdir paro
    [ "$output" = "$T/moved/lib" ]
    run pkg-config --modversion paro
    [ "$output" = "$(sed -n 's/^VERSION *:= *//p' Makefile)" ]
}

@test "every operation, type, count and root, several at once, some of the ranks: one to three ranks" {
    right 1 "$T/user"
    right 2 "$T/user_static"
    right 3 "$T/user"
}

@test "the same in groups: equal, ragged, placed anyhow, of a topology, with its table" {
    right 4 "$T/user" groups=2x2
    right 5 "$T/user_static" 'groups=[3,2]'
    right 4 "$T/user" groups=0,1,0,1
    paro-topo -i 'synth:[1,2,4],inter=1GB/s:20us' >"$T/fabric.yaml"
    right 7 "$T/user" topology="$T/fabric.yaml"
    right 4 "$T/user" topology=synth:2x2x1
    paro-sched pick -i synth:2x2 --table >"$T/tuning.yaml"
    right 4 "$T/user" groups=2x2 tuning="$T/tuning.yaml"
}

@test "runs are recorded, by handle, and a folder that cannot be made is an error on all ranks" {
    rm -rf "$T/meter"
    right 3 "$T/user" meter="$T/meter"
    [ "$(find "$T/meter" -name '*.paro' -size 516k | wc -l)" = 3 ]
    run horing-watch -v "$T/meter"
    [[ $output == "WATCH OK - 3 ranks"* ]]
    run -3 mpirun -np 2 "$T/user" meter=/proc/none/meter
    [ "$(grep -c "rank 0 (.*): meter: cannot make folder '/proc/none': " <<<"$output")" = 2 ]
}

@test "two threads at the same time, each over a communicator of its own" {
    right 3 "$T/user" threads
}

@test "what auto takes: ho-ring, what is fastest on a topology, what a table says" {
    right 4 "$T/user" groups=2x2 takes=ho-ring chunk=61440
    paro-sched pick -i synth:2x2 --op all-reduce -b 4 -e 4 >"$T/pick"
    grep -q 'recursive-doubling *60.0 KiB' "$T/pick"
    right 4 "$T/user" topology=synth:2x2 takes=recursive-doubling chunk=61440
    printf '%s\n' 'format: paro-tuning/1' 'members: [2, 2]' rules: '  - op: all-reduce' \
        '    from_bytes: 0' '    algo: two-level' '    chunk_bytes: whole' >"$T/tuning.yaml"
    right 4 "$T/user" topology=synth:2x2 tuning="$T/tuning.yaml" takes=two-level chunk=9223372036854775807
}

@test "a table for other groups is refused" {
    paro-sched pick -i synth:2x2 --table >"$T/tuning.yaml"
    run -3 mpirun -np 3 "$T/user" 'groups=[2,1]' tuning="$T/tuning.yaml"
    [[ "$output" == *'error 3: '*'the tuning table is for groups 2x2, but these ranks are in [2,1]'* ]]
}

@test "what is wrong is said in the same words by all ranks" {
    right 2 "$T/wrong"
    right 3 "$T/wrong_static"
}

@test "a rank that is late is reported within the deadline, by those that wait and by itself" {
    # What was in flight stays.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    right 3 "$T/wrong" late
}

@test "the example says what it took" {
    mpicc -std=c99 $FLAGS -o "$T/sums" examples/paro/sums.c ${SAN:+tests/lint/keep_loaded.c} $(pkg-config --cflags --libs paro)
    run mpirun -np 4 "$T/sums"
    [[ $output =~ ^4\ ranks\ as\ 1x4,\ by\ ho-ring:\ .*8\ is\ 10,\ .*\ 4\;\ .*\ [1-9][0-9]*\ times$ ]]
    [ "$(grep -c . examples/paro/sums.c)" -le 70 ]
}
