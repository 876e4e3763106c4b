/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds easy sequences from the losses of a run.  Leaves ranks to its callers. */
#include "data/data_easy.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

struct sequence { /* in data order for one source; later of all, easiest first */
    int part;
    int64_t window;
    int64_t epochs, events;
    int learned, ever; /* in the last epoch; in any epoch */
    float loss;        /* in the last epoch */
};

struct epoch { /* the current epoch of a source */
    int64_t count;
    int64_t *window;
    float *loss, *sorted; /* [windows] */
};

int64_t easy_samples(const struct data *d)
{
    int64_t most = 0;

    for (int p = 0; p < d->count; p++) {
        int64_t sample = 2 * d->part[p].windows.windows - 1; /* the last sample of two epochs */
        int64_t at = sample;
        if (d->mix.sources > 1) {
            int64_t share = d->mix.share[p], turn = 0;
            for (int64_t had = sample % share; d->mix.turn[turn].source != p || had > 0; turn++)
                had -= d->mix.turn[turn].source == p;
            at = sample / share * d->mix.period + turn;
        }
        most = at + 1 > most ? at + 1 : most;
    }
    return most;
}

/* Losses that are not finite sort last. */
static int by_loss(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    x = isfinite(x) ? x : INFINITY;
    y = isfinite(y) ? y : INFINITY;
    return (x > y) - (x < y);
}

static void end_epoch(struct sequence *of, struct epoch *e)
{
    qsort(e->sorted, (size_t)e->count, sizeof *e->sorted, by_loss);
    float median = e->sorted[e->count / 2];

    for (int64_t i = 0; i < e->count; i++) {
        struct sequence *s = &of[e->window[i]];
        int learned = e->loss[i] < median;
        s->events += s->learned && !learned;
        s->learned = learned;
        s->ever |= learned;
        s->loss = e->loss[i];
        s->epochs++;
    }
    e->count = 0;
}

static int64_t score_of(const struct sequence *s)
{
    return s->ever ? s->events : s->epochs;
}

static int easiest_first(const void *a, const void *b)
{
    const struct sequence *x = a, *y = b;
    int64_t more = score_of(x) - score_of(y);

    if (more)
        return more < 0 ? -1 : 1;
    int loss = by_loss(&x->loss, &y->loss);
    if (loss)
        return loss;
    return x->part != y->part ? x->part - y->part : x->window < y->window ? -1 : 1;
}

/* Lists each source's sequences in data order, with their events; owned by the caller. */
static struct sequence *count_events(const struct data *d, const float *loss, int64_t samples,
                                     int64_t *sequences)
{
    int64_t *first = mem_new((size_t)d->count + 1, sizeof *first);
    struct epoch *epoch = mem_new((size_t)d->count, sizeof *epoch);

    for (int p = 0; p < d->count; p++) {
        int64_t n = d->part[p].windows.windows;
        first[p + 1] = first[p] + n;
        epoch[p].window = mem_new((size_t)n, sizeof *epoch[p].window);
        epoch[p].loss = mem_new((size_t)n, sizeof *epoch[p].loss);
        epoch[p].sorted = mem_new((size_t)n, sizeof *epoch[p].sorted);
    }
    struct sequence *all = mem_new((size_t)first[d->count], sizeof *all);
    for (int p = 0; p < d->count; p++)
        for (int64_t w = first[p]; w < first[p + 1]; w++)
            all[w] = (struct sequence){.part = p, .window = w - first[p]};
    for (int64_t k = 0; k < samples; k++) {
        int p;
        int64_t window = data_window(d, k, &p);
        struct epoch *e = &epoch[p];
        e->window[e->count] = window;
        e->loss[e->count] = e->sorted[e->count] = loss[k];
        if (++e->count == d->part[p].windows.windows)
            end_epoch(all + first[p], e);
    }
    for (int p = 0; p < d->count; p++) {
        MEM_FREE(epoch[p].window, epoch[p].loss, epoch[p].sorted);
    }
    *sequences = first[d->count];
    mem_free(epoch);
    mem_free(first);
    return all;
}

void easy_drop(struct data *d, const float *loss, int64_t samples, int64_t count,
               struct easy_report *report)
{
    int64_t sequences, **kept = mem_new((size_t)d->count, sizeof *kept);
    int64_t *left = mem_new((size_t)d->count, sizeof *left);
    int64_t *n = mem_new((size_t)d->count, sizeof *n); /* length of each kept[] */
    struct sequence *all = count_events(d, loss, samples, &sequences);
    struct easy_report r = {.sequences = sequences};

    qsort(all, (size_t)sequences, sizeof *all, easiest_first);
    for (int p = 0; p < d->count; p++) {
        left[p] = d->part[p].windows.windows;
        kept[p] = mem_new((size_t)left[p], sizeof *kept[p]);
    }
    for (int64_t i = 0; i < sequences; i++) {
        const struct sequence *s = &all[i];
        r.never_lost += s->ever && !s->events;
        r.never_learned += !s->ever;
        if (r.dropped < count && left[s->part] > 1) {
            r.dropped++;
            left[s->part]--;
        } else {
            kept[s->part][n[s->part]++] = s->window;
        }
    }
    data_keep(d, kept, n, samples);
    MEM_FREE(all, left, kept, n);
    *report = r;
}
