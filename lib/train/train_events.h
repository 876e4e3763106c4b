/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_EVENTS_H
#define TRAIN_TRAIN_EVENTS_H

#include <stdint.h>
#include <stdio.h>

/*
 * Writes TensorBoard's event files: TFRecords of protobuf messages
 * (tensorflow/core/util/event.proto).
 *
 *     record   u64 length | masked CRC32C of the length | the message | masked CRC32C of it
 *     Event    1: wall_time (double)   2: step   3: file_version (text)   5: summary
 *              7: session log, {1: status}
 *     summary  1: value, repeated:     {1: tag (text)   2: simple_value (float)}
 *
 * Numbers are little endian.  Errors stay with the FILE (ferror).
 */
enum { EVENTS_SCALARS_MAX = 64, EVENTS_TAG_MAX = 64 };

struct events_scalar {
    char tag[EVENTS_TAG_MAX]; /* "loss/eval_loss": the part before the slash names a section */
    float value;
};

/* Writes the first record of every file. */
void events_put_version(FILE *f, double wall_s);
/* Starts a session at that step: readers drop the events of earlier files from that step on. */
void events_put_start(FILE *f, double wall_s, int64_t step);
/* count: EVENTS_SCALARS_MAX at most */
void events_put_scalars(FILE *f, double wall_s, int64_t step,
                        const struct events_scalar *scalar, int count);

#endif
