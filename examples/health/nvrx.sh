#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# horing-check as the node health check of NVIDIA's resiliency extension: the script that an
# nvhcd daemon runs before workers join.  It prints {"fail_count":N,"failed_checks":[CODES]} and
# fails if N > 0.  Only CRITICAL findings count: a warning, and a check that could not run, are
# no reason to leave a node out.
set -u

PATH=/usr/local/bin:/usr/bin:/bin
OPTIONS='--state /var/lib/horing-check.nvrx'

# shellcheck disable=SC2086 # OPTIONS is a list of words
codes=$(horing-check --level quick --json $OPTIONS | grep -oE '"state":"CRITICAL","code":"HC-[0-9]+"' | sed 's/.*"code"://')
printf '%s\n' "$codes" | awk '
    NF { list = list (n++ ? "," : "") $1 }
    END { printf "{\"fail_count\":%d,\"failed_checks\":[%s]}\n", n, list; exit n > 0 }'
