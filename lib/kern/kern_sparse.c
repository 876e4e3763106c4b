/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes products with a sparse matrix.  A tile is (columns, TILE): a column's rows are
 * contiguous.
 *
 *     y tile    a block of outputs stays in registers over its places: each reads one column
 *     dx tile   the block's dy stays in registers: each place adds to one column
 *     dw        the block's sums, 16 to a value, over all tiles; then the lanes of each
 */
#include "kern/kern_sparse.h"

#include <string.h>

#include "base/clones.h"
#include "kern/kern_vec.h"

enum { TILE = KERN_SPARSE_TILE, LANES = 16 };

int64_t kern_sparse_most(int block, int64_t entries)
{
    return (int64_t)((block == 4 ? 0.15 / 4 : 0.105) * (double)entries);
}

static int64_t tiles_of(int64_t rows)
{
    return (rows + TILE - 1) / TILE;
}

/* Outputs are rounded up to blocks of four. */
static int64_t sparse_rounded(int64_t out)
{
    return (out + 3) / 4 * 4;
}

int64_t kern_sparse_space(int64_t rows, int64_t in, int64_t out)
{
    return tiles_of(rows) * TILE * (in + sparse_rounded(out)) + 4 * LANES * in;
}

/* One stage of a transposition: swaps the lanes with bit `s` of two vectors. */
#define EACH(F, s)                                                                             \
    {                                                                                          \
        F(s, 0), F(s, 1), F(s, 2), F(s, 3), F(s, 4), F(s, 5), F(s, 6), F(s, 7), F(s, 8),       \
            F(s, 9), F(s, 10), F(s, 11), F(s, 12), F(s, 13), F(s, 14), F(s, 15)                \
    }
#define LOW(s, l)  ((l) & (s) ? LANES + (l) - (s) : (l))
#define HIGH(s, l) ((l) & (s) ? LANES + (l) : (l) + (s))

#define STAGE(v, s)                                                                            \
    for (int i = 0; i < LANES; i++)                                                            \
        if (!(i & (s))) {                                                                      \
            kern_lanes a = (v)[i], b = (v)[i + (s)];                                           \
            (v)[i] = __builtin_shuffle(a, b, (kern_masks)EACH(LOW, s));                        \
            (v)[i + (s)] = __builtin_shuffle(a, b, (kern_masks)EACH(HIGH, s));                 \
        }

/* (16,16) */
KERN_INLINE void transpose_lanes(kern_lanes v[LANES]){STAGE(v, 8) STAGE(v, 4) STAGE(v, 2)
                                                          STAGE(v, 1)}

/* Transposes columns [c, columns) of a tile, element by element. */
KERN_INLINE void transpose_rest(float *to, const float *x, int64_t ld, int64_t rows, int64_t c,
                                int64_t columns)
{
    for (; c < columns; c++)
        for (int64_t r = 0; r < TILE; r++)
            to[c * TILE + r] = r < rows ? x[r * ld + c] : 0;
}

/* Writes the tiles of x (rows, columns), `all` columns wide; the rest is 0. */
KERN_CLONES
static void transpose(float *to, const float *x, int64_t ld, int64_t rows, int64_t columns,
                      int64_t all)
{
    for (int64_t first = 0; first < rows; first += TILE, to += all * TILE, x += TILE * ld) {
        int64_t n = rows - first < TILE ? rows - first : TILE, c = 0;
        memset(to + columns * TILE, 0, (size_t)((all - columns) * TILE) * sizeof *to);
        for (; c + LANES <= columns; c += LANES)
            for (int64_t part = 0; part < TILE; part += LANES) {
                kern_lanes v[LANES] = {{0}};
                for (int64_t r = 0; r < LANES && part + r < n; r++)
                    v[r] = *(const kern_lanes *)(x + (part + r) * ld + c);
                transpose_lanes(v);
                for (int i = 0; i < LANES; i++)
                    *(kern_lanes *)(to + (c + i) * TILE + part) = v[i];
            }
        transpose_rest(to, x, ld, n, c, columns);
    }
}

KERN_INLINE void sparse_take(kern_lanes d[4][2], const float *tile, int64_t column,
                             const int block)
{
    for (int b = 0; b < block; b++)
        memcpy(d[b], tile + (column + b) * TILE, sizeof d[b]);
}

KERN_INLINE void y_tile(const struct kern_sparse *w, const float *x, float *y, const int block)
{
    for (int64_t o = 0; o * block < w->out; o++) {
        kern_lanes sum[4][2] = {{{0}}};
        for (int32_t p = w->start[o]; p < w->start[o + 1]; p++) {
            const kern_lanes *in = (const kern_lanes *)(x + (int64_t)w->column[p] * TILE);
            const float *v = w->value + (int64_t)p * block;
            for (int b = 0; b < block; b++) {
                sum[b][0] += v[b] * in[0];
                sum[b][1] += v[b] * in[1];
            }
        }
        for (int b = 0; b < block; b++)
            memcpy(y + (o * block + b) * TILE, sum[b], sizeof sum[b]);
    }
}

KERN_INLINE void dx_tile(const struct kern_sparse *w, const float *dy, float *dx,
                         const int block)
{
    for (int64_t o = 0; o * block < w->out; o++) {
        kern_lanes d[4][2];
        sparse_take(d, dy, o * block, block);
        for (int32_t p = w->start[o]; p < w->start[o + 1]; p++) {
            kern_lanes *to = (kern_lanes *)(dx + (int64_t)w->column[p] * TILE);
            const float *v = w->value + (int64_t)p * block;
            for (int b = 0; b < block; b++) {
                to[0] += v[b] * d[b][0];
                to[1] += v[b] * d[b][1];
            }
        }
    }
}

KERN_INLINE void dw_block(const struct kern_sparse *w, int64_t o, const float *dy,
                          const float *x, int64_t tiles, float *dvalue, float *sums,
                          const int block)
{
    int64_t places = w->start[o + 1] - w->start[o], wide = sparse_rounded(w->out) * TILE;

    memset(sums, 0, (size_t)(places * block * LANES) * sizeof *sums);
    for (int64_t t = 0; t < tiles; t++, dy += wide, x += w->in * TILE) {
        kern_lanes d[4][2], *to = (kern_lanes *)sums;
        sparse_take(d, dy, o * block, block);
        for (int32_t p = w->start[o]; p < w->start[o + 1]; p++, to += block) {
            const kern_lanes *in = (const kern_lanes *)(x + (int64_t)w->column[p] * TILE);
            for (int b = 0; b < block; b++)
                to[b] += d[b][0] * in[0] + d[b][1] * in[1];
        }
    }
    dvalue += (int64_t)w->start[o] * block;
    for (int64_t i = 0; i < places * block; i++)
        dvalue[i] += kern_sum(sums + i * LANES, LANES);
}

KERN_CLONES
static void y_of(const struct kern_sparse *w, const float *x, float *y)
{
    if (w->block == 4)
        y_tile(w, x, y, 4);
    else
        y_tile(w, x, y, 1);
}

KERN_CLONES
static void dx_of(const struct kern_sparse *w, const float *dy, float *dx)
{
    if (w->block == 4)
        dx_tile(w, dy, dx, 4);
    else
        dx_tile(w, dy, dx, 1);
}

KERN_CLONES
static void dw_of(const struct kern_sparse *w, const float *dy, const float *x, int64_t tiles,
                  float *dvalue, float *sums)
{
    for (int64_t o = 0; o * w->block < w->out; o++)
        if (w->block == 4)
            dw_block(w, o, dy, x, tiles, dvalue, sums, 4);
        else
            dw_block(w, o, dy, x, tiles, dvalue, sums, 1);
}

/* Transposes columns of a tile back into rows, + from + bias. */
KERN_CLONES
static void transpose_back(const float *tile, int64_t rows, int64_t columns, const float *from,
                           const float *bias, float *to, int64_t ld)
{
    int64_t c = 0;

    for (; c + LANES <= columns; c += LANES)
        for (int64_t part = 0; part < rows; part += LANES) {
            kern_lanes v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = *(const kern_lanes *)(tile + (c + i) * TILE + part);
            transpose_lanes(v);
            for (int64_t r = 0; r < LANES && part + r < rows; r++) {
                int64_t at = (part + r) * ld + c;
                if (from)
                    v[r] += *(const kern_lanes *)(from + at);
                if (bias)
                    v[r] += *(const kern_lanes *)(bias + c);
                *(kern_lanes *)(to + at) = v[r];
            }
        }
    for (; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            to[r * ld + c] =
                tile[c * TILE + r] + (from ? from[r * ld + c] : 0) + (bias ? bias[c] : 0);
}

void kern_sparse_y(const struct kern_sparse *w, const float *x, int64_t ldx, int64_t rows,
                   const float *from, const float *bias, float *y, int64_t ldy, float *space)
{
    float *out = space + w->in * TILE;

    for (int64_t first = 0; first < rows; first += TILE) {
        int64_t n = rows - first < TILE ? rows - first : TILE, at = first * ldy;
        transpose(space, x + first * ldx, ldx, n, w->in, w->in);
        y_of(w, space, out);
        transpose_back(out, n, w->out, from ? from + at : NULL, bias, y + at, ldy);
    }
}

void kern_sparse_dx(const struct kern_sparse *w, const float *dy, int64_t ldy, int64_t rows,
                    int add, float *dx, int64_t ldx, float *space)
{
    float *in = space + sparse_rounded(w->out) * TILE;

    for (int64_t first = 0; first < rows; first += TILE) {
        int64_t n = rows - first < TILE ? rows - first : TILE, at = first * ldx;
        transpose(space, dy + first * ldy, ldy, n, w->out, sparse_rounded(w->out));
        memset(in, 0, (size_t)(w->in * TILE) * sizeof *in);
        dx_of(w, space, in);
        transpose_back(in, n, w->in, add ? dx + at : NULL, NULL, dx + at, ldx);
    }
}

void kern_sparse_dw(const struct kern_sparse *w, const float *dy, int64_t ldy, const float *x,
                    int64_t ldx, int64_t rows, float *dvalue, float *space)
{
    float *out = space + tiles_of(rows) * TILE * w->in;
    float *sums = out + tiles_of(rows) * TILE * sparse_rounded(w->out);

    transpose(space, x, ldx, rows, w->in, w->in);
    transpose(out, dy, ldy, rows, w->out, sparse_rounded(w->out));
    dw_of(w, out, space, tiles_of(rows), dvalue, sums);
}
