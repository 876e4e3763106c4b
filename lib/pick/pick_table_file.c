/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and prints paro-tuning/1 (paro-tuning(5)): a printed table reads back as an equal table
 * and prints as an equal text.  Also prints the answers of paro-sched pick.
 */
#include "pick/pick_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "value/value_yaml.h"

#define FORMAT "paro-tuning/1"

enum { WORD_BYTES = 80 };

static const char *const timed[] = {"simulated", "measured"};

/* ---- reading ---- */

struct reader {
    const struct tree *t;
    struct layout layout; /* layout of the table's groups */
    struct err *err;
};

static int table_file_read_groups(const struct reader *r, const struct tree_node *list,
                                  struct pick_table *t)
{
    int *members = mem_new((size_t)list->items, sizeof *members), rc = 0, k = 0;
    int64_t ranks = 0;

    for (const struct tree_node *n = list->child; n && rc == 0; n = n->next) {
        rc = tree_int(r->t, n, 1, GROUPS_RANKS_MAX, &members[k], r->err);
        ranks += members[k++];
    }
    if (rc == 0 && ranks > GROUPS_RANKS_MAX)
        rc = tree_fail(r->t, list, NULL, r->err, "have %" PRId64 " ranks, expected at most %d",
                       ranks, GROUPS_RANKS_MAX);
    if (rc == 0)
        groups_init(&t->groups, list->items, members);
    mem_free(members);
    return rc;
}

static int read_algo(const struct reader *r, const struct tree_node *n,
                     enum schedule_algo *algo)
{
    const char *text = "";
    struct err why;

    if (tree_text(r->t, n, 1, WORD_BYTES, &text, r->err))
        return -1;
    return schedule_algo_parse(text, algo, &why) || *algo == SCHEDULE_AUTO
               ? tree_fail(r->t, n, NULL, r->err,
                           "is '%s', expected an algorithm of 'paro-sched ls'", text)
               : 0;
}

/* Checks that the last rule of an operation has no end; n: its position for errors. */
static int check_last(const struct reader *r, const struct tree_node *n,
                      const struct pick_rule *rule)
{
    return rule->below_bytes == INT64_MAX
               ? 0
               : tree_fail(r->t, tree_get(n, "below_bytes"), NULL, r->err,
                           "is present, expected the last rule of an op without it");
}

/* Reads the operation of the rule at n; `before` is the previous rule: an operation's rules are
   consecutive. */
static int read_op(const struct reader *r, const struct tree_node *n,
                   const struct tree_node *before, struct pick_table *t)
{
    struct pick_rule *to = &t->rule[t->rules];
    const struct tree_node *op = tree_get(n, "op");
    const char *text = "";
    struct err why;

    if (tree_text(r->t, op, 1, WORD_BYTES, &text, r->err))
        return -1;
    if (pick_phases_parse(text, &to->phases, &why))
        return tree_fail(r->t, op, NULL, r->err, "is wrong: %s", why.text);
    if (t->rules == 0 || to[-1].phases == to->phases)
        return 0;
    if (check_last(r, before, to - 1))
        return -1;
    for (int k = 0; k < t->rules; k++)
        if (t->rule[k].phases == to->phases)
            return tree_fail(r->t, op, NULL, r->err,
                             "is '%s' as in rules[%d], expected the rules of one op together",
                             text, k);
    return 0;
}

/* Reads the range of sizes. */
static int read_range(const struct reader *r, const struct tree_node *n, struct pick_table *t)
{
    struct pick_rule *to = &t->rule[t->rules];
    const struct tree_node *from = tree_get(n, "from_bytes"), *op = tree_get(n, "op");
    int follows = t->rules > 0 && to[-1].phases == to->phases;
    int64_t want = follows ? to[-1].below_bytes : 0;

    if (tree_i64(r->t, from, 0, PICK_BYTES_MAX, &to->from_bytes, r->err))
        return -1;
    if (want == INT64_MAX)
        return tree_fail(r->t, op, NULL, r->err,
                         "is '%s' as in rules[%d], which has no 'below_bytes' and so no rule"
                         " after it",
                         op->text, t->rules - 1);
    if (to->from_bytes != want)
        return tree_fail(r->t, from, NULL, r->err, "is %" PRId64 ", expected %" PRId64 ", %s",
                         to->from_bytes, want,
                         follows ? "where the rule before it ends"
                                 : "since it is the first rule of its op");
    to->below_bytes = INT64_MAX;
    return tree_i64(r->t, tree_get(n, "below_bytes"), want + 1, PICK_BYTES_MAX,
                    &to->below_bytes, r->err);
}

static int read_chunk(const struct reader *r, const struct tree_node *n, struct pick_rule *to)
{
    const char *text = "";

    if (tree_text(r->t, n, 1, WORD_BYTES, &text, r->err))
        return -1;
    to->chunk_bytes = PICK_CHUNK_WHOLE;
    if (strcmp(text, "whole") == 0)
        return 0;
    if (text[0] < '0' || text[0] > '9')
        return tree_fail(r->t, n, NULL, r->err,
                         "is '%s', expected a number of bytes or 'whole'", text);
    return tree_i64(r->t, n, 1, PICK_BYTES_MAX, &to->chunk_bytes, r->err);
}

/* Reads the reason, which has no effect but must be well-formed. */
static int read_why(const struct reader *r, const struct tree_node *n, struct pick_rule *to)
{
    static const char *const needs[][2] = {
        {"at_bytes", "time_s"},       {"time_s", "at_bytes"},       {"timed", "time_s"},
        {"runner_up", "runner_up_s"}, {"runner_up_s", "runner_up"}, {"runner_up", "time_s"}};
    const struct tree_node *second = tree_get(n, "runner_up");

    to->runner_up = SCHEDULE_AUTO;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (tree_get(n, needs[i][0]) && !tree_get(n, needs[i][1]))
            return tree_fail(r->t, tree_get(n, needs[i][0]), NULL, r->err,
                             "is given without '%s'", needs[i][1]);
    if (tree_choice(r->t, tree_get(n, "timed"), timed, 2, &to->measured, r->err) ||
        tree_i64(r->t, tree_get(n, "at_bytes"), 1, PICK_BYTES_MAX, &to->at_bytes, r->err) ||
        tree_f64(r->t, tree_get(n, "time_s"), 0, 1e30, &to->time_s, r->err))
        return -1;
    if (second && read_algo(r, second, &to->runner_up))
        return -1;
    return tree_f64(r->t, tree_get(n, "runner_up_s"), 0, 1e30, &to->runner_up_s, r->err);
}

static int read_rule(const struct reader *r, const struct tree_node *n,
                     const struct tree_node *before, struct pick_table *t)
{
    struct pick_rule *to = &t->rule[t->rules];
    const struct tree_node *algo = tree_get(n, "algo");
    struct err why;

    if (tree_keys(r->t, n,
                  "op from_bytes below_bytes? algo chunk_bytes at_bytes? time_s? timed?"
                  " runner_up? runner_up_s?",
                  r->err) ||
        read_op(r, n, before, t) || read_range(r, n, t) ||
        read_chunk(r, tree_get(n, "chunk_bytes"), to) || read_algo(r, algo, &to->algo))
        return -1;
    if (pick_check(&r->layout, to->phases, to->algo, &why))
        return tree_fail(r->t, algo, NULL, r->err, "cannot run this op: %s", why.text);
    return read_why(r, n, to);
}

static int read_rules(const struct reader *r, const struct tree_node *list,
                      struct pick_table *t)
{
    const struct tree_node *before = NULL;

    t->rule = mem_new((size_t)list->items, sizeof *t->rule);
    for (const struct tree_node *n = list->child; n; before = n, n = n->next, t->rules++)
        if (read_rule(r, n, before, t))
            return -1;
    return check_last(r, before, &t->rule[t->rules - 1]);
}

static int table_file_read_doc(struct pick_table *t, const struct yaml *y, struct err *err)
{
    const struct tree_node *root = y->tree.root, *members = tree_get(root, "members");
    const struct tree_node *rules = tree_get(root, "rules");
    struct reader r = {.t = &y->tree, .err = err};
    struct pick_table new = {0};

    if (yaml_format(y, FORMAT, err) || tree_keys(&y->tree, root, "format members rules", err) ||
        tree_list(&y->tree, members, 1, GROUPS_RANKS_MAX, err) ||
        tree_list(&y->tree, rules, 1, PICK_RULES_MAX, err))
        return -1;
    int rc = table_file_read_groups(&r, members, &new);
    if (rc == 0) {
        layout_init(&r.layout, &new.groups);
        rc = read_rules(&r, rules, &new);
        layout_release(&r.layout);
    }
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
    int rc = table_file_read_doc(t, &y, err);
    yaml_release(&y);
    return rc;
}

int pick_table_parse(struct pick_table *t, const char *name, const char *text, struct err *err)
{
    struct yaml y;

    yaml_take(&y, name, mem_dup(text), (int64_t)strlen(text));
    int rc = table_file_read_doc(t, &y, err);
    yaml_release(&y);
    return rc;
}

/* ---- printing: YAML omits unknown values and defaults ---- */

static void put_rule(struct jout *j, const struct pick_rule *r)
{
    struct pick_word word;

    jout_open(j, NULL, '{');
    jout_plain(j, "op", pick_phases_name(r->phases, &word));
    jout_int(j, "from_bytes", r->from_bytes);
    if (r->below_bytes != INT64_MAX)
        jout_int(j, "below_bytes", r->below_bytes);
    else if (!j->yaml)
        jout_null(j, "below_bytes");
    jout_text(j, "algo", schedule_algo_name(r->algo));
    if (r->chunk_bytes != PICK_CHUNK_WHOLE)
        jout_int(j, "chunk_bytes", r->chunk_bytes);
    else if (j->yaml)
        jout_text(j, "chunk_bytes", "whole");
    else
        jout_null(j, "chunk_bytes");
    if (r->at_bytes) {
        jout_int(j, "at_bytes", r->at_bytes);
        jout_num(j, "time_s", r->time_s);
        if (r->measured || !j->yaml)
            jout_text(j, "timed", timed[r->measured]);
    }
    if (r->at_bytes && r->runner_up != SCHEDULE_AUTO) {
        jout_text(j, "runner_up", schedule_algo_name(r->runner_up));
        jout_num(j, "runner_up_s", r->runner_up_s);
    }
    jout_close(j, '}');
}

static void table_file_print_text(const struct pick_table *t, FILE *out)
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
    struct jout j = {.file = out, .pretty = 1, .yaml = format == PICK_YAML};

    if (format == PICK_TEXT) {
        table_file_print_text(t, out);
        return;
    }
    jout_open(&j, NULL, '{');
    if (j.yaml)
        jout_text(&j, "format", FORMAT);
    else
        jout_text(&j, "schema", "paro.tuning/1");
    jout_open(&j, "members", '[');
    for (int k = 0; k < t->groups.count; k++)
        jout_int(&j, NULL, t->groups.members[k]);
    jout_close(&j, ']');
    jout_open(&j, "rules", '[');
    for (int i = 0; i < t->rules; i++)
        put_rule(&j, &t->rule[i]);
    jout_end(&j);
}

int pick_report(const struct pick_request *r, FILE *out, struct err *err)
{
    struct pick_answer *list = NULL;
    struct pick_table table = {0};
    struct pick_query query;
    struct topo t = {0};
    int answers = 0, rc = 0;

    pick_query_init(&query);
    query.min_bytes = r->min_bytes ? r->min_bytes : query.min_bytes;
    query.max_bytes = r->max_bytes ? r->max_bytes : query.max_bytes;
    query.factor = r->factor ? (int)r->factor : query.factor;
    if (!r->tuning &&
        (pick_query_check(&query, err) || (r->ops && pick_query_parse(&query, r->ops, err)) ||
         topo_read(&t, r->topo, err)))
        return -1;
    if (r->tuning) {
        rc = pick_table_read(&table, r->tuning, err);
    } else if (r->table) {
        if (!r->ops)
            pick_query_moves(&query, &t.groups);
        rc = pick_table_make(&t, &query, &table, err);
    } else {
        rc = pick_list(&t, &query, &list, &answers, err);
        if (rc == 0)
            (r->json ? pick_list_print_json : pick_list_print)(&t, list, answers, out);
    }
    if (rc == 0 && !list)
        pick_table_print(&table, r->json ? PICK_JSON : r->table ? PICK_YAML : PICK_TEXT, out);
    mem_free(list);
    pick_table_release(&table);
    topo_release(&t);
    return rc;
}
