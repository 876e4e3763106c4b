/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_INSIDE_H
#define COLL_COLL_INSIDE_H

/* Inside coll/. */
#include "coll/coll.h"

/* coll_call.c: a run as an operation of a stream, with its number over NCCL; the stages. */
struct stream_op coll_call_op(struct coll_call *call);
/* bytes of exec_mpi_take for all stages */
int64_t coll_stages_bytes(const struct coll_options *options);
int coll_stages_open(struct coll *c, const struct coll_options *options, struct err *err);
void coll_stages_close(struct coll *c);
/* once per handle, if there are stages */
int coll_stages_use(struct coll_handle *h, struct err *err);
/* coll_meter.c: wraps the call's op: counts it while it runs, and records it in the meter. */
void coll_meter_init(struct coll *c, const struct coll_options *o);
struct stream_op coll_observe(struct coll_call *call, struct stream_op op);

#endif
