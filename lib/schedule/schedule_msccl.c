/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows become programs of MSCCL's threadblocks.  Does not know why rows are right,
 * nor how long a chunk is.  Source of the format: the readers and the interpreter of MSCCL
 * (src/graph/topo.cc, src/collectives/device/msccl_interpreter.h) and of RCCL's copy.
 *
 * A rank has a threadblock for each peer it sends to and one for each it receives from, and one
 * for what it moves by itself.  Each goes through its part of the rows in their order, so that
 * the earliest row that is not done has both its ends waiting for it, whatever MSCCL buffers:
 * there is no deadlock.  A step that needs what another threadblock did waits for that step:
 *
 *     <tb id="1" send="-1" recv="3" chan="0">
 *       <step s="0" type="r" ... depid="-1" deps="-1" hasdep="1"/>     someone waits for it
 *     <tb id="2" send="1" recv="-1" chan="0">
 *       <step s="0" type="nop" ... depid="0" deps="4" hasdep="0"/>     one more to wait for
 *       <step s="1" type="s" ... depid="1" deps="0" hasdep="0"/>       after step 0 of 1
 *
 * The input is never written: a chunk's first sum goes from there to the output, or to scratch
 * where the rank does not keep it.  Both forms, in place and not, are therefore right.
 */
#include "schedule/schedule_msccl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* What MSCCL has room for: an id is a signed byte, an offset 16 bits. */
enum {
    STEPS_MAX = 256,
    BLOCKS_MAX = 128,
    PEERS_MAX = 32, /* of a channel */
    CHANNELS_MAX = 32,
    COUNT_MAX = 71,
    OFFSET_MAX = INT16_MAX,
    PLACES_MAX = 1 << 24 /* of all ranks: what is kept of each here */
};

struct spot {    /* where a chunk lies now */
    char buffer; /* 'i', 'o', 's'; 0: nowhere */
    int offset;
};

struct token { /* a step that is waited for */
    int block, step;
};

struct place { /* a chunk of a rank */
    struct spot at;
    struct token wrote; /* block -1: nobody */
    struct token *read; /* [reads], owned: since then */
    size_t room;
    int reads, slot; /* slot: its scratch + 1, or 0 */
};

struct step {
    const char *type;
    struct spot src, dst;
    int count, waited;  /* waited: a later step waits for it */
    struct token *need; /* [needs], owned */
    size_t room;
    int needs, number; /* number: with the nops before it */
};

struct block {
    int send, recv, channel;
    struct step *step; /* [steps], owned */
    size_t room;
    int steps, after[BLOCKS_MAX]; /* after: steps of others that were waited for */
};

struct gpu {
    struct block *block; /* [blocks], owned */
    size_t room;
    int blocks, scratch;
};

struct msccl {
    const struct schedule *s; /* borrowed, as are units */
    const int64_t *units;
    int *start;          /* [chunks] in the vector of NCCL */
    int total, per;      /* units; of a rank's block */
    int64_t span;        /* places of a rank */
    int over;            /* more threadblocks than there is room for */
    struct gpu *gpu;     /* [ranks] */
    struct place *place; /* [ranks * span] */
    int channel[GROUPS_RANKS_MAX / PEERS_MAX + 1], channels; /* by distance / PEERS_MAX */
};

/* ---- where things lie ---- */

static int owner(const struct msccl *m, int chunk)
{
    return m->s->holder[chunk / m->s->subchunks];
}

static struct place *place_of(struct msccl *m, int rank, int chunk)
{
    return &m->place[rank * m->span + chunk];
}

static int64_t length(const struct msccl *m, int chunk)
{
    return m->units[chunk % m->s->chunks];
}

/* Where a rank keeps a chunk that it has made or received. */
static struct spot home(struct msccl *m, int rank, int chunk)
{
    struct place *p = place_of(m, rank, chunk);
    int mine = chunk < m->s->chunks, scatters = m->s->phases == SCHEDULE_REDUCE_SCATTER;

    if (mine && !scatters)
        return (struct spot){'o', m->start[chunk]};
    if (mine && owner(m, chunk) == rank)
        return (struct spot){'o', m->start[chunk] - rank * m->per};
    if (!p->slot) {
        p->slot = m->gpu[rank].scratch + 1;
        m->gpu[rank].scratch += (int)length(m, chunk);
    }
    return (struct spot){'s', p->slot - 1};
}

/* What the input has at the start. */
static struct spot origin(const struct msccl *m, int rank, int chunk)
{
    const struct schedule *s = m->s;

    if (s->phases == SCHEDULE_ALL_GATHER)
        return owner(m, chunk) == rank ? (struct spot){'i', m->start[chunk] - rank * m->per}
                                       : (struct spot){0, 0};
    if (s->phases == SCHEDULE_BROADCAST && rank != s->root)
        return (struct spot){0, 0};
    return (struct spot){'i', m->start[chunk]};
}

/* What a rank's output must have in the end. */
static int keeps(const struct msccl *m, int rank, int chunk)
{
    return m->s->phases != SCHEDULE_REDUCE_SCATTER || owner(m, chunk) == rank;
}

/* ---- programs ---- */

/* The number of the threadblock with these peers, made where there is none. */
static int find_block(struct msccl *m, int rank, int send, int recv, int channel)
{
    struct gpu *g = &m->gpu[rank];

    for (int i = 0; i < g->blocks; i++)
        if (g->block[i].send == send && g->block[i].recv == recv &&
            g->block[i].channel == channel)
            return i;
    if (g->blocks == BLOCKS_MAX) {
        m->over = 1; /* what is made now is not printed */
        return 0;
    }
    g->block = mem_grow(g->block, &g->room, (size_t)g->blocks + 1, sizeof *g->block);
    struct block *b = &g->block[g->blocks];
    *b = (struct block){.send = send, .recv = recv, .channel = channel};
    memset(b->after, -1, sizeof b->after);
    return g->blocks++;
}

static int channel_of(struct msccl *m, int src, int dst)
{
    int n = m->s->groups.ranks, far = ((dst - src + n) % n) / PEERS_MAX;

    if (m->channel[far] < 0)
        m->channel[far] = m->channels++;
    return m->channel[far];
}

/* The step about to be made waits for that one, unless its block has waited for it before. */
static void need(struct gpu *g, int block, struct step *step, struct token t)
{
    struct block *b = &g->block[block];

    if (t.block < 0 || t.block == block || b->after[t.block] >= t.step)
        return;
    b->after[t.block] = t.step;
    g->block[t.block].step[t.step].waited = 1;
    for (int i = 0; i < step->needs; i++) {
        if (step->need[i].block == t.block) {
            step->need[i].step = t.step;
            return;
        }
    }
    step->need = mem_grow(step->need, &step->room, (size_t)step->needs + 1, sizeof t);
    step->need[step->needs++] = t;
}

static void need_read(struct gpu *g, int block, struct step *step, const struct place *p)
{
    need(g, block, step, p->wrote);
}

static void need_write(struct gpu *g, int block, struct step *step, const struct place *p)
{
    need(g, block, step, p->wrote);
    for (int i = 0; i < p->reads; i++)
        need(g, block, step, p->read[i]);
}

static void did_read(struct place *p, struct token t)
{
    for (int i = 0; i < p->reads; i++) {
        if (p->read[i].block == t.block) {
            p->read[i].step = t.step;
            return;
        }
    }
    p->read = mem_grow(p->read, &p->room, (size_t)p->reads + 1, sizeof t);
    p->read[p->reads++] = t;
}

static void did_write(struct place *p, struct token t, struct spot at)
{
    p->wrote = t;
    p->reads = 0;
    p->at = at;
}

static int follows(struct spot a, struct spot b, int count)
{
    return a.buffer == b.buffer && a.offset + count == b.offset;
}

/* Whether the last step of the block can be made longer by what is moved next. */
static int can_join(const struct gpu *g, int block, const struct step *new)
{
    const struct block *b = &g->block[block];
    const struct step *last = b->steps ? &b->step[b->steps - 1] : NULL;

    return last && !new->needs &&follows(last->src, new->src, last->count) &&
           follows(last->dst, new->dst, last->count) && last->type == new->type &&
           last->count + new->count <= COUNT_MAX;
}

static struct token add_step(struct gpu *g, int block, const struct step *new)
{
    struct block *b = &g->block[block];

    b->step = mem_grow(b->step, &b->room, (size_t)b->steps + 1, sizeof *b->step);
    b->step[b->steps++] = *new;
    return (struct token){block, b->steps - 1};
}

/* One chunk, in as many steps as it takes, of which the first waits; joins: none is new. */
static struct token add_chunk(struct gpu *g, int block, const struct step *chunk, int joins)
{
    struct token t = {block, g->block[block].steps - 1};
    int units = chunk->count;

    if (joins) {
        g->block[block].step[t.step].count += units;
        return t;
    }
    for (int at = 0; at < units; at += COUNT_MAX) {
        struct step one = {.type = chunk->type, .src = chunk->src, .dst = chunk->dst};
        if (at == 0)
            one = *chunk;
        one.count = units - at < COUNT_MAX ? units - at : COUNT_MAX;
        one.src.offset += at;
        one.dst.offset += at;
        t = add_step(g, block, &one);
    }
    return t;
}

/* A rank's own: type "cpy" or "re". */
static void move(struct msccl *m, int rank, int from, int into, const char *type)
{
    struct gpu *g = &m->gpu[rank];
    struct place *a = place_of(m, rank, from), *b = place_of(m, rank, into);
    int block = find_block(m, rank, -1, -1, 0), adds = type[0] == 'r';
    struct spot to = adds ? b->at : home(m, rank, into);
    struct step step = {.type = type, .src = a->at, .dst = to, .count = (int)length(m, into)};

    need_read(g, block, &step, a);
    need_write(g, block, &step, b);
    struct token t = add_chunk(g, block, &step, 0);
    did_read(a, t);
    did_write(b, t, to);
}

static void run_local(struct msccl *m, const struct schedule_row *r)
{
    if (r->op == SCHEDULE_ADD && place_of(m, r->src, r->into)->at.buffer == 'i')
        move(m, r->src, r->into, r->into, "cpy");
    move(m, r->src, r->chunk, r->into, r->op == SCHEDULE_ADD ? "re" : "cpy");
}

/* One chunk between two ranks; joins: its message has had another one. */
static void run_remote(struct msccl *m, const struct schedule_row *r, int joins)
{
    struct gpu *out = &m->gpu[r->src], *in = &m->gpu[r->dst];
    struct place *a = place_of(m, r->src, r->chunk), *b = place_of(m, r->dst, r->into);
    int channel = channel_of(m, r->src, r->dst), adds = r->op == SCHEDULE_ADD;
    int send = find_block(m, r->src, r->dst, -1, channel);
    int recv = find_block(m, r->dst, -1, r->src, channel);
    struct spot to = home(m, r->dst, r->into);
    int count = (int)length(m, r->chunk);
    /* MSCCL's reader wants both ends of every step: of a send and of a receipt they are one. */
    struct step s = {.type = "s", .src = a->at, .dst = a->at, .count = count};
    struct step d = {
        .type = adds ? "rrc" : "r", .src = adds ? b->at : to, .dst = to, .count = count};

    need_read(out, send, &s, a);
    need_write(in, recv, &d, b);
    /* What is sent in one step is received in one. */
    joins = joins && can_join(out, send, &s) && can_join(in, recv, &d);
    did_read(a, add_chunk(out, send, &s, joins));
    did_write(b, add_chunk(in, recv, &d, joins), to);
}

/* Message by message, in each what lies together together. */
static int by_message(const void *a, const void *b, void *of)
{
    const struct schedule_row *x = a, *y = b;
    const struct msccl *m = of;
    int d = x->src - y->src;

    d = d ? d : x->dst - y->dst;
    d = d ? d : x->lane - y->lane;
    d = d ? d : (int)x->op - (int)y->op;
    d = d ? d : m->start[x->chunk % m->s->chunks] - m->start[y->chunk % m->s->chunks];
    return d ? d : x->chunk - y->chunk;
}

/* Rows of one step touch nothing of each other's: messages may be put together. */
static void run_step(struct msccl *m, struct schedule_row *row, int64_t rows)
{
    qsort_r(row, (size_t)rows, sizeof *row, by_message, m);
    for (int64_t i = 0; i < rows; i++) {
        const struct schedule_row *r = &row[i], *last = i ? r - 1 : NULL;
        int joins = last && last->src == r->src && last->dst == r->dst &&
                    last->lane == r->lane && last->op == r->op;
        if (r->src == r->dst)
            run_local(m, r);
        else
            run_remote(m, r, joins);
    }
}

static void run(struct msccl *m)
{
    const struct schedule *s = m->s;
    struct schedule_row *row = mem_new((size_t)s->rows + 1, sizeof *row);

    memcpy(row, s->row, (size_t)s->rows * sizeof *row);
    for (int64_t at = 0, end; at < s->rows; at = end) {
        for (end = at; end < s->rows && row[end].step == row[at].step; end++)
            continue;
        run_step(m, row + at, end - at);
    }
    mem_free(row);
    for (int r = 0; r < s->groups.ranks; r++)
        for (int c = 0; c < s->chunks; c++)
            if (keeps(m, r, c) && place_of(m, r, c)->at.buffer == 'i' && m->units[c])
                move(m, r, c, c, "cpy");
}

/* ---- what MSCCL cannot express ---- */

static const char *coll_name(unsigned phases)
{
    switch (phases) {
    case SCHEDULE_ALL_GATHER:
        return "allgather";
    case SCHEDULE_REDUCE_SCATTER:
        return "reducescatter";
    case SCHEDULE_ALL_REDUCE:
        return "allreduce";
    case SCHEDULE_BROADCAST:
        return "broadcast";
    default:
        return NULL;
    }
}

static int check_before(const struct msccl *m, struct err *err)
{
    const struct schedule *s = m->s;

    if (!coll_name(s->phases))
        return err_set(err, ERR_INPUT,
                       "a partial collective, which MSCCL cannot name: expected all-gather,"
                       " reduce-scatter, all-reduce or broadcast");
    if (s->groups.ranks < 2)
        return err_set(err, ERR_INPUT, "1 rank, expected 2 or more for MSCCL");
    if (m->span > PLACES_MAX / s->groups.ranks)
        return err_set(err, ERR_INPUT,
                       "%d ranks with %" PRId64
                       " chunks each, expected at most %d in total for MSCCL",
                       s->groups.ranks, m->span, PLACES_MAX);
    return 0;
}

/* Starts of chunks in the vector; blocks of ranks must be as long as each other. */
static int lay_out(struct msccl *m, struct err *err)
{
    const struct schedule *s = m->s;
    int n = s->groups.ranks;
    int blocks = s->phases == SCHEDULE_ALL_GATHER || s->phases == SCHEDULE_REDUCE_SCATTER;
    int64_t *used = mem_new((size_t)n, sizeof *used), total = 0;
    int rc = 0;

    for (int c = 0; c < s->chunks; c++) {
        used[owner(m, c)] += m->units[c];
        total += m->units[c];
    }
    for (int r = 0; r < n && blocks && rc == 0; r++)
        if (used[r] != used[0])
            rc = err_set(err, ERR_INPUT,
                         "blocks of %" PRId64 " and %" PRId64 " chunks on ranks 0 and %d,"
                         " expected equal numbers for MSCCL",
                         used[0], used[r], r);
    if (rc == 0 && total > OFFSET_MAX)
        rc = err_set(err, ERR_INPUT,
                     "%" PRId64 " chunks of one length, expected at most %d for MSCCL", total,
                     OFFSET_MAX);
    m->total = rc ? 0 : (int)total;
    m->per = rc || !blocks ? 0 : (int)used[0];
    for (int r = 0; r < n && rc == 0; r++)
        used[r] = blocks ? (int64_t)r * m->per : 0;
    for (int c = 0; c < s->chunks && rc == 0; c++) {
        int64_t *at = &used[blocks ? owner(m, c) : 0];
        m->start[c] = (int)*at;
        *at += m->units[c];
    }
    mem_free(used);
    return rc;
}

/* Numbers steps with the nops before them. */
static int check_block(struct msccl *m, int rank, struct block *b, struct err *err)
{
    int at = 0;

    for (int i = 0; i < b->steps; i++) {
        at += b->step[i].needs > 1 ? b->step[i].needs - 1 : 0;
        b->step[i].number = at++;
    }
    if (at <= STEPS_MAX)
        return 0;
    return err_set(
        err, ERR_INPUT, "%d steps in a threadblock of rank %d, expected at most %d for MSCCL%s",
        at, rank, STEPS_MAX, m->s->subchunks > 1 ? "; lower --chunks for fewer steps" : "");
}

static int check_after(struct msccl *m, struct err *err)
{
    if (m->over)
        return err_set(
            err, ERR_INPUT,
            "a rank needs more than %d threadblocks, one per peer and direction: MSCCL"
            " allows no more",
            BLOCKS_MAX);
    for (int r = 0; r < m->s->groups.ranks; r++) {
        struct gpu *g = &m->gpu[r];
        if (g->scratch > OFFSET_MAX)
            return err_set(err, ERR_INPUT,
                           "%d chunks of scratch on rank %d, expected at most %d for MSCCL",
                           g->scratch, r, OFFSET_MAX);
        for (int i = 0; i < g->blocks; i++)
            if (check_block(m, r, &g->block[i], err))
                return -1;
    }
    if (m->channels > CHANNELS_MAX)
        return err_set(err, ERR_INPUT, "%d channels, expected at most %d for MSCCL",
                       m->channels, CHANNELS_MAX);
    return 0;
}

/* ---- text ---- */

static void print_step(int number, const struct step *s, const struct token *dep, int nop,
                       const struct gpu *g, FILE *out)
{
    int deps = dep ? g->block[dep->block].step[dep->step].number : -1;

    fprintf(out,
            "      <step s=\"%d\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%d\" dstbuf=\"%c\""
            " dstoff=\"%d\" cnt=\"%d\" depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n",
            number, nop ? "nop" : s->type, nop ? 'i' : s->src.buffer, nop ? -1 : s->src.offset,
            nop ? 'o' : s->dst.buffer, nop ? -1 : s->dst.offset, nop ? 0 : s->count,
            dep ? dep->block : -1, deps, nop ? 0 : s->waited);
}

static void print_gpu(const struct msccl *m, int rank, FILE *out)
{
    const struct gpu *g = &m->gpu[rank];
    int in = m->s->phases == SCHEDULE_ALL_GATHER ? m->per : m->total;
    int to = m->s->phases == SCHEDULE_REDUCE_SCATTER ? m->per : m->total;

    fprintf(out, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n", rank,
            in, to, g->scratch);
    for (int i = 0; i < g->blocks; i++) {
        const struct block *b = &g->block[i];
        fprintf(out, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", i, b->send,
                b->recv, b->channel);
        for (int k = 0; k < b->steps; k++) {
            const struct step *s = &b->step[k];
            for (int d = 0; d < s->needs - 1; d++)
                print_step(s->number - (s->needs - 1) + d, s, &s->need[d], 1, g, out);
            print_step(s->number, s, s->needs ? &s->need[s->needs - 1] : NULL, 0, g, out);
        }
        fprintf(out, "    </tb>\n");
    }
    fprintf(out, "  </gpu>\n");
}

/* A name has 63 characters at most; what reads this reads no comments. */
static void print(const struct msccl *m, FILE *out)
{
    const struct schedule *s = m->s;
    char shape[256], name[64], root[20] = "";

    groups_print(&s->groups, shape, sizeof shape);
    if (s->phases == SCHEDULE_BROADCAST)
        snprintf(root, sizeof root, " root %d", s->root);
    snprintf(name, sizeof name, "paro %s%s %.24s", schedule_algo_name(s->algo), root, shape);
    fprintf(out,
            "<algo name=\"%s\" proto=\"Simple\" nchannels=\"%d\" nchunksperloop=\"%d\""
            " ngpus=\"%d\" coll=\"%s\" inplace=\"1\" outofplace=\"1\" minBytes=\"0\""
            " maxBytes=\"%" PRId64 "\">\n",
            name, m->channels, m->total, s->groups.ranks, coll_name(s->phases), INT64_MAX);
    for (int r = 0; r < s->groups.ranks; r++)
        print_gpu(m, r, out);
    fprintf(out, "</algo>\n");
}

/* ---- all of it ---- */

static void msccl_open(struct msccl *m)
{
    const struct schedule *s = m->s;

    m->gpu = mem_new((size_t)s->groups.ranks, sizeof *m->gpu);
    m->place = mem_new((size_t)s->groups.ranks * (size_t)m->span, sizeof *m->place);
    for (int r = 0; r < s->groups.ranks; r++) {
        for (int c = 0; c < (int)m->span; c++) {
            struct place *p = place_of(m, r, c);
            p->wrote.block = -1;
            if (c < s->chunks)
                p->at = origin(m, r, c);
        }
    }
    memset(m->channel, -1, sizeof m->channel);
}

static void msccl_release(struct msccl *m)
{
    for (int r = 0; m->gpu && r < m->s->groups.ranks; r++) {
        struct gpu *g = &m->gpu[r];
        for (int i = 0; i < g->blocks; i++) {
            for (int k = 0; k < g->block[i].steps; k++)
                mem_free(g->block[i].step[k].need);
            mem_free(g->block[i].step);
        }
        mem_free(g->block);
    }
    for (int64_t i = 0; m->place && i < m->s->groups.ranks * m->span; i++)
        mem_free(m->place[i].read);
    mem_free(m->gpu);
    mem_free(m->place);
    mem_free(m->start);
    mem_free(m);
}

int schedule_print_msccl(const struct schedule *s, const int64_t *units, FILE *out,
                         struct err *err)
{
    struct msccl *m = mem_new(1, sizeof *m);

    m->s = s;
    m->units = units;
    m->span = (int64_t)s->chunks * (1 + s->planes);
    m->start = mem_new((size_t)s->chunks, sizeof *m->start);
    int rc = check_before(m, err);
    if (rc == 0)
        rc = lay_out(m, err);
    if (rc == 0) {
        msccl_open(m);
        run(m);
        rc = check_after(m, err);
    }
    if (rc == 0)
        print(m, out);
    msccl_release(m);
    return rc;
}
