#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# paro-lab: a cluster on one Linux machine, for as long as one command runs.
#
#            lab (host name paro-lab): mpirun
#             |  10.78.255.254
#    =========+==== bridge "control", unshaped ====+=====
#             |                                    |
#       node0 | 10.78.0.1                    node1 | 10.78.0.2
#       node0 | 10.77.0.1                    node1 | 10.77.0.2
#             |  data                              |  data      shaped here: what goes OUT
#             |  d0                                |  d1        shaped here: what comes IN
#    =========+==== bridge "data" =================+=====
#
# A node is a network and a UTS namespace: Open MPI tells nodes apart by host name.  The script
# runs in three stages, each the same file started anew:
#
#   outer      checks the arguments and the machine, then becomes (exec: the process that the
#              caller knows and may kill)
#   supervise  in the lab's namespaces but still outside its process namespace: passes signals
#              on, waits, ends as COMMAND ended
#   init       process 1 of the lab: builds the nodes, runs mpirun.
#
# Nothing is ever cleaned up by a trap.  When `supervise` dies, by SIGKILL too, the kernel kills
# `init` (parent-death signal); when `init` dies the kernel kills every process of the lab; with
# the last of them go the mounts, the interfaces and the files, which all live in the lab's own
# namespaces and on its own tmpfs.
set -u

GROUPS_MAX=1000         # a Linux bridge takes 1023 ports
PROCS_MAX=4096
STOP_S=5                # how long mpirun may take to end its ranks after a signal
BURST=128kb             # two of the largest packets that TCP hands to the interface
LATENCY=20ms
NUMBER='([0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,9})'
LAB=/dev/shm/.paro-lab  # on the lab's own tmpfs

# --help leaves out the second paragraph of options, --help=all has it.
usage() { # '' | all
    local skip='/^  *--cut/,/--mca/d'
    [[ $1 != all ]] || skip='/lists every option/d'
    sed "$skip" 2>/dev/null <<'TEXT' || die "cannot write to standard output"
Usage: paro-lab [OPTION...] [--] COMMAND [ARG...]
Emulate a cluster of nodes on this machine and run the MPI program COMMAND on
it under mpirun, to try a network that you do not have.

  -g, --groups=GROUPS        Emulate GROUPS nodes (default: 2)
  -p, --procs=PROCS          Start PROCS ranks on each node; a list such as 3,2
                             gives one number per node (default: 2)
  -r, --rate=RATE            Limit each node's data port to RATE in each
                             direction, written as in tc(8), such as 500mbit
                             (default: no limit)
      --slow=GROUP:OUT[/IN]  Limit one node's port to other rates: OUT for what
                             it sends, IN for what it receives (repeatable)
      --slow=A-B:RATE        Limit the traffic between nodes A and B to RATE in
                             each direction (repeatable)
      --cut=GROUP:SECONDS    Take a node's data port down SECONDS after COMMAND
                             starts, to test a network failure (repeatable)
      --flap=GROUP:UP/DOWN   Leave a node's data port up for UP seconds and
                             take it down for DOWN, in turn (repeatable)
      --ring                 Cable each node to the next and the last to the first,
                             without a switch; RATE is that of each cable
      --cpu=GROUP:SHARE      Limit the processes of a node to SHARE percent of a
                             processor, to emulate a slow host (repeatable)
      --map-by=WHAT          Fill one node with ranks before the next (slot),
                             or deal them out in turn (node) (default: slot)
      --head                 Start COMMAND once, on a head node from which mpirun
                             reaches the nodes, to try a job's script
      --mca=KEY VALUE        Pass an Open MPI setting to mpirun (repeatable)
  -h, -?, --help[=all]       Print the everyday options, or all of them
  -V, --version              Print the version

GROUP, A and B count from 0; the nodes are called node0, node1, and so on.
The exit status is that of COMMAND, or 2 if the cluster cannot be created.
paro-lab --help=all lists every option; man paro-lab explains them.
TEXT
}

@OPTIONS@

# ---- Arguments ----------------------------------------------------------------------------

groups='' procs_text=2 rate='' map_by=slot head=0 ring=0
slow=() cuts=() flaps=() cpus=() # as given
mca_keys=() mca_values=()
command=()
procs=() rate_out=() rate_in=() cpu=() # by group
pairs=()                        # "A B RATE"

# REPLY = the whole number in TEXT.
whole() { # WHAT TEXT MIN MAX
    REPLY=-1
    [[ ! $2 =~ ^[0-9]{1,9}$ ]] || REPLY=$((10#$2))
    ((REPLY >= $3 && REPLY <= $4)) ||
        die "$1 is '$2', expected a whole number from $3 to $4"
}

check_rate() { # OPTION RATE
    local unit='([kmgt]i?)?(bit|bps)'
    [[ ${2,,} =~ ^$NUMBER$unit$ && $2 =~ [1-9] ]] ||
        die "$1: rate '$2', expected a rate with its unit as in tc(8), such as 500mbit"
}

check_seconds() { # OPTION TEXT
    [[ $2 =~ ^$NUMBER$ ]] ||
        die "$1: '$2', expected a number of seconds, such as 2.5"
}

# REPLY = the group in TEXT.
check_group() { # OPTION TEXT
    REPLY=$groups
    [[ ! $2 =~ ^[0-9]{1,9}$ ]] || REPLY=$((10#$2))
    ((REPLY < groups)) ||
        die "$1: group '$2', expected a number from 0 to $((groups - 1))"
}

set_option() { # NAME VALUE
    case $1 in
    --groups) whole "$1" "$2" 1 $GROUPS_MAX && groups=$REPLY ;;
    --procs) procs_text=$2 ;;
    --rate) check_rate "$1" "$2" && rate=$2 ;;
    --slow) slow+=("$2") ;;
    --cut) cuts+=("$2") ;;
    --flap) flaps+=("$2") ;;
    --cpu) cpus+=("$2") ;;
    --map-by)
        [[ $2 == slot || $2 == node ]] || die "$1 is '$2', expected slot or node"
        map_by=$2
        ;;
    esac
}

set_mca() { # KEY VALUE
    [[ $1 =~ ^[A-Za-z0-9_]+$ ]] ||
        die "--mca: key '$1', expected the name of an Open MPI setting"
    mca_keys+=("$1")
    mca_values+=("$2")
}

# NAME = the long name of the option in WORD, VALUE = what is attached to it, ATTACHED = whether
# something is.
split_option() { # WORD
    NAME=$1 VALUE='' ATTACHED=0
    case $1 in
    --*=*) NAME=${1%%=*} VALUE=${1#*=} ATTACHED=1 ;;
    --*) ;;
    -??*) NAME=${1:0:2} VALUE=${1:2} ATTACHED=1 ;;
    esac
    case $NAME in
    -g) NAME=--groups ;;
    -p) NAME=--procs ;;
    -r) NAME=--rate ;;
    esac
}

# Fills the variables above; COMMAND begins at the first word that is no option.
parse() {
    while (($# > 0)) && [[ $1 == -?* ]]; do
        split_option "$1"
        case $NAME$ATTACHED in
        --0) shift && break ;;
        --head0) head=1 && shift ;;
        --ring0) ring=1 && shift ;;
        --mca[01])
            local words=("${@:2}")
            ((ATTACHED)) && words=("$VALUE" "${words[@]}")
            ((${#words[@]} >= 2)) || die "--mca lacks its value, expected KEY VALUE"
            set_mca "${words[0]}" "${words[1]}"
            shift $((3 - ATTACHED))
            ;;
        --groups[01] | --procs[01] | --rate[01] | --slow[01] | --cut[01] | --flap[01] | \
            --cpu[01] | --map-by[01])
            ((ATTACHED || $# >= 2)) || die "$NAME lacks its value (see --help)"
            ((ATTACHED)) || VALUE=$2
            set_option "$NAME" "$VALUE"
            shift $((2 - ATTACHED))
            ;;
        *) answer "$1" ;;
        esac
    done
    command=("$@")
}

# procs[g], and the number of groups where only the list tells it.
resolve_procs() {
    local list i
    IFS=, read -r -a list <<<"$procs_text,"
    for ((i = 0; i < ${#list[@]}; i++)); do
        whole --procs "${list[i]}" 1 $PROCS_MAX
        procs[i]=$REPLY
    done
    ((i > 0)) || die "--procs is '', expected a whole number from 1 to $PROCS_MAX"
    if ((i == 1)); then
        groups=${groups:-2}
        for ((i = 1; i < groups; i++)); do
            procs[i]=${procs[0]}
        done
    elif [[ -n $groups && $groups -ne $i ]]; then
        die "--procs lists $i groups, expected $groups as in --groups"
    elif ((i > GROUPS_MAX)); then
        die "--procs lists $i groups, expected at most $GROUPS_MAX"
    else
        groups=$i
    fi
}

resolve_slow() { # TEXT
    local opt="--slow is '$1'" a b rates
    # A second colon or slash, or a third group, is left over in the rate, which then objects.
    [[ $1 == ?*:?* ]] || die "$opt, expected GROUP:OUT[/IN] or A-B:RATE"
    a=${1%%:*} rates=${1#*:}
    if [[ $a == *-* ]]; then
        b=${a#*-}
        check_group "$opt" "${a%%-*}" && a=$REPLY
        check_group "$opt" "$b" && b=$REPLY
        ((a != b)) || die "$opt: group $a twice, expected two groups"
        check_rate "$opt" "$rates"
        pairs+=("$a $b $rates")
    else
        check_group "$opt" "$a" && a=$REPLY
        check_rate "$opt" "${rates%%/*}"
        check_rate "$opt" "${rates#*/}"
        rate_out[a]=${rates%%/*} rate_in[a]=${rates#*/}
    fi
}

# Everything that depends on the number of groups, known only after the last option.
resolve() {
    local g text
    resolve_procs
    if ((ring)); then
        ((groups >= 3)) || die "--ring with $groups groups, expected 3 or more"
        ((${#slow[@]} + ${#cuts[@]} + ${#flaps[@]} == 0)) ||
            die "--ring with --slow, --cut or --flap, expected --rate alone: these change a switch's port"
    fi
    for ((g = 0; g < groups; g++)); do
        rate_out[g]=$rate rate_in[g]=$rate
    done
    for text in "${slow[@]}"; do
        resolve_slow "$text"
    done
    for text in "${cuts[@]}"; do
        [[ $text == ?*:* ]] || die "--cut is '$text', expected GROUP:SECONDS"
        check_group "--cut is '$text'" "${text%%:*}"
        check_seconds "--cut is '$text'" "${text#*:}"
    done
    for text in "${flaps[@]}"; do
        [[ $text == ?*:*/* ]] || die "--flap is '$text', expected GROUP:UP/DOWN"
        check_group "--flap is '$text'" "${text%%:*}"
        g=${text#*:}
        check_seconds "--flap is '$text'" "${g%%/*}"
        check_seconds "--flap is '$text'" "${g#*/}"
    done
    for text in "${cpus[@]}"; do
        [[ $text == ?*:* ]] || die "--cpu is '$text', expected GROUP:SHARE"
        check_group "--cpu is '$text'" "${text%%:*}" && g=$REPLY
        whole "--cpu is '$text': the share" "${text#*:}" 1 100000
        cpu[g]=$REPLY
    done
}

# ---- Stage 1, outer: is all here that the lab needs? --------------------------------------

check_tools() {
    local tool package
    while read -r tool package; do
        type -P "$tool" >/dev/null ||
            die "cannot find '$tool', expected it on PATH (Debian package $package)"
    done <<'TOOLS'
mpirun openmpi-bin
ip iproute2
tc iproute2
unshare util-linux
nsenter util-linux
setpriv util-linux
mount mount
hostname hostname
TOOLS
}

check_command() {
    local path=${command[0]-}
    ((${#command[@]} > 0)) || die "missing COMMAND, expected a program to run (see --help)"
    [[ $path == */* ]] || path=$(PATH=$caller_path type -P -- "$path") || path=
    [[ -f $path && -x $path ]] ||
        die "cannot run '${command[0]}', expected a program on PATH or the path of one"
}

# user_ns = the flags that an ordinary user needs.  A root without the capabilities (in a
# container) is an ordinary user here.
choose_user_ns() {
    local key value caps=0
    [[ -r /proc/self/status ]] || die "cannot read /proc/self/status, expected /proc mounted"
    while read -r key value; do
        [[ $key == CapEff: ]] && caps=$((16#$value))
    done </proc/self/status
    user_ns=() who=root
    # Bit 12 is CAP_NET_ADMIN, bit 21 CAP_SYS_ADMIN.
    ((EUID == 0 && (caps >> 12 & caps >> 21 & 1))) || user_ns=(-U -r) who="an ordinary user"
}

# Writes TEXT, or says in one line what --cpu needs.
control() { # FILE TEXT
    { [[ -e $1 ]] && echo "$2" >"$1"; } 2>/dev/null ||
        die "--cpu: cannot write '$1', expected control groups that limit processors (cgroup v2's" \
            "cpu.max or v1's cpu.cfs_quota_us) and the right to make them"
}

# cpu_dir = a control group with one in it for each node that has a limit, '' without --cpu.  They
# outlive namespaces: a process that waits for the end of descriptor 19 removes them, which ends 18.
make_cpu() {
    local g dir root=/sys/fs/cgroup period
    cpu_dir=''
    ((${#cpu[@]} > 0)) || return 0
    for dir in $root/cpu $root/cpu,cpuacct; do
        [[ ! -e $dir/cpu.shares ]] || root=$dir
    done
    cpu_dir=$root/paro-lab.$$
    mkdir "$cpu_dir" 2>/dev/null || control "$cpu_dir" ''
    # shellcheck disable=SC2016 # expanded inside
    coproc exec setsid sh -c 'trap "" HUP INT QUIT TERM
        cat
        tries=0
        while [ -d "$1" ] && [ $((tries += 1)) -lt 500 ]; do rmdir "$1"/node* "$1" || sleep 0.02; done' sh "$cpu_dir" 2>/dev/null
    # Opened anew, since bash closes a copy of these at exec.
    exec 18<"/proc/self/fd/${COPROC[0]}" 19>"/proc/self/fd/${COPROC[1]}"
    # Together the nodes weigh as so many processes: the quotas limit them, not the neighbours.
    if [[ -e $root/cgroup.controllers ]]; then
        for dir in "$root" "$cpu_dir"; do
            control "$dir/cgroup.subtree_control" +cpu
        done
        control "$cpu_dir/cpu.weight" $((${#cpu[@]} < 100 ? 100 * ${#cpu[@]} : 10000))
    else
        control "$cpu_dir/cpu.shares" $((1024 * ${#cpu[@]}))
    fi
    for g in "${!cpu[@]}"; do
        dir=$cpu_dir/node$g
        # Short periods, so that a slow host is slow at any time; the kernel takes 1 ms and more.
        period=$((cpu[g] < 10 ? 100000 : 10000))
        mkdir "$dir" || exit 2
        if [[ -e $root/cgroup.controllers ]]; then
            control "$dir/cpu.max" "$((cpu[g] * period / 100)) $period"
        else
            control "$dir/cpu.cfs_period_us" $period
            control "$dir/cpu.cfs_quota_us" $((cpu[g] * period / 100))
        fi
    done
}

outer() {
    local text
    caller_path=$PATH
    PATH=$PATH:/usr/sbin:/sbin
    parse "$@"
    resolve
    check_command
    check_tools
    choose_user_ns
    # unshare blocks SIGINT, and bash believes that a child that survives one has dealt with it.
    trap 'trap - INT; kill -INT $$' INT
    text=$(unshare "${user_ns[@]}" -m -n -p -i -u -f --mount-proc true 2>&1) ||
        die "cannot make namespaces: ${text%%$'\n'*}, expected a kernel that grants them" \
            "to $who, outside a chroot"
    make_cpu
    # No fork: this process stays the one the caller knows.
    exec unshare "${user_ns[@]}" -m -n -p -i -u -- \
        "$BASH" "${BASH_SOURCE[0]}" @supervise "$cpu_dir" "$caller_path" "$@"
}

# ---- Stage 2, supervise: pass signals on, wait, end as COMMAND ended ----------------------

signal=''

# The first signal asks mpirun to end its ranks, the second does not ask.  What the keyboard
# sends has reached mpirun already, and twice would be once too often: mpirun then leaves at
# once.  Before mpirun runs there is nothing to ask.
stop() { # SIGNAL
    if [[ -n $signal || ! -e $LAB/running ]]; then
        kill -KILL "$child"
    fi
    signal=${signal:-$1}
    if ((keyboard && $1 != 15)); then
        kill -INT "$child"
    else
        kill -TERM "$child"
    fi
}

# The first process to be forked here is process 1 of the lab; there must be no other before.
supervise() {
    local child status sig keyboard=0 session=(setsid)
    # Without a terminal the lab is a session of its own, so that a signal for our process group
    # (timeout sends such) reaches it once, from here.
    [[ ! -t 0 ]] || keyboard=1 session=()
    # A shell's background job ignores SIGINT: ranks must not inherit that.
    setpriv --pdeathsig KILL "${session[@]}" env --default-signal=INT,QUIT \
        "$BASH" "${BASH_SOURCE[0]}" @init "$$" "$@" <&0 18<&- 19>&- &
    child=$!
    exec >/dev/null 2>&1 # bash would tell how the child died
    for sig in 1 2 3 15; do # HUP INT QUIT TERM; by number, for the status
        # shellcheck disable=SC2064 # now is when sig is known
        trap "stop $sig" "$sig"
    done
    for sig in USR1 USR2; do
        # shellcheck disable=SC2064
        trap "kill -$sig $child" "$sig"
    done
    while kill -0 "$child"; do
        wait "$child"
    done
    wait "$child"
    status=$?
    # All of the lab's processes are gone, and nothing keeps its control groups.  The process that
    # removes them ends; nothing can be forked here any more.
    exec 19>&-
    [[ -z $1 ]] || read -r -t 5 -u 18
    if [[ -n $signal ]]; then
        trap - "$signal"
        kill -"$signal" $$
        status=$((128 + signal)) # bash ignores SIGQUIT
    fi
    exit "$status"
}

# ---- Stage 3, init: the fabric ------------------------------------------------------------

# Runs a tool; its complaint becomes one line.
must() { # WHAT EXPECTED TOOL ARG...
    local text
    text=$("${@:3}" 2>&1) || die "cannot $1: ${text%%$'\n'*}, expected $2"
}

data_ip() { REPLY=10.77.$((($1 + 1) / 256)).$((($1 + 1) % 256)); }
control_ip() { REPLY=10.78.$((($1 + 1) / 256)).$((($1 + 1) % 256)); }

# The parent may have died before the parent-death signal was armed: /proc is still the
# machine's, and knows.
check_parent() { # PID
    local key value
    (($$ == 1)) || die "'@init' is for paro-lab itself"
    while read -r key value; do
        [[ $key != PPid: || $value -eq $1 ]] || exit 2
    done </proc/self/status
}

# /proc of the lab's processes, and a /dev/shm that ends with them: Open MPI's shared memory
# and the files of COMMAND's shm_open are gone even after SIGKILL.  Folders of the machine's
# /dev/shm stay reachable, the caller may work in one.
mount_own() {
    local fs blocks size dir options=mode=1777 cwd=$PWD
    must "mount /proc" "a kernel that allows it" mount -t proc proc /proc
    read -r fs blocks size < <(stat -f -c '%T %b %S' /dev/shm 2>/dev/null)
    [[ -n $fs ]] || die "cannot find /dev/shm, expected a folder"
    [[ $fs != tmpfs ]] || options+=,size=$((blocks * size))
    cd /dev/shm || exit 2
    local dirs=(*/)
    must "mount /dev/shm" "a kernel that allows it" mount -t tmpfs -o $options tmpfs /dev/shm
    for dir in "${dirs[@]}"; do
        [[ -d $dir && ! -L ${dir%/} ]] || continue
        # -c: the path as it is, for from here ./ still leads to the machine's /dev/shm.
        must "keep /dev/shm/$dir" "a folder" mkdir "/dev/shm/$dir"
        must "keep /dev/shm/$dir" "a folder" mount -c --rbind "./$dir" "/dev/shm/$dir"
    done
    cd "$cwd" || die "cannot enter '$cwd' in the lab, expected a folder outside /dev/shm"
    mkdir -m 700 $LAB $LAB/tmp || exit 2
    # Open MPI 4 fails where two launches make its folder at once.
    mkdir -m 700 "$LAB/tmp/ompi.paro-lab.$EUID"{,/kept} || exit 2
}

# Names of nodes are known everywhere in the lab, and no name server is asked for them.
write_hosts() {
    local g
    [[ -f /etc/hosts ]] || return 0
    {
        echo "10.78.255.254 paro-lab"
        for ((g = 0; g < groups; g++)); do
            data_ip $g && echo "$REPLY node$g"
        done
        cat /etc/hosts
    } >$LAB/hosts
    must "mount /etc/hosts" "a kernel that allows it" mount --bind $LAB/hosts /etc/hosts
}

# The two bridges, and the lab's own place on the control bridge.
make_bridges() {
    hostname paro-lab || exit 2
    must "make a bridge" "a kernel with bridges" ip -batch - <<'IP'
link set lo up
link add data type bridge
link add control type bridge
addr add 10.78.255.254/16 dev control
link set data up
link set control up
IP
}

# A node's namespaces, kept by a mount on the lab's tmpfs, and its two cables.  The other ends
# are d$g and c$g in the lab.
make_node() { # GROUP
    local data control bits=$((ring ? 32 : 16))
    data_ip "$1" && data=$REPLY
    control_ip "$1" && control=$REPLY
    touch "$LAB/node$1.net" "$LAB/node$1.uts"
    # Figures are taken with reno whatever the machine uses; a new namespace would inherit that.
    # shellcheck disable=SC2016 # expanded inside
    must "make node$1" "a kernel with veth pairs and reno" \
        unshare --net="$LAB/node$1.net" --uts="$LAB/node$1.uts" /bin/sh -c '
            hostname "$1" && ip -batch - &&
                echo reno >/proc/sys/net/ipv4/tcp_congestion_control' sh "node$1" <<IP
link set lo up
link add data type veth peer name d$1 netns 1
link add control type veth peer name c$1 netns 1
addr add $data/$bits dev data
addr add $control/16 dev control
link set data up
link set control up
IP
}

plug_nodes() {
    local g
    for ((g = 0; g < groups; g++)); do
        printf 'link set %s\n' "d$g master data up" "c$g master control up"
    done >$LAB/batch
    must "join the nodes" "a kernel with bridges" ip -batch $LAB/batch
}

# The route of a node to the one HOPS to its right, on the shorter way round.
ring_route() { # GROUP HOPS
    local to=$((($1 + $2) % groups)) dev=right next=$((($1 + 1) % groups)) via=''
    ((2 * $2 <= groups)) || { dev=left && next=$((($1 + groups - 1) % groups)); }
    data_ip $next
    ((to == next)) || via="via $REPLY onlink"
    data_ip $to && to=$REPLY
    data_ip "$1"
    echo "route add $to $via dev $dev src $REPLY"
}

# Cables the nodes in a ring.  A node keeps its one address, and forwards what is not for it:
#
#     node0 right -- left node1 right -- left node2 right -- left node0
join_ring() {
    local g hops
    for ((g = 0; g < groups; g++)); do
        printf 'link set %s\n' "d$g up" "c$g master control up"
        echo "link add right netns $LAB/node$g.net type veth" \
            "peer name left netns $LAB/node$(((g + 1) % groups)).net"
    done >$LAB/batch
    must "cable the nodes" "a kernel with bridges and veth pairs" ip -batch $LAB/batch
    for ((g = 0; g < groups; g++)); do
        printf 'link set %s up\n' left right >$LAB/batch
        for ((hops = 1; hops < groups; hops++)); do
            ring_route $g $hops
        done >>$LAB/batch
        # Opposite nodes answer by other cables than they were reached by.
        # shellcheck disable=SC2016 # expanded inside
        must "route in node$g" "a kernel that forwards" nsenter --net=$LAB/node$g.net sh -c \
            'ip -batch "$1" && cd /proc/sys/net/ipv4 && echo 1 >ip_forward &&
            for i in all left right; do echo 0 >conf/$i/rp_filter; done' sh $LAB/batch
    done
}

# REPLY = bits per second.  Multiples are tc's: k is 1000, ki is 1024, bps is bytes.
rate_bits() { # RATE
    local text=${1,,} number unit frac factor=1
    number=${text%%[a-z]*} unit=${text##*[0-9]}
    frac=000
    [[ $number != *.* ]] || frac=${number#*.}000
    case $unit in
    ki*) factor=1024 ;; k*) factor=1000 ;;
    mi*) factor=$((1024 ** 2)) ;; m*) factor=1000000 ;;
    gi*) factor=$((1024 ** 3)) ;; g*) factor=1000000000 ;;
    ti*) factor=$((1024 ** 4)) ;; t*) factor=1000000000000 ;;
    esac
    [[ $unit != *bps ]] || factor=$((factor * 8))
    REPLY=$((10#0${number%.*} * factor + 10#${frac:0:3} * factor / 1000))
}

# What the port's queue may hold: the burst and LATENCY's worth of RATE, as tbf reckons it.
queue_bytes() { # RATE
    rate_bits "$1"
    REPLY=$((REPLY / 8 / 50 + 131072))
}

shape_port() { # DEVICE RATE
    [[ -z $2 ]] ||
        echo "qdisc add dev $1 root handle 1: tbf rate $2 burst $BURST latency $LATENCY"
}

# A class of its own for each slow neighbour inside the whole port's bucket:
#
#     tbf 1: (OUT) -- htb 2: -+- 2:1  everyone else, may take all of OUT
#                             +- 2:2  first slow neighbour, RATE at most
#                             +- ...
shape_pairs() { # GROUP OUT
    local a b r class=2 parent=root default=0 to
    for to in "${pairs[@]}"; do
        read -r a b r <<<"$to"
        (($1 == a)) && to=$b || to=$a
        (($1 == a || $1 == b)) || continue
        if ((class == 2)); then
            # Without a rate the default class is none: such packets pass unshaped.
            [[ -z $2 ]] || parent="parent 1:1" default=1
            echo "qdisc add dev data $parent handle 2: htb default $default"
            [[ -z $2 ]] || shape_class 1 "$2"
        fi
        shape_class "$(printf %x $class)" "$r"
        data_ip "$to"
        echo "filter add dev data parent 2: protocol ip prio 1 u32 match ip dst $REPLY/32" \
            "flowid 2:$(printf %x $class)"
        class=$((class + 1))
    done
}

shape_class() { # CLASS RATE
    queue_bytes "$2"
    echo "class add dev data parent 2: classid 2:$1 htb rate $2 burst $BURST cburst $BURST" \
        "quantum 65536"
    echo "qdisc add dev data parent 2:$1 bfifo limit $REPLY"
}

# OUT on the node's end of the cable, IN on the bridge's: a qdisc shapes what leaves.
shape() {
    local g
    local expected="a kernel with the tbf, htb and u32 schedulers and a rate they take"
    for ((g = 0; !ring && g < groups; g++)); do
        shape_port "d$g" "${rate_in[g]}"
    done >$LAB/batch
    must "shape the ports" "$expected" tc -batch $LAB/batch
    for ((g = 0; g < groups; g++)); do
        if ((ring)); then
            shape_port left "$rate" && shape_port right "$rate"
        else
            shape_port data "${rate_out[g]}" && shape_pairs $g "${rate_out[g]}"
        fi >$LAB/batch
        [[ -s $LAB/batch ]] || continue
        must "shape node$g's port" "$expected" \
            nsenter --net=$LAB/node$g.net tc -batch $LAB/batch
    done
}

# Called by mpirun as AGENT HOST COMMAND..., where it would call ssh.
write_agent() {
    local limited
    limited=$(printf ' node%s' "${!cpu[@]}")
    cat >$LAB/agent <<AGENT && chmod 700 $LAB/agent
#!/bin/sh
host=\$1
shift
[ -z "\${HOSTNAME+set}" ] || HOSTNAME=\$host
case "$limited " in *" \$host "*) echo 0 >"$cpu_dir/\$host/cgroup.procs" || exit 2 ;; esac
# Here the number names mpirun's descriptor no more (see run in paro-lab).
unset OPAL_OUTPUT_STDERR_FD PMIX_OUTPUT_STDERR_FD
exec $(type -P nsenter) --net=$LAB/\$host.net --uts=$LAB/\$host.uts /bin/sh -c "\$*" >&2
AGENT
}

build() {
    local g
    mount_own
    write_hosts
    make_bridges
    for ((g = 0; g < groups; g++)); do
        make_node $g
    done
    if ((ring)); then join_ring; else plug_nodes; fi
    shape
    write_agent
}

# ---- Stage 3, init: the command -----------------------------------------------------------

# Seconds are COMMAND's: they count from the moment its first rank starts.
after_start() {
    until [[ -e $LAB/started ]]; do
        sleep 0.02
    done
}

cut() { # GROUP SECONDS
    after_start
    sleep "$2"
    ip link set "d$1" down
}

flap() { # GROUP UP DOWN
    after_start
    while :; do
        sleep "$2"
        ip link set "d$1" down
        sleep "$3"
        ip link set "d$1" up
    done
}

start_timers() {
    local text times
    for text in "${cuts[@]}"; do
        cut "${text%%:*}" "${text#*:}" </dev/null >/dev/null &
    done
    for text in "${flaps[@]}"; do
        times=${text#*:}
        flap "${text%%:*}" "${times%/*}" "${times#*/}" </dev/null >/dev/null &
    done
    # Open MPI puts its own folder first in PATH: COMMAND is named by its whole path.
    [[ ${command[0]} == */* ]] || command[0]=$(PATH=$caller_path type -P -- "${command[0]}")
    # With timers it starts through a shell that says when.
    if ((${#cuts[@]} + ${#flaps[@]} > 0)); then
        # shellcheck disable=SC2016 # expanded in the rank
        command=(/bin/sh -c ": >$LAB/started; exec \"\$@\"" sh "${command[@]}")
    fi
}

# All that depends on Open MPI's version: the names of its launcher's settings, how its launcher (ORTE up to 4, PRRTE from 5 on) starts
# the daemon of a host, through which interface it talks to it, and whether its own messages have a
# descriptor apart (PRRTE's are mixed with what COMMAND prints on standard error).
find_launcher() {
    local text
    mpirun=$(type -P mpirun)
    text=$("$mpirun" --version 2>&1)
    [[ $text =~ \(Open\ MPI\)\ ([0-9]+)\. ]] ||
        die "'mpirun --version' prints '${text%%$'\n'*}', expected the version of an Open MPI"
    if ((BASH_REMATCH[1] < 5)); then
        mixed=0 launcher_env=OMPI_MCA_
        launcher=("plm rsh" "plm_rsh_agent $LAB/agent" "oob_tcp_if_include control")
        shared=("rmaps_base_oversubscribe 1" "hwloc_base_binding_policy none")
    else
        mixed=1 launcher_env=PRTE_MCA_
        launcher=("plm ssh" "plm_ssh_agent $LAB/agent" "prte_if_include control")
        shared=("rmaps_default_mapping_policy :oversubscribe" "hwloc_default_binding_policy none")
    fi
}

# The fabric's settings of MPI, a line each.
mpi_settings() {
    printf '%s\n' "pml ob1" "btl self,vader,tcp" "btl_tcp_if_include data" "mpi_yield_when_idle 1"
}

# words = COMMAND as the head node runs it: its own mpirun takes the same settings from the
# environment, where the caller's replace ours.
head_words() {
    local i key value
    words=(env)
    while read -r key value; do
        words+=("$launcher_env$key=$value")
    done < <(printf '%s\n' "${launcher[@]}" "${shared[@]}")
    while read -r key value; do
        words+=("OMPI_MCA_$key=$value")
    done < <(mpi_settings)
    for i in "${!mca_keys[@]}"; do
        words+=("OMPI_MCA_${mca_keys[i]}=${mca_values[i]}" "PRTE_MCA_${mca_keys[i]}=${mca_values[i]}")
    done
    ((EUID != 0)) || words+=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    words+=("${command[@]}")
}

# words = mpirun and COMMAND: where the ranks go, the fabric's settings, then the caller's.  Open
# MPI refuses a setting that is given twice: the caller's replaces ours.
mpirun_words() {
    local g i key value hosts='' ranks=0
    declare -A given=()
    for ((g = 0; g < groups; g++)); do
        hosts+=,node$g:${procs[g]}
        ranks=$((ranks + procs[g]))
    done
    words=("$mpirun" -np "$ranks" -H "${hosts#,}" --map-by "$map_by:OVERSUBSCRIBE" --bind-to none)
    ((EUID != 0)) || words+=(--allow-run-as-root)
    for i in "${!mca_keys[@]}"; do
        given[${mca_keys[i]}]=1
        words+=(--mca "${mca_keys[i]}" "${mca_values[i]}")
    done
    while read -r key value; do
        [[ -n ${given[$key]-} ]] || words+=(--mca "$key" "$value")
    done < <(printf '%s\n' "${launcher[@]}" && mpi_settings)
    words+=("${command[@]}")
}

stopped=0

# Waits for mpirun, not longer than STOP_S once it was told to stop.
wait_mpirun() {
    local deadline=0
    while kill -0 "$pid" 2>/dev/null; do
        if ((stopped)); then
            ((deadline)) || deadline=$((SECONDS + STOP_S))
            ((SECONDS <= deadline)) || exit 2
            sleep 0.05
        else
            wait "$pid"
        fi
    done
    wait "$pid"
}

# One message of Open MPI, which stood between two rules.  That a rank ended with a status is left
# out, and that it called MPI_Abort, for the caller has the status; a rank's end by a signal is one
# line.  mpirun's -q would hide the errors of MPI, too.
put_message() { # TEXT
    local words text rule
    local rank='process rank ([0-9]+) with PID [0-9]+ on node ([^ ]+) exited on (signal [^.]*)'
    read -r -d '' -a words <<<"$1"
    text=${words[*]}
    if [[ $text =~ $rank ]]; then
        echo "paro-lab: rank ${BASH_REMATCH[1]} (${BASH_REMATCH[2]}) was killed by ${BASH_REMATCH[3]}"
    elif [[ ! $text =~ ^"Primary job terminated normally"|"MPI_ABORT was invoked"|"exited with non-zero status"|"exited due to process rank" ]]; then
        printf -v rule '%074d' 0
        printf '%s\n%s%s\n' "${rule//0/-}" "$1" "${rule//0/-}"
    else
        return
    fi
    said=1
}

# Open MPI's own messages, not COMMAND's.  Left out are how often one was sent, and the warning
# that mpirun lost a harmless race with its launch agent, setpgid.  Returns 0 if it printed none.
relay_talk() {
    local line text='' inside=0 said=0
    local noise='plm:[rs]sh: Warning: setpgid|sent help message|_base_help_aggregate'
    trap '' INT # of the keyboard: what comes until mpirun ends is still relayed
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line =~ ^-{70,}$ ]]; then
            ((inside)) && put_message "$text"
            inside=$((!inside)) text=''
        elif ((inside)); then
            text+=$line$'\n'
        elif [[ ! $line =~ $noise ]]; then
            echo "$line" && said=1
        fi
    done
    [[ -z $text ]] || put_message "$text"
    return $said
}

# mpirun does not notice when what COMMAND prints cannot be written.
relay_product() {
    trap '' INT
    cat 2>/dev/null || {
        local status=$?
        cat >/dev/null
        return $status
    }
}

# The status of a relay, or 1 if it does not end: a daemon that outlives mpirun keeps its pipe open.
wait_relay() { # PID
    local deadline=$((SECONDS + 2))
    while kill -0 "$1" 2>/dev/null; do
        ((SECONDS <= deadline)) || return 1
        sleep 0.02
    done
    wait "$1"
}

run() {
    local words pid sig talk product relays=() status name errors=2
    start_timers
    if ((head)); then head_words; else mpirun_words; fi
    exec {talk}> >(relay_talk >&2)
    relays+=($!)
    exec {product}> >(relay_product)
    relays+=($!)
    ((!mixed)) || errors=$talk
    OPAL_OUTPUT_STDERR_FD=$talk PMIX_OUTPUT_STDERR_FD=$talk TMPDIR=$LAB/tmp PATH=$caller_path \
        env --default-signal=INT,QUIT NCCL_SOCKET_IFNAME=data "${words[@]}" \
        <&0 >&"$product" 2>&"$errors" {product}>&- &
    pid=$!
    exec {talk}>&- {product}>&-
    trap stopped=1 INT
    trap 'stopped=1; kill -TERM $pid' TERM
    for sig in USR1 USR2; do
        # shellcheck disable=SC2064 # now is when sig is known
        trap "kill -$sig $pid" "$sig"
    done
    : >$LAB/running
    wait_mpirun
    status=$?
    if wait_relay "${relays[0]}" && ((status > 128 && !stopped)) && name=$(kill -l "$status" 2>/dev/null); then
        echo "paro-lab: a rank was killed by signal $((status - 128)) ($name)" >&2
    fi
    wait "${relays[1]}"
    # 141: whoever read it has left.
    (($? == 0 || $? == 141 || status)) || die "cannot write to standard output"
    exit $status
}

init() { # PARENT CPU_DIR CALLER_PATH ARG...
    check_parent "$1"
    cpu_dir=$2 caller_path=$3
    PATH=$PATH:/usr/sbin:/sbin
    parse "${@:4}"
    resolve
    find_launcher
    build
    run
}

case ${1-} in
@supervise) supervise "${@:2}" ;;
@init) init "${@:2}" ;;
*) outer "$@" ;;
esac
