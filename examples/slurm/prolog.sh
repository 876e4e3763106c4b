#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A prolog that keeps jobs off a node whose network ports are faulty:
#
#   Prolog=/etc/slurm/prolog.sh
#   PrologFlags=Alloc
#
# If a prolog fails, Slurm drains the node and requeues the job.  This one fails on CRITICAL
# alone: a warning, and a check that could not run, are no reason to stop a job, nor is what
# horing-check reports for ten minutes after it was over: else a node that is repaired and
# resumed would be drained again.  It runs no command of Slurm, because those wait for slurmctld
# while slurmctld waits for the prolog.  The limit of 10 seconds is below PrologEpilogTimeout.
set -u

PATH=/usr/local/bin:/usr/bin:/bin
# A state folder of its own: error counters are compared with the previous run of the same user
# of it.
OPTIONS='--state /var/lib/horing-check.prolog'

# shellcheck disable=SC2086 # OPTIONS is a list of words
answer=$(horing-check --level quick -v $OPTIONS)
rc=$?
[ $rc != 0 ] || exit 0
line=$(printf '%s\n' "$answer" | head -n 1)
! command -v logger > /dev/null || logger -t horing-check "prolog of job ${SLURM_JOB_ID-}: ${line%%|*}" 2> /dev/null
[ $rc = 2 ] || exit 0
! printf '%s\n' "$answer" | grep '^CRITICAL ' | grep -qv '(until [^)]*, not [a-z]* now'
