/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads back what --emit prints: for every tool, shape of groups, strategy and type the review
 * finds the strategy that the emission says it runs, and its batch.  Each row of the table is
 * also written out as settings, and read as the row that it is.
 */
#include "unit.h"

#include "plan/plan_emit.h"
#include "plan/plan_review.h"
#include "plan_fixture.h"
#include "temp_fixture.h"

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Reads a file with no option given. */
static struct plan_strategy review_of(const char *path, const struct topo *t,
                                      struct plan_settings *s, struct plan_review *r)
{
    struct model m = bare(7e9);
    struct plan_strategy found;
    int level = PLAN_BOUNDARY_AUTO;

    *s = (struct plan_settings){.micro_batch = -1, .accum = -1};
    assert_ok(plan_review_read(r, path, &err));
    assert_ok(plan_review_apply(r, t, &m, s, &found, &level, &err));
    return found;
}

static void emit_and_review(const char *path, struct plan_search *s, enum plan_target target)
{
    const struct groups *g = &s->at.topo->groups;
    struct plan_settings read;
    struct plan_review r;
    FILE *f = fopen(path, "w");

    assert_ok(plan_search(s, &err));
    plan_emit(s, target, f);
    fclose(f);
    struct plan_strategy runs = s->list[plan_emit_closest(s, target)].strategy;
    struct plan_strategy found = review_of(path, s->at.topo, &read, &r);
    if (strcmp(plan_plain_name(found, g), plan_plain_name(runs, g)) != 0)
        fail_msg("%s on %dx%d, target %d: read as %s", plan_strategy_name(runs), g->count,
                 groups_largest(g), target, plan_strategy_name(found));
    assert_int_equal(read.micro_batch, s->at.micro_batch);
    assert_int_equal(read.accum, s->at.accum);
    assert_int_equal(read.param_type, s->at.param_type);
    if (target == PLAN_DEEPSPEED) {
        assert_int_equal(read.grad_type, s->at.grad_type);
        assert_int_equal(read.wire_type, s->at.wire_type);
    }
    plan_review_release(&r);
}

TEST(test_emitted_settings_are_read_back)
{
    static const char *const shapes[] = {"4x8", "2x2", "1x8", "8x1", "[8,8,7]"};
    static const enum plan_target read[] = {PLAN_DEEPSPEED, PLAN_MEGATRON};
    struct model m = bare(7e9);
    char path[TEMP_PATH];

    close(temp_file(path, "review"));
    for (int at = 0; at < 5 * 2 * PLAN_STRATEGIES; at++) {
        struct plan_search s;
        struct topo t;
        make_topo(&t, shapes[at % 5], 200e9, 25e9);
        for (int types = 0; types < 4; types++) {
            s = (struct plan_search){.at = table_case(&t, &m, 1 + 3 * (types & 1), 1),
                                     .fixed = 1};
            s.strategy = plan_strategy_at(at / 10);
            s.at.micro_batch = 3;
            s.at.grad_type = types & 2 ? DTYPE_F32 : DTYPE_BF16;
            s.at.wire_type = types & 1 ? DTYPE_F32 : DTYPE_BF16;
            enum plan_target target = read[at / 5 % 2];
            s.at.param_type = DTYPE_BF16;
            if (plan_row_next(target, NULL) && plan_emit_closest(&s, target) >= 0)
                emit_and_review(path, &s, target);
        }
        drop_topo(&t);
    }
    unlink(path);
}

/* Every row of DeepSpeed, accelerate and torchtitan as its own settings, whichever of them. */
TEST(test_rows_are_read_as_themselves)
{
    static const char *const shapes[] = {"4x8", "3x5"};
    char path[TEMP_PATH], value[PLAN_VALUE];
    int rows = 0;

    close(temp_file(path, "review"));
    for (int at = 0; at < 2 * PLAN_TOOLS; at++) {
        enum plan_target target = (enum plan_target)(at / 2);
        const struct plan_tool *tool = plan_tool(target);
        struct topo t;
        make_topo(&t, shapes[at % 2], 200e9, 25e9);
        for (const struct plan_row *row = NULL; (row = plan_row_next(target, row));) {
            struct plan_settings s;
            struct plan_review r;
            char *text = NULL;
            size_t bytes, open = 0;
            int json = target == PLAN_DEEPSPEED || target == PLAN_DEEPSPEED_PARO;
            int yaml = target == PLAN_ACCELERATE;
            if (!tool->keys || json || (target == PLAN_MEGATRON && !row->value[0]))
                continue; /* not read, or not one setting in a line */
            FILE *f = mem_stream(&text, &bytes);
            for (int k = 0; k < tool->keys; k++) {
                const char *dot = strchr(tool->key[k].path, '.');
                size_t n = yaml && dot ? (size_t)(dot - tool->key[k].path) : 0;
                if (!plan_row_value(row, k, &t.groups, value))
                    continue;
                if (n && n != open)
                    fprintf(f, "%.*s:\n", (int)n, tool->key[k].path);
                open = n;
                fprintf(f, "%s%s%s%.*s\n", n ? "  " : "", tool->key[k].path + (n ? n + 1 : 0),
                        tool->sets, (int)strcspn(value, "|"), value);
            }
            fclose(f);
            write_text(path, text);
            struct plan_strategy found = review_of(path, &t, &s, &r);
            if (strcmp(plan_strategy_name(found), row->strategy) != 0 ||
                (r.row->flags ^ row->flags) & (PLAN_ROW_KEEPS | PLAN_ROW_EACH))
                fail_msg("read as %s:\n%s", plan_strategy_name(found), text);
            assert_int_equal(s.keep > 0, row->flags & PLAN_ROW_KEEPS);
            plan_review_release(&r);
            mem_free(text);
            rows++;
        }
        drop_topo(&t);
    }
    assert_true(rows > 50);
    unlink(path);
}

/* Gradients of accelerate's FSDP are whole while several micro-steps accumulate. */
TEST(test_accumulation_of_accelerate)
{
    struct model m = bare(7e9);
    struct plan_settings s = {.micro_batch = 1, .accum = 4};
    struct plan_strategy found;
    struct plan_review r;
    struct topo t;
    char path[TEMP_PATH];
    int level = PLAN_BOUNDARY_AUTO;

    close(temp_file(path, "review"));
    make_topo(&t, "4x8", 200e9, 25e9);
    write_text(
        path, "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n");
    assert_ok(plan_review_read(&r, path, &err));
    assert_ok(plan_review_apply(&r, &t, &m, &s, &found, &level, &err));
    assert_string_equal(plan_strategy_name(found), "INI");
    plan_review_release(&r);
    drop_topo(&t);
    unlink(path);
}
