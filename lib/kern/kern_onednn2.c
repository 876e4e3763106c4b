/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the matmul primitive in the interface of oneDNN 2.x. */
#include "kern/kern_onednn.h"

/* Describes (rows, columns), or a matrix stored as (columns, rows) if op is 'T'. */
static dnnl_status_t onednn2_matrix(dnnl_memory_desc_t *out, dnnl_data_type_t type, char op,
                                    int64_t rows, int64_t columns, int64_t ld)
{
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {op == 'N' ? ld : 1, op == 'N' ? 1 : ld};

    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

dnnl_status_t kern_onednn_matmul(dnnl_primitive_desc_t *out, const struct kern_product_shape *s,
                                 dnnl_engine_t engine, dnnl_primitive_attr_t attr)
{
    dnnl_data_type_t type = s->type == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t product;
    dnnl_status_t status;

    *out = NULL;
    (void)((status = onednn2_matrix(&a, type, s->ta, s->m, s->k, s->lda)) ||
           (status = onednn2_matrix(&b, type, s->tb, s->k, s->n, s->ldb)) ||
           (status = onednn2_matrix(&c, dnnl_f32, 'N', s->m, s->n, s->ldc)) ||
           (status = dnnl_matmul_desc_init(&product, &a, &b, NULL, &c)) ||
           (status = dnnl_primitive_desc_create(out, &product, attr, engine, NULL)));
    return status;
}

dnnl_status_t kern_onednn_append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}
