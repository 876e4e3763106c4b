/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where in a YAML text each key stands, and what a schema allows there.  It walks
 * libyaml's events before libcyaml sees the text, because libcyaml 1.3.1 keeps no positions,
 * names the mapping and not the key, takes an empty document for success, any word for true and
 * `12abc` for 12, and expands aliases without bound.  It stores nothing: libcyaml does.
 */
#include "base/yaml_walk.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "base/mem.h"
#include "base/num.h"

/* A mapping or a list that is open. */
struct frame {
    const cyaml_schema_value_t *schema; /* NULL: anything goes */
    int map;
    int in_value;    /* a mapping's key was read, its value comes */
    int line;        /* where it begins */
    int items;       /* of a list, so far */
    int *seen;       /* [fields of schema] line of the key, 0 when not seen; owned */
    size_t path_len; /* of its own path in walk.path */
};

struct walk {
    const struct yaml *y;
    yaml_parser_t parser;
    struct frame frame[YAML_DEPTH_MAX];
    int depth;
    int documents;
    const cyaml_schema_value_t *next; /* what the value to come must be */
    char *path;                       /* owned; of the key or item at hand */
    size_t path_len, path_room;
    int line; /* of the event at hand */
    /* Seeking: */
    const char *want;
    size_t best; /* length of the longest parent found, +1 */
    int best_line;
    int found;
    char *text;
};

static void path_cut(struct walk *w, size_t len)
{
    w->path_len = len;
    w->path[len] = 0;
}

static void path_add(struct walk *w, const char *text, size_t len)
{
    w->path = mem_grow(w->path, &w->path_room, w->path_len + len + 1, 1);
    memcpy(w->path + w->path_len, text, len);
    path_cut(w, w->path_len + len);
}

/* At the event at hand, with its path. */
static int fail(const struct walk *w, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(const struct walk *w, struct err *err, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(err, w->y->name, w->line, w->path_len ? w->path : NULL, "%s", text);
}

/* Seeking: the place at hand is the wanted one or a parent of it. */
static void seek_here(struct walk *w)
{
    size_t n = w->path_len;

    if (!w->want || strncmp(w->path, w->want, n))
        return;
    char behind = w->want[n];
    if (n && behind && behind != '.' && behind != '[')
        return;
    if (n + 1 > w->best) {
        w->best = n + 1;
        w->best_line = w->line;
    }
    w->found = behind == 0 && n > 0;
}

/* ---- unknown keys ---- */

/* Levenshtein's distance, both words cut at 63 bytes. */
static int distance(const char *a, const char *b)
{
    int row[64];
    int n = (int)strnlen(a, 63), m = (int)strnlen(b, 63);

    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int keep = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int step = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            row[j] = keep < step ? keep : step;
        }
    }
    return row[m];
}

static int fail_unknown(const struct walk *w, const cyaml_schema_field_t *fields,
                        const char *key, struct err *err)
{
    const char *near = NULL;
    int least = 3; /* two slips of the finger */
    char list[400] = "";

    for (const cyaml_schema_field_t *f = fields; f->key; f++) {
        int d = strcasecmp(f->key, key) ? distance(f->key, key) : 0;
        size_t used = strlen(list);
        if (d < least && d < (int)strlen(f->key)) {
            near = f->key;
            least = d;
        }
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", f->key);
    }
    if (near)
        return fail(w, err, "is an unknown key, did you mean '%s'?", near);
    return fail(w, err, "is an unknown key, expected one of: %s",
                  list);
}

/* ---- keys ---- */

static int field_count(const cyaml_schema_value_t *schema)
{
    int n = 0;

    while (schema->mapping.fields[n].key)
        n++;
    return n;
}

/* The schema of the value behind this key goes to w->next. */
static int find_field(struct walk *w, struct frame *f, const char *key, struct err *err)
{
    const cyaml_schema_field_t *fields = f->schema->mapping.fields;
    int i = 0;

    while (fields[i].key && strcmp(fields[i].key, key))
        i++;
    if (!fields[i].key)
        return fail_unknown(w, fields, key, err);
    if (f->seen[i])
        return fail(w, err, "is given twice, first on line %d, expected once", f->seen[i]);
    f->seen[i] = w->line;
    w->next = &fields[i].value;
    return 0;
}

static int on_key(struct walk *w, struct frame *f, const yaml_event_t *e, struct err *err)
{
    path_cut(w, f->path_len);
    if (e->type != YAML_SCALAR_EVENT)
        return fail(w, err, "has a list or a mapping for a key, expected a word");
    const char *key = (const char *)e->data.scalar.value;
    if (strlen(key) != e->data.scalar.length)
        return fail(w, err, "has a key with a 0 byte in it, expected text");
    if (f->path_len)
        path_add(w, ".", 1);
    path_add(w, key, e->data.scalar.length);
    w->next = NULL;
    f->in_value = 1;
    seek_here(w);
    return f->schema ? find_field(w, f, key, err) : 0;
}

/* ---- values ---- */

static int check_enum(const struct walk *w, const cyaml_schema_value_t *s, const char *text,
                      struct err *err)
{
    char list[400] = "";

    for (uint32_t i = 0; i < s->enumeration.count; i++) {
        const char *word = s->enumeration.strings[i].str;
        size_t used = strlen(list);
        if (strcmp(word, text) == 0)
            return 0;
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", word);
    }
    return fail(w, err, "is '%s', expected one of: %s", text, list);
}

/* libcyaml's own numbers, for a schema that uses them: strict here, so strict everywhere. */
static int check_number(const struct walk *w, cyaml_type_e type, const char *text,
                        struct err *err)
{
    struct err why;
    int64_t whole = 0;
    double real = 0;
    int rc = type == CYAML_FLOAT ? num_f64(text, -DBL_MAX, DBL_MAX, &real, &why)
                                 : num_i64(text, type == CYAML_INT ? INT64_MIN : 0, INT64_MAX,
                                           &whole, &why);

    return rc ? fail(w, err, "is %s", why.text) : 0;
}

static int check_string(const struct walk *w, const cyaml_schema_value_t *s, size_t length,
                        struct err *err)
{
    if (length > s->string.max)
        return fail(w, err, "has %zu bytes, expected %u at most",
                      length, s->string.max);
    if (length < s->string.min)
        return fail(w, err, "has %zu bytes, expected %u at least",
                      length, s->string.min);
    return 0;
}

static const char *kind_of(const cyaml_schema_value_t *s)
{
    switch (s->type) {
    case CYAML_MAPPING:
    case CYAML_BITFIELD:
        return "mapping";
    case CYAML_SEQUENCE:
    case CYAML_SEQUENCE_FIXED:
    case CYAML_FLAGS:
        return "list";
    default:
        return "single value";
    }
}

/* libcyaml reads these as a NULL pointer where the schema lets it. */
static int is_null(const cyaml_schema_value_t *s, const char *text)
{
    unsigned flags = s->flags;

    if ((flags & CYAML_FLAG_POINTER_NULL) != CYAML_FLAG_POINTER_NULL)
        return 0;
    if (text[0] == 0)
        return 1;
    return (flags & CYAML_FLAG_POINTER_NULL_STR) == CYAML_FLAG_POINTER_NULL_STR &&
           (!strcmp(text, "null") || !strcmp(text, "Null") || !strcmp(text, "NULL") ||
            !strcmp(text, "~"));
}

static int on_scalar(struct walk *w, const cyaml_schema_value_t *s, const yaml_event_t *e,
                     struct err *err)
{
    const char *text = (const char *)e->data.scalar.value;

    if (strlen(text) != e->data.scalar.length)
        return fail(w, err, "has a 0 byte in it, expected text");
    if (w->found && !w->text)
        w->text = mem_dup(text);
    if (!s || is_null(s, text))
        return 0;
    switch (s->type) {
    case CYAML_STRING:
        return check_string(w, s, e->data.scalar.length, err);
    case CYAML_ENUM:
        return check_enum(w, s, text, err);
    case CYAML_INT:
    case CYAML_UINT:
    case CYAML_FLOAT:
        return check_number(w, s->type, text, err);
    case CYAML_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return fail(w, err, "is '%s', expected true or false", text);
        return 0;
    case CYAML_IGNORE:
        return 0;
    default:
        break;
    }
    if (w->depth == 0)
        return text[0] ? err_at(err, w->y->name, w->line, NULL,
                                "begins with '%.40s', expected keys and values", text)
                       : err_at(err, w->y->name, w->line, NULL,
                                "is empty, expected a document");
    return fail(w, err, "is '%.40s', expected a %s", text, kind_of(s));
}

static int opens(const cyaml_schema_value_t *s, int map)
{
    if (!s || s->type == CYAML_IGNORE)
        return 1;
    if (map)
        return s->type == CYAML_MAPPING || s->type == CYAML_BITFIELD;
    return s->type == CYAML_SEQUENCE || s->type == CYAML_SEQUENCE_FIXED ||
           s->type == CYAML_FLAGS;
}

static int on_open(struct walk *w, const cyaml_schema_value_t *s, int map, struct err *err)
{
    if (w->depth == YAML_DEPTH_MAX)
        return err_at(err, w->y->name, w->line, NULL, "is nested deeper than %d, expected less",
                      YAML_DEPTH_MAX);
    if (!opens(s, map))
        return fail(w, err, "is a %s, expected a %s", map ? "mapping" : "list", kind_of(s));
    if (s && s->type != CYAML_MAPPING && s->type != CYAML_SEQUENCE &&
        s->type != CYAML_SEQUENCE_FIXED)
        s = NULL; /* bit fields and flags are libcyaml's to check; ignored is ignored */
    struct frame *f = &w->frame[w->depth++];
    *f = (struct frame){.schema = s, .map = map, .line = w->line, .path_len = w->path_len};
    if (s && map)
        f->seen = mem_new((size_t)field_count(s), sizeof *f->seen);
    return 0;
}

static int on_close(struct walk *w, struct err *err)
{
    struct frame *f = &w->frame[w->depth - 1];
    const cyaml_schema_value_t *s = f->schema;

    path_cut(w, f->path_len);
    w->line = f->line; /* what is missing is missing from here */
    for (int i = 0; s && f->map && s->mapping.fields[i].key; i++) {
        const cyaml_schema_field_t *field = &s->mapping.fields[i];
        if (f->seen[i] || field->value.flags & CYAML_FLAG_OPTIONAL)
            continue;
        if (w->path_len)
            path_add(w, ".", 1);
        path_add(w, field->key, strlen(field->key));
        return fail(w, err, "is missing");
    }
    if (s && !f->map && (uint32_t)f->items < s->sequence.min)
        return fail(w, err, "has %d items, expected %u at least",
                      f->items, s->sequence.min);
    mem_free(f->seen);
    f->seen = NULL;
    w->depth--;
    if (w->depth)
        w->frame[w->depth - 1].in_value = 0;
    return 0;
}

/* An item of a list: its path and its schema. */
static int on_item(struct walk *w, struct frame *f, const cyaml_schema_value_t **s,
                   struct err *err)
{
    char at[16];

    path_cut(w, f->path_len);
    if (f->schema && (uint32_t)f->items >= f->schema->sequence.max)
        return fail(w, err, "has more than %u items, expected %u"
                      " at most", f->schema->sequence.max, f->schema->sequence.max);
    snprintf(at, sizeof at, "[%d]", f->items++);
    path_add(w, at, strlen(at));
    *s = f->schema ? f->schema->sequence.entry : NULL;
    seek_here(w);
    return 0;
}

/* A key, a value or an item begins. */
static int on_node(struct walk *w, const yaml_event_t *e, struct err *err)
{
    struct frame *f = w->depth ? &w->frame[w->depth - 1] : NULL;
    const cyaml_schema_value_t *s = w->next;

    if (f && f->map && !f->in_value)
        return on_key(w, f, e, err);
    if (f && !f->map && on_item(w, f, &s, err))
        return -1;
    if (!f)
        seek_here(w);
    if (e->type != YAML_SCALAR_EVENT)
        return on_open(w, s, e->type == YAML_MAPPING_START_EVENT, err);
    if (on_scalar(w, s, e, err))
        return -1;
    if (f)
        f->in_value = 0;
    return 0;
}

static int refuse_marks(const struct walk *w, const yaml_char_t *anchor, const yaml_char_t *tag,
                        struct err *err)
{
    if (anchor)
        return err_at(err, w->y->name, w->line, NULL,
                      "has an anchor '&%.40s', expected neither anchors nor aliases",
                      (const char *)anchor);
    if (tag)
        return err_at(err, w->y->name, w->line, NULL, "has a tag '%.40s', expected none",
                      (const char *)tag);
    return 0;
}

static int on_event(struct walk *w, const yaml_event_t *e, struct err *err)
{
    w->line = (int)e->start_mark.line + 1;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (w->documents++)
            return err_at(err, w->y->name, w->line, NULL,
                          "begins a second document, expected one");
        return 0;
    case YAML_STREAM_END_EVENT:
        if (!w->documents)
            return err_at(err, w->y->name, 0, NULL, "is empty, expected a document");
        return 0;
    case YAML_ALIAS_EVENT:
        return err_at(err, w->y->name, w->line, NULL,
                      "has an alias '*%.40s', expected neither anchors nor aliases",
                      (const char *)e->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        if (refuse_marks(w, e->data.scalar.anchor, e->data.scalar.tag, err))
            return -1;
        return on_node(w, e, err);
    case YAML_SEQUENCE_START_EVENT:
        if (refuse_marks(w, e->data.sequence_start.anchor, e->data.sequence_start.tag, err))
            return -1;
        return on_node(w, e, err);
    case YAML_MAPPING_START_EVENT:
        if (refuse_marks(w, e->data.mapping_start.anchor, e->data.mapping_start.tag, err))
            return -1;
        return on_node(w, e, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(w, err);
    default:
        return 0;
    }
}

/* ---- the walk ---- */

/* libyaml's reader knows a byte, not a line. */
static int line_of_byte(const struct yaml *y, size_t byte)
{
    int line = 1;

    for (size_t i = 0; i < byte && i < (size_t)y->bytes; i++)
        line += y->text[i] == '\n';
    return line;
}

static int fail_syntax(const struct walk *w, struct err *err)
{
    const yaml_parser_t *p = &w->parser;
    const char *what = p->problem ? p->problem : "it cannot be read";

    if (p->error == YAML_MEMORY_ERROR)
        return err_set(err, ERR_SYS, "out of memory reading '%s'", w->y->name);
    int line = p->error == YAML_READER_ERROR ? line_of_byte(w->y, p->problem_offset)
                                             : (int)p->problem_mark.line + 1;
    return err_at(err, w->y->name, line, NULL, "is not YAML: %s", what);
}

static void walk_init(struct walk *w, const struct yaml *y)
{
    *w = (struct walk){.y = y};
    w->path = mem_grow(NULL, &w->path_room, 1, 1);
    path_cut(w, 0);
    /* It fails only where memory does, as mem_new would. */
    int there = yaml_parser_initialize(&w->parser);
    mem_have(there ? &w->parser : NULL, "a parser of YAML");
    yaml_parser_set_encoding(&w->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&w->parser, (const unsigned char *)y->text, (size_t)y->bytes);
}

static void walk_release(struct walk *w)
{
    yaml_parser_delete(&w->parser);
    for (int i = 0; i < w->depth; i++)
        mem_free(w->frame[i].seen);
    mem_free(w->path);
    mem_free(w->text);
}

static int walk_run(struct walk *w, struct err *err)
{
    for (int more = 1; more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&w->parser, &e))
            return fail_syntax(w, err);
        int sought = w->found; /* its value is the event at hand: the last one needed */
        int rc = on_event(w, &e, err);
        more = e.type != YAML_STREAM_END_EVENT && !sought;
        yaml_event_delete(&e);
        if (rc)
            return -1;
    }
    return 0;
}

int yaml_walk_check(const struct yaml *y, const cyaml_schema_value_t *schema, struct err *err)
{
    struct walk w;

    walk_init(&w, y);
    w.next = schema;
    int rc = walk_run(&w, err);
    walk_release(&w);
    return rc;
}

int yaml_walk_seek(const struct yaml *y, const char *path, int *line, char **text,
                   struct err *err)
{
    struct walk w;

    walk_init(&w, y);
    w.want = path;
    int rc = walk_run(&w, err);
    *line = w.best_line;
    if (text) {
        *text = w.text;
        w.text = NULL;
    }
    walk_release(&w);
    return rc;
}
