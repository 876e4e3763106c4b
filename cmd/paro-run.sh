#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# paro-run: trains on the healthy hosts of a fabric, and continues without those that fail.
#
#     check all hosts -> plan for those that are healthy -> paro-launch paro-train --resume=auto
#         ^                                                                     |
#         +----------- it failed, or hosts have returned (--grow) --------------+
#
# It keeps nothing of its own: hosts are in the fabric, what was trained is in the run folder, so that
# paro-run itself may be killed and started again.
set -uf

CHECK_S=10     # for one host to say how it is
LINK_S=2       # for two hosts to reach each other: a lost first packet is sent again after 1 s
TOGETHER=32    # hosts that are asked at the same time
LINKS=8        # links at the same time: sshd of their common host drops logins above 10
STALL_S=120    # without a step: see --stall
START_TIMES=10 # as much longer a start may take, as in paro-train's --deadline
END_S=5        # for mpirun to end, before it is killed
FAILS_MAX=3    # at one step

# --help leaves out the second paragraph of options, --help=all has it.
usage() { # '' | all
    skip='/^  *--least/,/--log/d'
    [ "$1" != all ] || skip='/lists every option/d'
    sed "$skip" 2>/dev/null <<'TEXT' || die "cannot write to standard output"
Usage: paro-run [OPTION...] -i FABRIC -m MODEL -o DIR -- TRAIN-OPTION...
Train on the healthy hosts of a fabric.  If a rank or a host fails, plan again
for the hosts that remain and resume from the last checkpoint.

  -i, --input=FABRIC         Hosts, ranks and ports, as paro-topo measured them
  -m, --model=MODEL          Train MODEL: a config.json, or a folder with one
  -o, --output=DIR           Use DIR as the run folder
      --plan=OPTIONS         Pass OPTIONS to paro-plan, such as '--seq 1024'
      --use=N                Train on N hosts; the others are spares (default:
                             all)
      --grow=SECONDS         Look every SECONDS for hosts that have returned;
                             take them at a checkpoint (default: at a restart)
  -h, -?, --help[=all]       Print the everyday options, or all of them
  -V, --version              Print the version
      --least=N              Stop if fewer than N hosts are healthy (default: 1)
      --restarts=N           Stop after N restarts (default: 100)
      --stall=SECONDS        Restart if no step ends for SECONDS, of the first
                             step for ten times as long (default: 120)
      --log=FILE             Append the messages to FILE, too

TRAIN-OPTIONs are those of paro-train, such as -d DATA.  The exit status is 0
if all steps are done, 1 if no plan fits, 2 if the run cannot continue, and 3
if it was stopped and the same command continues it.
paro-run --help=all lists every option; man paro-run explains them.
TEXT
}

@OPTIONS@

# ---- Arguments ----------------------------------------------------------------------------

fabric='' model='' run='' plan='' use='' grow='' least=1 restarts=100 stall=$STALL_S log=''

set_option() { # NAME VALUE
    case $1 in
    -i | --input) fabric=$2 ;;
    -m | --model) model=$2 ;;
    -o | --output) run=$2 ;;
    --plan)
        case " $2" in
        *' --ac'*) die "--plan has --accum, expected --global-batch: what a rank accumulates changes" ;;
        esac
        plan=$2
        ;;
    --log) log=$2 ;;
    *)
        check_count "$1" "$2"
        eval "${1#--}=\$2"
        ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --) shift && break ;;
    -[imo] | --input | --model | --output | --plan | --use | --grow | --least | --restarts | --stall | --log)
        [ $# -ge 2 ] || die "$1 lacks its value (see --help)"
        set_option "$1" "$2"
        shift
        ;;
    --input=* | --model=* | --output=* | --plan=* | --use=* | --grow=* | --least=* | --restarts=* | \
        --stall=* | --log=*) set_option "${1%%=*}" "${1#*=}" ;;
    -[imo]*) set_option "${1%"${1#??}"}" "${1#??}" ;;
    -*) answer "$1" ;;
    *) die "unexpected '$1', expected -- before the options of paro-train" ;;
    esac
    shift
done
[ -n "$fabric" ] || die "--input is missing, expected a fabric that paro-topo measured"
[ -n "$model" ] || die "--model is missing, expected a config.json, or a folder with one"
[ -n "$run" ] || die "--output is missing, expected the run folder"
for word in "$@"; do
    case $word in
    -o* | --o* | --r* | --fo* | --log | --log=*) die "$word after --, expected it to be left to paro-run" ;;
    esac
done

# ---- What others may have written ---------------------------------------------------------

# Nothing of a run folder is read before its owner is known: who owns it, or the link to it, can put
# anything in it at any time.
check_run() {
    [ -e "$run" ] || [ -L "$run" ] || return 0
    [ -d "$run" ] || die "'$run' is not a folder, expected that of a run, or a new name"
    check_owner "$run" "$run"
    check_owner "$run" "$run/."
    check_file "$run" "$run/plan.yaml"
    check_file "$run" "$run/log.jsonl"
    [ ! -L "$run/latest" ] || check_owner "$run" "$run/latest"
}

# TEXT where it is a number without leading zeros, else 0.
number() { # TEXT
    case $1 in
    '' | 0* | *[!0-9]* | ????????????????*) echo 0 ;;
    *) echo "$1" ;;
    esac
}

# Appends standard input to the log, which no link leads elsewhere and no pipe holds up.
append() { dd "of=$log" oflag=append,nofollow,nonblock conv=notrunc status=none 2>/dev/null; }

check_log() {
    check_file "$(dirname -- "$log")" "$log"
    append </dev/null || die "cannot write to '$log'"
    [ "$(stat -c %h -- "$log")" = 1 ] || die "'$log' has $(stat -c %h -- "$log") names, expected one"
}

[ -z "$log" ] || check_log
check_run
work=$(mktemp -d) || die "cannot make a temporary folder"
trap 'rm -rf "$work"' EXIT

# Without space for what hosts answer, no host is to blame.
full() { die "cannot write to '$work': $(df -P "$work" | awk 'END { print $4 }') KiB are free, expected space in TMPDIR"; }

# What happened, in one line.
say() {
    line="$(date '+%F %T') $(one_line "$*")"
    printf 'paro-run: %s\n' "$line" >&2
    [ -z "$log" ] || printf '%s\n' "$line" | append ||
        printf "paro-run: cannot write to '%s'\n" "$log" >&2
}

# ---- Hosts --------------------------------------------------------------------------------

# all = lines "HOST slots=N", in the fabric's order.
read_hosts() {
    paro-topo -i "$fabric" --format hostfile >"$work/all" || exit 2
    ! grep -q '^#' "$work/all" ||
        die "the ranks of '$fabric' do not fill its hosts in order, expected a fabric measured so"
    bad=$(grep -vxE '[A-Za-z0-9][A-Za-z0-9._@-]* slots=[0-9]+' "$work/all" | head -n 1)
    [ -z "$bad" ] || die "'$fabric' has '$bad', expected the name of a host and its ranks"
}

# One line of horing-check, or why there is none.  Status 2: the temporary folder is full.
ask_host() { # HOST
    echo "$1 slots=1" >"$work/one.$1" 2>/dev/null || return 2
    timeout -k 2 $CHECK_S paro-launch --hostfile "$work/one.$1" -- horing-check --level quick \
        </dev/null >"$work/answer.$1" 2>&1
    awk -v status=$? -v limit=$CHECK_S '
        /^HORING / { line = $0; exit }
        why == "" && /[A-Za-z]/ && !/^paro-launch: found / { why = substr($0, 1, 200) }
        END {
            if (why == "") why = status == 124 ? "nothing within " limit " s" : "status " status
            print line == "" ? "it does not answer: " why : line
        }' "$work/answer.$1" >"$work/said.$1" 2>/dev/null || return 2
    [ -s "$work/said.$1" ] || return 2
}

# FUNCTION HOST for each host of FILE, so many at the same time.
for_hosts() { # FILE FUNCTION COUNT
    asked=0 checks=''
    while read -r host slots; do
        "$2" "$host" &
        checks="$checks $!"
        asked=$((asked + 1))
        [ $((asked % $3)) != 0 ] || await_checks
    done <"$1"
    await_checks
}

# A message between two hosts, as MPI sends it: a port that is cut may seem well on its own host.
ask_link() { # HOST
    [ "$1" != "$first" ] || { : >"$work/reached.$1" && return; }
    printf '%s slots=1\n' "$first" "$1" >"$work/one.$1" 2>/dev/null || return 2
    rm -f "$work/reached.$1"
    timeout -k 2 $CHECK_S paro-launch --hostfile "$work/one.$1" -- paro-bench -i synth:2x1 --op broadcast \
        --algo mpi -b 1K -n 1 --deadline $LINK_S </dev/null >"$work/link.$1" 2>&1 || return 1
    : >"$work/reached.$1"
}

# Of the healthy hosts, those that the first one which reaches half of them reaches.
check_links() {
    cp "$work/healthy" "$work/all_healthy"
    : >"$work/links"
    for first in $(cut -d ' ' -f 1 "$work/healthy" | paste -s -d ' '); do
        for_hosts "$work/all_healthy" ask_link $LINKS
        lost=''
        while read -r host slots; do
            [ -e "$work/reached.$host" ] || { lost=yes && echo "$host is left out: $first does not reach it" >&3; }
            [ ! -e "$work/reached.$host" ] || echo "$host $slots" || full
        done <"$work/all_healthy" >"$work/healthy" 3>"$work/links"
        [ $((2 * $(count "$work/healthy"))) -lt "$(count "$work/all_healthy")" ] || break
    done
    cat "$work/links" >>"$work/out"
}

# healthy = the lines of `all` whose hosts answer and are not CRITICAL.  Of the others a line each, unless
# it has been said before; asked are those of FILE.  After ranks have lost each other, and while that
# lasts, links are asked, too.
check_hosts() { # FILE
    for_hosts "$1" ask_host $TOGETHER
    while read -r host slots; do
        read -r said <"$work/said.$host" || said='it does not answer'
        case $said in
        'HORING CRITICAL'* | 'it does'*) echo "$host is left out: ${said%%|*}" ;;
        *) echo "$host $slots" >&3 || full ;;
        esac
    done <"$work/all" >"$work/out" 3>"$work/healthy"
    [ -z "$lost" ] || check_links
    grep -vxFf "$work/out.before" "$work/out" | while read -r line; do say "$line"; done
    cp "$work/out" "$work/out.before"
}

await_checks() {
    for check in $checks; do
        wait "$check"
        [ $? != 2 ] || full
    done
    checks=''
}

count() { grep -c . "$1"; }

# ---- Plan ---------------------------------------------------------------------------------

# The global batch stays what it was at the start of the run, whatever hosts remain.
global_batch() {
    case " $plan" in *' --gl'*) return ;; esac
    is_file "$run/plan.yaml" || return
    batch=$(number "$(read_file "$run/plan.yaml" 65536 | sed -n 's/^global_batch: \([0-9]*\)$/\1/p' | head -n 1)")
    [ "$batch" = 0 ] || echo "--global-batch=$batch"
}

make_plan() {
    check_run
    head -n "${use:-$(count "$work/healthy")}" "$work/healthy" >"$work/used" || full
    [ "$(count "$work/used")" -ge "$least" ] || {
        say "$(count "$work/used") of $(count "$work/all") hosts are healthy, expected at least $least"
        exit 2
    }
    paro-topo -i "$fabric" --only "$(cut -d ' ' -f 1 "$work/used" | paste -s -d ,)" >"$work/fabric" || exit 2
    # shellcheck disable=SC2046,SC2086 # options are words
    paro-plan -m "$model" -i "$work/fabric" $plan $(global_batch) >"$work/plan.yaml" 2>"$work/note" || {
        status=$?
        cat "$work/note" >&2
        [ -z "$log" ] || append <"$work/note"
        exit $status
    }
}

# ---- The run ------------------------------------------------------------------------------

pid='' stopping='' resumed=''

# The last step in the log; 0: none.
last_step() {
    bytes=$(stat -c %s -- "$run/log.jsonl" 2>/dev/null)
    number "$(read_file "$run/log.jsonl" 65536 $((bytes > 65536 ? bytes - 65536 : 0)) |
        sed -n 's/.*"step":\([0-9]*\).*/\1/p' | tail -n 1)"
}

# The step of the newest checkpoint.
saved_step() {
    number "$(readlink -- "$run/latest" | sed 's/^step-0*//')"
}

launch() { # TRAIN-OPTION...
    : >"$work/lines"
    rm -f "$work/pipe"
    mkfifo "$work/pipe" || exit 2
    (trap '' HUP INT TERM && exec tee "$work/lines" <"$work/pipe" >&2) &
    teller=$!
    # A session of its own: what the keyboard sends comes here alone.  Should this process be killed,
    # mpirun is asked to end, too.
    setsid setpriv --pdeathsig TERM paro-launch --hostfile "$work/used" -- \
        paro-train "$work/plan.yaml" -o "$run" --resume=auto "$@" 2>"$work/pipe" &
    pid=$! resumed=''
}

# Whether a process ends in time.
has_ended() { # PID SECONDS
    last=$(($(date +%s) + $2))
    while kill -0 "$1" 2>/dev/null; do
        [ "$(date +%s)" -lt "$last" ] || return
        sleep 0.1
    done
}

end_launch() {
    kill -TERM "$pid" 2>/dev/null
    has_ended "$pid" $END_S
    kill -KILL -"$pid" 2>/dev/null
}

# The first signal asks the ranks to stop in good order, with a checkpoint; the second ends them.
stop() { # STATUS
    [ -n "$pid" ] || { say "stopped before the start"; exit 3; }
    if [ "$stopping" = signal ]; then
        end_launch
        exit "$1"
    fi
    stopping=signal
    say "stopping in good order; a second signal ends the run at once"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# Are there hosts to be had that the run does not use?
may_grow() {
    grep -vxFf "$work/used" "$work/all" >"$work/rest" || return
    [ "$(count "$work/used")" -lt "${use:-999999}" ] || return
    check_hosts "$work/rest"
    [ "$(head -n "${use:-999999}" "$work/healthy" | count /dev/stdin)" -gt "$(count "$work/used")" ]
}

# What paro-train says of the state that it resumes from, once, before its first step.
say_resumed() {
    grep -q '^paro-train: .*resumes from ' "$work/lines" || return
    resumed=yes
    sed -n 's/^paro-train: \(.*resumes from \|local checkpoint\)/\1/p' "$work/lines" >"$work/note"
    [ -z "$log" ] || while read -r line; do echo "$(date '+%F %T') $line"; done <"$work/note" | append
}

# Has a rank or mpirun found others gone?  mpirun then ends, unless it waits for a host that does not answer
# or a rank that was lost while it started.
has_lost_ranks() {
    grep -qE '^paro-train: rank .*(no data from|no bytes from|no answer from|MPI reports error)|has lost communication with|PMIX ERROR: UNREACHABLE' \
        "$work/lines"
}

# Until the launch has ended, with `status`.  A signal to the group, as Ctrl-C is, also ends what a look has
# started, and its answer is empty: then nothing has moved, and time counts from the next look.
watch() {
    reached=$(last_step) moved=$(date +%s) patience=$((stall * START_TIMES)) asked_at=''
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1 # a look starts some programs, on a host that trains
        now=$(date +%s) step=$(last_step)
        case $now,$step in ,* | *,) continue ;; esac
        moved=${moved:-$now} asked_at=${asked_at:-$now} reached=${reached:-$step}
        [ -n "$resumed" ] || say_resumed
        [ "$step" -ge "$reached" ] || reached=$step # a start cuts the log
        if [ "$step" != "$reached" ]; then
            reached=$step moved=$now patience=$stall
        elif has_lost_ranks && ! has_ended "$pid" $END_S; then
            say "mpirun waits for ranks that are gone"
            kill -KILL -"$pid" # asked a second time to end, it would dump core
            break
        elif [ $((now - moved)) -ge "$patience" ]; then
            say "no step has ended for $patience s"
            end_launch
        fi
        if [ -n "$grow" ] && [ -z "$stopping" ] && [ $((now - asked_at)) -ge "$grow" ]; then
            asked_at=$now
            ! may_grow || stopping=${stopping:-grow} # a signal may have come meanwhile
        fi
        # Again, for a start removes one that is left of an earlier run.
        [ -z "$stopping" ] || [ ! -e "$run/.lock" ] || dd if=/dev/null "of=$run/STOP" conv=excl status=none 2>/dev/null
    done
    wait "$pid"
    status=$?
    pid=''
    # Its last lines come before what is said next; a process that is left may hold the pipe.
    has_ended "$teller" 2
    [ -n "$resumed" ] || say_resumed
    rm -f "$run/STOP"
}

# What the hosts keep may be newer than the run folder.
near=''
for word in "$@"; do
    case $word in --loc*) near=' or later' ;; esac
done
# Under Slurm a check must not wait for the step that trains, nor a start for one that cannot end since
# its host is gone.
export SLURM_OVERLAP=1
read_hosts
: >"$work/out.before"
restart=0 failed_at='' fails=0 lost=''
while :; do
    check_hosts "$work/all"
    make_plan
    say "$(sed -n 's/^strategy: //p' "$work/plan.yaml") on $(count "$work/used") of $(count "$work/all") hosts," \
        "from step $(($(saved_step) + 1))$near: $(cut -d ' ' -f 1 "$work/used" | paste -s -d ' ')"
    before=$(last_step)
    launch "$@"
    watch
    [ "$status" != 0 ] || exit 0
    case $stopping$status in
    signal3) exit 3 ;;
    signal*)
        say "ended with status $status after step $(last_step) while it stopped"
        exit 2
        ;;
    esac
    if [ "$status" = 3 ]; then
        [ "$stopping" = grow ] || exit 3
        stopping=''
        say "hosts have returned"
        continue
    fi
    stopping='' now=$(last_step) now_lost=''
    ! has_lost_ranks || lost=yes now_lost=yes
    how="ended with status $status"
    [ "$status" -le 128 ] || how="a rank was killed (signal $((status - 128)))"
    say "$how after step $now; restarts from ${near:+local copies, or from }step $(saved_step)"
    # Before any step there is nothing that a restart could resume: what was asked is wrong.
    [ -n "$now_lost" ] || [ "$now$before$status" != 002 ] || exit 2
    [ "$now" = "$failed_at" ] || fails=0
    failed_at=$now fails=$((fails + 1)) restart=$((restart + 1))
    if [ $fails -ge $FAILS_MAX ]; then
        say "failed $fails times after step $now: not tried again"
        exit 2
    elif [ $restart -gt "$restarts" ]; then
        say "$restarts restarts (--restarts) are over"
        exit 2
    fi
    [ $fails = 1 ] || sleep $((1 << (fails - 2)))
done
