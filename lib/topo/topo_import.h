/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_IMPORT_H
#define TOPO_TOPO_IMPORT_H

#include "topo/topo_given.h"

/*
 * Imports a fabric from this machine ("nvml:") or from the output of another tool, which is
 * recognized by its content: NCCL's topology XML, hwloc's XML, the text of `nvidia-smi topo
 * -m`, that of ibnetdiscover; YAML and synth: as well.
 *
 * The first three describe one machine: its GPUs, in the order of their ranks, are groups of
 * those that NVLink joins (a single group, on PCIe, without NVLink). ibnetdiscover describes
 * hosts below switches.  A figure that the file does not state is derived from other figures
 * and a table (PCIe generation and lanes, NVLink by compute capability), which rate_source
 * names; otherwise the user must give it, and the error names the word to use.
 */
struct topo_settings {
    struct topo_given given;
    int fill;  /* `given` only completes the file: stated figures stay */
    int nodes; /* number of machines like the described one; 0: the number of `hosts`, or 1 */
    int ranks; /* ranks per host if the file counts no GPUs; 0: one per NUMA node */
    const char *hosts; /* machine names, such as "node[0-3],login"; NULL: the file's */
    const char *only;  /* keep only these hosts of the fabric; NULL: all */
};

/* Reads `what` as topo_read does, with settings; NULL: none.  A path of "-" is stdin. */
int topo_import(struct topo *t, const char *what, const struct topo_settings *settings,
                struct err *err);
/*
 * Prints a machine as NCCL's topology XML. `what` is nvml:, or a file with such XML or hwloc's.
 * ERR_ABSENT if the source lacks the PCI devices for it.
 */
int topo_export_nccl(const char *what, FILE *out, struct err *err);
/* Imports a text that ends with a 0 byte; frees it (mem_free), on error too. */
int topo_import_text(struct topo *t, const char *name, char *text, int64_t bytes,
                     const struct topo_settings *settings, struct err *err);

/* Reads machines of a known type, "[HOSTSx]NAME" as "16xaws-p5", from the installed description
   of one; ERR_INPUT lists the names.  topo_is_instance: `what` is such a word, and no file. */
int topo_is_instance(const char *what);
int topo_instance_read(struct topo *t, const char *what, struct err *err);

#endif
