/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MPI_ROWS_FIXTURE_H
#define TESTS_MPI_ROWS_FIXTURE_H

#include "coll/coll.h"

/* What a rank of the layout does in a collective; to be released by exec_rows_release. */
static inline int rows_of(const struct layout *l, const struct coll_spec *spec, int rank,
                          struct exec_rows *out, struct err *err)
{
    int subchunks = coll_subchunks(l, spec);
    struct schedule_spec want = {.algo = spec->algo,
                                 .phases = coll_phases(spec),
                                 .groups = &l->groups,
                                 .segments = l->segments,
                                 .holder = l->holder,
                                 .subchunks = subchunks,
                                 .root = spec->root};
    struct exec_places places;
    struct schedule s;

    if (schedule_gen(&want, rank, &s, err))
        return -1;
    coll_places(l, spec, rank, subchunks, &places);
    int rc = exec_rows_init(out, &s, rank, &places, err);
    schedule_release(&s);
    exec_places_release(&places);
    return rc;
}

#endif
