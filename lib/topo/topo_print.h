/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_PRINT_H
#define TOPO_TOPO_PRINT_H

#include <stddef.h>

#include "topo/topo.h"

/* The printers behind topo_print(), one for each format. */
void topo_print_yaml(const struct topo *t, FILE *out);
void topo_print_json(const struct topo *t, FILE *out);
void topo_print_table(const struct topo *t, FILE *out);
void topo_print_svg(const struct topo *t, FILE *out);
/* Of a fabric whose groups all have a host. */
void topo_print_hostfile(const struct topo *t, FILE *out);
void topo_print_rankfile(const struct topo *t, FILE *out);

/* The figures of a level, in the order printed, and their bounds in a file. */
enum topo_figure_kind { TOPO_STATED, TOPO_KNOWN, TOPO_ERROR_BAR }; /* always; where known */
struct topo_figure {
    const char *key;
    size_t at; /* a double of struct topo_level */
    double least, most;
    enum topo_figure_kind kind;
};
enum { TOPO_FIGURES = 14 };
extern const struct topo_figure topo_figures[TOPO_FIGURES];
double topo_figure(const struct topo_level *level, const struct topo_figure *f);

/* Of other_flops, beside `flops`, which is of compute_type: "flops_bf16". */
const char *topo_other_key(const struct topo *t);

/* "4 ranks in 2 groups of 2, 2 levels": owned by the caller. */
char *topo_shape_text(const struct topo *t);

#endif
