/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the format paro-tuning/1 (paro-tuning(5)), in and out: what is printed reads back as
 * the same table and prints as the same text.
 */
#include "pick/pick_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/yaml.h"

#define FORMAT "paro-tuning/1"

struct doc_rule {
    char *op, *from_bytes, *below_bytes, *algo, *chunk_bytes, *at_bytes, *time_s, *timed,
        *runner_up, *runner_up_s;
};

struct doc {
    char *format;
    char **members;
    unsigned members_count;
    struct doc_rule *rules;
    unsigned rules_count;
};

enum { WORD_BYTES = 80 };

#define TEXT(key, type, flags)                                                                 \
    CYAML_FIELD_STRING_PTR(#key, CYAML_FLAG_POINTER | (flags), struct type, key, 1, WORD_BYTES)

static const cyaml_schema_value_t number_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1, WORD_BYTES)};
static const cyaml_schema_field_t rule_fields[] = {
    TEXT(op, doc_rule, 0),
    TEXT(from_bytes, doc_rule, 0),
    TEXT(below_bytes, doc_rule, CYAML_FLAG_OPTIONAL),
    TEXT(algo, doc_rule, 0),
    TEXT(chunk_bytes, doc_rule, 0),
    TEXT(at_bytes, doc_rule, CYAML_FLAG_OPTIONAL),
    TEXT(time_s, doc_rule, CYAML_FLAG_OPTIONAL),
    TEXT(timed, doc_rule, CYAML_FLAG_OPTIONAL),
    TEXT(runner_up, doc_rule, CYAML_FLAG_OPTIONAL),
    TEXT(runner_up_s, doc_rule, CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t rule_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_rule, rule_fields)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(format, doc, 0),
    CYAML_FIELD_SEQUENCE("members", CYAML_FLAG_POINTER, struct doc, members, &number_schema, 1,
                         GROUPS_RANKS_MAX),
    CYAML_FIELD_SEQUENCE("rules", CYAML_FLAG_POINTER, struct doc, rules, &rule_schema, 1,
                         PICK_RULES_MAX),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

/* ---- reading ---- */

struct reader {
    const struct yaml *y;
    const struct doc *doc;
    struct layout layout; /* of the table's groups */
    struct err *err;
    char path[64];
};

static const char *path_of(struct reader *r, int i, const char *key)
{
    snprintf(r->path, sizeof r->path, "rules[%d].%s", i, key);
    return r->path;
}

static int read_groups(struct reader *r, struct pick_table *t)
{
    int *members = mem_new(r->doc->members_count, sizeof *members), rc = 0;
    int64_t ranks = 0, m = 0;

    for (int k = 0; k < (int)r->doc->members_count && rc == 0; k++) {
        snprintf(r->path, sizeof r->path, "members[%d]", k);
        rc = yaml_i64(r->y, r->path, r->doc->members[k], 1, GROUPS_RANKS_MAX, &m, r->err);
        members[k] = (int)m;
        ranks += m;
    }
    if (rc == 0 && ranks > GROUPS_RANKS_MAX)
        rc = yaml_fail(r->y, "members", r->err, "have %" PRId64 " ranks, expected at most %d",
                       ranks, GROUPS_RANKS_MAX);
    if (rc == 0)
        groups_init(&t->groups, (int)r->doc->members_count, members);
    mem_free(members);
    return rc;
}

/* From where to where; `before` is the rule before it, NULL for the first. */
static int read_range(struct reader *r, int i, const struct pick_rule *before,
                      struct pick_rule *to)
{
    const struct doc_rule *from = &r->doc->rules[i];
    int follows = before && before->phases == to->phases;
    int64_t want = follows ? before->below_bytes : 0;

    if (yaml_i64(r->y, path_of(r, i, "from_bytes"), from->from_bytes, 0, PICK_BYTES_MAX,
                 &to->from_bytes, r->err))
        return -1;
    if (follows && want == INT64_MAX)
        return yaml_fail(r->y, path_of(r, i, "op"), r->err,
                         "is '%s' as in rules[%d], which has no 'below_bytes' and so no rule"
                         " after it",
                         from->op, i - 1);
    if (to->from_bytes != want)
        return yaml_fail(r->y, r->path, r->err, "is %" PRId64 ", expected %" PRId64 ", %s",
                         to->from_bytes, want,
                         follows ? "where the rule before it ends"
                                 : "since it is the first rule of its op");
    to->below_bytes = INT64_MAX;
    if (!from->below_bytes)
        return 0;
    return yaml_i64(r->y, path_of(r, i, "below_bytes"), from->below_bytes, to->from_bytes + 1,
                    PICK_BYTES_MAX, &to->below_bytes, r->err);
}

static int read_chunk(struct reader *r, int i, struct pick_rule *to)
{
    const char *text = r->doc->rules[i].chunk_bytes;

    if (strcmp(text, "whole") == 0) {
        to->chunk_bytes = PICK_CHUNK_WHOLE;
        return 0;
    }
    if (text[0] < '0' || text[0] > '9')
        return yaml_fail(r->y, path_of(r, i, "chunk_bytes"), r->err,
                         "is '%s', expected a number of bytes or 'whole'", text);
    return yaml_i64(r->y, path_of(r, i, "chunk_bytes"), text, 1, PICK_BYTES_MAX,
                    &to->chunk_bytes, r->err);
}

static const char *const timed[] = {"simulated", "measured"};

static int read_timed(struct reader *r, int i, struct pick_rule *to)
{
    const struct doc_rule *from = &r->doc->rules[i];

    if (!from->timed)
        return 0;
    if (!from->time_s)
        return yaml_fail(r->y, path_of(r, i, "timed"), r->err, "is given without 'time_s'");
    to->measured = strcmp(from->timed, timed[1]) == 0;
    if (to->measured || strcmp(from->timed, timed[0]) == 0)
        return 0;
    return yaml_fail(r->y, path_of(r, i, "timed"), r->err,
                     "is '%s', expected 'simulated' or 'measured'", from->timed);
}

/* Why: nothing depends on it, but what is there must be true to its form. */
static int read_why(struct reader *r, int i, struct pick_rule *to)
{
    const struct doc_rule *from = &r->doc->rules[i];
    struct err why;

    to->runner_up = SCHEDULE_AUTO;
    if (!from->at_bytes != !from->time_s)
        return yaml_fail(r->y, path_of(r, i, from->at_bytes ? "at_bytes" : "time_s"), r->err,
                         "is given without '%s', expected both or neither",
                         from->at_bytes ? "time_s" : "at_bytes");
    if (!from->runner_up != !from->runner_up_s || (from->runner_up && !from->at_bytes))
        return yaml_fail(r->y, path_of(r, i, from->runner_up ? "runner_up" : "runner_up_s"),
                         r->err, "is given without '%s'",
                         !from->runner_up     ? "runner_up"
                         : !from->runner_up_s ? "runner_up_s"
                                              : "time_s");
    if (read_timed(r, i, to))
        return -1;
    if (!from->at_bytes)
        return 0;
    if (yaml_i64(r->y, path_of(r, i, "at_bytes"), from->at_bytes, 1, PICK_BYTES_MAX,
                 &to->at_bytes, r->err) ||
        yaml_f64(r->y, path_of(r, i, "time_s"), from->time_s, 0, 1e30, &to->time_s, r->err))
        return -1;
    if (!from->runner_up)
        return 0;
    if (schedule_algo_parse(from->runner_up, &to->runner_up, &why) ||
        to->runner_up == SCHEDULE_AUTO)
        return yaml_fail(r->y, path_of(r, i, "runner_up"), r->err,
                         "is '%s', expected an algorithm of 'paro-sched ls'", from->runner_up);
    return yaml_f64(r->y, path_of(r, i, "runner_up_s"), from->runner_up_s, 0, 1e30,
                    &to->runner_up_s, r->err);
}

/* Rule i begins an op: the one before it has ended, and it has not been there. */
static int check_new_op(struct reader *r, int i, const struct pick_table *t)
{
    if (t->rule[i - 1].below_bytes != INT64_MAX)
        return yaml_fail(r->y, path_of(r, i - 1, "below_bytes"), r->err,
                         "is present, expected the last rule of an op without it");
    for (int k = 0; k < i; k++)
        if (t->rule[k].phases == t->rule[i].phases)
            return yaml_fail(r->y, path_of(r, i, "op"), r->err,
                             "is '%s' as in rules[%d], expected the rules of one op together",
                             r->doc->rules[i].op, k);
    return 0;
}

static int read_rule(struct reader *r, int i, struct pick_table *t)
{
    const struct doc_rule *from = &r->doc->rules[i];
    struct pick_rule *to = &t->rule[i], *before = i ? to - 1 : NULL;
    struct err why;

    if (pick_phases_parse(from->op, &to->phases, &why))
        return yaml_fail(r->y, path_of(r, i, "op"), r->err, "is wrong: %s", why.text);
    if (before && before->phases != to->phases && check_new_op(r, i, t))
        return -1;
    if (read_range(r, i, before, to) || read_chunk(r, i, to))
        return -1;
    if (schedule_algo_parse(from->algo, &to->algo, &why) || to->algo == SCHEDULE_AUTO)
        return yaml_fail(r->y, path_of(r, i, "algo"), r->err,
                         "is '%s', expected an algorithm of 'paro-sched ls'", from->algo);
    if (pick_check(&r->layout, to->phases, to->algo, &why))
        return yaml_fail(r->y, path_of(r, i, "algo"), r->err, "cannot run this op: %s",
                         why.text);
    return read_why(r, i, to);
}

static int read_rules(struct reader *r, struct pick_table *t)
{
    int n = (int)r->doc->rules_count, rc = 0;

    t->rule = mem_new((size_t)n, sizeof *t->rule);
    t->rules = n;
    for (int i = 0; i < n && rc == 0; i++)
        rc = read_rule(r, i, t);
    if (rc == 0 && t->rule[n - 1].below_bytes != INT64_MAX)
        rc = yaml_fail(r->y, path_of(r, n - 1, "below_bytes"), r->err,
                       "is present, expected the last rule of an op without it");
    return rc;
}

static int read_doc(struct pick_table *t, const struct yaml *y, struct err *err)
{
    struct pick_table new = {0};
    struct doc *doc = NULL;

    if (yaml_format(y, FORMAT, err) || yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    struct reader r = {.y = y, .doc = doc, .err = err};
    int rc = read_groups(&r, &new);
    if (rc == 0) {
        layout_init(&r.layout, &new.groups);
        rc = read_rules(&r, &new);
        layout_release(&r.layout);
    }
    yaml_drop(&schema, doc);
    if (rc)
        pick_table_release(&new);
    else
        *t = new;
    return rc;
}

int pick_table_read(struct pick_table *t, const char *path, struct err *err)
{
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    int rc = read_doc(t, &y, err);
    yaml_release(&y);
    return rc;
}

int pick_table_parse(struct pick_table *t, const char *name, const char *text, struct err *err)
{
    struct yaml y;

    yaml_take(&y, name, mem_dup(text), (int64_t)strlen(text));
    int rc = read_doc(t, &y, err);
    yaml_release(&y);
    return rc;
}

/* ---- printing ---- */

static void put_number(FILE *out, const char *key, double v)
{
    fprintf(out, "    %s: ", key);
    yaml_put_f64(out, v);
    putc('\n', out);
}

static void print_yaml(const struct pick_table *t, FILE *out)
{
    struct pick_word word;

    fprintf(out, "format: " FORMAT "\nmembers: [");
    for (int k = 0; k < t->groups.count; k++)
        fprintf(out, "%s%d", k ? ", " : "", t->groups.members[k]);
    fputs("]\nrules:\n", out);
    for (int i = 0; i < t->rules; i++) {
        const struct pick_rule *r = &t->rule[i];
        fprintf(out, "  - op: %s\n", pick_phases_name(r->phases, &word));
        fprintf(out, "    from_bytes: %" PRId64 "\n", r->from_bytes);
        if (r->below_bytes != INT64_MAX)
            fprintf(out, "    below_bytes: %" PRId64 "\n", r->below_bytes);
        fprintf(out, "    algo: %s\n", schedule_algo_name(r->algo));
        if (r->chunk_bytes == PICK_CHUNK_WHOLE)
            fprintf(out, "    chunk_bytes: whole\n");
        else
            fprintf(out, "    chunk_bytes: %" PRId64 "\n", r->chunk_bytes);
        if (!r->at_bytes)
            continue;
        fprintf(out, "    at_bytes: %" PRId64 "\n", r->at_bytes);
        put_number(out, "time_s", r->time_s);
        if (r->measured) /* simulated is what is meant where nothing is said */
            fprintf(out, "    timed: %s\n", timed[1]);
        if (r->runner_up == SCHEDULE_AUTO)
            continue;
        fprintf(out, "    runner_up: %s\n", schedule_algo_name(r->runner_up));
        put_number(out, "runner_up_s", r->runner_up_s);
    }
}

static void json_rule(struct jout *j, const struct pick_rule *r)
{
    struct pick_word word;

    jout_open(j, NULL, '{');
    jout_text(j, "op", pick_phases_name(r->phases, &word));
    jout_int(j, "from_bytes", r->from_bytes);
    if (r->below_bytes != INT64_MAX)
        jout_int(j, "below_bytes", r->below_bytes);
    else
        jout_null(j, "below_bytes");
    jout_text(j, "algo", schedule_algo_name(r->algo));
    if (r->chunk_bytes != PICK_CHUNK_WHOLE)
        jout_int(j, "chunk_bytes", r->chunk_bytes);
    else
        jout_null(j, "chunk_bytes");
    if (r->at_bytes) {
        jout_int(j, "at_bytes", r->at_bytes);
        jout_num(j, "time_s", r->time_s);
        jout_text(j, "timed", timed[r->measured]);
    }
    if (r->at_bytes && r->runner_up != SCHEDULE_AUTO) {
        jout_text(j, "runner_up", schedule_algo_name(r->runner_up));
        jout_num(j, "runner_up_s", r->runner_up_s);
    }
    jout_close(j, '}');
}

static void print_json(const struct pick_table *t, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.tuning/1");
    jout_open(&j, "members", '[');
    for (int k = 0; k < t->groups.count; k++)
        jout_int(&j, NULL, t->groups.members[k]);
    jout_close(&j, ']');
    jout_open(&j, "rules", '[');
    for (int i = 0; i < t->rules; i++)
        json_rule(&j, &t->rule[i]);
    jout_close(&j, ']');
    jout_close(&j, '}');
}

static void print_text(const struct pick_table *t, FILE *out)
{
    struct units a, b, c, d;
    struct pick_word word;

    fprintf(out, "%-28s %10s %10s  %-22s %10s  %s\n", "op", "from", "below", "algo", "chunk",
            "why");
    for (int i = 0; i < t->rules; i++) {
        const struct pick_rule *r = &t->rule[i];
        fprintf(out, "%-28s %10s", pick_phases_name(r->phases, &word),
                units_bytes(&a, (double)r->from_bytes));
        fprintf(out, " %10s  %-22s %10s",
                r->below_bytes == INT64_MAX ? "-" : units_bytes(&a, (double)r->below_bytes),
                schedule_algo_name(r->algo),
                r->chunk_bytes == PICK_CHUNK_WHOLE ? "whole"
                                                   : units_bytes(&b, (double)r->chunk_bytes));
        if (r->at_bytes)
            fprintf(out, "  %s at %s", units_time(&c, r->time_s),
                    units_bytes(&d, (double)r->at_bytes));
        if (r->at_bytes && r->runner_up != SCHEDULE_AUTO)
            fprintf(out, ", %s %s", schedule_algo_name(r->runner_up),
                    units_time(&c, r->runner_up_s));
        if (r->measured)
            fprintf(out, ", %s", timed[1]);
        putc('\n', out);
    }
}

void pick_table_print(const struct pick_table *t, enum pick_format format, FILE *out)
{
    (format == PICK_YAML ? print_yaml : format == PICK_JSON ? print_json : print_text)(t, out);
}
