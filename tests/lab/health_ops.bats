# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# horing-check between hosts, run after run: what is remembered, who is told, who does not measure
# because somebody else works.  What is healthy may look unsteady on a busy machine, hence `again`.
# shellcheck disable=SC2016,SC2034,SC2053
bats_require_minimum_version 1.5.0
load lab
load health_says
LAB=(-g 3 -p 1 -r 500mbit) CHECK=("$BIN/horing-check" -t 20)

slow_then_mended() {
    rm -rf state
    says 2 '^NEW CRITICAL HC-301 node2 ' --slow 2:250mbit -- --state "$PWD/state" --notify=change || return
    # Again the same: the status alone says so.
    says 2 '' --slow 2:250mbit -- --state "$PWD/state" --notify=change && [ ! -s out ] || return
    # Mended, and within the ten minutes: still said, for who looks without --notify.
    says 2 'node2 .*\(until [0-9:]+Z, not seen now; reported until ' -- --state "$PWD/state"
}

@test "a slow port is told once, and kept for a while after it was mended" {
    again slow_then_mended
    [ "$(stat -c %a state)" = 700 ]
    head -n 1 state/rounds | grep -q '^{"format":"paro-health-state/2",'
    [ "$(grep -c '^{"rate":"node' state/rounds)" = 6 ]
}

@test "two at once: the second says so, and does not measure" {
    mkdir -m 700 state
    mkfifo ready hold
    flock state/rounds.lock sh -c 'echo > ready; cat hold' 3>&- &
    read -r < ready
    says 3 "^HORING UNKNOWN - another check is running, it holds '.*/state/rounds.lock'$" -- --state "$PWD/state"
    echo > hold
    wait
}

@test "beside a job, and above a load, nobody measures, unless forced" {
    mkdir -p sys/fs/cgroup/system.slice/slurmstepd.scope/job_77/step_0
    says 3 '^HORING UNKNOWN - node0 is busy: job 77 runs there \(--force measures all the same\)$' -- --sys "$PWD/sys"
    # Our own is none.
    SLURM_JOB_ID=77 again says 0 '^HORING OK' -- --sys "$PWD/sys" -w 50: -c 25:
    again says 0 '^HORING OK' -- --sys "$PWD/sys" --force -w 50: -c 25:
    rm -r sys
    mkdir -p sys/fs/cgroup/freezer/slurm/uid_1000/job_5 proc
    says 3 '^HORING UNKNOWN - node0 is busy: job 5 runs there' -- --sys "$PWD/sys"
    echo '999.5 1 1 1/1 1' > proc/loadavg
    says 3 '^HORING UNKNOWN - node0 is busy: load 1e\+03 on [0-9]+ cores, at most 0.5 each' -- \
        --proc "$PWD/proc" --max-load 0.5
    again says 0 '^HORING OK' -- --proc "$PWD/proc" -w 50: -c 25:
}

learn_and_accept() {
    rm -f base.yaml
    says 0 '' -- --learn -b "$PWD/base.yaml" && [ ! -s out ] || return
    # All ports at half: against the baseline bad, until it is accepted.
    says 2 'of baseline' --slow 0:250mbit --slow 1:250mbit --slow 2:250mbit -- -b "$PWD/base.yaml" || return
    cp base.yaml was.yaml
    says 0 '^HORING OK' --slow 0:250mbit --slow 1:250mbit --slow 2:250mbit -- \
        -b "$PWD/base.yaml" --accept-baseline || return
    ! cmp -s base.yaml was.yaml || return
    says 0 '^HORING OK' --slow 0:250mbit --slow 1:250mbit --slow 2:250mbit -- -b "$PWD/base.yaml" -w 80:
}

# A header of 66 bytes stands before 1448 at least.  The rounds take 92.3 MB if everything is looked
# at; a slow port, and a slow pair, are measured again by other partners.
@test "no port carries more than --max-bytes, also where something is measured again" {
    cat >counted <<'END'
before=$(awk '/data:/ { print $2, $10 }' /proc/self/net/dev)
"$@"
echo $? $before $(awk '/data:/ { print $2, $10 }' /proc/self/net/dev) >>"$OUT/bytes"
END
    for slow in 2:60mbit 1-2:60mbit; do
        OUT=$PWD timeout 100 paro-lab -g 4 -p 1 -r 125mbit --slow $slow -- sh "$PWD/counted" \
            "$BIN/horing-check" -t 60 --max-bytes 95MB >out 2>said || true
        cat out said
        grep -qE '^HORING (CRITICAL|UNKNOWN)' out
    done
    [ "$(wc -l <bytes)" = 8 ]
    awk '{ for (i = 2; i < 4; i++) { n = $(i + 2) - $i
        if (n < 40e6 || n > 95e6 * (1448 + 66) / 1448) exit 1 } }' bytes
    timeout 100 paro-lab -g 4 -p 1 -r 125mbit -- "$BIN/horing-check" --max-bytes 20MB >out 2>said || true
    grep -q '^HORING UNKNOWN - a port may carry 20000000 bytes, expected ' out
}

@test "a level shift is bad until somebody accepts it" {
    again learn_and_accept
}

@test "a record concludes to the same bytes, in every form" {
    again says 2 '^HORING CRITICAL - node2 ' --slow 2:250mbit -- --record "$PWD/run.jsonl" -v \
        --svg="$PWD/a.svg" --prom "$PWD/a.prom"
    mv out line
    run -2 horing-check --replay run.jsonl -v --svg=b.svg --prom b.prom
    cmp line <(printf '%s\n' "$output")
    cmp a.svg b.svg
    cmp a.prom b.prom
    grep -q 'node2' a.svg
    ! command -v xmllint || xmllint --noout a.svg
    run -2 --separate-stderr horing-check --replay run.jsonl --json
    echo "$output" | perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>);
        exit !(@{$d->{pairs}} == 6 && @{$d->{ports}} == 6 && $d->{findings}[0]{evidence}{confirmed})'
    run -3 horing-check --replay <(head -c 300 run.jsonl)
    [ "${#lines[@]}" = 1 ]
}

# hit SIGNAL RANK STATUS PATTERN [--]: the rank gets the signal while it measures.
hit() {
    local rc=0
    if [ $# = 5 ]; then
        SIGNAL=$1 RANK=$2 timeout 60 horing-check -t 2 -- paro-lab -g 3 -p 1 -r 200mbit -- ./victim >out 2>said || rc=$?
    else
        SIGNAL=$1 RANK=$2 timeout 60 paro-lab -g 3 -p 1 -r 200mbit -- ./victim "$BIN/horing-check" -t 2 >out 2>said || rc=$?
    fi
    if [[ $rc = $3 ]] && [ "$(wc -l <out)" = 1 ] && grep -qE "^HORING $4" out; then return; fi
    echo "$1 to rank $2: status $rc, expected $3 and one line of $4:"
    cat out said
    return 1
}

@test "a rank that is stopped or killed: one line all the same" {
    printf '#!/bin/sh\nme=$$\n[ "$OMPI_COMM_WORLD_RANK" != "$RANK" ] ||
        (exec >/dev/null 2>&1 </dev/null; sleep 0.8; kill -"$SIGNAL" $me) &\nexec "$@"\n' > victim
    chmod 755 victim
    # It could speak when it is woken to be ended, which it is not always in time for.
    hit STOP 0 3 'UNKNOWN - no answer within 2 s, while '
    # Here the launcher ends all at once, and may no longer pass on what comes then.
    again hit KILL 0 137 'UNKNOWN - ended before there was an answer, while '
    # Whoever asks from outside has an answer for certain.  Of another rank its peers may see that
    # it is gone before the launcher does, or the machine is slow and it was still starting.
    local signal
    for signal in STOP KILL TERM; do
        hit $signal 0 3 'UNKNOWN - ' --
        hit $signal 2 '[23]' '(UNKNOWN - |CRITICAL - node2 does not answer)' --
    done
}
