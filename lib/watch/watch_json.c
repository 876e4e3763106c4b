/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads other programs' records of collectives.  Keys that are not listed here are ignored.
 *
 *     NCCL Inspector    a line per call: {"header": {id, rank, n_ranks}, "metadata": {hostname,
 *                       pid, dump_timestamp_us}, "coll_perf": {coll, coll_sn,
 *                       coll_msg_size_bytes, coll_exec_time_us}}; durations alone
 *     flight recorder   a dump of PyTorch's per rank, whose number ends the file's name, JSON
 *                       or a pickle of the same:
 *                       {"pg_config": {NAME: {ranks}}, "entries": [{process_group,
 *                       collective_seq_id, profiling_name, input_sizes, output_sizes,
 *                       input_dtypes, state, retired, is_p2p, time_created_ns,
 *                       time_discovered_completed_ns, duration_ms}]}
 *     Chrome trace      of PyTorch's profiler (Kineto), per rank: {"distributedInfo": {rank,
 *                       world_size}, "baseTimeNanoseconds", "traceEvents": [{ph: "X", cat:
 *                       "kernel", ts, dur, args: {"Collective name", "Process Group Name",
 *                       "Process Group Ranks", "Group size", "In msg nelems",
 *                       "Out msg nelems", dtype, Seq}}]}
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "ckpt/ckpt_pickle.h"
#include "watch/watch_parts.h"

int64_t watch_whole(const struct tree_node *object, const char *key, int64_t absent)
{
    int64_t n;

    return tree_is_whole(tree_get(object, key), &n) && n >= 0 && n <= WATCH_NUMBER_MAX ? n
                                                                                       : absent;
}

/* Converts a number in units of unit_ns; NAN: not a number, or more than a century. */
static double nanoseconds(const struct tree_node *object, const char *key, double unit_ns)
{
    double v, ns = tree_is_number(tree_get(object, key), &v) ? unit_ns * v : NAN;

    return ns >= 0 && ns < 4e18 ? ns : NAN;
}

/* "": not a text. */
static const char *json_word_of(const struct tree_node *n)
{
    const char *text = tree_string(n);

    return text ? text : "";
}

const char *watch_word(const struct tree_node *object, const char *key)
{
    return json_word_of(tree_get(object, key));
}

static int is_true(const struct tree_node *object, const char *key)
{
    return tree_is(tree_get(object, key), "true") ||
           watch_whole(object, key, 0) == 1; /* in a pickle */
}

/* The letters after the last colon, in lower case: "allgatherbase" for
   "nccl:_all_gather_base". */
static void json_plain(const char *name, char text[64])
{
    const char *colon = strrchr(name, ':');
    int n = 0;

    for (const char *c = colon ? colon + 1 : name; *c && n < 63; c++)
        if (isalpha((unsigned char)*c))
            text[n++] = (char)tolower((unsigned char)*c);
    text[n] = 0;
}

int watch_op_of(const char *name)
{
    char text[64], known[64];

    json_plain(name, text);
    if (!*text || strncmp(text, "send", 4) == 0 || strncmp(text, "recv", 4) == 0)
        return -1;
    for (int op = METER_ALL_GATHER; op <= METER_SCATTER; op++) { /* the longer names first */
        json_plain(meter_op_names[op], known);
        if (strstr(text, known))
            return op;
    }
    return METER_UNKNOWN;
}

/* Parses "[0, 4, 8]": sets *count, and `list` [*count] unless NULL.  Returns the position of
   `rank`; -1: it is not in the list, or "..." is. */
static int json_place_of(const char *ranks, int rank, int *count, int *list)
{
    int at = -1;

    *count = 0;
    for (char *c = (char *)ranks; *c && *c != '.';) {
        if (!isdigit((unsigned char)*c)) {
            c++;
            continue;
        }
        long one = strtol(c, &c, 10);
        at = one == rank ? *count : at;
        if (list)
            list[*count] = one < WATCH_RANKS_MAX ? (int)one : -1;
        ++*count;
    }
    return strchr(ranks, '.') ? -1 : at;
}

/* Finds or adds a group, identified by its ranks and name; listed: `ranks` is a list. */
static int json_comm_of(struct watch *w, const char *ranks, const char *group, int size,
                        int listed)
{
    int comm = watch_comm(
        w, fnv_mix(fnv_bytes(ranks, strlen(ranks)), fnv_bytes(group, strlen(group))), size);

    if (comm >= 0 && listed && !w->comm[comm].rank) {
        w->comm[comm].rank = mem_new((size_t)size, sizeof *w->comm[comm].rank);
        json_place_of(ranks, 0, &size, w->comm[comm].rank);
    }
    return comm;
}

/* The bytes of the longer of two vectors; 0: unknown type, so sizes are not compared. */
static int64_t json_bytes_of(double in, double out, const char *type)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {{"Float", 4}, {"Half", 2},  {"BFloat16", 2}, {"Double", 8}, {"Long", 8},
                 {"Int", 4},   {"Short", 2}, {"Byte", 1},     {"Char", 1},   {"Bool", 1}};
    double bytes = 0;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0)
            bytes = fmax(in, out) * types[i].bytes;
    return bytes < 1e18 ? (int64_t)bytes : 0;
}

/* The last number in a file's name, without suffixes: trace_3, rank3.json; -1: none. */
static int rank_of(const char *name)
{
    const char *base = strrchr(name, '/'), *end;
    int rank = -1;

    base = base ? base + 1 : name;
    end = base + strcspn(base, ".");
    while (end > base && isdigit((unsigned char)end[-1]))
        end--;
    if (isdigit((unsigned char)*end))
        rank = (int)strtol(end, NULL, 10);
    return rank < WATCH_RANKS_MAX ? rank : -1;
}

static int unnamed_process(struct watch *w, int rank)
{
    char host[24];

    snprintf(host, sizeof host, "%c%d", WATCH_NO_HOST, rank);
    return watch_process(w, (uint64_t)rank + 1, rank, host);
}

/* ---- NCCL Inspector ----
 *
 * NCCL counts the calls of each operation separately, so each is a separate communicator here.
 */

static int inspector_line(struct watch *w, const char *name, int line,
                          const struct tree_node *o, struct err *err)
{
    const struct tree_node *head = tree_get(o, "header"), *meta = tree_get(o, "metadata"),
                           *perf = tree_get(o, "coll_perf");
    const char *host = watch_word(meta, "hostname"), *id = watch_word(head, "id"),
               *coll = watch_word(perf, "coll");
    int64_t rank = watch_whole(head, "rank", -1), ranks = watch_whole(head, "n_ranks", 0),
            sequence = watch_whole(perf, "coll_sn", -1),
            at_us = watch_whole(meta, "dump_timestamp_us", -1);
    double took_ns = nanoseconds(perf, "coll_exec_time_us", 1e3);
    int op = watch_op_of(coll);

    if (!perf) /* a message between two ranks */
        return 0;
    if (rank < 0 || rank >= ranks || ranks > WATCH_RANKS_MAX || sequence < 0 || at_us < 1 ||
        at_us > WATCH_NUMBER_MAX / 1000 || isnan(took_ns) || took_ns > 1e3 * (double)at_us ||
        !*id)
        return err_at(err, name, line, "coll_perf",
                      "is no call of NCCL Inspector's, expected header, metadata and times");
    uint64_t key =
        fnv_mix(fnv_bytes(host, strlen(host)), (uint64_t)watch_whole(meta, "pid", 0));
    int process = watch_process(w, key, (int)rank, host);
    if (process < 0)
        return err_at(err, name, line, NULL, "more than %d processes", WATCH_RANKS_MAX);
    watch_rank(w, process, (int)rank, (int)ranks);
    watch_raise_times(w, WATCH_DURATIONS);
    struct watch_call c = {.process = process, .member = (int)rank, .sequence = sequence};
    c.op = op < 0 ? METER_UNKNOWN : op;
    c.bytes = watch_whole(perf, "coll_msg_size_bytes", 0);
    c.completed_ns = 1000 * at_us;
    c.arrived_ns = c.completed_ns - (int64_t)took_ns;
    c.comm = json_comm_of(w, id, meter_op_names[c.op], (int)ranks, 0);
    if (c.comm >= 0)
        watch_add(w, &c);
    return 0;
}

static int json_read_lines(struct watch *w, const char *name, const char *text, int64_t bytes,
                           struct err *err)
{
    int line = 0, rc = 0;

    for (const char *at = text, *end; at < text + bytes && rc == 0; at = end + 1) {
        struct tree t = {0};
        end = memchr(at, '\n', (size_t)(text + bytes - at));
        if (!end)
            break; /* the line is still being written */
        line++;
        if (end == at)
            continue;
        rc = err_any(tree_parse_loose(&t, name, line, at, end - at, err) ||
                     inspector_line(w, name, line, t.root, err));
        tree_release(&t);
    }
    return rc;
}

/* ---- PyTorch's flight recorder ---- */

/* The number of elements of all shapes in a list. */
static double shapes_elems(const struct tree_node *shapes)
{
    double sum = 0;
    int64_t side;

    for (const struct tree_node *s = tree_first(shapes, TREE_LIST); s; s = s->next) {
        double n = 1;
        for (const struct tree_node *c = tree_first(s, TREE_LIST); c; c = c->next)
            n *= tree_is_whole(c, &side) ? (double)side : 0;
        sum += fmax(n, 0);
    }
    return sum;
}

/* The first of a list of texts. */
static const char *first_word(const struct tree_node *object, const char *key)
{
    return json_word_of(tree_first(tree_get(object, key), TREE_LIST));
}

struct recorder {
    struct watch *w;
    int process, rank;
    const struct tree_node *groups;
    struct recorder_group {
        const char *name;
        int comm, member; /* member: the rank's position in it; -1: it is not in the group */
    } * known;
    int count;
    size_t space;
};

/* Parses the list of ranks once, since it may be long. */
static struct recorder_group recorder_group(struct recorder *r, const char *name)
{
    const struct tree_node *named = tree_get(r->groups, name);
    const char *ranks = /* gloo has one group, without a name */
        watch_word(named ? named : tree_get(r->groups, ""), "ranks");
    int size, i = 0;

    while (i < r->count && strcmp(r->known[i].name, name))
        i++;
    if (i == r->count) {
        int member = json_place_of(ranks, r->rank, &size, NULL);
        r->known = mem_grow(r->known, &r->space, (size_t)i + 1, sizeof *r->known);
        r->known[r->count++] = (struct recorder_group){
            name, member < 0 ? -1 : json_comm_of(r->w, ranks, name, size, 1), member};
    }
    return r->known[i];
}

static void recorder_entry(struct recorder *r, const struct tree_node *e)
{
    const struct recorder_group g = recorder_group(r, first_word(e, "process_group"));
    int comm = g.comm, op = watch_op_of(watch_word(e, "profiling_name")),
        completed = strcmp(watch_word(e, "state"), "completed") == 0 || is_true(e, "retired");
    int64_t sequence = watch_whole(e, "collective_seq_id", -1),
            created = watch_whole(e, "time_created_ns", 1),
            done = watch_whole(e, "time_discovered_completed_ns", 0);
    double ns = nanoseconds(e, "duration_ms", 1e6);
    int64_t took = isnan(ns) ? 0 : (int64_t)ns;

    if (comm < 0 || op < 0 || sequence < 0)
        r->w->skipped = comm < 0 ? "the rank is not in 'ranks' of its 'process_group'"
                        : op < 0 ? "no collective in 'profiling_name'"
                                 : "no number in 'collective_seq_id'";
    if (is_true(e, "is_p2p") || comm < 0 || op < 0 || sequence < 0)
        return;
    struct watch_call c = {.process = r->process,
                           .comm = comm,
                           .member = g.member,
                           .op = op,
                           .sequence = sequence};
    c.bytes =
        json_bytes_of(shapes_elems(tree_get(e, "input_sizes")),
                      shapes_elems(tree_get(e, "output_sizes")), first_word(e, "input_dtypes"));
    done = done > took ? done : created + took;
    c.arrived_ns = completed && took ? done - took : created;
    c.completed_ns = completed ? done : 0;
    watch_add(r->w, &c);
    if (completed)
        watch_raise_times(r->w, took ? WATCH_DURATIONS : WATCH_ORDER);
}

static int read_recorder(struct watch *w, const char *name, const struct tree_node *root,
                         struct err *err)
{
    const struct tree_node *groups = tree_get(root, "pg_config"), *e;
    int rank = rank_of(name), process = rank < 0 ? -1 : unnamed_process(w, rank);

    if (process < 0)
        return err_at(err, name, 0, NULL,
                      "a flight recorder's dump, expected the rank at the end of its name");
    if (!groups || groups->kind != TREE_MAP)
        return err_at(err, name, 0, "pg_config", "is absent, expected the ranks of each group");
    struct recorder r = {.w = w, .process = process, .rank = rank, .groups = groups};
    for (e = tree_first(tree_get(root, "entries"), TREE_LIST); e; e = e->next)
        recorder_entry(&r, e);
    mem_free(r.known);
    w->dumped = 1;
    return 0;
}

/* ---- Chrome traces ---- */

struct event {
    const struct tree_node *of;
    double begins_ns;
};

static int json_by_time(const void *a, const void *b)
{
    return MEM_ORDER((const struct event *)a, (const struct event *)b, begins_ns);
}

/* A call without a number is numbered by its position among those of its group in the trace. */
static void trace_event(struct watch *w, int process, const struct event *e, int64_t base_ns,
                        int64_t world)
{
    const struct tree_node *args = tree_get(e->of, "args");
    const char *ranks = watch_word(args, "Process Group Ranks");
    int rank = w->process[process].rank, count = 0,
        member = json_place_of(ranks, rank, &count, NULL), listed = member >= 0,
        op = watch_op_of(watch_word(args, "Collective name"));
    int64_t size = watch_whole(args, "Group size", 0);
    double took_ns = nanoseconds(e->of, "dur", 1e3);

    if (member < 0 && size == world) { /* a long list of ranks ends in dots */
        member = rank;
        watch_rank(w, process, rank, (int)fmin((double)world, WATCH_RANKS_MAX));
    }
    listed &= count == size;
    if (member < 0 || member >= size || size > WATCH_RANKS_MAX || op < 0 || isnan(took_ns))
        return;
    struct watch_call c = {.process = process, .member = member, .op = op};
    c.comm = json_comm_of(w, ranks, watch_word(args, "Process Group Name"), (int)size, listed);
    if (c.comm < 0)
        return;
    int64_t next = w->comm[c.comm].last[member] + 1;
    c.sequence = watch_whole(args, "Seq", next > 0 ? next : 1);
    c.bytes = json_bytes_of((double)watch_whole(args, "In msg nelems", 0),
                            (double)watch_whole(args, "Out msg nelems", 0),
                            watch_word(args, "dtype"));
    c.arrived_ns = base_ns + (int64_t)e->begins_ns + 1;
    c.completed_ns = c.arrived_ns + (int64_t)took_ns;
    watch_add(w, &c);
}

static int read_trace(struct watch *w, const char *name, const struct tree_node *root,
                      struct err *err)
{
    const struct tree_node *list = tree_get(root, "traceEvents"), *e,
                           *info = tree_get(root, "distributedInfo");
    int64_t rank = watch_whole(info, "rank", -1), world = watch_whole(info, "world_size", 0),
            base_ns = watch_whole(root, "baseTimeNanoseconds", 0);
    struct event *event = mem_new((size_t)list->items + 1, sizeof *event);
    size_t n = 0, i;

    if (rank < 0)
        rank = rank_of(name);
    int process = rank < 0 || rank >= WATCH_RANKS_MAX ? -1 : unnamed_process(w, (int)rank);
    for (e = list->child; e; e = e->next) {
        double ns = nanoseconds(e, "ts", 1e3);
        if (strcmp(watch_word(e, "ph"), "X") == 0 &&
            strcmp(watch_word(e, "cat"), "kernel") == 0 && !isnan(ns) &&
            ns + (double)base_ns < (double)WATCH_NUMBER_MAX &&
            *watch_word(tree_get(e, "args"), "Collective name"))
            event[n++] = (struct event){e, ns};
    }
    if (n == 0)
        w->skipped = "no event of category 'kernel' has 'Collective name', as those of NCCL"
                     " have and those of gloo have not";
    qsort(event, n, sizeof *event, json_by_time);
    for (i = 0; process >= 0 && i < n; i++)
        trace_event(w, process, &event[i], base_ns, world);
    mem_free(event);
    return process >= 0 ? 0
                        : err_at(err, name, 0, "distributedInfo",
                                 "has no rank, expected one, or one at the end of the name");
}

/* ---- pickles ---- */

enum { PICKLE_DEEP = 16 }; /* a dump has six levels */

/* Writes a pickle as JSON; 1 is true.  *most: limit on the number of values, since they may
   contain each other. */
static void put_pickle(struct jout *j, const char *key, const struct pickle *v, int64_t *most)
{
    int dict = v->kind == PICKLE_DICT;

    if (--*most < 0 || j->depth == PICKLE_DEEP) {
        jout_null(j, key);
    } else if (v->kind == PICKLE_LIST || dict) {
        jout_open(j, key, dict ? '{' : '[');
        for (int64_t i = 0; i < v->n; i += 1 + dict) {
            char *name = dict ? pickle_text(v->item[i]) : NULL;
            if (!dict || name)
                put_pickle(j, name, v->item[i + dict], most);
            mem_free(name);
        }
        jout_close(j, dict ? '}' : ']');
    } else if (v->kind == PICKLE_INT) {
        jout_int(j, key, v->n);
    } else if (v->kind == PICKLE_TEXT) {
        char *text = pickle_text(v);
        jout_text(j, key, text);
        mem_free(text);
    } else {
        jout_num(j, key, pickle_real(v)); /* null if it is not a number */
    }
}

static int read_pickle(struct tree *t, const char *name, const char *text, int64_t bytes,
                       struct err *err)
{
    struct pickle_file f;
    struct jout j = {0};
    int64_t most = bytes;
    char *json = NULL;
    size_t used = 0;

    if (pickle_read(&f, name, text, bytes, err))
        return -1;
    j.file = mem_stream(&json, &used);
    put_pickle(&j, NULL, f.root, &most);
    fclose(j.file);
    pickle_release(&f);
    int rc = tree_parse_loose(t, name, 1, json, (int64_t)used, err);
    mem_free(json);
    return rc;
}

static int json_is_list(const struct tree_node *root, const char *key)
{
    const struct tree_node *n = tree_get(root, key);

    return n && n->kind == TREE_LIST;
}

int watch_read_json(struct watch *w, const char *name, const char *text, int64_t bytes,
                    struct err *err)
{
    const int pickled = bytes > 1 && text[0] == '\x80';
    const char *end = pickled ? NULL : memchr(text, '\n', (size_t)bytes);
    struct tree t = {0};
    int lines = end && tree_parse_loose(&t, name, 1, text, end - text, err) == 0 &&
                tree_find(t.root, "header"),
        rc = -1;

    tree_release(&t);
    if (lines)
        return json_read_lines(w, name, text, bytes, err);
    if (pickled ? read_pickle(&t, name, text, bytes, err)
                : tree_parse_loose(&t, name, 1, text, bytes, err))
        return -1;
    if (json_is_list(t.root, "entries"))
        rc = read_recorder(w, name, t.root, err);
    else if (json_is_list(t.root, "traceEvents"))
        rc = read_trace(w, name, t.root, err);
    else if (json_is_list(t.root, "communicators"))
        rc = watch_read_ras(w, name, tree_get(t.root, "communicators"), err);
    else
        err_at(err, name, 0, NULL,
               "no known records, expected a meter's, NCCL Inspector's or RAS', a flight"
               " recorder's, or a Chrome trace");
    tree_release(&t);
    return rc;
}
