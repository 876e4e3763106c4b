# SPDX-License-Identifier: BSD-3-Clause
# paro-train --prom, --tensorboard: what they have of a step is what the log has of it; and the
# dashboards of examples/grafana, over metrics that are written.

load refuses
load health_box

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 9999 > text
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" -i synth:1x1,flops=1e10 \
        --seq 32 > plan.yaml 2> said
    paro-train plan.yaml -d text -o run --steps 3 --eval-every 2 --save-every 2 --peak 1e11 \
        --prom p.prom --tensorboard events > out
}

# scalars LOG: "step key value" of its numbers, as floats.
scalars() {
    python3 -c 'import json, struct, sys
for line in sys.stdin:
    d = json.loads(line)
    for key, value in d.items():
        if key != "step":
            print(d["step"], key, "%.9g" % struct.unpack("<f", struct.pack("<f", value))[0])' < "$1"
}

events() { python3 "$BATS_TEST_DIRNAME/events.py" "$@"; }

@test "TensorBoard: the numbers of the log, step by step" {
    events "$G"/events/* > got
    [ "$(head -n 1 got)" = 'version brain.Event:2' ]
    [ "$(grep -c 'loss/eval_loss' got)" = 1 ]
    # Tags are in sections; the keys are the log's.
    diff <(sed '1d; s, [a-z]*/, ,' got) <(scalars "$G/run/log.jsonl")
}

@test "Prometheus: no two metrics are one family in OpenMetrics" {
    # There a counter's family is its name without _total.
    grep '^# TYPE ' "$G/p.prom" > types
    grep -q '^# TYPE paro_train_slow_bytes_total counter$' types
    [ -z "$(awk '{ if ($4 == "counter") sub(/_total$/, "", $3); print $3 }' types | sort | uniq -d)" ]
}

@test "TensorBoard: a resumed run adds a file, which drops the steps that are done again" {
    cp -r "$G/run" "$G/events" .
    sleep 1.1 # names have the second
    paro-train "$G/plan.yaml" -d "$G/text" -o run --resume=run/step-00000002 --steps 4 --tensorboard events > out
    [ "$(find events -type f | wc -l)" = 2 ]
    cmp "$G"/events/* "$(find events -type f | sort | head -n 1)"
    events "$(find events -type f | sort | tail -n 1)" > got
    [ "$(head -n 2 got)" = $'version brain.Event:2\n3 session 1' ]
    [ "$(cut -d' ' -f1 got | sort -u | tr '\n' ' ')" = '3 4 version ' ]
}

# prom NAME: the value of a metric in p.prom.
prom() { sed -nE "s/^paro_train_$1\{run=\"[^\"]*\"\} //p" "$G/p.prom"; }

@test "Prometheus: the last step of the log, totals, the checkpoint" {
    local last
    last=$(tail -n 1 "$G/run/log.jsonl")
    number() { sed -E "s/.*\"$1\":([^,}]*).*/\1/" <<< "$last"; }
    equal() { awk "BEGIN { exit !($1 - $2 < 1e-9 * $2 && $2 - $1 < 1e-9 * $2) }" || { echo "$1, expected $2"; return 1; }; }
    equal "$(prom loss)" "$(number loss)"
    equal "$(prom step_seconds)" "$(number step_s)"
    equal "$(prom flops_per_second)" "$(number gflops)e9"
    equal "$(prom mfu_ratio)" "$(number mfu)"
    equal "$(prom state_bytes)" "$(number state_bytes)"
    # Of an evaluation that an earlier step had.
    equal "$(prom eval_loss)" "$(sed -nE 's/.*"eval_loss":([^,}]*).*/\1/p' "$G/run/log.jsonl")"
    [ "$(prom step) $(prom steps) $(prom tokens_total) $(prom skipped) $(prom last_checkpoint_step)" = '3 3 96 0 3' ]
    [ "$(prom last_checkpoint_timestamp_seconds)" = "$(stat -c %Y "$G/run/step-00000003")" ]
    grep -qF "paro_train_info{run=\"$(cd "$G" && pwd -P)/run\",strategy=\"NNN\",ranks=\"1\"} 1" "$G/p.prom"
    [ "$(grep -c '^# TYPE' "$G/p.prom")" = "$(grep -vc '^#' "$G/p.prom")" ]
    [ -z "$(find "$G" -name '.p.prom*')" ]
    ! command -v promtool > /dev/null || grep -v bits_per_byte "$G/p.prom" | promtool check metrics
}

@test "metrics: what cannot be written is an error before the first step, and a warning after it" {
    local t=("$G/plan.yaml" -d "$G/text" --steps 2)
    mkdir folder
    touch file
    refuses 2 "'folder'" paro-train "${t[@]}" -o new --prom folder
    refuses 2 'file' paro-train "${t[@]}" -o new --tensorboard file/events
    [ ! -e new ]
    cp -r "$G/run" .
    refuses 2 "run/p.prom --force --prom" paro-train "${t[@]}" -o run --force --prom run/p.prom
    refuses 2 "run/events --force --tensorboard" paro-train "${t[@]}" -o run --force --tensorboard run/events
    # Its folder disappears after the first step: fifo makes the run wait for the log to be read.
    mkdir gone
    mkfifo fifo
    paro-train "${t[@]}" -o other --prom gone/p.prom --log fifo > out 2> said &
    local job=$!
    until [ -e gone/p.prom ]; do sleep 0.05; done
    rm -r gone
    cat fifo > lines
    wait $job
    [ "$(wc -l < lines)" = 2 ]
    grep -q "^paro-train: .*gone/.p.prom.paro-tmp': No such file or directory: no more is written after step 1 to --prom" said
}

# dashboard NAME PREFIX FILES...: it is JSON, and its metrics are in the files.
dashboard() {
    local board="$ROOT/examples/grafana/$1.json"
    python3 -c 'import json, sys
board = json.load(open(sys.argv[1]))
seen = [p["id"] for p in board["panels"]]
assert len(seen) == len(set(seen)) and board["uid"] and board["schemaVersion"]
for p in board["panels"]:
    assert p["targets"] and p["gridPos"]["x"] + p["gridPos"]["w"] <= 24, p["title"]
    for t in p["targets"]:
        assert t["expr"].count("(") == t["expr"].count(")"), t["expr"]
        print(t["expr"])
for v in board["templating"]["list"]:
    print(v["query"])' "$board" | grep -oE "$2_[a-z_]+" | sort -u > asked
    [ "$(wc -l < asked)" -gt 8 ]
    cat "${@:3}" > written
    while read -r metric; do
        grep -qE "^${metric}[ {]" written || { echo "$metric is not written"; return 1; }
    done < asked
}

@test "Grafana: the dashboards ask for metrics that are written" {
    dashboard paro-train paro_train "$G/p.prom"
    make_box node17
    echo 1 > box/sys/class/net/eth0/carrier_up_count
    echo 25000 > box/sys/class/net/eth0/speed
    check --state state --prom up.prom
    echo 0 > box/sys/class/net/eth0/carrier
    run -2 check --state state --prom down.prom
    run -2 horing-check --replay synth:8,port=3:50 --prom ports.prom
    dashboard horing-check horing up.prom down.prom ports.prom
}
