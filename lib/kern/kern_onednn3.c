/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the matmul primitive in the interface of oneDNN 3.x. */
#include "kern/kern_onednn.h"

#include <string.h>

/* Describes (rows, columns), or a matrix stored as (columns, rows) if op is 'T'. */
static dnnl_status_t onednn3_matrix(dnnl_memory_desc_t *out, dnnl_data_type_t type, char op,
                                    int64_t rows, int64_t columns, int64_t ld)
{
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {op == 'N' ? ld : 1, op == 'N' ? 1 : ld};

    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
}

/*
 * The first implementation that oneDNN 3.7 offers for bf16 ("brg") reads and writes a vector
 * with distance between its elements as if it were contiguous: a column of c, or a row of a
 * transposed a.
 */
static int is_strided_vector(const struct kern_product_shape *s)
{
    return (s->n == 1 && s->ldc > 1) || (s->m == 1 && s->ta == 'T' && s->lda > 1);
}

static dnnl_status_t skip_brgemm(dnnl_primitive_desc_t desc)
{
    const char *name = "";
    dnnl_status_t status;

    do
        status = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    while (!status && strncmp(name, "brg", 3) == 0 &&
           !(status = dnnl_primitive_desc_next_impl(desc)));
    return status;
}

dnnl_status_t kern_onednn_matmul(dnnl_primitive_desc_t *out, const struct kern_product_shape *s,
                                 dnnl_engine_t engine, dnnl_primitive_attr_t attr)
{
    dnnl_data_type_t type = s->type == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
    dnnl_memory_desc_t a = NULL, b = NULL, c = NULL;
    dnnl_status_t status;

    *out = NULL;
    (void)((status = onednn3_matrix(&a, type, s->ta, s->m, s->k, s->lda)) ||
           (status = onednn3_matrix(&b, type, s->tb, s->k, s->n, s->ldb)) ||
           (status = onednn3_matrix(&c, dnnl_f32, 'N', s->m, s->n, s->ldc)) ||
           (status = dnnl_matmul_primitive_desc_create(out, engine, a, b, NULL, c, attr)) ||
           (is_strided_vector(s) && (status = skip_brgemm(*out))));
    dnnl_memory_desc_t made[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (made[i])
            dnnl_memory_desc_destroy(made[i]);
    return status;
}

dnnl_status_t kern_onednn_append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}
