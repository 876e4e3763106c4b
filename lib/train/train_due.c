/* SPDX-License-Identifier: BSD-3-Clause */
/* In which steps the ranks meet, and what is due then. */
#include "train/train_inside.h"

int train_meets(const struct train *t, int64_t step)
{
    int every = t->plan.sync_every;

    return !every || step % every == 0 || step == (int64_t)t->settings.steps || t->ending;
}

int train_ends(const struct train *t, int64_t step)
{
    return step == (int64_t)t->settings.steps || t->ending ||
           (!t->plan.fragments && train_meets(t, step));
}

int train_due(const struct train *t, double every)
{
    int64_t n = (int64_t)every, step = t->step - t->ending;
    int period = t->plan.sync_every ? t->plan.sync_every : 1;

    while (n && step > 0 && (step - 1) % period && step % n)
        step--;
    return n && step % n == 0;
}

void train_prepare_end(struct train *t, int64_t flags)
{
    t->ending = t->step + 1 < (int64_t)t->settings.steps &&
                (flags & (TRAIN_STOP | TRAIN_SAVE) || train_due(t, t->settings.save_every) ||
                 (t->local_saver && train_due(t, t->settings.local_every)));
}
