/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps blocks in rank order to the chunks of a schedule.  Leaves running it to
   coll_vector.c. */
#include "coll/coll_vector.h"

#include "base/mem.h"
#include "layout/layout.h"
#include "pick/pick_auto.h"

/* Whether every rank has the whole vector, before or afterwards or both, rather than blocks. */
static int vector_rows_is_whole(const struct coll_vector_spec *s)
{
    return s->phases == SCHEDULE_ALL_REDUCE || s->phases == SCHEDULE_BROADCAST;
}

int64_t coll_vector_elems(const struct coll_vector_spec *s, int ranks)
{
    int64_t sum = vector_rows_is_whole(s) ? s->elems : 0;

    for (int r = 0; r < ranks && !vector_rows_is_whole(s); r++)
        sum += s->count[r];
    return sum;
}

void coll_vector_mine(const struct coll_vector_spec *s, int rank, int ranks, int64_t *in,
                      int64_t *out)
{
    int64_t all = coll_vector_elems(s, ranks);

    *in = s->phases == SCHEDULE_ALL_GATHER                     ? s->count[rank]
          : s->phases == SCHEDULE_BROADCAST && rank != s->root ? 0
                                                               : all;
    *out = s->phases == SCHEDULE_REDUCE_SCATTER ? s->count[rank] : all;
}

/* Offset of segment e in its holder's block of `count` elements. */
static int64_t in_block(const struct layout *l, int64_t count, int e, int rank)
{
    const struct groups *g = &l->groups;
    __int128 m = g->members[g->group_of[rank]], j = g->local_of[rank];

    return (int64_t)(count * (l->cut_num[e] * m - j * l->cut_den[e]) / l->cut_den[e]);
}

/* Range of segment e's part of group k, in the vector or in its owner's block. */
static struct range piece(const struct coll_vector_spec *s, const struct layout *l, int e,
                          int k)
{
    int owner = l->holder[e * l->groups.count + k];
    int even = layout_even(s->phases, s->algo);

    if (vector_rows_is_whole(s))
        return layout_chunk(l, s->elems, even, 1, e * l->groups.count + k);
    return (struct range){in_block(l, s->count[owner], e, owner),
                          in_block(l, s->count[owner], e + 1, owner)};
}

static int vector_rows_subchunks_of(const struct coll_vector_spec *s, const struct layout *l,
                                    int bytes)
{
    int64_t chunk = s->chunk_bytes ? s->chunk_bytes : PICK_CHUNK_USUAL, longest = 0;
    int others = l->segments * l->groups.count - 1, most = LAYOUT_SUBCHUNKS_MAX;

    for (int e = 0; e < l->segments; e++)
        for (int k = 0; k < l->groups.count; k++) {
            struct range r = piece(s, l, e, k);
            longest = r.hi - r.lo > longest ? r.hi - r.lo : longest;
        }
    /* A rank has no more turns than the vector has chunks, apart from those of one part at the
       beginning or end; in an all-reduce, twice as many. */
    if (s->turns_most && others)
        most = s->turns_most / (others * (s->phases == SCHEDULE_ALL_REDUCE ? 2 : 1));
    return layout_subchunks_of(longest, bytes, chunk, l->groups.ring, most > 1 ? most : 1);
}

int coll_vector_rows(const struct coll_vector_spec *spec, const struct groups *groups, int rank,
                     struct exec_rows *out, struct err *err)
{
    int bytes = spec->elem_bytes ? spec->elem_bytes : dtype_bytes(spec->type);
    struct exec_places places = {0};
    struct schedule s = {0};
    struct layout l = {0};

    layout_init(&l, groups);
    int subchunks = vector_rows_subchunks_of(spec, &l, bytes);
    struct schedule_spec want =
        layout_spec(&l, spec->levels, spec->block, spec->phases, spec->algo, subchunks);
    want.root = spec->root;
    int rc = schedule_gen(&want, rank, &s, err);
    if (rc == 0) {
        exec_places_init(&places, l.segments * groups->count * subchunks, spec->type);
        places.redop = spec->redop;
        places.elem_bytes = bytes;
        places.combine = spec->combine;
        places.combine_arg = spec->combine_arg;
        int g = l.groups.count,
            sends = spec->phases != SCHEDULE_BROADCAST || spec->root == rank;
        int64_t *at = mem_new((size_t)l.groups.ranks + 1, sizeof *at);
        for (int r = 0; r < l.groups.ranks && !vector_rows_is_whole(spec); r++)
            at[r + 1] = at[r] + spec->count[r];
        for (int c = 0; c < places.chunks; c++) {
            int e = c / subchunks / g, k = c / subchunks % g, i = c % subchunks;
            int owner = l.holder[e * g + k];
            struct range r = range_part(piece(spec, &l, e, k), i, subchunks);
            int64_t first = r.lo, block = owner == rank ? first : -1,
                    vector = at[owner] + first;
            places.elems[c] = r.hi - r.lo;
            places.in_at[c] = vector_rows_is_whole(spec)            ? (sends ? first : -1)
                              : spec->phases == SCHEDULE_ALL_GATHER ? block
                                                                    : vector;
            places.out_at[c] = vector_rows_is_whole(spec)            ? first
                               : spec->phases == SCHEDULE_ALL_GATHER ? vector
                                                                     : block;
        }
        mem_free(at);
        rc = exec_rows_init(out, &s, rank, &places, err);
    }
    exec_places_release(&places);
    schedule_release(&s);
    layout_release(&l);
    return rc;
}
