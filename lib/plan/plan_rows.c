/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generates the rows of a planned step and prints them; reads the rows of a step with their
 * plan, verifies and draws them.  The plan determines the step's shape, its units and their
 * costs; the rows may come from any source.
 */
#include "plan/plan_rows.h"

#include <stdlib.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "value/value_tree.h"
#include "plan/plan_timeline.h"

/* Sets the shape, without rows. */
static void shape_init(struct plan_rows *r, const struct plan_cost *b)
{
    int units = b->step.shape.units;

    r->shape = b->step.shape;
    r->shape.trains = r->trains = mem_new((size_t)units, sizeof *r->trains);
    for (int u = 0; u < units; u++)
        r->trains[u] = b->traffic->span[b->traffic->span_of[u]].elems[PLAN_TRAINED] > 0;
}

void plan_rows_init(struct plan_rows *r, const struct plan_cost *b, int micros)
{
    shape_init(r, b);
    r->shape.micros = micros;
    step_gen(&r->step, &r->shape);
}

void plan_rows_release(struct plan_rows *r)
{
    step_release(&r->step);
    mem_free(r->trains);
}

static const char *rows_unit_name(const struct plan_search *s, int unit)
{
    const struct model *m = s->at.model;

    return unit < 0 ? NULL : m->unit ? m->unit[unit].name : "all";
}

static void rows_put_number(int v, FILE *out)
{
    if (v < 0)
        fprintf(out, " %6s", "-");
    else
        fprintf(out, " %6d", v);
}

/* Returns the plan as text; owned by the caller. */
static char *plan_text(const struct plan_search *s)
{
    struct model model = *s->at.model; /* moved into the plan, and moved back below */
    struct plan plan;
    char *text;
    size_t bytes;
    FILE *f = mem_stream(&text, &bytes);

    plan_init(&plan, s, &model);
    plan_print(&plan, f);
    fclose(f);
    plan.model = (struct model){0};
    plan_release(&plan);
    return text;
}

static void rows_print_text(const struct plan_search *s, const struct step *step, FILE *out)
{
    fprintf(out, "%s: %d rows, %d slots for gathered units, %d gradient buckets\n",
            plan_strategy_name(s->list[s->best].strategy), step->rows, step->slots,
            step->buckets);
    fprintf(out, "%6s %-12s %-12s %6s %6s  %-13s %5s  %s\n", "row", "lane", "kind", "micro",
            "buffer", "after", "visit", "unit");
    for (int i = 0; i < step->rows; i++) {
        const struct step_row *r = &step->row[i];
        const char *unit = rows_unit_name(s, r->unit);
        fprintf(out, "%6d %-12s %-12s", i, step_lane_name((enum step_lane)r->lane),
                step_kind_name(r));
        rows_put_number(r->micro, out);
        rows_put_number(r->buffer, out);
        for (int k = 0; k < STEP_AFTERS; k++)
            rows_put_number(r->after[k], out);
        rows_put_number(r->visit, out);
        fprintf(out, "  %s\n", unit ? unit : "-");
    }
    char *plan = plan_text(s);
    fprintf(out, "\n%s", plan);
    mem_free(plan);
}

static void rows_print_json(const struct plan_search *s, const struct step *step, FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.steps/1");

    jout_text(&j, "strategy", plan_strategy_name(s->list[s->best].strategy));
    jout_int(&j, "slots", step->slots);
    jout_int(&j, "buckets", step->buckets);
    jout_open(&j, "rows", '[');
    for (int i = 0; i < step->rows; i++) {
        const struct step_row *r = &step->row[i];
        jout_open(&j, NULL, '{');
        jout_text(&j, "lane", step_lane_name((enum step_lane)r->lane));
        jout_text(&j, "kind", step_kind_name(r));
        jout_known(&j, "unit", r->unit);
        jout_text(&j, "name", rows_unit_name(s, r->unit));
        jout_known(&j, "visit", r->visit);
        jout_known(&j, "micro", r->micro);
        jout_known(&j, "buffer", r->buffer);
        jout_open(&j, "after", '[');
        for (int k = 0; k < STEP_AFTERS; k++)
            if (r->after[k] >= 0)
                jout_int(&j, NULL, r->after[k]);
        jout_close(&j, ']');
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    char *plan = plan_text(s);
    jout_text(&j, "plan", plan);
    mem_free(plan);
    jout_close(&j, '}');
}

int plan_rows_print(const struct plan_search *s, int json, FILE *out, struct err *err)
{
    double uses =
        2.0 * plan_micro_steps(&s->at.settings) * (s->at.model->unit ? s->at.model->visits : 1);

    struct plan_traffic traffic;
    struct plan_rows rows;

    if (uses > STEP_USES_MAX)
        return err_set(err, ERR_INPUT,
                       "--steps: %.0f uses of units in a step, expected %d at most", uses,
                       STEP_USES_MAX);
    plan_traffic_init(&traffic, s->at.topo, s->at.model, &s->at.settings);
    struct plan_cost b =
        plan_cost_of(&s->at, &traffic, s->list[s->best].strategy, s->list[s->best].algo);
    plan_rows_init(&rows, &b, b.step.shape.micros);
    int rc = step_verify(&rows.step, &rows.shape, err);
    if (rc == 0)
        (json ? rows_print_json : rows_print_text)(s, &rows.step, out);
    plan_rows_release(&rows);
    plan_traffic_release(&traffic);
    return rc;
}

/* ---- reading ---- */

struct plan_steps { /* the parsed output of plan_rows_print */
    struct plan plan;
    struct topo topo; /* for the times: the fabric given, or one without rates */
    struct plan_search search;
    struct plan_rows rows; /* the plan's shape; the rows are read, and may be wrong */
};

enum { WORD = 15, UNIT_NAME = 255, SLOTS_MAX = 1 << 20, NUMBER_MAX = 1 << 28 };
static const char PLAN[] = "\nformat: paro-plan/";

int plan_rows_are(const char *text)
{
    size_t line = strcspn(text, "\n"), space = strspn(text, " \t\r\n");
    const char *rows = strstr(text, " rows, ");

    if (text[space] == '{')
        return strstr(text, "\"paro.plan.steps/1\"") != NULL;
    return rows && rows < text + line;
}

static int set_names(struct step_row *row, const char *lane, const char *kind)
{
    row->lane = row->kind = 0;
    while (row->lane < STEP_LANES && strcmp(lane, step_lane_name((enum step_lane)row->lane)))
        row->lane++;
    while (row->kind < STEP_KINDS && strcmp(kind, step_kind_name(row)))
        row->kind++;
    return row->lane < STEP_LANES && row->kind < STEP_KINDS ? 0 : -1;
}

/* Parses a number >= 0, or "-". */
static int parse_number(const char *word, int *out)
{
    char *end = NULL;
    long v = strcmp(word, "-") == 0 ? -1 : strtol(word, &end, 10);

    *out = (int)v;
    return end && (*end || end == word || v < 0 || v > NUMBER_MAX) ? -1 : 0;
}

/* -1: "-", no unit; -2: not the name of a unit. */
static int rows_unit_of(const struct model *m, const char *name)
{
    if (!m->unit && strcmp(name, "all") == 0)
        return 0;
    for (int u = 0; m->unit && u < m->units; u++)
        if (strcmp(name, m->unit[u].name) == 0)
            return u;
    return strcmp(name, "-") == 0 ? -1 : -2;
}

/* Parses a line of the table, "row lane kind micro buffer after after visit unit". */
static int rows_parse_line(const struct model *m, const char *line, int number,
                           struct step_row *row)
{
    char lane[16], kind[16], unit[UNIT_NAME + 1], word[5][12];
    int *const to[5] = {&row->micro, &row->buffer, &row->after[0], &row->after[1], &row->visit};
    int at, end = 0, bad = 0;

    if (sscanf(line, "%d %15s %15s %11s %11s %11s %11s %11s %255s%n", &at, lane, kind, word[0],
               word[1], word[2], word[3], word[4], unit, &end) != 9 ||
        line[end] || at != number || set_names(row, lane, kind))
        return -1;
    for (int k = 0; k < 5; k++)
        bad |= parse_number(word[k], to[k]);
    row->unit = rows_unit_of(m, unit);
    return bad || row->unit == -2 ? -1 : 0;
}

/* Parses the plan after the rows, with rows replaced by blank lines so that messages have the
   file's line numbers. */
static int parse_plan(struct plan_steps *s, const char *name, const char *text,
                      const char *plan, struct err *err)
{
    size_t lines = 0, bytes = strlen(plan);

    for (const char *p = text; p < plan; p++)
        lines += *p == '\n';
    char *copy = mem_new(lines + bytes + 1, 1);
    memset(copy, '\n', lines);
    memcpy(copy + lines, plan, bytes);
    int rc = plan_parse(&s->plan, name, copy, (int64_t)(lines + bytes), err);
    mem_free(copy);
    return rc;
}

static int rows_parse_text(struct plan_steps *s, const char *name, const char *text,
                           struct err *err)
{
    struct step *step = &s->rows.step;
    const char *plan = strstr(text, PLAN);
    char strategy[4], *copy, *rest = NULL;
    int end = 0, line = 1;

    if (!plan)
        return err_at(err, name, 1, NULL,
                      "rows of a step without their plan, expected"
                      " 'format: paro-plan/1' after the rows");
    if (sscanf(text, "%3s: %d rows, %d slots for gathered units, %d gradient buckets%n",
               strategy, &step->rows, &step->slots, &step->buckets, &end) != 4 ||
        text[end] != '\n')
        return err_at(err, name, 1, NULL,
                      "expected 'STRATEGY: N rows, N slots for gathered"
                      " units, N gradient buckets'");
    if (parse_plan(s, name, text, plan + 1, err))
        return -1;
    /* A row is a line of 60 bytes at least: do not allocate more rows than the text can
       have. */
    if (step->rows < 0 || step->rows > (plan - text) / 32)
        return err_at(err, name, 1, NULL, "%d rows, expected as many as lines follow",
                      step->rows);
    step->row = mem_new((size_t)step->rows + 1, sizeof *step->row);
    copy = mem_new((size_t)(plan - text) + 1, 1);
    memcpy(copy, text, (size_t)(plan - text));
    int rc = 0, n = 0;
    strtok_r(copy, "\n", &rest);
    strtok_r(NULL, "\n", &rest); /* column names */
    for (char *at; rc == 0 && (at = strtok_r(NULL, "\n", &rest)); n++) {
        line = n + 3;
        if (n == step->rows || rows_parse_line(&s->plan.model, at, n, &step->row[n]))
            rc = err_at(err, name, line, NULL,
                        "no row %d, expected row lane kind micro buffer"
                        " after after visit unit",
                        n);
    }
    if (rc == 0 && n < step->rows)
        rc = err_at(err, name, line, NULL, "ends after %d rows, expected %d", n, step->rows);
    mem_free(copy);
    return rc;
}

static int rows_read_row(const struct tree *t, const struct tree_node *n, struct step_row *row,
                         struct err *err)
{
    const char *lane = NULL, *kind = NULL;
    const struct tree_node *after = tree_get(n, "after"), *one = after ? after->child : NULL;
    const struct {
        const char *key;
        int *to;
    } numbers[] = {{"unit", &row->unit},
                   {"visit", &row->visit},
                   {"micro", &row->micro},
                   {"buffer", &row->buffer}};

    if (tree_keys(t, n, "lane kind unit name? visit micro buffer after", err) ||
        tree_text(t, tree_get(n, "lane"), 1, WORD, &lane, err) ||
        tree_text(t, tree_get(n, "kind"), 1, WORD, &kind, err) ||
        tree_list(t, after, 0, STEP_AFTERS, err))
        return -1;
    if (!lane || !kind || !after || set_names(row, lane, kind))
        return tree_fail(t, n, NULL, err, "has no lane, kind and list after of a step's row");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i].to = -1; /* null */
        if (tree_int(t, tree_get(n, numbers[i].key), 0, NUMBER_MAX, numbers[i].to, err))
            return -1;
    }
    for (int k = 0; k < STEP_AFTERS; k++, one = one ? one->next : NULL) {
        row->after[k] = -1;
        if (tree_int(t, one, 0, NUMBER_MAX, &row->after[k], err))
            return -1;
    }
    return 0;
}

static int rows_read_rows(struct plan_steps *s, const struct tree *t, struct err *err)
{
    struct step *step = &s->rows.step;
    static const char *const never_null[] = {"slots", "buckets", "rows", "plan"};
    const struct tree_node *rows = tree_get(t->root, "rows");
    const char *plan = "";
    int i = 0;

    if (tree_keys(t, t->root, "schema strategy? slots buckets rows plan", err))
        return -1;
    for (int k = 0; k < 4; k++)
        if (!tree_get(t->root, never_null[k]))
            return tree_fail(t, t->root, never_null[k], err, "is null, expected a value");
    if (tree_list(t, rows, 0, NUMBER_MAX, err) ||
        tree_int(t, tree_get(t->root, "slots"), 0, NUMBER_MAX, &step->slots, err) ||
        tree_int(t, tree_get(t->root, "buckets"), 0, NUMBER_MAX, &step->buckets, err) ||
        tree_text(t, tree_get(t->root, "plan"), 0, SIZE_MAX, &plan, err) ||
        plan_parse(&s->plan, t->name, plan, (int64_t)strlen(plan), err))
        return -1;
    step->rows = rows ? rows->items : 0;
    step->row = mem_new((size_t)step->rows + 1, sizeof *step->row);
    for (const struct tree_node *n = rows ? rows->child : NULL; n; n = n->next)
        if (rows_read_row(t, n, &step->row[i++], err))
            return -1;
    return 0;
}

static int set_fabric(struct plan_steps *s, const char *topo, struct err *err)
{
    char is[128], expected[128];

    if (!topo) {
        topo_init_rateless(&s->topo, &s->plan.groups);
        return 0;
    }
    if (topo_read(&s->topo, topo, err))
        return -1;
    if (groups_equal(&s->topo.groups, &s->plan.groups))
        return 0;
    groups_print(&s->topo.groups, is, sizeof is);
    groups_print(&s->plan.groups, expected, sizeof expected);
    return err_set(err, ERR_INPUT, "a fabric of groups %s, expected %s, the step's", is,
                   expected);
}

static void steps_release(struct plan_steps *s)
{
    plan_rows_release(&s->rows);
    topo_release(&s->topo);
    plan_release(&s->plan);
}

/* topo: operand of topo_read, a fabric with the plan's groups; NULL: none. */
static int steps_parse(struct plan_steps *s, const char *name, const char *text, int64_t bytes,
                       const char *topo, struct err *err)
{
    struct tree t;
    struct step read;

    *s = (struct plan_steps){.rows = {.trains = NULL}};
    if ((int64_t)strlen(text) != bytes)
        return err_at(err, name, 1, NULL, "expected text without zero bytes");
    int rc = 0;
    if (text[strspn(text, " \t\r\n")] != '{') {
        rc = rows_parse_text(s, name, text, err);
    } else if (tree_parse_json(&t, name, 1, text, bytes, err)) {
        rc = -1;
    } else {
        rc = rows_read_rows(s, &t, err);
        tree_release(&t);
    }
    read = s->rows.step;
    s->rows.step = (struct step){.row = NULL};
    if (rc == 0 && (read.slots < 0 || read.slots > SLOTS_MAX || read.buckets < 0 ||
                    read.buckets > PLAN_BUCKETS_MAX))
        rc =
            err_set(err, ERR_INPUT, "'%s': %d slots and %d buckets, expected at most %d and %d",
                    name, read.slots, read.buckets, SLOTS_MAX, PLAN_BUCKETS_MAX);
    rc = rc ? rc : set_fabric(s, topo, err);
    if (rc == 0) {
        struct plan_traffic traffic;
        plan_case_of(&s->plan, &s->topo, &s->search.at);
        s->search.list[0] = s->plan.price;
        plan_traffic_init(&traffic, &s->topo, &s->plan.model, &s->plan.settings);
        struct plan_cost b =
            plan_cost_of(&s->search.at, &traffic, s->plan.strategy, s->plan.algo);
        shape_init(&s->rows, &b);
        plan_traffic_release(&traffic);
    }
    read.norm = -1;
    for (int i = 0; rc == 0 && i < read.rows && read.norm < 0; i++)
        read.norm = read.row[i].kind == STEP_NORM ? i : -1;
    s->rows.step = read;
    if (rc)
        steps_release(s);
    return rc;
}

int plan_steps_verify(const char *name, const char *text, int64_t bytes, int json, FILE *out,
                      struct err *err)
{
    struct jout j = {.file = out, .pretty = 1};
    struct plan_steps s;

    if (steps_parse(&s, name, text, bytes, NULL, err))
        return -1;
    const char *strategy = plan_strategy_name(s.plan.strategy);
    const struct step *step = &s.rows.step;
    int wrong = step_verify(step, &s.rows.shape, err) != 0;
    if (!json && wrong) {
        fprintf(out, "wrong: %s\n", err->text);
    } else if (!json) {
        fprintf(out,
                "proven: step %s: %d rows, %d slots for gathered units, %d gradient buckets\n",
                strategy, step->rows, step->slots, step->buckets);
    } else {
        jout_open(&j, NULL, '{');
        jout_text(&j, "schema", "paro.sched.verify/1");
        jout_bool(&j, "proven", !wrong);
        jout_text(&j, "wrong", wrong ? err->text : NULL);
        jout_text(&j, "op", "step");
        jout_text(&j, "strategy", strategy);
        jout_int(&j, "rows", step->rows);
        jout_int(&j, "slots", step->slots);
        jout_int(&j, "buckets", step->buckets);
        jout_close(&j, '}');
    }
    steps_release(&s);
    return wrong;
}

int plan_steps_draw(const char *name, const char *text, int64_t bytes, const char *topo,
                    int json, FILE *out, struct err *err)
{
    struct plan_timeline line;
    struct plan_steps s;

    if (steps_parse(&s, name, text, bytes, topo, err))
        return -1;
    int rc = step_verify(&s.rows.step, &s.rows.shape, err);
    if (rc == 0) {
        plan_timeline_of(&s.search.at, &s.search.list[0], &s.rows.step, &line);
        if (json)
            plan_timeline_print_json(&s.search, &line, out);
        else
            rc = plan_timeline_draw(&s.search, &line, out, err);
        plan_timeline_release(&line);
    } else {
        err_prefix(err, "'%s': ", name);
    }
    steps_release(&s);
    return rc;
}
