/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests reports of NCCL RAS: counts of calls, which show who has not come, and what differs. */
#include "watch_verdict_fixture.h"

enum { REDUCES, GATHERS, BROADCASTS, COUNTS };

struct counts {
    int rank;
    long of[COUNTS]; /* AllReduce, AllGather, Broadcast */
};

struct missing {
    int rank, unresponsive, dead;
};

/* A communicator as ncclras writes it: two ranks on a host, a process each. */
static void write_comm(FILE *f, int which, int size, const struct counts *c, int n,
                       const struct missing *m, int gone)
{
    fprintf(f,
            "%s{\"hash\": \"0x%x\", \"secondary_hash\": \"0x1:0x2\", \"size\": %d, "
            "\"ranks_count\": %d, \"missing_ranks_count\": %d, \"ranks\": [",
            which ? ",\n" : "", 0xabc + which, size, n, gone);
    for (int i = 0; i < n; i++)
        fprintf(
            f,
            "%s{\"rank\": %d, \"host\": \"10.0.0.%d\", \"pid\": %d, \"cuda_dev\": 0, "
            "\"nvml_dev\": 0, \"status\": {\"init_state\": 0, \"async_error\": 0}, "
            "\"collective_counts\": {\"Broadcast\": %ld, \"Reduce\": 0, \"AllGather\": %ld, "
            "\"ReduceScatter\": 0, \"AllReduce\": %ld, \"SendRecv\": 77}}",
            i ? ",\n" : "", c[i].rank, c[i].rank / 2, 100 + c[i].rank, c[i].of[BROADCASTS],
            c[i].of[GATHERS], c[i].of[REDUCES]);
    fprintf(f, "], \"missing_ranks\": [");
    for (int i = 0; i < gone; i++)
        fprintf(f,
                "%s{\"rank\": %d, \"host\": \"10.0.0.%d\", \"pid\": %d, \"cuda_dev\": 0, "
                "\"status\": {\"unresponsive\": %s, \"considered_dead\": %s}}",
                i ? ", " : "", m[i].rank, m[i].rank / 2, 100 + m[i].rank,
                m[i].unresponsive ? "true" : "false", m[i].dead ? "true" : "false");
    fprintf(f, "]}");
}

static FILE *out;

static void begin(void)
{
    out = unit_stream();
    fprintf(out, "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators\": [\n");
}

static void judge(void)
{
    fprintf(out, "], \"ras\": {\"timeouts_count\": 0}}\n");
    char *text = unit_text(out);
    w.now_ns = INT64_C(1700000000000000000);
    assert_ok(watch_read_json(&w, "ras.json", text, (int64_t)strlen(text), &err));
    free(text);
    judge_calls();
}

/* A report of one communicator, all of whose ranks answer. */
static void judge_comm(int size, const struct counts *c)
{
    begin();
    write_comm(out, 0, size, c, size, NULL, 0);
    judge();
}

TEST(equal_counts_show_nothing)
{
    const struct counts c[] = {{0, {10, 2, 1}}, {1, {10, 2, 1}}, {2, {10, 2, 1}}};

    judge_comm(3, c);
    assert_int_equal(v.findings, 0);
    assert_string_equal(v.why, "the records have no times");
    release();
}

TEST(the_rank_with_the_fewest_calls_is_waited_for)
{
    const struct counts c[] = {
        {0, {12, 2, 1}}, {1, {11, 2, 1}}, {2, {10, 2, 1}}, {3, {12, 2, 1}}};

    judge_comm(4, c);
    found(WATCH_HUNG, 2, HEALTH_WARNING,
          "hung, or dumped while it ran: ranks 0-1, 3 wait in all-reduce 11, rank 2 (10.0.0.1)"
          " never arrived, it has launched 10 all-reduces");
}

/* Ranks run ahead by different operations, in one order: all-reduces, then all-gathers. */
TEST(ranks_that_run_ahead_are_no_mismatch)
{
    const struct counts c[] = {{0, {10, 2, 0}}, {1, {11, 2, 0}}, {2, {11, 7, 0}}};

    judge_comm(3, c);
    found(WATCH_HUNG, 0, HEALTH_WARNING, "ranks 1-2 wait in all-reduce 11, rank 0");
}

TEST(a_rank_that_has_launched_nothing)
{
    const struct counts c[] = {{0, {0, 1, 0}}, {1, {0, 0, 0}}};

    judge_comm(2, c);
    found(WATCH_HUNG, 1, HEALTH_WARNING,
          "in all-gather 1, rank 1 (10.0.0.0) never arrived, it"
          " has launched 0 all-gathers");
}

/* Rank 0 waits for 1, which waits for 3 in another communicator. */
TEST(of_two_communicators_the_rank_is_named_that_waits_nowhere)
{
    const struct counts first[] = {{0, {5, 0, 0}}, {1, {4, 0, 0}}},
                        other[] = {{1, {0, 8, 0}}, {3, {0, 7, 0}}, {0, {0, 7, 0}}};

    begin();
    write_comm(out, 0, 2, first, 2, NULL, 0);
    write_comm(out, 1, 4, other, 2, NULL, 0);
    judge();
    found(WATCH_HUNG, 3, HEALTH_WARNING,
          "rank 1 (10.0.0.0) waits in all-gather 8, rank 3 (10.0.0.1) never arrived");
}

/* With two hangs and no communicator of all ranks: a rank that is gone is certain. */
TEST(of_two_hangs_the_one_with_a_lost_rank_is_reported)
{
    const struct counts first[] = {{0, {5, 0, 0}}, {1, {4, 0, 0}}}, other[] = {{2, {0, 8, 0}}};
    const struct missing lost[] = {{3, 0, 1}};

    begin();
    write_comm(out, 0, 2, first, 2, NULL, 0);
    write_comm(out, 1, 4, other, 1, lost, 1);
    judge();
    found(WATCH_FAILED, 3, HEALTH_CRITICAL,
          "failed: rank 3 (10.0.0.1): NCCL considers it dead");
}

TEST(counts_that_no_order_explains_are_a_mismatch)
{
    struct counts c[] = {{0, {10, 2, 0}}, {1, {10, 2, 0}}, {2, {9, 2, 1}}, {3, {10, 5, 0}}};

    judge_comm(4, c);
    found(WATCH_MISMATCH, 2, HEALTH_CRITICAL,
          "rank 2 (10.0.0.1) called broadcast, the others all-reduce");
    c[2].of[REDUCES] = 5; /* it has called less than all others */
    judge_comm(4, c);
    found(WATCH_MISMATCH, 2, HEALTH_CRITICAL,
          "rank 2 (10.0.0.1) called broadcast, the others all-reduce");
}

TEST(ranks_that_nccl_does_not_reach)
{
    const struct counts c[] = {{0, {10, 0, 0}}, {1, {12, 0, 0}}}, none[] = {{0, {0}}, {1, {0}}};
    struct missing m[] = {{2, 1, 1}, {3, 0, 0}};

    begin();
    write_comm(out, 0, 4, c, 2, m, 2); /* rank 3 answers, and has left */
    judge();
    found(WATCH_FAILED, 2, HEALTH_CRITICAL,
          "failed: rank 2 (10.0.0.1): NCCL considers it dead");
    m[0].dead = 0;
    begin();
    write_comm(out, 0, 4, c, 2, m, 1);
    judge();
    found(WATCH_FAILED, 2, HEALTH_CRITICAL, "rank 2 (10.0.0.1): it does not answer NCCL");
    begin();
    write_comm(out, 0, 4, none, 2, m, 1);
    judge();
    found(WATCH_FAILED, 2, HEALTH_CRITICAL, "rank 2 (10.0.0.1): it does not answer NCCL");
    m[0].unresponsive = 0;
    begin();
    write_comm(out, 0, 4, c, 1, m, 2);
    judge();
    assert_int_equal(v.findings, 0);
    release();
}

/* One rank fails by itself, the others lose it: the cause is named, and each reason once. */
TEST(an_error_of_a_rank_comes_before_those_that_follow_from_it)
{
    static const int errors[2][4] = {{6, 3, 6, 0}, {6, 7, 6, 0}};

    for (int k = 0; k < 2; k++) {
        begin();
        fprintf(out, "{\"hash\": \"0x1\", \"size\": 4, \"ranks\": [");
        for (int rank = 0; rank < 4; rank++)
            fprintf(out,
                    "%s{\"rank\": %d, \"host\": \"h\", \"pid\": %d, \"status\": "
                    "{\"async_error\": %d, \"abort_flag\": %s}, \"collective_counts\": {}}",
                    rank ? ", " : "", rank, rank + 1, errors[k][rank],
                    rank == 3 ? "true" : "false");
        fprintf(out, "]}");
        judge();
        if (k == 0)
            found(WATCH_FAILED, 1, HEALTH_CRITICAL,
                  "rank 1 (h): NCCL reports an internal error");
        else
            assert_true(v.findings == 2 &&
                        strstr(v.finding[0].text, "ranks 0, 2: NCCL reports"));
    }
    release();
}

TEST(processes_that_nccl_cannot_name_are_several)
{
    begin();
    fprintf(out, "{\"hash\": \"0x1\", \"size\": 2, \"ranks\": [");
    for (int rank = 0; rank < 2; rank++)
        fprintf(out,
                "%s{\"rank\": %d, \"host\": \"unknown\", \"pid\": -1, \"cuda_dev\": 0, "
                "\"collective_counts\": {\"Reduce\": %d}}",
                rank ? ", " : "", rank, 9 - rank);
    fprintf(out, "]}");
    judge();
    found(WATCH_HUNG, 1, HEALTH_WARNING,
          "rank 0 (unknown) waits in reduce 9, rank 1 (unknown) never");
}

TEST(what_is_no_report_is_refused)
{
    static const char *const wrong[] = {
        "{\"communicators\": [1]}",
        "{\"communicators\": [{\"size\": 0}]}",
        "{\"communicators\": [{\"size\": 65537}]}",
        "{\"communicators\": [{\"size\": 2, \"ranks\": [{\"rank\": 2, \"collective_counts\": "
        "{}}]}]}",
        "{\"communicators\": [{\"size\": 2, \"ranks\": [{\"rank\": 1, \"collective_counts\": "
        "{\"AllReduce\": -1}}]}]}",
        "{\"communicators\": [{\"size\": 2, \"ranks\": [], \"missing_ranks\": [{\"rank\": 5, "
        "\"status\": {\"considered_dead\": true}}]}]}"};
    const struct counts c[] = {{0, {1, 0, 0}}};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_says(watch_read_json(&w, "r", wrong[i], (int64_t)strlen(wrong[i]), &err),
                    "r:1: 'communicators' [0] is none of NCCL RAS, expected size");
        watch_release(&w);
    }
    judge_comm(1, c);
    assert_says(watch_read_json(&w, "r", "{\"communicators\": []}", 21, &err),
                "r: a report of NCCL RAS, expected it alone");
    release();
}
