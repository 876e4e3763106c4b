#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# paro-launch: finds the hosts of a job in the environment of its launcher and starts mpirun on
# them.
#
# Each environment becomes lines "HOST [SLOTS]"; the lines become -n and -H of mpirun.  mpirun
# replaces this process, so that signals and the exit status are mpirun's.  No host and no
# number of ranks is guessed: what the environment does not state has to be an option.
set -u

WAIT_S=600 # as long as a cluster may take to start the sshd of all nodes
HOSTS_MAX=65536

say() { printf 'paro-launch: %s\n' "$*" >&2; }

# --help leaves out the second paragraph of options, --help=all has it.
usage() { # '' | all
    skip='/^  *--from/,/(default: 600)/d'
    [ "$1" != all ] || skip='/lists every option/d'
    sed "$skip" 2>/dev/null <<'TEXT' || die "cannot write to standard output"
Usage: paro-launch [OPTION...] [--] COMMAND [ARG...]
Start COMMAND under mpirun on the hosts that Slurm, SkyPilot, torchrun,
Kubernetes or a host file states.

  -n, --ranks=RANKS          Start RANKS ranks (default: as many as the
                             environment or the host file has slots)
      --hostfile=FILE        Read the hosts from FILE, with lines such as
                             'node1 slots=8'
      --print                Print the mpirun command and exit
  -h, -?, --help[=all]       Print the everyday options, or all of them
  -V, --version              Print the version
      --from=slurm|skypilot|torchrun|kubernetes|hostfile
                             Read this environment (default: the only one that
                             is found)
      --wait=SECONDS         Fail if mpirun does not reach a waiting node within
                             SECONDS (default: 600)

The exit status is that of mpirun, or 2 if the hosts cannot be found.
paro-launch --help=all lists every option; man paro-launch explains them.
TEXT
}

@OPTIONS@

# ---- Arguments ----------------------------------------------------------------------------

ranks='' hostfile='' from='' wait_s=$WAIT_S print=''

set_option() { # NAME VALUE
    case $1 in
    -n | --ranks) check_count --ranks "$2" && ranks=$2 ;;
    --wait) check_count --wait "$2" && wait_s=$2 ;;
    --hostfile)
        { [ -r "$2" ] && [ ! -d "$2" ]; } || die "cannot read '$2', expected a host file"
        hostfile=$2
        ;;
    --from)
        case $2 in
        slurm | skypilot | torchrun | kubernetes | hostfile) from=$2 ;;
        *) die "--from is '$2', expected slurm, skypilot, torchrun, kubernetes or hostfile" ;;
        esac
        ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --) shift && break ;;
    -n | --ranks | --hostfile | --from | --wait)
        [ $# -ge 2 ] || die "$1 lacks its value (see --help)"
        set_option "$1" "$2"
        shift
        ;;
    --ranks=* | --hostfile=* | --from=* | --wait=*) set_option "${1%%=*}" "${1#*=}" ;;
    -n*) set_option -n "${1#-n}" ;;
    --print) print=1 ;;
    -*) answer "$1" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || die "missing COMMAND, expected a program to start (see --help)"

# ---- Hosts: lines "HOST [SLOTS]" ----------------------------------------------------------

# Slurm's list, such as node[01-03,7],login, with its ranks per node, such as 2(x3),1.
slurm_hosts() {
    awk -v max=$HOSTS_MAX '
        function expand(word, head,    inside, tail, n, i, part, range, x) {
            if (!match(word, /\[[^]]*\]/)) {
                if (++hosts > max) exit 1
                print head word (hosts in slots ? " " slots[hosts] : each ? " " each : "")
                return
            }
            head = head substr(word, 1, RSTART - 1)
            inside = substr(word, RSTART + 1, RLENGTH - 2)
            tail = substr(word, RSTART + RLENGTH)
            n = split(inside, part, ",")
            for (i = 1; i <= n; i++) {
                if (part[i] !~ /^[0-9]+(-[0-9]+)?$/) exit 1
                if (split(part[i], range, "-") < 2) range[2] = range[1]
                for (x = range[1] + 0; x <= range[2] + 0; x++)
                    expand(tail, head sprintf("%0" length(range[1]) "d", x))
            }
        }
        BEGIN {
            each = ENVIRON["SLURM_NTASKS_PER_NODE"]
            n = split(ENVIRON["SLURM_TASKS_PER_NODE"], task, ",")
            for (i = 1; i <= n; i++) {
                times = match(task[i], /x[0-9]+/) ? substr(task[i], RSTART + 1) + 0 : 1
                while (times-- > 0 && known < max) slots[++known] = task[i] + 0
            }
            list = ENVIRON["SLURM_JOB_NODELIST"]
            while (match(list, /^([^][,]|\[[^]]*\])+(,|$)/)) {
                word = substr(list, 1, RLENGTH)
                list = substr(list, RLENGTH + 1)
                sub(/,$/, "", word)
                expand(word, "")
            }
            exit list != ""
        }' ||
        die "SLURM_JOB_NODELIST is '$SLURM_JOB_NODELIST', expected a list such as node[1-4]"
}

# Open MPI's "HOST slots=N", "HOST:N" as MPICH writes it, and a line a slot as PBS does: where a host
# without a number comes again, each such line is one slot.  Lines may end as on Windows.
file_hosts() { # FILE
    awk '
        { sub(/\r$/, ""); sub(/#.*/, ""); gsub(/[ \t]*=[ \t]*/, "=") }
        NF == 0 { next }
        {
            host = $1; slots = ""
            if (host ~ /:.*:/) {
                bad = "the IPv6 address \047" host "\047, expected a name, since mpirun -H takes no such address"
                exit
            }
            if (match(host, /:[0-9]+$/)) {
                slots = substr(host, RSTART + 1)
                host = substr(host, 1, RSTART - 1)
            }
            for (i = 2; i <= NF; i++)
                if ($i ~ /^slots=[0-9]+$/) slots = substr($i, 7)
                else if ($i !~ /^max[-_]slots=[0-9]+$/) {
                    bad = "\047" $i "\047, expected \047HOST slots=N\047"
                    exit
                }
            if (slots == "" && host in at) {
                if (own[at[host]] == "") lines[at[host]]++
                again = 1
                next
            }
            name[++hosts] = host; own[hosts] = slots; lines[hosts] = 1
            if (slots == "") at[host] = hosts
        }
        END {
            if (bad != "") { print NR ": has " bad; exit 1 }
            for (i = 1; i <= hosts; i++) print name[i], own[i] == "" && again ? lines[i] : own[i]
        }' <"$1" # as an operand, a=b would be an assignment
}

# Node I of a job whose node 0 is MASTER: the names that Kubernetes gives to the pods of a
# TrainJob, a JobSet and a StatefulSet (NAME-0 ... NAME-I) and of a PyTorchJob (NAME-master-0,
# NAME-worker-0 ...).
pod_hosts() { # MASTER NODES SLOTS
    awk -v master="$1" -v nodes="$2" -v slots="$3" 'BEGIN {
        dot = index(master ".", ".")
        head = substr(master, 1, dot - 1); tail = substr(master, dot)
        print master, slots
        master_pod = sub(/-master-0$/, "-worker-", head)
        if (!master_pod && !sub(/-0$/, "-", head) && nodes > 1) exit 1
        for (i = 1; i < nodes; i++) print head i - master_pod tail, slots
    }' ||
        die "MASTER_ADDR is '$1', expected a pod's name such as job-node-0-0.job, or --hostfile"
}

# ---- Environments: hosts, node (this one's number) and what (where that was read) ----------

node=0 ssh='' hosts=''

from_slurm() {
    what=SLURM_JOB_NODELIST
    [ -n "${SLURM_JOB_NODELIST-}" ] ||
        die "SLURM_JOB_NODELIST is not set, expected a job of Slurm"
    [ "${SLURM_STEP_NUM_TASKS-1}" = 1 ] ||
        die "srun started $SLURM_STEP_NUM_TASKS tasks, expected the batch script, without srun"
    [ -n "$hostfile" ] || hosts=$(slurm_hosts) || exit 2
    find_srun
}

# In an allocation mpirun starts its daemons by srun, which needs no PMIx for that.
find_srun() {
    ssh=''
    command -v srun >/dev/null || ssh='without srun, over ssh'
}

from_skypilot() {
    what=SKYPILOT_NODE_IPS ssh='over ssh'
    [ -n "${SKYPILOT_NODE_IPS-}" ] ||
        die "SKYPILOT_NODE_IPS is not set, expected a task of SkyPilot"
    node=${SKYPILOT_NODE_RANK-0} per=${SKYPILOT_NUM_GPUS_PER_NODE-0}
    [ "$per" != 0 ] || per=''
    hosts=$(printf '%s\n' "$SKYPILOT_NODE_IPS" | awk -v slots="$per" 'NF { print $1, slots }')
}

# torchrun's children have GROUP_* and LOCAL_*; what would start torchrun has PET_*, or RANK by
# node.
from_torchrun() {
    local_rank=${LOCAL_RANK-0} master=${PET_MASTER_ADDR-${MASTER_ADDR-}}
    nodes=${GROUP_WORLD_SIZE-${PET_NNODES-${WORLD_SIZE-}}}
    per=${LOCAL_WORLD_SIZE-${PET_NPROC_PER_NODE-}}
    node=${GROUP_RANK-${PET_NODE_RANK-${RANK-}}}
    what=MASTER_ADDR ssh='over ssh'
    [ -n "$master" ] || die "MASTER_ADDR is not set, expected the environment of torchrun"
    [ -n "$node" ] ||
        die "neither PET_NODE_RANK nor RANK is set, expected the number of this node"
    [ "${nodes%%:*}" = "${nodes#*:}" ] ||
        die "PET_NNODES is '$nodes', expected one number of nodes"
    nodes=${nodes#*:}
    check_count "the number of nodes" "$nodes"
    case $per in
    *[!0-9]*) per='' ;; # gpu, cpu, auto: torchrun would count, and -n has to say it
    esac
    [ -n "$hostfile" ] || hosts=$(pod_hosts "$master" "$nodes" "$per") || exit 2
    [ "$local_rank" = 0 ] || {
        say "local rank $local_rank of node $node has nothing to do"
        exit 0
    }
}

from_kubernetes() {
    set_by=${OMPI_MCA_orte_default_hostfile-${PRTE_MCA_prte_default_hostfile-/etc/mpi/hostfile}}
    : "${hostfile:=$set_by}"
    [ -r "$hostfile" ] ||
        die "cannot read '$hostfile', expected the host file of an MPIJob or TrainJob"
    what=$hostfile ssh='over ssh'
}

from_hostfile() {
    what=$hostfile ssh='over ssh'
    [ -n "$hostfile" ] || die "--from is hostfile, expected --hostfile FILE, too"
    [ -z "${SLURM_JOB_NODELIST-}" ] || find_srun
}

# from = the environment that is there.
find_environment() {
    [ -z "$hostfile" ] || { from=hostfile && return; }
    [ -z "${SLURM_JOB_NODELIST-}" ] || from="$from slurm"
    [ -z "${SKYPILOT_NODE_IPS-}" ] || from="$from skypilot"
    [ -z "${PET_NNODES-}${GROUP_WORLD_SIZE-}${MASTER_ADDR:+${WORLD_SIZE-}}" ] ||
        from="$from torchrun"
    [ -z "${OMPI_MCA_orte_default_hostfile-}${PRTE_MCA_prte_default_hostfile-}" ] &&
        [ ! -e /etc/mpi/hostfile ] || from="$from kubernetes"
    from=${from# }
    case $from in
    '') die "found no hosts, expected Slurm, SkyPilot, torchrun, Kubernetes or --hostfile" ;;
    *' '*) die "found the environments $from, expected one: choose with --from" ;;
    esac
}

# ---- mpirun -------------------------------------------------------------------------------

[ -n "$from" ] || find_environment
"from_$from"
if [ -n "$hostfile" ]; then
    hosts=$(file_hosts "$hostfile") || die "$hostfile:$hosts"
    what=$hostfile
fi
count=$(printf '%s\n' "$hosts" | grep -c .)
[ "$count" -gt 0 ] || die "$what names no host, expected at least one"
bad=$(printf '%s\n' "$hosts" |
    grep -vxE '[A-Za-z0-9][A-Za-z0-9._@-]*( [1-9][0-9]{0,5}| ?)' | head -n 1)
[ -z "$bad" ] || die "$what: found '$bad', expected the name of a host and at least one slot"

# A host without a number of slots takes its share of -n.
all=$(printf '%s\n' "$hosts" | awk 'NF < 2 { exit 1 } { n += $2 } END { print n }') || {
    [ -n "$ranks" ] ||
        die "$what states no number of ranks for '${hosts%% *}', expected -n RANKS"
    each=$(((ranks + count - 1) / count))
    hosts=$(printf '%s\n' "$hosts" | awk -v each="$each" '{ print $1, NF < 2 ? each : $2 }')
}
: "${ranks:=$all}"
# mpirun would refuse that in 13 lines, unless it was told otherwise.
case ${OMPI_MCA_rmaps_base_oversubscribe-}${PRTE_MCA_rmaps_default_mapping_policy-} in
'' | 0)
    [ "$ranks" -le "${all:-$ranks}" ] ||
        die "-n is $ranks, expected at most $all, the slots of $what (or OMPI_MCA_rmaps_base_oversubscribe=1)"
    ;;
esac
say "found $from ($what), hosts: $count, ranks: $ranks${ssh:+, $ssh}"

# mpirun's daemon on this node is orted (Open MPI 4) or prted (5).
has_daemon() {
    for file in /proc/[0-9]*/comm; do
        { [ -O "$file" ] && read -r name <"$file"; } 2>/dev/null || continue
        case $name in orted | prted) return 0 ;; esac
    done
    return 1
}

wait_for_end() {
    last=$(($(date +%s) + wait_s))
    until has_daemon; do
        [ "$(date +%s)" -lt "$last" ] ||
            die "no mpirun reached node $node within $wait_s s, expected node 0 to start it"
        sleep 0.2
    done
    while has_daemon; do
        sleep 0.2
    done
}

if [ "$node" != 0 ]; then
    say "node $node waits for the mpirun of node 0"
    [ -n "$print" ] || wait_for_end
    exit 0
fi

version=$(mpirun --version 2>&1 | head -n 1)
# mca = the option for settings of the launcher; its parts have other names since Open MPI 5.
case $version in
*'(Open MPI) '[1-4].*) mca=--mca plm=rsh prefix=orte ;;
*'(Open MPI) '[5-9].*) mca=--prtemca plm=ssh prefix=prte ;;
*) die "'mpirun --version' prints '$version', expected the version of an Open MPI" ;;
esac

# In reverse, because each goes before what is there: settings, exported variables, hosts.
names=$(awk 'BEGIN {
    for (name in ENVIRON)
        if (name ~ /^((PARO|NCCL|UCX)_[A-Za-z0-9_]*|(LD_LIBRARY_)?PATH)$/) print name
}')
for name in $(printf '%s\n' "$names" | sort -r); do
    set -- -x "$name" "$@"
done
# shellcheck disable=SC2086 # mca, plm and prefix are words of this script
if [ -n "$ssh" ]; then
    agent=${OMPI_MCA_plm_rsh_agent-${PRTE_MCA_plm_ssh_agent-}}
    args=${OMPI_MCA_plm_rsh_args-${PRTE_MCA_plm_ssh_args-}}
    [ -n "$agent$args" ] || args='-o ConnectionAttempts=10'
    [ -z "$args" ] || set -- $mca plm_${plm}_args "$args" "$@"
    [ -z "$agent" ] || set -- $mca plm_${plm}_agent "$agent" "$@"
    [ "$ssh" = 'over ssh' ] || set -- $mca plm $plm "$@"
    ! printf '%s\n' "$hosts" | grep -q '[A-Za-z].*[.]' ||
        set -- $mca ${prefix}_keep_fqdn_hostnames 1 "$@"
fi
list=$(printf '%s\n' "$hosts" | awk '{ printf "%s%s:%s", sep, $1, $2; sep = "," }')
set -- mpirun -n "$ranks" -H "$list" "$@"
[ -n "$print" ] || exec "$@"

# In a shell's words.
line=$(for word in "$@"; do
    case $word in
    *[!A-Za-z0-9_./:,=@%+-]* | '')
        printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")"
        ;;
    *) printf ' %s' "$word" ;;
    esac
done)
printf '%s\n' "${line# }" 2>/dev/null || die "cannot write to standard output"
