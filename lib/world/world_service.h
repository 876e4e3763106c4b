/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_SERVICE_H
#define WORLD_WORLD_SERVICE_H

#include "world/world.h"

/*
 * Bytes that one rank asks another for while that one does something else: a thread of each
 * rank answers the others.
 *
 *     rank 2: world_request(s, 5, what, ...)   ---- what ---->   rank 5: answer(what, ...)
 *                                          <--- bytes ---- in chunks of WORLD_CHUNK
 *
 * A rank answers one question after the other and asks one at a time.  Answering waits for
 * nobody but the rank that has asked, so that ranks cannot wait in a circle.
 */
enum { WORLD_REQUEST = 4 };

struct world_service;
struct world_answers {
    /* Puts at most `most` bytes at `to`, and their number into *bytes; -1: has no answer. */
    int (*answer)(void *arg, const int64_t what[WORLD_REQUEST], void *to, int64_t *bytes,
                  struct err *err);
    void *arg;    /* borrowed until the service is closed */
    int64_t most; /* bytes */
};

/*
 * Until close this rank answers, and may ask.  Not collective: a question waits until the other
 * rank has opened.  p: borrowed, all ranks, for nothing else meanwhile.  close: once all ranks
 * have what they asked for; NULL is fine.
 */
int world_service_open(struct world_service **out, struct world_peers *p,
                       const struct world_answers *a, struct err *err);
void world_service_close(struct world_service *s);
/*
 * An answer of another rank, of at most `room` bytes.  One thread at a time.
 * ERR_ABSENT: that rank has none.  ERR_PEER after 10 times the deadline without a byte.
 */
int world_request(struct world_service *s, int rank, const int64_t what[WORLD_REQUEST],
                  void *to, int64_t space, int64_t *bytes, struct err *err);

#endif
