/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_PARTS_H
#define TOPO_TOPO_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "value/value_xml.h"
#include "topo/topo.h"
#include "topo/topo_nvml.h"

/*
 * A machine as NCCL's topology XML has it: processors, below them the PCI devices with the
 * switches between them, in and on those GPUs, NVLinks, network devices.
 */
struct topo_cpu {
    int numa, family, model; /* family and model as NCCL counts them; -1: unknown */
    char affinity[256];      /* "00000000,0000ffff"; "" unknown, like the next two */
    char arch[16], vendor[24];
};

struct topo_pci {
    char busid[20];
    unsigned class; /* 0x030200 */
    unsigned id[4]; /* vendor, device, and those of the subsystem; all 0 unknown */
    double GTps;    /* gigatransfers per second and lane: 2.5, 5, 8, ...; 0 unknown */
    int lanes;
};

/* New elements; x has a root, "system".  parent: a processor or a switch. */
struct xml_node *topo_parts_cpu(struct xml *x, const struct topo_cpu *cpu);
struct xml_node *topo_parts_pci(struct xml *x, struct xml_node *parent,
                                const struct topo_pci *pci);
/* A pci by its bus id; NULL: absent. */
struct xml_node *topo_parts_find(const struct xml *x, const char *busid);

/*
 * From NVML's answers and, where `root` has them ("" or "/host"), the kernel's files.  x is
 * released with xml_release.
 */
void topo_nvml_parts(struct xml *x, const struct topo_nvml *n, const char *root);
/*
 * From hwloc's XML, as a template: without GPUs' compute capability and ports' speed.
 * ERR_ABSENT for what it cannot tell.
 */
int topo_hwloc_parts(struct xml *x, const struct xml *hwloc, struct err *err);

/* Parts of hwloc's XML: an object of a type; the value of an <info>, "" where it is absent. */
int topo_hwloc_is_object(const struct xml_node *n, const char *type);
const char *topo_hwloc_info(const struct xml_node *n, const char *name);
int topo_hwloc_is_gpu(const struct xml *x, const struct xml_node *n);
enum topo_osdev { TOPO_OSDEV_NETWORK, TOPO_OSDEV_FABRIC, TOPO_OSDEV_COMPUTE };
int topo_hwloc_is_osdev(const struct xml *x, const struct xml_node *n, enum topo_osdev what);
/* Devices that the machine sends over: of a fabric, or all network ones where there is none. */
enum topo_osdev topo_hwloc_nets(const struct xml *x);
/* NUMA nodes, GPUs and network devices. */
void topo_hwloc_count(const struct xml *x, struct topo_devices *d);

/* ---- the kernel's files below root/sys and root/proc ---- */

/* The bus ids of the switches above a device, outermost first; how many, -1 where unknown. */
enum { TOPO_SYSFS_DEPTH = 16 };
int topo_sysfs_above(const char *root, const char *busid, char above[TOPO_SYSFS_DEPTH][20]);
/* The same with each port and the device itself, the last. */
int topo_sysfs_path(const char *root, const char *busid, char step[2 * TOPO_SYSFS_DEPTH][20]);
/* The bus id of what "class/net/eth0" is a part of; 0, "": it is no PCI device. */
int topo_sysfs_device(const char *root, const char *of, char busid[20]);
/*
 * A word of a capability in a device's configuration space, *at its offset there.  IO_ABSENT:
 * there is no such capability; IO_BROKEN: it cannot be read, which takes root.
 */
enum { TOPO_EXTENDED = 1 << 16, TOPO_CAP_EXPRESS = 0x10, TOPO_CAP_ACS = TOPO_EXTENDED | 0x0d };
enum io_answer topo_sysfs_word(const char *root, const char *busid, unsigned capability,
                               int offset, int *at, unsigned *word);
/* The "current" or the "max" link of a device, 0 where unknown. */
void topo_sysfs_link(const char *root, const char *busid, const char *which, double *GTps,
                     int *lanes);
/* A list of processors or nodes, "0-1,4": how many, 0 where it is none. */
enum { TOPO_SYSFS_CPUS = 8192 };
int topo_sysfs_list(const char *line, unsigned char in[TOPO_SYSFS_CPUS]);
/* The list of processors that this process may run on, "" where unknown. */
void topo_sysfs_allowed(const char *root, char *list, size_t space);
/* Sets the kernel's facts of a PCI device: class, ids, link; facts that it lacks stay. */
void topo_sysfs_pci(const char *root, struct topo_pci *pci);
int topo_sysfs_numa(const char *root, const char *busid);    /* -1 unknown */
void topo_sysfs_cpu(const char *root, struct topo_cpu *cpu); /* arch, vendor, family, model */
int topo_sysfs_nodes(const char *root); /* NUMA nodes of the machine, 0 unknown */
/* The kernel's number of a processor's family as NCCL writes it. */
int topo_nccl_family(int family);
void topo_sysfs_host(const char *root, char *host, size_t space);
/* Ports of network devices that RDMA knows and that are up, by name. */
struct topo_sysfs_port {
    char name[64], busid[20];
    int port;
    int64_t mbit;
};
int topo_sysfs_ports(const char *root,
                     struct topo_sysfs_port **ports); /* owned by the caller */

#endif
