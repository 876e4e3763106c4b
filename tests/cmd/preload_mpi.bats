# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# libparo-mpi.so preloaded into programs that know MPI alone: tests/preload/mpi_user, which calls
# everything twice and compares, and tests/preload/mpi_ways.  On one machine: groups are those of a
# topology.
# shellcheck disable=SC2016,SC2086

setup_file() {
    command -v mpicc > /dev/null || return 0
    cd "$BATS_FILE_TMPDIR" || return
    local warn='-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Wshadow -Werror'
    mpicc $warn -o ways "$ROOT/tests/preload/mpi_ways.c" &&
        mpicc $warn -o user "$ROOT"/tests/preload/mpi_user*.c -lm -lpthread
}

setup() {
    command -v mpicc > /dev/null || skip "no mpicc here"
    cd "$BATS_FILE_TMPDIR" || return
    # A sanitizer comes before all else.  What is freed is not kept, which would be memory lost
    # to the checker, and leaks are not counted: Open MPI's modules are gone by then, and what
    # they keep has no name.
    local asan='' kept=quarantine_size_mb=0:thread_local_quarantine_size_kb=0
    if [ -n "${SAN-}" ]; then
        asan=$(gcc -print-file-name=libasan.so):
        export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0:$kept
    fi
    export LIB=$asan$B/libparo-mpi.so FABRIC=intra=10GB/s:3us,inter=60MB/s:12us
    unset PARO_MPI_MODE PARO_MPI_MIN_BYTES PARO_MPI_MEMORY PARO_MPI_TRACE PARO_TOPO PARO_TUNING
}

# preloaded RANKS PROGRAM [ARG...]: with what PARO_* say
preloaded() {
    run timeout 200 mpirun -np "$1" env LD_PRELOAD="$LIB" "${@:2}"
    echo "$output" | cut -c 1-200 | tail -n 40
}

# checked RANKS GROUPS MODE: the checker, all sizes
checked() {
    PARO_TOPO=synth:$2,$FABRIC PARO_MPI_MODE=$3 PARO_MPI_MIN_BYTES=0 \
        preloaded "$1" ./user -n 1 -m 4096
    [ "$status" = 0 ] && grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<< "$output"
}

# traced WAY: a way on 2x2, and what is said of it
traced() {
    PARO_TOPO=${PARO_TOPO-synth:2x2,$FABRIC} PARO_MPI_TRACE=1 preloaded 4 ./ways "$1"
    [ "$status" = 0 ] && grep -qx ok <<< "$output"
}

# says FUNCTION WORDS: in the row of the function
says() {
    grep -E "^paro-mpi: $1 " <<< "$output" | grep -qE -- "$2"
}

@test "every form, type, operation and placement gives what MPI gives: always" {
    checked 4 2x2 always
    checked 5 '[3,1,1]' always
    checked 2 2x1 always
}

@test "the same where the two are measured, and where ours is never taken" {
    checked 4 2x2 measure
    checked 3 '[2,1]' never
}

@test "data of a device's are packed by MPI: as if there were a driver" {
    cat > driver.c <<'C'
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>
static int packed;
int cuPointerGetAttribute(void);
int cuPointerGetAttribute(void) { return 1; }
int PMPI_Pack(const void *in, int n, MPI_Datatype type, void *out, int room, int *at, MPI_Comm comm)
{
    packed = 1;
    return ((int (*)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm))dlsym(
        RTLD_NEXT, "PMPI_Pack"))(in, n, type, out, room, at, comm);
}
__attribute__((destructor)) static void end(void)
{
    if (packed)
        (void)!write(1, "packed\n", 7);
}
C
    mpicc -D_GNU_SOURCE -shared -fPIC -o driver.so driver.c -ldl
    LIB="$LIB:$PWD/driver.so" checked 4 2x2 always
    PARO_MPI_MODE=always LIB="$LIB:$PWD/driver.so" traced again
    [ "$(grep -cx packed <<< "$output")" = 4 ]
    sed '/cuPointer/d' driver.c > other.c
    mpicc -D_GNU_SOURCE -shared -fPIC -o other.so other.c -ldl
    PARO_MPI_MODE=always LIB="$LIB:$PWD/other.so" traced again
    [ "$(grep -cx packed <<< "$output")" = 0 ]
}

@test "linked before MPI instead of preloaded" {
    local flags="${SAN:+-fsanitize=$SAN -fno-sanitize-recover=all}"
    mpicc $flags -o linked "$ROOT/tests/preload/mpi_ways.c" -L"$B" -lparo-mpi -Wl,-rpath,"$B"
    mpicc $flags -D_GNU_SOURCE -O1 -o linked_user "$ROOT"/tests/preload/mpi_user*.c -L"$B" \
        -lparo-mpi -Wl,-rpath,"$B" -lm -lpthread
    export PARO_TOPO=synth:2x2,$FABRIC PARO_MPI_MODE=always
    PARO_MPI_TRACE=1 run timeout 60 mpirun -np 4 ./linked again
    echo "$output"
    [ "$status" = 0 ]
    says MPI_Allreduce ': 20 calls, 20 ours in'
    PARO_MPI_MIN_BYTES=0 run timeout 200 mpirun -np 4 ./linked_user -n 1 -m 4096
    echo "$output" | cut -c 1-200 | tail -n 20
    [ "$status" = 0 ] && grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<< "$output"
}

@test "a verdict: first MPI's, then prepared, then three and three, then whose median is smaller" {
    traced again
    says MPI_Allreduce ': 20 calls, (16|4) ours in .*; trial: MPI .*, ours .*, ratio [0-9.]+;'
    says MPI_Allreduce "; 1 first call[^;]*; 3 MPI's turn in a trial(; 12 MPI was faster)?$"
    # A broadcast from each of four roots is one kind on trial.
    says MPI_Bcast "; 4 first call[^;]*; 3 MPI's turn in a trial"
    says MPI_Bcast ': 48 calls, (41|[4-7]) ours in'
    [ "$(grep -c 'MPI_Bcast .*while another' <<< "$output")" = 0 ]
    # 1.00 is either.
    grep -E '^paro-mpi: MPI_Allreduce ' <<< "$output" |
        sed -E 's/.*calls, ([0-9]+) ours.*ratio ([0-9.]+).*/\1 \2/' |
        awk '($2 > 1 && $1 != 16) || ($2 < 1 && $1 != 4) { exit 1 }'
}

# How many there are rests on times; that they are whole, and that all ranks take part, does not.
@test "trials come again" {
    PARO_MPI_MIN_BYTES=0 traced long
    turns=$(sed -nE "s/.*40000 calls.*; ([0-9]+) MPI's turn in a trial.*/\1/p" <<< "$output")
    [ "$turns" -ge 3 ] && [ $((turns % 3)) = 0 ]
}

@test "always, never, from so many bytes on" {
    PARO_MPI_MODE=always traced again
    says MPI_Allreduce ': 20 calls, 20 ours in [^;]*$'
    PARO_MPI_MODE=never traced again
    says MPI_Allreduce "20 calls, 0 ours, MPI's in .*; 20 PARO_MPI_MODE is never$"
    PARO_MPI_MIN_BYTES=64Ki PARO_MPI_MODE=always traced again
    says MPI_Allreduce ': 20 calls, 20 ours'
    PARO_MPI_MIN_BYTES=65537 PARO_MPI_MODE=always traced again
    says MPI_Allreduce '; 20 below PARO_MPI_MIN_BYTES$'
}

@test "types that MPI adds up in ways of their own are not taken for each other" {
    PARO_MPI_MODE=always traced kinds
    says MPI_Allreduce ' 4 calls, 4 ours in '
}

@test "a program that never calls the same twice is left alone, and what is prepared is bounded" {
    traced many
    says MPI_Allreduce ': 210 calls, 0 ours.*; 210 first call[^;]*$'
    PARO_MPI_MODE=always traced many
    says MPI_Allreduce ': 210 calls, 210 ours'
    PARO_MPI_MEMORY=128Ki traced again
    says MPI_Allreduce '20 calls, (16|4) ours'
    PARO_MPI_MEMORY=131071 traced again
    says MPI_Allreduce '; 1 first call[^;]*; 19 PARO_MPI_MEMORY[^;]*$'
}

@test "one group, a topology that is not there, a table for other groups, PARO_DISABLE on a rank" {
    PARO_TOPO='' traced again
    says MPI_Allreduce '; 19 one group; 1 first call[^;]*$'
    PARO_TOPO=absent.yaml traced again
    says MPI_Allreduce "; 19 unknown groups: .*'absent.yaml': No such file"
    printf 'format: paro-tuning/1\nmembers: [3, 1]\nrules:\n  - op: all-reduce\n    from_bytes: 0\n    algo: ring\n    chunk_bytes: whole\n' > odd.yaml
    PARO_TUNING=odd.yaml traced again
    says MPI_Allreduce '; 19 unknown groups: .*table is for groups \[3,1\]'
    PARO_TOPO=synth:2x2 PARO_MPI_TRACE=1 PARO_MPI_MODE=always run timeout 60 mpirun -np 4 bash -c '
        [ "${PMI_RANK-$OMPI_COMM_WORLD_RANK}" != 2 ] || export PARO_DISABLE=1
        LD_PRELOAD=$LIB exec ./ways again'
    echo "$output"
    grep -qx 'paro-mpi: off: on another rank than 0' <<< "$output"
    says MPI_Allreduce '; 20 [^;]* off$'
}

@test "words that are wrong leave all to MPI, and the trace says so" {
    PARO_MPI_MODE=sometimes traced again
    grep -q '^paro-mpi: off: PARO_MPI_MODE: .*measure, always or never' <<< "$output"
    PARO_MPI_MIN_BYTES=some traced again
    grep -q "^paro-mpi: off: PARO_MPI_MIN_BYTES: 'some', expected" <<< "$output"
    PARO_MPI_MEMORY=-1 traced again
    grep -q "^paro-mpi: off: PARO_MPI_MEMORY: '-1', expected" <<< "$output"
}

@test "settings are rank 0's on all ranks" {
    PARO_TOPO=synth:2x2 PARO_MPI_TRACE=1 PARO_MPI_MODE=always run timeout 60 mpirun -np 4 bash -c '
        [ "${PMI_RANK-$OMPI_COMM_WORLD_RANK}" = 0 ] || export PARO_MPI_MODE=never PARO_MPI_MIN_BYTES=1Gi PARO_TOPO=absent
        LD_PRELOAD=$LIB exec ./ways again'
    echo "$output"
    [ "$status" = 0 ] && says MPI_Allreduce ': 20 calls, 20 ours'
}

@test "silent unless asked, and what is asked for goes behind what a file has" {
    PARO_TOPO=synth:2x2 preloaded 4 ./ways again
    [ "$status" = 0 ]
    [ "$output" = ok ]
    rm -f trace.txt
    for _ in 1 2; do
        PARO_TOPO=synth:2x2 PARO_MPI_TRACE=trace.txt preloaded 4 ./ways again
        [ "$output" = ok ]
    done
    [ "$(grep -c '^paro-mpi: mode measure, from 32.0 KiB, groups by synth:2x2$' trace.txt)" = 2 ]
}

@test "the ends of a program: no collective, no MPI_Finalize, a rank that is killed" {
    PARO_TOPO=synth:2x2 PARO_MPI_MODE=always preloaded 4 ./ways quiet
    [ "$status" = 0 ]
    [ "$output" = ok ]
    run timeout 60 mpirun -np 4 ./ways leave
    local alone=$status
    PARO_TOPO=synth:2x2 PARO_MPI_MODE=always preloaded 4 ./ways leave
    [ "$status" = "$alone" ]
    PARO_TOPO=synth:2x2 PARO_MPI_MODE=always preloaded 4 ./ways killed
    [ "$status" = 137 ]
}

@test "error handlers speak as they do, and what hangs on a communicator is not copied" {
    timeout 60 mpirun -np 4 ./ways gone
    PARO_MPI_MODE=always traced gone
    says MPI_Allgather ': 1 calls, 1 ours'
    says MPI_Bcast '; 1 arguments [^;]*$'
}

@test "programs without MPI, and mpirun itself, do not notice" {
    [ "$(PARO_MPI_TRACE=1 LD_PRELOAD=$LIB cat < <(echo text) 2>&1)" = text ]
    LD_PRELOAD=$LIB PARO_TOPO=synth:2x2 PARO_MPI_TRACE=1 PARO_MPI_MODE=always \
        run timeout 60 mpirun -np 4 ./ways again
    echo "$output"
    [ "$status" = 0 ] && says MPI_Allreduce ': 20 calls, 20 ours'
}

@test "Fortran passes through" {
    command -v mpifort > /dev/null && command -v gfortran > /dev/null || skip "no Fortran here"
    cat > sums.f90 <<'F'
program sums
  use mpi
  integer :: e
  real(8) :: a(8192), b(8192)
  call mpi_init(e)
  a = 1
  call mpi_allreduce(a, b, 8192, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
  if (any(b /= 4)) stop 1
  call mpi_finalize(e)
end program
F
    mpifort -o sums sums.f90
    PARO_TOPO=synth:2x2 PARO_MPI_MODE=always PARO_MPI_TRACE=1 preloaded 4 ./sums
    [ "$status" = 0 ] && [ -z "$output" ]
}

@test "another MPI has all calls, and that is said once" {
    command -v mpicc.mpich > /dev/null || skip "no MPICH here"
    mpicc.mpich -o foreign "$ROOT/tests/preload/mpi_ways.c"
    PARO_TOPO=synth:2x2 PARO_MPI_MODE=always PARO_MPI_TRACE=1 \
        run timeout 60 mpiexec.mpich -n 4 env LD_PRELOAD="$LIB" ./foreign again
    echo "$output"
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 2 ]
    grep -xE "paro-mpi: found MPI 'MPICH Version:[^']+', expected Open MPI v[0-9]+\.: all calls are passed to it" <<< "$output"
}

@test "nothing is exported but what is intercepted" {
    run bash -c "nm -D --defined-only '$B/libparo-mpi.so' | awk '\$2 == \"T\" {print \$3}' | paste -sd' '"
    [ "$output" = "MPI_Allgather MPI_Allgatherv MPI_Allreduce MPI_Alltoall MPI_Barrier MPI_Bcast MPI_Init MPI_Init_thread MPI_Reduce MPI_Reduce_scatter MPI_Reduce_scatter_block" ]
}
