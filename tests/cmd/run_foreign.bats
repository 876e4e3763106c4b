# SPDX-License-Identifier: BSD-3-Clause
# paro-run in a folder where another user may write: what he put there is neither a command nor waited for,
# and leads nowhere.  65534 prepares, root runs.  The commands that it starts only answer.
# shellcheck disable=SC2016

load shard
load mounts

tool() { { echo '#!/bin/sh' && cat; } > "tools/$1" && chmod 755 "tools/$1"; }

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir tools
    tool paro-topo <<< 'printf "a slots=1\n"'
    # What it is asked, a word a line.
    tool paro-plan <<< 'printf "%s\n" "$@" > asked; echo "strategy: NNN"'
    tool paro-launch <<'END'
case "$*" in
*one.a*) echo 'HORING OK - a' ;;
*) [ ! -e hold ] || { touch launched; sleep 2; [ ! -L run/STOP ] || [ ! -e target ] || exit 9; exit 3; } ;;
esac
END
    PATH=$PWD/tools:$BIN:$PATH
}

go() { timeout -k 1 20 paro-run -i f -m m -o run "$@" --; }

two_users() {
    [ "$(id -u)" = 0 ] || skip "this takes root"
    command -v setpriv > /dev/null || skip "no setpriv here"
    cp -r tools "$BATS_TEST_TMPDIR/keep"
    open_place
    cp -r "$BATS_TEST_TMPDIR/keep" tools
    PATH=$PWD/tools:$PATH
    run_as_user true || skip "no other user here"
}

@test "the global batch of a run is a number; nothing else of its plan becomes an option" {
    mkdir run
    echo 'global_batch: 12' > run/plan.yaml
    go 2> said
    grep -qx -- --global-batch=12 asked
    for text in '12 --svg=target --force' '$(touch target)' '012' "1'2" '-1' '99999999999999999999'; do
        echo "global_batch: $text" > run/plan.yaml
        go 2> said
        run ! grep -qE 'svg|force|global' asked
        [ ! -e target ]
    done
}

@test "what stands in the place of a run's files is refused before it is read" {
    mkdir run
    for name in plan.yaml log.jsonl; do
        mkfifo run/$name
        refuses 2 "'run/$name' not a regular file" go
        rm run/$name
        echo 'global_batch: 3' > secret
        ln -s ../secret run/$name
        refuses 2 "'run/$name' not a regular file" go
        rm run/$name
    done
    [ ! -e asked ]
}

@test "another user's run folder, or a link or file of his in it, is refused" {
    two_users
    mkdir -m 777 open
    run_as_user mkdir -m 777 open/run
    run_as_user sh -c 'echo "global_batch: 8" > open/run/plan.yaml'
    refuses 2 "'open/run' user 65534" go -o open/run
    mkdir mine
    run_as_user ln -s "$PWD/mine" open/link
    refuses 2 "'open/link' user 65534" go -o open/link
    for make in 'touch plan.yaml' 'touch log.jsonl' 'ln -s step-3 latest'; do
        mkdir -m 777 run
        run_as_user sh -c "cd run && $make"
        refuses 2 "'run/${make##* }' user 65534" go
        rm -r run
    done
    # Root's own is his.
    mkdir run
    go 2> said
}

@test "the text of a link is no expression, whatever sh is" {
    mkdir run
    ln -s 'step-PATH[$(touch hacked)]' run/latest
    for sh in sh bash; do
        timeout 20 $sh "$BIN/paro-run" -i f -m m -o run -- 2> said
        grep -q 'from step 1:' said
        [ ! -e hacked ]
    done
    ln -sfn step-00000012 run/latest
    go 2> said
    grep -q 'from step 13:' said
}

@test "a signal that also ends what a look has started is no stall" {
    mkdir run
    touch run/.lock hold
    tool date <<'END'
[ "$1" != +%s ] || [ -e ended ] || { touch ended; kill -TERM $$; }
exec /bin/date "$@"
END
    rm -f target
    go 2> said || [ $? = 3 ]
    [ -e ended ]
    run ! grep 'no step has ended' said
}

@test "a STOP that is a link leads nowhere" {
    mkdir run
    touch run/.lock hold
    ln -s ../target run/STOP
    timeout 20 paro-run -i f -m m -o run -- 2> said &
    until [ -e launched ]; do sleep 0.05; done
    kill -TERM $!
    ends 3 wait $!
    [ ! -e target ]
}

@test "--log: a file of this user's with one name, or none yet" {
    go --log log 2> said
    grep -q 'on 1 of 1 hosts' log
    echo old > victim
    ln -s victim link
    refuses 2 "'link' not a regular file" go --log link
    ln -s absent dangling
    refuses 2 "'dangling' not a regular file" go --log dangling
    [ ! -e absent ]
    mkfifo pipe
    refuses 2 "'pipe' not a regular file" go --log pipe
    ln victim second
    refuses 2 "'second' 2 names" go --log second
    [ "$(cat victim)" = old ]
    two_users
    mkdir -m 777 open
    run_as_user touch open/log
    refuses 2 "'open/log' user 65534" go --log open/log
    [ ! -s open/log ]
}

@test "why a host does not answer is said" {
    tool paro-launch <<'END'
echo 'paro-launch: found hostfile (h), hosts: 1, ranks: 1' >&2
printf '%s\n' '-----' 'ssh: connect to host a port 22: Connection refused' more >&2
exit 1
END
    run -2 go
    [[ $output == *'a is left out: it does not answer: ssh: connect to host a port 22: Connection refused'* ]]
    tool paro-launch <<< 'exit 7'
    run -2 go
    [[ $output == *'a is left out: it does not answer: status 7'* ]]
}

@test "with a full temporary folder no host is blamed" {
    small_disk 'TMPDIR=$PWD/full timeout 20 paro-run -i f -m m -o run --' true
    dd if=/dev/zero of=zeros bs=4k count=64 status=none
    tool paro-topo <<< 'printf "a slots=1\n"; cat zeros > full/zeros 2> no; exit 0'
    refuses 2 "cannot write to TMPDIR" "${ALONE[@]}" sh inside 64k
}
