#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A health check that slurmd runs on each node:
#
#   HealthCheckProgram=/etc/slurm/horing-check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
#
# horing-check never drains a node; this script decides that.  By default it only writes to the log.
# With DRAIN=yes it runs the scontrol command that --suggest prints, unless the node is already
# drained, so that the earlier reason stays.  It never resumes a node.
set -u

PATH=/usr/local/bin:/usr/bin:/bin
DRAIN=no
OPTIONS='--state /var/lib/horing-check'

# shellcheck disable=SC2086 # OPTIONS is a list of words
answer=$(horing-check --level quick --suggest $OPTIONS)
rc=$?
[ $rc = 0 ] && exit 0
line=$(printf '%s\n' "$answer" | head -n 1)
! command -v logger > /dev/null || logger -t horing-check "${line%%|*}" 2> /dev/null
[ $rc = 2 ] && [ "$DRAIN" = yes ] || exit 0

node=${SLURMD_NODENAME:-$(hostname -s)}
case $(sinfo -h -n "$node" -o %T 2> /dev/null) in
*drain* | *down*) exit 0 ;;
esac
reason=$(printf '%s\n' "$answer" | sed -n 's/^scontrol update .* Reason="\(horing: [^"]*\)"$/\1/p' | head -n 1)
[ -z "$reason" ] || scontrol update NodeName="$node" State=DRAIN Reason="$reason"
