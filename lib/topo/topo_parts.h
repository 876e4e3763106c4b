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
 * A machine as in NCCL's topology XML: processors, below them PCI devices and the switches
 * between them, and below those GPUs, NVLinks and network devices.
 */
struct topo_cpu {
    int numa, family, model; /* family and model in NCCL's numbering; -1: unknown */
    char affinity[256];      /* "00000000,0000ffff"; "": unknown; likewise arch and vendor */
    char arch[16], vendor[24];
};

struct topo_pci {
    char busid[20];
    unsigned class; /* 0x030200 */
    unsigned id[4]; /* vendor, device, subsystem vendor, subsystem device; all 0: unknown */
    double GTps;    /* gigatransfers per second and lane: 2.5, 5, 8, ...; 0: unknown */
    int lanes;
};

/* Add elements to x, whose root is "system". parent: a processor or a switch. */
struct xml_node *topo_parts_cpu(struct xml *x, const struct topo_cpu *cpu);
struct xml_node *topo_parts_pci(struct xml *x, struct xml_node *parent,
                                const struct topo_pci *pci);
/* Finds a pci element by its bus id; NULL: absent. */
struct xml_node *topo_parts_find(const struct xml *x, const char *busid);

/*
 * Fills x from NVML's answers and from the kernel's files below `root` ("" or "/host") where
 * they exist.  Release x with xml_release.
 */
void topo_nvml_parts(struct xml *x, const struct topo_nvml *n, const char *root);
/*
 * Fills x from hwloc's XML, as a template: without the GPUs' compute capability and the ports'
 * speed.  ERR_ABSENT if hwloc's file lacks something that NCCL needs.
 */
int topo_hwloc_parts(struct xml *x, const struct xml *hwloc, struct err *err);

/* Queries on hwloc's XML: whether an object has a type; the value of an <info>, "" if
   absent. */
int topo_hwloc_is_object(const struct xml_node *n, const char *type);
const char *topo_hwloc_info(const struct xml_node *n, const char *name);
int topo_hwloc_is_gpu(const struct xml *x, const struct xml_node *n);
enum topo_osdev { TOPO_OSDEV_NETWORK, TOPO_OSDEV_FABRIC, TOPO_OSDEV_COMPUTE };
int topo_hwloc_is_osdev(const struct xml *x, const struct xml_node *n, enum topo_osdev what);
/* The devices that the machine sends over: fabric devices, or network devices if there is no
   fabric. */
enum topo_osdev topo_hwloc_nets(const struct xml *x);
/* NUMA nodes, GPUs and network devices. */
void topo_hwloc_count(const struct xml *x, struct topo_devices *d);

/* ---- the kernel's files below root/sys and root/proc ---- */

/* The bus ids of the switches above a device, outermost first.  Returns their number, -1:
   unknown. */
enum { TOPO_SYSFS_DEPTH = 16 };
int topo_sysfs_above(const char *root, const char *busid, char above[TOPO_SYSFS_DEPTH][20]);
/* The same list with each switch port included, and the device itself at the end. */
int topo_sysfs_path(const char *root, const char *busid, char step[2 * TOPO_SYSFS_DEPTH][20]);
/* The bus id of the PCI device that `of` ("class/net/eth0") belongs to; 0 and "": it is not a
   PCI device. */
int topo_sysfs_device(const char *root, const char *of, char busid[20]);
/*
 * Reads a word of a capability in a device's configuration space; *at is its offset.
 * IO_ABSENT: there is no such capability; IO_BROKEN: unreadable (reading needs root).
 */
enum { TOPO_EXTENDED = 1 << 16, TOPO_CAP_EXPRESS = 0x10, TOPO_CAP_ACS = TOPO_EXTENDED | 0x0d };
enum io_answer topo_sysfs_word(const char *root, const char *busid, unsigned capability,
                               int offset, int *at, unsigned *word);
/* The "current" or the "max" link of a device; 0: unknown. */
void topo_sysfs_link(const char *root, const char *busid, const char *which, double *GTps,
                     int *lanes);
/* Parses a list of processors or nodes, "0-1,4".  Returns their number, 0: not a list. */
enum { TOPO_SYSFS_CPUS = 8192 };
int topo_sysfs_list(const char *line, unsigned char in[TOPO_SYSFS_CPUS]);
/* The list of processors that this process may run on; "": unknown. */
void topo_sysfs_allowed(const char *root, char *list, size_t space);
/* Sets class, ids and link of a PCI device from the kernel; values that the kernel lacks
   stay. */
void topo_sysfs_pci(const char *root, struct topo_pci *pci);
int topo_sysfs_numa(const char *root, const char *busid);    /* -1 unknown */
void topo_sysfs_cpu(const char *root, struct topo_cpu *cpu); /* arch, vendor, family, model */
int topo_sysfs_nodes(const char *root); /* NUMA nodes of the machine, 0 unknown */
/* Converts the kernel's number of a processor family to NCCL's. */
int topo_nccl_family(int family);
void topo_sysfs_host(const char *root, char *host, size_t space);
/* Active ports of network devices with RDMA, by name. */
struct topo_sysfs_port {
    char name[64], busid[20];
    int port;
    int64_t mbit;
};
int topo_sysfs_ports(const char *root,
                     struct topo_sysfs_port **ports); /* owned by the caller */

#endif
