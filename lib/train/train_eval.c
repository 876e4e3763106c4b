/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the loss on the held-out data: all ranks evaluate different micro-batches of it,
 * forward only, and add up their results in rank order.
 */
#include <math.h>

#include "base/mem.h"
#include "base/tick.h"
#include "train/train_inside.h"

struct turn {
    struct train *train;
    int64_t all;            /* windows reserved for evaluation */
    int64_t windows;        /* number of them, evenly spread, that are evaluated */
    int64_t counted, bytes; /* this rank's targets that count, and bytes of their text */
    int failed;             /* a read failed */
    struct err why;
};

static void read_windows(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    struct turn *turn = arg;
    struct train *t = turn->train;
    const struct plan *p = &t->plan;
    int64_t first = ((int64_t)micro * t->world->ranks + t->world->rank) * p->micro_batch;

    int32_t *begins = t->begins;

    for (int b = 0; b < p->micro_batch; b++, tokens += p->seq, targets += p->seq) {
        int there = first + b < turn->windows;
        __int128 at = (__int128)(first + b) * turn->all / turn->windows;
        turn->failed = turn->failed || data_eval_batch(&t->data, (int64_t)at, 1, tokens,
                                                       targets, begins, &turn->why);
        for (int i = 0; (!there || turn->failed) && i < p->seq; i++)
            targets[i] = -1;
        for (int i = 0; turn->failed && i < p->seq; i++)
            tokens[i] = 0;
        for (int i = 0; i < p->seq; i++) {
            turn->counted += targets[i] >= 0;
            if (targets[i] >= 0 && t->data.token_bytes)
                turn->bytes += t->data.token_bytes[targets[i]];
            if (turn->failed && begins)
                begins[i] = 0;
        }
        begins = begins ? begins + p->seq : NULL;
    }
}

struct eval_sums {
    double loss;
    int64_t counted, bytes, failed;
};

int train_eval(struct train *t, struct err *err)
{
    const struct plan *p = &t->plan;
    int64_t round = (int64_t)t->world->ranks;
    struct turn turn = {.train = t};
    struct eval_sums mine = {0}, sum = {0}, *all;

    t->eval_loss = NAN;
    if (!train_due(t, t->settings.eval_every))
        return 0;
    round *= p->micro_batch;
    turn.all = turn.windows = data_eval_windows(&t->data);
    int64_t micros = (turn.windows + round - 1) / round,
            most = (int64_t)t->settings.eval_batches;
    if (most && micros > most) {
        micros = most;
        turn.windows = micros * round;
    }
    double start = tick_now_s();
    int own = engine_evaluate(t->engine, read_windows, &turn, (int)micros, &mine.loss, err);
    if (own && err->code != ERR_DEVICE) /* the other ranks do not reach the exchange either */
        return -1;
    if (!own && turn.failed) {
        *err = turn.why;
        own = -1;
    }
    mine.counted = turn.counted;
    mine.bytes = turn.bytes;
    mine.failed = own != 0;
    struct err why = own ? *err : (struct err){0};
    all = mem_new((size_t)t->world->ranks, sizeof *all);
    int rc = world_allgather(t->world, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < t->world->ranks; r++) {
        sum.loss += all[r].loss;
        sum.counted += all[r].counted;
        sum.bytes += all[r].bytes;
        sum.failed |= all[r].failed;
    }
    mem_free(all);
    if (rc == 0 && sum.failed) {
        *err = why;
        return world_agree(t->world, own, err);
    }
    t->eval_bits = sum.bytes ? sum.loss / (M_LN2 * (double)sum.bytes) : NAN;
    /* NAN, and not logged, if no target counts */
    t->eval_loss = sum.loss / (double)sum.counted;
    t->eval_s = tick_now_s() - start;
    return rc;
}
