#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# paro-report: one page of HTML about training runs, from what other commands print and draw.
#
# The page is put together in a temporary folder, section by section; a part that is missing, or
# whose command fails, is left out and named in the last section.  All but checkpoints is read from
# copies there: where another user may write, he can exchange a file that was looked at.
set -u

VERSION=@VERSION@
RUNS_MAX=8       # in one picture of paro-train --svg
TEXT_MAX=65536   # bytes of a saved output, and of a line of a log
PLAN_MAX=16777216
PICTURE_MAX=67108864
LOG_MAX=1073741824
SLOW_PERCENT=120 # of the predicted step: a warning
FOLLOW_S=5       # from a page to the next
RESTART_S=60     # paro-run checks hosts, plans, and starts the ranks
RECENT=20        # steps, whose medians --follow shows

# --help leaves out the second paragraph of options, --help=all has it.
usage() { # '' | all
    skip='/^  *--title/,/name of/d'
    [ "$1" != all ] || skip='/lists every option/d'
    sed "$skip" 2> /dev/null << 'TEXT' || die "cannot write to standard output"
Usage: paro-report [OPTION...] DIR...
Describe training runs on one page of HTML, with pictures and tables.
DIR is the folder of a run, or a folder that has runs and, next to them, the
fabric and saved output of paro-bench and horing-check.

  -o, --output=FILE          Write the page to FILE (default: standard output)
      --force                Let --output replace FILE
      --follow[=SECONDS]     Write the page again every SECONDS (default: 5)
                             until the first run has ended
      --title=TEXT           Title of the page (default: the
                             name of each DIR)
  -h, -?, --help[=all]       Print the everyday options, or all of them
  -V, --version              Print the version

paro-report --help=all lists every option; man paro-report explains them.
TEXT
}

@OPTIONS@

# ---- Pieces of HTML -----------------------------------------------------------------------

# Text of any origin, as text: no markup, no control characters.
escape() {
    tr -d '\000-\010\013-\037\177' | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g'
}
escaped() { printf '%s' "$*" | escape; }

heading() { printf '<h2>%s</h2>\n' "$(escaped "$1")"; }
row() { # NAME VALUE
    printf '<tr><th>%s</th><td>%s</td></tr>\n' "$(escaped "$1")" "$(escaped "$2")"
}
warn() { printf '<li>%s</li>\n' "$(escaped "$*")" >> "$T/warnings"; }
missing() { printf '<li>%s</li>\n' "$(escaped "$*")" >> "$T/missing"; }

# ask WHAT BEGINNING COMMAND...: its output is in $T/out; if that does not begin so, or the command
# could not, WHAT is missing and why.  A picture is one whatever horing-check's verdict is.
ask() {
    what=$1 beginning=$2 rc=0
    shift 2
    "$@" > "$T/out" 2> "$T/said" < /dev/null || rc=$?
    [ -n "$beginning" ] || [ $rc -le 1 ] || : > "$T/out"
    if ! head -n 1 "$T/out" | grep -q "^$beginning"; then
        missing "$what: $(cat "$T/said" "$T/out" | head -n 1)"
        return 1
    fi
    while IFS= read -r line; do
        warn "$line"
    done < "$T/said"
}

# The HEADING, if it has words, stands where there is something under it.
picture() { # HEADING WHAT COMMAND...: the elements of its SVG, which has no scripts and no names
    over=$1 what=$2
    shift 2
    ask "$what" '<?xml' "$@" || return 0
    [ -z "$over" ] || heading "$over"
    printf '<figure>\n'
    sed 1d "$T/out"
    printf '</figure>\n'
}

text() { # HEADING WHAT COMMAND...
    over=$1 what=$2
    shift 2
    ask "$what" '' "$@" || return 0
    [ -z "$over" ] || heading "$over"
    printf '<pre>'
    escape < "$T/out"
    printf '</pre>\n'
}

# ---- Copies -------------------------------------------------------------------------------

# One file, from the folder REAL/... and no other that has got that name; what cannot be read is of
# that kind here, too.
copy_file() { # REAL NAME COPY BYTES
    case $2 in */*) sub=/${2%/*} ;; *) sub='' ;; esac
    mkdir -p -- "$3$sub"
    (
        cd -- "$1$sub" 2> /dev/null && [ "$(pwd -P)" = "$1$sub" ] || exit
        if ! is_file "${2##*/}"; then
            ln -s . "$3/$2"
        elif [ ! -r "${2##*/}" ]; then
            : > "$3/$2"
            chmod 0 "$3/$2"
        else
            read_file "${2##*/}" "$4" | dd of="$3/$2" bs=64K iflag=fullblock conv=sparse status=none
        fi
    )
}

# What the page may need of DIR, under its last name; "COPY<tab>DIR" is added to $T/copies.
copy_folder() { # DIR
    real=$(cd -- "$1" && pwd -P)
    copy=$(mktemp -d -p "$T" copy.XXXXXX) || return
    copy=$copy/${real##*/}
    mkdir -p -- "$copy"
    printf '%s\t%s\n' "$copy" "$1" >> "$T/copies"
    (cd -- "$1" && find . -mindepth 1 -maxdepth 3 \( -name '.*' -o -name '*[[:cntrl:]]*' \) -prune -o ! -type d \
        \( -name log.jsonl -o -name plan.yaml -o -name settings.yaml -o -name 'trace-*.svg' \) -print) 2> /dev/null |
        while IFS= read -r f; do
            copy_file "$real" "${f#./}" "$copy" $LOG_MAX
        done
    {
        printf '%s\n' "$1/fabric.yaml"
        saved "$1" "$HEALTH\|$RECORD\|$BENCH"
    } | while IFS= read -r f; do
        if [ -e "$f" ] || [ -L "$f" ]; then copy_file "$real" "${f##*/}" "$copy" $PICTURE_MAX; fi
    done
}

# The folder or file that a copy is of.
original() { # COPY
    while IFS='	' read -r copy dir; do
        case $1 in "$copy"*) printf '%s' "$dir${1#"$copy"}" ;; esac
    done < "$T/copies"
}

# FILE with the names of folders where those of their copies are.
with_names() { # FILE
    escape < "$T/copies" | awk -F '\t' '
        function put(from, to,  text, at) {
            for (text = ""; at = index($0, from); $0 = substr($0, at + length(from)))
                text = text substr($0, 1, at - 1) to
            $0 = text $0
        }
        FILENAME == "-" { from[++n] = $1; to[n] = $2; sub(/^\.\//, "", to[n]); next }
        {
            for (i = 1; i <= n; i++) {
                put(from[i] "/", to[i] == "." ? "" : to[i] "/")
                put(from[i], to[i])
            }
            print
        }' - "$1"
}

# ---- What there is ------------------------------------------------------------------------

# value KEY FILE: of the first line "KEY: VALUE" of YAML, at any depth.
value() { read_file "$2" $PLAN_MAX | sed -n "s/^ *$1: *//p" | head -n 1; }

# block KEY FILE: the literal block under "KEY: |" of a plan.
block() {
    read_file "$2" $PLAN_MAX | awk -v key="$1" '
        inside && $0 ~ /[^ ]/ && match($0, /[^ ]/) <= depth { exit }
        inside { print; next }
        $1 == key ":" && $2 == "|" { inside = 1; depth = match($0, /[^ ]/) }'
}

# Where another user may write, a link leads to what only this user may read, and a pipe waits: only
# regular files get on the page.
usable() { # FILE
    [ -e "$1" ] || [ -L "$1" ] || return
    is_file "$1" || { missing "'$1' is not a regular file, expected one"; return 1; }
    [ -r "$1" ] || { missing "'$1' cannot be read"; return 1; }
}

# The folders of runs in DIR, or DIR itself, one a line: those whose files are regular ones.
runs_of() {
    if is_file "$1/log.jsonl"; then
        printf '%s\n' "$1"
    else
        find -H "$1" -mindepth 1 -maxdepth 3 \( -name '.*' -o -name '*[[:cntrl:]]*' \) -prune \
            -o -name log.jsonl -type f -print 2> /dev/null |
            sed 's,/log.jsonl$,,' | awk -F/ '{ print NF "\t" $0 }' | sort -n -k1,1 -k2 | cut -f2-
    fi | while IFS= read -r run; do
        for f in "$run/plan.yaml" "$run/settings.yaml"; do
            [ ! -e "$f" ] && [ ! -L "$f" ] || usable "$f" || continue 2
        done
        printf '%s\n' "$run"
    done
}

# Saved output in DIR that begins with PATTERN, one file a line.
HEALTH='^HORING [A-Z]* - ' RECORD='^{"format":"paro-health/' BENCH='^# [0-9x]*: [0-9]* ranks in '
saved() { # DIR PATTERN
    for f in "$1"/*; do
        case $f in *[[:cntrl:]]*) continue ;; esac
        ! is_file "$f" || ! read_file "$f" 200 | tr -d '\000' | head -n 1 | grep -q "$2" || printf '%s\n' "$f"
    done
}

# ---- Sections -----------------------------------------------------------------------------

number() { # KEY LINE
    printf '%s' "$2" | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"
}

# Sets log, bytes, the lines that are first, recent and last, and the steps that are done_ and wanted.
read_log() { # RUN
    log=$1/log.jsonl
    bytes=$(stat -c %s -- "$log")
    first=$(read_file "$log" "$TEXT_MAX" | tr -d '\000' | head -n 1)
    recent=$(read_file "$log" "$TEXT_MAX" $((bytes > TEXT_MAX ? bytes - TEXT_MAX : 0)) | tr -d '\000' | grep -a '}$' | tail -n $RECENT)
    last=$(printf '%s\n' "$recent" | tail -n 1)
    done_=$(number step "$last") wanted=$(value steps "$1/settings.yaml")
}

is_followed() { [ "$1" = "$main" ] && [ "$run_state" != ended ]; } # RUN

# One row of the table of runs; what the plan says of it is paro-plan's.
run_row() { # RUN
    run=${1#./}
    read_log "$1"
    skipped=$(read_file "$log" "$bytes" | grep -ac '"skipped":true' 2> /dev/null)
    predicted=- measured=- ratio=- speed=-
    if ask "plan against measurement of '$run'" '' paro-plan "--check=$1"; then
        awk '
            $1 == "step" && NF >= 6 { predicted = $2 " " $3; measured = $4 " " $5; ratio = $6 }
            $1 == "tokens/s" { speed = $3 }
            END { print predicted "|" measured "|" ratio "|" speed }' "$T/out" > "$T/step"
        IFS='|' read -r predicted measured ratio speed < "$T/step"
    fi
    printf '<tr>'
    printf '<td>%s</td>' "$(escaped "$run")" "$(escaped "$(value strategy "$1/plan.yaml")")" \
        "$(escaped "${done_:-0} of ${wanted:-?}")" \
        "$(number loss "$first" | cut -c1-7)" "$(number loss "$last" | cut -c1-7)" \
        "$(escaped "$speed")" "$(escaped "$predicted")" "$(escaped "$measured")" "$(escaped "$ratio")"
    printf '</tr>\n'
    [ "${skipped:-0}" = 0 ] || warn "$run: $skipped of ${done_:-0} steps were skipped, their loss or gradient was not finite"
    [ "$bytes" -lt $LOG_MAX ] || warn "$run: of the log the first GiB is read"
    is_followed "$1" || [ "${done_:-0}" = "${wanted:-0}" ] || warn "$run: stopped after step ${done_:-0} of ${wanted:-?}, or still runs"
    case $ratio in
    [0-9]*%)
        [ "${ratio%%[!0-9]*}" -lt $SLOW_PERCENT ] ||
            warn "$run: a step takes $ratio of the predicted time"
        ;;
    esac
    ! is_followed "$1" || [ -L "$(original "$1")/latest" ] || return 0
    paro-shard verify --quick "$(original "$1")" > "$T/out" 2> "$T/said" < /dev/null ||
        warn "$run: checkpoint: $(sed 's/^paro-shard: //' "$T/said" "$T/out" | head -n 1)"
}

# The runs in $T/group: a picture, a table.
group() { # NAME
    name=$1 count=$(grep -c '' "$T/group")
    head -n "$RUNS_MAX" "$T/group" > "$T/drawn"
    set --
    while IFS= read -r run; do
        set -- "$@" "$run"
    done < "$T/drawn"
    heading "$name"
    [ "$count" -le "$RUNS_MAX" ] || printf '<p>The picture shows the first %d of %d runs.</p>\n' "$RUNS_MAX" "$count"
    picture '' "picture of $name" paro-train --svg "$@"
    printf '<div class="wide"><table class="list"><tr>'
    printf '<th>%s</th>' run strategy steps 'first loss' 'last loss' tokens/s \
        'step, predicted' 'step, measured' 'of predicted'
    printf '</tr>\n'
    while IFS= read -r run; do
        run_row "$run"
    done < "$T/group"
    printf '</table></div>\n'
}

# The first run in detail: its plan carries the model and the fabric.
details() { # RUN
    plan=$1/plan.yaml
    text "Plan against measurement: ${1#./}" "plan against measurement of '${1#./}'" paro-plan "--check=$1"
    for f in "$1"/trace-*.svg; do
        usable "$f" || continue
        # A picture that anybody may have changed: as an image it runs nothing.
        printf '<figure><img alt="trace" src="data:image/svg+xml;base64,'
        read_file "$f" $PICTURE_MAX | base64 -w 0
        printf '"></figure>\n'
    done
    block config "$plan" > "$T/config.json" 2> /dev/null
    block fabric "$plan" > "$T/fabric.yaml" 2> /dev/null
    if [ ! -s "$T/config.json" ] || [ ! -s "$T/fabric.yaml" ] || [ -n "$(value trains "$plan")" ]; then
        missing "predicted step and list of strategies: '${plan#./}' has no fabric, trains a part of the model, or is absent"
        return
    fi
    # Numbers by the ranks' rates follow from the global batch.
    batch=--accum=$(value accum "$plan")
    [ -z "$(value micro_batches "$plan")" ] || batch=--global-batch=$(value global_batch "$plan")
    set -- -m "$T/config.json" -i "$T/fabric.yaml" --micro-batch "$(value micro_batch "$plan")" \
        "$batch" --seq "$(value seq "$plan")"
    picture 'The predicted step' 'predicted step' \
        paro-plan "$@" --strategy "$(value strategy "$plan")" --timeline --svg
    text 'All strategies, predicted' 'list of strategies' paro-plan "$@" --list
}

fabric() { # FILE
    picture Network 'picture of the network' paro-topo -i "$1" --svg
    text '' 'table of the network' paro-topo -i "$1" --format table
}

# Saved answers of a folder, recognised by how they begin.
answers() { # DIR
    saved "$1" "$HEALTH" > "$T/health"
    saved "$1" "$RECORD" > "$T/records"
    saved "$1" "$BENCH" > "$T/bench"
    if [ -s "$T/health" ] || [ -s "$T/records" ]; then
        heading 'Checks of the network'
        while IFS= read -r f; do
            line=$(read_file "$f" "$TEXT_MAX" | tr -d '\000' | head -n 1 | cut -d'|' -f1)
            state=$(printf '%s' "$line" | cut -d' ' -f2 | tr -cd '[:upper:]')
            printf '<p class="state %s"><b>%s</b> %s</p>\n' "$state" "$(escaped "${f##*/}")" "$(escaped "$line")"
            [ "$state" = OK ] || warn "${f##*/}: $line"
        done < "$T/health"
        while IFS= read -r f; do
            picture '' "picture of '$f'" horing-check --replay "$f" --svg
        done < "$T/records"
    fi
    [ ! -s "$T/bench" ] || heading Collectives
    while IFS= read -r f; do
        text '' "'$f'" read_file "$f" "$TEXT_MAX"
    done < "$T/bench"
}

hosts_of() { read_file "$1" $PLAN_MAX | sed -n 's/^  - host: *//p'; } # PLAN

# ---- A run that lasts ---------------------------------------------------------------------

# Whether a process holds the lock of a run.  A pipe may have taken its place since it was checked.
is_held() { # RUN
    check_file "$1" "$1/.lock"
    [ -e "$1/.lock" ] || return
    held=0
    # shellcheck disable=SC2016 # its own shell's
    timeout 5 sh -c 'exec flock -n -s -E 3 9 9< "$1"' sh "$1/.lock" 2> /dev/null || held=$?
    case $held in 0 | 3) [ $held = 3 ] ;; *) die "cannot read '$1/.lock', which shows whether the run lasts" ;; esac
}

# The log was copied before, so that no step is missing once the lock is free.
find_state() { # RUN
    run_state=ended
    read_log "$1"
    if is_held "$(original "$1")"; then
        run_state=training wait=$RESTART_S
    elif [ "${done_:-0}" != "${wanted:-0}" ] && [ $wait -gt 0 ]; then
        run_state='stopped, waiting for a restart' wait=$((wait - follow))
    fi
}

median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.6f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

seconds() { # TEXT
    printf '%s\n' "$1" | awk '
        !/^[0-9]/ { print "unknown"; next }
        { print ($1 < 0.1 ? sprintf("%.3g ms", 1000 * $1) : sprintf("%.3g s", $1)) }'
}

follow_rows() { # RUN
    read_log "$1"
    row state "step ${done_:-0} of ${wanted:-?}, $run_state"
    row loss "$(number loss "$last" | cut -c1-7 | grep . || echo unknown), $(number loss "$first" | cut -c1-7 | grep . || echo unknown) at first"
    row tokens/s "$(number tokens_per_s "$recent" | median | cut -d. -f1 | grep . || echo unknown) in the last $RECENT steps (median)"
    row step "$(seconds "$(number step_s "$recent" | median)") in the last $RECENT steps (median), predicted $(seconds "$(value step_s "$1/plan.yaml")")"
    traced=$(read_file "$log" "$bytes" | grep -a '"critical_path_s":.*}$' | tail -n 1)
    traced=${traced:+"$(seconds "$(number critical_path_s "$traced")") of $(seconds "$(number step_s "$traced")") in step $(number step "$traced")"}
    row 'critical path' "${traced:-unknown, no step was traced (paro-train --trace-step)}"
    latest=$(original "$1")/latest
    saved=$(readlink -- "$latest" | sed -n 's/^step-0*\([0-9]*\)$/\1/p') at=$(stat -c %Y -- "$latest" 2> /dev/null || date +%s)
    row checkpoint "${saved:+"step $saved, "}$([ -z "$saved" ] && echo none || echo $((($(date +%s) - at) / 60)) min ago)"
    if [ -z "${PARO_METER-}" ]; then
        row horing-watch 'unknown, PARO_METER names no folder of records'
    elif ask 'verdict of horing-watch' 'WATCH ' horing-watch; then
        line=$(head -n 1 "$T/out" | cut -d'|' -f1)
        row horing-watch "$line"
        case $line in 'WATCH WARNING'* | 'WATCH CRITICAL'*) warn "$line" ;; esac
    fi
}

facts() { # RUN
    plan=$1/plan.yaml
    printf '<table class="facts">\n'
    [ -z "$follow" ] || follow_rows "$1"
    if is_file "$plan"; then
        row strategy "$(value strategy "$plan"), $(value algo "$plan")"
        row batch "$(value accum "$plan") micro-batches of $(value micro_batch "$plan") x $(value seq "$plan") tokens on each rank at most"
        row model "$(block config "$plan" | sed -n 's/.*"model_type": *"\([^"]*\)".*/\1/p' | grep . || echo parameters), $(value trainable "$plan") trained parameters"
        row hosts "$(printf '%s groups: %s' "$(hosts_of "$plan" | grep -c '')" "$(hosts_of "$plan" | head -n 8 | tr -d '"' | tr '\n' ' ')" | sed 's/[: ]*$//')"
        row device "$(value device "$plan")"
    fi
    row 'page made' "$(date -u '+%Y-%m-%d %H:%M UTC') by paro-report $VERSION"
    row on "$(uname -n), $(uname -sr), $(nproc) processors$(sed -n 's/^model name[^:]*/ /p' /proc/cpuinfo | head -n 1 | tr -d :)"
    printf '</table>\n'
}

style() {
    cat << 'CSS'
:root { color-scheme: light dark; --ink: #1d232a; --paper: #fff; --soft: #f3f5f7; --line: #d5dae0; --quiet: #5b6672; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --paper: #15191e; --soft: #1f252c; --line: #39424c; --quiet: #9aa6b2; }
}
body { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { margin: 0 0 1rem; font-size: 1.75rem; }
h2 { margin: 2.5rem 0 .75rem; padding-bottom: .3rem; font-size: 1.2rem; border-bottom: 1px solid var(--line); break-after: avoid; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px; break-inside: avoid; }
figure svg, figure img { display: block; width: 100%; height: auto; }
pre { overflow-x: auto; padding: .75rem 1rem; font: .8rem/1.45 ui-monospace, monospace; background: var(--soft); border-radius: 6px; }
table { border-collapse: collapse; }
th { text-align: left; }
.facts th { padding: .1rem 1.5rem .1rem 0; font-weight: 400; color: var(--quiet); vertical-align: top; white-space: nowrap; }
.wide { overflow-x: auto; }
.list { width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
.list th, .list td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; text-align: right; }
.list th { font-weight: 600; color: var(--quiet); }
.list :is(th, td):nth-child(-n+2) { text-align: left; }
.warnings { padding: .75rem 1rem .75rem 2rem; background: var(--soft); border-left: 4px solid #d55e00; border-radius: 4px; }
.missing { color: var(--quiet); }
.state { margin: .4rem 0; padding: .4rem .8rem; background: var(--soft); border-left: 4px solid #cc79a7; border-radius: 4px; }
.state.OK { border-color: #009e73; }
.state.WARNING { border-color: #e69f00; }
.state.CRITICAL { border-color: #d55e00; }
@media print { body { max-width: none; padding: 0; } pre { font-size: 6.5pt; white-space: pre-wrap; } }
CSS
}

list() { # FILE HEADING CLASS
    [ -s "$1" ] || return 0
    heading "$2"
    printf '<ul class="%s">\n' "$3"
    awk '!seen[$0]++' "$1"
    printf '</ul>\n'
}

sections() {
    set --
    while IFS='	' read -r copy dir; do
        set -- "$@" "$copy"
    done < "$T/copies"
    for dir; do
        runs_of "$dir" | while IFS= read -r run; do
            name="Training: ${run%/*}"
            [ "$run" != "$dir" ] && [ "$#.${run%/*}" != "1.$dir" ] || name=Training
            printf '%s\t%s\n' "$(printf '%s' "$name" | sed 's,: \./,: ,')" "$run"
        done
    done > "$T/runs"
    cut -f 1 "$T/runs" | awk '!seen[$0]++' > "$T/names"
    while IFS= read -r name; do
        NAME=$name awk -F'\t' '$1 == ENVIRON["NAME"]' "$T/runs" | cut -f 2- > "$T/group"
        group "$name"
    done < "$T/names"
    details "$main"
    for dir; do
        if usable "$dir/fabric.yaml"; then
            fabric "$dir/fabric.yaml"
        elif [ "$dir" = "$main" ] && [ -s "$T/fabric.yaml" ]; then
            fabric "$T/fabric.yaml"
        elif [ ! -e "$dir/fabric.yaml" ] && [ ! -e "$dir/log.jsonl" ]; then
            missing "network of '$dir': no fabric.yaml"
        fi
        answers "$dir"
    done
    text "Settings: ${main#./}" "settings of '${main#./}'" read_file "$main/settings.yaml" "$TEXT_MAX"
}

page() { # TITLE
    title=$(escaped "$1")
    printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    printf '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    [ "$run_state" = ended ] || printf '<meta http-equiv="refresh" content="%d">\n' "$follow"
    printf '<title>%s</title>\n<style>\n' "$title"
    style
    printf '</style>\n</head>\n<body>\n<h1>%s</h1>\n' "$title"
    facts "$main"
    list "$T/warnings" Warnings warnings
    cat "$T/body"
    list "$T/missing" 'Not on this page' missing
    printf '</body>\n</html>\n'
}

# ---- Main ---------------------------------------------------------------------------------

# The page appears whole: renamed, or linked where nothing may be replaced.
publish() { # FILE
    dir=$(dirname -- "$1")
    temp=$dir/.$(basename -- "$1").paro-tmp
    rm -f -- "$temp"
    # -C: nobody has put a link there since.
    (set -C && cat "$T/page" > "$temp" && sync -- "$temp") 2> /dev/null || die "cannot write '$1'"
    if [ -n "$force" ]; then
        mv -f -T -- "$temp" "$1" 2> /dev/null || die "cannot replace '$1'"
    else
        ln -T -- "$temp" "$1" 2> /dev/null || die "cannot create '$1', expected a new name (or --force)"
    fi
}

output='' force='' title='' follow='' left=$#
while [ "$left" -gt 0 ]; do # operands move to the end, in their order
    word=$1 left=$((left - 1))
    shift
    case $word in
    -o | --output | --title)
        [ "$left" -gt 0 ] || die "option '$word' lacks its value"
        if [ "$word" = --title ]; then title=$1; else output=$1; fi
        left=$((left - 1))
        shift
        ;;
    --output=*) output=${word#*=} ;;
    --title=*) title=${word#*=} ;;
    -o?*) output=${word#-o} ;;
    --force) force=yes ;;
    --follow) follow=$FOLLOW_S ;;
    --follow=*) check_count --follow "${word#*=}" && follow=${word#*=} ;;
    --)
        while [ "$left" -gt 0 ]; do
            set -- "$@" "$1"
            left=$((left - 1))
            shift
        done
        ;;
    -?*) answer "$word" ;;
    *) set -- "$@" "$word" ;;
    esac
done
[ $# -gt 0 ] || die "missing operand, expected DIR: the folder of a run, or one that has runs"
[ -z "$follow" ] || [ -n "$output" ] || die "--follow lacks --output, expected a file to write again"
[ -z "$output" ] || [ -n "$force" ] || [ ! -e "$output" ] || die "'$output' exists, expected a new name (or --force)"
[ -z "$output" ] || [ ! -e "$output" ] || [ -f "$output" ] || die "'$output' is not a regular file, expected one to replace, or a new name"

PATH=$(cd "$(dirname -- "$0")" && pwd):$PATH
export LC_ALL=C
temp=''
T=$(mktemp -d) || die "cannot make a temporary folder"
trap 'rm -f -- "$temp"; rm -rf "$T"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
T=$(cd "$T" && pwd)
run_state=ended wait=$RESTART_S followed=''
while :; do
    rm -rf "${T:?}"/*
    : > "$T/warnings"
    : > "$T/missing"
    : > "$T/copies"
    said='' names='' first=$1
    for dir; do
        [ -d "$dir" ] || die "'$dir' is not a folder, expected that of a run or of runs"
        case $dir$(cd -- "$dir" && pwd -P) in
        *[[:cntrl:]]*) die "'$dir' has control characters in its name, expected none" ;;
        esac
        [ -n "$said" ] || said=$(copy_folder "$dir" 2>&1)
        names="$names${names:+, }$(basename -- "$dir")"
    done
    # The first run, and later that one: another may have begun.
    main=$(cut -f 1 "$T/copies" | while IFS= read -r copy; do runs_of "$copy"; done | while IFS= read -r run; do
        case ${followed:-$(original "$run")} in "$(original "$run")") echo "$run" && break ;; esac
    done)
    [ -n "$said$main" ] || die "no run in '$first', expected a folder with log.jsonl, there or one or two levels below"
    [ -n "$said" ] || [ -z "$follow" ] || { find_state "$main"; followed=$(original "$main"); }
    # What the commands say is on the page: anything said here is of a page that is not whole.
    [ -n "$said" ] || said=$({ sections > "$T/body" && page "${title:-$names}" > "$T/parts"; } 2>&1)
    [ -n "$said" ] || said=$(with_names "$T/parts" 2>&1 > "$T/raw")
    # Names and saved texts may have any bytes; a page is UTF-8.
    [ -n "$said" ] || said=$({ iconv -c -f UTF-8 -t UTF-8 "$T/raw" > "$T/page" || [ $? = 1 ]; } 2>&1)
    [ -z "$said" ] || die "cannot make the page in '$T': $(printf '%s' "$said" | head -n 1)"
    if [ -z "$output" ]; then
        rc=0
        cat "$T/page" 2> /dev/null || rc=$?
        [ $rc = 0 ] || [ $rc = 141 ] || die "cannot write to standard output"
        exit $rc
    fi
    publish "$output"
    [ "$run_state" != ended ] || exit 0
    force=yes
    nap=$follow
    [ "$run_state" = training ] || [ "$nap" -lt $RESTART_S ] || nap=$RESTART_S
    for _ in $(seq "$nap"); do sleep 1; done # a signal need not wait for long
done
