# SPDX-License-Identifier: BSD-3-Clause
# paro-run among commands that only answer: a signal that comes while it looks for returned hosts.

bats_require_minimum_version 1.5.0

tool() { { echo '#!/bin/sh' && cat; } > "tools/$1" && chmod 755 "tools/$1"; }

@test "a signal while hosts are looked for stops the run, though some have returned" {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir tools run
    touch run/.lock
    tool paro-topo <<< 'printf "a slots=1\nb slots=1\n"'
    tool paro-plan <<< 'echo "strategy: NNN"'
    # Host b is there from the second look on, during which the signal comes.
    tool paro-launch <<'END'
case "$*" in
*one.a*) echo 'HORING OK - a' ;;
*one.b*)
    [ -e looked ] || { : > looked; exit 2; }
    echo 'HORING OK - b'
    [ -e signalled ] || { : > signalled; sleep 0.5; kill -TERM "$(cat pid)"; }
    ;;
*)
    [ ! -e started ] || exit 0
    : > started
    until [ -e run/STOP ]; do sleep 0.1; done
    exit 3
    ;;
esac
END
    # shellcheck disable=SC2016 # the dollars are of that shell
    run -3 timeout 60 sh -c 'echo $$ > pid; PATH=$PWD/tools:$BIN:$PATH; exec paro-run -i f -m m -o run --grow 1 --'
    [[ $output == *'stopping in good order'* ]]
    [[ $output != *'hosts have returned'* ]]
}
