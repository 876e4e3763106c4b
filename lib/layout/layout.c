/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes which rank holds which elements, as exact integers. Leaves transports, files and the
 * meaning of elements to its callers.  The cuts are fractions i/m_k kept as numerator and
 * denominator, so that no least common multiple of the group sizes is ever formed.  Source:
 * paro-method(7), PLACEMENT (nested placement and its ragged generalisation).
 */
#include "layout/layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct fraction {
    int64_t num, den;
};

char letter_char(enum letter letter)
{
    return "NIG"[letter];
}

int letter_parse(char c, enum letter *out)
{
    const char *at = c ? strchr("NIGnig", c) : NULL;

    if (!at)
        return -1;
    *out = (enum letter)((at - "NIGnig") % 3);
    return 0;
}

static int layout_by_value(const void *a, const void *b)
{
    const struct fraction *x = a, *y = b;
    int64_t left = x->num * y->den, right = y->num * x->den; /* both below 2^40 */

    return (left > right) - (left < right);
}

void layout_init(struct layout *l, const struct groups *groups)
{
    struct fraction *f = mem_new((size_t)groups->ranks + (size_t)groups->count, sizeof *f);
    int g = groups->count, all = 0, n = 1;

    /* The sorted union of j/m_k over all groups: 0 first, 1 last. */
    for (int k = 0; k < g; k++)
        for (int j = 0; j <= groups->members[k]; j++)
            f[all++] = (struct fraction){j, groups->members[k]};
    qsort(f, (size_t)all, sizeof *f, layout_by_value);
    for (int i = 1; i < all; i++)
        if (layout_by_value(&f[n - 1], &f[i]) != 0)
            f[n++] = f[i];
    *l = (struct layout){.segments = n - 1, .largest = groups_largest(groups), .grain = 1};
    groups_copy(&l->groups, groups);
    l->cut_num = mem_new((size_t)n, sizeof(int64_t));
    l->cut_den = mem_new((size_t)n, sizeof(int64_t));
    for (int e = 0; e < n; e++) {
        l->cut_num[e] = f[e].num;
        l->cut_den[e] = f[e].den;
    }
    l->holder = mem_new((size_t)l->segments * (size_t)g, sizeof(int));
    for (int e = 0; e < l->segments; e++)
        for (int k = 0; k < g; k++) {
            int j = (int)(f[e].num * groups->members[k] / f[e].den);
            l->holder[e * g + k] = groups_rank(groups, k, j);
        }
    l->before = mem_new((size_t)g + 1, sizeof(int64_t));
    for (int k = 0; k < g; k++)
        l->before[k + 1] = l->before[k] + groups->members[k];
    mem_free(f);
}

void layout_release(struct layout *l)
{
    groups_release(&l->groups);
    MEM_FREE(l->cut_num, l->cut_den, l->holder, l->before);
    *l = (struct layout){0};
}

/* Rounds a cut down to the grid; the vector's end stays.  Monotonic, so that cuts that were
   nested and a partition stay so. */
static int64_t on_grid(const struct layout *l, int64_t elems, int64_t cut)
{
    return cut == elems ? cut : cut - cut % l->grain;
}

/*
 * floor(N (p + (p' - p) c / W)) with p = a/b the segment's start and p' = a'/b' its end:
 * floor(N (a b' W + (a' b - a b') c) / (b b' W)).  b, b', W are at most 2^20 (the bound on
 * ranks), so that with N below 2^62 all products stay below 2^122.
 */
int64_t layout_cut(const struct layout *l, int64_t elems, int e, int k, int even)
{
    assert(elems >= 0 && elems < INT64_C(1) << 62);
    __int128 a = l->cut_num[e], b = l->cut_den[e];
    __int128 a2 = l->cut_num[e + 1], b2 = l->cut_den[e + 1];
    __int128 w = even ? l->groups.count : l->groups.ranks;
    __int128 c = even ? k : l->before[k];

    return on_grid(l, elems,
                   (int64_t)(elems * (a * b2 * w + (a2 * b - a * b2) * c) / (b * b2 * w)));
}

struct range range_part(struct range r, int i, int n)
{
    __int128 elems = r.hi - r.lo;

    return (struct range){r.lo + (int64_t)(elems * i / n),
                          r.lo + (int64_t)(elems * (i + 1) / n)};
}

struct range layout_chunk(const struct layout *l, int64_t elems, int even, int subchunks, int c)
{
    int piece = c / subchunks, e = piece / l->groups.count, k = piece % l->groups.count;
    struct range r = {layout_cut(l, elems, e, k, even), layout_cut(l, elems, e, k + 1, even)};

    return range_part(r, c % subchunks, subchunks);
}

int layout_ranges_max(const struct layout *l)
{
    return 2 * l->segments; /* trained part, frozen part */
}

/* Appends [lo, hi), merged with the last range if that ends at lo. */
static int layout_append(struct range *out, int n, int64_t lo, int64_t hi)
{
    if (lo == hi)
        return n;
    if (n && out[n - 1].hi == lo) {
        out[n - 1].hi = hi;
        return n;
    }
    out[n] = (struct range){lo, hi};
    return n + 1;
}

int layout_ranges(const struct layout *l, enum letter letter, int rank, int64_t elems,
                  struct range *out)
{
    int g = l->groups.count, k = l->groups.group_of[rank], n = 0;
    struct range all = {0, elems}, r = all;

    if (letter == LETTER_I)
        r = range_part(all, l->groups.local_of[rank], l->groups.members[k]);
    if (letter != LETTER_G)
        return layout_append(out, 0, on_grid(l, elems, r.lo), on_grid(l, elems, r.hi));
    for (int e = 0; e < l->segments; e++)
        if (l->holder[e * g + k] == rank)
            n = layout_append(out, n, layout_cut(l, elems, e, k, 0),
                              layout_cut(l, elems, e, k + 1, 0));
    return n;
}

/* An I shard depends only on the group's size and the rank's position in it. */
int layout_first(const struct layout *l, enum letter letter, int rank)
{
    const struct groups *g = &l->groups;
    int place = g->local_of[rank], members = g->members[g->group_of[rank]], first = 0;

    if (letter == LETTER_N)
        return 0;
    while (letter == LETTER_I && first < rank &&
           (g->local_of[first] != place || g->members[g->group_of[first]] != members))
        first++;
    return letter == LETTER_I ? first : rank;
}

int64_t layout_elems(const struct layout *l, enum letter letter, int rank, int64_t elems)
{
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    int n = layout_ranges(l, letter, rank, elems, r);
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += r[i].hi - r[i].lo;
    mem_free(r);
    return sum;
}

int layout_unit_ranges(const struct layout *l, enum letter letter, int rank, int64_t trained,
                       int64_t elems, struct range *out)
{
    int n = layout_ranges(l, letter, rank, trained, out), kept = n;
    int more = layout_ranges(l, letter, rank, elems - trained, out + n);

    /* layout_append writes at or before the range that it is given. */
    for (int i = n; i < n + more; i++)
        kept = layout_append(out, kept, out[i].lo + trained, out[i].hi + trained);
    return kept;
}

int64_t layout_offset(const struct range *r, int n, int64_t x)
{
    int64_t before = 0;

    for (int i = 0; i < n; i++) {
        if (x >= r[i].lo && x < r[i].hi)
            return before + x - r[i].lo;
        before += r[i].hi - r[i].lo;
    }
    return -1;
}

unsigned layout_phases_sum(enum letter from, enum letter to)
{
    return (from == LETTER_N ? SCHEDULE_REDUCE_INSIDE : 0) |
           (from != LETTER_G ? SCHEDULE_REDUCE_ACROSS : 0) |
           (to != LETTER_G ? SCHEDULE_GATHER_ACROSS : 0) |
           (to == LETTER_N ? SCHEDULE_GATHER_INSIDE : 0);
}

unsigned layout_phases_micro(enum letter to)
{
    return (to != LETTER_N ? SCHEDULE_REDUCE_INSIDE : 0) |
           (to == LETTER_G ? SCHEDULE_REDUCE_ACROSS : 0);
}

unsigned layout_phases_copy(enum letter from, enum letter to)
{
    return (from == LETTER_G && to != LETTER_G ? SCHEDULE_GATHER_ACROSS : 0) |
           (from != LETTER_N && to == LETTER_N ? SCHEDULE_GATHER_INSIDE : 0);
}

unsigned layout_phases_trim(const struct layout *l, unsigned phases)
{
    const unsigned across = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS;
    const unsigned inside = SCHEDULE_REDUCE_INSIDE | SCHEDULE_GATHER_INSIDE;

    return phases & ~(l->groups.count == 1 ? across : 0) & ~(l->largest == 1 ? inside : 0);
}

int layout_even(unsigned phases, enum schedule_algo algo)
{
    return phases & SCHEDULE_REDUCE_ACROSS && phases & SCHEDULE_GATHER_ACROSS &&
           !schedule_algo_flat(algo);
}

int layout_subchunks_of(int64_t longest, int elem_bytes, int64_t chunk_bytes, int ring,
                        int most)
{
    int64_t fit = chunk_bytes / elem_bytes > 1 ? chunk_bytes / elem_bytes : 1;
    int64_t n = longest / fit + (longest % fit != 0);

    n = n < 1 ? 1 : n;
    n += ring && n % 2;
    return n < most ? (int)n : most;
}

int layout_subchunks(const struct layout *l, unsigned phases, enum schedule_algo algo,
                     int64_t elems, int elem_bytes, int64_t chunk_bytes)
{
    int even = layout_even(phases, algo);
    int64_t longest = 0;

    for (int c = 0; c < l->segments * l->groups.count; c++) {
        struct range r = layout_chunk(l, elems, even, 1, c);
        longest = r.hi - r.lo > longest ? r.hi - r.lo : longest;
    }
    return layout_subchunks_of(longest, elem_bytes, chunk_bytes, l->groups.ring,
                               LAYOUT_SUBCHUNKS_MAX);
}

struct schedule_spec layout_spec(const struct layout *l, int levels, const int *block,
                                 unsigned phases, enum schedule_algo algo, int subchunks)
{
    return (struct schedule_spec){.algo = algo,
                                  .phases = phases,
                                  .groups = &l->groups,
                                  .segments = l->segments,
                                  .holder = l->holder,
                                  .subchunks = subchunks,
                                  .levels = levels,
                                  .block = block};
}
