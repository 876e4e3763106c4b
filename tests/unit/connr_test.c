/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests examples/connr on one rank: re-ranking by worked figures, the filter by counting,
 * gradients by central differences, the assignment by trying all permutations, scores by known
 * figures.
 */
#define err unit_err /* <err.h> has another one, which the example calls */
#include "unit.h"
#undef err

#include "../../examples/connr/connr_cluster.c"
#include "../../examples/connr/connr_encoder.c"
#include "../../examples/connr/connr_refine.c"
#include "../../examples/connr/connr_text.c"

/* Sums of one rank. */
void sum_ranks(enum sum which, void *x)
{
    (void)which;
    (void)x;
}

enum { B = 23, D = 5, K = 4, HIDDEN = 7 };

static void points(float *x, int n, int d, uint64_t seed)
{
    for (int i = 0; i < n * d; i++)
        x[i] = (float)(uniform(&seed) + uniform(&seed) - 1);
    normalise(x, n, d);
}

/* Six unit vectors with k1 = 3, k2 = 2, worked out apart.  The figures have four digits. */
TEST(neighbours_have_alike_neighbourhoods)
{
    static const struct {
        int row, column;
        double c;
    } known[] = {{5, 5, 1},     {5, 3, .7997}, {5, 4, .7997}, {5, 2, .0956}, {2, 2, 1},
                 {2, 0, .9860}, {2, 1, .9860}, {2, 3, .2822}, {0, 1, 1},     {3, 4, 1}};
    float keys[] = {1, .1F, .9F, .3F, .8F, .5F, .1F, 1, .2F, .9F, -.9F, .2F}, c[36], part[12];
    int near[18], mine[6], set = 0;

    normalise(keys, 6, 2);
    rerank(keys, 6, 2, 3, 2, 3, 0, 6, c, near);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(fabs(c[known[i].row * 6 + known[i].column] - known[i].c) < .00006);
    for (int j = 0; j < 3; j++)
        set |= 1 << near[3 * 3 + j];
    assert_int_equal(set, 1 << 3 | 1 << 4 | 1 << 5); /* by distance it is 3, 4 and 2 */
    rerank(keys, 6, 2, 3, 2, 3, 3, 2, part, mine);   /* a rank's share: another shape */
    for (int i = 0; i < 12; i++) /* two sums of 6 products, none above 1 */
        assert_true(fabsf(part[i] - c[18 + i]) <= 12 * 0x1p-24F);
    for (int i = 0; i < 6; i += 3)
        assert_int_equal(1 << mine[i] | 1 << mine[i + 1] | 1 << mine[i + 2],
                         1 << near[9 + i] | 1 << near[10 + i] | 1 << near[11 + i]);
    set = 0;
    rerank(keys, 6, 2, 3, 0, 3, 3, 2, part, mine); /* by distance */
    for (int j = 0; j < 3; j++)
        set |= 1 << mine[j];
    assert_int_equal(set, 1 << 3 | 1 << 4 | 1 << 2);
    assert_true(fabs(part[3] - 1) < 1e-6 && part[6 + 3] < 1);
}

TEST(the_order_of_keys_is_irrelevant)
{
    float x[B * D], y[B * D], cx[B * B], cy[B * B];
    int near[B * B];

    points(x, B, D, 7);
    for (int i = 0; i < B; i++) /* 5 has no common divisor with 23 */
        memcpy(y + i * D, x + 5 * i % B * D, D * sizeof *x);
    for (int k2 = 1; k2 < 4; k2 += 2) {
        rerank(x, B, D, 6, k2, B, 0, B, cx, near);
        rerank(y, B, D, 6, k2, B, 0, B, cy, near);
        for (int i = 0; i < B; i++)
            for (int j = 0; j < B; j++)
                assert_true(fabs(cy[i * B + j] - cx[5 * i % B * B + 5 * j % B]) < 1e-5);
    }
}

/* Kept are the int(theta b) - 1 of the smallest ratio, each ratio computed here again. */
TEST(the_filter_keeps_the_clearest)
{
    float x[B * D], centre[K * D];
    char keep[B];
    int of[B];

    points(x, B, D, 8);
    points(centre, K, D, 9);
    for (int i = 0; i < B; i++)
        of[i] = i % K;
    for (double theta = .1; theta < 1.05; theta += .1) {
        double share = theta > .95 ? 1 : theta, worst_kept = 0, best_dropped = HUGE_VAL;
        int kept = 0;
        boundary_filter(x, of, B, D, centre, K, share, keep);
        for (int i = 0; i < B; i++) {
            double own = 0, other = HUGE_VAL;
            for (int c = 0; c < K; c++) {
                double s = 0;
                for (int j = 0; j < D; j++)
                    s = hypot(s, x[i * D + j] - centre[c * D + j]);
                own = c == of[i] ? s : own;
                other = c == of[i] ? other : fmin(s, other);
            }
            worst_kept = keep[i] ? fmax(worst_kept, own / other) : worst_kept;
            best_dropped = keep[i] ? best_dropped : fmin(best_dropped, own / other);
            kept += keep[i];
        }
        assert_int_equal(kept, (int)(share * B) - 1); /* of all, one is left out, too */
        assert_true(worst_kept < best_dropped);
    }
}

TEST(one_neighbour_without_a_filter_is_byol)
{
    float q[B * D], keys[B * D], dq[B * D];
    double cosines = 0;
    char keep[B];
    int near[B];

    points(q, B, D, 10);
    points(keys, B, D, 11);
    for (int i = 0; i < B; i++) {
        near[i] = i;
        keep[i] = 1;
        for (int j = 0; j < D; j++)
            cosines += (double)q[i * D + j] * keys[i * D + j];
    }
    double loss = concordance(q, B, B, keys, D, near, 1, keep, dq);
    assert_true(fabs(loss + 2 * cosines / B) < 1e-6);
}

static void net_free(struct net *n)
{
    free(n->online);
    free(n->target);
    free(n->m);
    free(n->v);
    free(n->grad);
}

/* A batch through projector and predictor, and what its loss compares with. */
struct problem {
    struct net net;
    float x[B * D], keys[B * D];
    int near[B * K];
    char keep[B];
};

static void problem_init(struct problem *s)
{
    uint64_t state = 3;

    s->net = (struct net){.dim = D, .hidden = HIDDEN};
    net_init(&s->net, 4);
    for (int64_t i = 0; i < s->net.count; i++) /* W2 is 0 at first */
        s->net.online[i] += (float)uniform(&state) - .5F;
    points(s->x, B, D, 13);
    points(s->keys, B, D, 12);
    for (int i = 0; i < B * K; i++) {
        s->near[i] = (int)(uniform(&state) * B);
        s->keep[i / K] = i / K % 5 != 0;
    }
}

static double loss_of(struct problem *s, float *grad)
{
    struct net *n = &s->net;
    float z[B * D], q[B * D], dq[B * D], yz[B * HIDDEN], yq[B * HIDDEN];

    mlp_forward(n, n->online, s->x, B, B, yz, z);
    mlp_forward(n, n->online + n->part, z, B, B, yq, q);
    double loss = concordance(q, B, B, s->keys, D, s->near, K, s->keep, dq);
    if (grad) {
        mlp_backward(n, n->online + n->part, z, yq, B, B, dq, grad + n->part);
        mlp_backward(n, n->online, s->x, yz, B, B, dq, grad);
    }
    return loss;
}

/* Along the gradient and a random direction in W1 and W2 of both networks.  In steps of 1/1024
 * the differences of a loss near 1, a mean of values rounded to 2^-24, are off by 1024 * 2^-24
 * = 6e-5; passing the kink of a ReLU changes a slope by less than 1 / 100. */
TEST(gradients_are_those_of_differences)
{
    static struct problem s;
    int64_t n;

    problem_init(&s);
    n = s.net.part / 2;
    loss_of(&s, s.net.grad);
    for (int block = 0; block < 4; block++) {
        float way[D * HIDDEN], *p = s.net.online + block * n;
        double slope = 0, far[2], length = 0;
        points(way, 1, (int)n, (uint64_t)block + 20);
        for (int64_t i = 0; i < n; i++)
            length = hypot(length, s.net.grad[block * n + i]);
        for (int64_t i = 0; i < n; i++)
            way[i] += (float)(s.net.grad[block * n + i] / length);
        normalise(way, 1, (int)n);
        for (int64_t i = 0; i < n; i++)
            slope += (double)way[i] * s.net.grad[block * n + i];
        for (int side = 0; side < 2; side++) {
            for (int64_t i = 0; i < n; i++)
                p[i] += (side ? 2 : -1) / 1024.F * way[i];
            far[side] = loss_of(&s, NULL);
        }
        for (int64_t i = 0; i < n; i++)
            p[i] -= 1 / 1024.F * way[i];
        assert_true(fabs(slope) > .002);
        assert_true(fabs((far[1] - far[0]) * 512 - slope) < .01 * fabs(slope) + 6e-5);
    }
    net_free(&s.net);
}

/* The first step of Adam is the rate, against the gradient's sign; the target is an average. */
TEST(an_update_moves_both_networks)
{
    struct net net = {.dim = D, .hidden = HIDDEN};

    net_init(&net, 1);
    net.grad[net.count - 1] = -3;
    net_update(&net, .25, .5);
    assert_true(fabs(net.online[net.count - 1] - .25) < 1e-6); /* W2 is 0 at first */
    assert_true(fabs(net.target[net.count - 1] - .125) < 1e-6);
    net_free(&net);
}

/* The best sum of rows row ... of the table over columns that are not taken. */
static double brute(const int *table, int k, int row, unsigned taken)
{
    double best = -HUGE_VAL;

    for (int c = 0; c < k && row < k; c++)
        if (!(taken >> c & 1))
            best = fmax(best, table[row * k + c] + brute(table, k, row + 1, taken | 1U << c));
    return row == k ? 0 : best;
}

TEST(the_assignment_is_the_best_of_all_permutations)
{
    uint64_t draws = 1;

    for (int k = 1; k <= 7; k++)
        for (int round = 0; round < 50; round++) {
            int table[49];
            for (int i = 0; i < k * k; i++) /* small ranges have ties */
                table[i] = (int)(uniform(&draws) * (round % 2 ? 4 : 1000));
            assert_true(assignment(table, k) == brute(table, k, 0, 0));
        }
}

/* Figures by hand: I = ln 2, H = ln 2 and 1.5 ln 2; one pair of 6 agrees, 2 and 1 are alike. */
TEST(scores_of_known_partitions)
{
    static const int labels[] = {0, 0, 1, 1}, other_names[] = {1, 1, 0, 0};
    static const int cut[] = {0, 0, 1, 2}, across[] = {0, 1, 0, 1}, one[] = {0, 0, 0, 0};
    struct scores s = agreement(labels, other_names, 4, 2);

    assert_true(fabs(s.nmi - 1) < 1e-12 && s.acc == 1 && s.ari == 1);
    s = agreement(labels, cut, 4, 3);
    assert_true(fabs(s.nmi - .8) < 1e-12 && s.acc == .75 && fabs(s.ari - 4 / 7.0) < 1e-12);
    s = agreement(labels, across, 4, 2);
    assert_true(fabs(s.nmi) < 1e-12 && s.acc == .5 && fabs(s.ari + .5) < 1e-12);
    s = agreement(labels, one, 4, 2);
    assert_true(fabs(s.nmi) < 1e-12 && s.acc == .5 && s.ari == 0);
}

TEST(clusters_that_are_apart_are_found)
{
    enum { N = 60 };
    float x[N * D], centre[K * D];
    int label[N], of[N];

    points(x, N, D, 30);
    for (int i = 0; i < N; i++) { /* about unit vectors of their own */
        label[i] = i % K;
        for (int j = 0; j < D; j++)
            x[i * D + j] = .2F * x[i * D + j] + (float)(j == label[i]);
    }
    normalise(x, N, D);
    kmeans(x, N, D, K, 1, centre, of);
    assert_true(agreement(label, of, N, K).acc == 1);
    for (int i = 0; i < N; i++)
        memcpy(x + i * D, x, D * sizeof *x);
    kmeans(x, N, D, K, 1, centre, of); /* all the same */
    for (int i = 0; i < N; i++)
        assert_int_equal(of[i], of[0]);
}

static void read_text(struct texts *t, const char *text, int vectors)
{
    char path[] = "/tmp/connr-test-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    texts_read(t, path, vectors, 2, 1);
    unlink(path);
}

static void forget(struct texts *t)
{
    free(t->label);
    free(t->from);
    free(t->token);
    free(t->idf);
    free(t->theme);
    free(t->vector);
}

/* down is in 4 of 5 texts, up in 3; rare is in 1 and carries no weight. */
TEST(words_are_read_and_weighed)
{
    enum { UP, DOWN, RARE };
    static const int length[] = {3, 3, 2, 1, 0};
    static const int token[] = {UP, UP, DOWN, DOWN, UP, RARE, DOWN, UP, DOWN};
    struct texts t = {0};

    read_text(&t, "b\tUp up, down!\na\tdown UP rare\nb\tdown-up\na\tdown\nb\t", 0);
    assert_int_equal(t.n, 5);
    assert_int_equal(t.classes, 2);
    assert_int_equal(t.words, 3);
    for (int i = 0; i < t.n; i++) {
        assert_int_equal(t.label[i], i % 2);
        assert_int_equal(t.from[i + 1] - t.from[i], length[i]);
    }
    assert_memory_equal(t.token, token, sizeof token);
    assert_true(fabs(t.idf[DOWN] - log(5 / 4.0)) < 1e-6);
    assert_true(fabs(t.idf[UP] - log(5 / 3.0)) < 1e-6);
    assert_true(t.idf[RARE] == 0);
    forget(&t);
}

/* X^T X of two words has the closed form of a symmetric matrix of two rows. */
TEST(themes_are_singular_vectors)
{
    struct texts t = {0};
    double m[2][2] = {{0}}, row[2], scale;

    read_text(&t, "a\tx y\nb\tx\na\tx x y\nb\ty\na\tx\nb\t\n", 0);
    assert_int_equal(t.words, 2);
    for (int i = 0; i < t.n; i++) {
        row[0] = row[1] = scale = 0;
        for (int64_t at = t.from[i]; at < t.from[i + 1]; at++) {
            row[t.token[at]] += t.idf[t.token[at]];
            scale += t.idf[t.token[at]] * t.idf[t.token[at]];
        }
        for (int a = 0; a < 4 && scale > 0; a++)
            m[a / 2][a % 2] += row[a / 2] * row[a % 2] / scale;
    }
    double angle = atan2(2 * m[0][1], m[0][0] - m[1][1]) / 2, sign = t.theme[0] < 0 ? -1 : 1;
    assert_true(fabs(t.theme[0] - sign * fabs(cos(angle))) < 1e-3);
    assert_true(fabs(t.theme[2] * cos(angle) - t.theme[0] * sin(angle)) < 1e-3);
    assert_true(fabs(t.theme[0] * t.theme[1] + t.theme[2] * t.theme[3]) < 1e-5);
    forget(&t);
}

/* Views are crops of consecutive tokens from which some are missing, and the same again. */
TEST(views_are_crops_with_missing_tokens)
{
    enum { N = 40 };
    struct texts t = {.n = 1, .dim = N, .from = (int64_t[]){0, N}};
    struct view whole = {.crop = 1}, v = {.seed = 5, .crop = .5, .drop = .2};
    float x[N], again[N], idf[N], theme[N * N] = {0}; /* x[j] becomes 1 if token j is there */
    int token[N], total = 0, shortest = N;

    for (int i = 0; i < N; i++) {
        token[i] = i;
        idf[i] = theme[i * N + i] = 1;
    }
    t.token = token;
    t.idf = idf;
    t.theme = theme;
    assert_true(sum_view(&t, 0, &whole, 0, x) == N);
    for (v.seed = 0; v.seed < 1000; v.seed++) {
        int n = (int)sum_view(&t, 0, &v, 1, x), first = 0, last = N - 1;
        assert_true(sum_view(&t, 0, &v, 1, again) == n);
        assert_memory_equal(x, again, sizeof x);
        while (x[first] == 0)
            first++;
        while (x[last] == 0)
            last--;
        shortest = last - first < shortest ? last - first : shortest;
        total += n;
    }
    assert_true(shortest < 22 && shortest > 8);
    /* A mean of 40 * 0.75 * 0.8 = 24, and 0.4 for rounding up; 3 standard errors are 0.5. */
    assert_true(fabs(total / 1000.0 - 24.4) < .6);
}

TEST(vectors_are_views)
{
    static const struct view whole = {.crop = 1}, cut = {.crop = .5};
    struct texts t = {0};
    float x[4];
    int both[] = {0, 1};

    read_text(&t, "a\t3 4 0 2\nb\t1e0\t0 -1 0\n", 1);
    assert_int_equal(t.dim, 2);
    texts_view(&t, both, 2, &cut, 0, x);
    assert_true(fabsf(x[0] - .6F) < 1e-6F && fabsf(x[1] - .8F) < 1e-6F && x[2] == 1);
    texts_view(&t, both, 2, &cut, 1, x);
    assert_true(x[0] == 0 && x[1] == 1 && x[2] == -1);
    texts_view(&t, both, 1, &whole, 0, x);
    assert_true(fabs(x[0] - 3 / sqrt(45)) < 1e-6);
    forget(&t);
}
