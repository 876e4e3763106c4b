/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_IMPORT_H
#define TOPO_TOPO_IMPORT_H

#include "topo/topo_given.h"

/*
 * A fabric from this machine ("nvml:"), or from what another tool writes, told apart by
 * content: NCCL's topology XML, hwloc's XML, the text of `nvidia-smi topo -m`, that of
 * ibnetdiscover; YAML and synth: as well.
 *
 * The first three describe one machine: its GPUs, in the order of their ranks, are groups of
 * those that NVLink joins (all of them, on PCIe, where it joins none).  ibnetdiscover describes
 * hosts below switches.  A figure that the file does not state follows from what it states and
 * a table that the level's source names (PCIe generation and lanes, NVLink by compute
 * capability), or it has to be given; else it is an error that says with which word.
 */
struct topo_settings {
    struct topo_given given;
    int fill;  /* `given` only completes: what the file states stays */
    int nodes; /* so many machines as the one described; 0: as many as hosts, or 1 */
    int ranks; /* on each host, where the file counts no GPUs; 0: one for each NUMA node */
    const char *hosts; /* names for the machines, as "node[0-3],login"; NULL: the file's */
    const char *only;  /* these hosts of the fabric and no other; NULL: all */
};

/* ask NULL: nothing is said beside the file.  A path of "-" is stdin. */
int topo_import(struct topo *t, const char *what, const struct topo_settings *settings,
                struct err *err);
/*
 * A machine as NCCL's topology XML: of nvml:, of such XML, or of hwloc's.  ERR_ABSENT where it
 * does not tell what that is made of.
 */
int topo_export_nccl(const char *what, FILE *out, struct err *err);
/* Imports a text that a 0 byte ends; takes it (mem_free). */
int topo_import_text(struct topo *t, const char *name, char *text, int64_t bytes,
                     const struct topo_settings *settings, struct err *err);

#endif
