/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests where copies lie: for all ranks of equal and ragged groups, placed by slot and by node,
 * and every number of copies there is room for, by counting and not by the rule; and what a
 * manifest may say of them.
 */
#include "unit.h"

#include "ckpt_fixture.h"
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

/* In another group, whose members share out a group's shards by their places, a member of m
   holds at most its share of theirs, rounded up. */
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

TEST(test_holders)
{
    struct groups g, by_node;

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        assert_ok(groups_parse(&g, shapes[i], &err));
        check_apart(&g);
        check_even(&g);
        /* The same groups, dealt out in turn. */
        int group_of[RANKS_MAX], n = 0;
        for (int j = 0; n < g.ranks; j++)
            for (int k = 0; k < g.count; k++)
                if (j < g.members[k])
                    group_of[n++] = k;
        assert_ok(groups_init_of(&by_node, n, group_of, &err));
        check_apart(&by_node);
        check_even(&by_node);
        groups_release(&by_node);
        groups_release(&g);
    }
}

TEST(test_places)
{
    struct groups g;
    static const char *const paths[] = {
        "d/shard-00002.safetensors", "d/shard-00003.copy-00002.safetensors",
        "d/shard-00000.copy-00002.safetensors", "d/shard-00004.copy-00002.safetensors"};

    assert_ok(groups_parse(&g, "[3,2]", &err));
    for (int k = 0; k <= 4; k++)
        assert_ok(ckpt_check_copies(&g, k, &err));
    assert_refused(ckpt_check_copies(&g, 5, &err), "5 copies, 0 to 4 5 ranks");
    assert_int_equal(ckpt_check_copies(&g, -1, &err), -1);
    for (int k = 0; k < 4; k++) { /* rank 2: place 2 of group 0 */
        char *path = ckpt_shard_path("d", &g, 2, k);
        assert_string_equal(path, paths[k]);
        mem_free(path);
    }
    groups_release(&g);
    assert_ok(groups_parse(&g, "100", &err));
    assert_ok(ckpt_check_copies(&g, CKPT_COPIES_MAX, &err));
    assert_int_equal(ckpt_check_copies(&g, CKPT_COPIES_MAX + 1, &err), -1);
    groups_release(&g);
}

#define RUN  "{\"step\":7,\"tokens\":9,\"position\":7,\"seed\":3"
#define COPY ",\n\"copies\":"
#define DATA(tokens, seq, sum)                                                                 \
    RUN ",\"data\":{\"tokens\":" tokens ",\"seq\":" seq ",\"xxh3\":\"" sum "\"}}"
#define KEPT(name, header, rest)                                                               \
    "{\"name\":\"" name "\",\"header\":" header ",\"rest\":" rest                              \
    ",\"bytes\":1,\"whole\":1,\"xxh3\":\"00000000000000000000000000000000\"}"
#define HEADER(name) KEPT(name, "true", "false")
#define REST(name)   KEPT(name, "false", "true")
#define FILE_(name)  KEPT(name, "false", "false")

/* Replacements in a manifest, and the words by which it is refused (NULL: it is
   well-formed).  Two ranks have room for one copy; a number that an int does not hold is too
   many too.  A run's count that soon is over 2^63 is refused, and so is a file that merge
   would write twice. */
static const struct {
    const char *was, *is, *words;
} says[] = {
    {"", COPY "-1", "manifest.json"},
    {"", COPY "2", "manifest.json"},
    {"", COPY "64", "manifest.json"},
    {"", COPY "65", "manifest.json"},
    {"", COPY "4294967297", "manifest.json"},
    {"", COPY "1e3", "manifest.json"},
    {"", COPY "\"1\"", "manifest.json"},
    {"", COPY "99999999999999999999", "manifest.json"},
    {"", COPY "[1]", "manifest.json"},
    {"", COPY "1,\"config_xxh3\":\"00000000000000000000000000000000\"", "config.json: damaged"},
    {"", COPY "1", NULL}, /* its files are looked for when they are needed */
    {"null", RUN "}", NULL},
    {"null",
     "{\"step\":1000000000000000000,\"tokens\":1000000000000000000,\"position\":0,"
     "\"seed\":9223372036854775807}",
     NULL},
    {"null", "{\"step\":1000000000000000001,\"tokens\":9,\"position\":7,\"seed\":3}",
     "'run.step' expected"},
    {"null", "{\"step\":7,\"tokens\":9223372036854775807,\"position\":7,\"seed\":3}",
     "'run.tokens' expected"},
    {"null", "{\"step\":7,\"tokens\":9,\"position\":-1,\"seed\":3}", "'run.position' -1"},
    {"null", DATA("9", "4", "fedcba9876543210"), NULL},
    {"null", DATA("-1", "4", "fedcba9876543210"), "'run.data.tokens' -1"},
    {"null", DATA("9", "0", "fedcba9876543210"), "'run.data.seq' 0"},
    {"null", DATA("9", "4", "fedcba987654321"), "'run.data.xxh3' 16 digits"},
    {"null", DATA("9", "4", "fedcba987654321G"), "'run.data.xxh3' 16 digits"},
    {"[]", "[" HEADER("a") "," REST("a") "]", NULL}, /* a file's header and its rest are two */
    {"[]", "[" FILE_("a") "," FILE_("b") "]", NULL},
    {"[]", "[" HEADER("a") "," FILE_("b") "," HEADER("a") "]", "source 'a' twice"},
    {"[]", "[" HEADER("a") "," FILE_("a") "]", "source 'a' twice"},
    {"[]", "[" REST("a") "," REST("a") "]", "source 'a' twice"},
};

/* The manifest, as an older one is, with `is` in place of `was` ("": of the config's
 * checksum). */
static void put_instead(const char *path, const char *text, const char *was, const char *is)
{
    const char *key = strstr(text, ",\n\"config_xxh3\""), *run = strstr(text, ",\n\"run\"");
    const char *end = strstr(text, ",\n\"checksum\""), *at = strstr(text, was);
    char *other = mem_new(strlen(text) + strlen(is) + 1, 1);
    int n = sprintf(other, "%.*s%s%.*s", (int)(key - text), text, *was ? "" : is,
                    (int)((*was ? at : end) - run), run);

    assert_true(key && run > key && end > run && (!*was || at > run));
    if (*was)
        n += sprintf(other + n, "%s%.*s", is, (int)(end - at - (int)strlen(was)),
                     at + strlen(was));
    put_manifest(path, other, n);
    mem_free(other);
}

TEST(test_manifests)
{
    struct fixture f;
    struct ckpt c;
    char *text = NULL;
    int64_t bytes = 0;

    write_ckpt(&f, "2x1", "all", NULL);
    char *path = io_join(f.dir, "manifest.json");
    assert_ok(io_read_text(path, 1 << 20, &text, &bytes, &err));
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        put_instead(path, text, says[i].was, says[i].is);
        assert_int_equal(ckpt_open(&c, f.dir, NULL, &err), says[i].words ? -1 : 0);
        if (says[i].words) {
            assert_words(err.text, says[i].words);
            continue;
        }
        int run = strcmp(says[i].was, "null") == 0, data = strstr(says[i].is, "data") != NULL;
        assert_int_equal(c.copies, strcmp(says[i].is, COPY "1") == 0);
        assert_int_equal(c.has_run, run);
        assert_int_equal(c.run.step,
                         run ? strtoll(says[i].is + strlen("{\"step\":"), NULL, 10) : 0);
        assert_true(c.run.data_seq == 4 * data && c.run.data_tokens == 9 * data);
        assert_true(c.run.data_sum == (data ? UINT64_C(0xfedcba9876543210) : 0));
        ckpt_close(&c);
    }
    clean(&f);
    mem_free(text);
    mem_free(path);
}
