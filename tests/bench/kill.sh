#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a run survives: `make bench-kill`.
#
# A run of SHAPE ranks with --exact and a checkpoint every EVERY steps is ended at a random moment,
# from its start to its last step, and gone on with by --resume=auto:
#
#   kill -9    of a random rank, KILLS times
#   SIGTERM    to mpirun, and SIGUSR1, TERMS times each
#   full disk  within a random checkpoint, FULLS times: a tmpfs, or without one RLIMIT_FSIZE
#
# Each time: all its processes are gone within 10 s; `latest` names a whole checkpoint, at most two
# of EVERY steps behind the log (one may be on its way while the next one is due); the resume begins
# with the step behind it and ends well; and steps, losses and hashes of all states in the log are
# those of the run that nobody touched, to the last bit.  One line says so of each kind; the status
# is 1 where one did not hold, and what was left of it stays in OUT/kill.
# shellcheck disable=SC2016,SC2086
. "$(dirname "$0")/begin.sh"
settings KILLS=50 TERMS=5 FULLS=5 STEPS=30 EVERY=2 SHAPE=2x2 STRATEGY=IGG \
    MODEL=examples/models/llama-tiny.json SEED=1
. examples/mpirun-env

. tests/bench/moments.sh

lines() { if [ -e "$1" ]; then grep -c '}$' "$1"; else echo 0; fi; }

# A zombie is gone: who should reap it is not our business.
has_ended() { ! grep -s '^State:' "/proc/$1/status" | grep -qv 'Z (zombie)'; }

train() { mpirun -np "$ranks" paro-train plan.yaml -d text -o "$1" --steps "$STEPS" --exact \
    --save-every "$EVERY" --resume=auto; }

bad() {
    wrong=$((wrong + 1))
    echo "kill.sh: $kind $time: $*; see $OUT/kill/bad-$wrong" >&2
    rm -rf "bad-$wrong"
    mkdir "bad-$wrong" && cp -a run out said resume.out resume.said "bad-$wrong/" 2> /dev/null
}

# Waits at most 10 s for the processes $pids; how long the slowest took is in $gone_ms.
await_gone() {
    t0=$(now_ms)
    for p in $pids; do
        until has_ended "$p"; do
            [ $(($(now_ms) - t0)) -lt 10000 ] || { bad "process $p is still there after 10 s"; return 1; }
            sleep 0.02
        done
    done
    t1=$(($(now_ms) - t0))
    [ "$t1" -le "$gone_ms" ] || gone_ms=$t1
}

# What run/ is good for, after its end by $kind.
judge() {
    logged=$(lines run/log.jsonl) last=0
    if [ -e run/latest ]; then
        last=$(readlink run/latest | sed 's/^step-0*//')
        paro-shard verify run/latest > verify.out 2>&1 || { bad "the last checkpoint is not whole"; return; }
    fi
    lost=$((logged - last))
    [ $lost -le $most_lost ] || most_lost=$lost
    all_lost=$((all_lost + (lost > 0 ? lost : 0)))
    [ $lost -le $((2 * EVERY)) ] || { bad "$lost steps lost"; return; }
    train run > resume.out 2> resume.said || { bad "no resume"; return; }
    first=$(awk '$1 ~ /^[0-9]+$/ { print $1; exit }' resume.out)
    [ "${first:-$((STEPS + 1))}" = $((last + 1)) ] || { bad "gone on with step $first, not $((last + 1))"; return; }
    bits run/log.jsonl > have
    cmp -s want have || { bad "another trajectory"; return; }
    # What a killed one leaves does not stay.
    litter=$(find run -name '*.paro-tmp')
    [ -z "$litter" ] || { bad "litter: $litter"; return; }
    good=$((good + 1))
}

# Until a drawn step is in the log, and a part of a step more; the 0th is the start.
start_and_wait() {
    rm -rf run
    draw "$STEPS"
    step=$drawn
    train run > out 2> said &
    job=$!
    until [ "$(lines run/log.jsonl)" -ge "$step" ] || has_ended $job; do sleep 0.01; done
    draw $((step == 0 ? 1000 : whole_ms / STEPS))
    sleep "$(awk -v ms="$drawn" 'BEGIN { print ms / 1000 }')"
    # mpirun (Open MPI 5: prterun) is the job's child, or the job itself; the ranks are its children.
    mpirun_pid=$(pgrep -P $job -x 'mpirun|prterun' || echo $job)
    ranks_pids=$(pgrep -P "$mpirun_pid" -x paro-train)
    pids="$mpirun_pid $ranks_pids"
}

count_status() { statuses="$statuses $1"; }

begin_kind() {
    kind=$1 times=$2 good=0 gone_ms=0 most_lost=0 all_lost=0 statuses=''
}

end_kind() {
    [ "$times" -gt 0 ] || return
    gone=- # of a full disk mpirun's own end was waited for
    [ -z "$pids" ] || gone=$(awk -v ms=$gone_ms 'BEGIN { printf "%.2f", ms / 1000 }')
    printf '%-22s %5d %7d %10s %10d %12s   %s\n' "$kind" "$times" "$good" "$gone" "$most_lost" \
        "$(awk -v a="$all_lost" -v n="$times" 'BEGIN { printf "%.1f", a / n }')" \
        "$(printf '%s\n' $statuses | sort -n | uniq -c | awk '{ printf "%s%s: %d", sep, $2, $1; sep = ", " }')"
}

by_kill() {
    begin_kind 'kill -9 of a rank' "$KILLS"
    for time in $(seq "$times"); do
        start_and_wait
        set -- $ranks_pids
        if [ $# -gt 0 ]; then
            draw $#
            eval "kill -9 \${$((drawn + 1))}" 2> /dev/null
        else # not there yet, or not any more
            kill -9 "$mpirun_pid" 2> /dev/null
        fi
        wait $job
        count_status $?
        await_gone && judge
    done
    end_kind
}

by_signal() {
    begin_kind "SIG$1 to mpirun" "$TERMS"
    for time in $(seq "$times"); do
        start_and_wait
        kill -"$1" "$mpirun_pid" 2> /dev/null
        wait $job
        count_status $?
        await_gone && judge
    done
    end_kind
}

# fill KIB: a run on a disk of that size, or with files no larger.
fill() {
    if [ "$mounts" = yes ]; then
        unshare $user -m sh -c 'mount -t tmpfs -o size=$1k none full && cd full && cp ../plan.yaml ../text . || exit 77
            mpirun -np $2 paro-train plan.yaml -d text -o run --steps $3 --exact --save-every $4 --keep 99
            rc=$?; cd .. && cp -a full/run . ; exit $rc' - "$@" "$ranks" "$STEPS" "$EVERY"
    else
        (ulimit -f "$(($1 * 2))" && train run)
    fi
}

by_full_disk() {
    begin_kind "full disk" "$FULLS"
    mkdir -p full
    most=$((STEPS / EVERY - 1)) # so that all do not fit
    [ $most -le 4 ] || most=4
    size_kib=$(du -sk "whole/$(readlink whole/latest)" | cut -f1)
    for time in $(seq "$times"); do
        rm -rf run
        if [ "$mounts" = yes ]; then
            draw $((most * size_kib)) # within one of the first five
            kib=$((drawn + size_kib / 2 + 200))
        else
            kind='file too large'
            draw $((size_kib / 8)) # a shard is a fourth of it
            kib=$((drawn + size_kib / 16))
        fi
        pids=''
        fill $kib > out 2> said
        rc=$?
        count_status $rc
        [ $rc = 2 ] || { bad "status $rc, expected 2"; continue; }
        [ "$(grep -c '^paro' said)" = 1 ] || { bad "not one line"; continue; }
        judge
    done
    end_kind
}

MODEL=$(realpath "$MODEL") || die "no model"
mkdir -p "$OUT" || exit 2
OUT=$(realpath "$OUT")
rm -rf "$OUT/kill"
mkdir -p "$OUT/kill" && cd "$OUT/kill" || exit 2
seq 1 20000 > text
paro-plan -m "$MODEL" -i "synth:$SHAPE,memory=1e9,flops=1e9" --seq 32 --strategy "$STRATEGY" > plan.yaml || exit 2
ranks=$(sed -n 's/^    ranks: *\[\(.*\)\].*/\1/p' plan.yaml | tr ',' '\n' | grep -c .)
[ "$ranks" -gt 0 ] || die "no ranks in the plan"
user=''
[ "$(id -u)" = 0 ] || user=-Ur
mounts=no
mkdir full
! unshare $user -m sh -c 'mount -t tmpfs none full' 2> why || mounts=yes

wrong=0
begin_ms=$(now_ms)
train whole > whole.out 2>&1 || die "the run that nobody touches does not end well: $(tail -n 1 whole.out)"
whole_ms=$(($(now_ms) - begin_ms))
bits whole/log.jsonl > want
[ "$(grep -c hash want)" = "$STEPS" ] || die "no hashes"

echo "$SHAPE, $STRATEGY, $STEPS steps, a checkpoint every $EVERY; untouched $whole_ms ms; seed $SEED"
echo 'ended by               times    good  gone in s  most lost  lost (mean)   statuses'
by_kill
by_signal TERM
by_signal USR1
by_full_disk
[ $wrong = 0 ] || { echo "kill.sh: $wrong did not hold" >&2; exit 1; }
rm -rf run whole full
