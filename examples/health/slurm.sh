#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What slurmd runs on each node:
#
#   HealthCheckProgram=/etc/slurm/horing-check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
#
# horing-check never drains a node; this script is where a site decides that.  As it stands it
# writes to the log alone.  With DRAIN=yes it runs the line that --suggest prints, unless the
# node is drained already: by whom and why somebody may still want to know.  It never resumes.
set -u

PATH=/usr/local/bin:/usr/bin:/bin
DRAIN=no
OPTIONS='--state /var/lib/horing-check'

# The words of OPTIONS.
# shellcheck disable=SC2086
said=$(horing-check --level quick --suggest $OPTIONS)
rc=$?
[ $rc = 0 ] && exit 0
line=$(printf '%s\n' "$said" | head -n 1)
! command -v logger > /dev/null || logger -t horing-check "${line%%|*}" 2> /dev/null
[ $rc = 2 ] && [ "$DRAIN" = yes ] || exit 0

node=${SLURMD_NODENAME:-$(hostname -s)}
case $(sinfo -h -n "$node" -o %T 2> /dev/null) in
*drain* | *down*) exit 0 ;;
esac
reason=$(printf '%s\n' "$said" | sed -n 's/^scontrol update .* Reason="\(horing: [^"]*\)"$/\1/p' | head -n 1)
[ -z "$reason" ] || scontrol update NodeName="$node" State=DRAIN Reason="$reason"
