# SPDX-License-Identifier: BSD-3-Clause
# horing-check -- LAUNCHER: one answer and its status, whatever becomes of the launcher.  The
# launchers are scripts here; tests/lab has mpirun, whose ranks are killed.
# shellcheck disable=SC2016
load refuses

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset STATE_DIRECTORY XDG_STATE_HOME OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID
}

# says STATUS LINE SCRIPT [OPTION...]: of a launcher that is a script of the shell, of UNKNOWN key
# words; and WORDS, nothing where that is not set, on standard error.
says() {
    local want=$1 line=$2 script=$3 rc=0
    shift 3
    timeout -s KILL 60 horing-check "$@" -- sh -c "$script" sh >out 2>said || rc=$?
    if [ $rc = "$want" ] && [ "$(cat said)" = "${WORDS-}" ]; then
        [ $rc != 3 ] || [ "$(wc -l <out)" != 1 ] || ! has_words "$(cat out)" "HORING UNKNOWN - $line" || return 0
        [ "$(cat out)" != "$line" ] || return 0
    fi
    echo "status $rc, expected $want, $line and '${WORDS-}':"
    cat out said
    return 1
}

@test "an answer and its status, however the launcher ends behind it" {
    says 1 'HORING WARNING - x|' 'printf "\004(HORING WARNING - x|\n\0041"'
    says 2 'HORING CRITICAL - x' 'printf "\004(HORING CRITICAL - x\n\0042"; exit 137'
    says 0 'HORING OK - x' 'printf "\004(HORING OK - x\n\0040more\n\0043"; kill -9 $$'
    # Nothing new is nothing printed, and a status all the same.
    says 2 '' 'printf "\004(\0042"; exit 1' --state state --notify=change
    # Longer than a pipe holds, and in pieces.
    says 0 "$(seq 99999)" 'printf "\004("; seq 50000; sleep 0.2; seq 50001 99999; printf "\004"; sleep 0.2; printf 0'
}

@test "what was said before the answer is no part of it" {
    run -1 --separate-stderr horing-check -- \
        sh -c 'echo Loading mpi; printf "\004(HORING WARNING - x|\n\0041"; echo bye'
    [ "$output" = 'HORING WARNING - x|' ]
    [ "$stderr" = 'Loading mpi' ]
    # A mark that is none, at once and in pieces.
    says 2 $'a\004b\004\nHORING CRITICAL - x' 'printf "\004(a\004b\004\nHORING CRITICAL - x\n\0042"'
    says 2 $'a\004' 'printf "\004(a\004"; sleep 0.2; printf "\004"; sleep 0.2; printf "2"'
    run -0 --separate-stderr horing-check -- \
        sh -c 'printf "x\004"; sleep 0.2; printf "(y\004"; sleep 0.2; printf "(OK\0040"'
    [ "$output" = OK ]
    [ "$stderr" = $'x\004(y' ]
    run -3 --separate-stderr horing-check -t 60 -- sh -c 'echo Loading mpi; exec "$@"' sh
    [[ $output == 'HORING UNKNOWN - one host'* ]] && [ "$stderr" = 'Loading mpi' ]
}

@test "what it starts is this command with its options, and a mark behind what that says" {
    says 0 'horing-check --mark-answer -t 3 -b x y' 'printf "\004("; echo "$@"; printf "\0040"' -t 3 -b 'x y'
    says 3 "one host '$(hostname)' two" 'exec "$@"' -t 60
    run -3 --separate-stderr horing-check -t 60 --json -- env
    [ -z "$output" ] && [[ $stderr == '{"error":{"code":"input","text":"one host'* ]]
}

@test "of a launcher that says much the end is kept" {
    # 330 MB of words in a fifth of that.
    timeout 60 bash -c 'ulimit -v 60000; exec horing-check -- \
        sh -c "yes some words | head -c 330000000; echo bye; printf \"\\004(OK\\0040\""' >out 2>said
    [ "$(cat out)" = OK ]
    [ "$(tail -n 1 said)" = bye ]
    [ "$(wc -c <said)" -ge 65536 ]
    [ "$(wc -c <said)" -lt 300000 ]
    # A mark that no answer follows is a word: no more is kept after it, and a later one counts.
    timeout 60 bash -c 'ulimit -v 300000; exec horing-check -- \
        sh -c "printf \"\\004(\"; yes some words | head -c 330000000; echo bye; printf \"\\004(OK\\0040\""' >out 2>said
    [ "$(cat out)" = OK ]
    [ "$(tail -n 1 said)" = bye ]
    [ "$(wc -c <said)" -ge 65536 ]
    [ "$(wc -c <said)" -lt 300000 ]
    run -3 --separate-stderr timeout 60 bash -c 'ulimit -v 300000; exec horing-check -- \
        sh -c "printf \"\\004(\"; yes some words | head -c 330000000; echo bye"'
    [[ $output == *"'sh' "*'status 0'*' 64 MiB'* ]]
    [ "${stderr##*$'\n'}" = bye ]
    [ ${#stderr} -le 65536 ]
    # A status without an answer is none.
    WORDS=$'\0040' says 3 "'sh' status 0" 'printf "\0040"'
}

# bats test_tags=full
@test "without an answer: UNKNOWN with the reason, status 3" {
    says 3 "'sh' status 1" 'exit 1'
    # What the launcher said last is why.
    WORDS='HORING OK - half' says 3 "'sh' status 0" 'echo HORING OK - half'
    WORDS='no such host' says 3 "no answer 'sh' 11 s" 'echo no such host; exec sleep 77' -t 1
    says 3 "'sh' status 137 (Killed)" 'kill -9 $$'
    # As mpirun has it, which is not killed itself; a mark that is none; one whose end is held.
    WORDS=$'\0047' says 3 "'sh' status 137 (Killed)" 'printf "\0047"; sleep 60 & exit 137'
    # Where it is started with no word of its children's ends.
    run -3 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' horing-check -- sh -c 'exit 7'
    has_words "$output" "HORING UNKNOWN - 'sh' status 7"
    refuses 3 "run './absent' No such file" horing-check -- ./absent
    run -3 --separate-stderr horing-check --learn -- false
    [ -z "$output" ] && has_words "$stderr" "horing-check: 'false' status 1"
}

# Neither gone nor ended and not yet collected.
lives() { grep -qs '^State:.[^Z]' "/proc/$1/status"; }
# A process that is killed is still there for a moment.
ended() { ! lives "$1"; }

# bats test_tags=full
@test "a launcher that hangs is ended with all that it started, and so is one that is asked to end" {
    local hangs='trap "" TERM; echo $$ > pid; sleep 300 & echo $! > child; kill -STOP $$; wait'
    says 3 "no answer 'sh' 11 s" "$hangs" -t 1
    [ ! -e "/proc/$(cat pid)" ]
    soon ended "$(cat child)"
    horing-check -- sh -c 'echo $$ > pid2; sleep 77' >out 2>said &
    until [ -s pid2 ]; do sleep 0.02; done
    kill "$!"
    ends 3 wait "$!"
    has_words "$(cat out)" "HORING UNKNOWN - ended 'sh'"
    [ ! -e "/proc/$(cat pid2)" ]
    # Nor does one that ends before what it started leave that behind, answer or not.
    local last
    for last in 'exit 0' 'printf "\004(OK\0040"'; do
        horing-check -- sh -c 'trap "" TERM; sleep 300 & echo $! > child; '"$last" || true
        soon ended "$(cat child)"
    done
    # Who is killed leaves none behind either.
    horing-check -- sh -c 'echo $$ > pid3; exec sleep 77' &
    until [ -s pid3 ]; do sleep 0.02; done
    kill -9 "$!"
    for _ in $(seq 500); do
        [ -e "/proc/$(cat pid3)" ] || return 0
        sleep 0.02
    done
    return 1
}

@test "a full disk takes the answer: status 3" {
    ends 3 horing-check -- sh -c 'printf "\004(HORING OK - x\n\0040"' >/dev/full 2>said
    grep -q 'cannot write to standard output' said
}

@test "a helper process that is stopped holds no pipe open behind the answer" {
    # The helper is there before MPI is, which takes far longer to start than a look.
    local helper='' reader
    { echo "$BASHPID" > pid; exec horing-check -t 30 2> said 3>&-; } | cat > out 3>&- &
    reader=$!
    until [ -s pid ]; do sleep 0.02; done
    while [ -z "$helper" ] && lives "$(cat pid)"; do
        helper=$(pgrep -n -P "$(cat pid)" -x horing-rounds || true)
    done
    [ -n "$helper" ] || skip 'the helper was gone before it could be stopped'
    kill -STOP "$helper"
    for _ in $(seq 1000); do
        lives "$reader" || break
        sleep 0.02
    done
    local left=0
    ! lives "$reader" || left=1
    kill -KILL "$helper" || true # of a command that left it
    [ "$left" = 0 ] && grep -q '^HORING UNKNOWN - one host' out
}
