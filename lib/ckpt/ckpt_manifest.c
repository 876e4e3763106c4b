/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows manifest.json, writing and reading (paro-checkpoint(5)).  Its last key is the checksum
 * of everything before that key's line, so that a flipped bit in it is seen too.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/jtree.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

/* Far above any disk, and a block more still fits 63 bits. */
#define FILE_BYTES_MAX (INT64_C(1) << 60)

static const char format[] = "paro-checkpoint/1";
static const char tail[] = ",\n\"checksum\": \"";

/* --- writing --- */

/* Each key of the outermost object begins a line; j stays at depth 1, inside that object. */
static void begin_line(struct jout *j)
{
    fputs(",\n", j->file);
    j->filled = 0;
}

/* Null where there was none. */
static void put_run(struct jout *j, const struct ckpt_run *run)
{
    if (!run) {
        jout_null(j, "run");
        return;
    }
    jout_open(j, "run", '{');
    jout_int(j, "step", run->step);
    jout_int(j, "tokens", run->tokens);
    jout_int(j, "position", run->position);
    jout_int(j, "seed", (int64_t)run->seed);
    if (run->data_seq) {
        char sum[17];
        snprintf(sum, sizeof sum, "%016" PRIx64, run->data_sum);
        jout_open(j, "data", '{');
        jout_int(j, "tokens", run->data_tokens);
        jout_int(j, "seq", run->data_seq);
        jout_text(j, "xxh3", sum);
        jout_close(j, '}');
    }
    jout_close(j, '}');
}

static void put_states(struct jout *j, const struct ckpt_shape *shape)
{
    begin_line(j);
    jout_open(j, "states", '[');
    for (int s = 0; s < shape->states; s++) {
        jout_open(j, NULL, '{');
        jout_text(j, "name", shape->state[s].name);
        jout_text(j, "type", dtype_name(shape->state[s].type));
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_units(struct jout *j, const struct model *m)
{
    begin_line(j);
    jout_open(j, "units", '[');
    for (int u = 0; u < m->units; u++) {
        jout_open(j, NULL, '{');
        jout_text(j, "name", m->unit[u].name);
        jout_int(j, "elems", m->unit[u].elems);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_source(struct jout *j, const struct ckpt_sources *source)
{
    begin_line(j);
    jout_open(j, "source", '[');
    for (int i = 0; source && i < source->count; i++) {
        const struct ckpt_source *s = &source->item[i];
        jout_open(j, NULL, '{');
        jout_text(j, "name", s->name);
        jout_bool(j, "header", s->keep == CKPT_KEEP_HEADER);
        if (s->keep == CKPT_KEEP_REST) /* a key that older manifests do not have */
            jout_bool(j, "rest", 1);
        jout_int(j, "bytes", s->bytes);
        jout_int(j, "whole", s->whole);
        jout_text(j, "xxh3", s->hash);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

int ckpt_manifest_write(const struct io_out *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run,
                        const struct ckpt_sources *source, struct err *err)
{
    const struct groups *groups = &shape->layout->groups;
    char *text = NULL, hash[33];
    size_t used = 0;
    FILE *f = mem_stream(&text, &used);
    struct jout j = {.file = f, .depth = 1};

    fputs("{\n", f);
    jout_text(&j, "format", format);
    begin_line(&j);
    jout_text(&j, "strategy", shape->strategy);
    if (shape->model->partial) { /* else all: a manifest of before there was anything else */
        begin_line(&j);
        jout_text(&j, "trainable", shape->model->partial);
    }
    begin_line(&j);
    jout_open(&j, "group_of", '[');
    for (int r = 0; r < groups->ranks; r++)
        jout_int(&j, NULL, groups->group_of[r]);
    jout_close(&j, ']');
    begin_line(&j);
    if (shape->copies)
        jout_int(&j, "copies", shape->copies);
    ckpt_hash(shape->model->config, (int64_t)strlen(shape->model->config), hash);
    jout_text(&j, "config_xxh3", hash);
    begin_line(&j);
    put_run(&j, run);
    put_states(&j, shape);
    put_units(&j, shape->model);
    put_source(&j, source);
    fputs(",\"files\": [\n", f);
    for (int r = 0; r < groups->ranks; r++)
        fprintf(f, "%s%s", r ? ",\n" : "", entry[r]);
    fputs("\n]", f);
    fflush(f);
    ckpt_hash(text, (int64_t)used, hash);
    fprintf(f, "%s%s\"\n}\n", tail, hash);
    fclose(f);
    struct ckpt_small small = {shape->model->config, text, (int64_t)used, source};
    int rc = ckpt_put_small(dir, shape->apart ? 0 : shape->copies, &small, err);
    mem_free(text);
    return rc;
}

/* --- reading --- */

struct reader {
    struct ckpt *c;
    const char *path;   /* of the manifest, for messages */
    const char *config; /* of the config */
    const struct ckpt_limits *limits;
    struct err *err;
    size_t room; /* of c->block */
};

#define FAIL(r, ...) err_at((r)->err, (r)->path, 0, NULL, __VA_ARGS__)

static int is_hash(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static int is_count(json_int_t n)
{
    return n >= 0 && n <= CKPT_RUN_MAX;
}

/* Absent from an older run's, and from one that another program began. */
static int read_data(struct reader *r, json_t *data)
{
    const char *sum;
    json_int_t tokens, seq;
    json_error_t e;

    if (!data)
        return 0;
    if (json_unpack_ex(data, &e, JSON_STRICT, "{s:I,s:I,s:s}", "tokens", &tokens, "seq", &seq,
                       "xxh3", &sum))
        return FAIL(r, "run: data: %.200s", e.text);
    if (!is_count(tokens) || !is_count(seq) || seq == 0 || strlen(sum) != 16 ||
        strspn(sum, "0123456789abcdef") != 16)
        return FAIL(r,
                    "run: data has %" PRId64 " tokens in sequences of %" PRId64
                    " and sum '%.40s', expected 0 to 1e18, 1 to 1e18 and 16 digits in hex",
                    (int64_t)tokens, (int64_t)seq, sum);
    r->c->run.data_tokens = tokens;
    r->c->run.data_seq = seq;
    r->c->run.data_sum = strtoull(sum, NULL, 16);
    return 0;
}

static int read_run(struct reader *r, json_t *run)
{
    json_int_t step, tokens, position, seed;
    json_t *data = NULL;
    json_error_t e;

    if (json_is_null(run))
        return 0;
    if (json_unpack_ex(run, &e, JSON_STRICT, "{s:I,s:I,s:I,s:I,s?o}", "step", &step, "tokens",
                       &tokens, "position", &position, "seed", &seed, "data", &data))
        return FAIL(r, "run: %.200s", e.text);
    if (!is_count(step) || !is_count(tokens) || !is_count(position))
        return FAIL(r,
                    "run is at step %" PRId64 ", token %" PRId64 " and position %" PRId64
                    ", expected 0 to 1e18 of each",
                    (int64_t)step, (int64_t)tokens, (int64_t)position);
    r->c->has_run = 1;
    r->c->run = (struct ckpt_run){
        .step = step, .tokens = tokens, .position = position, .seed = (uint64_t)seed};
    return read_data(r, data);
}

static int read_states(struct reader *r, json_t *states)
{
    const char *name, *type;
    json_error_t e;
    json_t *v;
    size_t i;

    if (json_array_size(states) < 1 || json_array_size(states) > CKPT_STATES_MAX)
        return FAIL(r, "has %zu states, expected 1 to %d", json_array_size(states),
                    CKPT_STATES_MAX);
    json_array_foreach(states, i, v)
    {
        struct ckpt_state *s = &r->c->state[i];
        if (json_unpack_ex(v, &e, JSON_STRICT, "{s:s,s:s}", "name", &name, "type", &type))
            return FAIL(r, "states: %.200s", e.text);
        if (strlen(name) == 0 || strlen(name) >= sizeof s->name ||
            ckpt_find_state(r->c, name) >= 0)
            return FAIL(r, "state '%.40s', expected a short name of its own", name);
        if (dtype_parse(type, &s->type, r->err))
            return err_prefix(r->err, "%s: state '%s': ", r->path, name);
        if (s->type == DTYPE_I32 || s->type == DTYPE_U8) /* no state is, none is converted */
            return FAIL(r, "state '%s' is %s, expected f32, bf16, f16 or f64", name, type);
        strcpy(s->name, name);
        r->c->states++;
    }
    return 0;
}

static int read_units(struct reader *r, json_t *units)
{
    const struct model *m = &r->c->model;
    const char *name;
    json_int_t elems;
    json_error_t e;
    json_t *v;
    size_t i;

    if (json_array_size(units) != (size_t)m->units)
        return FAIL(r, "has %zu units, config.json says %d", json_array_size(units), m->units);
    json_array_foreach(units, i, v)
    {
        if (json_unpack_ex(v, &e, JSON_STRICT, "{s:s,s:I}", "name", &name, "elems", &elems))
            return FAIL(r, "units: %.200s", e.text);
        if (strcmp(name, m->unit[i].name) || elems != m->unit[i].elems)
            return FAIL(r,
                        "unit %zu is '%.60s' of %" PRId64 " elements, config.json says '%s' of "
                        "%" PRId64,
                        i, name, (int64_t)elems, m->unit[i].name, m->unit[i].elems);
    }
    return 0;
}

static int read_groups(struct reader *r, json_t *list)
{
    size_t n = json_array_size(list), i;
    int *group_of = mem_new(n, sizeof *group_of);
    json_t *v;
    int rc = 0;

    json_array_foreach(list, i, v)
    {
        json_int_t k = json_is_integer(v) ? json_integer_value(v) : -1;
        group_of[i] = k < 0 || k > GROUPS_RANKS_MAX ? -1 : (int)k;
    }
    if (n > GROUPS_RANKS_MAX)
        rc = FAIL(r, "group_of has %zu ranks, expected at most %d", n, GROUPS_RANKS_MAX);
    else if (groups_init_of(&r->c->groups, (int)n, group_of, r->err))
        rc = err_prefix(r->err, "%s: group_of: ", r->path);
    mem_free(group_of);
    return rc;
}

static int read_copies(struct reader *r, int64_t copies)
{
    if (copies < 0 || copies > CKPT_COPIES_MAX || copies >= r->c->groups.ranks)
        return err_at(r->err, r->path, 0, "copies",
                      "is %" PRId64 ", expected 0 to %d, and fewer than %d ranks", copies,
                      CKPT_COPIES_MAX, r->c->groups.ranks);
    r->c->copies = (int)copies;
    return 0;
}

/* Keys that place no tensor can be damaged too. */
static int check_config(struct reader *r, const char *hash)
{
    const char *config = r->c->model.config;
    char is[33];

    ckpt_hash(config, (int64_t)strlen(config), is);
    if (!hash || strcmp(hash, is) == 0)
        return 0;
    return err_mismatch(r->err, r->config, NULL, "is damaged: checksum %s, expected %.40s", is,
                        hash);
}

/* Of one name there are a header and its rest, or a file, in the folder that merge makes. */
static int by_target(const void *a, const void *b)
{
    const struct ckpt_source *x = *(struct ckpt_source *const *)a;
    const struct ckpt_source *y = *(struct ckpt_source *const *)b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->keep == CKPT_KEEP_REST) - (y->keep == CKPT_KEEP_REST);
}

static int no_source_twice(struct reader *r)
{
    const struct ckpt_sources *all = &r->c->source;
    const struct ckpt_source **item = mem_new((size_t)all->count, sizeof *item);
    int rc = 0;

    for (int i = 0; i < all->count; i++)
        item[i] = &all->item[i];
    if (all->count)
        qsort(item, (size_t)all->count, sizeof *item, by_target);
    for (int i = 1; rc == 0 && i < all->count; i++)
        if (by_target(&item[i - 1], &item[i]) == 0)
            rc = FAIL(r, "source '%.200s' appears twice", item[i]->name);
    mem_free(item);
    return rc;
}

static int read_source(struct reader *r, json_t *list)
{
    struct ckpt *c = r->c;
    const char *name, *hash;
    json_int_t bytes, whole;
    json_error_t e;
    json_t *v;
    size_t i;
    int header, rest;

    c->source.item = mem_new(json_array_size(list), sizeof *c->source.item);
    json_array_foreach(list, i, v)
    {
        rest = 0;
        if (json_unpack_ex(v, &e, JSON_STRICT, "{s:s,s:b,s?:b,s:I,s:I,s:s}", "name", &name,
                           "header", &header, "rest", &rest, "bytes", &bytes, "whole", &whole,
                           "xxh3", &hash))
            return FAIL(r, "source: %.200s", e.text);
        enum ckpt_keep keep = header ? CKPT_KEEP_HEADER
                              : rest ? CKPT_KEEP_REST
                                     : CKPT_KEEP_FILE;
        if ((header && rest) || !ckpt_name_ok(name) || !is_hash(hash) || bytes < 0 ||
            whole < bytes)
            return FAIL(r,
                        "source '%.200s', expected a relative name with a size and a checksum",
                        name);
        struct ckpt_source *s = &c->source.item[c->source.count++];
        *s = (struct ckpt_source){mem_dup(name), keep, bytes, whole, {0}};
        strcpy(s->hash, hash);
    }
    return no_source_twice(r);
}

static int find_unit(const struct model *m, const char *name)
{
    for (int u = 0; u < m->units; u++)
        if (strcmp(m->unit[u].name, name) == 0)
            return u;
    return -1;
}

static int read_block(struct reader *r, json_t *v, struct ckpt_block *b)
{
    const struct model_unit *u = &r->c->model.unit[b->unit];
    json_int_t lo, hi;
    const char *hash;
    json_error_t e;

    if (json_unpack_ex(v, &e, JSON_STRICT, "[I,I,s]", &lo, &hi, &hash))
        return FAIL(r, "blocks of '%s': %.200s", u->name, e.text);
    int64_t elems = ckpt_state_elems(&r->c->model, b->unit, &r->c->state[b->state]);
    if (lo < 0 || hi <= lo || hi > elems || hi - lo > CKPT_BLOCK_ELEMS || !is_hash(hash))
        return FAIL(r,
                    "block [%" PRId64 ", %" PRId64 ") of '%s', expected within its %" PRId64
                    " elements and at most %d of them",
                    (int64_t)lo, (int64_t)hi, u->name, elems, CKPT_BLOCK_ELEMS);
    b->lo = lo;
    b->hi = hi;
    b->tensor = ckpt_tensor_at(&r->c->model, b->unit, lo);
    if (ckpt_block_end(&r->c->model, b->unit, lo, hi) != hi)
        return FAIL(r, "block [%" PRId64 ", %" PRId64 ") of '%s' is in more than one tensor",
                    (int64_t)lo, (int64_t)hi, u->name);
    b->bytes = (hi - lo) * dtype_bytes(r->c->state[b->state].type);
    strcpy(b->hash, hash);
    return 0;
}

/* The blocks of one file lie one after the other behind its header. */
static int read_file(struct reader *r, json_t *v, int number)
{
    struct ckpt *c = r->c;
    struct ckpt_file *f = &c->file[number];
    const char *name, *hash, *unit, *state;
    json_int_t bytes, head;
    json_error_t e;
    json_t *tensors, *t, *blocks, *b;
    size_t i, k;

    if (json_unpack_ex(v, &e, JSON_STRICT, "{s:s,s:I,s:I,s:s,s:o}", "name", &name, "bytes",
                       &bytes, "header_bytes", &head, "header_xxh3", &hash, "tensors",
                       &tensors))
        return FAIL(r, "files: %.200s", e.text);
    ckpt_shard_name(number, f->name);
    if (strcmp(name, f->name) || !is_hash(hash) || head < 8 || bytes < head ||
        bytes > FILE_BYTES_MAX)
        return FAIL(r, "file %d is '%.60s' of %" PRId64 " bytes, expected '%s' with its sizes",
                    number, name, (int64_t)bytes, f->name);
    if (head - 8 > r->limits->header_bytes)
        return FAIL(r,
                    "'%s' has a header of %" PRId64 " bytes, expected at most %" PRId64
                    " (--max-header)",
                    name, (int64_t)head - 8, r->limits->header_bytes);
    f->bytes = bytes;
    f->header_bytes = head;
    strcpy(f->header_hash, hash);
    int64_t at = head;
    json_array_foreach(tensors, i, t)
    {
        if (ckpt_stopped(c->stop, r->err))
            return -1;
        if (json_unpack_ex(t, &e, JSON_STRICT, "{s:s,s:s,s:o}", "unit", &unit, "state", &state,
                           "blocks", &blocks))
            return FAIL(r, "tensors of '%s': %.200s", name, e.text);
        struct ckpt_block one = {.unit = find_unit(&c->model, unit),
                                 .state = ckpt_find_state(c, state),
                                 .file = number};
        if (one.unit < 0 || one.state < 0)
            return FAIL(r, "'%s' has '%.60s/%.20s', expected UNIT/STATE of the model", name,
                        unit, state);
        json_array_foreach(blocks, k, b)
        {
            one.offset = at;
            if (read_block(r, b, &one))
                return -1;
            at += one.bytes;
            if (at > bytes)
                return FAIL(r, "'%s' has %" PRId64 " bytes, fewer than its blocks", name,
                            (int64_t)bytes);
            c->block = mem_grow(c->block, &r->room, (size_t)c->blocks + 1, sizeof one);
            c->block[c->blocks++] = one;
        }
    }
    if (at != bytes)
        return FAIL(r, "'%s' has %" PRId64 " bytes, expected %" PRId64 " for its blocks", name,
                    (int64_t)bytes, at);
    return 0;
}

/* By state, unit and elements. */
static int by_place(const void *one, const void *other)
{
    const struct ckpt_block *a = one, *b = other;

    if (a->state != b->state)
        return a->state - b->state;
    if (a->unit != b->unit)
        return a->unit - b->unit;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

/* Sorts the blocks and proves that they tile every unit of every state. */
static int arrange_blocks(struct reader *r)
{
    struct ckpt *c = r->c;
    int64_t b = 0;

    if (c->blocks)
        qsort(c->block, (size_t)c->blocks, sizeof *c->block, by_place);
    c->first = mem_new((size_t)c->states * (size_t)c->model.units + 1, sizeof *c->first);
    for (int s = 0; s < c->states; s++) {
        for (int u = 0; u < c->model.units; u++) {
            const struct model_unit *unit = &c->model.unit[u];
            int64_t at = 0, elems = ckpt_state_elems(&c->model, u, &c->state[s]);
            c->first[s * c->model.units + u] = b;
            for (; b < c->blocks && c->block[b].state == s && c->block[b].unit == u; b++) {
                if (c->block[b].lo != at)
                    break;
                at = c->block[b].hi;
            }
            if (at != elems)
                return FAIL(
                    r, "%s of '%s' has a gap or an overlap at element %" PRId64 " of %" PRId64,
                    c->state[s].name, unit->name, at, elems);
        }
    }
    c->first[c->states * c->model.units] = b;
    if (b != c->blocks)
        return FAIL(r, "has %" PRId64 " blocks, expected %" PRId64, c->blocks, b);
    return 0;
}

static int read_root(struct reader *r, json_t *root)
{
    const char *version, *strategy, *checksum, *trainable = NULL, *config = NULL;
    json_t *groups, *run, *states, *units, *source, *files, *v;
    json_int_t copies = 0;
    json_error_t e;
    size_t i;

    v = json_object_get(root, "format");
    version = json_is_string(v) ? json_string_value(v) : "";
    if (strcmp(version, format))
        return err_at(r->err, r->path, 0, "format", "is '%.60s', expected '%s'", version,
                      format);
    if (json_unpack_ex(
            root, &e, JSON_STRICT, "{s:s,s:s,s?:s,s:o,s?:I,s?:s,s:o,s:o,s:o,s:o,s:o,s:s}",
            "format", &version, "strategy", &strategy, "trainable", &trainable, "group_of",
            &groups, "copies", &copies, "config_xxh3", &config, "run", &run, "states", &states,
            "units", &units, "source", &source, "files", &files, "checksum", &checksum))
        return FAIL(r, "%.200s", e.text);
    snprintf(r->c->strategy, sizeof r->c->strategy, "%s", strategy);
    if (check_config(r, config))
        return -1;
    /* What trains orders a unit's tensors, so it comes before all else of the model. */
    if (trainable && model_train(&r->c->model, trainable, r->err))
        return err_prefix(r->err, "%s: 'trainable': ", r->path);
    if (read_groups(r, groups) || read_copies(r, copies) || read_run(r, run) ||
        read_states(r, states) || read_units(r, units) || read_source(r, source))
        return -1;
    if (json_array_size(files) != (size_t)r->c->groups.ranks)
        return FAIL(r, "has %zu files, expected one for each of %d ranks",
                    json_array_size(files), r->c->groups.ranks);
    r->c->files = r->c->groups.ranks;
    r->c->file = mem_new((size_t)r->c->files, sizeof *r->c->file);
    json_array_foreach(files, i, v)
    {
        if (read_file(r, v, (int)i))
            return -1;
    }
    return arrange_blocks(r);
}

/* The checksum's line is the last: what stands before it must give it. */
static int check_sum(struct reader *r, const char *text, int64_t bytes)
{
    /* tail, 32 digits, quote, newline, brace, newline */
    int64_t before = bytes - (int64_t)(sizeof tail - 1) - 36;
    char hash[33];

    if (before < 0 || memcmp(text + before, tail, sizeof tail - 1) ||
        memcmp(text + bytes - 4, "\"\n}\n", 4))
        return FAIL(r, "does not end with its checksum: it is truncated, or is no manifest");
    ckpt_hash(text, before, hash);
    if (memcmp(hash, text + bytes - 36, 32))
        return FAIL(r, "is damaged: its checksum is %.32s, expected %s", text + bytes - 36,
                    hash);
    return 0;
}

int ckpt_manifest_parse(struct ckpt *c, const char *path, const char *config,
                        const struct ckpt_limits *limits, const char *text, int64_t bytes,
                        struct err *err)
{
    struct reader r = {.c = c, .path = path, .config = config, .limits = limits, .err = err};
    json_t *root = NULL;
    int rc = check_sum(&r, text, bytes) || jtree_read_own(path, text, bytes, &root, err)
                 ? -1
                 : read_root(&r, root);

    json_decref(root);
    return rc;
}
