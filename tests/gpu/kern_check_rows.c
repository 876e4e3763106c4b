/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the kernels that work row by row or element by element. */
#include "base/rng.h"
#include "../unit/kern_ref_fixture.h"
#include "kern_check.h"

static double *copy_of(struct check *c, const double *x, int64_t n)
{
    double *y = doubles(c, n);

    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

static int32_t *some_tokens(struct check *c, int64_t n, int64_t vocab)
{
    int32_t *t = kept(c, n * (int64_t)sizeof *t);
    uint64_t stream = c->seed++;

    for (int64_t i = 0; i < n; i++)
        t[i] = (int32_t)(rng_u64(11, stream, (uint64_t)i) % (uint64_t)vocab);
    return t;
}

/* Few different tokens: a row gathers from many. */
static void embed_case(struct check *c, int64_t n, int64_t vocab, int64_t C, int64_t off)
{
    int32_t *id = some_tokens(c, n, vocab), *target = some_tokens(c, n, vocab);
    struct mat *table = mat_new(c, c->k->weight, vocab, C, C, 0, 1);
    struct mat *y = written(mat_new(c, c->k->act, n, C, C, 0, 0));
    struct mat *dy = mat_new(c, c->k->act, n, C, C, 0, 1);
    struct mat *dtable = written(mat_new(c, DTYPE_F32, vocab, C, C, off, 1));
    double *ref = doubles(c, n * C), *grad = copy_of(c, dtable->x, vocab * C);
    struct kern_tokens t = tokens_of(c, id, target, n, vocab);

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < C; j++) {
            ref[i * C + j] = table->x[id[i] * C + j];
            grad[id[i] * C + j] += dy->x[i * C + j];
        }
    for (int run = 0; next_run(c, &run);) {
        c->op->embed(c->k, y->p, table->p, &t, vocab, C);
        c->op->embed_backward(c->k, dtable->p, dy->p, &t, C);
    }
    /* Looking up is exact, but where the table has more bits. */
    mat_near(c, y, ref, c->k->weight == c->k->act ? 0 : tolerance(c->k->act),
             "embed (%d of %d,%d)", (int)n, (int)vocab, (int)C);
    mat_near(c, dtable, grad, tolerance(DTYPE_F32), "embed backward (%d of %d,%d)", (int)n,
             (int)vocab, (int)C);
    end_case(c);
}

void check_embed(struct check *c)
{
    for (int64_t off = 0; off < 2; off++) {
        embed_case(c, 1, 3, 5, off);
        embed_case(c, 7, 1, 80, off);
        embed_case(c, 129, 5, 130, off);
        embed_case(c, 150, 3, 264, off);
        embed_case(c, 64, 1000, 17, off);
        if (!c->quick)
            embed_case(c, 1000, 50257, 256, off);
    }
}

static void positions_case(struct check *c, int64_t batch, int64_t seq, int64_t C, int64_t off)
{
    struct mat *y = written(mat_new(c, c->k->act, batch * seq, C, C, 0, 1));
    struct mat *dy = mat_new(c, c->k->act, batch * seq, C, C, 0, 1);
    struct mat *table = mat_new(c, c->k->weight, seq, C, C, off, 1);
    struct mat *dtable = written(mat_new(c, DTYPE_F32, seq, C, C, 3 * off, 1));
    double *ref = copy_of(c, y->x, batch * seq * C), *grad = copy_of(c, dtable->x, seq * C);

    kern_ref_positions(ref, table->x, batch, seq, C);
    for (int64_t i = 0; i < batch * seq * C; i++)
        grad[i % (seq * C)] += dy->x[i];
    for (int run = 0; next_run(c, &run);) {
        c->op->positions(c->k, y->p, table->p, batch, seq, C);
        c->op->positions_backward(c->k, dtable->p, dy->p, batch, seq, C);
    }
    mat_near(c, y, ref, tolerance(c->k->act), "positions (%d,%d,%d)", (int)batch, (int)seq,
             (int)C);
    mat_near(c, dtable, grad, tolerance(DTYPE_F32), "positions backward (%d,%d,%d)", (int)batch,
             (int)seq, (int)C);
    end_case(c);
}

void check_positions(struct check *c)
{
    for (int64_t off = 0; off < 2; off++) {
        positions_case(c, 1, 1, 3, off);
        positions_case(c, 3, 7, 130, off);
        positions_case(c, 5, 65, 64, off);
    }
}

/* With xhat = (x - mean) rstd, g = dy w: dx += rstd (g - mean(g) - xhat mean(g xhat)), mean(g)
   of layer normalisation alone. */
static void norm_ref(const struct mat *x, const struct mat *dy, const double *w, int layer,
                     double eps, double *mean, double *rstd, double *dx, double *dw, double *db)
{
    int64_t C = x->cols;

    for (int64_t i = 0; i < x->rows; i++) {
        const double *xi = x->x + i * C, *di = dy->x + i * C;
        double squares = 0, g = 0, gx = 0;

        mean[i] = 0;
        for (int64_t j = 0; layer && j < C; j++)
            mean[i] += xi[j] / (double)C;
        for (int64_t j = 0; j < C; j++)
            squares += (xi[j] - mean[i]) * (xi[j] - mean[i]) / (double)C;
        rstd[i] = 1 / sqrt(squares + eps);
        for (int64_t j = 0; j < C; j++) {
            double hat = (xi[j] - mean[i]) * rstd[i];

            g += layer ? di[j] * w[j] / (double)C : 0;
            gx += di[j] * w[j] * hat / (double)C;
            dw[j] += di[j] * hat;
            db[j] += di[j];
        }
        for (int64_t j = 0; j < C; j++)
            dx[i * C + j] += rstd[i] * (di[j] * w[j] - g - (xi[j] - mean[i]) * rstd[i] * gx);
    }
}

/* Where w is not aligned 1 is added to it, of RMS. */
static void norm_case(struct check *c, int64_t n, int64_t C, int layer, int64_t off)
{
    const float plus = !layer && off ? 1 : 0;
    const char *name = layer ? "layer norm" : "RMS norm";
    enum dtype a = c->k->act, type = c->k->weight;
    double eps = 1e-5;
    struct mat *x = mat_new(c, a, n, C, C, 0, 2), *dy = mat_new(c, a, n, C, C, 0, 1);
    struct mat *w = mat_new(c, type, 1, C, C, off, 1),
               *b = mat_new(c, type, 1, C, C, 3 * off, 1);
    struct mat *y = written(mat_new(c, a, n, C, C, 0, 0));
    struct mat *same = written(mat_new(c, a, n, C, C, 0, 0));
    struct mat *mean = written(vec_new(c, DTYPE_F32, n, 0));
    struct mat *rstd = written(vec_new(c, DTYPE_F32, n, 0));
    struct mat *dx = written(mat_new(c, a, n, C, C, 0, 1));
    struct mat *alone = written(mat_new(c, a, n, C, C, 0, 1));
    struct mat *dw = written(mat_new(c, DTYPE_F32, 1, C, C, off, 1));
    struct mat *db = written(vec_new(c, DTYPE_F32, C, 1));
    double *ref = doubles(c, n * C), *m = doubles(c, n), *r = doubles(c, n);
    double *rdx = copy_of(c, dx->x, n * C), *ralone = copy_of(c, alone->x, n * C);
    double *rdw = copy_of(c, dw->x, C), *rdb = copy_of(c, db->x, C), *rw = copy_of(c, w->x, C);

    if (layer)
        kern_ref_layernorm(ref, x->x, w->x, b->x, n, C, eps);
    else
        kern_ref_rmsnorm(ref, x->x, w->x, (double)plus, n, C, eps);
    for (int64_t j = 0; j < C; j++)
        rw[j] += (double)plus;
    norm_ref(x, dy, rw, layer, eps, m, r, rdx, rdw, rdb);
    for (int64_t i = 0; i < n * C; i++)
        ralone[i] += rdx[i] - dx->x[i];
    for (int run = 0; next_run(c, &run);) {
        float *mp = layer ? mean->p : NULL;
        void *bp = layer ? b->p : NULL;

        c->op->norm(c->k, y->p, mp, rstd->p, x->p, w->p, bp, plus, n, C, (float)eps, 0);
        c->op->norm(c->k, same->p, mp, rstd->p, x->p, w->p, bp, plus, n, C, (float)eps, 1);
        c->op->norm_backward(c->k, dx->p, dw->p, layer ? db->p : NULL, dy->p, mp, rstd->p, x->p,
                             w->p, plus, n, C);
        c->op->norm_backward(c->k, alone->p, NULL, NULL, dy->p, mp, rstd->p, x->p, w->p, plus,
                             n, C);
    }
    mat_near(c, y, ref, tolerance(a), "%s (%d,%d)", name, (int)n, (int)C);
    ok(c, memcmp(y->got, same->got, (size_t)y->bytes) == 0, "%s again (%d,%d)", name, (int)n,
       (int)C);
    mat_near(c, rstd, r, tolerance(DTYPE_F32), "%s rstd (%d,%d)", name, (int)n, (int)C);
    mat_near(c, dx, rdx, tolerance(a), "%s dx (%d,%d)", name, (int)n, (int)C);
    mat_near(c, alone, ralone, tolerance(a), "%s dx alone (%d,%d)", name, (int)n, (int)C);
    mat_near(c, dw, rdw, tolerance(DTYPE_F32), "%s dw (%d,%d)", name, (int)n, (int)C);
    if (layer) {
        mat_near(c, mean, m, tolerance(DTYPE_F32), "%s mean (%d,%d)", name, (int)n, (int)C);
        mat_near(c, db, rdb, tolerance(DTYPE_F32), "%s db (%d,%d)", name, (int)n, (int)C);
    }
    end_case(c);
}

void check_norm(struct check *c)
{
    /* Rows of a warp's registers and of a block's, with and without what fills no pack; so many
     * that 150 processors, with two blocks each of eight rows, come to a third, whose place in
     * shared memory the first had; one of each number of packs of a lane. */
    static const int64_t shape[][2] = {
        {7, 5},      {33, 80},    {300, 16},  {5, 130},   {3, 400},   {150, 4104}, {5, 2048},
        {3, 5632},   {5000, 16},  {3, 768},   {3, 1032},  {5, 1288},  {9, 1544},   {3, 1800},
        {4300, 264}, {540, 4104}, {129, 768}, {40, 3072}, {9, 20000}, {2, 40000}};

    for (int i = 0; i < (c->quick ? 14 : (int)(sizeof shape / sizeof *shape)); i++)
        for (int layer = 0; layer < 2; layer++)
            for (int64_t off = 0, n = shape[i][0] * shape[i][1];
                 off < (n > 1000000 || (c->quick && n > 50000) ? 1 : 2); off++)
                norm_case(c, shape[i][0], shape[i][1], layer, off);
}

static void bias_case(struct check *c, int64_t n, int64_t C, int64_t ld, int64_t off)
{
    struct mat *y = written(mat_new(c, c->k->act, n, C, ld, off, 1));
    struct mat *dy = mat_new(c, c->k->act, n, C, ld, off, 1);
    struct mat *b = mat_new(c, c->k->weight, 1, C, C, off % 2, 1);
    struct mat *db = written(mat_new(c, DTYPE_F32, 1, C, C, 1, 1));
    double *ref = copy_of(c, y->x, n * C), *grad = copy_of(c, db->x, C);

    kern_ref_bias(ref, b->x, n, C);
    for (int64_t i = 0; i < n * C; i++)
        grad[i % C] += dy->x[i];
    for (int run = 0; next_run(c, &run);) {
        c->op->bias(c->k, y->p, ld, b->p, n, C);
        c->op->bias_backward(c->k, db->p, dy->p, ld, n, C);
    }
    mat_near(c, y, ref, tolerance(c->k->act), "bias (%d,%d) ld %d at %d", (int)n, (int)C,
             (int)ld, (int)off);
    mat_near(c, db, grad, tolerance(DTYPE_F32), "bias backward (%d,%d) ld %d at %d", (int)n,
             (int)C, (int)ld, (int)off);
    end_case(c);
}

void check_bias(struct check *c)
{
    bias_case(c, 1, 1, 1, 0);
    bias_case(c, 7, 5, 8, 3);
    bias_case(c, 129, 130, 131, 1);
    bias_case(c, 300, 64, 192, 64);
    bias_case(c, 33, 2048, 2048, 0);
    if (!c->quick) /* fewer pieces of rows than there might be */
        bias_case(c, 300, 20000, 20000, 0);
}

static void rope_case(struct check *c, int64_t seq, int64_t D, int64_t R, int64_t heads,
                      int64_t off, int back)
{
    int64_t batch = 2, ld = heads * D + D + 1, n = batch * seq, cols = heads * D;
    double *freq = doubles(c, R / 2), *turn = doubles(c, R / 2), scale = 1.25;
    float *host = kept(c, seq * R * (int64_t)sizeof *host);
    double *wide = doubles(c, seq * R);

    for (int64_t i = 0; i < R / 2; i++) {
        freq[i] = pow(100, -2.0 * (double)i / (double)R);
        turn[i] = back ? -freq[i] : freq[i];
    }
    kern_rope_table(host, seq, R, freq, scale);
    for (int64_t i = 0; i < seq * R; i++)
        wide[i] = (double)host[i];
    struct mat *table = mat_of(c, DTYPE_F32, seq, R, R, 0, wide);
    struct mat *x = written(mat_new(c, c->k->act, n, cols, ld, off, 1));
    double *ref = copy_of(c, x->x, n * cols);

    kern_ref_rope(ref, cols, batch, seq, heads, D, R, turn, scale);
    for (int run = 0; next_run(c, &run);)
        c->op->rope(c->k, x->p, ld, table->p, batch, seq, heads, D, R, back);
    /* The table's angles are rounded: 300 2^-24 at most, 1.8e-5 at the last row. */
    mat_near(c, x, ref, c->k->act == DTYPE_F32 ? 2e-5 : tolerance(c->k->act),
             "rope%s seq %d, %d of %d heads of %d, at %d", back ? " back" : "", (int)seq,
             (int)R, (int)heads, (int)D, (int)off);
    end_case(c);
}

void check_rope(struct check *c)
{
    for (int back = 0; back < 2; back++) {
        rope_case(c, 1, 2, 2, 1, 0, back);
        rope_case(c, 7, 16, 16, 3, 1, back);
        rope_case(c, 64, 64, 64, 5, 0, back);
        rope_case(c, 129, 80, 80, 2, 3, back);
        rope_case(c, 65, 64, 48, 5, 0, back);
        rope_case(c, 9, 20, 6, 2, 1, back);
        if (!c->quick)
            rope_case(c, 300, 128, 128, 6, 0, back);
    }
}

/* y' of x Phi(x), and of its twin with tanh. */
static double gelu_slope(double x, int with_tanh)
{
    double a = sqrt(2 / M_PI), t = tanh(a * (x + 0.044715 * x * x * x));

    if (with_tanh)
        return (1 + t) / 2 + x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x) / 2;
    return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

/* silu(g) u or gelu(g) u; silu' = sigma (1 + g (1 - sigma)). */
static void gated_case(struct check *c, int64_t n, int64_t C, int64_t ld, int64_t off, int gelu)
{
    const char *name = gelu ? "geglu" : "swiglu";
    enum dtype a = c->k->act;
    struct mat *gate = mat_new(c, a, n, C, ld, off, 2), *up = mat_new(c, a, n, C, ld, off, 1);
    struct mat *dg = written(mat_of(c, a, n, C, ld, off, gate->x));
    struct mat *du = written(mat_of(c, a, n, C, ld, off, up->x));
    struct mat *y = written(mat_new(c, a, n, C, C, 0, 0));
    struct mat *dy = written(mat_new(c, a, n, C, C, 0, 1));
    double *ref = doubles(c, n * C), *rg = doubles(c, n * C), *ru = doubles(c, n * C);

    kern_ref_gated(ref, gate->x, up->x, n * C, gelu);
    for (int64_t i = 0; i < n * C; i++) {
        double g = gate->x[i], sigma = 1 / (1 + exp(-g));

        rg[i] = dy->x[i] * up->x[i] * (gelu ? gelu_slope(g, 1) : sigma * (1 + g * (1 - sigma)));
        ru[i] = dy->x[i] * (up->x[i] ? ref[i] / up->x[i] : 0);
    }
    for (int run = 0; next_run(c, &run);) {
        c->op->gated(c->k, y->p, gate->p, up->p, n, C, ld, gelu);
        c->op->gated_backward(c->k, dy->p, dg->p, du->p, n, C, ld, gelu);
    }
    mat_near(c, y, ref, tolerance(a), "%s (%d,%d) ld %d at %d", name, (int)n, (int)C, (int)ld,
             (int)off);
    mat_near(c, dy, ref, tolerance(a), "%s backward's y (%d,%d)", name, (int)n, (int)C);
    mat_near(c, dg, rg, tolerance(a), "%s dgate (%d,%d)", name, (int)n, (int)C);
    mat_near(c, du, ru, tolerance(a), "%s dup (%d,%d)", name, (int)n, (int)C);
    end_case(c);
}

void check_gated(struct check *c)
{
    for (int gelu = 0; gelu < 2; gelu++) {
        gated_case(c, 3, 17, 17, 0, gelu);
        gated_case(c, 7, 5, 11, 1, gelu);
        gated_case(c, 33, 130, 260, 130, gelu);
        gated_case(c, 64, 176, 352, 0, gelu);
        if (!c->quick)
            gated_case(c, 129, 5632, 11264, 5632, gelu);
    }
}

static void gelu_case(struct check *c, int64_t n, int with_tanh)
{
    const char *name = with_tanh ? "gelu tanh" : "gelu";
    struct mat *x = vec_new(c, c->k->act, n, 2), *y = written(vec_new(c, c->k->act, n, 0));
    struct mat *dy = written(vec_new(c, c->k->act, n, 1));
    struct mat *dx = written(mat_of(c, c->k->act, 1, n, n, 0, x->x));
    double *ref = doubles(c, n), *grad = doubles(c, n);

    (with_tanh ? kern_ref_gelu_tanh : kern_ref_gelu)(ref, x->x, n);
    for (int64_t i = 0; i < n; i++)
        grad[i] = dy->x[i] * gelu_slope(x->x[i], with_tanh);
    for (int run = 0; next_run(c, &run);) {
        c->op->gelu(c->k, y->p, x->p, n, with_tanh);
        c->op->gelu_backward(c->k, dy->p, dx->p, n, with_tanh);
    }
    mat_near(c, y, ref, tolerance(c->k->act), "%s (%d)", name, (int)n);
    mat_near(c, dy, ref, tolerance(c->k->act), "%s backward's y (%d)", name, (int)n);
    mat_near(c, dx, grad, tolerance(c->k->act), "%s dx (%d)", name, (int)n);
    end_case(c);
}

void check_gelu(struct check *c)
{
    for (int with_tanh = 0; with_tanh < 2; with_tanh++) {
        gelu_case(c, 33, with_tanh); /* fewer may all lie where y is nearly 0 */
        gelu_case(c, 1003, with_tanh);
        if (!c->quick)
            gelu_case(c, 100 * 3072, with_tanh);
    }
}

static double loss_ref(const struct mat *logits, const int32_t *target, double scale,
                       double *grad)
{
    int64_t V = logits->cols;

    for (int64_t i = 0; i < logits->rows; i++) {
        const double *x = logits->x + i * V;
        double max = x[0], sum = 0;

        for (int64_t j = 0; j < V; j++)
            max = x[j] > max ? x[j] : max;
        for (int64_t j = 0; j < V; j++)
            sum += exp(x[j] - max);
        for (int64_t j = 0; j < V; j++)
            grad[i * V + j] =
                target[i] < 0 ? 0 : scale * (exp(x[j] - max) / sum - (j == target[i]));
    }
    return kern_ref_cross_entropy(logits->x, target, logits->rows, V);
}

/* The gradient of a target whose probability is near 1 is the difference of two numbers that
   were rounded as such: 2^-23 of scale off in each row, however small that is. */
static double loss_bound(const struct check *c, const double *grad, int64_t n, int64_t V,
                         double scale)
{
    double squares = 0;

    for (int64_t i = 0; i < n * V; i++)
        squares += grad[i] * grad[i];
    return tolerance(c->k->act) + 0x1p-23 * scale * sqrt((double)n / squares);
}

/* Twice the loss alone, then twice the gradient as well. */
static void loss_case(struct check *c, int64_t n, int64_t V, int64_t ld)
{
    struct mat *logits = written(mat_new(c, c->k->act, n, V, ld, 0, 3));
    int32_t *target = some_tokens(c, n, V), *id = some_tokens(c, n, V);
    double *grad = doubles(c, n * V), want, got[4] = {0};
    float scale = 0.37f;

    for (int64_t i = 2; i < n; i += 5)
        target[i] = i % 2 ? -1 : -100;
    want = loss_ref(logits, target, (double)scale, grad);
    struct kern_tokens t = tokens_of(c, id, target, n, V);
    for (int both = 0; both < 2; both++) {
        for (int run = 0; next_run(c, &run);) {
            c->op->cross_entropy(c->k, logits->p, ld, &t, V, both ? scale : 0);
            if (c->op->loss(c->k, &got[2 * both + run - 1], &err))
                bail("%s", err.text);
        }
        if (!both)
            ok(c, memcmp(logits->got, logits->init, (size_t)logits->bytes) == 0,
               "loss (%d,%d) ld %d leaves the logits", (int)n, (int)V, (int)ld);
    }
    /* Each row's is rounded to f32 at worst. */
    ok(c, fabs(got[0] - want) <= 1e-6 * (fabs(want) + 1), "loss (%d,%d): %.9g, %.9g expected",
       (int)n, (int)V, got[0], want);
    ok(c, got[0] == got[1] && got[2] == got[3] && got[0] == got[2],
       "loss (%d,%d) is the same every time", (int)n, (int)V);
    mat_near(c, logits, grad, loss_bound(c, grad, n, V, (double)scale),
             "loss gradient (%d,%d) ld %d", (int)n, (int)V, (int)ld);
    end_case(c);
}

/* Checks logits that masks write: minus infinity has no part; a NaN anywhere is not passed
   over. */
static void loss_edge(struct check *c, int64_t V, int64_t nan_at)
{
    int32_t target[3] = {(int32_t)V - 1, 1, 0};
    double *x = doubles(c, 3 * V), *grad = doubles(c, 3 * V), got;
    struct kern_tokens t = tokens_of(c, target, target, 3, V);

    for (int64_t i = 0; i < 3 * V; i++)
        x[i] = i % V % 3 == 2 && i % V != V - 1 ? -INFINITY : rng_normal(11, 5, (uint64_t)i);
    double want = loss_ref(mat_of(c, c->k->act, 3, V, V, 0, x), target, 1, grad);
    if (nan_at >= 0)
        x[V + nan_at] = NAN;
    struct mat *logits = written(mat_of(c, c->k->act, 3, V, V, 0, x));
    for (int run = 0; next_run(c, &run);) {
        c->op->cross_entropy(c->k, logits->p, V, &t, V, 1);
        if (c->op->loss(c->k, &got, &err))
            bail("%s", err.text);
    }
    if (nan_at < 0) {
        ok(c, fabs(got - want) <= 1e-6 * (want + 1), "loss of masked logits (3,%d)", (int)V);
        mat_near(c, logits, grad, loss_bound(c, grad, 3, V, 1),
                 "gradient of masked logits (3,%d)", (int)V);
    } else {
        ok(c, isnan(got) && isnan(mat_at(logits, 1, 0)) && !isnan(mat_at(logits, 2, 0)),
           "a NaN at %d of %d logits is seen, in its row alone", (int)nan_at, (int)V);
    }
    end_case(c);
}

void check_loss(struct check *c)
{
    static const int64_t vocab[] = {96, 4099, 60000};

    for (int i = 0; i < 3; i++)
        for (int64_t at = -1; at < vocab[i]; at += vocab[i] / 2 + 1)
            loss_edge(c, vocab[i], at);
    loss_case(c, 1, 2, 2);
    loss_case(c, 7, 7, 8);
    loss_case(c, 33, 1000, 1003);
    loss_case(c, 33, 1003, 1008);
    loss_case(c, 9001, 3, 8); /* more rows than the threads that add them up take at once */
    loss_case(c, c->quick ? 9 : 150, 60003, 60008); /* blocks pass over rows */
    loss_case(c, 64, 4096, 4096);
    if (!c->quick)
        loss_case(c, 40, 50257, 50264);
}

void check_add(struct check *c)
{
    for (int64_t n = 1; n < 200000; n = n * 37 + 4) {
        struct mat *x = written(vec_new(c, c->k->act, n, 1));
        struct mat *y = written(vec_new(c, c->k->act, n, 1));
        double *ref = doubles(c, n), *scaled = doubles(c, n);

        for (int64_t i = 0; i < n; i++) {
            ref[i] = y->x[i] + x->x[i];
            scaled[i] = -0.625 * x->x[i];
        }
        for (int run = 0; next_run(c, &run);) {
            c->op->add(c->k, y->p, x->p, n);
            c->op->scale_act(c->k, x->p, -0.625f, n);
        }
        mat_near(c, y, ref, tolerance(c->k->act), "add (%d)", (int)n);
        mat_near(c, x, scaled, tolerance(c->k->act), "scale (%d)", (int)n);
        end_case(c);
    }
}
