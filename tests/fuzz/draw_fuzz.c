/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulates and draws the schedules that the reader accepts, each on a fabric of its groups. */
#include "reader_fuzz.h"

#include "pick/pick.h"
#include "sim/sim_draw.h"

/* Larger ones take longer, and there is no more to see. */
enum { CHUNKS_MAX = 4096, RANKS_MAX = 256, CHUNK_BYTES = 4096 };

static char *print(const struct sim_picture *p,
                   int (*draw)(const struct sim_picture *, FILE *, struct err *))
{
    char *text = NULL;
    size_t bytes = 0;
    struct err err = {0};
    FILE *f = mem_stream(&text, &bytes);

    int rc = draw(p, f, &err);
    assert(rc == 0 || (err.code == ERR_INPUT && err.text[0]));
    fclose(f);
    return text;
}

/* Rates and latencies at both levels, and what a message costs its ranks. */
static void fabric(struct topo *t, const struct groups *g)
{
    topo_init(t, 2, g);
    for (int l = 0; l < 2; l++)
        t->level[l] = (struct topo_level){.latency_s = 1e-6,
                                          .port_Bps = 1e9,
                                          .flow_Bps = 1e9,
                                          .member_Bps = 1e9,
                                          .message_s = 1e-7};
    for (int k = 0; k < g->count; k++)
        t->port[k] = (struct topo_port){1e9, 5e8};
}

/* Whether its rows do not wait for each other. */
static int simulate(const struct schedule *s)
{
    int64_t bytes[CHUNKS_MAX];
    struct topo topo = {0};
    struct sim_times times = {0};
    struct err err = {0};

    fabric(&topo, &s->groups);
    for (int c = 0; c < s->chunks; c++)
        bytes[c] = c % 7 ? CHUNK_BYTES : 0; /* rows of empty chunks are dropped */
    int rc = sim_rows(s, &topo, bytes, 1, &times, &err);
    assert(rc == 0 || (err.code == ERR_MISMATCH && err.text[0]));
    if (rc == 0) {
        struct sim_picture p = {s, &topo, &times, bytes, times.time_s / 2};
        char *svg = print(&p, sim_draw);
        assert(!svg[0] ||
               (strstr(svg, "</svg>") && !strstr(svg, "\"nan") && !strstr(svg, "\"inf")));
        free(svg);
        free(print(&p, sim_draw_json));
    }
    sim_times_release(&times);
    topo_release(&topo);
    return rc == 0;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct schedule s = {0};
    struct err err = {0};

    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(schedule_parse(&s, text, (int64_t)bytes, FUZZ_NAME, &err), &err);
    mem_free(text);
    if (rc)
        return 0;
    int drawn = s.chunks <= CHUNKS_MAX && s.groups.ranks <= RANKS_MAX && simulate(&s);
    schedule_release(&s);
    return drawn;
}

FUZZ_SET(.name = "draw", .cases = 4000, .ends = " \n",
         .words = FUZZ_LIST("0", "1", "2", "3", "4", "7", "99", "300000", "1048576",
                            "2147483646", "4>5", "0>4", "copy", "add", "end", "rows", "root",
                            "planes", "group", "segment", "barrier"),
         .files = FUZZ_LIST("tests/fuzz/corpus/draw/ho-ring",
                            "tests/fuzz/corpus/draw/two-level", "tests/fuzz/corpus/draw/planes",
                            "tests/fuzz/corpus/draw/tree"));
