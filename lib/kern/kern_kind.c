/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes how much memory kernels need.  Independent of their implementation: no library of
 * theirs is needed here.
 */
#include "kern/kern_kind.h"

enum {
    BLOCK = 64,         /* queries that the CPU's attention processes at a time */
    FLASH_ROWS = 128,   /* a sequence's queries are rounded up to this: flash_padded */
    NORM_BLOCKS = 264,  /* blocks that sum dw and db: kern_cuda_norm_backward.cu */
    BIAS_PIECES = 128,  /* pieces of rows: kern_cuda_bias.cu */
    SUMSQ_BLOCKS = 528, /* kern_cuda_optim.cu */
    LOSS_BYTES = 16     /* per row of logits: kern_cuda_loss.cu */
};

enum dtype kern_kind_act(enum device_kind kind, enum dtype compute)
{
    return kind == DEVICE_CPU ? DTYPE_F32 : compute;
}

enum dtype kern_kind_weight(enum device_kind kind, enum dtype compute, enum dtype there)
{
    return kind != DEVICE_CPU && there == compute ? there : DTYPE_F32;
}

/* For each token id, target, row, and a possible start of its run; and the end of the runs. */
int64_t kern_kind_tokens_bytes(const struct kern *k, int64_t n)
{
    return k->kind == DEVICE_CPU ? 0 : (4 * n + 1) * (int64_t)sizeof(int32_t);
}

int64_t kern_attention_scratch(const struct kern_heads *s)
{
    return 2 * BLOCK * s->seq; /* S or P, and dP or dS */
}

int kern_kind_flash(enum dtype act, const struct kern_heads *s)
{
    return act == DTYPE_BF16 && (s->head_dim == 64 || s->head_dim == 128);
}

/* Pairs of a query's lse and dot(dO, O). */
int64_t kern_kind_flash_bytes(const struct kern_heads *s)
{
    int64_t rows = (s->seq + FLASH_ROWS - 1) / FLASH_ROWS * FLASH_ROWS;

    return s->batch * s->heads * rows * 2 * (int64_t)sizeof(float);
}

int64_t kern_kind_plain_bytes(const struct kern_heads *s)
{
    return s->batch * s->heads * s->seq * (int64_t)sizeof(float); /* dot(dO, O) */
}

int64_t kern_kind_attention_bytes(const struct kern *k, const struct kern_heads *s,
                                  int backward)
{
    if (k->kind == DEVICE_CPU)
        return kern_attention_scratch(s) * (int64_t)sizeof(float);
    if (!backward)
        return 0;
    return kern_kind_flash(k->act, s) ? kern_kind_flash_bytes(s) : kern_kind_plain_bytes(s);
}

void kern_kind_open(struct kern *out, enum device_kind kind, enum dtype compute,
                    enum dtype weight)
{
    static const struct kern_ops ops = {.tokens_bytes = kern_kind_tokens_bytes,
                                        .attention_bytes = kern_kind_attention_bytes};

    *out = (struct kern){.op = &ops,
                         .kind = kind,
                         .act = kern_kind_act(kind, compute),
                         .weight = kind == DEVICE_CPU ? DTYPE_F32 : weight,
                         .row_elems = kind == DEVICE_CPU ? 1 : 8};
}

int64_t kern_kind_work_bytes(enum device_kind kind, int64_t rows, int64_t norm_columns,
                             int64_t columns)
{
    const int64_t bytes[] = {SUMSQ_BLOCKS * (int64_t)sizeof(double),
                             NORM_BLOCKS * 2 * norm_columns * (int64_t)sizeof(float),
                             BIAS_PIECES * columns * (int64_t)sizeof(float), rows * LOSS_BYTES};
    int64_t most = 0;

    for (int i = 0; kind != DEVICE_CPU && i < 4; i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}

int64_t kern_kind_own_bytes(enum device_kind kind)
{
    return kind == DEVICE_CPU ? 0 : KERN_KIND_SUMS * (int64_t)sizeof(double);
}
