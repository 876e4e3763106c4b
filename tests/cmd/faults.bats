# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train where the machine misbehaves: a clock that jumps, a unit that memory does not hold.
# A port that is cut is in tests/lab/cut.bats; a full disk and a rank that dies in train.bats.

load refuses

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x1 --seq 32 --strategy IGG > two.yaml
}

# The wall clock, whoever asks and how, is hours ahead or behind, another way every time.
jumping_clock() {
    cat > jump.c <<'END'
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_int asked;

static int now(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t), n;
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        n = atomic_fetch_add(&asked, 1);
        t->tv_sec += (n % 2 ? 3600 : -3600) * (1 + n % 7);
    }
    return rc;
}

int clock_gettime(clockid_t id, struct timespec *t) { return now(id, t); }

int gettimeofday(struct timeval *restrict v, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    now(CLOCK_REALTIME, &t);
    v->tv_sec = t.tv_sec;
    v->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t;
    now(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

__attribute__((destructor)) static void tell(void)
{
    FILE *f = getenv("JUMPS") ? fopen(getenv("JUMPS"), "a") : NULL;
    if (f && fprintf(f, "%d\n", atomic_load(&asked)) > 0)
        fclose(f);
}
END
    gcc -O1 -shared -fPIC -o jump.so jump.c
}

@test "a clock that jumps by hours: the run and its times are as ever" {
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    jumping_clock
    [ $(($(LD_PRELOAD=$PWD/jump.so date +%s) - $(date +%s))) -lt -3000 ] # it does jump
    SECONDS=0
    timeout 100 mpirun -np 2 env LD_PRELOAD="$PWD/jump.so" JUMPS="$PWD/jumps" \
        paro-train "$G/two.yaml" -d "$G/text" -o a --steps 20 --deadline 30 > out 2> said
    local wall=$SECONDS
    run -1 grep '^paro' <(warnings said) # libraries below MPI find the clock odd, and say so
    # Somebody did ask: MPI does, if nobody else.
    [ "$(awk '{ n += $1 } END { print (n > 0) }' jumps)" = 1 ]
    # No step takes longer than all of them, none less than no time.
    perl -MJSON::PP -ne '
        BEGIN { our $most = shift }
        my $d = decode_json($_);
        for (qw(step_s compute_s exposed_comm_s idle_s)) {
            die "$_ is $d->{$_} in $." if $d->{$_} < 0 || $d->{$_} > $most;
        }
        die "parts of step_s" if abs($d->{compute_s} + $d->{exposed_comm_s} + $d->{idle_s} - $d->{step_s}) > 1e-9;
        die "tokens_per_s" if abs($d->{tokens_per_s} * $d->{step_s} - $d->{tokens}) > 1e-6 * $d->{tokens};
        END { die "$. lines" if $. != 20 }' $((wall + 1)) a/log.jsonl
    timeout 100 mpirun -np 2 paro-train "$G/two.yaml" -d "$G/text" -o b --steps 20 > out
    paro-shard diff a/latest b/latest
}

@test "a unit that memory does not hold: one line that says how much was asked" {
    # An embedding of 34e9 parameters: 69 GB a gathered unit, on either rank.
    sed 's/"vocab_size": 256/"vocab_size": 16777216/; s/"hidden_size": 128/"hidden_size": 2048/' "$MODELS/llama-tiny.json" > wide.json
    paro-plan -m wide.json -i synth:2x1 --seq 32 --strategy GGG > wide.yaml
    local have
    have=$(awk '$1 == "MemTotal:" { print int($2 / 1048576) }' /proc/meminfo)
    [ "$have" -lt 150 ] || skip "a machine that could hold it"
    refuses 2 'rank bytes' ranks 2 paro-train wide.yaml -d "$G/text" --tokenizer bytes -o new
    [[ $refusal =~ 'rank '[01]' ('.*\ [0-9]{11,}' bytes ' ]] && [ ! -e new ]
}

@test "buffers alone that memory does not hold: shared memory of one rank" {
    [ -z "$SAN" ] || skip "sanitizers reserve the address space"
    cat > limited <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v 600000
exec "$@"
END
    chmod +x limited
    # Places for 65 gathered units of 2.4 MB; the states are 60 MB.
    paro-plan -m "$MODELS/llama-10m.json" -i synth:2x1 --seq 32 --strategy GGG --prefetch 64 \
        --accum 8 > ahead.yaml
    refuses 2 'rank 1 ( bytes shared memory Cannot allocate' \
        ranks 2 ./limited paro-train ahead.yaml -d "$G/text" -o new
    [[ $refusal =~ \ [0-9]{9}\ bytes ]]
    [ ! -e new ]
    sed 's/^prefetch: 64/prefetch: 1/' ahead.yaml > near.yaml
    timeout 100 mpirun -np 2 ./limited paro-train near.yaml -d "$G/text" -o near --steps 1 > out
}
