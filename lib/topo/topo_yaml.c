/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes a fabric as text: the format paro-topology/1 (paro-topology(5)), and the
 * JSON document paro.topo/1.  A fabric printed as YAML reads back as the same fabric and prints
 * as the same text.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "value/value_yaml.h"
#include "topo/topo_print.h"

#define FORMAT "paro-topology/1"

enum { HOST_BYTES = 256 };

/* With 2^20 ranks at a port of the least rate, each has less than 1 B/s. */
#define MEMBER_MIN_BPS 1e-7

#define KNOWN RECORD_OPTIONAL | RECORD_ABSENT | RECORD_ZERO

#define LEVEL(member, least, most, ...)                                                        \
    RECORD_NUM(struct topo_level, member, #member, least, most, __VA_ARGS__)
#define ERROR_BAR(member, most) LEVEL(member, 0, most, .flags = KNOWN | TOPO_ERROR_BAR)

const struct record topo_level_record[] = {
    RECORD(TEXT, struct topo_level, name, "name", .lo = 1),
    LEVEL(latency_s, 0, TOPO_LATENCY_MAX_S),
    LEVEL(port_Bps, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS),
    LEVEL(flow_Bps, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS),
    LEVEL(member_Bps, MEMBER_MIN_BPS, TOPO_RATE_MAX_BPS),
    LEVEL(message_s, 0, TOPO_LATENCY_MAX_S, .flags = KNOWN),
    ERROR_BAR(latency_err_s, TOPO_LATENCY_MAX_S),
    ERROR_BAR(port_err_Bps, TOPO_RATE_MAX_BPS),
    ERROR_BAR(flow_err_Bps, TOPO_RATE_MAX_BPS),
    ERROR_BAR(member_err_Bps, TOPO_RATE_MAX_BPS),
    LEVEL(rate_left, TOPO_LEFT_MIN, 1, .flags = KNOWN),
    LEVEL(compute_left, TOPO_LEFT_MIN, 1, .flags = KNOWN),
    LEVEL(ring_loss, 0, 1, .flags = KNOWN),
    LEVEL(use_lost_s, 0, TOPO_LATENCY_MAX_S, .flags = KNOWN),
    LEVEL(latency_busy_s, 0, TOPO_LATENCY_MAX_S, .flags = KNOWN),
    RECORD(TEXT, struct topo_level, rate_source, "rate_source", .lo = 1, .flags = KNOWN),
    RECORD(TEXT, struct topo_level, latency_source, "latency_source", .lo = 1, .flags = KNOWN),
    {0}};

#define UNKNOWN_0 .flags = RECORD_OPTIONAL | RECORD_ZERO
static const char *const devices[] = {[TOPO_CPU] = "cpu", [TOPO_CUDA] = "cuda", NULL};
static const char *const transports[] = {
    [TOPO_OVER_MPI] = "mpi", [TOPO_OVER_NCCL] = "nccl", NULL};
static const char *const types[] = {[DTYPE_F32] = "f32", [DTYPE_BF16] = "bf16", NULL};

static const struct record rank_fields[] = {
    RECORD(CHOICE, struct topo, groups.ring, "cabling", .words = topo_cablings, .flags = KNOWN),
    RECORD(CHOICE, struct topo, device, "device", .words = devices,
           .flags = RECORD_OPTIONAL | RECORD_BRIEF),
    RECORD(CHOICE, struct topo, transport, "transport", .words = transports, .flags = KNOWN),
    RECORD_INT(struct topo, memory_bytes, "memory_bytes", 1, TOPO_MEMORY_MAX_BYTES, UNKNOWN_0),
    RECORD_NUM(struct topo, flops, "flops", 1, TOPO_FLOPS_MAX, UNKNOWN_0),
    RECORD(CHOICE, struct topo, compute_type, "compute_type", .words = types,
           .flags = RECORD_OPTIONAL | RECORD_BRIEF),
    {0}};
static const struct record other_fields[] = {
    RECORD_NUM(struct topo, memory_Bps, "memory_Bps", TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS,
               UNKNOWN_0),
    RECORD(TEXT, struct topo, doubt, "doubt", .lo = 1, .flags = KNOWN),
    {0}};
static const struct record topo_fields[] = {
    RECORD_PART(NULL, rank_fields), RECORD_PART(NULL, other_fields), {0}};

static const char root_keys[] = "format levels flops_f32? flops_bf16? groups";

struct line { /* one line of the groups */
    char host[HOST_BYTES];
    struct topo_port port;
    struct topo_devices devices;
};
#define PORT(member, key)                                                                      \
    RECORD_NUM(struct line, port.member, key, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS,            \
               .flags = RECORD_OPTIONAL)
#define DEVICES(member)                                                                        \
    RECORD_INT(struct line, devices.member, #member, 0, TOPO_DEVICES_MAX, .flags = KNOWN)
static const struct record host_fields[] = {
    RECORD(TEXT, struct line, host, "host", .lo = 1, .flags = RECORD_OPTIONAL), {0}};
static const struct record port_fields[] = {
    PORT(out_Bps, "port_out_Bps"), PORT(in_Bps, "port_in_Bps"), {0}};
static const struct record device_fields[] = {
    DEVICES(numa_nodes),
    DEVICES(gpus),
    DEVICES(nics),
    RECORD(TEXT, struct line, devices.gpu_name, "gpu_name", .lo = 1, .flags = KNOWN),
    {0}};
static const char group_keys[] = "ranks flops? blocks?";
static const struct record group_fields[] = {RECORD_PART(NULL, host_fields),
                                             RECORD_PART(NULL, port_fields),
                                             RECORD_PART(NULL, device_fields),
                                             {0}};

/* ---- reading ---- */

struct read {
    struct topo *t;
    const struct tree *tree;
    struct err *err;
};

/* Reads one rank of group k into of[]; `before`: the rank listed before it in its group, or
   -1. */
static int yaml_read_rank(const struct read *r, const struct tree_node *n, int k, int ranks,
                          int *of, int *before)
{
    int rank = 0;

    if (tree_int(r->tree, n, 0, GROUPS_RANKS_MAX, &rank, r->err))
        return -1;
    if (rank >= ranks)
        return tree_fail(r->tree, n, NULL, r->err,
                         "is rank %d, expected 0 to %d, since the groups list %d ranks", rank,
                         ranks - 1, ranks);
    if (of[rank] >= 0 && of[rank] != k)
        return tree_fail(r->tree, n, NULL, r->err,
                         "is rank %d, which groups[%d] has too, expected each rank once", rank,
                         of[rank]);
    if (rank <= *before)
        return tree_fail(r->tree, n, NULL, r->err,
                         "is rank %d after rank %d, expected the ranks of a group to ascend",
                         rank, *before);
    of[rank] = k;
    *before = rank;
    return 0;
}

static int64_t count_ranks(const struct tree *t, const struct tree_node *list, struct err *err)
{
    int64_t ranks = 0;

    if (tree_list(t, list, 1, GROUPS_RANKS_MAX, err))
        return -1;
    if (list->child->kind != TREE_LIST)
        return list->items;
    for (const struct tree_node *one = list->child; one; one = one->next) {
        if (tree_list(t, one, 1, GROUPS_RANKS_MAX, err))
            return -1;
        ranks += one->items;
    }
    return ranks;
}

/* Reads the ranks of cell number `own` of group k. */
static int yaml_read_cell(const struct read *r, const struct tree_node *list, int k, int own,
                          int ranks, int *of, int *cell_of)
{
    int before = -1;

    for (const struct tree_node *one = list->child; one; one = one->next) {
        if (yaml_read_rank(r, one, k, ranks, of, &before))
            return -1;
        cell_of[before] = own;
    }
    return 0;
}

/* Reads the ranks of a group, or of each of its cells. */
static int read_ranks(const struct read *r, const struct tree_node *list, int k, int ranks,
                      int *of, int *cell_of)
{
    int own = 0, rc = 0;

    if (list->child->kind != TREE_LIST)
        return yaml_read_cell(r, list, k, 0, ranks, of, cell_of);
    for (const struct tree_node *in = list->child; rc == 0 && in; in = in->next)
        rc = yaml_read_cell(r, in, k, own++, ranks, of, cell_of);
    return rc;
}

int topo_tree_groups(const struct tree *t, const struct tree_node *list,
                     const struct record *fields, const char *keys, struct groups *groups,
                     struct err *err)
{
    const struct read r = {NULL, t, err};
    int64_t ranks = 0;
    int k = 0, rc = 0, ring = groups->ring;

    for (const struct tree_node *n = list->child; n; n = n->next) {
        int64_t own = record_keys(t, n, fields, keys, err)
                          ? -1
                          : count_ranks(t, tree_get(n, "ranks"), err);
        if (own < 0)
            return -1;
        ranks += own;
    }
    if (ranks > GROUPS_RANKS_MAX)
        return tree_fail(t, list, NULL, err, "have %" PRId64 " ranks, expected %d at most",
                         ranks, GROUPS_RANKS_MAX);
    int *of = mem_new((size_t)ranks, sizeof *of), *cell_of = mem_new((size_t)ranks, sizeof *of);
    for (int64_t i = 0; i < ranks; i++)
        of[i] = -1;
    for (const struct tree_node *n = list->child; rc == 0 && n; n = n->next, k++)
        rc = read_ranks(&r, tree_get(n, "ranks"), k, (int)ranks, of, cell_of);
    rc = rc ? rc : groups_init_of(groups, (int)ranks, of, err);
    if (rc == 0)
        groups_set_cells(groups, cell_of);
    groups->ring = ring;
    mem_free(of);
    mem_free(cell_of);
    return rc;
}

void topo_put_ranks(struct jout *j, const struct groups *g, int k)
{
    int cells = groups_cells(g, k);

    jout_open(j, "ranks", '[');
    for (int c = g->cell[k]; c < g->cell[k + 1]; c++) {
        if (cells > 1)
            jout_open(j, NULL, '[');
        for (int i = g->cell_at[c]; i < g->cell_at[c + 1]; i++)
            jout_int(j, NULL, g->in_cell[i]);
        if (cells > 1)
            jout_close(j, ']');
    }
    jout_close(j, ']');
}

static int yaml_read_blocks(const struct read *r, const struct tree_node *group, int k)
{
    const struct tree_node *list = tree_get(group, "blocks"), *n = list ? list->child : NULL;
    int above = r->t->levels - 2, groups = r->t->groups.count, items = list ? list->items : 0;

    if (tree_list(r->tree, list, 1, TOPO_LEVELS_MAX, r->err))
        return -1;
    if (items != above)
        return tree_fail(r->tree, list ? list : group, list ? NULL : "blocks", r->err,
                         "has %d numbers, expected %d (one for each level from levels[2] on)",
                         items, above);
    for (int l = 0; n; l++, n = n->next)
        if (tree_int(r->tree, n, 0, groups - 1, &r->t->block[l * groups + k], r->err))
            return -1;
    return 0;
}

/* Groups that share a block must share every block further out. */
static int check_nesting(const struct read *r, const struct tree_node *list)
{
    const struct topo *t = r->t;
    int count = t->groups.count, rc = 0;
    int *first = mem_new((size_t)count, sizeof *first);

    for (int l = 0; rc == 0 && l + 3 < t->levels; l++) {
        const int *in = t->block + l * count, *out = in + count;
        const struct tree_node *n = list->child;
        for (int k = 0; k < count; k++)
            first[k] = -1;
        for (int k = 0; rc == 0 && k < count; k++, n = n->next) {
            int at = first[in[k]];
            if (at < 0)
                first[in[k]] = k;
            if (at < 0 || out[at] == out[k])
                continue;
            const struct tree_node *block = tree_get(n, "blocks")->child;
            for (int i = 0; i <= l; i++)
                block = block->next;
            rc = tree_fail(r->tree, block, NULL, r->err,
                           "is %d, but groups[%d] of the same block %d has %d, expected levels"
                           " that nest",
                           out[k], at, in[k], out[at]);
        }
    }
    mem_free(first);
    return rc;
}

static const char *const other_keys[] = {
    [DTYPE_F32] = "flops_f32", [DTYPE_BF16] = "flops_bf16"};

const char *topo_other_key(const struct topo *t)
{
    return other_keys[topo_other_type(t)];
}

static int read_rank_words(const struct read *r, const struct tree_node *root)
{
    struct topo *t = r->t;

    if (record_values(r->tree, root, topo_fields, t, r->err))
        return -1;
    if (t->groups.ring && (t->levels > 2 || t->groups.count < 3))
        return tree_fail(r->tree, tree_get(root, "cabling"), NULL, r->err,
                         "is ring, expected two levels and three groups or more");
    const char *own = other_keys[t->compute_type], *other = topo_other_key(t);
    if (tree_f64(r->tree, tree_get(root, other), 1, TOPO_FLOPS_MAX, &t->other_flops, r->err))
        return -1;
    if (!tree_get(root, own) && (!(t->other_flops > 0) || t->flops > 0))
        return 0;
    return tree_fail(r->tree, root, "flops", r->err,
                     "expected the rate in compute_type, %s, and %s for the other type",
                     types[t->compute_type], other);
}

/* Reads the compute rates of a group's ranks. */
static int read_rank_flops(const struct read *r, const struct tree_node *group, int k)
{
    const struct tree_node *list = tree_get(group, "flops"), *one = list ? list->child : NULL;
    const struct groups *g = &r->t->groups;
    double flops = 0;

    if (tree_list(r->tree, list, 1, GROUPS_RANKS_MAX, r->err))
        return -1;
    if (list && (list->items != g->members[k] || !(r->t->flops > 0)))
        return tree_fail(
            r->tree, list, NULL, r->err,
            "has %d rates, expected %d, one for each rank, and 'flops' of the fabric",
            list->items, g->members[k]);
    for (int i = 0; one; i++, one = one->next) {
        if (tree_f64(r->tree, one, 1, TOPO_FLOPS_MAX, &flops, r->err))
            return -1;
        topo_set_rank_flops(r->t, groups_rank(g, k, i), flops);
    }
    return 0;
}

static int yaml_read_parts(const struct read *r, const struct tree_node *root)
{
    const struct tree_node *level = tree_get(root, "levels")->child;
    const struct tree_node *groups = tree_get(root, "groups"), *group = groups->child;

    if (read_rank_words(r, root))
        return -1;
    for (int l = 0; level; l++, level = level->next) {
        const struct tree *t = r->tree;
        struct topo_level *to = &r->t->level[l];

        if (record_read(t, level, topo_level_record, "", to, r->err))
            return -1;
        for (int i = 0; i < l; i++)
            if (strcmp(r->t->level[i].name, to->name) == 0)
                return tree_fail(t, tree_get(level, "name"), NULL, r->err,
                                 "is '%s' as is levels[%d]'s, expected another", to->name, i);
        /*
         * The rate of a port's member when all members send through the port.  More than the
         * port's rate, beyond the error of a measurement (TOPO_SLOW_SHARE), is a mistake such
         * as bits for bytes.  At level 0, and at level 1 of a single group, which repeats it,
         * no port is shared: the two are a rank's rate alone and in company, measured
         * separately.
         */
        if (l > 0 && r->t->groups.count > 1 && to->member_Bps * TOPO_SLOW_SHARE > to->port_Bps)
            return tree_fail(
                t, tree_get(level, "member_Bps"), NULL, r->err,
                "is %.6g, expected at most port_Bps, %.6g, which all members share",
                to->member_Bps, to->port_Bps);
    }
    for (int k = 0; group; k++, group = group->next) {
        double usual = r->t->level[1].port_Bps;
        struct line line = {.port = {usual, usual}};

        if (record_values(r->tree, group, group_fields, &line, r->err))
            return -1;
        topo_set_host(r->t, k, line.host);
        r->t->port[k] = line.port;
        r->t->devices[k] = line.devices;
        if (read_rank_flops(r, group, k) || yaml_read_blocks(r, group, k))
            return -1;
    }
    return check_nesting(r, groups);
}

int topo_parse_yaml(struct topo *t, const struct yaml *y, struct err *err)
{
    const struct tree_node *root = y->tree.root;
    struct topo new = {0};
    struct groups groups = {0};
    struct read r = {&new, &y->tree, err};

    if (yaml_format(y, FORMAT, err) ||
        record_keys(&y->tree, root, topo_fields, root_keys, err) ||
        tree_list(&y->tree, tree_get(root, "levels"), 2, TOPO_LEVELS_MAX, err) ||
        tree_list(&y->tree, tree_get(root, "groups"), 1, GROUPS_RANKS_MAX, err) ||
        topo_tree_groups(&y->tree, tree_get(root, "groups"), group_fields, group_keys, &groups,
                         err))
        return -1;
    topo_init(&new, tree_get(root, "levels")->items, &groups);
    groups_release(&groups);
    if (yaml_read_parts(&r, root)) {
        topo_release(&new);
        return -1;
    }
    *t = new;
    return 0;
}

/* ---- printing: YAML omits unknown values and defaults ---- */

static void put_rank_flops(struct jout *j, const struct topo *t, int k)
{
    const struct groups *g = &t->groups;
    int own = 0;

    for (int i = 0; i < g->members[k]; i++)
        own |= topo_rank_flops(t, groups_rank(g, k, i)) != t->flops;
    if (!own)
        return;
    jout_open(j, "flops", '[');
    for (int i = 0; i < g->members[k]; i++)
        jout_num(j, NULL, topo_rank_flops(t, groups_rank(g, k, i)));
    jout_close(j, ']');
}

static void yaml_put_group(struct jout *j, const struct topo *t, int k)
{
    struct line line = {.port = t->port[k], .devices = t->devices[k]};
    double usual = t->level[1].port_Bps;

    snprintf(line.host, sizeof line.host, "%s", t->host[k]);
    if (j->yaml && line.port.out_Bps == usual)
        line.port.out_Bps = NAN;
    if (j->yaml && line.port.in_Bps == usual)
        line.port.in_Bps = NAN;
    jout_open(j, NULL, '{');
    if (!j->yaml)
        jout_int(j, "group", k);
    record_put(j, host_fields, &line);
    topo_put_ranks(j, &t->groups, k);
    record_put(j, port_fields, &line);
    put_rank_flops(j, t, k);
    if (!j->yaml || t->levels > 2) {
        jout_open(j, "blocks", '[');
        for (int l = 2; l < t->levels; l++)
            jout_int(j, NULL, topo_unit(t, l, k));
        jout_close(j, ']');
    }
    record_put(j, device_fields, &line);
    jout_close(j, '}');
}

static void print(const struct topo *t, struct jout *j)
{
    jout_open(j, NULL, '{');
    jout_text(j, j->yaml ? "format" : "schema", j->yaml ? FORMAT : "paro.topo/1");
    if (j->yaml)
        record_put_list(j, "levels", topo_level_record, t->level, t->levels, sizeof *t->level);
    else
        jout_int(j, "ranks", t->groups.ranks);
    record_put(j, rank_fields, t);
    if (t->other_flops > 0)
        jout_num(j, topo_other_key(t), t->other_flops);
    record_put(j, other_fields, t);
    if (!j->yaml)
        record_put_list(j, "levels", topo_level_record, t->level, t->levels, sizeof *t->level);
    jout_open(j, "groups", '[');
    for (int k = 0; k < t->groups.count; k++)
        yaml_put_group(j, t, k);
    jout_close(j, ']');
    jout_close(j, '}');
}

void topo_print_yaml(const struct topo *t, FILE *out)
{
    print(t, &(struct jout){.file = out, .yaml = 1});
}

void topo_print_json(const struct topo *t, FILE *out)
{
    print(t, &(struct jout){.file = out});
}
