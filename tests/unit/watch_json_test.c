/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests records of other programs: flight recorders, NCCL's inspector, traces. */
#include "watch_verdict_fixture.h"

static int read_text(const char *name, const char *text)
{
    return watch_read_json(&w, name, text, (int64_t)strlen(text), &err);
}

static void dump_three(int64_t now_ns)
{
    char text[1200], name[32];

    for (int rank = 0; rank < 3; rank++) {
        int n = snprintf(text, sizeof text,
                         "{\"version\": \"2.10\", \"pg_config\": {\"0\": {\"name\": \"0\", "
                         "\"ranks\": \"[0, 1, 2]\"}}, \"entries\": [");
        for (int seq = 1; seq <= (rank == 1 ? 1 : 2); seq++)
            n += snprintf(
                text + n, sizeof text - (size_t)n,
                "%s{\"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": "
                "%d, \"profiling_name\": \"nccl:all_reduce\", \"input_sizes\": [[3, "
                "4]], \"input_dtypes\": [\"Float\"], \"output_sizes\": [[3, 4]], "
                "\"state\": \"%s\", \"is_p2p\": false, \"time_created_ns\": %d, "
                "\"time_discovered_completed_ns\": %s}",
                seq > 1 ? ", " : "", seq, seq == 1 ? "completed" : "scheduled", 1000 * seq,
                seq == 1 ? "1500" : "null");
        snprintf(text + n, sizeof text - (size_t)n, "]}");
        snprintf(name, sizeof name, "dump/trace_rank_%d.json", rank);
        assert_ok(read_text(name, text));
    }
    w.now_ns = now_ns;
    judge_calls();
}

/* That of gloo has one group, without a name, and calls that are retired, without times. */
TEST(a_flight_recorder_of_gloo)
{
    char text[400], name[32];

    for (int rank = 0; rank < 2; rank++) {
        int n = snprintf(text, sizeof text,
                         "{\"pg_config\": {\"\": {\"ranks\": \"[0, 1]\"}}, \"entries\": [");
        for (int seq = 0; seq < 2 - rank; seq++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          "%s{\"process_group\": [\"0\"], \"collective_seq_id\": %d, "
                          "\"profiling_name\": \"gloo:all_gather\", \"state\": \"scheduled\", "
                          "\"retired\": %s, \"time_created_ns\": 1000}",
                          seq ? ", " : "", seq, seq ? "false" : "true");
        snprintf(text + n, sizeof text - (size_t)n, "]}");
        snprintf(name, sizeof name, "trace_%d.json", rank);
        assert_ok(read_text(name, text));
    }
    w.now_ns = INT64_C(90000001000);
    judge_calls();
    found(WATCH_HUNG, 1, HEALTH_CRITICAL, "hung: rank 0 waits in all-gather 1 (for 90.0 s)");
}

/* In a running program as well one rank may not have come yet. */
TEST(a_flight_recorder_shows_a_hang)
{
    dump_three(4000);
    found(WATCH_HUNG, 1, HEALTH_WARNING,
          "hung, or dumped while it ran: ranks 0, 2 wait in all-reduce of 48 B 2 (for 2.00 us),"
          " rank 1 never arrived");
    dump_three(INT64_C(90000002000));
    found(WATCH_HUNG, 1, HEALTH_CRITICAL,
          "hung: ranks 0, 2 wait in all-reduce of 48 B 2 (for 90.0 s), rank 1 never arrived");
}

TEST(inspector_and_traces_come_to_the_same_late_rank)
{
    for (int trace = 0; trace < 2; trace++) {
        char name[32];
        for (int rank = 0; rank < 4; rank++) {
            FILE *f = unit_stream();
            if (trace)
                fprintf(f,
                        "{\"distributedInfo\": {\"rank\": %d, \"world_size\": 4}, "
                        "\"traceEvents\": [{\"ph\": \"M\"}",
                        rank);
            for (int i = 0; i < 200; i++) { /* each step 1 ms; rank 2 comes 0.3 ms late */
                double wait_us = 400 + i % 7 - (rank == 2 ? 300 : 0), end_us = 1e6 + 1e3 * i;
                if (trace)
                    fprintf(f,
                            ",\n{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": %.1f, \"dur\": "
                            "%.1f, \"args\": {\"Collective name\": \"allreduce\", \"Process "
                            "Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1, 2, 3]\", "
                            "\"Group size\": 4, \"In msg nelems\": 256, \"Out msg nelems\": "
                            "256, \"dtype\": \"Float\"}}",
                            end_us - wait_us, wait_us);
                else
                    fprintf(f,
                            "{\"header\": {\"id\": \"0xab\", \"rank\": %d, \"n_ranks\": 4}, "
                            "\"metadata\": {\"dump_timestamp_us\": %.0f, \"hostname\": \"n%d\","
                            " \"pid\": 9}, \"coll_perf\": {\"coll\": \"AllReduce\", "
                            "\"coll_sn\": %d, \"coll_msg_size_bytes\": 1024, "
                            "\"coll_exec_time_us\": %.1f}}\n",
                            rank, end_us, rank, i, wait_us);
            }
            if (trace)
                fputs("]}", f);
            char *text = unit_text(f);
            snprintf(name, sizeof name, "rank%d", rank);
            assert_ok(watch_read_json(&w, name, text, (int64_t)strlen(text), &err));
            free(text);
        }
        judge_calls();
        assert_true(v.findings == 1 && fabs(v.finding[0].percent - 43) < 3); /* 300 of 700 us */
        found(WATCH_LATE, 2, HEALTH_CRITICAL, trace ? "rank 2 is " : "rank 2 (n2) is ");
    }
}

/* NCCL numbers the calls of each operation from 0, and dumps end where they end. */
TEST(operations_of_inspector_are_counted_apart)
{
    char text[400];

    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 4 - rank; i++) {
            snprintf(text, sizeof text,
                     "{\"header\": {\"id\": \"0xab\", \"rank\": %d, \"n_ranks\": 2}, "
                     "\"metadata\": {\"dump_timestamp_us\": %d, \"hostname\": \"n\","
                     " \"pid\": %d}, \"coll_perf\": {\"coll\": \"%s\", \"coll_sn\": %d, "
                     "\"coll_msg_size_bytes\": 64, \"coll_exec_time_us\": 1}}\n",
                     rank, 100 + i, rank + 1, i % 2 ? "AllReduce" : "AllGather", i / 2);
            assert_ok(read_text("a", text));
        }
    judge_calls();
    assert_int_equal(v.findings, 0);
    assert_true(w.comms == 2 && w.comm[0].calls == 2);
    release();
}

TEST(what_is_no_record_is_refused_with_its_line)
{
    static const struct {
        const char *name, *text, *words;
    } row[] = {
        {"a", "{}", "a: no known records, expected a meter's"},
        {"a", "{\"entries\": []}", "expected the rank at the end of its name"},
        {"a1", "{\"entries\": []}", "'pg_config' is absent"},
        {"a", "{\"traceEvents\": []}", "'distributedInfo' has no rank"},
        {"a", "{\"header\": {}, \"coll_perf\": {}}\n", "a:1: 'coll_perf' is no call"},
        {"a", "{\"header\": {}}\n\nx\n", "a:3: is not JSON"},
        {"a", "[1, 2", "a:1: is not JSON"},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_error(read_text(row[i].name, row[i].text), ERR_INPUT);
        if (!strstr(err.text, row[i].words))
            fail_msg("'%s', expected '%s'", err.text, row[i].words);
        watch_release(&w);
    }
    assert_int_equal(watch_index(&w, &err), -1);
    watch_release(&w);
}
