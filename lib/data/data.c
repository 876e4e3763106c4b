/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows where tokens come from and which ones a micro-batch has.  Does not know ranks. */
#include "data/data.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/rng.h"

static int check_tokens(const struct data *d, const char *path, int64_t vocab, struct err *err)
{
    for (int64_t i = 0; vocab < 256 && i < d->tokens; i++)
        if (d->text[i] >= vocab)
            return err_set(err, ERR_INPUT,
                           "'%s': byte %" PRId64 " is token %d, expected less than the model's "
                           "vocabulary of %" PRId64,
                           path, i, d->text[i], vocab);
    return 0;
}

int data_open(struct data *d, const char *path, int seq, int64_t vocab, uint64_t seed,
              struct err *err)
{
    struct data new = {.seed = seed};
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */

    if (fd < 0)
        return err_sys(err, "cannot open data '%s'", path);
    if (io_size(fd, &new.tokens, err)) {
        err_prefix(err, "data '%s' ", path);
        close(fd);
        return -1;
    }
    if (new.tokens < seq + 1) {
        close(fd);
        return err_set(err, ERR_INPUT,
                       "data '%s' has %" PRId64
                       " tokens, expected at least %d (one sequence and "
                       "its next token)",
                       path, new.tokens, seq + 1);
    }
    void *p = mmap(NULL, (size_t) new.tokens, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return err_sys(err, "cannot map data '%s'", path);
    new.text = p;
    if (check_tokens(&new, path, vocab, err)) {
        data_close(&new);
        return -1;
    }
    *d = new;
    return 0;
}

void data_close(struct data *d)
{
    if (d->text)
        munmap((void *)(uintptr_t)d->text, (size_t)d->tokens);
    *d = (struct data){0};
}

void data_batch(const struct data *d, int64_t index, int batch, int seq, int32_t *tokens,
                int32_t *targets)
{
    uint64_t stream = rng_stream("data");

    for (int b = 0; b < batch; b++) {
        uint64_t r = rng_u64(d->seed, stream, (uint64_t)(index * batch + b));
        int64_t at = (int64_t)(((unsigned __int128)r * (uint64_t)(d->tokens - seq)) >> 64);
        for (int t = 0; t < seq; t++) {
            tokens[b * seq + t] = d->text[at + t];
            targets[b * seq + t] = d->text[at + t + 1];
        }
    }
}
