/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of safetensors headers: as the beginning of a file, and as the JSON
 * of a header whose length is right and whose data end where it says.  The second opinion has
 * a tree of it, and the rules one by one. */
#include "reader_fuzz.h"

#include "base/io.h"
#include "value/value_tree.h"
#include "ckpt/ckpt_safetensors.h"

static int parse(struct st *st, const char *head, size_t bytes, int64_t file_bytes,
                 struct err *err)
{
    char *text = fuzz_copy(head, bytes);

    *st = (struct st){.fd = -1};
    *err = (struct err){0};
    int rc = st_parse(st, FUZZ_NAME, text, (int64_t)bytes, file_bytes, NULL, err);
    mem_free(text);
    return fuzz_judge(rc, err);
}

/* A whole number from 0 on; any other is -1. */
static int64_t number(const struct tree_node *v)
{
    int64_t n = -1;

    return tree_is_whole(v, &n) && n >= 0 ? n : -1;
}

/* The ends of a tensor's data. */
static int64_t end_of(const struct tree_node *v, int which)
{
    const struct tree_node *first = tree_first(tree_get(v, "data_offsets"), TREE_LIST);

    return number(which && first ? first->next : first);
}

/* Each key once. */
static int is_object(const struct tree_node *v)
{
    struct tree t = {.name = (char *)FUZZ_NAME};
    struct err err;
    int once = v->kind == TREE_MAP;

    for (const struct tree_node *c = once ? v->child : NULL; c && once; c = c->next)
        once = tree_once(&t, v, c->key, &err) == 0;
    return once;
}

/* Texts by name. */
static int is_metadata(const struct tree_node *v)
{
    int texts = is_object(v);

    for (const struct tree_node *c = texts ? v->child : NULL; c; c = c->next)
        texts = texts && tree_string(c);
    return texts;
}

/* C0, DEL and C1 (0xc2 0x80 to 0xc2 0x9f) are control characters. */
static int is_name(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;

    if (!*p || strlen(name) > 4096)
        return 0;
    for (; *p; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
            return 0;
    return 1;
}

/* An entry as the format has it, its bytes as many as its shape's. */
static int is_tensor(const struct tree_node *v)
{
    const struct tree_node *shape = tree_get(v, "shape");
    const char *type = tree_string(tree_get(v, "dtype"));
    int64_t first = end_of(v, 0), last = end_of(v, 1);
    int of = 0, zero = 0, large = 0;
    unsigned __int128 bytes = 1;

    if (!is_name(v->key) || tree_count(v, TREE_MAP) != 3 || !shape ||
        shape->kind != TREE_LIST || shape->items > ST_DIMS_MAX ||
        tree_count(tree_get(v, "data_offsets"), TREE_LIST) != 2 || !type)
        return 0;
    while (of < 17 && strcmp(st_type_name(of), type))
        of++;
    if (of == 17 || first < 0 || last < first)
        return 0;
    for (const struct tree_node *d = shape->child; d; d = d->next) {
        int64_t n = number(d);
        if (n < 0)
            return 0;
        bytes *= (unsigned __int128)n;
        large |= bytes > INT64_MAX; /* is refused, though a 0 may follow */
        bytes = large ? 1 : bytes;
        zero |= n == 0;
    }
    bytes *= (unsigned)st_type_bytes(of);
    return !large && bytes == (unsigned __int128)(last - first) && (bytes || zero);
}

/* Whether a tensor that has bytes begins at `at`; *next is its end. */
static int follows(const struct tree_node *root, int64_t at, int64_t *next)
{
    for (const struct tree_node *v = root->child; v; v = v->next) {
        *next = end_of(v, 1);
        if (strcmp(v->key, "__metadata__") && end_of(v, 0) == at && *next > at)
            return 1;
    }
    return 0;
}

/* Every tensor lies at the end of those before it, and the last at the end of the data. */
static int is_tiled(const struct tree_node *root, int64_t data_bytes)
{
    int links = 1, filled = 0, fits = 1;
    int64_t at = 0, next = 0;
    int64_t *link = mem_new((size_t)root->items + 1, sizeof *link);

    for (; links <= root->items && follows(root, at, &next); at = next)
        link[links++] = next;
    for (const struct tree_node *v = root->child; v; v = v->next) {
        int k = 0;
        if (strcmp(v->key, "__metadata__") == 0)
            continue;
        filled += end_of(v, 1) > end_of(v, 0);
        while (k < links && link[k] != end_of(v, 0))
            k++;
        fits = fits && k < links;
    }
    mem_free(link);
    return fits && filled == links - 1 && at == data_bytes;
}

static int is_header(const struct tree_node *root, int64_t data_bytes)
{
    int good = is_object(root);

    for (const struct tree_node *v = good ? root->child : NULL; v; v = v->next)
        good = good && (strcmp(v->key, "__metadata__") ? is_tensor(v) : is_metadata(v));
    return good && is_tiled(root, data_bytes);
}

/* What the reader said of a header that is in memory whole; err: why st is NULL. */
static void compare(const char *json, size_t bytes, int64_t data_bytes, const struct st *st,
                    const struct err *err)
{
    struct tree t = {0};
    struct err why;
    int is_json = tree_parse_json(&t, FUZZ_NAME, 1, json, (int64_t)bytes, &why) == 0;
    int tensors = 0;

    /* "-0" is a whole number to a tree. */
    if (bytes && json[0] == '{' && !memmem(json, bytes, "-0", 2))
        assert((st != NULL) == (is_json && is_header(t.root, data_bytes)) &&
               (st || !is_json || !is_object(t.root) ||
                strstr(err->text, FUZZ_NAME ": header is not valid JSON") != err->text));
    for (const struct tree_node *v = st ? t.root->child : NULL; v; v = v->next) {
        const struct st_tensor *s = st_find(st, v->key);
        int d = 0;
        if (strcmp(v->key, "__metadata__") == 0)
            continue;
        tensors++;
        assert(s && strcmp(st_type_name(s->type), tree_string(tree_get(v, "dtype"))) == 0);
        assert(s->first == end_of(v, 0));
        const struct tree_node *n = tree_first(tree_get(v, "shape"), TREE_LIST);
        for (; n; n = n->next, d++)
            assert(s->shape[d] == number(n));
        assert(s->dims == d);
    }
    assert(!st || st->count == tensors);
    tree_release(&t);
}

/* The largest number that ends a list: where the data of the last tensor end. */
static int64_t data_end(const char *json)
{
    int64_t most = 0;

    for (const char *p = json; *p; p++) {
        char *end = NULL;
        if (*p < '0' || *p > '9')
            continue;
        long long v = strtoll(p, &end, 10);
        if (*end == ']' && v > most && v < INT64_C(1) << 40)
            most = v;
        p = end - 1;
    }
    return most;
}

static void check(const struct st *st)
{
    struct st back;
    struct err err;
    char *head = NULL;
    int64_t bytes = 0, end = st->count ? st->tensor[st->count - 1].last : 0;
    struct st_tensor *copy = mem_new((size_t)st->count, sizeof *copy);

    for (int i = 0; i < st->count; i++)
        copy[i] = st->tensor[i];
    st_header(copy, st->count, &head, &bytes);
    int rc = parse(&back, head, (size_t)bytes, bytes + end, &err);
    assert(rc == 0 && back.count == st->count);
    for (int i = 0; i < st->count; i++) {
        const struct st_tensor *t = &st->tensor[i], *b = st_find(&back, t->name);
        assert(b && st_find(st, t->name) == t && b->type == t->type && b->dims == t->dims);
        assert(b->elems == t->elems && b->first == t->first && b->last == t->last);
        assert(memcmp(b->shape, t->shape, (size_t)t->dims * sizeof *t->shape) == 0);
    }
    st_release(&back);
    mem_free(head);
    mem_free(copy);
}

static int take(const char *head, size_t bytes, int64_t file_bytes)
{
    struct st st;
    struct err err;

    if (parse(&st, head, bytes, file_bytes, &err))
        return 0;
    check(&st);
    st_release(&st);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    char *head = mem_new(bytes + 9, 1);
    if (bytes)
        memcpy(head + 8, data, bytes);
    io_put_le64((unsigned char *)head, bytes);
    int64_t data_bytes = data_end(head + 8);
    struct st st;
    struct err err;
    int taken = parse(&st, head, bytes + 8, (int64_t)bytes + 8 + data_bytes, &err) == 0;
    compare(head + 8, bytes, data_bytes, taken ? &st : NULL, &err);
    if (taken) {
        check(&st);
        st_release(&st);
    }
    /* A file's beginning, with the data behind it that its tensors ask for, or none. */
    taken |= take(head + 8, bytes, (int64_t)bytes);
    taken |= take(head + 8, bytes, (int64_t)bytes + (bytes > 8 ? data_end(head + 16) : 0));
    mem_free(head);
    return taken;
}

static const char three[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                            "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[22,23]}}";
static const char none[] = "{}";
static const char escapes[] =
    "{\"__metadata__\":{\"k\\u00e9\\ud83d\\ude00\":\"v\\n\"},\"\\\"a\":{\"dtype\":\"F32\","
    "\"shape\":[2, 10],\"data_offsets\":[0,80]} ,\n\"\xc3\xa9\":{\"data_offsets\":[80,81],"
    "\"shape\":[],\"dtype\":\"U8\"}}  ";

/* Each byte in turn made each of the bytes that matter; all may be refused. */
static void change_bytes(fuzz_add_f *add)
{
    static const char with[] = "\"\\{}[],: \n0a18-.eEuU/\x01\x7f\x80\xc3\xed\xf4\xff";

    (void)add;
    for (size_t at = 0; at < sizeof escapes - 1; at++)
        for (size_t k = 0; k < sizeof with - 1; k++) {
            char text[sizeof escapes];
            memcpy(text, escapes, sizeof text);
            text[at] = with[k];
            reader_fuzz_case((const uint8_t *)text, sizeof escapes - 1);
        }
}

FUZZ_SET(.name = "safetensors", .longest = 8192, .cases = 12000, .part = 50,
         .ends = " \n:,{}[]\"",
         .words = FUZZ_LIST("0", "-1", "1", "2", "4", "16", "23", "4611686018427387904", "F64",
                            "BOOL", "I64", "F4", "\"a\"", "\"dtype\"", "\"shape\"",
                            "9223372036854775807", "null", "1.5", "1e99", "\\u0000", "\xff",
                            "\"data_offsets\"", "[]", "{}"),
         .files = FUZZ_LIST("tests/data/safetensors/torch.safetensors"),
         .text = {FUZZ_TEXT(three), FUZZ_TEXT(escapes), FUZZ_TEXT(none)}, .more = change_bytes);
