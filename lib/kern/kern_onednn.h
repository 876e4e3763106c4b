/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_ONEDNN_H
#define KERN_KERN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "kern/kern_product.h"

/*
 * Wraps the differences between the two interfaces of oneDNN: kern_onednn2.c is for versions
 * 2.x, where descriptors are structures, kern_onednn3.c for 3.x, where they are handles.  The
 * Makefile builds the one that fits the installed headers.
 *
 * Describes the matmul primitive of a shape on an engine.  Returns oneDNN's status; the caller
 * destroys *out unless it is NULL.
 */
dnnl_status_t kern_onednn_matmul(dnnl_primitive_desc_t *out,
                                 const struct kern_product_shape *shape, dnnl_engine_t engine,
                                 dnnl_primitive_attr_t attr);
/* Adds the product to the contents of c. */
dnnl_status_t kern_onednn_append_sum(dnnl_post_ops_t ops);

#endif
