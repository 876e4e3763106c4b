/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how tables of fields become files. */
#include "health/health_store.h"

#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "health/health_data.h"
#include "health/health_folder.h"

enum { TEXT_MOST = 512 };

int health_store_tail(const struct health_store *s, const char *text, int64_t bytes,
                      char line[HEALTH_TAIL])
{
    XXH128_hash_t h = XXH3_128bits(text, (size_t)bytes);

    return snprintf(line, HEALTH_TAIL,
                    s->yaml ? "checksum: %016" PRIx64 "%016" PRIx64 "\n"
                            : "{\"xxh3\":\"%016" PRIx64 "%016" PRIx64 "\"}\n",
                    (uint64_t)h.high64, (uint64_t)h.low64);
}

/* ---- writing ---- */

static void put_number(struct jout *j, const struct health_field *f, const char *key,
                       const char *at, int i)
{
    if (f->type == HEALTH_TYPE_REAL)
        jout_num(j, key, ((const double *)(const void *)at)[i]);
    else if (f->type == HEALTH_TYPE_I64)
        jout_int(j, key, ((const int64_t *)(const void *)at)[i]);
    else
        jout_int(j, key, ((const int *)(const void *)at)[i]);
}

static int numbers_of(const struct health_field *f, const char *item)
{
    return f->fixed ? f->fixed : f->each * *(const int *)(const void *)(item + f->count_at);
}

/* Of a member that is an int. */
static int int_at(const char *at)
{
    int v;

    memcpy(&v, at, sizeof v);
    return v;
}

static void put_json_field(struct jout *j, const struct health_field *f, const char *item)
{
    const char *at = item + f->at;
    char text[TEXT_MOST];

    switch (f->type) {
    case HEALTH_TYPE_BOOL:
        jout_bool(j, f->key, int_at(at));
        return;
    case HEALTH_TYPE_WORD:
        if (int_at(at))
            jout_bool(j, f->key, 1);
        return;
    case HEALTH_TYPE_TEXT:
    case HEALTH_TYPE_NAME:
        snprintf(text, sizeof text, "%s", at);
        utf8_clean(text);
        jout_text(j, f->key, text);
        return;
    case HEALTH_TYPE_LEVEL:
        jout_text(j, f->key, health_level_name((enum health_level)int_at(at)));
        return;
    case HEALTH_TYPE_PARTS:
        jout_open(j, f->key, '[');
        for (int p = 0; p < HEALTH_PARTS; p++)
            if ((unsigned)int_at(at) >> p & 1)
                jout_text(j, NULL, health_part_name((enum health_part)p));
        jout_close(j, ']');
        return;
    default:
        if (!f->fixed && !f->each) {
            put_number(j, f, f->key, at, 0);
            return;
        }
        jout_open(j, f->key, '[');
        for (int i = 0; i < numbers_of(f, item); i++)
            put_number(j, f, NULL, at, i);
        jout_close(j, ']');
    }
}

static void put_yaml_field(FILE *out, const char *indent, const struct health_field *f,
                           const char *item)
{
    const char *at = item + f->at;

    if (f->type == HEALTH_TYPE_WORD && !int_at(at))
        return;
    fprintf(out, "%s%s: ", indent, f->key);
    if (f->type == HEALTH_TYPE_WORD)
        fputs(f->word, out);
    else if (f->type == HEALTH_TYPE_NAME)
        yaml_put_text(out, at);
    else if (f->type == HEALTH_TYPE_REAL)
        yaml_put_f64(out, *(const double *)(const void *)at);
    else
        fprintf(out, "%" PRId64,
                f->type == HEALTH_TYPE_I64 ? *(const int64_t *)(const void *)at : int_at(at));
    putc('\n', out);
}

static void put_object(const struct health_store *s, const struct health_field *f,
                       const char *item, int is_head, FILE *out)
{
    struct jout j = {.file = out};

    if (!s->yaml) {
        jout_open(&j, NULL, '{');
        if (is_head)
            jout_text(&j, "format", s->format);
        for (; f->key; f++)
            put_json_field(&j, f, item);
        jout_close(&j, '}');
        return;
    }
    if (is_head)
        fprintf(out, "format: %s\n", s->format);
    for (const struct health_field *first = f; f->key; f++)
        put_yaml_field(out, is_head ? "" : f == first ? "  - " : "    ", f, item);
}

void *health_store_list(const struct health_kind *k, const void *whole, int *count)
{
    void *at;

    memcpy(&at, (const char *)whole + k->at, sizeof at);
    memcpy(count, (const char *)whole + k->count, sizeof *count);
    return at;
}

void health_store_print(const struct health_store *s, const void *whole, FILE *out)
{
    char *text = NULL, line[HEALTH_TAIL];
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    put_object(s, s->head, whole, 1, f);
    for (const struct health_kind *k = s->kind; k->key; k++) {
        int count;
        const char *at = health_store_list(k, whole, &count);
        if (s->yaml)
            fprintf(f, "%s:\n", k->list);
        for (int i = 0; i < count; i++)
            put_object(s, k->field, at + (size_t)i * k->size, 0, f);
    }
    fclose(f);
    health_store_tail(s, text, (int64_t)bytes, line);
    fwrite(text, 1, bytes, out);
    fputs(line, out);
    mem_free(text);
}

int health_store_read(const struct health_store *s, const char *path, void *whole,
                      struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;

    if (io_read_text(path, s->bytes_most, &text, &bytes, err))
        return -1;
    int rc = health_store_parse(s, path, text, bytes, whole, err);
    mem_free(text);
    return rc;
}

int health_store_write(const struct health_store *s, const void *whole, const char *path,
                       int force, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, path, force, err))
        return -1;
    health_store_print(s, whole, out.file);
    return health_file_commit(&out, err);
}
