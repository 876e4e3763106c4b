/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the world of ranks: world_check WHAT, run under mpirun.  WHAT is one of the checks
 * below, or all of those that end well.  Prints "ok WHAT" from rank 0; status 1 with a line
 * from the rank that finds otherwise.
 */
#include "base/tick.h"
#include "coll/coll.h"
#include "ranks_fixture.h"
#include "world/world_service.h"

/* Prints on rank 0 a last line before it ends all, the others waiting for that. */
static void say_and_end(struct world *w, const char *what)
{
    if (w->rank)
        tick_sleep_s(60);
    printf("ok %s: %s\n", what, err.text);
    fflush(stdout);
    world_abort(w, 3);
}

static const struct coll_spec gather =
    LIST(.from = LETTER_G, .to = LETTER_N, .elems = 1000, .type = DTYPE_F32,
         .algo = SCHEDULE_HO_RING, .phases = SCHEDULE_ALL_GATHER);

/* Every set of failing ranks: all get the error of the lowest one, with its name before it. */
static void check_agree(struct world *w)
{
    for (int set = 0; set < 1 << w->ranks; set++) {
        int mine = set >> w->rank & 1, first = 0;
        char want[64], name[32];
        err = (struct err){0};

        if (mine)
            err_set(&err, ERR_INPUT, "mine is %d", w->rank);
        int rc = world_agree(w, mine ? -1 : 0, &err);
        expect(w, rc == (set ? -1 : 0), "agrees on whether one failed");
        if (!set)
            continue;
        while (!(set >> first & 1))
            first++;
        snprintf(want, sizeof want, "mine is %d", first);
        snprintf(name, sizeof name, "rank %d (", first);
        expect(w, strstr(err.text, want) != NULL, "says the lowest rank's words");
        expect(w, err.code == ERR_INPUT, "keeps the code");
        expect(w, w->ranks == 1 || strncmp(err.text, name, strlen(name)) == 0,
               "names the rank");
    }
}

/* Texts of 0, 1, 10, 100, ... letters. */
static void check_gather_text(struct world *w)
{
    size_t length = 0;
    char **all = (char **)(uintptr_t)1;

    for (int r = 0; r < w->rank; r++)
        length = length ? length * 10 : 1;
    char *mine = mem_new(length + 1, 1);
    memset(mine, 'a' + w->rank % 26, length);
    expect(w, world_gather_text(w, mine, &all, &err) == 0, "gathers texts");
    expect(w, (all != NULL) == (w->rank == 0), "texts are rank 0's alone");
    for (int r = 0, want = 0; w->rank == 0 && r < w->ranks; r++) {
        expect(w, (int)strlen(all[r]) == want && (!want || all[r][want - 1] == 'a' + r % 26),
               "a text arrives whole");
        want = want ? want * 10 : 1;
        mem_free(all[r]);
    }
    mem_free(w->rank == 0 ? all : NULL);
    mem_free(mine);
}

static void check_bcast(struct world *w)
{
    for (int root = 0; root < w->ranks; root++) {
        int64_t v[3] = {0};
        if (w->rank == root)
            for (int i = 0; i < 3; i++)
                v[i] = 7 * root + i;
        expect(w, world_bcast(w, v, sizeof v, root, &err) == 0 && v[2] == 7 * root + 2,
               "broadcasts");
    }
    for (int length = 0; length < 3; length++) {
        char own[4] = "xyz", *text = own;
        own[length] = 0;
        if (w->rank)
            text = NULL;
        expect(w, world_bcast_text(w, &text, &err) == 0, "broadcasts a text");
        expect(w, (int)strlen(text) == length && (length == 0 || text[0] == 'x'),
               "a text arrives whole");
        if (w->rank)
            mem_free(text);
    }
    int *all = mem_new((size_t)w->ranks, sizeof *all);
    expect(w, world_allgather(w, &w->rank, sizeof *all, all, &err) == 0, "exchanges");
    for (int r = 0; r < w->ranks; r++)
        expect(w, all[r] == r, "exchanges in rank order");
    expect(w, world_node_allgather(w, &w->rank, sizeof *all, all, &err) == 0, "exchanges");
    for (int j = 0; j < w->node_ranks; j++)
        expect(w, all[j] == groups_rank(&w->groups, w->groups.group_of[w->rank], j),
               "exchanges in node order");
    mem_free(all);
}

/* Parts of different sizes, one of them empty: what a rank writes its peers read. */
static void check_share(struct world *w)
{
    struct world_share s;
    int64_t bytes = (int64_t)w->node_rank * 5000;

    expect(w, world_share_open(w, bytes, &s, &err) == 0, "shares");
    for (int r = 0; r < s.ranks; r++) {
        expect(w, s.bytes[r] == r * 5000 && (s.base[r] != NULL) == (r > 0), "sees every part");
        for (int64_t i = 0; i < s.bytes[r] && r == w->node_rank; i++)
            expect(w, s.base[r][i] == 0, "a part begins as zeros");
    }
    expect(w, world_barrier(w, &err) == 0, "meets");
    memset(s.base[w->node_rank] ? s.base[w->node_rank] : (char *)&bytes, 1 + w->node_rank,
           (size_t)(w->node_rank ? s.bytes[w->node_rank] : 0));
    expect(w, world_barrier(w, &err) == 0, "meets");
    for (int r = 1; r < s.ranks; r++)
        expect(w, s.base[r][0] == 1 + r && s.base[r][s.bytes[r] - 1] == 1 + r,
               "reads what a peer wrote");
    world_share_close(&s);
}

/* One rank asks for what no machine has: all refuse, in the words and under the name of that
 * one. */
static void check_share_refused(struct world *w)
{
    err = (struct err){0};
    struct world_share s;

    for (int who = 0; who < w->ranks; who++) {
        int64_t bytes = w->rank == who ? INT64_C(1) << 50 : 64;
        expect(w, world_share_open(w, bytes, &s, &err) == -1, "refuses");
        expect(w, err.code == ERR_SYS && strstr(err.text, "bytes of shared memory"),
               "says why");
    }
    expect(w, world_share_open(w, 64, &s, &err) == 0, "shares afterwards");
    world_share_close(&s);
}

/* A rank whose schedule's rows ask for memory that is not there, or whose rows do not fit its
 * peers': all get the error of that rank, and the next collective works. */
static void check_prepare_refused(struct world *w)
{
    struct coll_options options = {.shared_bytes = 1 << 16, .no_shared = 1};
    struct coll c;
    struct coll_handle h;
    err = (struct err){0};
    char name[32];

    expect(w, coll_open(&c, w, &w->groups, &options, &err) == 0, "opens");
    for (int who = 0; who < w->ranks; who++) {
        int64_t much = INT64_C(1) << 40;
        struct exec_row large = {
            .kind = EXEC_RECV, .peer = w->rank, .bytes = much, .wire_bytes = much};
        struct exec_rows rows = {.slots = 1};
        struct exec_mpi_handle *bad = NULL;
        if (w->rank == who) {
            rows.rows = 1;
            rows.row = mem_new(1, sizeof large);
            *rows.row = large;
        }
        expect(w, exec_mpi_prepare(c.exec, &rows, &bad, &err) == -1, "refuses");
        snprintf(name, sizeof name, "rank %d (", who);
        const char *at = strstr(err.text, "rank ");
        expect(w, w->ranks == 1 || (at == err.text && strncmp(at, name, strlen(name)) == 0),
               "names the rank that failed");
        expect(w, w->ranks == 1 || strstr(at + 1, "rank ") == NULL, "names it once");
    }
    expect(w, coll_prepare(&c, &gather, &h, &err) == 0, "prepares afterwards");
    struct stream *s = stream_open(c.runner, 2);
    float *in = coll_take(&c, 4096), *out = coll_take(&c, 4096);
    for (int i = 0; i < 1000; i++)
        in[i] = (float)w->rank;
    expect(w, coll_run(s, &h, in, out, &err) == 0, "runs afterwards");
    expect(w, out[0] == 0 && out[999] == (float)(w->ranks - 1), "and is right");
    coll_free(&h);
    coll_close(&c);
}

/* The colour of a rank, many ways: one for all, each its own, two that mix, the last one alone.
 */
static int colour_of(const struct world *w, int way, int rank)
{
    const int colour[] = {0, rank, rank % 2, rank == w->ranks - 1 ? 7 : 3};

    return colour[way];
}

/* Each peer's data reach its peers and nobody else. */
static void check_peers_bcast(struct world *w, struct world_peers *p, const int *member)
{
    enum { WORDS = 70000 }; /* not in one message */
    int32_t *v = mem_new(WORDS, sizeof *v);

    for (int from = 0; from < p->ranks; from++) {
        for (int i = 0; i < WORDS; i++)
            v[i] = from == p->rank ? member[from] * WORDS + i : -1;
        int good = world_peers_bcast(p, v, WORDS * sizeof *v, from, &err) == 0;
        for (int i = 0; i < WORDS; i++)
            good &= v[i] == member[from] * WORDS + i;
        expect(w, good, "gets a peer's data");
    }
    mem_free(v);
}

static void check_peers(struct world *w)
{
    int *member = mem_new((size_t)w->ranks, sizeof *member);
    struct world_peers p;

    for (int way = 0; way < 4; way++) {
        int own = colour_of(w, way, w->rank), ranks = 0, place = -1;
        for (int r = 0; r < w->ranks; r++) {
            if (colour_of(w, way, r) != own)
                continue;
            if (r == w->rank)
                place = ranks;
            member[ranks++] = r;
        }
        expect(w, world_peers_open(w, own, &p, &err) == 0, "finds its peers");
        expect(w, p.ranks == ranks && p.rank == place, "has a place among them");
        check_peers_bcast(w, &p, member);
        world_peers_close(&p);
    }
    mem_free(member);
}

/* A peer that does not send. */
static void check_deadline_peers(struct world *w)
{
    struct world_peers p;
    err = (struct err){0};
    int v = 0;

    expect(w, world_peers_open(w, 0, &p, &err) == 0, "finds its peers");
    w->deadline_s = 0.5;
    if (w->rank == 1)
        tick_sleep_s(60);
    expect(w, world_peers_bcast(&p, &v, sizeof v, 1, &err) == -1 && err.code == ERR_PEER,
           "misses a peer");
    say_and_end(w, "deadline-peers");
}

/* Rank 1 never arrives: the others say so after the deadline, and end all. */
static void check_deadline(struct world *w, const char *what)
{
    err = (struct err){0};
    double start = tick_now_s();

    w->deadline_s = 0.5;
    if (w->rank == 1)
        tick_sleep_s(60);
    int rc =
        strcmp(what, "deadline-agree") == 0 ? world_agree(w, 0, &err) : world_barrier(w, &err);
    double s = tick_now_s() - start;
    expect(w, rc == -1 && err.code == ERR_PEER, "misses the other rank");
    expect(w, s >= 0.5 && s < 20, "waits as long as the deadline");
    say_and_end(w, what);
}

/* The same for data: rank 1 does not start the collective that it prepared. */
static void check_deadline_data(struct world *w, int no_shared)
{
    struct coll_options options = {.shared_bytes = 1 << 16, .no_shared = no_shared};
    struct coll c;
    struct coll_handle h;
    err = (struct err){0};

    expect(w, coll_open(&c, w, &w->groups, &options, &err) == 0, "opens");
    expect(w, coll_prepare(&c, &gather, &h, &err) == 0, "prepares");
    w->deadline_s = 0.5;
    if (w->rank == 1)
        tick_sleep_s(60);
    struct stream *s = stream_open(c.runner, 2);
    float *in = coll_take(&c, 4096), *out = coll_take(&c, 4096);
    expect(w, coll_run(s, &h, in, out, &err) == -1 && err.code == ERR_PEER, "misses data");
    say_and_end(w, "deadline-data");
}

/* The last rank's alarm: all others hear it, in its words, and can still meet. */
static void check_alarm(struct world *w)
{
    int last = w->ranks - 1, heard = 0;
    struct err kept = {0};
    char name[32];

    world_listen(w);
    expect(w, world_alarmed(w, &err) == 0, "is not alarmed before");
    expect(w, world_barrier(w, &err) == 0, "meets");
    err_set(&err, ERR_DEVICE, "something burns");
    if (w->rank == last)
        world_alarm(w, &err);
    for (double until = tick_now_s() + 20; w->rank < last && !heard && tick_now_s() < until;)
        heard = world_alarmed(w, &err);
    snprintf(name, sizeof name, "rank %d (", last);
    expect(w, w->rank == last || (heard && err.code == ERR_PEER), "hears");
    expect(w, w->rank == last || strncmp(err.text, name, strlen(name)) == 0, "names the rank");
    expect(w, strstr(err.text, "something burns") != NULL, "says its words");
    expect(w, w->rank == last || world_alarmed(w, &kept) == -1, "keeps it");
    expect(w, world_agree(w, 0, &err) == 0, "agrees all the same");
}

/* Rank 1 leaves with an alarm: the others do not wait for the deadline, which is minutes. */
static void check_alarm_left(struct world *w)
{
    err = (struct err){0};

    world_listen(w);
    err_set(&err, ERR_DEVICE, "something burns");
    if (w->rank == 1) {
        world_alarm(w, &err);
        tick_sleep_s(60);
    }
    expect(w, world_agree(w, 0, &err) == -1 && err.code == ERR_PEER, "waits no longer");
    say_and_end(w, "alarm-left");
}

/* The byte at `at` of what rank answers to a question. */
static char byte_of(int rank, int64_t question, int64_t at)
{
    return (char)(7 * rank + 3 * question + at % 251);
}

static const int64_t answer_bytes[] = {0, 1, WORLD_CHUNK - 1, WORLD_CHUNK, 3 * WORLD_CHUNK + 5};
enum { ANSWERS = sizeof answer_bytes / sizeof *answer_bytes, ABSENT = ANSWERS };

static int answer(void *arg, const int64_t what[WORLD_REQUEST], void *to, int64_t *bytes,
                  struct err *why)
{
    const struct world *w = arg;

    if (what[0] == ABSENT)
        return err_set(why, ERR_ABSENT, "there is none");
    *bytes = answer_bytes[what[0]];
    for (int64_t i = 0; i < *bytes; i++)
        ((char *)to)[i] = byte_of(w->rank, what[3], i);
    return 0;
}

/* Held back every other time. */
static int hold(void *arg)
{
    static int times;

    (void)arg;
    return ++times % 2;
}

static void query_all(struct world *w, struct world_service *s, char *space, int64_t most)
{
    err = (struct err){0};

    for (int r = 0; r < w->ranks; r++)
        for (int64_t i = 0; r != w->rank && i <= ANSWERS; i++) {
            int64_t bytes = -1, wrong = 0;
            int rc = world_request(s, r, (int64_t[]){i, 0, 0, 10 * w->rank + i}, space, most,
                                   &bytes, &err);
            expect(w, (rc == 0) == (i < ANSWERS), "answers what there is");
            expect(w, rc == 0 || err.code == ERR_ABSENT, "has no other");
            for (int64_t k = 0; rc == 0 && k < bytes; k++)
                wrong += space[k] != byte_of(r, 10 * w->rank + i, k);
            expect(w, rc || (bytes == answer_bytes[i] && !wrong), "answers those bytes");
        }
}

/* All ranks ask all others at the same time, of a service that is opened a second time, too. */
static void check_service(struct world *w)
{
    const int64_t most = answer_bytes[ANSWERS - 1];
    const struct world_answers a = {answer, w, most};
    struct world_service *s = NULL;
    struct world_peers p;
    char *space = mem_new((size_t)most, 1);

    expect(w, world_peers_open(w, 0, &p, &err) == 0, "opens peers");
    for (int times = 0; times < 2; times++) {
        expect(w, world_service_open(&s, &p, &a, &err) == 0, "opens a service");
        query_all(w, s, space, most);
        expect(w, world_barrier(w, &err) == 0, "is done with asking");
        world_service_close(s);
    }
    world_peers_close(&p);
    mem_free(space);
}

/* Each rank sends each other one two parcels of each size at once, and gets as many. */
static void check_transfer(struct world *w)
{
    struct world_peers p;
    struct world_parcel all[4 * 64];
    int64_t wrong = 0;

    expect(w, world_peers_open(w, 0, &p, &err) == 0, "opens peers");
    for (int i = 0; i < ANSWERS; i++) {
        int64_t bytes = answer_bytes[i];
        int n = 0;
        for (int r = 0; r < w->ranks; r++)
            for (int k = 0; r != w->rank && k < 4; k++) {
                char *data = mem_new((size_t)bytes + 1, 1);
                for (int64_t b = 0; k < 2 && b < bytes; b++)
                    data[b] = byte_of(w->rank, 10 * r + k, b);
                all[n++] = (struct world_parcel){r, k >= 2, k % 2, data, bytes};
            }
        int rc = world_transfer(&p, all, n, i % 2 ? hold : NULL, NULL, &err);
        expect(w, rc == 0, "transfers");
        for (int k = 0; k < n; k++) {
            const struct world_parcel *x = &all[k];
            for (int64_t b = 0; x->receives && b < bytes; b++)
                wrong += ((char *)x->data)[b] != byte_of(x->peer, 10 * w->rank + x->tag, b);
            expect(w, ((char *)x->data)[bytes] == 0, "writes no byte more");
            mem_free(x->data);
        }
    }
    expect(w, wrong == 0, "transfers those bytes");
    world_peers_close(&p);
}

int main(int argc, char **argv)
{
    struct world *w = NULL;
    err = (struct err){0};
    const char *what = argc > 1 ? argv[1] : "all";

    if (world_open(&w, &err)) {
        fprintf(stderr, "world_check: %s\n", err.text);
        return 2;
    }
    if (strcmp(what, "deadline-data") == 0)
        check_deadline_data(w, argc > 2);
    if (strcmp(what, "deadline-peers") == 0)
        check_deadline_peers(w);
    if (strncmp(what, "deadline", 8) == 0)
        check_deadline(w, what);
    if (strcmp(what, "alarm-left") == 0)
        check_alarm_left(w);
    check_agree(w);
    check_gather_text(w);
    check_bcast(w);
    check_peers(w);
    check_service(w);
    check_transfer(w);
    check_share(w);
    check_share_refused(w);
    check_prepare_refused(w);
    check_alarm(w); /* the last one: what is heard stays */
    if (w->rank == 0)
        printf("ok %s\n", what);
    world_close(w);
    return 0;
}
