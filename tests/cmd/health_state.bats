# SPDX-License-Identifier: BSD-3-Clause
# What horing-check remembers: where, for whom, and what it says of a state that is not to be
# used.  Whatever is wrong is UNKNOWN, status 3, one line, with the reason.
#
# Each test has a clock of its own:
# shellcheck disable=SC2030,SC2031,SC2034,SC2086
load refuses
load health_box

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    make_box node3
    ONE_LINE=1
    unset STATE_DIRECTORY XDG_STATE_HOME
}

# unknown PATTERN: now, and the next run begins afresh and says so; then all is as ever.
unknown() {
    says 3 "^HORING UNKNOWN - .*$1" --state state
    [ ! -e state/node3.quick ]
    says 0 "begins afresh, the old state is 'state/node3.quick.bad'" --state state
    says 0 'no faults\|' --state state
}

@test "the folder is made, 0700, and holds a state, a lock and nothing else" {
    says 0 'first run' --state a/b/state
    [ "$(stat -c %a a/b/state)" = 700 ]
    [ "$(find a/b/state -type f -printf '%f\n' | sort | tr '\n' ' ')" = 'node3.quick node3.quick.lock ' ]
    says 0 'no faults\|' --state a/b/state
}

@test "systemd's folder first, then the user's; none where that is asked for" {
    says 0 'first run' --state none || says 0 'no faults\|' --state none
    [ -z "$(find . -name '*.quick')" ]
    STATE_DIRECTORY=$PWD/one:$PWD/two says 0 'first run'
    [ -s one/node3.quick ]
    [ ! -e two ]
    [ "$(id -u)" != 0 ] || skip 'root has /var/lib/horing-check'
    XDG_STATE_HOME=$PWD/xdg says 0 'first run'
    [ -s xdg/horing-check/node3.quick ]
    HOME=$PWD/home says 0 'first run'
    [ -s home/.local/state/horing-check/node3.quick ]
}

@test "two at once: the second says so at once" {
    says 0 'first run' --state state
    mkfifo ready hold
    flock state/node3.quick.lock sh -c 'echo > ready; cat hold' 3>&- &
    read -r < ready
    says 3 "^HORING UNKNOWN - another check is running, it holds 'state/node3.quick.lock'$" --state state \
        --prom horing.prom
    [ ! -e horing.prom ] # the other writes it
    echo > hold
    wait
    says 0 'no faults\|' --state state
}

@test "who may read the folder cannot hold its lock" {
    [ "$(id -u)" = 0 ] || skip 'takes two users'
    local as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    chmod 755 .
    mkdir -m 755 state
    says 0 'first run' --state state
    run ! "${as[@]}" flock -n state/node3.quick.lock true
    chmod 644 state/node3.quick.lock # of an older version
    says 0 'no faults' --state state
    run ! "${as[@]}" flock -n state/node3.quick.lock true
}

@test "a state from the future; a clock that was put back a little is none" {
    says 0 'first run' --state state
    NOW=$((NOW - 400))
    says 0 'no faults\|' --state state
    NOW=$((NOW - 86400))
    unknown "from the future"
}

@test "another version, a half-written file, a changed one, an empty one, a binary one" {
    says 0 'first run' --state state
    sed -i '1s,state/2,state/1,' state/node3.quick
    unknown "is 'paro-health-state/1', expected 'paro-health-state/2'"
    truncate -s -9 state/node3.quick
    unknown 'is cut or changed'
    sed -i 's/"runs":[0-9]*/"runs":77/' state/node3.quick
    unknown 'is damaged'
    : > state/node3.quick
    unknown "is '', expected the format paro-health-state/2"
    head -c 4096 "$BIN/horing-check" > state/node3.quick
    unknown 'expected the format paro-health-state/2'
    printf '{"format":"paro-health-state/2","runs":1}\n\0\n' > state/node3.quick
    unknown 'is cut or changed'
}

# stands LINE: where --json says that the state is wrong.
stands() {
    rc=0
    check --state state --json > out 2> said || rc=$?
    [ $rc = 3 ]
    [ ! -s out ]
    perl -MJSON::PP -0777 -e 'my ($line) = splice @ARGV, 1; my $e = decode_json(<>)->{error};
        exit !($e->{file} eq "state/node3.quick" && $e->{line} == $line
               && $e->{text} =~ /kept as .bad/)' said "$1" || { cat said; return 1; }
    rm -r state
    says 0 'first run' --state state
}

@test "--json says the file and the line of a state that is not to be used" {
    says 0 'first run' --state state
    sed -i '1s,state/2,state/1,' state/node3.quick
    stands 1
    NOW=$((NOW - 86400))
    stands 1
    sed -i 's/"said":0/"said":1/' state/node3.quick
    stands "$(wc -l < state/node3.quick)"
}

@test "another host's state" {
    says 0 'first run' --state state
    mv state/node3.quick state/node4.quick
    echo node4 > box/proc/sys/kernel/hostname
    says 3 "is of host 'node3', expected 'node4'" --state state
}

@test "a folder that others write to, a link, a file; a state that is a link" {
    mkdir -m 777 open
    says 3 "'open' has mode 777, expected one that only its owner writes to" --state open
    mkdir real
    ln -s real link
    says 3 "'link' is a symbolic link, expected a folder" --state link
    : > plain
    says 3 "'plain' is a file, expected a folder" --state plain
    : > target
    mkdir -m 700 state
    ln -s "$PWD/target" state/node3.quick
    says 3 "state/node3.quick: is no plain file" --state state
    [ ! -s target ]
    ln -s "$PWD/target" real/node3.quick.lock
    says 3 "cannot open lock 'real/node3.quick.lock'" --state real
}

@test "a folder that cannot be made says why" {
    says 3 "cannot make the state's folder '/sys/horing': (Operation not permitted|Permission denied|Read-only)" \
        --state /sys/horing
}

@test "another user's folder" {
    [ "$(id -u)" = 0 ] || skip 'only root can give a folder away'
    mkdir -m 700 theirs
    chown 1 theirs
    says 3 "'theirs' .* user 1, expected 0" --state theirs
}

@test "a way through another user's link or folder in a sticky one: nothing is made behind it" {
    [ "$(id -u)" = 0 ] || skip 'takes two users'
    local as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    mkdir -m 1777 tmp
    mkdir -m 755 secret
    chmod 755 "$BATS_TEST_TMPDIR"
    "${as[@]}" ln -s "$PWD/secret" tmp/link
    "${as[@]}" mkdir tmp/folder
    says 3 "'tmp/link/state' .*symbolic link '.*/tmp/link' of user 65534" --state tmp/link/state
    says 3 "'tmp/link/a/state' .*symbolic link '.*/tmp/link' of user 65534" --state tmp/link/a/state
    says 3 "'tmp/folder/state' lies in '.*/tmp/folder' of user 65534" --state tmp/folder/state
    [ -z "$(find secret tmp/folder -mindepth 1)" ]
    # One of ours leads there, wherever it leads through.
    ln -s "$PWD/secret" tmp/ours
    ln -s ../tmp/ours/b secret/again
    says 0 'first run' --state tmp/ours/b/../again/c/state
    [ -s secret/b/c/state/node3.quick ]
    ln -s loop loop
    says 3 "cannot find the state's folder 'loop/state'" --state loop/state
}

@test "a folder in one that others may rename it in" {
    mkdir open
    chmod 777 open
    says 3 "'open/a/state' lies in '.*/open', which everyone writes to" --state open/a/state
    chmod 1777 open # as /tmp
    says 0 'first run' --state open/state
    [ "$(id -u)" = 0 ] || skip 'only root can give a folder away'
    mkdir theirs
    chown 1 theirs
    says 3 "'theirs/state' lies in '.*/theirs' of user 1" --state theirs/state
    mkdir shared
    chown 0:50 shared
    chmod 2775 shared
    says 3 "'shared/state' lies in '.*/shared', which group 50 writes to" --state shared/state
    chmod 3775 shared
    says 0 'first run' --state shared/state
    # Nothing is made in what is refused.
    [ -z "$(ls -A theirs)" ]
    [ ! -e open/a ]
    # What is not mapped into a namespace of users looks like one user there.
    chown 0 theirs
    ! unshare -Ur true || SOURCE_DATE_EPOCH=$NOW unshare -Ur horing-check --level quick --sys box/sys \
        --proc box/proc --state theirs/ours
}

@test "a full disk: UNKNOWN, and the old state stays" {
    says 0 'first run' --state state
    cp state/node3.quick was
    run --separate-stderr -3 sh -c 'ulimit -f 0 && trap "" XFSZ && exec "$@"' - horing-check \
        --level quick --sys box/sys --proc box/proc --state state
    [[ "${#lines[@]}" = 1 && "$output" == "HORING UNKNOWN - cannot write 'state/node3.quick'"* ]]
    cmp state/node3.quick was
}

@test "a baseline is what is printed: what is wrong goes to standard error" {
    run -3 --separate-stderr horing-check --learn -t 0
    [ -z "$output" ] && has_words "$stderr" "--timeout '0'"
}

# at MINUTE SPEC STATUS PATTERN: a run on a made-up fabric; the pattern is of all that it prints,
# lines joined by a bar, "" of nothing.
at() {
    local rc=0 text
    SOURCE_DATE_EPOCH=$((1795000000 + 60 * $1)) horing-check --replay "synth:8,seed=$1$2" \
        --state fabric --notify=change,remind=12h > out 2> said || rc=$?
    text=$(cut -d'|' -f1 out | paste -sd'|')
    if [ $rc = "$3" ] && [ ! -s said ] && [[ $text =~ ^$4$ ]]; then return; fi
    echo "at $1 min: status $rc, expected $3 and '$4':"
    cat out said
    return 1
}

@test "what is told of a fabric over many runs" {
    local minute
    at 0 '' 0 ''
    # Found, confirmed by a second look, told once.
    at 5 ,port=3:60 2 'HORING CRITICAL - node3 [^|]*\|NEW CRITICAL HC-301 node3 [^|]*'
    at 10 ,port=3:60 2 ''
    # Another one: alone new.
    at 15 ,port=3:60,corrupt=5 2 'HORING CRITICAL - [^|]*\|NEW CRITICAL HC-501 node5 sends[^|]*'
    # Milder: what was CRITICAL stays so for ten minutes after it was seen so, then is told anew.
    at 20 ,port=3:85,corrupt=5 2 ''
    at 24 ,port=3:85,corrupt=5 2 ''
    at 26 ,port=3:85,corrupt=5 2 'HORING CRITICAL - [^|]*\|NEW WARNING HC-301 node3 [^|]*'
    # One mended: cleared ten minutes after it was last seen.
    at 31 ,corrupt=5 2 ''
    at 35 ,corrupt=5 2 ''
    at 36 ,corrupt=5 2 'HORING CRITICAL - [^|]*\|CLEARED HC-301 node3 [^|]* \(since 11:11Z, 31 min\)'
    # A reminder is due 12 hours after something was last printed, and not before.
    at 755 ,corrupt=5 2 ''
    at 756 ,corrupt=5 2 'HORING CRITICAL - node5 sends[^|]*'
    at 757 ,corrupt=5 2 ''
    # Nothing could be measured: told, and it clears nothing.
    at 770 ,corrupt=5,cut=0 2 '.*HC-901.*' # rounds were not finished
    at 780 '' 0 '.*CLEARED HC-501 node5.*'
    for minute in 790 800; do
        at $minute '' 0 ''
    done
    # A link that flaps in every second run is one problem that stays, told once, cleared once.
    at 900 ,flap=2 1 'HORING WARNING - node2 port[^|]*\|NEW WARNING HC-205 [^|]*'
    for minute in 905 915 925; do
        at $minute '' 1 ''
        at $((minute + 5)) ,flap=2 1 ''
    done
    at 935 '' 1 ''
    at 940 '' 0 'HORING OK - [^|]*\|CLEARED HC-205 node2 [^|]* \(since [^|]*, 40 min\)'
    at 945 '' 0 ''
}

@test "Prometheus keeps when a check last could tell, also where nothing is remembered" {
    NOW=1795000000
    success() { sed -n 's/^horing_last_success_timestamp_seconds //p' horing.prom; }
    SOURCE_DATE_EPOCH=$NOW horing-check --replay synth:8 --prom horing.prom
    [ "$(success)" = $NOW ]
    # Rounds that were not finished, then no answer at all.
    SOURCE_DATE_EPOCH=$((NOW + 300)) run -2 horing-check --replay synth:8,cut=0 --prom horing.prom
    [ "$(success)" = $NOW ]
    SOURCE_DATE_EPOCH=$((NOW + 600)) run -3 horing-check --replay nowhere --prom horing.prom
    [ "$(success)" = $NOW ]
    SOURCE_DATE_EPOCH=$((NOW + 900)) horing-check --replay synth:8 --prom horing.prom
    [ "$(success)" = $((NOW + 900)) ]
}

@test "the two halves of the command are of one version" {
    refuses 3 "horing-check 0.0.9 horing-rounds $(horing-check -V | cut -d' ' -f2)" \
        env HORING_CHECK_VERSION=0.0.9 "$BIN/horing-rounds"
}

@test "a kernel or a file system that does not answer: UNKNOWN in time" {
    rm box/proc/sys/kernel/hostname
    mkfifo box/proc/sys/kernel/hostname config
    says 3 '^HORING UNKNOWN - no answer within 1 s$' --state none -t 1
    run -3 --separate-stderr timeout 60 horing-check --level quick --proc box/proc --state none -t 1 --json
    [ -z "$output" ]
    has_words "$stderr" '{"error":{"code":"system","text":"no answer 1 s'
    for option in '--config config' '--replay config' '--replay synth:8 -b config'; do
        refuses 3 'no answer 1 s' timeout 60 horing-check $option -t 1
    done
}
