/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the settings that a YAML file and options can set, and reads both from one list. */
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "value/value_yaml.h"

/* As texts of a file. */
struct texts {
    char *format;
#define X_TEXT(name, option, kind, value, least, most, text) char *name;
    TRAIN_SETTINGS(X_TEXT)
#undef X_TEXT
};

struct setting {
    const char *name, *option;
    char kind;
    const char *value;
    double least, most;
    size_t at; /* in struct texts */
};

static const struct setting settings[] = {
#define X_ROW(name, option, kind, value, least, most, text)                                    \
    {#name, option, #kind[0], value, least, most, offsetof(struct texts, name)},
    TRAIN_SETTINGS(X_ROW)
#undef X_ROW
};

/* The words of a kind, in the order of their values. */
static const struct words {
    char kind;
    int count;
    const char *const *word;
    const char *expected;
} words[] = {
    {'S', TRAIN_SCHEDULES, (const char *const[]){"cosine", "linear", "wsd", "constant"},
     "cosine, linear, wsd or constant"},
    {'D', TRAIN_DOCUMENTS, (const char *const[]){"join", "isolate"}, "join or isolate"},
};

static const struct words *words_of(char kind)
{
    return &words[kind == 'D'];
}

static const cyaml_schema_field_t fields[] = {
    CYAML_FIELD_STRING_PTR("format", CYAML_FLAG_POINTER, struct texts, format, 0, 64),
#define X_SCHEMA(name, option, kind, value, least, most, text)                                 \
    CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct texts,      \
                           name, 0, 64),
    TRAIN_SETTINGS(X_SCHEMA)
#undef X_SCHEMA
        CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct texts, fields),
};

/* Parses a number; the error names the setting. */
static int parse_setting(double *to, const struct setting *s, const char *text, struct err *err)
{
    int64_t whole = 0;

    if (s->kind == 'F')
        return num_f64(text, s->least, s->most, to, err);
    if (s->kind == 'I' || s->kind == 'N') {
        if (num_count(text, (int64_t)s->least, (int64_t)s->most, &whole, err))
            return s->kind == 'I' ? -1
                                  : err_set(err, ERR_INPUT,
                                            "'%.60s', expected a number of steps, %.0f or more",
                                            text, s->least);
        *to = (double)whole;
        return 0;
    }
    const struct words *w = words_of(s->kind);
    while (whole < w->count && strcmp(text, w->word[whole]))
        whole++;
    if (whole == w->count)
        return err_set(err, ERR_INPUT, "'%s', expected %s", text, w->expected);
    *to = (double)whole;
    return 0;
}

static int set_from_file(struct train_settings *s, const struct train_text *file,
                         struct err *err)
{
    struct yaml y = {0};
    struct texts *t = NULL;

    yaml_take(&y, file->name, mem_dup(file->text), (int64_t)strlen(file->text));
    int rc = yaml_format(&y, "paro-settings/1", err);
    rc = rc ? rc : yaml_load(&y, &schema, (void **)&t, err);
    for (int i = 0; rc == 0 && i < TRAIN_SETTINGS_COUNT; i++) {
        const char *text = *(char **)((char *)t + settings[i].at);
        struct err why = {0};
        if (text && parse_setting(&s->value[i], &settings[i], text, &why))
            rc = yaml_fail(&y, settings[i].name, err, "is %.500s", why.text);
    }
    yaml_drop(&schema, t);
    yaml_release(&y);
    return rc;
}

int train_settings_init(struct train_settings *s, const struct train_text *files, int count,
                        const char *const *given, struct err *err)
{
    struct train_settings new = {0};

    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++)
        if (parse_setting(&new.value[i], &settings[i], settings[i].value, err))
            return -1;
    double min_lr = new.min_lr;
    new.min_lr = NAN; /* not set so far */
    for (int i = 0; i < count; i++)
        if (files[i].text && set_from_file(&new, &files[i], err))
            return -1;
    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++)
        if (given[i] && parse_setting(&new.value[i], &settings[i], given[i], err))
            return err_prefix(err, "--%s: ", settings[i].option);
    if (isnan(new.min_lr))
        new.min_lr = fmin(min_lr, new.lr);
    *s = new;
    return 0;
}

const char *train_schedule_name(const struct train_settings *s)
{
    return words_of('S')->word[(int)s->schedule];
}

void train_settings_print(const struct train_settings *s, FILE *out)
{
    fprintf(out, "format: paro-settings/1\n");
    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++) {
        fprintf(out, "%s: ", settings[i].name);
        char kind = settings[i].kind;
        if (kind == 'S' || kind == 'D')
            fputs(words_of(kind)->word[(int)s->value[i]], out);
        else
            yaml_put_f64(out, s->value[i]);
        fprintf(out, "\n");
    }
}

int train_lr_same(const struct train_settings *a, const struct train_settings *b)
{
    int falls = b->schedule != TRAIN_CONSTANT;

    return a->lr == b->lr && a->warmup == b->warmup && a->schedule == b->schedule &&
           (!falls || (a->steps == b->steps && a->min_lr == b->min_lr)) &&
           (b->schedule != TRAIN_WSD || a->decay == b->decay);
}

double train_lr(const struct train_settings *s, int64_t step)
{
    double at = (double)step, begin = s->warmup;

    if (at <= s->warmup)
        return s->lr * at / s->warmup;
    if (s->schedule == TRAIN_WSD)
        begin = fmax(begin, (1 - s->decay) * s->steps);
    if (s->schedule == TRAIN_CONSTANT || at <= begin)
        return s->lr;
    double x = fmin((at - begin) / (s->steps > begin ? s->steps - begin : 1), 1);
    double rest = s->schedule == TRAIN_COSINE ? 0.5 * (1 + cos(M_PI * x)) : 1 - x;
    return s->min_lr + (s->lr - s->min_lr) * rest;
}
