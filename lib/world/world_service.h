/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_SERVICE_H
#define WORLD_WORLD_SERVICE_H

#include "world/world.h"

/*
 * Lets ranks request bytes from a rank that is doing something else: a thread of each rank
 * answers.
 *
 *     rank 2: world_request(s, 5, what, ...)   ---- what ---->   rank 5: answer(what, ...)
 *                                          <--- bytes ---- in chunks of WORLD_CHUNK
 *
 * A rank answers one request after the other and has one request of its own at a time.
 * Answering waits only for the requesting rank, so there is no circular wait.
 */
enum { WORLD_REQUEST = 4 };

struct world_service;
struct world_answers {
    /* Writes at most `most` bytes to `to`, and their number to *bytes; -1: no answer. */
    int (*answer)(void *arg, const int64_t what[WORLD_REQUEST], void *to, int64_t *bytes,
                  struct err *err);
    void *arg;    /* borrowed until the service is closed */
    int64_t most; /* bytes of the largest answer */
};

/*
 * open: this rank answers, and may request, until close.  Not collective: a request waits until
 * the other rank has opened.  p: all ranks, borrowed, used only by the service until close.
 * close: when all ranks have the answers they need; NULL is fine.
 */
int world_service_open(struct world_service **out, struct world_peers *p,
                       const struct world_answers *a, struct err *err);
void world_service_close(struct world_service *s);
/*
 * Gets an answer of at most `space` bytes from another rank.  One thread at a time.
 * ERR_ABSENT: that rank has no answer.  ERR_PEER after 10 times the deadline without a byte.
 */
int world_request(struct world_service *s, int rank, const int64_t what[WORLD_REQUEST],
                  void *to, int64_t space, int64_t *bytes, struct err *err);

#endif
