/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the tables of a record: paro-health/1, paro-health-record(5). */
#include <math.h>

#include "health/health_data.h"
#include "health/health_store.h"

enum {
    RANKS_MOST = 1 << 20,
    SAMPLES_MOST = 1 << 22, /* 4096 ports 1024 times */
    LINKS_MOST = 1 << 18,
    ROUNDS_MOST = 1 << 24
};
/* Beyond the values of any port or run; a rate of 0 would be no sample. */
#define RATE_MOST  1e25
#define RATE_LEAST 1e-3
#define TIME_MOST  1e9
#define WORDS_MOST (INT64_C(1) << 48) /* exact in a double */
#define WHEN_MOST  (INT64_C(1) << 40)

/* ---- tables ---- */

/* Reads names of checks, in their order. */
static int record_read_parts(const struct record *f, const struct tree *t,
                             const struct tree_node *n, void *at, struct err *err)
{
    unsigned *parts = at;
    int last = -1, part = 0;

    (void)f;
    if (tree_list(t, n, 0, HEALTH_PARTS, err))
        return -1;
    for (const struct tree_node *c = n->child; c; c = c->next, last = part) {
        if (tree_choice(t, c, health_parts, HEALTH_PARTS, &part, err))
            return -1;
        if (part <= last)
            return tree_fail(t, c, NULL, err,
                             "is '%s', expected names of checks in their order", c->text);
        *parts |= 1u << part;
    }
    return 0;
}

static void record_put_parts(const struct record *f, struct jout *j, const void *at)
{
    jout_open(j, f->key, '[');
    for (int p = 0; p < HEALTH_PARTS; p++)
        if (*(const unsigned *)at >> p & 1)
            jout_text(j, NULL, health_parts[p]);
    jout_close(j, ']');
}

#define D struct health_data
static const struct record head[] = {
    RECORD_INT(D, when_s, "when_s", 0, WHEN_MOST),
    RECORD(CHOICE, D, level, "level", .words = health_levels),
    RECORD_INT(D, hosts, "hosts", 1, HEALTH_HOSTS_MOST),
    RECORD_INT(D, own, "own", 0, HEALTH_HOSTS_MOST - 1),
    RECORD_INT(D, seed, "seed", INT64_MIN, INT64_MAX),
    RECORD_INT(D, rounds, "rounds", 0, ROUNDS_MOST),
    RECORD_INT(D, wanted, "wanted", 0, ROUNDS_MOST),
    RECORD(OWN, D, requested, "asked", .read = record_read_parts, .put = record_put_parts),
    RECORD(OWN, D, done, "done", .read = record_read_parts, .put = record_put_parts),
    RECORD_NUM(D, seconds, "seconds", 0, TIME_MOST),
    RECORD_NUM(D, deadline_s, "deadline_s", 0, TIME_MOST),
    RECORD(BOOL, D, capped, "capped", .flags = RECORD_OPTIONAL | RECORD_ABSENT | RECORD_ZERO),
    {0}};

#define H struct health_host
static const struct record host[] = {HEALTH_NAME(H, name, "host"),
                                     RECORD_INT(H, ranks, "ranks", 1, RANKS_MOST),
                                     RECORD_INT(H, leaf, "leaf", -1, INT32_MAX),
                                     RECORD_INT(H, pod, "pod", -1, INT32_MAX),
                                     RECORD_NUM(H, drain_Bps, "drain_Bps", -1, RATE_MOST),
                                     RECORD(BOOL, H, silent, "silent"),
                                     RECORD(TEXT, H, why, "why"),
                                     {0}};

#define L struct health_link
static const struct record port[] = {HEALTH_NAME(L, name, "link"),
                                     RECORD_INT(L, host, "of", 0, HEALTH_HOSTS_MOST - 1),
                                     RECORD(BOOL, L, up, "up"),
                                     RECORD(BOOL, L, carrier, "carrier"),
                                     RECORD(BOOL, L, lost, "lost"),
                                     RECORD_NUM(L, Bps, "link_Bps", 0, RATE_MOST),
                                     RECORD_NUM(L, want_Bps, "want_Bps", 0, RATE_MOST),
                                     RECORD_INT(L, errors, "errors", -1, INT64_MAX),
                                     RECORD_INT(L, packets, "packets", -1, INT64_MAX),
                                     RECORD_INT(L, flaps, "flaps", -1, INT64_MAX),
                                     RECORD_NUM(L, since_s, "since_s", 0, TIME_MOST),
                                     {0}};

#define G struct health_gpu
static const struct record gpu[] = {
    RECORD_INT(G, index, "gpu", 0, INT32_MAX),
    RECORD(TEXT, G, name, "name"),
    RECORD_INT(G, wrong[HEALTH_OUT], "wrong_out", 0, WORDS_MOST),
    RECORD_INT(G, wrong[HEALTH_IN], "wrong_in", 0, WORDS_MOST),
    {0}};

#define SRC_DST(struct_)                                                                       \
    RECORD_INT(struct_, src, "src", 0, RANKS_MOST - 1),                                        \
        RECORD_INT(struct_, dst, "dst", 0, RANKS_MOST - 1)
static const struct record sample[] = {
    SRC_DST(struct health_sample),
    RECORD_INT(struct health_sample, round, "round", 0, ROUNDS_MOST),
    RECORD(BOOL, struct health_sample, stage, "again"),
    RECORD_NUM(struct health_sample, Bps, "Bps", RATE_LEAST, RATE_MOST),
    {0}};
static const struct record rank_sample[] = {
    SRC_DST(struct health_rank_sample),
    RECORD_INT(struct health_rank_sample, round, "round", 0, ROUNDS_MOST),
    RECORD_NUM(struct health_rank_sample, Bps, "rank_Bps", RATE_LEAST, RATE_MOST),
    {0}};
static const struct record latency[] = {
    SRC_DST(struct health_latency),
    RECORD_NUM(struct health_latency, s, "latency_s", 1e-12, TIME_MOST),
    {0}};
static const struct record wrong[] = {
    SRC_DST(struct health_amount),
    RECORD_NUM(struct health_amount, amount, "wrong_words", 1, WORDS_MOST),
    {0}};
static const struct record stall[] = {
    SRC_DST(struct health_amount),
    RECORD_NUM(struct health_amount, amount, "stalled_s", 0, TIME_MOST),
    {0}};
static const struct record collective[] = {
    RECORD_NUM(struct health_collective, s, "collective_s", 1e-12, TIME_MOST),
    RECORD_NUM(struct health_collective, want_s, "want_s", 1e-12, TIME_MOST),
    RECORD_INT(struct health_collective, first, "first", 0, HEALTH_HOSTS_MOST - 1),
    RECORD_INT(struct health_collective, count, "count", 1, HEALTH_HOSTS_MOST),
    {0}};

/* ---- further checks ---- */

static const char *record_check_host(void *whole, void *item, const char **key)
{
    struct health_data *d = whole;
    const struct health_host *h = item;

    *key = "ranks";
    if (h->ranks > RANKS_MOST - d->ranks)
        return "makes more than 1048576 ranks";
    d->ranks += h->ranks;
    return NULL;
}

static const char *record_check_link(void *whole, void *item, const char **key)
{
    *key = "of";
    return ((struct health_link *)item)->host < ((struct health_data *)whole)->hosts
               ? NULL
               : "is no host of the record";
}

static const char *record_check_ends(const int end[2], int ends, const char **key)
{
    *key = end[0] < ends ? "dst" : "src";
    if (end[0] >= ends || end[1] >= ends)
        return "is no host, or no rank, of the record";
    return end[0] == end[1] ? "is the same as 'src', expected another" : NULL;
}

static const char *check_pair(void *whole, void *item, const char **key)
{
    return record_check_ends(item, ((struct health_data *)whole)->hosts,
                             key); /* keys src and dst come first */
}

static const char *check_ranks(void *whole, void *item, const char **key)
{
    return record_check_ends(item, ((struct health_data *)whole)->ranks, key);
}

static const char *check_wrong(void *whole, void *item, const char **key)
{
    const struct health_data *d = whole;
    const struct health_amount *w = item;

    for (int i = 0; i < d->wrongs.count; i++)
        if (d->wrongs.at[i].src == w->src && d->wrongs.at[i].dst == w->dst) {
            *key = "src";
            return "and 'dst' are repeated";
        }
    *key = "wrong_words";
    if (w->amount != floor(w->amount))
        return "is no whole number";
    return check_pair(whole, item, key);
}

static const char *check_collective(void *whole, void *item, const char **key)
{
    const struct health_collective *c = item;

    *key = "count";
    return c->count <= ((struct health_data *)whole)->hosts - c->first
               ? NULL
               : "goes beyond the hosts of the record";
}

#define KIND(key_, list_, field_, most_, check_)                                               \
    {                                                                                          \
        .key = (key_), .field = (field_), HEALTH_LISTED(D, list_), .most = (most_),            \
        .check = (check_)                                                                      \
    }
static const struct health_kind kinds[] = {
    {.key = "host",
     .field = host,
     HEALTH_ITEMS(D, host, hosts, host_space),
     .most = HEALTH_HOSTS_MOST,
     .unique = 1,
     .check = record_check_host},
    KIND("link", links, port, LINKS_MOST, record_check_link),
    KIND("gpu", gpus, gpu, RANKS_MOST, NULL),
    KIND("Bps", samples, sample, SAMPLES_MOST, check_pair),
    KIND("rank_Bps", rank_samples, rank_sample, SAMPLES_MOST, check_ranks),
    KIND("latency_s", latencies, latency, SAMPLES_MOST, check_pair),
    KIND("wrong_words", wrongs, wrong, HEALTH_PAIRS_MOST, check_wrong),
    KIND("stalled_s", stalls, stall, HEALTH_PAIRS_MOST, check_pair),
    KIND("collective_s", collectives, collective, HEALTH_PAIRS_MOST, check_collective),
    {0}};

static const char *record_check_whole(void *whole, const char **key)
{
    const struct health_data *d = whole;

    *key = d->own < d->hosts ? "gpu" : "own";
    if (d->own >= d->hosts)
        return "is no host of the record";
    return d->gpus.count && d->gpus.count != d->ranks
               ? "is not there once for each rank, or not at all"
               : NULL;
}

static void record_release(void *whole)
{
    health_data_release(whole);
}

const struct health_store health_record_store = {.format = "paro-health/1",
                                                 .bytes_most = 512 << 20,
                                                 .head = head,
                                                 .counted = 1,
                                                 .kind = kinds,
                                                 .size = sizeof(D),
                                                 .check = record_check_whole,
                                                 .release = record_release};
