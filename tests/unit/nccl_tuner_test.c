/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests libparo-nccl-plugin.so as NCCL's tuner: called by the names and layouts of NCCL's
 * interface, which are written down here again, and its choice made of the costs as NCCL makes
 * it.
 */
#include "unit.h"

#include "nccl_plugin_fixture.h"

struct tuner {
    const char *name;
    union {
        int (*init5)(void **, uint64_t, size_t, size_t, logger_f *, void *, void *);
        int (*init4)(size_t, size_t, logger_f *, void **);
    };
    int (*info)(void *, int, size_t, int, float **, int, int, int, int *);
    int (*finalize)(void *);
};

static char table[TEMP_PATH + 16];

static int setup(void **state)
{
    int rc = plugin_setup(state);

    snprintf(table, sizeof table, "%s/tuning.yaml", dir);
    return rc;
}

static int teardown(void **state)
{
    unlink(table);
    return plugin_teardown(state);
}

#define PLUGIN_TEST(name) UNIT_TEST(name, setup, teardown)

enum { TREE, RING, NVLS = 4, PAT = 6, ALGOS = 7, PROTOS = 3 };
enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, SEND_RECV };

/* NCCL's choice: the least that is no less than 0; -1 - protocol where the costs are changed
   although nothing is chosen.  PAT is impossible unless it is said. */
static int chosen(const struct tuner *t, void *context, int func, size_t bytes, int pat)
{
    float cost[ALGOS][PROTOS], was[ALGOS][PROTOS];
    int best = 0, channels = -7;

    for (int i = 0; i < ALGOS * PROTOS; i++)
        cost[i / PROTOS][i % PROTOS] = (float)(100 - i);
    for (int i = 0; i < PROTOS; i++)
        cost[NVLS][i] = (float)(3 - i); /* NCCL's own choice: 1, its last protocol */
    for (int i = 0; i < PROTOS && !pat; i++)
        cost[PAT][i] = -1;
    memcpy(was, cost, sizeof was);
    assert_int_equal(
        t->info(context, func, bytes, 1, (float **)(void *)cost, ALGOS, PROTOS, 0, &channels),
        0);
    assert_int_equal(channels, -7);
    for (int i = 0; i < ALGOS * PROTOS; i++) {
        float x = cost[i / PROTOS][i % PROTOS];
        assert_true(x == -1 || x == was[i / PROTOS][i % PROTOS]);
        if (x >= 0 &&
            (cost[best / PROTOS][best % PROTOS] < 0 || x < cost[best / PROTOS][best % PROTOS]))
            best = i;
    }
    assert_int_equal(best % PROTOS, PROTOS - 1);
    return best / PROTOS;
}

static const char rules[] = "format: paro-tuning/1\n"
                            "members: [2, 2]\n"
                            "rules:\n"
                            "  - {op: all-reduce, from_bytes: 0, below_bytes: 1000, algo: tree,"
                            " chunk_bytes: whole}\n"
                            "  - {op: all-reduce, from_bytes: 1000, below_bytes: 9000, algo:"
                            " ring, chunk_bytes: whole}\n"
                            "  - {op: all-reduce, from_bytes: 9000, algo: ho-ring, chunk_bytes:"
                            " 61440}\n"
                            "  - {op: all-gather, from_bytes: 0, algo: bruck, chunk_bytes:"
                            " whole}\n";

static void write_table(const char *text)
{
    FILE *f = fopen(table, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    setenv("PARO_TUNING", table, 1);
}

static int tunes(void)
{
    const struct tuner *t = symbol("ncclTunerPlugin_v5"), *old = symbol("ncclTunerPlugin_v4");
    void *c = NULL, *c4 = NULL, *other = &other;

    if (t->init5(&c, 7, 4, 2, quiet, NULL, NULL) || !c || old->init4(4, 2, quiet, &c4) || !c4)
        return 1;
    if (t->init5(&other, 8, 2, 2, quiet, NULL, NULL) || other)
        return 2;
    other = &other;
    if (t->init5(&other, 8, 4, 1, quiet, NULL, NULL) || other)
        return 2;
    if (chosen(t, c, ALL_REDUCE, 999, 0) != TREE || chosen(t, c, ALL_REDUCE, 1000, 0) != RING ||
        chosen(old, c4, ALL_REDUCE, 8999, 1) != RING)
        return 3;
    if (chosen(t, c, ALL_REDUCE, 9000, 1) != NVLS) /* NCCL has no HO-Ring */
        return 4;
    if (chosen(t, c, ALL_GATHER, 5, 1) != PAT || chosen(t, c, ALL_GATHER, 5, 0) != NVLS)
        return 5;
    if (chosen(t, c, REDUCE_SCATTER, 5, 1) != NVLS || chosen(t, c, REDUCE, 5, 1) != NVLS ||
        chosen(t, c, SEND_RECV, 5, 1) != NVLS || chosen(t, c, -1, 5, 1) != NVLS ||
        chosen(t, c, BROADCAST, 5, 1) != NVLS || chosen(t, NULL, ALL_REDUCE, 5, 1) != NVLS)
        return 6;
    return t->finalize(c) || old->finalize(c4);
}

PLUGIN_TEST(nccl_chooses_what_the_table_says)
{
    write_table(rules);
    assert_int_equal(run(tunes), 0);
    printed(0, "");
}

static int refuses(void)
{
    const struct tuner *t = symbol("ncclTunerPlugin_v5");
    void *c = &c;

    return t->init5(&c, 7, 4, 2, quiet, NULL, NULL) == 5 && !c ? 0 : 1;
}

PLUGIN_TEST(a_table_that_cannot_be_read_makes_no_communicator)
{
    assert_int_equal(run(refuses), 0);
    printed(1, "no tuning table for NCCL: neither PARO_TUNING nor PARO_TOPO is set");
    write_table("format: paro-tuning/9\n");
    assert_int_equal(run(refuses), 0);
    printed(1, "tuning.yaml:1: 'format'");
}

static const char *old_name;

static int old_tuner(void)
{
    const struct tuner *old = symbol(old_name);
    void *context = &context;

    return old->init4(4, 2, quiet, &context) == 5 && !context ? 0 : 1;
}

PLUGIN_TEST(older_versions_are_refused_with_a_line)
{
    old_name = "ncclTunerPlugin_v3";
    assert_int_equal(run(old_tuner), 0);
    printed(1, "tuner interface is older than version 4, expected 4 or 5 (NCCL 2.27");
    old_name = "ncclTunerPlugin_v2";
    assert_int_equal(run(old_tuner), 0);
    assert_null(symbol("ncclTunerPlugin_v6"));
}
