/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what can be set, from a YAML file and from options: one list for both. */
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/yaml.h"

struct setting {
    const char *name, *option;
    char kind;
    const char *value;
    double least, most;
};

static const struct setting settings[] = {
#define X_ROW(name, option, kind, value, least, most, text)                                    \
    {#name, option, #kind[0], value, least, most},
    TRAIN_SETTINGS(X_ROW)
#undef X_ROW
};

static const char *const schedules[TRAIN_SCHEDULES] = {"cosine", "linear", "wsd", "constant"};

struct texts {
    char *format;
#define X_TEXT(name, option, kind, value, least, most, text) char *name;
    TRAIN_SETTINGS(X_TEXT)
#undef X_TEXT
};

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

static int set_schedule(double *to, const char *text, struct err *err)
{
    for (int i = 0; i < TRAIN_SCHEDULES; i++)
        if (strcmp(text, schedules[i]) == 0) {
            *to = i;
            return 0;
        }
    return err_set(err, ERR_INPUT, "'%s', expected cosine, linear, wsd or constant", text);
}

static int set(double *to, const struct setting *s, const char *text, struct err *err)
{
    int64_t whole = 0;

    if (s->kind == 'S')
        return set_schedule(to, text, err);
    if (s->kind == 'F')
        return num_f64(text, s->least, s->most, to, err);
    if (num_count(text, (int64_t)s->least, (int64_t)s->most, &whole, err))
        return -1;
    *to = (double)whole;
    return 0;
}

static int set_from_file(double *value, int *there, const char *name, const char *text,
                         struct err *err)
{
    struct yaml y = {0};
    struct texts *t = NULL;
    int rc = -1;

    yaml_take(&y, name, mem_dup(text), (int64_t)strlen(text));
    if (yaml_format(&y, "paro-settings/1", err) || yaml_load(&y, &schema, (void **)&t, err))
        goto done;
    const char *given[] = {
#define X_GIVEN(name_, option, kind, value_, least, most, text_) t->name_,
        TRAIN_SETTINGS(X_GIVEN)
#undef X_GIVEN
    };
    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++) {
        struct err why = {0};
        if (given[i] && set(&value[i], &settings[i], given[i], &why)) {
            yaml_fail(&y, settings[i].name, err, "is %.500s", why.text);
            goto done;
        }
        there[i] |= given[i] != NULL;
    }
    rc = 0;
done:
    yaml_drop(&schema, t);
    yaml_release(&y);
    return rc;
}

int train_settings_init(struct train_settings *s, const struct train_text *files, int count,
                        const char *const *given, struct err *err)
{
    double value[TRAIN_SETTINGS_COUNT];
    int there[TRAIN_SETTINGS_COUNT] = {0};

    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++)
        if (set(&value[i], &settings[i], settings[i].value, err))
            return -1;
    for (int i = 0; i < count; i++)
        if (files[i].text && set_from_file(value, there, files[i].name, files[i].text, err))
            return -1;
    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++) {
        if (given[i] && set(&value[i], &settings[i], given[i], err))
            return err_prefix(err, "--%s: ", settings[i].option);
        there[i] |= given[i] != NULL;
    }
    *s = (struct train_settings){
#define X_VALUE(name, option, kind, value_, least, most, text_)                                \
    .name = value[TRAIN_SETTING_##name],
        TRAIN_SETTINGS(X_VALUE)
#undef X_VALUE
    };
    if (!there[TRAIN_SETTING_min_lr] && s->min_lr > s->lr)
        s->min_lr = s->lr;
    return 0;
}

const char *train_schedule_name(const struct train_settings *s)
{
    return schedules[(int)s->schedule];
}

void train_settings_print(const struct train_settings *s, FILE *out)
{
    const double value[] = {
#define X_PRINT(name, option, kind, value_, least, most, text_) s->name,
        TRAIN_SETTINGS(X_PRINT)
#undef X_PRINT
    };

    fprintf(out, "format: paro-settings/1\n");
    for (int i = 0; i < TRAIN_SETTINGS_COUNT; i++) {
        fprintf(out, "%s: ", settings[i].name);
        if (settings[i].kind == 'S')
            fputs(train_schedule_name(s), out);
        else
            yaml_put_f64(out, value[i]);
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
