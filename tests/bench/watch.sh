#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# horing-watch: how often runs with known faults are judged right, how long a verdict takes, and
# what the meter costs.
#
#   make bench-watch                     RUNS=100 made-up runs of each fault, ten times as many healthy
#   make bench-watch PART=fabric         programs on emulated nodes, RUNS=1 of each of PROGRAMS and KINDS;
#                                        a row of each run is added to ROWS, then all rows are counted;
#                                        SEED=N draws as the rows with the seeds N0 to N9 did
#   make bench-watch PART=cost           the conjugate gradient in turns, PAIRS=20 with and without the meter
#                                        KEEP=DIR keeps the records
#
# PROGRAMS: cg random train ddp (with PYTHON, one that has PyTorch; for gloo and its flight recorder).
# KINDS: healthy slow10 slow20 slow50 port80 port50 stopped killed order stall.  A slow rank, or a stall, needs a core
# per rank, so NODES is 2 for it, and a port 6, which are three pairs: of the programs whose ranks meet
# all at once nobody can be named then, which is right.
[ -n "${BASH_VERSION-}" ] || exec bash "$0" # make calls sh
set -eu

dir=$(mktemp -d)
root=$PWD lib=$PWD/build/libparo-mpi.so lab=
trap '[ -z "$lab" ] || kill $lab 2>/dev/null; rm -rf "$dir"' EXIT
PATH=$BIN:$PATH

build() {
    mpicc -O2 -o "$dir/cg" examples/mpi/cg.c -lm
    mpicc -O2 -o "$dir/random" tests/lab/watch_random.c
    mpicc -O2 -D_GNU_SOURCE -shared -fPIC -o "$dir/fault.so" tests/lab/watch_fault.c -ldl
}

made_up() {
    runs=$(dirname "$PLOT")/watch_runs
    "$runs" "${RUNS:-100}"
    "$runs" ranks 64
    "$runs" ranks 4096
    "$runs" files 4096 "$dir/files" # 200 MB
    for _ in 1 2 3; do
        TIMEFORMAT='horing-watch on them: %R s'
        time horing-watch "$dir/files" || [ $? -le 2 ]
    done
    "$runs" cost "$dir/disk"
    "$runs" cost "/dev/shm/watch.$$" && rm -r "/dev/shm/watch.$$"
}

# ---- what the meter costs: cost PAIRS; percent, the median of pairs and its 95 % interval ----

solve() { # METER: seconds
    mpirun -np 2 env LD_PRELOAD="$lib" PARO_METER="$1" PARO_MPI_MODE=never "$dir/cg" 65536 400 16 2 |
        sed 's/.* in \([0-9.]*\) s, of.*/\1/'
}

cost() {
    for i in $(seq "$1"); do # who is first alternates
        if [ $((i % 2)) = 1 ]; then
            without=$(solve '') with=$(solve /dev/shm/watch.$$)
        else
            with=$(solve /dev/shm/watch.$$) without=$(solve '')
        fi
        echo "$with $without"
    done | awk '{ print 100 * ($1 / $2 - 1) }' | sort -g | awk '
        { v[NR] = $1 }
        END { # of the order statistics: the binomial distribution, as a normal one
            h = 0.98 * sqrt(NR); lo = int(NR / 2 - h); hi = int(NR / 2 + h + 1.5)
            middle = (v[int((NR + 1) / 2)] + v[int(NR / 2 + 1)]) / 2
            printf "the meter costs %.2f %% [%.2f, %.2f], the median of %d pairs\n", middle,
                v[(lo < 1) ? 1 : lo], v[(hi > NR) ? NR : hi], NR
        }'
    rm -rf "/dev/shm/watch.$$"
}

# ---- faults of real processes ----

# of_rank N: its process, as this system counts them (the lab has numbers of its own)
of_rank() {
    for p in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "WATCH_RUN=$dir" || continue
        ! tr '\0' '\n' <"$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" || { echo "${p#/proc/}"; return; }
    done 2>/dev/null
}

# It stands still for that part of every 20 ms, whatever it does: a limit of the processor's time would
# not slow a rank down that waits, which costs time too, as Open MPI waits.
slow_down() { # PID PERCENT SECONDS: its work lasts so much longer
    perl -e '
        my ($pid, $percent, $s) = @ARGV;
        for (1 .. 50 * $s) {
            kill STOP => $pid;
            select undef, undef, undef, 0.02 * $percent / (100 + $percent);
            kill CONT => $pid;
            select undef, undef, undef, 2 / (100 + $percent);
        }' "$1" "$2" "$3"
}

begin() { # PROGRAM KIND WHO SEED
    local nodes=${NODES:-3} fault='' work=5000000 options=()
    case $2 in
    slow* | stall) nodes=${NODES:-2} ;;& # and
    port*) nodes=${NODES:-6} work=300000 options=(-r 400mbit --slow "$3:$((4 * ${2#port}))mbit") ;;
    stall) fault="$3 $([ "$1" = cg ] && echo 20 || echo 10) 100000" ;; # two sums a step
    order) fault="$3 40 0" ;;
    esac
    rm -rf "$dir/m" "$dir/run"
    local meter=(env WATCH_RUN="$dir" WATCH_FAULT="${fault:-"-1 1 1"}" PARO_METER="$dir/m")
    case $1 in
    cg) set -- LD_PRELOAD="$dir/fault.so:$lib" PARO_MPI_MODE=never "$dir/cg" 60000 100 $((200 * nodes)) 1000 ;;
    random) set -- LD_PRELOAD="$dir/fault.so:$lib" PARO_MPI_MODE=never "$dir/random" 60 "$4" "$work" ;;
    train)
        seq 1 20000 >"$dir/text"
        paro-plan -m examples/models/llama-tiny.json -i "synth:${nodes}x1" --seq 256 --micro-batch 8 --strategy IGG >"$dir/plan"
        set -- paro-train "$dir/plan" -d "$dir/text" -o "$dir/run" --steps 100000
        ;;
    ddp) set -- GLOO_SOCKET_IFNAME=data "$PYTHON" "$root/tests/bench/watch_ddp.py" "$dir/m" ;;
    esac
    paro-lab -g "$nodes" -p 1 "${options[@]}" -- "${meter[@]}" "$@" >"$dir/out" 2>&1 &
    lab=$!
    for _ in $(seq 400); do
        [ "$(find "$dir/m" -type f 2>/dev/null | wc -l)" -lt "$nodes" ] || break
        sleep 0.05
    done
}

run() { # PROGRAM KIND SEED: a row
    local who=$(($3 % 2)) pid
    [[ $2 != port* ]] || who=$(($3 % 6))
    begin "$1" "$2" "$who" "$3"
    pid=$(of_rank "$who")
    case $2 in
    slow*) slow_down "$pid" "${2#slow}" "$SECONDS_EACH" ;;
    stopped | killed)
        sleep "1.$3"
        kill -"$([ "$2" = stopped ] && echo STOP || echo KILL)" "$pid"
        sleep 2.5
        ;;
    port*) sleep $((SECONDS_EACH + 3)) ;; # ten calls of one kind
    *) sleep "$SECONDS_EACH" ;;
    esac
    horing-watch --json --hang 2 "$dir/m" >"$dir/json" || :
    [ "$2" != stopped ] || kill -CONT "$pid"
    [ -z "${KEEP-}" ] || cp -r "$dir/m" "$KEEP/$1.$2.$3"
    kill $lab 2>/dev/null || :
    wait $lab 2>/dev/null || :
    lab=
    perl -MJSON::PP -e '
        my ($file, $program, $kind, $seed, $who) = @ARGV;
        local $/;
        open my $f, "<", $file or die;
        my $text = <$f>;
        my $d = eval { decode_json($text) } or exit; # it has not begun
        # Who stands still in a part of each 20 ms may be late at too few of the calls: "its compute or its host".
        my %want = (slow => "compute|paused|unsteady", port => "link", stopped => "hung|stuck", killed => "hung|stuck",
                    order => "mismatch", stall => "input",
                    healthy => "none");
        my ($class) = $kind =~ /^(\D+)/;
        my $nobody = $kind eq "healthy" || $kind =~ /^port/ && $program ne "random";
        my (%named, $said);
        for (@{$d->{findings}}) {
            my $right = $_->{kind} eq "link" ? $_->{text} =~ /node$who\b/ : ($_->{rank} // $who) == $who;
            my $known = $_->{kind} eq "link" || defined $_->{rank};
            $named{$right && !$nobody ? $known ? "right" : "nobody" : "wrong"} = 1;
            $named{cause} = 1 if $right && $known && $_->{kind} =~ /^(?:$want{$class})$/;
            $said //= $_->{text};
        }
        my $verdict = $named{wrong} ? "wrong" : $named{cause} ? "right" : $named{right} ? "cause" :
                      $nobody ? "right" : "nobody";
        print join("\t", $program, $kind, $seed, $who, $verdict, $d->{state}, $said // ""), "\n";' \
        "$dir/json" "$1" "$2" "$3" "$who" | tee -a "$ROWS"
}

fabric() {
    build
    for i in $(seq "${RUNS:-1}"); do
        for program in ${PROGRAMS:-cg random train}; do
            for kind in ${KINDS:-healthy slow50 slow20 slow10 port50 port80 stopped killed order stall}; do
                case $program.$kind in
                train.order | train.stall | ddp.order | ddp.stall) continue ;; # their sums are no MPI_Allreduce
                ddp.slow* | ddp.port*) continue ;; # of gloo, PyTorch records no completions
                esac
                run "$program" "$kind" "$((${SEED:-$(date +%s) % 100000} * 10 + i % 10))"
            done
        done
    done
}

count() {
    awk -F'\t' '
        { n[$1 " " $2]++; v[$1 " " $2, $5]++ }
        END { for (k in n)
            printf "%-16s %3d runs: right %3d, rank right and cause not %3d, nobody %3d, wrong %3d\n", k, n[k],
                v[k, "right"], v[k, "cause"], v[k, "nobody"], v[k, "wrong"] }' "$ROWS" | sort
}

ROWS=${ROWS:-watch.rows} SECONDS_EACH=${SECONDS_EACH:-5}
case ${PART:-made-up} in
made-up) made_up ;;
cost)
    build
    cost "${PAIRS:-20}"
    ;;
fabric)
    fabric
    count
    ;;
esac
