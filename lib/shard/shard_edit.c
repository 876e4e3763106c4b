/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops, renames and converts tensors of a folder or file by patterns.  Each weights file is
 * rewritten with its remaining tensors, in their order; the index is rebuilt, and all other
 * files are copied.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ckpt/ckpt_hf.h"
#include "shard/shard_folder.h"
#include "shard/shard_merge_plan.h"
#include "shard/shard_parts.h"

enum {
    NAME_MAX_BYTES = 64 << 10,
    CONFIG_MAX = 16 << 20,
    /* Steps of one match: more indicates a pattern with exponential backtracking */
    STEPS_MAX = 1000000
};

struct rule {
    const char *text; /* as given, borrowed */
    pcre2_code *code;
    char *right; /* owned: the text after the last '='; NULL for a drop */
    enum dtype type;
    int64_t used;
};

struct item {
    const struct st_tensor *t;
    int file, dropped, number; /* number: among the remaining tensors of its file */
    char *name;                /* owned */
    int type;
};

struct edit {
    const struct shard_editing *what;
    struct hf hf;
    struct folder folder;
    pcre2_match_data *match;
    pcre2_match_context *context;
    struct rule *rule[SHARD_EDITS]; /* [what->list[kind].count] each, owned */
    int count, left;
    struct item *item;      /* [count], owned */
    struct st_tensor *head; /* [count], owned: remaining tensors of the files */
    int *first, *out;       /* [files + 1], [files]: of `head`; number of the new file or -1 */
    int64_t *data;          /* [files]: size of the new header */
    char **text;            /* [files], owned: the new header */
};

/* --- patterns --- */

static int pattern_failed(const char *text, int code, struct err *err)
{
    PCRE2_UCHAR words[160] = "";

    pcre2_get_error_message(code, words, sizeof words);
    return err_set(err, ERR_INPUT, "pattern '%.200s': %s", text, (const char *)words);
}

static int compile_all(struct edit *e, struct err *err)
{
    e->context = mem_have(pcre2_match_context_create(NULL), "a match");
    pcre2_set_match_limit(e->context, STEPS_MAX);
    e->match = mem_have(pcre2_match_data_create(1, NULL), "a match");
    for (int kind = 0; kind < SHARD_EDITS; kind++) {
        e->rule[kind] = mem_new((size_t)e->what->list[kind].count, sizeof **e->rule);
        for (int i = 0; i < e->what->list[kind].count; i++) {
            struct rule *r = &e->rule[kind][i];
            const char *text = r->text = e->what->list[kind].item[i];
            const char *equals = kind == SHARD_DROP ? NULL : strrchr(text, '=');
            PCRE2_SIZE length = equals ? (PCRE2_SIZE)(equals - text) : strlen(text), at;
            int code;
            if (kind != SHARD_DROP && !equals)
                return err_set(err, ERR_INPUT, "'%.200s' has no '=', expected PATTERN=%s", text,
                               kind == SHARD_CAST ? "TYPE" : "REPLACEMENT");
            r->right = equals ? mem_dup(equals + 1) : NULL;
            if (kind == SHARD_CAST && (dtype_parse(r->right, &r->type, err) ||
                                       r->type == DTYPE_I32 || r->type == DTYPE_U8))
                return err_set(err, ERR_INPUT, "type '%.60s', expected f32, bf16, f16 or f64",
                               r->right);
            r->code = pcre2_compile((PCRE2_SPTR)text, length, PCRE2_UTF, &code, &at, NULL);
            if (!r->code)
                return pattern_failed(text, code, err);
        }
    }
    return 0;
}

/* *hit: whether the pattern is found in the name. */
static int match_rule(const struct edit *e, struct rule *r, const char *name, int *hit,
                      struct err *err)
{
    int rc = pcre2_match(r->code, (PCRE2_SPTR)name, strlen(name), 0, 0, e->match, e->context);

    *hit = rc >= 0;
    r->used += *hit;
    return rc >= 0 || rc == PCRE2_ERROR_NOMATCH ? 0 : pattern_failed(r->text, rc, err);
}

static int edit_check_name(const struct edit *e, const struct item *it, struct err *err)
{
    const struct ckpt_limits *limits = e->what->options.limits;
    const int64_t most = (limits ? limits : &ckpt_limits_usual)->name_bytes;
    const int64_t bytes = (int64_t)strlen(it->name);

    if (bytes == 0 || strcmp(it->name, "__metadata__") == 0 || utf8_controls(it->name, bytes))
        return err_set(err, ERR_INPUT, "'%s' gets the name '%.200s', expected another text",
                       it->t->name, it->name);
    if (bytes > most)
        return err_set(err, ERR_INPUT,
                       "'%s' gets a name of %" PRId64 " bytes, expected at most %" PRId64
                       " (--max-name)",
                       it->t->name, bytes, most);
    return 0;
}

static int rename_item(const struct edit *e, struct rule *r, struct item *it, struct err *err)
{
    PCRE2_SIZE space = NAME_MAX_BYTES;
    char *name = mem_new(NAME_MAX_BYTES, 1);
    int rc = pcre2_substitute(r->code, (PCRE2_SPTR)it->name, strlen(it->name), 0, 0, NULL,
                              e->context, (PCRE2_SPTR)r->right, strlen(r->right),
                              (PCRE2_UCHAR *)name, &space);

    if (rc > 0) {
        r->used++;
        mem_free(it->name);
        it->name = mem_dup(name);
        rc = edit_check_name(e, it, err);
    } else if (rc < 0) {
        rc = pattern_failed(r->text, rc, err);
    }
    mem_free(name);
    return rc < 0 ? -1 : 0;
}

static int apply_rules(struct edit *e, struct item *it, struct err *err)
{
    const struct shard_edit_list *list = e->what->list;
    int rc = 0, hit = 0;

    for (int i = 0; rc == 0 && i < list[SHARD_DROP].count; i++) {
        rc = match_rule(e, &e->rule[SHARD_DROP][i], it->name, &hit, err);
        it->dropped |= hit;
    }
    for (int i = 0; rc == 0 && !it->dropped && i < list[SHARD_CAST].count; i++) {
        struct rule *r = &e->rule[SHARD_CAST][i];
        rc = match_rule(e, r, it->name, &hit, err);
        if (rc == 0 && hit && !st_type_is_float(it->t->type))
            rc =
                err_set(err, ERR_INPUT, "'%s' is %s, expected a float type to convert (%.200s)",
                        it->t->name, st_type_name(it->t->type), r->text);
        else if (rc == 0 && hit)
            it->type = st_type_of(r->type);
    }
    for (int i = 0; rc == 0 && !it->dropped && i < list[SHARD_RENAME].count; i++)
        rc = rename_item(e, &e->rule[SHARD_RENAME][i], it, err);
    return rc;
}

static int edit_by_name(const void *a, const void *b)
{
    const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;

    return x->dropped != y->dropped ? x->dropped - y->dropped : strcmp(x->name, y->name);
}

static int edit_items(struct edit *e, struct err *err)
{
    for (int f = 0; f < e->hf.files; f++)
        e->count += e->hf.file[f].count;
    e->item = mem_new((size_t)e->count, sizeof *e->item);
    for (int f = 0, i = 0; f < e->hf.files; f++)
        for (int k = 0; k < e->hf.file[f].count; k++, i++) {
            const struct st_tensor *t = &e->hf.file[f].tensor[k];
            e->item[i] = (struct item){t, f, .name = mem_dup(t->name), .type = t->type};
            if (ckpt_stopped(e->hf.stop, err) || apply_rules(e, &e->item[i], err))
                return -1;
            e->left += !e->item[i].dropped;
        }
    /* Every rule must match a tensor, and names must stay unique. */
    struct item **sorted = mem_new((size_t)e->count, sizeof *sorted);
    int rc = 0;
    for (int kind = 0; rc == 0 && kind < SHARD_EDITS; kind++)
        for (int i = 0; rc == 0 && i < e->what->list[kind].count; i++)
            if (!e->rule[kind][i].used)
                rc = err_set(err, ERR_INPUT, "pattern '%.200s' matches no tensor of '%s'",
                             e->rule[kind][i].text, e->hf.dir);
    for (int i = 0; i < e->count; i++)
        sorted[i] = &e->item[i];
    qsort(sorted, (size_t)e->count, sizeof *sorted, edit_by_name);
    for (int i = 1; rc == 0 && i < e->left; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = err_set(err, ERR_INPUT, "'%s' and '%s' both get the name '%s'",
                         sorted[i - 1]->t->name, sorted[i]->t->name, sorted[i]->name);
    mem_free(sorted);
    if (rc == 0 && e->left == 0)
        rc = err_set(err, ERR_INPUT, "no tensor of '%s' is left", e->hf.dir);
    return rc;
}

/* --- files --- */

static void make_heads(struct edit *e)
{
    int files = e->hf.files, n = 0, made = 0;

    e->head = mem_new((size_t)e->count, sizeof *e->head);
    e->first = mem_new((size_t)files + 1, sizeof *e->first);
    e->out = mem_new((size_t)files, sizeof *e->out);
    e->data = mem_new((size_t)files, sizeof *e->data);
    e->text = mem_new((size_t)files, sizeof *e->text);
    for (int f = 0, i = 0; f < files; f++) {
        e->first[f] = n;
        for (; i < e->count && e->item[i].file == f; i++) {
            if (e->item[i].dropped)
                continue;
            e->item[i].number = n;
            e->head[n] = *e->item[i].t;
            e->head[n].name = e->item[i].name;
            e->head[n++].type = e->item[i].type;
        }
        e->out[f] = n > e->first[f] ? made++ : -1;
        if (e->out[f] >= 0)
            st_header(e->head + e->first[f], n - e->first[f], &e->text[f], &e->data[f]);
    }
    e->first[files] = n;
}

/* Passes the header of new file `number` to the caller. */
static int edit_take_head(void *edit, int number, char **head, int64_t *bytes, struct err *err)
{
    struct edit *e = edit;
    int f = 0;

    (void)err;
    while (e->out[f] != number)
        f++;
    *head = e->text[f];
    *bytes = e->data[f];
    e->text[f] = NULL;
    return 0;
}

/* Adds a remaining tensor: its bytes, or its elements to be converted. */
static void edit_add_item(struct moves *m, const struct edit *e, const struct item *it)
{
    enum dtype is = DTYPE_U8, want = DTYPE_U8;
    int64_t from = e->hf.file[it->file].data + it->t->first;
    int64_t to = e->data[it->file] + e->head[it->number].first;
    int64_t bytes = it->t->last - it->t->first;

    if (it->type != it->t->type) {
        st_type_dtype(it->t->type, &is);
        st_type_dtype(it->type, &want);
    }
    moves_add_to(m, (struct move_to){m->at, bytes, e->out[it->file], to, is, want, NULL});
    moves_add_from(m, (struct move_from){.bytes = bytes, .file = it->file, .offset = from});
}

static int move_all(struct edit *e, const struct io_out *dir, struct err *err)
{
    struct moves m = {
        .options = &e->what->options, .stop = e->hf.stop, .head = edit_take_head, .heads = e};

    for (int f = 0; f < e->hf.files; f++) {
        moves_add_file(&m.in, e->hf.file[f].file_bytes, mem_dup(e->hf.file[f].path));
        if (e->out[f] >= 0)
            moves_add_file(&m.out, e->data[f] + e->head[e->first[f + 1] - 1].last,
                           io_join(dir->temp, e->hf.name[f]));
    }
    for (int i = 0; i < e->count; i++)
        if (!e->item[i].dropped)
            edit_add_item(&m, e, &e->item[i]);
    int rc = moves_run(&m, dir, err);
    moves_release(&m);
    return rc;
}

static int edit_put_index(const struct edit *e, const struct io_out *dir, struct err *err)
{
    struct merge_place *place = mem_new((size_t)e->left, sizeof *place);
    int64_t total = 0;
    int n = 0;

    for (int i = 0; i < e->count; i++)
        if (!e->item[i].dropped) {
            const struct st_tensor *t = &e->head[e->item[i].number];
            place[n++] = (struct merge_place){t->name, e->hf.name[e->item[i].file]};
            total += t->last - t->first;
        }
    char *text = merge_index(place, n, total);
    mem_free(place);
    return io_dir_take_text(dir, HF_INDEX_NAME, text, err);
}

/* The common type of all remaining floats, if there is one and some were converted. */
static int common_type(const struct edit *e, enum dtype *out)
{
    int type = -1, n = 0;

    for (int i = 0; i < e->left; i++)
        if (st_type_is_float(e->head[i].type) && e->head[i].type != type) {
            type = e->head[i].type;
            n++;
        }
    return n == 1 && e->what->list[SHARD_CAST].count && st_type_dtype(type, out) == 0;
}

static int copy_other(struct edit *e, const char *name, const struct io_out *dir,
                      struct err *err)
{
    struct ckpt_source ignored = {0};
    enum dtype type;
    char *text = NULL, *to = io_join(dir->temp, name);
    int64_t bytes = 0;
    int fd = -1, rc = folder_open(&e->folder, name, &fd, err);

    if (rc == 0 && strcmp(name, "config.json") == 0 && common_type(e, &type)) {
        rc = io_read_all(fd, name, CONFIG_MAX, NULL, &text, &bytes, err);
        if (rc == 0)
            rc = io_dir_take_text(dir, name, hf_config_as(text, type), err);
    } else if (rc == 0) {
        rc = ckpt_copy_file(fd, dir, to, e->hf.stop, &ignored, err);
    }
    if (fd >= 0)
        close(fd);
    mem_free(text);
    mem_free(to);
    return rc;
}

/* --- the whole edit --- */

static void print_edits(const struct edit *e, FILE *out)
{
    for (int i = 0; i < e->count; i++) {
        const struct item *it = &e->item[i];
        if (it->dropped)
            fprintf(out, "drop %s\n", it->t->name);
        if (!it->dropped && strcmp(it->name, it->t->name))
            fprintf(out, "rename %s %s\n", it->t->name, it->name);
        if (!it->dropped && it->type != it->t->type)
            fprintf(out, "cast %s %s %s\n", it->t->name, st_type_name(it->t->type),
                    st_type_name(it->type));
    }
}

static void edit_release(struct edit *e)
{
    for (int kind = 0; kind < SHARD_EDITS; kind++) {
        for (int i = 0; e->rule[kind] && i < e->what->list[kind].count; i++) {
            pcre2_code_free(e->rule[kind][i].code);
            mem_free(e->rule[kind][i].right);
        }
        mem_free(e->rule[kind]);
    }
    for (int i = 0; e->item && i < e->count; i++)
        mem_free(e->item[i].name);
    for (int f = 0; e->text && f < e->hf.files; f++)
        mem_free(e->text[f]);
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->context);
    MEM_FREE(e->item, e->head, e->first, e->out, e->data, e->text);
    folder_release(&e->folder);
    hf_release(&e->hf);
}

int shard_edit(const char *from, const struct shard_editing *what, struct shard_target to,
               struct err *err)
{
    struct edit e = {.what = what};
    struct io_out dir;

    if (hf_open(&e.hf, from, what->options.limits, err))
        return -1;
    int rc = e.hf.file[0].pieces
                 ? err_at(err, from, 0, NULL,
                          "is a sharded checkpoint, expected a Hugging Face folder: split and "
                          "merge it first")
                 : 0;
    if (rc == 0)
        rc = err_any(compile_all(&e, err) || edit_items(&e, err) ||
                     folder_list(&e.folder, &e.hf, what->options.limits, err));
    if (rc == 0 && what->dry) {
        print_edits(&e, what->dry);
    } else if (rc == 0) {
        make_heads(&e);
        rc = err_any(shard_check_apart(from, to.dir, SHARD_BE_SOURCE, err) ||
                     io_dir_create(&dir, to.dir, to.force, err));
        if (rc == 0) {
            for (int i = 0; rc == 0 && i < e.folder.others; i++)
                rc = strcmp(e.folder.other[i], HF_INDEX_NAME)
                         ? copy_other(&e, e.folder.other[i], &dir, err)
                         : edit_put_index(&e, &dir, err);
            rc = io_end(&dir, rc ? rc : move_all(&e, &dir, err), err);
        }
    }
    edit_release(&e);
    return rc;
}
