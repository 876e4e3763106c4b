#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A TaskProlog that gives each task the tables of this cluster:
#
#   TaskProlog=/etc/slurm/taskprolog.sh
#
# Slurm takes lines "export NAME=VALUE" of its standard output into the environment of the
# task.  What the user has set stays.
#
#   paro-sched pick -i fabric.yaml --table > /etc/paro/tuning      for libparo-mpi.so and libparo-nccl.so
#   paro-bench --emit nccl-tuner ...       > /etc/paro/nccl.csv    for the example tuner plugin of NCCL
DIR=/etc/paro

[ -n "${PARO_TUNING-}" ] || [ ! -r $DIR/tuning ] || echo "export PARO_TUNING=$DIR/tuning"
[ -n "${NCCL_TUNER_CONFIG_FILE-}" ] || [ ! -r $DIR/nccl.csv ] || echo "export NCCL_TUNER_CONFIG_FILE=$DIR/nccl.csv"
exit 0
