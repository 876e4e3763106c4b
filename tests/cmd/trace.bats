# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train --trace-step: what is told of a step adds up, and is told whole or not at all.
# shellcheck disable=SC2016

load mounts
load train

setup_file() {
    runs_begin
    plan four synth:2x2 --seq 32 --strategy IGG --accum 2
}

LINE='paro-train: critical path of step [0-9]+: [0-9.]+ s of [0-9.]+ s \([0-9.]+\): compute [0-9]+ %, gathers [0-9]+ %, reduces [0-9]+ %, syncs [0-9]+ %, agreement [0-9]+ %, gaps [0-9]+ %'

# adds_up DIR STEP RANKS ACCUM VISITS: what DIR's trace says of itself and of the log.  Times in
# the file are whole ns: a lane's events meet exactly, and N of them add up to within N ns.
adds_up() {
    local name
    name=$1/trace-$(printf %08d "$2")
    xmllint --noout --nonet "$name.svg"
    if grep -iE '"-?(nan|inf)' "$name.svg"; then return 1; fi
    perl -MJSON::PP -e '
        my ($file, $log, $step, $ranks, $accum, $visits) = @ARGV;
        sub get { local (@ARGV, $/) = @_; <> }
        my $d = decode_json(get($file));
        my (%process, %thread, %lane, %count);
        for my $v (@{$d->{traceEvents}}) {
            my ($p, $a) = ($v->{pid}, $v->{args});
            if ($v->{ph} eq "M") {
                $process{$p} = $a->{name} if $v->{name} eq "process_name";
                $thread{"$p $v->{tid}"} = $a->{name} if $v->{name} eq "thread_name";
                next;
            }
            die "ph $v->{ph}" if $v->{ph} ne "X";
            push @{$lane{"$p $v->{tid}"}}, $v;
            $count{"$p $v->{cat}"}++;
        }
        my $o = $d->{otherData};
        die "other" if $o->{schema} ne "paro.trace/1" || $o->{step} != $step ||
            @{$o->{ranks}} != $ranks;
        my @lanes = ("compute", "gather", "reduce", "convert", "sync");
        for my $r (0 .. $ranks - 1) {
            my $t = $o->{ranks}[$r];
            die "rank $r" if $t->{rank} != $r || $process{$r} ne "rank $r ($t->{host})";
            my %sum = (compute => 0, wait => 0, agree => 0);
            my $critical = 0;
            for my $l (0 .. 4) {
                die "lane $r $l" if $thread{"$r $l"} ne $lanes[$l];
                my $at = 0;
                for my $v (@{$lane{"$r $l"} || []}) {
                    my ($from, $to) = ($v->{ts}, $v->{ts} + $v->{dur});
                    die "overlap in $r $l at $from" if $from < $at - 1e-6;
                    die "hole in $r $l at $at" if $l == 0 && $from > $at + 1e-3;
                    die "outside: $to" if $to > $t->{step_s} * 1e6 + 2e-3 || $v->{dur} <= 0;
                    $at = $to;
                    my $c = $v->{cat} =~ /^(wait|agree)$/ ? $1 : "compute";
                    $sum{$c} += $v->{dur} if $l == 0;
                    my $on = $v->{args}{critical_us} // 0;
                    die "critical $on of $v->{dur}" if $on > $v->{dur} + 2e-3;
                    $critical += $on;
                }
                die "end of $r: $at" if $l == 0 && abs($at - $t->{step_s} * 1e6) > 1e-2;
            }
            my $n = 1e-3 * (1 + @{$lane{"$r 0"}}); # us
            my $all = $sum{compute} + $sum{wait} + $sum{agree};
            die "sum $all" if abs($all - $t->{step_s} * 1e6) > $n;
            die "parts" if abs($sum{compute} - $t->{compute_s} * 1e6) > $n ||
                abs($sum{wait} - $t->{exposed_comm_s} * 1e6) > $n ||
                abs($sum{agree} - $t->{idle_s} * 1e6) > $n;
            my ($path, $cp, $way) = ($t->{critical_path_s}, $t->{critical_path}, 0);
            $way += $_ for values %$cp;
            die "way $way" if abs($way - $t->{step_s}) > 1e-9 * $n;
            # whole ns again: each of some N events on it is off by one at most
            die "path $path" if $path > $t->{step_s} + 1e-6 * $n ||
                $path < $t->{step_s} - $cp->{gaps_s} - 1e-6 * $n;
            die "critical $critical" if
                abs($critical * 1e-6 + $cp->{gaps_s} - $t->{step_s}) > 1e-6 * $n;
            die "$_ of $r" for grep { $count{"$r $_"} != $accum * $visits } qw(forward backward);
            die "agree of $r" if $count{"$r agree"} != 1;
        }
        my @log = map { decode_json($_) } split /\n/, get($log);
        for (@log) {
            die "log" if exists $_->{critical_path_s} != ($_->{step} == $step);
            next if $_->{step} != $step;
            my $t = $o->{ranks}[0];
            die "log path" if $_->{critical_path_s} != $t->{critical_path_s};
            die "log step" if abs($_->{step_s} - $t->{step_s}) > 2e-9;
            # the trace looks at the clock before a wait is timed, and behind that
            my $n = 1e-9 * @{$lane{"0 0"}};
            die "log waits" if $t->{exposed_comm_s} < $_->{exposed_comm_s} - $n ||
                $t->{idle_s} < $_->{idle_s} - $n || $t->{compute_s} > $_->{compute_s} + $n;
        }' "$name.json" "$1/log.jsonl" "${@:2}"
}

@test "every rank and lane, no overlap, no hole, sums that are the step's" {
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --steps 4 --trace-step 3 > out 2> said
    adds_up run 3 4 2 6
    [ "$(warnings said | wc -l)" = 1 ]
    grep -qxE "$LINE; rank [0-3] \(.*\), the slowest" said
    grep -q '^paro-train: critical path of step 3: ' said
    [ "$(wc -l < out)" = 5 ]
    for r in 0 1 2 3; do grep -q ">rank $r</text>" run/trace-00000003.svg; done
    # a lane's name ends beside it; IGG converts nothing: no row for that
    for l in compute=4 gather=4 reduce=4 convert=0; do
        [ "$(grep -c "end\".*>${l%=*}</text>" run/trace-00000003.svg)" = ${l#*=} ]
    done
    [ "$(ls run/trace-*)" = "$(printf '%s\n' run/trace-00000003.{json,svg})" ]
    # what travels under IGG: gathers inside, reductions across, parameters after the update
    perl -MJSON::PP -e 'local $/; my %n;
        for (@{decode_json(<>)->{traceEvents}}) {
            next if $_->{ph} ne "X";
            $n{"$_->{pid} $_->{cat}"}++;
            die if $_->{cat} eq "gather" && ($_->{args}{slow_bytes} || !$_->{args}{fast_bytes});
            die if $_->{cat} eq "reduce" && !$_->{args}{slow_bytes};
            die if $_->{cat} eq "forward" && !$_->{args}{unit};
        }
        for my $r (0 .. 3) {
            # 6 units used twice in each of 2 micro-steps, each reduced in each
            die if $n{"$r gather"} != 24 || $n{"$r reduce"} != 12 || $n{"$r update"} < 6;
        }' run/trace-00000003.json
}

@test "the first step, the last, one of a resumed run; a trace changes no bit" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o plain --steps 4 --save-every 2 > out
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 4 --trace-step 1 > out 2> said
    adds_up a 1 2 2 6
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o b --steps 4 --trace-step 4 > out 2> said
    adds_up b 4 2 2 6
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o c --resume plain/step-00000002 \
        --trace-step 3 > out 2> said
    adds_up c 3 2 2 6
    for d in a b c; do
        diff <(bits plain/log.jsonl | tail -n "$(wc -l < $d/log.jsonl)") <(bits $d/log.jsonl)
        paro-shard diff plain/latest $d/latest
    done
    # One rank, whose step has no other in it.
    paro-train "$G/one.yaml" -d "$TEXT" -o one --steps 2 --trace-step 2 > out 2> said
    adds_up one 2 1 1 6
    grep -qxE "$LINE" said
}

@test "all strategies, sums with and without order, a second one beside it" {
    for s in NNN NNG NIG IIG III GGG GNN; do
        plan p synth:2x1 --seq 16 --strategy $s
        mpirun -np 2 paro-train p.yaml -d "$TEXT" -o $s --steps 2 --trace-step 2 > out 2> said
        adds_up $s 2 2 1 6
    done
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o e --exact --steps 3 --trace-step 2 > out 2> said
    adds_up e 2 2 2 6
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o f --against GGG --steps 3 \
        --trace-step 2 > out 2> said
    adds_up f 2 2 2 6
    # no unit waits for the norm of the others
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o g --clip 0 --skip-nonfinite 0 --steps 3 \
        --trace-step 2 > out 2> said
    adds_up g 2 2 2 6
}

@test "--json: the log's object has the path, the line stays on standard error" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 3 --trace-step 2 --json > out 2> said
    cmp out a/log.jsonl
    adds_up a 2 2 2 6
    grep -qxE "$LINE; rank [01] \(.*\), the slowest" said
}

@test "a step that is none of this run's" {
    local t=("$G/one.yaml" -d "$TEXT")
    refuses 2 "rank 0 ( --trace-step '5' 1 4" \
        ranks 2 paro-train "$G/two.yaml" -d "$TEXT" -o new --steps 4 --trace-step 5
    [ ! -e new ]
    cp -r "$G/ended" run
    for k in 1 4; do
        refuses 2 "--trace-step step $k step 5 later" \
            paro-train "${t[@]}" -o run --resume=auto --steps 6 --trace-step $k
        # nothing of the run is lost by it
        diff -r "$G/ended" run
    done
    paro-train "${t[@]}" -o run --resume=auto --steps 6 --trace-step 5 > out 2> said
    adds_up run 5 1 1 6
}

@test "a run that stops before: a note and no file" {
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 99999 --trace-step 99999 > out 2> said 3>&- &
    local job=$! rc=0
    soon test -s run/log.jsonl
    kill -USR1 $job
    wait $job || rc=$?
    [ $rc = 3 ]
    [ "$(wc -l < said)" = 2 ]
    has_words "$(cat said)" "paro-train: trace 99999 stopped step $(wc -l < run/log.jsonl)"
    run ! compgen -G 'run/*trace*'
}

left() { (cd run && find . -name '*trace*' | sed 's,^./,,' | LC_ALL=C sort); }

@test "traces of steps that are not done go, and halves of them" {
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 4 --save-every 2 --trace-step 2 > out 2> said
    echo half > run/.trace-00000009.svg.paro-tmp
    echo half > run/.trace-00000009.json.paro-tmp
    echo mine > run/trace-mine.json
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 4 \
        --trace-step 4 > out 2> said
    local four two
    four=$(printf '%s\n' trace-00000004.{json,svg})
    two=$(printf '%s\n' trace-00000002.{json,svg})
    [ "$(left)" = "$two"$'\n'"$four"$'\ntrace-mine.json' ]
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000002 --steps 4 > out
    [ "$(left)" = "$two"$'\ntrace-mine.json' ]
    paro-train "$G/one.yaml" -d "$TEXT" -o run --force --steps 4 > out
    [ "$(left)" = trace-mine.json ]
}

@test "a full disk: one line, and no half of a trace" {
    local json svg
    small_disk 'mpirun -np 2 paro-train "$1" -d "$2" -o full/run --steps 3 --trace-step 2 > out 2> said' \
        '[ ! -e full/run ] || cp -a full/run kept'
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o sized --steps 3 --trace-step 2 > out 2> said
    json=$(wc -c < sized/trace-00000002.json)
    svg=$(wc -c < sized/trace-00000002.svg)
    # Room for plan, settings and log, a page each; then for the first file but not the second.
    for bytes in $((4 * 4096)) $((5 * 4096 + json + svg / 2)); do
        run -2 "${ALONE[@]}" sh inside $bytes "$G/two.yaml" "$TEXT"
        [ "$(grep -c '^paro' said)" = 1 ]
        has_words "$(grep '^paro' said)" "paro-train: rank 0 trace-00000002. No space"
        [ "$(ls -A kept)" = "$(printf '%s\n' .lock log.jsonl plan.yaml settings.yaml)" ]
        [ "$(wc -l < kept/log.jsonl)" = 1 ]
        rm -r full kept
    done
}
