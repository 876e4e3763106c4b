/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes choices in the format of each library: the names of its algorithms, its definition of
 * a message's size, and the text.  Leaves the choice to bench_emit.c.
 *
 * Sources.  Open MPI: ompi/mca/coll/tuned (coll_tuned_dynamic_file.c, the decisions' size of a
 * message, docs/tuning-apps), verified with 4.1.4 by tests/cmd/emit.bats.  NCCL:
 * plugins/tuner/example.  UCC: src/coll_score (ucc_coll_score.c, ucc_coll_score_map.c) and
 * ucc_coll_args_msgsize.
 */
#include "bench/bench_emit.h"

#include <inttypes.h>
#include <string.h>

#include "value/value_json_out.h"

static int64_t emit_target_whole(enum emit_coll coll, const struct bench_row *r)
{
    (void)coll;
    return r->bytes;
}

/* ---- comments ---- */

static void say_part(const struct emit_part *p, const char *call, FILE *out)
{
    const struct bench_row *r = p->row;
    const char *redop = r->redop == DTYPE_OPS ? "" : dtype_op_name(r->redop);
    const char *library = p->library[0] ? p->library : "library unknown";

    emit_comment(out, "%s on %.60s, %d ranks, %s%s%s: %d size%s measured, %s", call, r->shape,
                 p->ranks, dtype_name(r->type), *redop ? " " : "", redop, p->points,
                 p->points == 1 ? "" : "s", library);
    if (p->since[0])
        emit_comment(out, "  %s to %s, first host %s", p->since, p->until,
                     r->host[0] ? r->host : "unknown");
}

/* Writes the median times of a choice at its smallest size, and of the runner-up there. */
static void why(const struct emit_part *p, const struct emit_range *a, char *text, int space)
{
    const struct emit_point *at = &p->point[a->first],
                            *to = &p->point[a->first + a->points - 1];
    char next[96] = "", sizes[64] = "";
    int compared = 0;

    for (const struct emit_point *i = at; i <= to; i++)
        compared += i->ways > 1;
    if (!compared) {
        snprintf(text, (size_t)space, "only one setting measured: the library's own choice");
        return;
    }
    while (at->ways < 2)
        at++;
    bench_label(at->next, next, sizeof next);
    if (a->points > 1)
        snprintf(sizes, sizeof sizes, "fastest at %d sizes to %" PRId64 ", ", compared,
                 to->size);
    snprintf(text, (size_t)space, "%s: %s%.1f us at %" PRId64 ", next %s %.1f us",
             a->way.name[0] ? a->way.name : "the library's own choice", sizes,
             at->best->time_s[BENCH_MEDIAN] * 1e6, at->size, next,
             at->next->time_s[BENCH_MEDIAN] * 1e6);
}

static void say_origin(FILE *out)
{
    emit_comment(
        out,
        "made by paro-bench %s --emit from the medians of the best launch; sizes that were not"
        " measured are left to the library",
        PARO_VERSION);
}

/* ---- Open MPI ---- */

/* The libraries' names for the measured collectives; NULL: no such call. */
static const struct call {
    const char *name, *nccl, *ucc;
    int id; /* Open MPI's number; its key, its definition of the size, its algorithms from 1
               on */
    const char *key, *size, *ways;
} calls[EMIT_COLLS] = {
    [EMIT_ALLGATHER] = {"MPI_Allgather", "allgather", "allgather", 0, "allgather",
                        "of all ranks together",
                        "linear bruck recursive_doubling ring neighbor two_proc sparbit"
                        " direct-messaging"},
    [EMIT_ALLGATHERV] = {"MPI_Allgatherv", NULL, "allgatherv", 1, "allgatherv",
                         "of all ranks together over the number of ranks",
                         "default bruck ring neighbor two_proc sparbit"},
    [EMIT_ALLREDUCE] = {"MPI_Allreduce", "allreduce", "allreduce", 2, "allreduce",
                        "of the vector",
                        "basic_linear nonoverlapping recursive_doubling ring segmented_ring"
                        " rabenseifner allgather_reduce"},
    [EMIT_BCAST] = {"MPI_Bcast", "broadcast", "bcast", 7, "bcast", "of the vector",
                    "basic_linear chain pipeline split_binary_tree binary_tree binomial knomial"
                    " scatter_allgather scatter_allgather_ring"},
    [EMIT_REDUCE_SCATTER] = {"MPI_Reduce_scatter", NULL, "reduce_scatterv", 12,
                             "reduce_scatter", "of the whole vector",
                             "non-overlapping recursive_halving ring butterfly"},
    [EMIT_REDUCE_SCATTER_BLOCK] = {
        "MPI_Reduce_scatter_block", "reducescatter", "reduce_scatter", 13,
        "reduce_scatter_block", "of the whole vector",
        "basic_linear recursive_doubling recursive_halving butterfly"}};

const char *emit_coll_name(enum emit_coll coll)
{
    return calls[coll].name;
}

/* A name, or tuned-N: a launch that forces number N for every collective. */
static int ompi_way(enum emit_coll coll, const struct bench_row *r, struct emit_way *way)
{
    const char *at = calls[coll].ways;

    *way = (struct emit_way){.id = 0};
    if (!r->setting[0] || strcmp(r->setting, "tuned-0") == 0)
        return 1;
    for (int id = 1; *at; id++) {
        struct emit_way one = {.id = id};
        char number[24];
        int n = (int)strcspn(at, " ");
        snprintf(number, sizeof number, "tuned-%d", id);
        snprintf(one.name, sizeof one.name, "%.*s", n, at);
        if (strcmp(r->setting, one.name) == 0 || strcmp(r->setting, number) == 0) {
            *way = one;
            return 1;
        }
        at += n + (at[n] == ' ');
    }
    return 0;
}

static int64_t ompi_size(enum emit_coll coll, const struct bench_row *r)
{
    return coll == EMIT_ALLGATHERV ? r->bytes / r->ranks : r->bytes;
}

/* The fan-out of a forced algorithm without other settings: four chains. */
static int ompi_fan(const struct emit_part *p, const struct emit_way *way)
{
    return p->coll == EMIT_BCAST && way->id == 2 ? 4 : 0;
}

static int ompi_lines(const struct emit_part *p)
{
    return p->ranges + (p->range[0].lo > 0) + (p->range[p->ranges - 1].way.id != 0);
}

static void ompi_part(const struct emit_part *p, FILE *out)
{
    char text[160];

    say_part(p, emit_coll_name(p->coll), out);
    fprintf(out, "%d %d # ranks, lines\n", p->ranks, ompi_lines(p));
    if (p->range[0].lo > 0)
        fprintf(out, "0 0 0 0 # not measured\n");
    for (int i = 0; i < p->ranges; i++) {
        const struct emit_range *a = &p->range[i];
        why(p, a, text, sizeof text);
        fprintf(out, "%" PRId64 " %d %d 0 # %s\n", a->lo, a->way.id, ompi_fan(p, &a->way),
                text);
    }
    const struct emit_range *last = &p->range[p->ranges - 1];
    if (last->way.id)
        fprintf(out, "%" PRId64 " 0 0 0 # not measured\n", last->hi + 1);
}

/* Writes the parts of one collective, e->part[from, to).  A rule would also apply to fewer and
   to more ranks than measured, so rules that choose nothing are put in between. */
static void ompi_coll(const struct emit *e, int from, int to, FILE *out)
{
    const struct call *c = &calls[e->part[from].coll];
    int sizes = e->part[from].ranks > 1;

    for (int i = from; i < to; i++)
        sizes += 1 + (i + 1 == to || e->part[i + 1].ranks > e->part[i].ranks + 1);
    fprintf(out, "%d # %s: sizes are bytes %s\n%d # communicator sizes\n", c->id, c->key,
            c->size, sizes);
    if (e->part[from].ranks > 1)
        fprintf(out, "1 1 # fewer ranks: not measured\n0 0 0 0\n");
    for (int i = from; i < to; i++) {
        ompi_part(&e->part[i], out);
        if (i + 1 == to || e->part[i + 1].ranks > e->part[i].ranks + 1)
            fprintf(out, "%d 1 # more ranks: not measured\n0 0 0 0\n", e->part[i].ranks + 1);
    }
}

static int coll_end(const struct emit *e, int from)
{
    int to = from;

    while (to < e->parts && e->part[to].coll == e->part[from].coll)
        to++;
    return to;
}

static void ompi_print(const struct emit *e, FILE *out)
{
    int colls = 0;

    for (int i = 0; i < e->parts; i = coll_end(e, i))
        colls++;
    emit_comment(out, "rules for Open MPI: --mca coll_tuned_use_dynamic_rules 1"
                      " --mca coll_tuned_dynamic_rules_filename THIS_FILE");
    say_origin(out);
    emit_comment(
        out,
        "a line: smallest size in bytes, algorithm (0: the library's own decision), fan-out,"
        " segment (0: whole)");
    fprintf(out, "%d # collectives\n", colls);
    for (int i = 0; i < e->parts; i = coll_end(e, i))
        ompi_coll(e, i, coll_end(e, i), out);
}

static void ompi_json_part(const struct emit_part *p, struct jout *j)
{
    jout_open(j, NULL, '{');
    jout_int(j, "comm_size_min", p->ranks);
    jout_int(j, "comm_size_max", p->ranks);
    jout_open(j, "rules", '[');
    for (int i = 0; i < p->ranges; i++) {
        const struct emit_range *a = &p->range[i];
        if (!a->way.id)
            continue;
        jout_open(j, NULL, '{');
        jout_int(j, "msg_size_min", a->lo);
        jout_int(j, "msg_size_max", a->hi);
        jout_int(j, "alg", a->way.id);
        if (ompi_fan(p, &a->way))
            jout_int(j, "faninout", ompi_fan(p, &a->way));
        jout_close(j, '}');
    }
    jout_close(j, ']');
    jout_close(j, '}');
}

static void ompi_json(const struct emit *e, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_int(&j, "rule_file_version", 3);
    jout_text(&j, "module", "tuned");
    jout_open(&j, "collectives", '{');
    for (int i = 0; i < e->parts; i = coll_end(e, i)) {
        jout_open(&j, calls[e->part[i].coll].key, '[');
        for (int k = i; k < coll_end(e, i); k++)
            ompi_json_part(&e->part[k], &j);
        jout_close(&j, ']');
    }
    jout_end(&j);
}

/* ---- NCCL ---- */

static int one_of(const char *word, size_t n, const char *list)
{
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && strncmp(at, word, n) == 0)
            return 1;
    return 0;
}

/* Writes ALGO/PROTO in the plugin's names.  NCCL has no calls with unequal shares. */
static int nccl_way(enum emit_coll coll, const struct bench_row *r, struct emit_way *way)
{
    const char *slash = strchr(r->setting, '/');

    *way = (struct emit_way){.id = 0};
    if (!calls[coll].nccl)
        return 0;
    if (!r->setting[0])
        return 1;
    if (!slash || !one_of(slash + 1, strlen(slash + 1), "ll ll128 simple") ||
        !one_of(r->setting, (size_t)(slash - r->setting),
                "tree ring collnet_direct collnet_chain nvls nvls_tree pat"))
        return 0;
    snprintf(way->name, sizeof way->name, "%s", r->setting);
    return 1;
}

static void nccl_part(const struct emit_part *p, FILE *out)
{
    char text[160];

    say_part(p, calls[p->coll].nccl, out);
    for (int i = 0; i < p->ranges; i++) {
        const struct emit_range *a = &p->range[i];
        const char *proto = strchr(a->way.name, '/');
        why(p, a, text, sizeof text);
        emit_comment(out, "  %s", text);
        if (proto)
            fprintf(out, "%s,%" PRId64 ",%" PRId64 ",%.*s,%s,-1,%d,%d,-1,-1\n",
                    calls[p->coll].nccl, a->lo, a->hi, (int)(proto - a->way.name), a->way.name,
                    proto + 1, p->groups, p->ranks);
    }
}

static void nccl_print(const struct emit *e, FILE *out)
{
    emit_comment(out, "for NCCL's example tuner plugin: NCCL_TUNER_CONFIG_FILE=THIS_FILE");
    say_origin(out);
    emit_comment(out, "sizes are bytes of the whole vector, of all ranks together; nNodes are"
                      " the groups measured");
    emit_comment(out, "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,"
                      "nRanks,numPipeOps,regBuff");
    for (int i = 0; i < e->parts; i++)
        nccl_part(&e->part[i], out);
}

/* ---- UCC ---- */

static int ucc_way(enum emit_coll coll, const struct bench_row *r, struct emit_way *way)
{
    const char *name = r->setting + 4;

    (void)coll;
    *way = (struct emit_way){.id = 0};
    if (strcmp(r->setting, "ucc") == 0)
        return 1;
    if (strncmp(r->setting, "ucc-", 4) || !*name ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
        return 0;
    snprintf(way->name, sizeof way->name, "%s", name);
    return 1;
}

/* Elements that a rank receives: the vector, or one block in a reduce-scatter of equal
   blocks. */
static int64_t ucc_size(enum emit_coll coll, const struct bench_row *r)
{
    return coll == EMIT_REDUCE_SCATTER_BLOCK ? r->bytes / r->ranks : r->bytes;
}

static void ucc_print(const struct emit *e, FILE *out)
{
    int tokens = 0;
    char text[160];

    emit_comment(out, "for UCC: a line for ucc.conf, or for the environment");
    say_origin(out);
    emit_comment(out,
                 "sizes are bytes of the whole vector, of reduce_scatter of a rank's block;"
                 " both ends of a range belong to it");
    for (int i = 0; i < e->parts; i++) {
        const struct emit_part *p = &e->part[i];
        say_part(p, calls[p->coll].ucc, out);
        for (int k = 0; k < p->ranges; k++) {
            why(p, &p->range[k], text, sizeof text);
            emit_comment(out, "  %s", text);
        }
    }
    for (int i = 0; i < e->parts; i++) {
        const struct emit_part *p = &e->part[i];
        for (int k = 0; k < p->ranges; k++) {
            const struct emit_range *a = &p->range[k];
            if (a->way.name[0]) /* an empty range of sizes is rejected */
                fprintf(out, "%s%s:%" PRId64 "-%" PRId64 ":host:[%d-%d]:inf:@%s",
                        tokens++ ? "#" : "UCC_TL_UCP_TUNE=", calls[p->coll].ucc, a->lo,
                        a->hi + (a->lo == a->hi), p->ranks, p->ranks, a->way.name);
        }
    }
    if (tokens)
        putc('\n', out);
}

/* ---- the targets ---- */

/* Open MPI's two formats differ only in their syntax. */
#define OMPI_TUNED(format, how_printed)                                                        \
    {                                                                                          \
        .name = format, .algo = BENCH_MPI, .library = "Open MPI",                              \
        .wants = "mpi and mpi:NAME such as mpi:ring or mpi:tuned-4",                           \
        .how = "--mca coll_tuned_use_dynamic_rules 1 --mca"                                    \
               " coll_tuned_allgather_algorithm 4 and --mpi-name ring",                        \
        .way = ompi_way, .size = ompi_size, .print = how_printed                               \
    }

static const struct emit_target targets[BENCH_EMITS] = {
    [BENCH_EMIT_NCCL_TUNER] = {.name = "nccl-tuner",
                               .algo = BENCH_NCCL,
                               .by_groups = 1,
                               .wants = "nccl and nccl:ALGO/PROTO such as nccl:ring/ll",
                               .how = "NCCL_ALGO=ring NCCL_PROTO=LL and --nccl-name ring/ll",
                               .way = nccl_way,
                               .size = emit_target_whole,
                               .print = nccl_print},
    [BENCH_EMIT_OMPI_TUNED] = OMPI_TUNED("ompi-tuned", ompi_print),
    [BENCH_EMIT_OMPI_JSON] = OMPI_TUNED("ompi-tuned-json", ompi_json),
    [BENCH_EMIT_UCC_TUNE] = {.name = "ucc-tune",
                             .algo = BENCH_MPI,
                             .wants = "mpi:ucc and mpi:ucc-NAME such as mpi:ucc-knomial",
                             .how = "UCC_TL_UCP_TUNE=allgather:inf:@knomial and --mpi-name"
                                    " ucc-knomial",
                             .way = ucc_way,
                             .size = ucc_size,
                             .print = ucc_print}};

const struct emit_target *emit_target(enum bench_emit target)
{
    return &targets[target];
}
