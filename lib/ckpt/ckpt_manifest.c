/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes and reads manifest.json (paro-checkpoint(5)).  Its last key is the checksum of all
 * bytes before that key's line, so that a flipped bit in the manifest is detected.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

/* Far above any disk; adding a block still fits 63 bits. */
#define FILE_BYTES_MAX (INT64_C(1) << 60)

static const char format[] = "paro-checkpoint/1";
static const char tail[] = ",\n\"checksum\": \"";

/* --- tables of keys --- */

static int is_hex(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int parse_hash(const char *text, void *out, struct err *why)
{
    if (!is_hex(text, 32))
        return err_set(why, ERR_INPUT, "'%.40s', expected a checksum of 32 digits in hex",
                       text);
    memcpy(out, text, 33);
    return 0;
}

static int parse_sum(const char *text, void *out, struct err *why)
{
    if (!is_hex(text, 16))
        return err_set(why, ERR_INPUT, "'%.40s', expected a checksum of 16 digits in hex",
                       text);
    *(uint64_t *)out = strtoull(text, NULL, 16);
    return 0;
}

static void put_sum(const struct record *f, struct jout *j, const void *at)
{
    char sum[17];

    snprintf(sum, sizeof sum, "%016" PRIx64, *(const uint64_t *)at);
    jout_text(j, f->key, sum);
}

static const struct record data_record[] = {
    RECORD_INT(struct ckpt_run, data_tokens, "tokens", 0, CKPT_RUN_MAX),
    RECORD_INT(struct ckpt_run, data_seq, "seq", 1, CKPT_RUN_MAX),
    RECORD(OWN, struct ckpt_run, data_sum, "xxh3", .parse = parse_sum, .put = put_sum),
    {0},
};

/* Absent in older checkpoints, and if another program began the run. */
static void put_data(const struct record *f, struct jout *j, const void *at)
{
    const struct ckpt_run *run = at;

    if (run->data_seq)
        record_put_object(j, f->key, f->of, run);
}

static const struct record run_record[] = {
    RECORD_INT(struct ckpt_run, step, "step", 0, CKPT_RUN_MAX),
    RECORD_INT(struct ckpt_run, tokens, "tokens", 0, CKPT_RUN_MAX),
    RECORD_INT(struct ckpt_run, position, "position", 0, CKPT_RUN_MAX),
    RECORD_INT(struct ckpt_run, seed, "seed", INT64_MIN, INT64_MAX),
    RECORD_PART("data", data_record, .flags = RECORD_OPTIONAL, .put = put_data),
    {0},
};

/* States are neither integers nor converted. */
static int manifest_parse_type(const char *text, void *out, struct err *why)
{
    enum dtype type;

    if (dtype_parse(text, &type, why) || type == DTYPE_I32 || type == DTYPE_U8)
        return err_set(why, ERR_INPUT, "'%.40s', expected f32, bf16, f16 or f64", text);
    *(enum dtype *)out = type;
    return 0;
}

static const char *manifest_name_of_type(const void *type)
{
    return dtype_name(*(const enum dtype *)type);
}

static const struct record state_record[] = {
    RECORD(TEXT, struct ckpt_state, name, "name", .lo = 1),
    RECORD(WORD, struct ckpt_state, type, "type", .parse = manifest_parse_type,
           .name = manifest_name_of_type),
    RECORD_INT(struct ckpt_state, groups, "groups", 2, GROUPS_RANKS_MAX,
               .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    {0},
};

static const struct record unit_record[] = {
    RECORD(TEXT, struct model_unit, name, "name"),
    RECORD_INT(struct model_unit, elems, "elems", 0, INT64_MAX),
    {0},
};

/* The bytes of a source, after its name and its kind. */
static const struct record source_record[] = {
    RECORD_INT(struct ckpt_source, bytes, "bytes", 0, INT64_MAX),
    RECORD_INT(struct ckpt_source, whole, "whole", 0, INT64_MAX),
    RECORD(TEXT, struct ckpt_source, hash, "xxh3", .parse = parse_hash),
    {0},
};

const struct record ckpt_file_record[] = {
    RECORD(TEXT, struct ckpt_file, name, "name"),
    RECORD_INT(struct ckpt_file, bytes, "bytes", 8, FILE_BYTES_MAX),
    RECORD_INT(struct ckpt_file, header_bytes, "header_bytes", 8, FILE_BYTES_MAX),
    RECORD(TEXT, struct ckpt_file, header_hash, "header_xxh3", .parse = parse_hash),
    {0},
};

/* --- writing --- */

/* Begins a line for a key of the outermost object; j stays at depth 1, inside that object. */
static void begin_line(struct jout *j)
{
    fputs(",\n", j->file);
    j->filled = 0;
}

static void manifest_put_source(struct jout *j, const struct ckpt_sources *source)
{
    begin_line(j);
    jout_open(j, "source", '[');
    for (int i = 0; source && i < source->count; i++) {
        const struct ckpt_source *s = &source->item[i];
        jout_open(j, NULL, '{');
        jout_text(j, "name", s->name);
        jout_bool(j, "header", s->keep == CKPT_KEEP_HEADER);
        if (s->keep == CKPT_KEEP_REST) /* older manifests lack this key */
            jout_bool(j, "rest", 1);
        record_put(j, source_record, s);
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
    if (shape->model->partial) { /* otherwise all: as in manifests before this key existed */
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
    if (run)
        record_put_object(&j, "run", run_record, run);
    else
        jout_null(&j, "run");
    begin_line(&j);
    record_put_list(&j, "states", state_record, shape->state, shape->states,
                    sizeof *shape->state);
    begin_line(&j);
    record_put_list(&j, "units", unit_record, shape->model->unit, shape->model->units,
                    sizeof *shape->model->unit);
    manifest_put_source(&j, source);
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
    const char *path;   /* path of the manifest, for messages */
    const char *config; /* text of the config */
    const struct ckpt_limits *limits;
    struct err *err;
    struct tree t;
    size_t space; /* of c->block */
};

#define FAIL(r, ...)            err_at((r)->err, (r)->path, 0, NULL, __VA_ARGS__)
#define FAIL_AT(r, n, key, ...) tree_fail(&(r)->t, n, key, (r)->err, __VA_ARGS__)

static int read_states(struct reader *r, const struct tree_node *list)
{
    if (tree_list(&r->t, list, 1, CKPT_STATES_MAX, r->err))
        return -1;
    for (const struct tree_node *n = list->child; n; n = n->next) {
        struct ckpt_state *s = &r->c->state[r->c->states];
        if (record_read(&r->t, n, state_record, "", s, r->err))
            return -1;
        if (ckpt_find_state(r->c, s->name) >= 0)
            return FAIL_AT(r, n, "name", "is '%s' again, expected a name of its own", s->name);
        if (s->groups &&
            (!strcmp(s->name, "params") || r->c->model.trained > INT64_MAX / 16 / s->groups))
            return FAIL_AT(r, n, "groups", "is %d, expected no groups of '%s'", s->groups,
                           s->name);
        r->c->states++;
    }
    return 0;
}

static int read_units(struct reader *r, const struct tree_node *list)
{
    const struct model_unit *u = r->c->model.unit;

    if (tree_list(&r->t, list, 0, INT32_MAX, r->err))
        return -1;
    if (list->items != r->c->model.units)
        return FAIL(r, "has %d units, config.json says %d", list->items, r->c->model.units);
    for (const struct tree_node *n = list->child; n; n = n->next, u++) {
        struct model_unit have = {0};
        if (record_read(&r->t, n, unit_record, "", &have, r->err))
            return -1;
        if (strcmp(have.name, u->name) || have.elems != u->elems)
            return FAIL_AT(r, n, NULL,
                           "is '%s' of %" PRId64 " elements, config.json says '%s' of %" PRId64,
                           have.name, have.elems, u->name, u->elems);
    }
    return 0;
}

static int manifest_read_groups(struct reader *r, const struct tree_node *list)
{
    int rc = tree_list(&r->t, list, 0, GROUPS_RANKS_MAX, r->err), i = 0;
    int *group_of = mem_new(rc ? 0 : (size_t)list->items, sizeof *group_of);

    for (const struct tree_node *n = rc ? NULL : list->child; n && rc == 0; n = n->next)
        rc = tree_int(&r->t, n, 0, GROUPS_RANKS_MAX, &group_of[i++], r->err);
    if (rc == 0 && groups_init_of(&r->c->groups, i, group_of, r->err))
        rc = err_prefix(r->err, "%s: group_of: ", r->path);
    mem_free(group_of);
    return rc;
}

static int read_copies(struct reader *r, const struct tree_node *n)
{
    int ranks = r->c->groups.ranks;

    if (tree_int(&r->t, n, 0, CKPT_COPIES_MAX, &r->c->copies, r->err))
        return -1;
    return r->c->copies < ranks ? 0
                                : FAIL_AT(r, n, NULL, "is %d, expected fewer than %d ranks",
                                          r->c->copies, ranks);
}

/* Checks the checksum of the config: keys that affect no tensor's place can be damaged too. */
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

/* In the folder that merge makes, a name has either a header and a rest, or a file. */
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

static int read_source(struct reader *r, const struct tree_node *list)
{
    struct ckpt *c = r->c;

    if (tree_list(&r->t, list, 0, INT32_MAX, r->err))
        return -1;
    c->source.item = mem_new((size_t)list->items, sizeof *c->source.item);
    for (const struct tree_node *n = list->child; n; n = n->next) {
        struct ckpt_source *s = &c->source.item[c->source.count];
        const char *name = "";
        int header = 0, rest = 0;
        if (record_read(&r->t, n, source_record, "name header rest?", s, r->err) ||
            tree_text(&r->t, tree_get(n, "name"), 0, SIZE_MAX, &name, r->err) ||
            tree_bool(&r->t, tree_get(n, "header"), &header, r->err) ||
            tree_bool(&r->t, tree_get(n, "rest"), &rest, r->err))
            return -1;
        s->keep = header ? CKPT_KEEP_HEADER : rest ? CKPT_KEEP_REST : CKPT_KEEP_FILE;
        if ((header && rest) || !ckpt_name_ok(name) || s->whole < s->bytes)
            return FAIL_AT(r, n, NULL, "is '%.200s', expected a relative name with a size",
                           name);
        s->name = mem_dup(name);
        c->source.count++;
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

static int manifest_read_block(struct reader *r, const struct tree_node *n,
                               struct ckpt_block *b)
{
    const struct ckpt_state *s = &r->c->state[b->state];
    const struct tree_node *lo = n->child, *hash;
    int64_t elems = ckpt_state_elems(&r->c->model, b->unit, s);
    const char *text = "";
    struct err why;

    if (tree_list(&r->t, n, 3, 3, r->err) ||
        tree_i64(&r->t, lo, 0, elems - 1, &b->lo, r->err) ||
        tree_i64(&r->t, lo->next, b->lo + 1, elems, &b->hi, r->err) ||
        tree_text(&r->t, hash = lo->next->next, 0, 255, &text, r->err))
        return -1;
    if (parse_hash(text, b->hash, &why))
        return FAIL_AT(r, hash, NULL, "is %s", why.text);
    if (b->hi - b->lo > CKPT_BLOCK_ELEMS)
        return FAIL_AT(r, n, NULL, "has %" PRId64 " elements, expected at most %d",
                       b->hi - b->lo, CKPT_BLOCK_ELEMS);
    b->tensor =
        ckpt_tensor_at(&r->c->model, b->unit, ckpt_element(&r->c->model, b->unit, s, b->lo));
    if (ckpt_block_end(&r->c->model, b->unit, s, b->lo, b->hi) != b->hi)
        return FAIL_AT(r, n, NULL, "is in more than one tensor of '%s'",
                       r->c->model.unit[b->unit].name);
    b->bytes = (b->hi - b->lo) * dtype_bytes(s->type);
    return 0;
}

/* Reads the blocks of a unit's state, from *at in the file on. */
static int manifest_read_blocks(struct reader *r, const struct tree_node *n, int number,
                                int64_t *at)
{
    struct ckpt *c = r->c;
    const char *unit = "", *state = "";
    const struct tree_node *list = tree_get(n, "blocks");

    if (ckpt_stopped(c->stop, r->err) || tree_keys(&r->t, n, "unit state blocks", r->err) ||
        tree_text(&r->t, tree_get(n, "unit"), 0, SIZE_MAX, &unit, r->err) ||
        tree_text(&r->t, tree_get(n, "state"), 0, SIZE_MAX, &state, r->err) ||
        tree_list(&r->t, list, 0, INT32_MAX, r->err))
        return -1;
    struct ckpt_block one = {
        .unit = find_unit(&c->model, unit), .state = ckpt_find_state(c, state), .file = number};
    if (one.unit < 0 || one.state < 0)
        return FAIL_AT(r, n, NULL, "is '%.60s/%.20s', expected UNIT/STATE of the model", unit,
                       state);
    for (n = list ? list->child : NULL; n; n = n->next) {
        one.offset = *at;
        if (manifest_read_block(r, n, &one))
            return -1;
        *at += one.bytes;
        if (*at > c->file[number].bytes)
            return FAIL_AT(r, n, NULL, "ends after the %" PRId64 " bytes of '%s'",
                           c->file[number].bytes, c->file[number].name);
        c->block = mem_grow(c->block, &r->space, (size_t)c->blocks + 1, sizeof one);
        c->block[c->blocks++] = one;
    }
    return 0;
}

/* Reads a file's entry: its blocks come after its header, one after the other. */
static int manifest_read_file(struct reader *r, const struct tree_node *n, int number)
{
    struct ckpt_file *f = &r->c->file[number];
    const struct tree_node *list = tree_get(n, "tensors");
    char name[CKPT_FILE_NAME];

    if (record_read(&r->t, n, ckpt_file_record, "tensors", f, r->err) ||
        tree_list(&r->t, list, 0, INT32_MAX, r->err))
        return -1;
    ckpt_shard_name(number, name);
    if (strcmp(name, f->name) || f->bytes < f->header_bytes)
        return FAIL_AT(r, n, NULL, "is '%s' of %" PRId64 " bytes, expected '%s' with its sizes",
                       f->name, f->bytes, name);
    if (f->header_bytes - 8 > r->limits->header_bytes)
        return FAIL(r,
                    "'%s' has a header of %" PRId64 " bytes, expected at most %" PRId64
                    " (--max-header)",
                    name, f->header_bytes - 8, r->limits->header_bytes);
    int64_t at = f->header_bytes;
    for (const struct tree_node *t = list ? list->child : NULL; t; t = t->next)
        if (manifest_read_blocks(r, t, number, &at))
            return -1;
    if (at != f->bytes)
        return FAIL(r, "'%s' has %" PRId64 " bytes, expected %" PRId64 " for its blocks", name,
                    f->bytes, at);
    return 0;
}

/* Sorts by state, unit and elements. */
static int manifest_by_place(const void *one, const void *other)
{
    const struct ckpt_block *a = one, *b = other;
    int c = MEM_ORDER(a, b, state);

    c = c ? c : MEM_ORDER(a, b, unit);
    return c ? c : MEM_ORDER(a, b, lo);
}

/* Sorts the blocks and proves that they tile every unit of every state. */
static int arrange_blocks(struct reader *r)
{
    struct ckpt *c = r->c;
    int64_t b = 0;

    if (c->blocks)
        qsort(c->block, (size_t)c->blocks, sizeof *c->block, manifest_by_place);
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

static int read_root(struct reader *r)
{
    const struct tree *t = &r->t;
    const struct tree_node *root = t->root, *trainable = tree_get(root, "trainable"),
                           *files = tree_get(root, "files"), *run = tree_get(root, "run"), *n;
    const char *version = tree_string(tree_get(root, "format")), *text = NULL, *config = NULL;
    struct ckpt *c = r->c;
    int i = 0;

    c->has_run = run != NULL;
    if (!version || strcmp(version, format))
        return FAIL_AT(r, root, "format", "is '%.60s', expected '%s'", version ? version : "",
                       format);
    if (tree_keys(t, root,
                  "format strategy trainable? group_of copies? config_xxh3? run states units "
                  "source files checksum",
                  r->err) ||
        tree_word(t, tree_get(root, "strategy"), c->strategy, sizeof c->strategy, r->err) ||
        tree_text(t, tree_get(root, "config_xxh3"), 0, SIZE_MAX, &config, r->err) ||
        tree_text(t, trainable, 0, SIZE_MAX, &text, r->err) || check_config(r, config))
        return -1;
    /* The set of trained tensors determines the order of a unit's tensors, so it is read before
       the rest of the model. */
    if (trainable && model_train(&c->model, text, r->err))
        return err_prefix(r->err, "%s: 'trainable': ", r->path);
    for (n = root->child; n; n = n->next)
        if (n->kind == TREE_NULL && strcmp(n->key, "run"))
            return FAIL_AT(r, n, NULL, "is null, expected a value");
    if (manifest_read_groups(r, tree_get(root, "group_of")) ||
        read_copies(r, tree_get(root, "copies")) ||
        (run && record_read(t, run, run_record, "", &c->run, r->err)) ||
        read_states(r, tree_get(root, "states")) || read_units(r, tree_get(root, "units")) ||
        read_source(r, tree_get(root, "source")) || tree_list(t, files, 0, INT32_MAX, r->err))
        return -1;
    if (files->items != c->groups.ranks)
        return FAIL(r, "has %d files, expected one for each of %d ranks", files->items,
                    c->groups.ranks);
    c->files = c->groups.ranks;
    c->file = mem_new((size_t)c->files, sizeof *c->file);
    for (n = files->child; n; n = n->next)
        if (manifest_read_file(r, n, i++))
            return -1;
    return arrange_blocks(r);
}

/* The checksum is on the last line: it must match the text before that line. */
static int manifest_check_sum(struct reader *r, const char *text, int64_t bytes)
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
    int rc = err_any(manifest_check_sum(&r, text, bytes) ||
                     tree_parse_json(&r.t, path, 1, text, bytes, err) || read_root(&r));

    tree_release(&r.t);
    return rc;
}
