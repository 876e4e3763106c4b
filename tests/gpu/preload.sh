#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# sh tests/gpu/preload.sh BUILD RANKS: the programs of tests/preload with libparo-nccl.so preloaded,
# RANKS of them on one GPU, each as if on a host of its own: NCCL lets ranks of one host not share
# a GPU.  Speaks TAP.
# shellcheck disable=SC2016
set -u
E=$1 n=$2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
{
    printf 'format: paro-tuning/1\nmembers: ['
    i=1
    while [ "$i" -lt "$n" ]; do printf '1, ' && i=$((i + 1)); done
    printf '1]\nrules:\n'
    for op in all-gather reduce-scatter all-reduce; do
        printf '  - op: %s\n    from_bytes: 0\n    algo: ho-ring\n    chunk_bytes: 61440\n' $op
    done
} >"$dir/tuning.yaml"
export E NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-lo}" PARO_DEBUG=1 \
    PARO_TUNING="$dir/tuning.yaml"
timeout -k 5 100 mpirun -n "$n" sh -c 'export NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
    LD_PRELOAD=$E/libparo-nccl.so exec "$E/preload/nccl_user"' >"$dir/said" 2>&1
rc=$?
sed 's/^/# /' "$dir/said" | grep -v 'paro-nccl: nccl'
if [ $rc = 0 ] && grep -qx 'ok 64' "$dir/said"; then
    echo "ok 1 - a program with libparo-nccl.so, $n ranks"
else
    echo "not ok 1 - a program with libparo-nccl.so, $n ranks (status $rc)"
fi
if [ "$(grep -c ': ours$' "$dir/said")" = $((60 * n)) ]; then
    echo "ok 2 - all but the unusual is done by schedules"
else
    echo "not ok 2 - all but the unusual is done by schedules"
fi

# WHAT LINE TIMES: nccl_end WHAT, ends well, and says LINE so often
ends() {
    tests=$((tests + 1))
    export WHAT="$1"
    timeout -k 5 40 mpirun -n "$n" sh -c 'export NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
        LD_PRELOAD=$E/libparo-nccl.so exec "$E/preload/nccl_end" $WHAT' >"$dir/said" 2>&1
    rc=$?
    if [ $rc = 0 ] && [ "$(grep -c ': over 0$' "$dir/said")" = "$n" ] &&
        [ "$(grep -c -- "$2" "$dir/said")" = "$3" ]; then
        echo "ok $tests - $1"
    else
        sed 's/^/# /' "$dir/said"
        echo "not ok $tests - $1 (status $rc)"
    fi
}
tests=2
ends simulate '^ok$' 1
ends grouped '^ok$' 1
ends capture '^ok$' 1
ends manners '^ok$' 1
# One whose work is all queued is back before the communicator is aborted.
ends abort ': all-reduce [06]$' $((n - 1))
ends revoke ': all-reduce [06]$' $((n - 1))

# TEST PATTERN: the line of horing-watch about the records
says() {
    tests=$((tests + 1))
    if grep -qE "^WATCH $2" "$dir/watch"; then
        echo "ok $tests - $1"
    else
        sed 's/^/# /' "$dir/watch"
        echo "not ok $tests - $1"
    fi
}
# By schedules and by NCCL alone, without records and with them.
table=$PARO_TUNING
for PARO_TUNING in "$table" ''; do
    for PARO_METER in '' "$dir/m"; do
        export PARO_TUNING PARO_METER
        ends late '^ok$' 1
        sed -n "s|^rank 0: ns|# by ${PARO_TUNING:-NCCL}, PARO_METER=$PARO_METER: ns|p" "$dir/said"
    done
    {
        perl tests/preload/meter_calls 121 "$dir"/m/*.nccl && "$E/bin/horing-watch" -v
    } >"$dir/watch" 2>&1
    sed 's/^/# /' "$dir/watch"
    says 'a late rank, by its records' '[A-Z]* - rank 1 (.*) is .* late in .* of all-reduces: its own compute'
    rm -rf "$dir/m"
done
PARO_TUNING=$table
ends 'abort 5000' ': all-reduce [06]$' $((n - 1)) &
for _ in $(seq 200); do
    sleep 0.1
    "$E/bin/horing-watch" --hang=0.5 >"$dir/watch" 2>&1
    grep -q CRITICAL "$dir/watch" && break
done
sed 's/^/# /' "$dir/watch"
wait
tests=$((tests + 1))
says 'whom a hang waits for' 'CRITICAL - hung: .* in all-reduce of 62.5 KiB 2 .*, rank 1 (.*) never arrived'

# NCCL with the plugin and nothing preloaded: every call is recorded and has ended.
tests=$((tests + 1))
export METER="$dir/meter"
timeout -k 5 100 mpirun -n "$n" sh -c 'export NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
    NCCL_PROFILER_PLUGIN=$E/libparo-nccl-plugin.so NCCL_TUNER_PLUGIN=$E/libparo-nccl-plugin.so \
        PARO_METER=$METER exec "$E/preload/nccl_user"' >"$dir/said" 2>&1
rc=$?
if [ $rc = 0 ] && [ "$(find "$METER" -type f | wc -l)" = "$n" ] && perl -e '
    for (@ARGV) {
        open my $f, "<", $_; local $/; $_ = <$f>;
        my ($begun, $ended) = unpack "q2", substr $_, 72;
        my @bad = grep { my ($in, $out) = unpack "q2", substr $_, 32; $in <= 0 || $out <= $in }
                  unpack "(a64)$begun", substr $_, 4096;
        print "# $begun calls, " . @bad . " without times\n";
        exit 1 if !$ended || $begun < 50 || @bad;
    }' "$METER"/*; then
    echo "ok $tests - records by NCCL's profiler interface"
else
    sed 's/^/# /' "$dir/said"
    echo "not ok $tests - records by NCCL's profiler interface (status $rc)"
fi
echo 1..$tests
