# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # the dollar is of the shell that mounts
# paro-report: a page that is whole, stands alone, and says what it lacks.

load mounts
load refuses

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 9999 > text
    mkdir work
    # 16 s a step: no load makes a step slower than predicted, which would be a warning.
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" \
        -i synth:1x1,flops=1e7,memory=4e9 --seq 32 > plan.yaml
    paro-train plan.yaml -d text -o work/run --steps 3 --trace-step 2 > out
    paro-train plan.yaml -d text -o work/other/a --steps 2 > out
    paro-train plan.yaml -d text -o 'work/other/b <i>&amp;' --steps 1 > out
    paro-topo -i synth:2x2,intra=5GB/s:3us,inter=1GB/s:5us > work/fabric.yaml
    horing-check --replay synth:8,port=3:50 > work/slow.txt || [ $? = 2 ]
    # Of 3 hosts of paro-lab, without a fault.
    cp "$ROOT/tests/data/health_record.jsonl" work/record.jsonl
    echo '# 2x2: 4 ranks in 2 groups; <5> iterations' > work/bench.txt
}

# whole FILE: elements are closed in order, nothing is loaded and nothing runs.
whole() {
    python3 -c 'import html.parser, sys
class Page(html.parser.HTMLParser):
    void = {"meta", "img", "br"}
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()
    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.void:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name != "href", (tag, name)
            assert name != "src" or value.startswith("data:image/svg+xml;base64,"), value
    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
text = open(sys.argv[1], encoding="utf-8").read()
page = Page()
page.feed(text)
assert page.open == [] and text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
assert page.seen >= {"html", "title", "svg", "table"} and not page.seen & {"script", "link", "iframe", "i"}
assert "url(" not in text and "@import" not in text' "$1"
}

headings() { sed -n 's,^<h2>\(.*\)</h2>$,\1,p' "$1"; }

@test "a run: its pictures, its plan against its measurement, its settings" {
    cp -r "$G/work/run" .
    paro-report run > page 2> said
    [ ! -s said ]
    whole page
    diff <(headings page) - << 'END'
Training
Plan against measurement: run
The predicted step
All strategies, predicted
Network
Settings: run
END
    [ "$(grep -c '^<svg' page)" = 3 ]
    grep -q '<img alt="trace"' page
    paro-train --svg run | sed 1d > picture
    grep -qxF "$(sed -n '/<polyline/{p;q}' picture)" page # the commands' own
    paro-plan --check=run > check
    grep -qxF "$(tail -n 1 check)" page
    grep -qF "<td>3 of 3</td><td>$(sed -n '1s/.*"loss":\(.......\).*/\1/p' run/log.jsonl)</td>" page
}

@test "a pipeline: runs by folder, saved answers, warnings; names are text" {
    cp -r "$G/work" .
    paro-report --title 'One & <two>' work > page 2> said
    [ ! -s said ]
    whole page
    run ! grep -q http-equiv page
    grep -qxF '<title>One &amp; &lt;two&gt;</title>' page
    headings page > got
    for h in Warnings Training 'Training: work/other' Network 'Checks of the network' Collectives; do
        grep -qxF "$h" got || { echo "no '$h'"; cat got; return 1; }
    done
    grep -qF '<td>work/other/b &lt;i&gt;&amp;amp;</td>' page
    grep -q '^<p class="state CRITICAL"><b>slow.txt</b> HORING CRITICAL - node3 ' page
    grep -qF '<li>slow.txt: HORING CRITICAL' page
    grep -qF '# 2x2: 4 ranks in 2 groups; &lt;5&gt; iterations' page
    [ "$(grep -c '^<svg' page)" = 5 ]
    # A run of one step has no measurement.
    diff <(sed -n '/^<h2>Not on/,$p' page | grep -o "<li>plan against measurement of 'work/other/b" | wc -l) <(echo 1)
    [ "$(sed -n '/^<h2>Not on/,$p' page | grep -c '<li>')" = 1 ]
}

@test "what is missing or broken is left out and named" {
    cp -r "$G/work" .
    rm work/run/plan.yaml work/fabric.yaml
    echo '{"step":' > work/other/a/log.jsonl
    sed -i 's/"skipped":false/"skipped":true/' work/run/log.jsonl
    sed -i 's/^steps: .*/steps: 9/' work/run/settings.yaml
    echo '{"format":"paro-health/1", broken' > work/record.jsonl
    paro-report work > page 2> said
    [ ! -s said ]
    whole page
    sed -n '/^<h2>Not on this page/,$p' page > lacks
    for what in "list of strategies: 'work/run/plan.yaml'" "picture of Training: work/other" "network of 'work': no fabric.yaml" \
        "picture of 'work/record.jsonl'"; do
        grep -qF "$what" lacks || { echo "no '$what'"; cat lacks; return 1; }
    done
    grep -qF '<li>work/run: 3 of 3 steps were skipped' page
    grep -qF '<li>work/run: stopped after step 3 of 9, or still runs</li>' page
}

@test "the page appears whole or not at all" {
    cp -r "$G/work/run" .
    paro-report run -o page.html
    whole page.html
    [ "$(ls -A)" = $'page.html\nrun' ]
    cp page.html before
    refuses 2 "'page.html' exists --force" paro-report -o page.html run
    cmp page.html before
    paro-report --force --title new -o page.html run
    grep -q '<title>new</title>' page.html
    mkfifo pipe
    refuses 2 "'pipe' is not a regular file" paro-report --force -o pipe run
    [ -p pipe ]
    rm pipe
    # A name that awk would take for an assignment.
    cp -r run lr=0.1
    paro-report lr=0.1 < /dev/null | grep '<h2>The predicted step'
    rm -r lr=0.1
    refuses 2 "cannot write 'absent/page.html'" paro-report -o absent/page.html run
    refuses 2 "text' not a folder" paro-report "$G/text"
    mkdir empty
    refuses 2 "no run in 'empty' log.jsonl" paro-report empty
    if [ -w /dev/full ]; then
        refuses 2 'standard output' bash -c 'exec paro-report run > /dev/full'
    fi
    paro-report run | head -n 1 > out 2> said
    [ ! -s said ]
    [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'tmp.*')" ]
}

@test "a full disk under its parts: one line, and no page" {
    small_disk 'TMPDIR=$PWD/full paro-report "$1" > page' true
    for size in 16k 40k 64k; do
        refuses 2 'cannot make the page' "${ALONE[@]}" sh inside $size "$G/work"
        rmdir full
        [ ! -s page ]
    done
}

# rows FILE: NAME<tab>VALUE of the table at the top.
rows() { sed -n 's,^<tr><th>\(.*\)</th><td>\(.*\)</td></tr>$,\1\t\2,p' "$1"; }
renews() { grep -qxF "<meta http-equiv=\"refresh\" content=\"$2\">" "$1"; } # FILE SECONDS

# has_row FILE NAME PATTERN
has_row() { rows "$1" | grep -q "^$2	$3\$" || { rows "$1"; return 1; }; }

# a_run STEPS: `run` of that many steps, of which the log has three, and no process.
a_run() {
    cp -r "$G/work/run" .
    sed -i "s/^steps: .*/steps: $1/" run/settings.yaml
}

# What a failed test started.
teardown() { jobs -p | xargs -r kill -KILL 2> /dev/null || true; }

fourth_step() { tail -n 1 "$G/work/run/log.jsonl" | sed 's/"step":3/"step":4/' >> run/log.jsonl; }

@test "--follow writes the page again until the run has ended" {
    local train follow
    paro-train "$G/plan.yaml" -d "$TEXT" -o run --steps 3000 --trace-step 2 > out 2>&1 &
    train=$!
    soon grep -qs '"step":3,' run/log.jsonl
    kill -STOP $train
    paro-report --follow=1 -o page.html run 2> said &
    follow=$!
    soon [ -e page.html ]
    cp page.html first
    whole first
    renews first 1
    has_row first state 'step [0-9]* of 3000, training'
    has_row first loss "$(tail -n 1 run/log.jsonl | sed 's/.*"loss":\(.......\).*/\1/'), $(sed -n '1s/.*"loss":\(.......\).*/\1/p' run/log.jsonl) at first"
    has_row first tokens/s '[1-9][0-9]* in the last 20 steps (median)'
    has_row first step '[0-9.]* m*s in the last 20 steps (median), predicted 16[0-9.]* s'
    has_row first 'critical path' '[0-9.]* m*s of [0-9.]* m*s in step 2'
    has_row first checkpoint none
    has_row first horing-watch 'unknown, PARO_METER names no folder of records'
    run ! grep -q 'still runs\|checkpoint:' first
    kill -CONT $train
    wait $train
    ends 0 wait $follow
    [ ! -s said ]
    whole page.html
    run ! grep -q 'http-equiv="refresh"' page.html
    has_row page.html state 'step 3000 of 3000, ended'
    has_row page.html checkpoint 'step 3000, 0 min ago'
    [ "$(ls -A)" = $'first\nout\npage.html\nrun\nsaid' ]
}

@test "--follow waits a minute for a run to be started again" {
    local follow
    a_run 4
    cp "$G/work/slow.txt" run
    mkdir bin
    sed 's/^RESTART_S=60 /RESTART_S=1 /' "$BIN/paro-report" > bin/paro-report
    chmod +x bin/paro-report
    find "$BIN" -type f ! -name paro-report -exec ln -s {} bin \;
    # A run that ended long ago, or was killed.
    timeout 60 bin/paro-report --follow=1 -o page.html run
    has_row page.html state 'step 3 of 4, ended'
    run ! grep -q http-equiv page.html
    grep -q '<li>run: stopped after step 3 of 4' page.html
    # One that goes on.
    paro-report --follow=1 --force -o page.html run &
    follow=$!
    soon renews page.html 1
    has_row page.html state 'step 3 of 4, stopped, waiting for a restart'
    fourth_step
    ends 0 wait $follow
    has_row page.html state 'step 4 of 4, ended'
}

@test "--follow shows the verdict of horing-watch on the records of PARO_METER" {
    a_run 3
    PARO_METER=$ROOT/tests/data/watch/ras_unresponsive.json paro-report --follow -o page.html run
    whole page.html
    has_row page.html horing-watch 'WATCH CRITICAL - failed: rank 1 .*'
    grep -q '^<li>WATCH CRITICAL - failed: rank 1 ' page.html
    PARO_METER=absent paro-report --follow --force -o page.html run
    has_row page.html horing-watch 'WATCH UNKNOWN - .*absent.*'
    run ! grep -q '^<li>WATCH' page.html
}

@test "an interrupted --follow leaves the last whole page" {
    local follow
    a_run 4
    env --default-signal=INT paro-report --follow=1 -o page.html run 2> said &
    follow=$!
    soon [ -e page.html ]
    kill -INT $follow
    ends 130 wait $follow
    [ ! -s said ]
    whole page.html
    [ "$(ls -A)" = $'page.html\nrun\nsaid' ]
    [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'tmp.*')" ]
}

@test "--follow reads no lock that another user may have put there" {
    a_run 4
    rm run/.lock
    mkfifo run/.lock
    refuses 2 "run/.lock' is not a regular file" paro-report --follow -o page.html run
    rm run/.lock
    ln -s ../run/log.jsonl run/.lock
    refuses 2 "run/.lock' is not a regular file" paro-report --follow -o page.html run
    rm run/.lock
    : > run/.lock
    if [ "$(id -u)" = 0 ]; then
        chown 12345 run/.lock
        refuses 2 "run/.lock' belongs to user 12345, expected user 0" paro-report --follow -o page.html run
    fi
    [ ! -e page.html ]
}

@test "a disk that fills while --follow writes leaves the last whole page" {
    a_run 4
    # shellcheck disable=SC2016
    small_disk '(
            while [ ! -e full/page.html ]; do sleep 0.1; done
            cp full/page.html first
            cat /dev/zero > full/rest
        ) 2> why & paro-report --follow=1 -o full/page.html run' 'cp full/page.html last; ls -A full > names'
    refuses 2 "cannot write 'full/page.html'" "${ALONE[@]}" sh inside 400k
    whole last
    cmp first last
    renews last 1
    [ "$(cat names)" = $'page.html\nrest' ]
}

# bats test_tags=full
@test "a browser renews the page while the run lasts, and no longer" {
    local browser server chrome port follow
    browser=$(command -v chromium || command -v chromium-browser) || skip 'no chromium here'
    a_run 4
    paro-report --follow=1 -o page.html run &
    follow=$!
    soon [ -e page.html ]
    python3 -u -m http.server --bind 127.0.0.1 0 > server 2> requests 3>&- 4>&- &
    server=$!
    soon grep -q port server
    port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' server)
    "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
        --remote-debugging-port=0 "http://127.0.0.1:$port/page.html" > out 2>&1 3>&- 4>&- & # bats waits for who has these
    chrome=$!
    got() { [ "$(grep -c 'GET /page.html' requests)" -ge "$1" ]; }
    soon got 4
    fourth_step
    ends 0 wait $follow
    sleep 3 # of the page that was the last
    : > requests
    sleep 4
    run ! got 1
    kill -KILL $chrome # it may take minutes to end otherwise
    kill $server
    wait $chrome $server || true
}

# bats test_tags=full
@test "a browser draws the page" {
    local browser
    browser=$(command -v chromium || command -v chromium-browser) || skip 'no chromium here'
    paro-report -o page.html "$G/work"
    timeout -k 5 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
        --window-size=1100,900 --screenshot=page.png "file://$PWD/page.html" > out 2>&1
    [ "$(head -c 8 page.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]
    [ "$(wc -c < page.png)" -gt 20000 ] # an empty page of this size has 4 KB
}

@test "what links and pipes of a folder lead to does not get on the page" {
    echo 'secret: 7' > secret
    cp -r "$G/work" .
    find work -name 'trace-*.svg' -delete
    ln -s ../../secret work/run/trace-1.svg
    mkfifo work/run/trace-2.svg work/pipe.txt
    ln -s ../secret work/answer.txt
    ln -s /dev/zero work/zero.txt
    cp -r work/run work/third
    rm work/third/settings.yaml
    ln -s ../../secret work/third/settings.yaml
    cp -r work/run work/fourth
    rm work/fourth/plan.yaml
    mkfifo work/fourth/plan.yaml
    rm work/fabric.yaml
    ln -s /dev/zero work/fabric.yaml
    timeout 60 paro-report work > page 2> said
    [ ! -s said ]
    whole page
    run ! grep -q "secret: 7" page
    run ! grep -qF "$(base64 -w 0 < secret)" page
    sed -n '/^<h2>Not on this page/,$p' page > lacks
    for f in run/trace-1.svg run/trace-2.svg third/settings.yaml fourth/plan.yaml fabric.yaml; do
        grep -qF "<li>'work/$f' is not a regular file" lacks || { echo "no '$f'"; cat lacks; return 1; }
    done
    # The folder itself: a run whose plan is a pipe is none.
    refuses 2 "no run in 'work/fourth'" timeout 60 paro-report work/fourth
}

@test "a folder that is exchanged once it was looked at" {
    local command
    cp -r "$G/work" work
    cp -r "$G/work" other
    sed -i 's/"loss":[0-9.]*/"loss":7.77/' other/*/log.jsonl other/*/*/log.jsonl
    sed -i 's/^lr: .*/lr: 0.777/' other/run/settings.yaml
    sed -i 's/1_000_000_000\|1e9\|1000000000/7.77e9/' other/fabric.yaml
    echo '# 7x7: 49 ranks in 7 groups; 7 iterations' > other/bench.txt
    echo 'HORING OK - 777 hosts' > other/slow.txt
    run ! cmp -s work/fabric.yaml other/fabric.yaml
    mkdir bin
    cp "$BIN/paro-report" bin
    for command in paro-plan paro-train paro-topo paro-shard horing-check; do
        printf '#!/bin/sh\n[ ! -e other ] || { mv work kept; mv other work; }\nexec "%s" "$@"\n' "$BIN/$command" > bin/$command
    done
    chmod +x bin/*
    paro-report work | grep -v 'page made' > first
    bin/paro-report work | grep -v 'page made' > page
    [ ! -e other ]
    diff first page
    run ! grep -q '7x7: 49\|777 hosts\|lr: 0.777' page
}

@test "a name with a newline is no second name, and a page is UTF-8" {
    cp -r "$G/work/run" elsewhere
    mkdir -p "work/a"$'\n'"elsewhere"
    cp -r "$G/work/run" work/run
    cp -r "$G/work/run" work/$'a\nelsewhere/run'
    cp -r "$G/work/run" work/$'bad\xff\xc3name'
    printf '# 2x2: 4 ranks in 2 groups; \xff\xfe <5>\n' > work/bench.txt
    paro-report work > page 2> said
    [ ! -s said ]
    whole page
    [ "$(grep -c '<td>3 of 3</td>' page)" = 2 ]
    run ! grep -q '<td>elsewhere' page
    iconv -f UTF-8 -t UTF-8 page > same
    refuses 2 "control characters" paro-report work/$'a\nelsewhere'
}
