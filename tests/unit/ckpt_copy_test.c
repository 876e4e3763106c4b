/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where copies lie: for all ranks of equal and ragged groups, placed by slot and by node, and
 * every number of copies there is room for, by counting and not by the rule; and what a
 * manifest may say of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "temp_fixture.h"
#include "words_fixture.h"

enum { RANKS_MAX = 33 };

static const char *const shapes[] = {"2",         "5",       "1x2",  "2x1",     "2x2",
                                     "3x3",       "2x5",     "5x2",  "[3,2]",   "[1,4]",
                                     "[4,1]",     "[2,1,3]", "7x3",  "[8,8,7]", "[5,1,1,1]",
                                     "[1,1,6,2]", "33",      "33x1", "[1,32]"};

/* Copies 0 ... K of each rank are K + 1 ranks, in as many groups as there are. */
static void check_apart(const struct groups *g)
{
    for (int r = 0; r < g->ranks; r++) {
        char rank_has[RANKS_MAX] = {0}, group_has[RANKS_MAX] = {0};
        assert_int_equal(ckpt_copy_holder(g, r, 0), r);
        for (int k = 0; k < g->ranks; k++) {
            int holder = ckpt_copy_holder(g, r, k);
            assert_in_range(holder, 0, g->ranks - 1);
            assert_false(rank_has[holder]);
            rank_has[holder] = 1;
            if (k < g->count)
                assert_false(group_has[g->group_of[holder]]);
            group_has[g->group_of[holder]] = 1;
        }
    }
}

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

/*
 * Of another group, whose members share out a group's shards by their places, a member of m
 * holds at most its share of theirs, rounded up.
 */
static void check_even(const struct groups *g)
{
    for (int k = 1; k < g->ranks; k++) {
        int held[RANKS_MAX] = {0}, equal = 1;
        for (int r = 0; r < g->ranks; r++)
            held[ckpt_copy_holder(g, r, k)]++;
        for (int i = 1; i < g->count; i++)
            equal &= g->members[i] == g->members[0];
        for (int r = 0; r < g->ranks; r++) {
            int m = g->members[g->group_of[r]], most = 0;
            for (int i = 0; i < g->count; i++) {
                int share = ceil_div(g->members[i], m);
                most = k < g->count ? share > most ? share : most : most + share;
            }
            assert_in_range(held[r], 0, most);
            if (equal)
                assert_int_equal(held[r], 1);
        }
    }
}

static void test_holders(void **state)
{
    struct groups g, by_node;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        assert_int_equal(groups_parse(&g, shapes[i], &err), 0);
        check_apart(&g);
        check_even(&g);
        /* The same groups, dealt out in turn. */
        int group_of[RANKS_MAX], n = 0;
        for (int j = 0; n < g.ranks; j++)
            for (int k = 0; k < g.count; k++)
                if (j < g.members[k])
                    group_of[n++] = k;
        assert_int_equal(groups_init_of(&by_node, n, group_of, &err), 0);
        check_apart(&by_node);
        check_even(&by_node);
        groups_release(&by_node);
        groups_release(&g);
    }
}

static void test_places(void **state)
{
    struct groups g;
    struct err err;
    static const char *const paths[] = {
        "d/shard-00002.safetensors", "d/shard-00003.copy-00002.safetensors",
        "d/shard-00000.copy-00002.safetensors", "d/shard-00004.copy-00002.safetensors"};

    (void)state;
    assert_int_equal(groups_parse(&g, "[3,2]", &err), 0);
    for (int k = 0; k <= 4; k++)
        assert_int_equal(ckpt_check_copies(&g, k, &err), 0);
    assert_int_equal(ckpt_check_copies(&g, 5, &err), -1);
    assert_words(err.text, "5 copies, 0 to 4 5 ranks");
    assert_int_equal(ckpt_check_copies(&g, -1, &err), -1);
    for (int k = 0; k < 4; k++) { /* rank 2: place 2 of group 0 */
        char *path = ckpt_shard_path("d", &g, 2, k);
        assert_string_equal(path, paths[k]);
        mem_free(path);
    }
    groups_release(&g);
    assert_int_equal(groups_parse(&g, "100", &err), 0);
    assert_int_equal(ckpt_check_copies(&g, CKPT_COPIES_MAX, &err), 0);
    assert_int_equal(ckpt_check_copies(&g, CKPT_COPIES_MAX + 1, &err), -1);
    groups_release(&g);
}

/* Some values, all the same. */
static int fill(void *arg, int unit, int state, struct range at, void *out, struct err *err)
{
    (void)arg;
    (void)unit;
    (void)state;
    (void)err;
    memset(out, 0, (size_t)(at.hi - at.lo) * sizeof(float));
    return 0;
}

/* The checkpoint of two ranks, in a new folder. */
static void write_two(char dir[TEMP_PATH], struct model *m)
{
    static const char config[] =
        "{\"model_type\":\"llama\",\"vocab_size\":13,\"hidden_size\":6,"
        "\"intermediate_size\":5,\"num_hidden_layers\":2,\"num_attention_heads\":3}";
    struct layout layout;
    struct groups g;
    struct err err;
    char *entry[2] = {NULL, NULL};

    temp_folder(dir, "paro-copies");
    assert_int_equal(model_parse(m, "c.json", config, (int64_t)strlen(config), &err), 0);
    assert_int_equal(groups_parse(&g, "2x1", &err), 0);
    layout_init(&layout, &g);
    struct ckpt_shape shape = {m, &layout, "IIG", 1, {{"params", DTYPE_F32}}, 0};
    struct io_dir to = temp_open(dir);
    for (int r = 0; r < 2; r++)
        assert_int_equal(ckpt_write_shard(&to, r, &shape, fill, NULL, &entry[r], &err), 0);
    assert_int_equal(
        ckpt_manifest_write(&to, &shape, (const char *const *)entry, NULL, NULL, &err), 0);
    io_dir_leave(&to);
    mem_free(entry[0]);
    mem_free(entry[1]);
    groups_release(&g);
    layout_release(&layout);
}

/* The manifest with `key` put in before its runs, and its checksum right. */
static void put_manifest(const char *path, const char *text, const char *key)
{
    const char *run = strstr(text, ",\n\"run\""), *end = strstr(text, ",\n\"checksum\"");
    char hash[33];
    char *other = mem_new(strlen(text) + strlen(key) + 99, 1);
    int n = sprintf(other, "%.*s%s%.*s", (int)(run - text), text, key, (int)(end - run), run);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    ckpt_hash(other, n, hash);
    fprintf(f, "%s,\n\"checksum\": \"%s\"\n}\n", other, hash);
    fclose(f);
    mem_free(other);
}

/* As an older manifest is. */
static void forget_config(char *text)
{
    char *key = strstr(text, ",\n\"config_xxh3\""), *run = strstr(text, ",\n\"run\"");

    assert_non_null(key);
    assert_true(run > key);
    memmove(key, run, strlen(run) + 1);
}

/* Two ranks have room for one copy; what an int does not hold is too many too. */
static void test_hostile(void **state)
{
    static const char *const says[] = {
        "-1", "2", "64", "65", "4294967297", "1e3", "\"1\"", "99999999999999999999", "[1]"};
    struct model m;
    struct err err;
    struct ckpt c;
    char dir[TEMP_PATH], key[99], *text = NULL;
    int64_t bytes = 0;

    (void)state;
    write_two(dir, &m);
    char *path = io_join(dir, "manifest.json");
    assert_int_equal(io_read_text(path, 1 << 20, &text, &bytes, &err), 0);
    forget_config(text);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        sprintf(key, ",\n\"copies\":%s", says[i]);
        put_manifest(path, text, key);
        assert_int_equal(ckpt_open(&c, dir, NULL, &err), -1);
        assert_int_equal(err.code, ERR_INPUT);
        assert_non_null(strstr(err.text, "manifest.json"));
    }
    sprintf(key, ",\n\"copies\":1,\"config_xxh3\":\"%032d\"", 0);
    put_manifest(path, text, key);
    assert_int_equal(ckpt_open(&c, dir, NULL, &err), -1);
    assert_words(err.text, "config.json: damaged");
    /* One is well-formed: its files are looked for when they are needed. */
    put_manifest(path, text, ",\n\"copies\":1");
    assert_int_equal(ckpt_open(&c, dir, NULL, &err), 0);
    assert_int_equal(c.copies, 1);
    ckpt_close(&c);
    put_manifest(path, text, "");
    assert_int_equal(ckpt_open(&c, dir, NULL, &err), 0);
    assert_int_equal(c.copies, 0);
    ckpt_close(&c);
    assert_int_equal(io_remove_tree(dir, &err), 0);
    model_release(&m);
    mem_free(text);
    mem_free(path);
}

/* The manifest with something else in place of `was`. */
static void put_instead(const char *path, const char *text, const char *was, const char *is)
{
    const char *at = strstr(text, was);
    char *other = mem_new(strlen(text) + strlen(is) + 1, 1);

    assert_non_null(at);
    sprintf(other, "%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
    put_manifest(path, other, "");
    mem_free(other);
}

/* Where a run stood, in place of null; what would count over 2^63 soon is refused. */
static void test_run(void **state)
{
    static const struct {
        const char *run;
        int64_t step; /* -1: refused */
    } says[] = {
        {"{\"step\":7,\"tokens\":9,\"position\":7,\"seed\":3}", 7},
        {"{\"step\":1000000000000000000,\"tokens\":1000000000000000000,\"position\":0,"
         "\"seed\":9223372036854775807}",
         1000000000000000000},
        {"{\"step\":1000000000000000001,\"tokens\":9,\"position\":7,\"seed\":3}", -1},
        {"{\"step\":7,\"tokens\":9223372036854775807,\"position\":7,\"seed\":3}", -1},
        {"{\"step\":7,\"tokens\":9,\"position\":-1,\"seed\":3}", -1},
#define OF(tokens, seq, sum)                                                                   \
    "{\"step\":7,\"tokens\":9,\"position\":7,\"seed\":3,\"data\":{\"tokens\":" tokens          \
    ",\"seq\":" seq ",\"xxh3\":\"" sum "\"}}"
        {OF("9", "4", "fedcba9876543210"), 7},
        {OF("-1", "4", "fedcba9876543210"), -1},
        {OF("9", "0", "fedcba9876543210"), -1},
        {OF("9", "4", "fedcba987654321"), -1},
        {OF("9", "4", "fedcba987654321G"), -1},
#undef OF
    };
    struct model m;
    struct err err;
    struct ckpt c;
    char dir[TEMP_PATH], *text = NULL;
    int64_t bytes = 0;

    (void)state;
    write_two(dir, &m);
    char *path = io_join(dir, "manifest.json");
    assert_int_equal(io_read_text(path, 1 << 20, &text, &bytes, &err), 0);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        put_instead(path, text, "null", says[i].run);
        assert_int_equal(ckpt_open(&c, dir, NULL, &err), says[i].step < 0 ? -1 : 0);
        if (says[i].step < 0) {
            assert_non_null(strstr(err.text, ", expected 0 to 1e18"));
            continue;
        }
        assert_true(c.has_run && c.run.step == says[i].step);
        int told = strstr(says[i].run, "data") != NULL;
        assert_true(c.run.data_seq == 4 * told && c.run.data_tokens == 9 * told);
        assert_true(c.run.data_sum == (told ? UINT64_C(0xfedcba9876543210) : 0));
        ckpt_close(&c);
    }
    assert_int_equal(io_remove_tree(dir, &err), 0);
    model_release(&m);
    mem_free(text);
    mem_free(path);
}

/* What merge would write twice is refused; a file's header and its rest are two. */
static void test_sources(void **state)
{
#define ITEM(name, header, rest)                                                               \
    "{\"name\":\"" name "\",\"header\":" header ",\"rest\":" rest                              \
    ",\"bytes\":1,\"whole\":1,\"xxh3\":\"00000000000000000000000000000000\"}"
    static const struct {
        const char *list;
        int rc;
    } says[] = {
        {"[" ITEM("a", "true", "false") "," ITEM("a", "false", "true") "]", 0},
        {"[" ITEM("a", "false", "false") "," ITEM("b", "false", "false") "]", 0},
        {"[" ITEM("a", "true", "false") "," ITEM("b", "false", "false") "," ITEM("a", "true",
                                                                                 "false") "]",
         -1},
        {"[" ITEM("a", "true", "false") "," ITEM("a", "false", "false") "]", -1},
        {"[" ITEM("a", "false", "true") "," ITEM("a", "false", "true") "]", -1},
    };
#undef ITEM
    struct model m;
    struct err err;
    struct ckpt c;
    char dir[TEMP_PATH], *text = NULL;
    int64_t bytes = 0;

    (void)state;
    write_two(dir, &m);
    char *path = io_join(dir, "manifest.json");
    assert_int_equal(io_read_text(path, 1 << 20, &text, &bytes, &err), 0);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        put_instead(path, text, "[]", says[i].list);
        assert_int_equal(ckpt_open(&c, dir, NULL, &err), says[i].rc);
        if (says[i].rc)
            assert_words(err.text, "source 'a' twice");
        else
            ckpt_close(&c);
    }
    assert_int_equal(io_remove_tree(dir, &err), 0);
    model_release(&m);
    mem_free(text);
    mem_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holders), cmocka_unit_test(test_places),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_run),
        cmocka_unit_test(test_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
