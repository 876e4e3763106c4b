# SPDX-License-Identifier: BSD-3-Clause
# examples/health: each is used as what it is for would use it, on a host that a folder plays.
bats_require_minimum_version 1.5.0
load health_box

setup() {
    EX=$ROOT/examples/health
    cd "$BATS_TEST_TMPDIR" || return
    make_box node17
    mkdir node-exporter
    echo 1 > box/sys/class/net/eth0/carrier_up_count
    HERE=$PWD
}

# A command of an example, with this machine's paths for those of an installation.
here() {
    sed "s|/usr/local/bin/horing-check|$BIN/horing-check|g; s|/var/lib/horing-check|$HERE/state|g
        s|/var/lib/prometheus|$HERE|g
        s|horing-check --level quick|& --sys $HERE/box/sys --proc $HERE/box/proc|g"
}

unplug() { echo 0 > box/sys/class/net/eth0/carrier; }

# bats test_tags=full
@test "crontab: the command runs with cron's environment, and mails on change alone" {
    local command
    grep -vE '^(#|[A-Z]+=)' "$EX/crontab" > lines
    [ "$(wc -l < lines)" = 2 ]
    # Five fields of time, a user, a command without the % that cron takes for a line's end.
    [ "$(grep -cE '^([0-9*/]+ ){5}[a-z]+ [^%]+$' lines)" = 2 ]
    command=$(sed -n 's/^\([0-9*/]* \)\{5\}root \(horing-check --level .*\)/\2/p' lines | here)
    [ -n "$command" ]
    job() { env -i PATH="$BIN:/usr/bin:/bin" HOME=/ SHELL=/bin/sh sh -c "$command" > mail 2>&1; }
    job
    [ ! -s mail ]
    unplug
    run -2 job
    [ "$(grep -c '' mail)" = 2 ]
    grep -q "^HORING CRITICAL - node17 lost the link of its port 'eth0'" mail
    run -2 job
    [ ! -s mail ]
    # The other has mpirun, which has to run as cron's root and to add nothing to the mail: one
    # rank here, which is told so.
    command=$(sed -n 's/.* root \(horing-check -b .*\) --hostfile.*/\1 -n 1/p' lines | here)
    [ -n "$command" ]
    run -3 job
    [ "$output" = '' ]
    grep -q "^HORING UNKNOWN - one host ('$(hostname)')" mail
    [ "$(grep -c '' mail)" = 1 ]
}

@test "systemd: the units are ones, and the service's command runs with its environment" {
    local command
    command=$(sed -n 's/^ExecStart=//p' "$EX/horing-check.service" | here)
    STATE_DIRECTORY=$PWD/state sh -c "$command" > journal
    [ ! -s journal ]
    [ -s state/node17.quick ]
    grep -qx 'horing_state 0' node-exporter/horing.prom
    for word in StateDirectory=horing-check StateDirectoryMode=0700 ProtectSystem=strict Type=oneshot; do
        grep -qx "$word" "$EX/horing-check.service"
    done
    grep -qE '^RandomizedDelaySec=[0-9]+$' "$EX/horing-check.timer"
    command -v systemd-analyze > /dev/null || skip 'no systemd-analyze here'
    mkdir units
    here < "$EX/horing-check.service" > units/horing-check.service
    cp "$EX/horing-check.timer" units
    # The pages of an installation are not here: man: is not asked for.
    SYSTEMD_UNIT_PATH=$PWD/units: systemd-analyze verify --man=no units/horing-check.{service,timer} > said 2>&1
    run ! grep -F "$PWD/units" said
    systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' "$EX/horing-check.timer")" > /dev/null
}

# As the service runs: root with the capabilities that it is left, CAP_DAC_OVERRIDE or none.
bounded() {
    local caps=-all
    [ -z "$1" ] || caps="-all,+$(echo "${1#CAP_}" | tr '[:upper:]' '[:lower:]')"
    setpriv --bounding-set="$caps" sh -c "$2"
}

@test "systemd: the service writes into a folder of node_exporter's user, and nothing else" {
    local command caps exposed
    if command -v systemd-analyze > /dev/null; then # 3.0 of 10
        exposed=$(systemd-analyze security --offline=yes --threshold=30 "$EX/horing-check.service" 2>&1) ||
            [[ $exposed == *nknown\ option* || $exposed == *unrecognized* ]] || { echo "$exposed"; return 1; }
    fi
    [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null || skip 'this takes root and setpriv'
    setpriv --bounding-set=-all true || skip 'capabilities cannot be left here'
    command=$(sed -n 's/^ExecStart=//p' "$EX/horing-check.service" | here)
    caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$EX/horing-check.service")
    # Where it writes is what it may write to.
    [[ $command == *" --prom $HERE/node-exporter/"* ]]
    [ "$(sed -n 's/^ReadWritePaths=-//p' "$EX/horing-check.service" | here)" = "$HERE/node-exporter" ]
    chown 65534 node-exporter
    export STATE_DIRECTORY=$PWD/state
    bounded "$caps" "$command"
    grep -qx 'horing_state 0' node-exporter/horing.prom
    [ "$(stat -c %a node-exporter/horing.prom)" = 644 ]
    # With none it cannot, unless a group may.
    run -3 bounded '' "$command"
    [[ $output == "HORING UNKNOWN - cannot create '"*"Permission denied" ]]
    chmod 775 node-exporter
    chown 65534:0 node-exporter
    bounded '' "$command"
}

# bats test_tags=full
@test "Nagios: status, one line below 80 characters, perfdata of the guidelines" {
    local command
    # shellcheck disable=SC2016 # the macros are Nagios' own
    command=$(sed -n 's/^ *command_line *\(.*horing-check .*\)/\1/p' "$EX/nagios.cfg" | here |
        sed 's/\$ARG1\$/96:/; s/\$ARG2\$/75:/')
    [ -n "$command" ]
    # As Nagios: the first line of standard output, and the status.
    plugin() {
        rc=0
        sh -c "$command" > all || rc=$?
        line=$(head -n 1 all) text=${line%%|*} perf=${line#*|}
        echo "$perf" | grep -qE "^('[^'=]+'=([0-9.]+[a-zA-Z%]*|U)(;[^; ]*){0,4} ?)+$"
    }
    plugin
    [ $rc = 0 ]
    plugin
    [ $rc = 0 ]
    [ "${text%% - *}" = 'HORING OK' ]
    [ ${#text} -lt 80 ]
    unplug
    plugin
    [ $rc = 2 ]
    [ "${text%% - *}" = 'HORING CRITICAL' ]
    [ ${#text} -lt 80 ]
    # Each definition has the keys that Nagios asks for.
    [ "$(grep -c '^define command {' "$EX/nagios.cfg")" = "$(grep -c '^ *command_name ' "$EX/nagios.cfg")" ]
    [ "$(grep -c '{$' "$EX/nagios.cfg")" = "$(grep -c '^}$' "$EX/nagios.cfg")" ]
    grep -q '^ *check_command *check_horing!96:!75:$' "$EX/nagios.cfg"
}

# bats test_tags=full
@test "Prometheus: the alerts are rules, over metrics that are written" {
    unplug
    run -2 horing-check --level quick --sys box/sys --proc box/proc --state state --prom p.prom
    grep -oE 'horing_[a-z_]+' "$EX/prometheus.yml" | sort -u > asked
    [ "$(wc -l < asked)" -ge 4 ]
    while read -r metric; do
        grep -qE "^# TYPE $metric gauge$" p.prom && grep -qE "^${metric}[ {]" p.prom ||
            { echo "$metric is not written"; return 1; }
    done < asked
    grep -q '^horing_finding{code="HC-201",state="CRITICAL",' p.prom
    [ "$(grep -c '^ *- alert:' "$EX/prometheus.yml")" = "$(grep -c '^ *expr:' "$EX/prometheus.yml")" ]
    command -v promtool > /dev/null || skip 'no promtool here'
    promtool check rules "$EX/prometheus.yml"
    promtool check metrics < p.prom
}

# bats test_tags=full
@test "the configuration is read, and means what it says" {
    unplug
    horing-check --level quick --sys box/sys --proc box/proc --state none --config "$EX/config.yaml" > out || rc=$?
    grep -q "lost the link of its port 'eth0'" out
    sed 's/link: eth3/link: eth0/' "$EX/config.yaml" > mine
    SOURCE_DATE_EPOCH=1795000000 horing-check --level quick --sys box/sys --proc box/proc --state none --config mine > out
    grep -q '; 1 known' out
}

# bats test_tags=full
@test "Slurm: the script is quiet when all is well, and drains only where a site says so" {
    sed "s|^PATH=.*|PATH=$HERE/tools:$BIN:/usr/bin:/bin|
        s|^OPTIONS=.*|OPTIONS='--sys $HERE/box/sys --proc $HERE/box/proc --state $HERE/state'|" \
        "$EX/slurm.sh" > health.sh
    mkdir tools
    for c in scontrol logger; do
        printf '#!/bin/sh\necho "%s $*" >> %s/asked\n' $c "$HERE" > tools/$c
    done
    printf '#!/bin/sh\ncat %s/node\n' "$HERE" > tools/sinfo
    chmod 755 tools/*
    echo idle > node
    : > asked
    SLURMD_NODENAME=node17 sh health.sh
    [ ! -s asked ]
    unplug
    SLURMD_NODENAME=node17 sh health.sh
    grep -q "^logger -t horing-check HORING CRITICAL - node17 lost the link" asked
    run ! grep scontrol asked
    sed -i 's/^DRAIN=no/DRAIN=yes/' health.sh
    echo draining > node
    SLURMD_NODENAME=node17 sh health.sh
    run ! grep scontrol asked
    echo idle > node
    SLURMD_NODENAME=node17 sh health.sh
    grep -qx 'scontrol update NodeName=node17 State=DRAIN Reason=horing: HC-201 node17 lost the link of its port eth0' asked
}

# on_box SCRIPT: an example with this machine's paths and the played host.
on_box() {
    sed "s|^PATH=.*|PATH=$BIN:/usr/bin:/bin|
        s|^OPTIONS=.*|OPTIONS='--sys $HERE/box/sys --proc $HERE/box/proc --state $HERE/state.x'|" "$EX/$1"
}

@test "node-problem-detector: OK and WARNING are 0, CRITICAL is 1, UNKNOWN is 2, in 80 bytes without perfdata" {
    local long
    on_box npd/npd.sh > npd.sh
    run -0 sh npd.sh
    [[ $output == 'HORING OK - node17'* && $output != *'|'* && ${#lines[@]} = 1 ]]
    unplug
    run -1 sh npd.sh
    [[ $output == "HORING CRITICAL - node17 lost the link"* && $output != *'|'* ]]
    rm -r box/sys/class
    run -2 sh npd.sh
    [[ $output == 'HORING UNKNOWN - '* ]]
    # A horing-check whose line is long and whose state is WARNING.
    long=$(printf 'x%.0s' {1..200})
    mkdir tools
    printf '#!/bin/sh\necho "HORING WARNING - %s|a=1"\nexit 1\n' "$long" > tools/horing-check
    chmod 755 tools/horing-check
    sed -i "s|^PATH=|PATH=$HERE/tools:|" npd.sh
    run -0 sh npd.sh
    [ ${#output} = 80 ]
    # The keys of the detector's custom plugins, and limits that hold for the script.
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>); my $r = $d->{rules}[0];
        exit !($d->{plugin} eq "custom" && $d->{pluginConfig}{max_output_length} == 80 && $r->{type} eq "permanent"
            && $r->{condition} eq $d->{conditions}[0]{type} && $r->{path} =~ m{/npd\.sh$}
            && $r->{timeout} le $d->{pluginConfig}{timeout})' < "$EX/npd/horing.json"
}

@test "NVIDIA's resiliency extension: fail_count, the codes of what is CRITICAL, and the status" {
    on_box nvrx.sh > mine.sh
    run -0 --separate-stderr sh mine.sh
    [ "$output" = '{"fail_count":0,"failed_checks":[]}' ]
    unplug
    run -1 sh mine.sh
    [ "$output" = '{"fail_count":1,"failed_checks":["HC-201"]}' ]
    rm -r box/sys/class
    run -0 --separate-stderr sh mine.sh
    [ "$output" = '{"fail_count":0,"failed_checks":[]}' ]
}

@test "Slurm: the prolog fails on CRITICAL alone, without a command of Slurm" {
    on_box ../slurm/prolog.sh > prolog.sh
    run -0 sh prolog.sh
    unplug
    run -1 sh prolog.sh
    run -1 sh prolog.sh
    echo 1 > box/sys/class/net/eth0/carrier # repaired: reported for ten minutes, but over
    run -0 sh prolog.sh
    unplug
    run -1 sh prolog.sh
    rm -r box/sys/class
    run -0 sh prolog.sh
    run ! grep -E '^[^#]*(scontrol|sinfo|squeue|sacct|srun)' prolog.sh
}
