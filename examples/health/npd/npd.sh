#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# horing-check as a plugin of Kubernetes' node-problem-detector, for horing.json in this folder.
#
# The detector knows 0 (no problem), 1 (problem) and everything else (unknown), so that the
# statuses of a monitoring plugin would be misread: here CRITICAL is 1, OK and WARNING are 0,
# UNKNOWN is 2.  It keeps the first 80 bytes of the output as the message of the condition, so
# the perfdata are removed. /sys and /proc are the host's; a container sees its own network.
set -u

PATH=/usr/local/bin:/usr/bin:/bin
OPTIONS='--sys /host/sys --proc /host/proc --state /var/lib/horing-check.npd'

# shellcheck disable=SC2086 # OPTIONS is a list of words
answer=$(horing-check --level quick $OPTIONS)
rc=$?
line=$(printf '%s\n' "$answer" | head -n 1)
printf '%.80s\n' "${line%%|*}"
case $rc in
0 | 1) exit 0 ;;
2) exit 1 ;;
*) exit 2 ;;
esac
