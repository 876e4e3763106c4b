/* SPDX-License-Identifier: BSD-3-Clause */
/* How often made-up runs are judged right: watch_runs RUNS.  A line per fault: in how many runs
 * the rank was named, with the right cause; of healthy ones, how many were accused.  And how
 * long a verdict takes of many ranks: watch_runs ranks N; what a call pays for its record:
 * watch_runs cost DIR.  The meters' files of many ranks, which no process writes any more:
 * watch_runs files N DIR. */
#include <fcntl.h>
#include <sys/stat.h>

#include "../unit/watch_fixture.h"
#include "base/stats.h"
#include "base/tick.h"

struct scene {
    const char *name;
    struct made made;
    enum watch_kind kind;
};

static const struct made usual = {
    .ranks = 8, .per_host = 2, .steps = 400, .noise = 0.03, .transient = 0.01, .who = 5};

static struct made with(struct made m, double slow, double pause_s, int every, double stall)
{
    m.slow = slow;
    m.pause_s = pause_s;
    m.steps = pause_s > 0 ? 3000 : m.steps; /* a ring's worth, and enough pauses */
    m.stall_every = every;
    m.stall = stall;
    return m;
}

static int right(const struct scene *s, const struct watch_verdict *v)
{
    int named = 0;

    for (int i = 0; i < v->findings; i++)
        if (s->kind == WATCH_LINK ? v->finding[i].kind == WATCH_LINK
                                  : v->finding[i].process == s->made.who)
            named = v->finding[i].kind == s->kind ? 2 : 1;
        else
            return -1;
    return named;
}

static void runs(const struct scene *s, int n)
{
    int named = 0, cause = 0, wrong = 0;

    for (int i = 0; i < n; i++) {
        struct made m = s->made;
        struct watch_rules rules;
        struct watch_verdict v;
        struct watch w;
        m.seed = 1000 + (uint64_t)i;
        made_run(&m, &w);
        watch_rules_init(&rules);
        watch_judge(&w, &rules, &v);
        int r = right(s, &v);
        named += r > 0;
        cause += r > 1;
        wrong += r < 0;
        if (getenv("WATCH_SHOW"))
            for (int k = 0; k < v.findings; k++)
                printf("    %s (z %.1f)\n", v.finding[k].text, v.finding[k].z);
        watch_verdict_release(&v);
        watch_release(&w);
    }
    printf("%-28s %5d runs: named %5d, with the cause %5d, others accused %5d\n", s->name, n,
           named, cause, wrong);
}

static int ranks(int n)
{
    struct made m = usual;
    struct watch_rules rules;
    struct watch_verdict v;
    struct watch w;

    m.ranks = n;
    m.per_host = 8;
    m.slow = 0.2;
    made_run(&m, &w);
    /* Tables again, which are a part of a verdict. */
    for (int i = 0; i < w.comms; i++) {
        mem_free(w.comm[i].cell);
        mem_free(w.comm[i].complete);
    }
    for (int i = 0; i < w.processes; i++)
        w.process[i].calls = 0;
    double start = tick_now_s();
    watch_rules_init(&rules);
    if (watch_index(&w, &err))
        return 2;
    watch_judge(&w, &rules, &v);
    double s = tick_now_s() - start;
    printf("%d ranks, %lld calls: %.2f s: %s\n", n, (long long)w.calls, s,
           v.findings ? v.finding[0].text : "healthy");
    watch_verdict_release(&v);
    watch_release(&w);
    return 0;
}

static int write_rank(const struct watch *w, int p, const char *dir)
{
    const struct watch_process *q = &w->process[p];
    struct meter_header h =
        LIST(.magic = METER_MAGIC, .version = METER_VERSION, .header_bytes = METER_HEADER,
             .record_bytes = sizeof(struct meter_record), .records = METER_RECORDS, .rank = p,
             .ranks = w->processes, .run = 1, .process = p, .begun = q->calls);
    struct meter_record *r = mem_new((size_t)q->calls, sizeof *r);
    char path[4096];

    snprintf(h.host, sizeof h.host, "%s", w->host[q->host].name);
    snprintf(path, sizeof path, "%s/%s.%d.mpi", dir, h.host, p);
    for (int64_t i = 0; i < q->calls; i++) {
        const struct watch_call *c = &w->call[q->first_call + i];
        r[i] = (struct meter_record)LIST(.number = i + 1, .comm = w->comm[c->comm].id,
                                         .sequence = c->sequence, .bytes = c->bytes,
                                         .arrived_ns = c->arrived_ns,
                                         .completed_ns = c->completed_ns, .rank = c->member,
                                         .ranks = w->comm[c->comm].size, .op = c->op);
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    int64_t bytes = q->calls * (int64_t)sizeof *r;
    int bad = pwrite(fd, &h, sizeof h, 0) != sizeof h ||
              pwrite(fd, r, (size_t)bytes, METER_HEADER) != bytes ||
              ftruncate(fd, METER_HEADER + METER_RECORDS * (off_t)sizeof *r);
    mem_free(r);
    return close(fd) || bad;
}

static int files(int n, const char *dir)
{
    struct made m = usual;
    struct watch w;
    int bad = mkdir(dir, 0755);

    m.ranks = n;
    m.per_host = 8;
    m.slow = 0.2;
    made_run(&m, &w);
    for (int p = 0; p < n && !bad; p++)
        bad = write_rank(&w, p, dir);
    watch_release(&w);
    return bad ? 2 : 0;
}

/* What a call pays: the shortest of ten rounds, and their median round. */
static int cost(const char *dir)
{
    const struct meter_run run = {.id = 1, .ranks = 1};
    struct meter_comm c = {.id = 1, .ranks = 1};
    enum { CALLS = 1000000, ROUNDS = 10 };
    struct meter *m;
    double s[ROUNDS];

    if (meter_open(&m, dir, "bench", &run, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    for (int r = 0; r < ROUNDS; r++) {
        double start = tick_now_s();
        for (int i = 0; i < CALLS; i++)
            meter_complete(m, meter_arrive(m, &c, ++c.calls, METER_ALL_REDUCE, 8));
        s[r] = (tick_now_s() - start) / CALLS;
    }
    double least = stats_percentile(s, ROUNDS, 1);
    printf("a record of a call: %.0f ns, median of %d rounds %.0f ns\n", 1e9 * least,
           (int)ROUNDS, 1e9 * stats_median(s, ROUNDS));
    meter_close(m);
    return 0;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100;
    struct made healthy = usual, link = usual, hung = usual, mismatch = usual;

    if (argc > 2 && strcmp(argv[1], "ranks") == 0)
        return ranks(atoi(argv[2]));
    if (argc > 3 && strcmp(argv[1], "files") == 0)
        return files(atoi(argv[2]), argv[3]);
    if (argc > 2 && strcmp(argv[1], "cost") == 0)
        return cost(argv[2]);
    healthy.who = -1;
    link.ranks = 16;
    link.pairs = 1;
    link.link = 1.25;
    hung.hang_at = mismatch.mismatch_at = 120;
    struct made half = link;
    half.link = 2;
    const struct scene scenes[] = {
        {"healthy", healthy, WATCH_KINDS},
        {"a rank 10 % slow", with(usual, 0.1, 0, 0, 0), WATCH_LATE},
        {"a rank 20 % slow", with(usual, 0.2, 0, 0, 0), WATCH_LATE},
        {"a rank 50 % slow", with(usual, 0.5, 0, 0, 0), WATCH_LATE},
        {"10 ms of 100 taken away", with(usual, 0, 0.01, 0, 0), WATCH_PAUSED},
        {"20 ms of 100 taken away", with(usual, 0, 0.02, 0, 0), WATCH_PAUSED},
        {"a stall every 10 steps", with(usual, 0, 0, 10, 2), WATCH_PERIODIC},
        {"a link at 80 %", link, WATCH_LINK},
        {"a link at 50 %", half, WATCH_LINK},
        {"hung", hung, WATCH_HUNG},
        {"mismatch", mismatch, WATCH_MISMATCH},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        runs(&scenes[i], i == 0 ? 10 * n : n);
    return 0;
}
