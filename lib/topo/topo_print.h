/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_PRINT_H
#define TOPO_TOPO_PRINT_H

#include "value/value_record.h"
#include "topo/topo.h"

/* The printers that topo_print() calls, one for each format. */
void topo_print_yaml(const struct topo *t, FILE *out);
void topo_print_json(const struct topo *t, FILE *out);
void topo_print_table(const struct topo *t, FILE *out);
void topo_print_svg(const struct topo *t, FILE *out);
/* For a fabric whose groups all have a host. */
void topo_print_hostfile(const struct topo *t, FILE *out);
void topo_print_rankfile(const struct topo *t, FILE *out);

/* The printed fields of a struct topo_level; its figures are RECORD_REAL. */
enum { TOPO_ERROR_BAR = RECORD_OTHER };
extern const struct record topo_level_record[];

/* Key of other_flops: "flops_bf16" or "flops_f32".  The key `flops` goes with compute_type. */
const char *topo_other_key(const struct topo *t);

/* "4 ranks in 2 groups of 2, 2 levels": owned by the caller. */
char *topo_shape_text(const struct topo *t);

#endif
