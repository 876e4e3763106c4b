# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train: whole runs, resumes, bad input, ranks that die.  The step itself is engine.bats's.
# Ranks are local; hosts of their own are in tests/lab/nodes.bats.
# shellcheck disable=SC2016,SC2086

load mounts
load train

setup_file() {
    runs_begin
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 3 -o model
    plan four synth:2x2 --seq 32 --strategy IGG
    paro-shard split model -p four.yaml -o ckpt
}

# each EXPRESSION LOG: Perl, true for every line $d of the log.
each() {
    perl -MJSON::PP -ne 'BEGIN { our $e = shift }
        our $d = decode_json($_); eval $e or die "line $.: $_" . ($@ // ""); $n++;
        END { exit 1 if !$n }' "$1" "$2"
}

@test "init, split, train, merge, verify" {
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" --init "$G/ckpt" -o run --steps 3 > out 2> said
    no_warning said
    [ "$(wc -l < out)" = 4 ] # a head and three steps
    [ "$(readlink run/latest)" = step-00000003 ]
    [ "$(ls run)" = "$(printf '%s\n' latest log.jsonl plan.yaml settings.yaml step-00000003)" ]
    cmp run/plan.yaml "$G/four.yaml"
    paro-shard verify run/latest
    paro-shard merge run/latest -o trained
    paro-shard verify trained
    run -1 paro-shard diff trained "$G/model"
}

@test "auto takes its collectives from a table, and is as exact as what it takes" {
    paro-sched pick -i synth:2x2 --table -e 1Mi -f 4 > tuning.yaml
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --steps 2 --algo auto \
        --tuning tuning.yaml > out 2> said
    no_warning said
    cmp run/tuning.yaml tuning.yaml
    cmp run/plan.yaml "$G/four.yaml"
    # a table of nothing but rings is --algo ring, bit for bit
    sed 's/ algo: .*/ algo: ring/; s/chunk_bytes: .*/chunk_bytes: 61440/' tuning.yaml > rings.yaml
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o a --steps 2 --algo auto \
        --tuning - < rings.yaml > out
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o b --steps 2 --algo ring > out
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    [ "$(bits a/log.jsonl | wc -l)" = 2 ]
    # gone on with without one, the folder has none
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --steps 3 --resume auto > out
    [ ! -e run/tuning.yaml ]
}

@test "fresh weights are those of paro-shard init" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 2 --seed 3 > out
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o b --steps 2 --seed 3 --init "$G/ckpt" > out
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    [ "$(bits a/log.jsonl | wc -l)" = 2 ]
    paro-shard diff a/latest b/latest
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o c --steps 2 --seed 4 > out
    run -1 paro-shard diff a/latest c/latest
}

@test "a resumed run is the same run, bit for bit" {
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o a --steps 10 --save-every 5 --lr 1e-3 > out
    mkdir b
    cp -r a/step-00000005 a/settings.yaml a/.lock b
    ln -s step-00000005 b/latest
    # What a killed run leaves: a step that is in no checkpoint, and half a line.
    head -n 6 a/log.jsonl > b/log.jsonl
    printf '{"step":7,"loss":3.' >> b/log.jsonl
    mkdir b/.step-00000006.paro-tmp
    # The settings are the run's own.
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o b --resume auto > out
    [ "$(wc -l < out)" = 6 ]
    [ "$(bits a/log.jsonl | wc -l)" = 10 ]
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    paro-shard diff a/latest b/latest
    cmp a/settings.yaml b/settings.yaml
    [ ! -e b/.step-00000006.paro-tmp ]
    # Another strategy goes on from the same state.
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o c --resume a/step-00000005 > out
    diff <(bits a/log.jsonl | tail -n 5) <(bits c/log.jsonl)
}

@test "int8 between groups: bytes as planned; what cannot be held against it is refused" {
    plan coded synth:2x2 --seq 32 --strategy NNG --slow-params int8 --slow-grads int8
    mpirun -np 4 paro-train coded.yaml -d "$TEXT" -o whole --steps 6 > out
    told=$(sed -n 's/^  slow_bytes: //p' coded.yaml)
    each "abs(\$d->{slow_bytes} / $told - 1) < 0.01" whole/log.jsonl
    plain=$(paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x2 --strategy NNG | sed -n 's/^  slow_bytes: //p')
    perl -e 'exit !(abs($ARGV[0] / $ARGV[1] - 129 / 256) < 0.001)' "$told" "$plain"
    refuses 2 "rounds between expected 'same' exact" \
        ranks 4 paro-train coded.yaml -d "$TEXT" -o new --exact
    refuses 2 "rounds another strategy expected 'same'" \
        ranks 4 paro-train coded.yaml -d "$TEXT" -o new --against NNN
    [ ! -e new ]
    # Coded parameters alone: a resume sees them as the run had left them.
    for types in '' '--param-type f32' '--wire-type f32'; do
        plan params synth:2x2 --seq 32 --strategy NNG --slow-params int8 $types
        rm -rf a b
        mpirun -np 4 paro-train params.yaml -d "$TEXT" -o a --steps 6 --save-every 3 > out
        mpirun -np 4 paro-train params.yaml -d "$TEXT" -o b --resume a/step-00000003 --steps 6 > out
        bits a/log.jsonl | tail -n 3 > want
        bits b/log.jsonl | tail -n 3 | cmp - want
    done
}

@test "--save-every and --keep" {
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 7 --save-every 2 --keep 3 > out
    [ "$(cd run && echo step-*)" = "step-00000004 step-00000006 step-00000007" ]
    [ "$(grep -c '^#' out)" = 1 ]
    mkdir run/step-mine
    # Gone on with from an earlier step: what was later is another run's by now.
    paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000004 --steps 5 > out
    [ "$(cd run && echo step-*)" = "step-00000004 step-00000005 step-mine" ]
    [ "$(readlink run/latest)" = step-00000005 ]
    [ "$(bits run/log.jsonl | wc -l)" = 5 ]
    # Begun anew: nothing of the old run stays.
    paro-train "$G/one.yaml" -d "$TEXT" -o run --force --steps 1 > out
    [ "$(cd run && echo step-*)" = "step-00000001 step-mine" ]
    [ "$(bits run/log.jsonl | wc -l)" = 1 ]
}

# stopped STATUS: of the job $!, with its line.
stopped() {
    local rc=0
    wait $! || rc=$?
    [ "$rc" = "$1" ] || { echo "status $rc"; cat said; return 1; }
    has_words "$(grep '^paro' said)" 'stopped step --resume checkpoint'
}

@test "STOP, SIGTERM, SIGUSR1 through mpirun: status 3, and the run goes on" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 9999 > out 2> said 3>&- &
    soon test -s a/log.jsonl
    touch a/STOP
    stopped 3
    [ ! -e a/STOP ]
    paro-shard verify a/latest
    local at
    at=$(wc -l < a/log.jsonl)
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --resume=auto --steps $((at + 2)) > out 2> said
    [ "$(bits a/log.jsonl | wc -l)" = $((at + 2)) ]
    # Several times: a signal's frame must not land in the heap, where oneDNN's kernels have
    # their stack pointer (half of these died before it had a stack of its own).
    for _ in 1 2 3 4 5 6; do
        rm -rf b
        paro-train "$G/one.yaml" -d "$TEXT" -o b --steps 99999 > out 2> said 3>&- &
        soon test -s b/log.jsonl
        kill -TERM $!
        stopped 3
        [ "$(readlink b/latest)" = "$(printf 'step-%08d' "$(wc -l < b/log.jsonl)")" ]
    done
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o c --steps 9999 > out 2> said 3>&- &
    soon test -s c/log.jsonl
    kill -USR1 $!
    stopped 3
    paro-shard verify c/latest
}

@test "one writer a folder, and no run is lost by mistake" {
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 99999 > first.out 2> first.said 3>&- &
    local first=$!
    soon test -s run/log.jsonl
    refuses 2 "'run' another run" paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 1
    kill -TERM $first
    wait $first || [ $? = 3 ]
    refuses 2 "'run' has run expected --resume=auto --force" paro-train "$G/one.yaml" -d "$TEXT" -o run
    mkdir mine
    echo text > mine/plan.yaml
    refuses 2 "'mine' 'plan.yaml' .lock expected new" paro-train "$G/one.yaml" -d "$TEXT" -o mine
    [ "$(ls -A mine)" = plan.yaml ]
    refuses 2 "log 'mine/plan.yaml' exists --force" \
        paro-train "$G/one.yaml" -d "$TEXT" -o new --log mine/plan.yaml
    refuses 2 'mine/plan.yaml:1: log expected {"step":' \
        paro-train "$G/one.yaml" -d "$TEXT" -o new --resume=auto --log mine/plan.yaml
    [ "$(cat mine/plan.yaml)" = text ]
    [ ! -e new ]
    # An empty folder of the user's stays, and stays empty.
    mkdir empty
    for out in empty empty/a//b/; do
        refuses 2 "'nowhere' No such file" paro-train "$G/one.yaml" -d "$TEXT" -o $out --init nowhere
        [ -d empty ]
        [ -z "$(ls -A empty)" ]
    done
}

KEYS='["buffer_bytes","compute_s","exposed_comm_s","fast_bytes","gather_wait_s","gflops","grad_norm",'
KEYS+='"grads_wait_s","idle_s","loss","lr","skipped","slow_bytes","state_bytes","step","step_s","sync_wait_s",'
KEYS+='"tokens","tokens_per_s","update_s"]'

@test "the log: JSON, all keys, the bytes that the plan told" {
    local s memory slow
    for s in IGG NNN GGG; do
        plan p synth:2x2 --seq 32 --accum 2 --strategy $s
        mpirun -np 4 paro-train p.yaml -d "$TEXT" -o $s --steps 3 > out
        each 'JSON::PP->new->canonical->encode([sort keys %$d]) eq '"'$KEYS'" $s/log.jsonl
        each '$d->{step} == $. && $d->{tokens} == 4 * 2 * 32 && $d->{skipped} == 0' $s/log.jsonl
        each '$d->{loss} > 0 && $d->{loss} < 7 && $d->{grad_norm} > 0' $s/log.jsonl
        each 'abs($d->{compute_s} + $d->{exposed_comm_s} + $d->{idle_s} - $d->{step_s}) < 1e-9' $s/log.jsonl
        each 'abs($d->{gather_wait_s} + $d->{grads_wait_s} + $d->{sync_wait_s} - $d->{exposed_comm_s}) < 1e-9' $s/log.jsonl
        each '$d->{update_s} > 0 && $d->{update_s} < $d->{compute_s}' $s/log.jsonl
        memory=$(awk '/^ +(params|grads|optimizer): [0-9.e+]+$/ { m += $2 } END { print m }' p.yaml)
        slow=$(awk '$1 == "slow_bytes:" { print $2 }' p.yaml)
        each "abs(\$d->{state_bytes} - $memory) <= 0.01 * $memory" $s/log.jsonl
        each "abs(\$d->{slow_bytes} - $slow) <= 0.01 * $slow" $s/log.jsonl
    done
    # With a compute rate: the share of the bound, here of one that the port of 1 Mbit/s sets, and its mean.
    plan p synth:2x2,flops=1e15,inter=1Mbit/s --seq 32 --strategy IGG
    run -0 --separate-stderr mpirun -np 4 paro-train p.yaml -d "$TEXT" -o bound --steps 4
    awk -v bytes="$(sed -n 's/^  slow_bytes: //p' p.yaml)" '$1 == "bound_s:" && ($2 / (8 * bytes / 1e6) - 1) ^ 2 < 1e-6 { ok = 1 }
        END { exit !ok }' p.yaml
    each "abs(\$d->{bound_share} * \$d->{step_s} / $(sed -n 's/^  bound_s: //p' p.yaml) - 1) < 1e-9" bound/log.jsonl
    mean=$(grep -o '"step_s":[0-9.e-]*' bound/log.jsonl | tail -n 3 | awk -F : -v bound="$(sed -n 's/^  bound_s: //p' p.yaml)" \
        '{ s += $2 / 3 } END { printf "%.2f", bound / s }')
    [[ $stderr == *"share of the bound $mean: "*" of sending alone, the mean step takes "* ]]
}

@test "--json, --log and --print-config speak once" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 2 --json > out
    cmp out a/log.jsonl
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o b --steps 2 --log - > out
    each '$d->{step} == $.' out
    [ ! -e b/log.jsonl ]
    paro-train "$G/one.yaml" -d "$TEXT" -o c --steps 2 --log c.log > out
    each '$d->{step} == $.' c.log
    printf 'format: paro-settings/1\nlr: 1e-3\nsteps: 7\n' > s.yaml
    mpirun -np 2 paro-train --print-config --config s.yaml --steps 8 > out
    [ "$(grep -c "^steps:" out)" = 1 ]
    [ -z "$(sort out | uniq -d)" ]
    grep -qx 'steps: 8' out
    grep -qx 'lr: 0.001' out
    paro-train --print-config --config out | cmp - out
    paro-train "$G/one.yaml" -d "$TEXT" -o d --config out --steps 1 > lines
    paro-train --print-config -o d --resume=auto | cmp - d/settings.yaml
    grep -qx 'lr: 0.001' d/settings.yaml
}

@test "a default that is given is the default: --cuda-graphs on a processor" {
    for graphs in auto never; do
        paro-train "$G/one.yaml" -d "$TEXT" -o $graphs --steps 1 --cuda-graphs $graphs > out 2> said
        no_warning said
    done
    paro-shard diff auto/latest never/latest
}

@test "plans and options that cannot be run: under mpirun one line, too" {
    local t=(-d "$TEXT" -o new)
    refuses 2 '4 ranks 2' ranks 2 paro-train "$G/four.yaml" "${t[@]}"
    refuses 2 "open 'nowhere' No such file" ranks 2 paro-train nowhere "${t[@]}"
    refuses 2 "--warmup 'x'" ranks 2 paro-train "$G/two.yaml" "${t[@]}" --warmup x
    refuses 2 "'--bogus' --help" ranks 2 paro-train "$G/one.yaml" "${t[@]}" --bogus
    paro-sched pick -i synth:2x1 --op all-gather -b 1Mi -e 1Mi --table > tuning.yaml
    refuses 2 'no rules reduce-across' \
        ranks 2 paro-train "$G/two.yaml" "${t[@]}" --algo auto --tuning tuning.yaml
    refuses 2 "one.yaml:1: 'format' 'paro-plan/1' 'paro-tuning/1'" \
        paro-train "$G/one.yaml" "${t[@]}" --algo auto --tuning "$G/one.yaml"
    perl -e 'srand 7; print map chr rand 256, 1 .. 3000' > noise.yaml
    refuses 2 noise.yaml paro-train noise.yaml "${t[@]}"
    [ ! -e new ]
}

@test "data that cannot be used" {
    local p=$G/one.yaml
    head -c 32 "$TEXT" > short
    refuses 2 "'short' 32 tokens expected 33" paro-train "$p" -d short -o new
    refuses 2 "'short' 32 tokens" ranks 2 paro-train "$G/two.yaml" -d short -o new
    head -c 33 "$TEXT" > enough
    paro-train "$p" -d enough -o enough.run --steps 1 > out
    mkfifo pipe
    refuses 2 "pipe: not a regular file" paro-train "$p" -d pipe -o new
    sed 's/"vocab_size": 256/"vocab_size": 50/' "$MODELS/llama-tiny.json" > small.json
    paro-plan -m small.json -i synth:1x1 --seq 32 > small.yaml
    refuses 2 "'$TEXT' byte 2 token 50 vocabulary 50" paro-train small.yaml -d "$TEXT" -o new
    [ ! -e new ]
}

@test "checkpoints that cannot be begun with" {
    local t=("$G/one.yaml" -d "$TEXT" -o new)
    sed 's/10000.0/500.0/' "$MODELS/llama-tiny.json" > rope.json
    paro-shard init -m rope.json -o rope
    paro-plan -m rope.json -i synth:1x1 --seq 32 > rope.yaml
    paro-shard split rope -p rope.yaml -o rope.ckpt
    refuses 2 "rope.ckpt: 'rope_theta' 500 10000" paro-train "${t[@]}" --init rope.ckpt
    cp -r "$G/ckpt" bad
    printf '\377' | dd of=bad/shard-00002.safetensors bs=1 seek=300003 conv=notrunc 2> dd.log
    refuses 2 "shard-00002.safetensors: 'model." paro-train "${t[@]}" --init bad
    refuses 2 "shard-00002.safetensors: 'model." \
        ranks 4 paro-train "$G/four.yaml" -d "$TEXT" -o new --init bad
    rm bad/shard-00002.safetensors
    refuses 2 bad/shard-00002.safetensors paro-train "${t[@]}" --init bad
    truncate -s -9 bad/manifest.json
    refuses 2 bad/manifest.json: paro-train "${t[@]}" --init bad
    [ ! -e new ]
}

@test "runs that cannot be gone on with" {
    cp -r "$G/ended" run
    local t=("$G/one.yaml" -d "$TEXT" -o run --steps 9)
    refuses 2 "'$G/ckpt' optimizer state" paro-train "${t[@]}" --resume "$G/ckpt"
    refuses 2 "'run/latest' seed 1 expected 2" paro-train "${t[@]}" --resume=auto --seed 2
    printf '\377' | dd of=run/step-00000004/shard-00000.safetensors bs=1 seek=4000003 \
        conv=notrunc 2> dd.log
    refuses 2 shard-00000.safetensors: paro-train "${t[@]}" --resume=run/latest
    rm -r run/step-00000004
    refuses 2 "'run/latest' manifest.json" paro-train "${t[@]}" --resume=run/latest
    diff "$G/ended/log.jsonl" run/log.jsonl
    diff -r "$G/ended/step-00000002" run/step-00000002
    # An earlier one is whole.
    paro-train "${t[@]}" --resume run/step-00000002 > out
    [ "$(readlink run/latest)" = step-00000009 ]
}

@test "output that cannot be written" {
    local t=("$G/one.yaml" -d "$TEXT") rc
    echo text > file
    refuses 2 "'file' folder" paro-train "${t[@]}" -o file
    refuses 2 "open log 'nowhere/log'" paro-train "${t[@]}" -o new --log nowhere/log
    [ ! -e new ]
    [ -w /dev/full ] || skip "no /dev/full here"
    refuses 2 'standard output No space' bash -c 'exec paro-train "$@" > /dev/full' - "${t[@]}" -o a
    refuses 2 'standard output Bad file' bash -c 'exec paro-train "$@" >&-' - "${t[@]}" -o b
    ends 2 paro-train "${t[@]}" -o c --log /dev/full > out 2> said
    has_words "$(cat said)" 'paro-train: write log No space'
    # What was trained is saved first: it resumes from there.
    [ -e c/latest/manifest.json ]
    [ -e a/latest/manifest.json ]
    paro-train "${t[@]}" -o c --resume --log log --steps 3 > out
    [ "$(tail -n 1 log | cut -c 1-9)" = '{"step":3' ]
    # 5 MB is less than a checkpoint.  It may be less than MPI's own files, of which MPI speaks.
    rc=0
    (ulimit -f 5000 && paro-train "${t[@]}" -o d --steps 1 > out 2> said) || rc=$?
    [ $rc = 2 ]
    [ "$(grep -c '^paro' said)" = 1 ]
    grep -q 'd/.step-00000001.paro-tmp/.*File too large$' said
    [ ! -e d/latest ] && [ ! -e d/.step-00000001.paro-tmp ]
}

@test "a full disk: one line, the last checkpoint is whole" {
    small_disk 'mpirun -np 2 paro-train "$1" -d "$2" -o full/run --steps 6 --save-every 2 --keep 9 > out 2> said' \
        '[ ! -e full/run ] || cp -a full/run kept'
    run -2 "${ALONE[@]}" sh inside 16m "$G/two.yaml" "$TEXT"
    [ "$(grep -c '^paro' said)" = 1 ]
    grep -q '^paro-train: rank [01] .*No space left on device$' said
    [ "$(readlink kept/latest)" = step-00000002 ]
    paro-shard verify kept/latest
    [ "$(ls -A kept)" = "$(printf '%s\n' .lock latest log.jsonl plan.yaml settings.yaml step-00000002)" ]
    rm -r full kept
    run -2 "${ALONE[@]}" sh inside 4k "$G/two.yaml" "$TEXT"
    grep -q "^paro-train: rank 0 .*No space left on device$" said
    [ ! -e kept ]
}

@test "/dev/shm full: the run does not need it" {
    mounts_begin
    "${ALONE[@]}" sh -c 'mount -t tmpfs -o size=4k none /dev/shm
        head -c 9999 /dev/zero > /dev/shm/full 2>&1
        exec mpirun -np 2 --mca btl self,tcp paro-train "$1" -d "$2" -o run --steps 2' \
        - "$G/two.yaml" "$TEXT" > out 2> said
    [ "$(wc -l < run/log.jsonl)" = 2 ]
}

@test "gradients that are not finite are skipped by all ranks" {
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --steps 12 --lr 1e3 --clip 0 \
        --min-lr 1e3 > out
    [ "$(grep -c '"skipped":true' run/log.jsonl)" -gt 0 ]
    grep -q '  skipped' out
    each '$d->{skipped} || (defined $d->{loss} && defined $d->{grad_norm})' run/log.jsonl
    # What was kept is finite: the exponent of no element is all ones.
    paro-shard merge run/latest -o trained
    perl -0777 -ne '$n = unpack("Q<", $_); for (unpack("L<*", substr($_, 8 + $n))) {
        die "not finite" if ($_ >> 23 & 255) == 255 }' trained/model.safetensors
}

# A zombie is gone: who should reap it is not our business.
has_ended() { ! grep -s '^State:' "/proc/$1/status" | grep -qv 'Z (zombie)'; }

@test "a rank that dies takes all with it within 10 s" {
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --steps 99999 > out 2> said 3>&- &
    local job=$! rc=0 pids start
    soon test -s run/log.jsonl
    pids=$(pgrep -P $job paro-train)
    [ "$(wc -w <<< "$pids")" = 4 ]
    start=$(date +%s)
    kill -9 "$(sed -n 3p <<< "$pids")"
    wait $job || rc=$?
    [ $rc = 137 ]
    for p in $pids; do
        until has_ended "$p"; do
            [ $(($(date +%s) - start)) -lt 10 ]
            sleep 0.1
        done
    done
    [ "$(grep -c '^paro' said || true)" = 0 ]
    tr '\n' ' ' < said | grep -q 'exited on signal 9' # Open MPI 5 breaks the line
    mpirun -np 4 paro-train "$G/four.yaml" -d "$TEXT" -o run --resume=auto --steps 1 > out 2> said
}

@test "memory that runs out on one rank is that rank's error, told once" {
    [ -z "$SAN" ] || skip "sanitizers reserve the address space"
    cat > limited <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v "$LIMIT"
exec "$@"
END
    chmod +x limited
    paro-plan -m "$MODELS/llama-10m.json" -i synth:2x1 --seq 32 --strategy NNN > big.yaml
    # The states need 200 MB beside the program and its libraries.
    LIMIT=350000 refuses 2 'rank 1 ( bytes annot allocate' \
        ranks 2 ./limited paro-train big.yaml -d "$TEXT" -o new
    [ ! -e new ]
}
