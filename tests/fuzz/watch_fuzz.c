/* SPDX-License-Identifier: BSD-3-Clause */
/* What others record of collectives (watch_json.c), and the records of a meter (paro-meter(5)).
 * What is taken is judged, twice to the same bytes. */
#include "reader_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "watch/watch.h"

static void judge(const struct watch *w, FILE *out)
{
    struct watch_rules rules;
    struct watch_verdict v;

    watch_rules_init(&rules);
    watch_judge(w, &rules, &v);
    const struct watch_report r = {w, &v, &rules, 2};
    for (int i = 0; i < v.findings; i++)
        assert(v.finding[i].text[0] && v.finding[i].process < w->processes &&
               v.finding[i].host < w->hosts);
    watch_print_line(&r, out);
    watch_print_json(&r, out);
    watch_draw(&r, out);
    watch_verdict_release(&v);
}

/* The bytes as a file; the folders of its header and the ring are the reader's to check. */
static int read_file(struct watch *w, const uint8_t *data, size_t bytes, int meter,
                     struct err *err)
{
    static const char path[] = FUZZ_NAME;
    int fd = memfd_create("meter", 0), rc;
    char name[40];

    assert(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    if (meter && ftruncate(fd, METER_HEADER + METER_RECORDS * 64)) /* as long as it must be */
        abort();
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const char *const one = name;
    rc = watch_read(w, &one, 1, err);
    close(fd);
    if (rc && err->code == ERR_INPUT && !strstr(err->text, path))
        snprintf(err->text, sizeof err->text, "%s", path);
    return rc;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct watch w = {0};
    struct err err = {0};
    char *text[2] = {NULL, NULL}, *copy = fuzz_copy(data, bytes);
    size_t n[2];
    int rc, meter = meter_is(copy, (int64_t)bytes);

    if (meter || (bytes && data[0] == 0x1f)) /* gzip's */
        rc = read_file(&w, data, bytes, meter, &err);
    else
        rc = watch_read_json(&w, FUZZ_NAME "/1", copy, (int64_t)bytes, &err);
    if (fuzz_judge(rc, &err) == 0 && (w.comm && w.comm->cell ? 0 : watch_index(&w, &err)) == 0)
        for (int i = 0; i < 2; i++) {
            FILE *out = mem_stream(&text[i], &n[i]);
            judge(&w, out);
            fclose(out);
        }
    mem_free(copy);
    watch_release(&w);
    if (!text[1])
        return 0;
    fuzz_same(text[0], n[0], text[1], n[1]);
    return 1;
}

static const char recorder[] =
    "{\"pg_config\": {\"0\": {\"ranks\": \"[0, 1]\"}}, \"entries\": [{\"process_group\": "
    "[\"0\", \"d\"], \"collective_seq_id\": 1, \"profiling_name\": \"nccl:all_reduce\", "
    "\"input_sizes\": [[3, 4]], \"input_dtypes\": [\"Float\"], \"output_sizes\": [[3, 4]], "
    "\"state\": \"completed\", \"is_p2p\": false, \"time_created_ns\": 100, "
    "\"time_discovered_completed_ns\": 2000, \"duration_ms\": 0.001}, {\"process_group\": "
    "[\"0\"], \"collective_seq_id\": 2, \"profiling_name\": \"broadcast\", \"state\": "
    "\"scheduled\"}]}";
static const char trace[] =
    "{\"distributedInfo\": {\"rank\": 1, \"world_size\": 2}, \"baseTimeNanoseconds\": 5, "
    "\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": 10.5, \"dur\": 3.5, "
    "\"args\": {\"Collective name\": \"allreduce\", \"Process Group Name\": \"0\", "
    "\"Process Group Ranks\": \"[0, 1]\", \"Group size\": 2, \"In msg nelems\": 8, "
    "\"Out msg nelems\": 8, \"dtype\": \"Float\", \"Seq\": 4}}, {\"ph\": \"M\"}]}";
static const char lines[] =
    "{\"header\": {\"id\": \"0x1\", \"rank\": 0, \"n_ranks\": 1}, \"metadata\": {\"hostname\": "
    "\"a\", \"pid\": 3, \"dump_timestamp_us\": 1000}, \"coll_perf\": {\"coll\": \"AllGather\", "
    "\"coll_sn\": 0, \"coll_msg_size_bytes\": 64, \"coll_exec_time_us\": 12.5}}\n"
    "{\"header\": {\"id\": \"0x1\", \"rank\": 0, \"n_ranks\": 1}, \"p2p_perf\": {}}\n";
static const char ras[] =
    "{\"communicators\": [{\"hash\": \"0x1\", \"size\": 3, \"ranks\": [{\"rank\": 0, \"host\": "
    "\"a\", \"pid\": 3, \"collective_counts\": {\"AllReduce\": 7, \"Broadcast\": 1}}, "
    "{\"rank\": 1, \"host\": \"b\", \"pid\": 4, \"collective_counts\": {\"AllReduce\": 6}}], "
    "\"missing_ranks\": [{\"rank\": 2, \"host\": \"c\", \"pid\": 5, \"status\": "
    "{\"unresponsive\": true, \"considered_dead\": false}}]}]}";

/* The trace by gzip: a flight recorder's rank is in its name. */
static void add_packed(fuzz_add_f *add)
{
    unsigned char out[1024];
    z_stream z = {.next_in = (unsigned char *)trace,
                  .avail_in = sizeof trace - 1,
                  .next_out = out,
                  .avail_out = sizeof out};

    if (deflateInit2(&z, 9, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    add(out, z.total_out);
    deflateEnd(&z);
}

/* Two ranks' calls, written where the reader looks for them; and what is packed. */
static void add_files(fuzz_add_f *add)
{
    enum { CALLS = 4 };
    static char bytes[METER_HEADER + CALLS * 64];
    struct meter_header h = {.version = METER_VERSION,
                             .header_bytes = METER_HEADER,
                             .record_bytes = 64,
                             .records = METER_RECORDS,
                             .ranks = 1,
                             .begun = CALLS,
                             .real_ns = 7,
                             .host = "a"};

    memcpy(h.magic, METER_MAGIC, 8);
    memcpy(bytes, &h, sizeof h);
    for (int i = 0; i < CALLS; i++) {
        struct meter_record r = {.number = i + 1,
                                 .comm = 9,
                                 .sequence = 1 + i / 2,
                                 .bytes = 8,
                                 .arrived_ns = 100 * (i + 1),
                                 .completed_ns = i < 2 ? 1000 : 0,
                                 .rank = i % 2,
                                 .ranks = 2,
                                 .op = METER_ALL_REDUCE};
        memcpy(bytes + METER_HEADER + i * 64, &r, sizeof r);
    }
    add(bytes, sizeof bytes);
    add_packed(add);
}

FUZZ_SET(.name = "watch", .longest = 8192, .cases = 4000, .part = 30, .ends = " \n:,{}[]\"",
         .words = FUZZ_LIST("0", "-1", "1e999", "9223372036854775807", "2305843009213693952",
                            "null", "true", "[0, 1]", "[0, ...]", "\"entries\"",
                            "\"traceEvents\"", "\"header\"", "\"communicators\"", "AllGather",
                            "completed", "scheduled", "allgather", "[[3, 4]]", "PAROMETR",
                            "\xff", "4294967296", "65536"),
         .text = {FUZZ_TEXT(recorder), FUZZ_TEXT(trace), FUZZ_TEXT(lines), FUZZ_TEXT(ras)},
         .more = add_files);
