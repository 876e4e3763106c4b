/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_PARTS_H
#define TOPO_TOPO_PARTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/xml.h"
#include "topo/topo_nvml.h"

/*
 * What one machine is made of, as NCCL's topology XML has it: processors, below them the PCI
 * devices with the switches that are in between, in and on those GPUs, NVLinks, network
 * devices. A text of "" and a number of -1 are not told; so are a link's lanes and transfers of
 * 0.
 */
struct topo_cpu {
    int numa, family, model; /* family and model as NCCL counts them */
    char affinity[256];      /* "00000000,0000ffff" */
    char arch[16], vendor[24];
};

struct topo_pci {
    char busid[20];
    int cpu, parent; /* parent: of topo_parts.pci, -1 right below the processor */
    unsigned class;  /* 0x030200 */
    unsigned id[4];  /* vendor, device, and those of the subsystem; all 0 not told */
    double GTps;     /* gigatransfers per second and lane: 2.5, 5, 8, ... */
    int lanes;
};

struct topo_gpu {
    int pci, sm;
};

struct topo_nvlink { /* all links of a GPU to one target */
    int gpu, count;
    char target[20];
    unsigned class; /* 0x068000: a switch */
};

struct topo_nic {
    int pci, port;
    char name[64];
    int64_t mbit; /* per second */
};

struct topo_parts {
    struct topo_cpu *cpu; /* each array owned */
    struct topo_pci *pci;
    struct topo_gpu *gpu;
    struct topo_nvlink *nvlink;
    struct topo_nic *nic;
    size_t cpu_room, pci_room, gpu_room, nvlink_room, nic_room;
    int cpus, pcis, gpus, nvlinks, nics;
};

/* Each copies what it is given and returns its index. */
int topo_parts_cpu(struct topo_parts *p, const struct topo_cpu *cpu);
int topo_parts_pci(struct topo_parts *p, const struct topo_pci *pci);
int topo_parts_find(const struct topo_parts *p, const char *busid); /* a pci; -1: absent */
void topo_parts_gpu(struct topo_parts *p, struct topo_gpu gpu);
void topo_parts_nvlink(struct topo_parts *p, const struct topo_nvlink *link);
void topo_parts_nic(struct topo_parts *p, const struct topo_nic *nic);
void topo_parts_release(struct topo_parts *p);

/* As NCCL_TOPO_DUMP_FILE writes it.  GPUs without sm are PCI devices alone, as in a template.
 */
void topo_parts_print(const struct topo_parts *p, FILE *out);
/* A document of NCCL's again: the same elements and attributes. */
void topo_parts_echo(const struct xml *x, FILE *out);

/* From NVML's answers and, where `root` has them ("" or "/host"), the kernel's files. */
void topo_nvml_parts(struct topo_parts *p, const struct topo_nvml *n, const char *root);
/* From hwloc's XML, which is not read otherwise here; ERR_ABSENT for what it cannot tell. */
int topo_hwloc_parts(struct topo_parts *p, const struct xml *x, struct err *err);

/* What an object of hwloc's is: a device that computes; one of RDMA; any network's. */
int topo_hwloc_is_gpu(const struct xml *x, const struct xml_node *n);
int topo_hwloc_is_fabric(const struct xml *x, const struct xml_node *n);
int topo_hwloc_is_network(const struct xml *x, const struct xml_node *n);

/* ---- the kernel's files below root/sys and root/proc ---- */

/* The bus ids of the switches above a device, outermost first; how many, -1 where unknown. */
enum { TOPO_SYSFS_DEPTH = 16 };
int topo_sysfs_above(const char *root, const char *busid, char above[TOPO_SYSFS_DEPTH][20]);
/* What the kernel knows of a PCI device: class, ids, link; what it has not stays. */
void topo_sysfs_pci(const char *root, struct topo_pci *pci);
int topo_sysfs_numa(const char *root, const char *busid);    /* -1 unknown */
void topo_sysfs_cpu(const char *root, struct topo_cpu *cpu); /* arch, vendor, family, model */
int topo_sysfs_nodes(const char *root); /* NUMA nodes of the machine, 0 unknown */
/* The kernel's number of a processor's family as NCCL writes it. */
int topo_nccl_family(int family);
void topo_sysfs_host(const char *root, char *host, size_t room);
/* Ports of network devices that RDMA knows and that are up, by name. */
struct topo_sysfs_port {
    char name[64], busid[20];
    int port;
    int64_t mbit;
};
int topo_sysfs_ports(const char *root,
                     struct topo_sysfs_port **ports); /* owned by the caller */

#endif
