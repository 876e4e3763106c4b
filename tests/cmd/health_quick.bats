# SPDX-License-Identifier: BSD-3-Clause
# horing-check --level quick on a machine that a folder plays.  A run is a minute, or five, after
# the one before; what is said of each is what is tested.
#
# Each test has a clock of its own:
# shellcheck disable=SC2030,SC2031
load refuses
load health_box

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    make_box node3 --state state
    echo 11111111-2222-3333-4444-555555555555 > box/proc/sys/kernel/random/boot_id
    nic eth0 10000
}

# nic NAME MBIT: an interface of hardware that has a link.
nic() {
    local at=box/sys/class/net/$1
    mkdir -p "$at/statistics" "$at/device"
    echo 0x1003 > "$at/flags"
    echo up > "$at/operstate"
    echo full > "$at/duplex"
    put "$1" carrier 1 speed "$2" carrier_up_count 1 carrier_down_count 0 \
        statistics/{rx,tx}_packets=1000 statistics/{rx,tx,rx_crc,rx_missed,tx_carrier}_errors=0
}

# put NAME FILE VALUE FILE=VALUE...
put() {
    local at=box/sys/class/net/$1
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        *=*) echo "${1#*=}" > "$at/${1%%=*}" ;;
        *) echo "$2" > "$at/$1"; shift ;;
        esac
        shift
    done
}

# port NAME STATE PHYS RATE: an InfiniBand port.
port() {
    local at=box/sys/class/infiniband/$1 c
    mkdir -p "$at/counters"
    echo "$2" > "$at/state"
    echo "$3" > "$at/phys_state"
    echo "$4" > "$at/rate"
    echo InfiniBand > "$at/link_layer"
    for c in symbol_error port_rcv_errors link_error_recovery port_xmit_discards link_downed; do
        echo 0 > "$at/counters/$c"
    done
    echo 1000000 > "$at/counters/port_rcv_packets"
    echo 1000000 > "$at/counters/port_xmit_packets"
}

@test "a healthy host is OK in one line, from the first run on" {
    says 0 "^HORING OK - node3: 1 of 1 links have a carrier, no faults; first run"
    says 0 "^HORING OK - node3: 1 of 1 links have a carrier, no faults\|'eth0_err'=0c;;;0;$"
    [ "$(wc -l < out)" = 1 ]
    [ "$(cut -d'|' -f1 out | wc -c)" -le 80 ]
}

@test "a link that was there and is not: CRITICAL, kept for ten minutes, then over" {
    says 0 OK
    put eth0 carrier 0
    says 2 "^HORING CRITICAL - node3 lost the link of its port 'eth0'\|"
    put eth0 carrier 1
    says 2 "eth0' \(until [0-9:]+Z, not seen now; reported until [0-9:]+Z\)"
    says 0 '^HORING OK'
    grep -q "^CLEARED HC-201 node3 lost the link of its port 'eth0' (since .*Z, 10 min)$" out
    says 0 '^HORING OK'
    run ! grep CLEARED out
}

@test "a link that is away at the first run, and had been there: still CRITICAL at the second" {
    put eth0 carrier 0
    says 2 'lost the link'
    says 2 'lost the link'
    says 0 '^HORING OK' --accept-baseline
    says 0 '^HORING OK'
}

@test "a port without a cable, one that is set down, a bridge: nothing is said" {
    nic eth1 -1
    put eth1 carrier 0 carrier_up_count 0
    nic eth2 -1
    put eth2 carrier 0 flags 0x1002
    nic br0 1000
    rm -r box/sys/class/net/br0/device
    put br0 carrier 0
    nic eth0v0 1000
    mkdir box/sys/class/net/eth0v0/device/physfn
    put eth0v0 carrier 0
    says 0 OK
    says 0 OK
}

@test "a port that was in use and is set down is a WARNING, one that is gone CRITICAL" {
    nic eth1 10000
    says 0 OK
    put eth1 flags 0x1002 carrier 0
    says 1 "node3 port 'eth1' was in use and is set down"
    rm -r box/sys/class/net/eth1
    says 2 "node3 has no port 'eth1' any more"
    says 0 '^HORING OK' --accept-baseline
    says 0 '^HORING OK'
}

@test "errors count from the last run, not from the boot" {
    put eth0 statistics/rx_errors 5000
    says 0 OK
    says 0 OK
    put eth0 statistics/rx_errors 5009 statistics/rx_crc_errors 9 statistics/rx_packets 2000
    says 0 "'eth0_err'=9c"
    put eth0 statistics/rx_errors 5026 statistics/rx_crc_errors 26 statistics/rx_packets 3000
    says 1 "HORING WARNING - node3 port 'eth0' counts 17 rx_crc_errors in 1000 packets, in 5 min"
}

@test "few errors in very many packets are the physics of a link" {
    says 0 OK
    put eth0 statistics/rx_errors 20 statistics/rx_packets 90000000
    says 0 OK
    put eth0 statistics/rx_errors 200 statistics/rx_packets 180000000
    says 1 '180 rx_errors in 90000000 packets'
}

@test "what drips is added up for an hour" {
    says 0 OK
    for n in 4 8; do
        put eth0 statistics/rx_errors $n statistics/rx_packets $((1000 + n))
        says 0 OK
    done
    put eth0 statistics/rx_errors 12 statistics/rx_packets 1012
    says 1 '12 errors in 12 packets within an hour'
    NOW=$((NOW + 4000))
    says 0 OK
}

@test "a boot and a counter that went down begin anew" {
    put eth0 statistics/rx_errors 5000
    says 0 OK
    put eth0 statistics/rx_errors 40
    says 0 "'eth0_err'=U"
    put eth0 statistics/rx_errors 41
    says 0 "'eth0_err'=1c"
    put eth0 statistics/rx_errors 5000
    echo 99999999-2222-3333-4444-555555555555 > box/proc/sys/kernel/random/boot_id
    says 0 "'eth0_err'=U"
}

@test "a slower link, fewer lanes, half duplex" {
    port mlx5_0/ports/1 '4: ACTIVE' '5: LinkUp' '100 Gb/sec (4X EDR)'
    says 0 OK
    put eth0 speed 1000
    says 2 "eth0' runs at 1 of 10 Gbit/s"
    put eth0 speed 10000 duplex half
    port mlx5_0/ports/1 '4: ACTIVE' '5: LinkUp' '95 Gb/sec (2X EDR)'
    says 2 "mlx5_0/1' runs at 95 of 100 Gbit/s, 2 of 4 lanes" -v
    grep -q "^WARNING HC-204 node3 port 'mlx5_0/1' runs at" out
    NOW=$((NOW + 600))
    says 1 "eth0' runs at 10 of 10 Gbit/s, half duplex"
    says 0 '^HORING OK' -w 90: -c 50: --accept-baseline --disable speed
}

@test "InfiniBand: a port that is not ACTIVE, errors, a counter at its end" {
    port mlx5_0/ports/1 '4: ACTIVE' '5: LinkUp' '400 Gb/sec (4X NDR)'
    port mlx5_1/ports/1 '1: DOWN' '2: Polling' '10 Gb/sec (4X SDR)'
    says 0 OK
    echo '2: INIT' > box/sys/class/infiniband/mlx5_0/ports/1/state
    says 2 "mlx5_0/1' has a link and is not ACTIVE"
    echo '4: ACTIVE' > box/sys/class/infiniband/mlx5_0/ports/1/state
    NOW=$((NOW + 600))
    says 0 OK
    echo 30 > box/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error
    echo 2000000 > box/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets
    says 1 "mlx5_0/1' counts 30 symbol_error in 1000000 packets"
    NOW=$((NOW + 600))
    echo 65535 > box/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error
    says 1 'symbol_error' -v
    grep -q '^UNKNOWN HC-209 .* symbol_error .* 65535' out
}

@test "a flapping link: twice in a day is a WARNING, more than five times CRITICAL" {
    says 0 OK
    put eth0 carrier_down_count 1 carrier_up_count 2
    says 0 OK
    put eth0 carrier_down_count 2
    says 1 "eth0' lost its link 2 times within a day"
    put eth0 carrier_down_count 6
    says 2 "eth0' lost its link 6 times within a day"
    NOW=$((NOW + 86400))
    says 0 OK
}

@test "older kernels count changes of the carrier alone" {
    rm box/sys/class/net/eth0/carrier_{up,down}_count
    put eth0 carrier_changes 1
    says 0 OK
    put eth0 carrier_changes 7
    says 1 "eth0' lost its link 3 times"
}

@test "known noise is left out, by host and link and check, and until its day" {
    cat > conf <<END
format: paro-health-config/1
ignore:
  - link: eth[0-9]
    host: node*
    check: link
    until: $(date -u -d "@$((NOW + 86400))" +%F)
    reason: the cable is ordered
END
    says 0 OK
    put eth0 carrier 0
    says 0 '^HORING OK .*; 1 known\|' --config conf
    NOW=$((NOW + 3 * 86400))
    says 2 'lost the link' --config conf
}

@test "a check that is disabled is reported as such; all of them are UNKNOWN" {
    says 0 OK
    put eth0 carrier 0
    says 0 '^HORING OK .*; disabled: link\|' --disable link
    says 0 '"disabled":\["HC-201","errors"\]' --disable HC-201 --disable errors --json
    says 3 'every check of level quick is disabled' --disable link --disable errors \
        --disable speed --disable flaps
    says 2 'lost the link'
}

@test "what is expected is told before the first run has seen it" {
    printf 'format: paro-health-config/1\nexpect:\n  - link: eth0\n    speed: 25gbit\n    duplex: full\n  - link: eth9\n' > conf
    says 2 "eth0' runs at 10 of 25 Gbit/s; 1 more" --config conf -v
    grep -q "^CRITICAL HC-207 node3 has no port 'eth9', which is expected" out
}

@test "only what is new is printed with --notify, the status is always true" {
    says 0 '' --notify=change
    [ ! -s out ]
    put eth0 carrier 0
    says 2 'lost the link' --notify=change
    says 2 '' --notify=change
    [ ! -s out ]
    nic eth1 1000
    put eth1 duplex half
    says 2 '^NEW WARNING HC-204 .*eth1.* half duplex' --notify=change
    run ! grep 'NEW CRITICAL' out
    says 2 '' --notify=change
    [ ! -s out ]
    put eth1 duplex full
    says 2 '' --notify=change
    says 2 '^CLEARED HC-204' --notify=change # one is over, the other is not
    NOW=$((NOW + 43200))
    says 2 'lost the link' --notify=change,remind=12h
    says 2 '' --notify=change,remind=12h
    [ ! -s out ]
    put eth0 carrier 1
    NOW=$((NOW + 600))
    says 0 '^CLEARED HC-201' --notify=change
    says 0 '' --notify=change
    [ ! -s out ]
}

@test "--suggest prints the scheduler's line, quoted for a shell, and runs nothing" {
    says 0 OK
    put eth0 carrier 0
    says 2 '^scontrol update NodeName=node3 State=DRAIN Reason="horing: HC-201 node3 lost the link of its port eth0"$' \
        --suggest
    put eth0 carrier 1
    says 2 'not seen now; reported until' --suggest
    run ! grep scontrol out
}

@test "rates: what is CRITICAL is a WARNING, too; a range alone is judged for itself" {
    local slow='synth:8,port=1:90,noise=0.001'
    run -3 horing-check --replay "$slow" -w 50: -c 95:
    [[ $output == "HORING UNKNOWN - --critical '95:' alerts at 50 where --warning '50:' does not, "* ]]
    run -2 horing-check --replay "$slow" -c 97: # above the usual 96: of WARNING
    [[ $output == 'HORING CRITICAL - node1 '* ]]
    run -2 horing-check --replay "$slow" -w 95: -c 95:
    run -1 horing-check --replay "$slow" -w 95: -c 50:
    run -0 horing-check --replay "$slow" -w 50: -c 50:
}

# The second opinion: what a monitoring system makes of text and perfdata by themselves.
@test "rates: text, state and perfdata agree, however near to a threshold" {
    local p
    for p in 74.4 74.6 74.9 74.98 75.02 75.3 95.4 95.6 95.9 95.98 96.02 96.1; do
        horing-check --replay "synth:64,in=7:$p,noise=0.0001" > out || true
        perl -ne '
            sub alerts { my ($v, $r) = @_; my ($lo) = $r =~ /^([\d.]+):$/ or die "range $r"; $v < $lo }
            sub state { my ($v, $w, $c) = @_; alerts($v, $c) ? 2 : alerts($v, $w) ? 1 : 0 }
            /^HORING (\w+) - .*?([\d.]+) % of peers.*?\|(.*)/ or die "no answer";
            my ($want, $percent, $worst) = ({OK => 0, WARNING => 1, CRITICAL => 2}->{$1}, $2, 0);
            for (split " ", $3) {
                /=([\d.]+)MB;([^;]*);([^;]*);0;$/ or die "perfdata $_";
                my $is = state($1, $2, $3);
                $worst = $is if $is > $worst;
            }
            die "state $want, perfdata $worst, $percent %" if $want != $worst || $want != state($percent, "96:", "75:");
        ' out || { cat out; return 1; }
    done
}

@test "rates: a port outside a range that is OK has its reason" {
    run -0 horing-check --replay synth:8,noise=0.1,seed=1 -w 97: -vvv
    [[ ${lines[0]} == 'HORING OK - 8 hosts, 21 rounds, slowest node6 out 96 % of peers, within its noise|'* ]]
    [ "$(grep -c ', within its noise$' <<< "$output")" = 2 ]
    run -0 horing-check --replay synth:8,noise=0.1,seed=1 -w 97: --json
    [ "$(grep -o '"ok_because":"within its noise"' <<< "$output" | wc -l)" = 2 ]
    # Above as well as below.
    run -0 horing-check --replay synth:8,noise=0.1,seed=1 -w 90:103
    [[ $output == *', fastest node'*' of peers, within its noise|'* ]]
    run -0 horing-check --replay synth:8,noise=0.1,seed=1 -w 90:
    [[ $output == *', slowest node6 out 96 % of peers|'* ]]
}

@test "a speed that the kernel does not know is unknown, not 0" {
    put eth0 speed -1 duplex half
    says 1 "eth0' has an unknown speed, half duplex|" -vv
    grep -qx '  node3 eth0: up, speed unknown, errors unknown, packets unknown' out
    run ! grep -E '[^0-9]0 Gbit/s' out
}

@test "a textfile that is a pipe is refused, and nobody waits for who reads it" {
    mkfifo pipe
    refuses 3 "'pipe' regular file" timeout 20 horing-check --replay synth:8 --prom pipe
}

@test "a textfile in another user's folder: what lies there is not read whole, nor believed" {
    [ "$(id -u)" = 0 ] || skip 'takes two users'
    local as=(setpriv --reuid 65534 --regid 65534 --clear-groups sh -c) last success
    chmod 755 .
    mkdir theirs
    chown 65534 theirs
    "${as[@]}" 'truncate -s 60M theirs/horing.prom'
    (ulimit -v 50000 && says 3 'cannot read .*absent' --sys absent --prom theirs/horing.prom)
    grep -qx 'horing_last_success_timestamp_seconds 0' theirs/horing.prom
    for last in 99999999999:0 -5:0 1794000000:1794000000; do
        success=${last#*:} last=${last%:*}
        "${as[@]}" "rm theirs/horing.prom; printf '#\nhoring_last_success_timestamp_seconds $last\n' > theirs/horing.prom"
        says 3 'cannot read .*absent' --sys absent --prom theirs/horing.prom
        grep -qx "horing_last_success_timestamp_seconds $success" theirs/horing.prom
    done
    [ "$(stat -c '%u %a' theirs/horing.prom)" = '0 644' ]
}

@test "json and Prometheus say the same" {
    says 0 OK
    put eth0 carrier 0
    says 2 '"code":"HC-201","action":"isolate","host":"node3"' --json --prom horing.prom
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>); exit !($d->{schema} eq "paro.health/1" &&
        $d->{links}[0]{lost} && $d->{findings}[0]{link} eq "eth0" && $d->{status} == 2)' < out
    grep -qx 'horing_state 2' horing.prom
    grep -q '^horing_finding{code="HC-201",state="CRITICAL",host="node3",other_host="",device="eth0",' horing.prom
    grep -qx "horing_last_success_timestamp_seconds $NOW" horing.prom
    ! command -v promtool || promtool check metrics < horing.prom
    [ "$(grep -c '^# TYPE' horing.prom)" = "$(grep '^# TYPE' horing.prom | sort -u | wc -l)" ]
}

@test "what is no file of the kernel's does no harm, and is named" {
    mkfifo box/sys/class/net/eth0/statistics/x
    rm box/sys/class/net/eth0/{speed,statistics/rx_errors}
    mkfifo box/sys/class/net/eth0/speed
    head -c 100000 /dev/zero | tr '\0' 9 > box/sys/class/net/eth0/statistics/rx_errors
    mkdir 'box/sys/class/net/a b'
    echo 0x1003 > 'box/sys/class/net/a b/flags'
    echo -5 > box/sys/class/net/eth0/statistics/tx_errors
    says 3 "^HORING UNKNOWN - node3: cannot read 'speed' of port 'eth0', nor 2 other files"
    says 0 '^HORING OK.*; disabled: read' --disable read
}

@test "errors of a port that was new while its counter could not be read are no growth" {
    says 0 OK
    cp -r box/sys/class/net/eth0 box/sys/class/net/eth1
    echo junk > box/sys/class/net/eth1/statistics/rx_errors
    says 3 "cannot read 'statistics/rx_errors' of port 'eth1'"
    echo 5000 > box/sys/class/net/eth1/statistics/rx_errors
    says 0 '^HORING OK'
}

# unread FILE: what of eth0 stands there says no more; the port is judged by the rest.
unread() {
    says 3 "^HORING UNKNOWN - node3: cannot read '$1' of port '${2:-eth0}'"
    says 2 "lost the link of its port 'eth0'" --sys lost/sys --state lost/state
    grep -q "^HORING CRITICAL .*; 1 more" out
}

@test "a file that is there and cannot be read, is empty or holds junk, is named" {
    local file at
    says 0 OK
    for file in speed duplex operstate carrier_changes carrier_up_count carrier_down_count \
        statistics/{rx_packets,tx_packets,rx_errors,tx_carrier_errors}; do
        at=box/sys/class/net/eth0/$file
        rm -rf lost was "$at"
        ln -s "$(basename "$file")" "$at" # does not open, for root neither
        cp -r box lost
        cp -r state lost
        echo 0 > lost/sys/class/net/eth0/carrier
        unread "$file"
        rm "$at"
        : > "$at" # is empty
        says 3 "cannot read '$file' of port 'eth0'"
        rm "$at"
        mkdir "$at" # opens and does not read
        says 3 "cannot read '$file' of port 'eth0'"
        rmdir "$at"
        case $file in
        speed | statistics/* | carrier_*)
            for junk in abc 12x 0x10 99999999999999999999 1.5; do
                echo $junk > "$at"
                says 3 "cannot read '$file' of port 'eth0'"
            done
            ;;
        esac
        rm -f "$at"
        says 0 OK # what is not there at all is an older kernel's
        nic eth0 10000
        says 0 OK
    done
    for file in flags carrier; do # without these a port is neither lost nor left out
        at=box/sys/class/net/eth0/$file
        for junk in '' xyz; do
            echo "$junk" > "$at"
            says 3 "cannot read '$file' of port 'eth0'"
        done
        rm "$at"
        ln -s "$file" "$at"
        says 3 "cannot read '$file' of port 'eth0'"
        rm "$at"
        nic eth0 10000
    done
}

@test "InfiniBand's files alike" {
    local file junk at
    for file in state phys_state rate link_layer counters/{symbol_error,link_downed,port_rcv_packets}; do
        for junk in '' abc; do
            rm -rf box/sys/class/infiniband
            port mlx5_0/ports/1 '4: ACTIVE' '5: LinkUp' '400 Gb/sec (4X NDR)'
            [ "$file$junk" != link_layerabc ] || continue # any word names a layer
            echo "$junk" > "box/sys/class/infiniband/mlx5_0/ports/1/$file"
            says 3 "cannot read '$file' of port 'mlx5_0/1'"
        done
    done
    # This is how the kernel says that a device has no counters.
    port mlx5_0/ports/1 '4: ACTIVE' '5: LinkUp' '400 Gb/sec (4X NDR)'
    echo 'N/A (no PMA)' | tee box/sys/class/infiniband/mlx5_0/ports/1/counters/* > shown
    says 0 OK
    rm -r box/sys/class/infiniband/mlx5_0/ports
    ln -s ports box/sys/class/infiniband/mlx5_0/ports
    says 3 "cannot read 'ports' of port 'mlx5_0'"
    rm -r box/sys/class/infiniband
    ln -s infiniband box/sys/class/infiniband
    says 3 "'box/sys/class/infiniband'"
}

@test "errors that came while a counter could not be read are counted afterwards" {
    says 0 OK
    rm box/sys/class/net/eth0/statistics/rx_errors
    ln -s rx_errors box/sys/class/net/eth0/statistics/rx_errors
    says 3 "cannot read 'statistics/rx_errors'"
    rm box/sys/class/net/eth0/statistics/rx_errors
    put eth0 statistics/rx_errors 5000
    says 1 "counts 5000 rx_errors"
}

@test "long names and odd ones are ports like others" {
    local long
    long=$(printf 'x%.0s' {1..100})
    nic .eth1 1000
    nic 'a|b' 1000
    port "$long/ports/1" '4: ACTIVE' '5: LinkUp' '400 Gb/sec (4X NDR)'
    says 0 'node3: 4 of 4 links have a carrier'
    put 'a|b' carrier 0
    echo '1: DOWN' > "box/sys/class/infiniband/$long/ports/1/state"
    echo '2: Polling' > "box/sys/class/infiniband/$long/ports/1/phys_state"
    says 2 "node3 lost the link of its port 'a%7Cb'; 1 more\|" -v --prom p.prom
    grep -qE "^CRITICAL HC-201 node3 lost the link of its port 'xxx*\.\.x*/1#[0-9a-f]{8}'" out
    grep -qE '^horing_link_carrier\{host="node3",device="xx*\.\.x*/1#[0-9a-f]{8}"\} 0$' p.prom
    grep -qx 'horing_link_carrier{host="node3",device="a%7Cb"} 0' p.prom
    put 'a|b' carrier 1
    says 2 'not seen now; reported until'
}

@test "ports whose names become alike are two in every output, and in the state" {
    nic 'a|b' 1000
    nic 'a%7Cb' 1000
    says 0 '' --prom p.prom
    put 'a|b' carrier 0
    says 2 "^HORING CRITICAL - node3 lost the link of its port 'a%7Cb'\|'a%257Cb_err'=0c;;;0; 'a%7Cb_err'=0c" \
        --prom p.prom
    grep -qx 'horing_link_carrier{host="node3",device="a%7Cb"} 0' p.prom
    grep -qx 'horing_link_carrier{host="node3",device="a%257Cb"} 1' p.prom
    [ -z "$(grep -v '^#' p.prom | cut -d' ' -f1 | sort | uniq -d)" ]
    [ "$(grep -c '^{"nic":"a%' state/node3.quick)" = 2 ]
}

# bats test_tags=full
@test "more ports than are looked at are told, and those of hardware come first" {
    local i
    for ((i = 0; i < 4200; i++)); do
        mkdir "box/sys/class/net/veth$i"
        echo 0x1003 > "box/sys/class/net/veth$i/flags"
    done
    nic zz9 1000
    says 0 'node3: 2 of 2 links have a carrier'
    put zz9 carrier 0
    says 2 "lost the link of its port 'zz9'"
    put zz9 carrier 1
    for ((i = 0; i < 4200; i++)); do
        mkdir "box/sys/class/net/veth$i/device"
    done
    says 3 '^HORING UNKNOWN - node3 has 4202 ports, 106 of them .* \(4096 at most\)' --state none
}

@test "nothing to look at, or no /sys, is UNKNOWN" {
    rm -r box/sys/class/net/eth0
    says 3 '^HORING UNKNOWN - node3 has no network hardware that is up'
    rm -r box/sys
    says 3 "^HORING UNKNOWN - cannot read 'box/sys/class/net': No such file or directory$" --prom horing.prom
    grep -qx 'horing_state 3' horing.prom
}

@test "10 MiB, a second of processor time at the very most, and no MPI" {
    says 0 OK
    [ -z "${SAN-}" ] || skip "a sanitizer needs its own memory"
    run ! grep -E 'libmpi|libpmix|libopen' <(ldd "$BIN/horing-check")
    # Address space, of which what is resident is a part: a bound, with no clock in it.
    (ulimit -v 10240 && check > out && ulimit -t 1 && check > out)
}

@test "a host's name breaks neither the line nor what Prometheus reads" {
    printf 'a"b|c\377\n' > box/proc/sys/kernel/hostname
    says 0 "^HORING OK - a%22b%7Cc%FF: 1 of 1 links have"
    [ -s 'state/a%22b%7Cc%FF.quick' ]
    printf 'a/b\n' > box/proc/sys/kernel/hostname
    says 0 "^HORING OK - a/b: 1 of 1 links have"
    [ -s state/a_b.quick ]
    # What cannot be read is named in one line, too, and without perfdata.
    says 3 "^HORING UNKNOWN - cannot read 'two\?lines\?x'" --sys $'two\nlines|x' || says 3 . --sys $'two\nlines|x'
}
