/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a fabric as text: the format paro-topology/1 (paro-topology(5)), in and out, and the
 * JSON document paro.topo/1.  What is printed as YAML reads back as the same fabric and prints
 * as the same text.
 */
#include <inttypes.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "topo/topo_print.h"

#define FORMAT "paro-topology/1"

enum { HOST_BYTES = 256 };

/* One of the 2^20 ranks that may share a port of the least rate has less than 1 B/s. */
#define MEMBER_MIN_BPS 1e-7

const struct topo_figure topo_figures[TOPO_FIGURES] = {
#define FIGURE(key, least, most, kind)                                                         \
    {                                                                                          \
#key, offsetof(struct topo_level, key), least, most, kind                              \
    }
    FIGURE(latency_s, 0, TOPO_LATENCY_MAX_S, TOPO_STATED),
    FIGURE(port_Bps, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS, TOPO_STATED),
    FIGURE(flow_Bps, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS, TOPO_STATED),
    FIGURE(member_Bps, MEMBER_MIN_BPS, TOPO_RATE_MAX_BPS, TOPO_STATED),
    FIGURE(message_s, 0, TOPO_LATENCY_MAX_S, TOPO_KNOWN),
    FIGURE(latency_err_s, 0, TOPO_LATENCY_MAX_S, TOPO_ERROR_BAR),
    FIGURE(port_err_Bps, 0, TOPO_RATE_MAX_BPS, TOPO_ERROR_BAR),
    FIGURE(flow_err_Bps, 0, TOPO_RATE_MAX_BPS, TOPO_ERROR_BAR),
    FIGURE(member_err_Bps, 0, TOPO_RATE_MAX_BPS, TOPO_ERROR_BAR),
    FIGURE(rate_left, TOPO_LEFT_MIN, 1, TOPO_KNOWN),
    FIGURE(compute_left, TOPO_LEFT_MIN, 1, TOPO_KNOWN),
    FIGURE(ring_loss, 0, 1, TOPO_KNOWN),
    FIGURE(use_lost_s, 0, TOPO_LATENCY_MAX_S, TOPO_KNOWN),
    FIGURE(latency_busy_s, 0, TOPO_LATENCY_MAX_S, TOPO_KNOWN),
#undef FIGURE
};

double topo_figure(const struct topo_level *level, const struct topo_figure *f)
{
    return *(const double *)(const void *)((const char *)level + f->at);
}

/* ---- reading ---- */

struct read {
    struct topo *t;
    const struct tree *tree;
    struct err *err;
};

/* One rank of group k enters of[]; `before`: the rank listed before it in its group, or -1. */
static int read_rank(const struct read *r, const struct tree_node *n, int k, int ranks, int *of,
                     int *before)
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

/* The ranks of a cell, which has number `own` in group k. */
static int read_cell(const struct read *r, const struct tree_node *list, int k, int own,
                     int ranks, int *of, int *cell_of)
{
    int before = -1;

    for (const struct tree_node *one = list->child; one; one = one->next) {
        if (read_rank(r, one, k, ranks, of, &before))
            return -1;
        cell_of[before] = own;
    }
    return 0;
}

/* The ranks of a group, or of each of its cells. */
static int read_ranks(const struct read *r, const struct tree_node *list, int k, int ranks,
                      int *of, int *cell_of)
{
    int own = 0, rc = 0;

    if (list->child->kind != TREE_LIST)
        return read_cell(r, list, k, 0, ranks, of, cell_of);
    for (const struct tree_node *in = list->child; rc == 0 && in; in = in->next)
        rc = read_cell(r, in, k, own++, ranks, of, cell_of);
    return rc;
}

int topo_tree_groups(const struct tree *t, const struct tree_node *list, const char *keys,
                     struct groups *groups, struct err *err)
{
    const struct read r = {NULL, t, err};
    int64_t ranks = 0;
    int k = 0, rc = 0;

    for (const struct tree_node *n = list->child; n; n = n->next) {
        int64_t own =
            tree_keys(t, n, keys, err) ? -1 : count_ranks(t, tree_get(n, "ranks"), err);
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

static int read_level(const struct read *r, const struct tree_node *n, int l)
{
    const struct tree *t = r->tree;
    struct topo_level *to = &r->t->level[l];

    if (tree_keys(t, n,
                  "name latency_s port_Bps flow_Bps member_Bps message_s? latency_err_s?"
                  " port_err_Bps? flow_err_Bps? member_err_Bps? rate_left? compute_left?"
                  " ring_loss?"
                  " use_lost_s? latency_busy_s? rate_source? latency_source?",
                  r->err) ||
        tree_word(t, tree_get(n, "name"), to->name, sizeof to->name, r->err))
        return -1;
    for (int i = 0; i < l; i++)
        if (strcmp(r->t->level[i].name, to->name) == 0)
            return tree_fail(t, tree_get(n, "name"), NULL, r->err,
                             "is '%s' as is levels[%d]'s, expected another", to->name, i);
    for (int i = 0; i < TOPO_FIGURES; i++) {
        const struct topo_figure *f = &topo_figures[i];
        double *value = (double *)(void *)((char *)to + f->at);
        if (tree_f64(t, tree_get(n, f->key), f->least, f->most, value, r->err))
            return -1;
    }
    /*
     * What one of a port's members has when all send passes the port.  Beyond what one
     * measurement differs from the next (TOPO_SLOW_SHARE) more is no fabric but a slip, as bits
     * for bytes.  At level 0, and at level 1 of one group, which repeats it, the two are a
     * rank's own rate alone and in company, measured apart: no port is shared.
     */
    if (l > 0 && r->t->groups.count > 1 && to->member_Bps * TOPO_SLOW_SHARE > to->port_Bps)
        return tree_fail(t, tree_get(n, "member_Bps"), NULL, r->err,
                         "is %.6g, expected at most port_Bps, %.6g, which all members share",
                         to->member_Bps, to->port_Bps);
    return tree_word(t, tree_get(n, "rate_source"), to->rate_source, TOPO_SOURCE_BYTES,
                     r->err) ||
                   tree_word(t, tree_get(n, "latency_source"), to->latency_source,
                             TOPO_SOURCE_BYTES, r->err)
               ? -1
               : 0;
}

static int read_blocks(const struct read *r, const struct tree_node *group, int k)
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

static int read_group(const struct read *r, const struct tree_node *n, int k)
{
    const struct tree *t = r->tree;
    struct topo_port *port = &r->t->port[k];
    struct topo_devices *d = &r->t->devices[k];
    char host[HOST_BYTES] = "";

    port->out_Bps = port->in_Bps = r->t->level[1].port_Bps;
    if (tree_word(t, tree_get(n, "host"), host, sizeof host, r->err) ||
        tree_f64(t, tree_get(n, "port_out_Bps"), TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS,
                 &port->out_Bps, r->err) ||
        tree_f64(t, tree_get(n, "port_in_Bps"), TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS,
                 &port->in_Bps, r->err) ||
        tree_int(t, tree_get(n, "numa_nodes"), 0, TOPO_DEVICES_MAX, &d->numa_nodes, r->err) ||
        tree_int(t, tree_get(n, "gpus"), 0, TOPO_DEVICES_MAX, &d->gpus, r->err) ||
        tree_int(t, tree_get(n, "nics"), 0, TOPO_DEVICES_MAX, &d->nics, r->err) ||
        tree_word(t, tree_get(n, "gpu_name"), d->gpu_name, TOPO_NAME_BYTES, r->err))
        return -1;
    topo_set_host(r->t, k, host);
    return read_blocks(r, n, k);
}

/* Groups that share a block share every block further out. */
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
    static const char *const devices[] = {[TOPO_CPU] = "cpu", [TOPO_CUDA] = "cuda"};
    static const char *const transports[] = {
        [TOPO_OVER_MPI] = "mpi", [TOPO_OVER_NCCL] = "nccl"};
    static const char *const types[] = {"f32", "bf16"};
    int device = TOPO_CPU, transport = TOPO_OVER_MPI, is_bf16 = 0;

    if (tree_choice(r->tree, tree_get(root, "device"), devices, 2, &device, r->err) ||
        tree_choice(r->tree, tree_get(root, "transport"), transports, 2, &transport, r->err) ||
        tree_choice(r->tree, tree_get(root, "compute_type"), types, 2, &is_bf16, r->err) ||
        tree_i64(r->tree, tree_get(root, "memory_bytes"), 1, TOPO_MEMORY_MAX_BYTES,
                 &r->t->memory_bytes, r->err) ||
        tree_f64(r->tree, tree_get(root, "flops"), 1, TOPO_FLOPS_MAX, &r->t->flops, r->err) ||
        tree_f64(r->tree, tree_get(root, other_keys[!is_bf16]), 1, TOPO_FLOPS_MAX,
                 &r->t->other_flops, r->err) ||
        tree_word(r->tree, tree_get(root, "doubt"), r->t->doubt, TOPO_SOURCE_BYTES, r->err) ||
        tree_f64(r->tree, tree_get(root, "memory_Bps"), TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS,
                 &r->t->memory_Bps, r->err))
        return -1;
    if (tree_get(root, other_keys[is_bf16]) || (r->t->other_flops > 0 && !(r->t->flops > 0)))
        return tree_fail(r->tree, root, "flops", r->err,
                         "expected the rate in compute_type, %s, and %s for the other type",
                         types[is_bf16], other_keys[!is_bf16]);
    r->t->device = (enum topo_device)device;
    r->t->transport = (enum topo_transport)transport;
    r->t->compute_type = is_bf16 ? DTYPE_BF16 : DTYPE_F32;
    return 0;
}

static int read_parts(const struct read *r, const struct tree_node *root)
{
    const struct tree_node *level = tree_get(root, "levels")->child;
    const struct tree_node *groups = tree_get(root, "groups"), *group = groups->child;

    if (read_rank_words(r, root))
        return -1;
    for (int l = 0; level; l++, level = level->next)
        if (read_level(r, level, l))
            return -1;
    for (int k = 0; group; k++, group = group->next)
        if (read_group(r, group, k))
            return -1;
    return check_nesting(r, groups);
}

int topo_parse_yaml(struct topo *t, const struct yaml *y, struct err *err)
{
    const struct tree_node *root = y->tree.root;
    struct topo new = {0};
    struct groups groups = {0};
    struct read r = {&new, &y->tree, err};

    if (yaml_format(y, FORMAT, err) ||
        tree_keys(&y->tree, root,
                  "format levels device? transport? memory_bytes? flops? compute_type?"
                  " flops_f32? flops_bf16? memory_Bps? doubt? groups",
                  err) ||
        tree_list(&y->tree, tree_get(root, "levels"), 2, TOPO_LEVELS_MAX, err) ||
        tree_list(&y->tree, tree_get(root, "groups"), 1, GROUPS_RANKS_MAX, err) ||
        topo_tree_groups(&y->tree, tree_get(root, "groups"),
                         "host? ranks port_out_Bps? port_in_Bps? blocks? numa_nodes? gpus?"
                         " nics? gpu_name?",
                         &groups, err))
        return -1;
    topo_init(&new, tree_get(root, "levels")->items, &groups);
    groups_release(&groups);
    if (read_parts(&r, root)) {
        topo_release(&new);
        return -1;
    }
    *t = new;
    return 0;
}

/* ---- printing: YAML leaves out what is unknown or the default ---- */

static void put_known(struct jout *j, const char *key, double v)
{
    if (v > 0)
        jout_num(j, key, v);
    else if (!j->yaml)
        jout_null(j, key);
}

static void put_rank_words(struct jout *j, const struct topo *t)
{
    if (!j->yaml || t->device != TOPO_CPU)
        jout_text(j, "device", topo_device_name(t->device));
    if (t->transport != TOPO_OVER_MPI)
        jout_text(j, "transport", topo_transport_name(t->transport));
    if (t->memory_bytes)
        jout_int(j, "memory_bytes", t->memory_bytes);
    else if (!j->yaml)
        jout_null(j, "memory_bytes");
    put_known(j, "flops", t->flops);
    if (!j->yaml || t->compute_type != DTYPE_F32)
        jout_text(j, "compute_type", dtype_name(t->compute_type));
    if (t->other_flops > 0)
        jout_num(j, topo_other_key(t), t->other_flops);
    put_known(j, "memory_Bps", t->memory_Bps);
    if (t->doubt[0])
        jout_text(j, "doubt", t->doubt);
}

static void put_levels(struct jout *j, const struct topo *t)
{
    jout_open(j, "levels", '[');
    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *level = &t->level[l];
        jout_open(j, NULL, '{');
        jout_text(j, "name", level->name);
        for (int i = 0; i < TOPO_FIGURES; i++) {
            double v = topo_figure(level, &topo_figures[i]);
            if (v > 0 || topo_figures[i].kind == TOPO_STATED)
                jout_num(j, topo_figures[i].key, v);
        }
        if (level->rate_source[0])
            jout_text(j, "rate_source", level->rate_source);
        if (level->latency_source[0])
            jout_text(j, "latency_source", level->latency_source);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_group(struct jout *j, const struct topo *t, int k)
{
    static const char *const keys[] = {"numa_nodes", "gpus", "nics"};
    const struct topo_devices *d = &t->devices[k];
    const int count[] = {d->numa_nodes, d->gpus, d->nics};
    double usual = t->level[1].port_Bps;

    jout_open(j, NULL, '{');
    if (!j->yaml)
        jout_int(j, "group", k);
    if (!j->yaml || t->host[k][0])
        jout_text(j, "host", t->host[k][0] ? t->host[k] : NULL);
    topo_put_ranks(j, &t->groups, k);
    if (!j->yaml || t->port[k].out_Bps != usual)
        jout_num(j, "port_out_Bps", t->port[k].out_Bps);
    if (!j->yaml || t->port[k].in_Bps != usual)
        jout_num(j, "port_in_Bps", t->port[k].in_Bps);
    if (!j->yaml || t->levels > 2) {
        jout_open(j, "blocks", '[');
        for (int l = 2; l < t->levels; l++)
            jout_int(j, NULL, topo_unit(t, l, k));
        jout_close(j, ']');
    }
    for (int i = 0; i < 3; i++)
        if (count[i] > 0)
            jout_int(j, keys[i], count[i]);
    if (d->gpu_name[0])
        jout_text(j, "gpu_name", d->gpu_name);
    jout_close(j, '}');
}

static void print(const struct topo *t, struct jout *j)
{
    jout_open(j, NULL, '{');
    jout_text(j, j->yaml ? "format" : "schema", j->yaml ? FORMAT : "paro.topo/1");
    if (j->yaml)
        put_levels(j, t);
    else
        jout_int(j, "ranks", t->groups.ranks);
    put_rank_words(j, t);
    if (!j->yaml)
        put_levels(j, t);
    jout_open(j, "groups", '[');
    for (int k = 0; k < t->groups.count; k++)
        put_group(j, t, k);
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
