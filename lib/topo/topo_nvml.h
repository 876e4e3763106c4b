/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_NVML_H
#define TOPO_TOPO_NVML_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * This machine's GPUs as NVIDIA's driver reports them through NVML.  The library is loaded by
 * the first query only, so neither building nor running without GPUs needs it.  NVML shows all
 * GPUs of the machine (of the container), regardless of CUDA_VISIBLE_DEVICES.
 */
enum {
    TOPO_NVML_LINKS = 64, /* most links of one GPU; Blackwell has 18 */
    TOPO_NVML_CPUS = 896 /* as many as fit into the 255 bytes that NCCL reads of an attribute */
};

enum topo_nvml_end { TOPO_NVML_GPU, TOPO_NVML_PROCESSOR, TOPO_NVML_SWITCH, TOPO_NVML_UNKNOWN };

struct topo_nvml_link { /* an active link */
    enum topo_nvml_end end;
    char remote[20]; /* bus id "0000:1b:00.0"; "" where the driver hides it */
};

struct topo_nvml_gpu {
    char name[96], busid[20]; /* "NVIDIA H200", "0000:1b:00.0" */
    int64_t memory_bytes;
    int sm;                     /* compute capability, 90 for 9.0 */
    unsigned device, subsystem; /* PCI ids, the maker's in the low half */
    /* The PCIe link above; an idle GPU lowers its generation and keeps its lanes.  0 unknown.
     */
    int gen_now, gen_most, lanes_now, lanes_most;
    int numa; /* the closest NUMA node, -1: unknown */
    /* Bit mask of the closest processors; all 0: unknown */
    unsigned long cpus[TOPO_NVML_CPUS / 64];
    int links;
    struct topo_nvml_link link[TOPO_NVML_LINKS];
};

/* The PCIe level that joins two GPUs, as nvmlGpuTopologyLevel_t. */
enum { TOPO_NVML_ONE_SWITCH = 10, TOPO_NVML_SWITCHES = 20, TOPO_NVML_NODE = 40 };

struct topo_nvml {
    int gpus;
    struct topo_nvml_gpu *gpu; /* [gpus], owned */
    /* [gpus][gpus], owned: the level that joins two GPUs, -1: unknown */
    int *common;
    int links_unknown; /* the driver hides the links of some GPU, as in a sandbox */
};

/* All facts of each GPU, or only name, bus id, memory and sm. */
enum topo_nvml_part { TOPO_NVML_ALL, TOPO_NVML_NAMES };
/*
 * ERR_ABSENT without NVML or without a GPU; ERR_DEVICE with NVML's own message if a call fails.
 * A function that an older driver lacks is an error only if the answer depends on it.
 */
int topo_nvml_read(struct topo_nvml *n, enum topo_nvml_part part, struct err *err);
void topo_nvml_release(struct topo_nvml *n);
/* The name of all GPUs, or the first one's with "... and others". */
void topo_nvml_name(const struct topo_nvml *n, char *name, size_t space);

#endif
