/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_PARTS_H
#define PROBE_PROBE_PARTS_H

#include "probe/probe.h"

/* Between the files of this folder: how bytes become rows. */
int probe_chunks(int64_t bytes);
int64_t probe_aligned(int64_t bytes); /* to 64: where the next flow's begin */
/* One lap of it begins; exec_mpi_poll(r->exec) carries it on, nobody looks at what arrives. */
int probe_start(struct probe *p, struct probe_round *r, struct err *err);
/*
 * Collective: this rank's rows, which all ranks have or none, made ready to run as *out.  The
 * rows of s, the places and, of a round that fails, r are released.
 */
int probe_agree_rows(struct probe *p, struct schedule *s, struct exec_places *places,
                     struct probe_round *r, struct probe_round *out, struct err *err);

#endif
