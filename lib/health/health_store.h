/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_STORE_H
#define HEALTH_HEALTH_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/io.h"
#include "value/value_record.h"

/*
 * Reads and writes the files of a check: records, states, baselines.  Each is a struct with a
 * head and lists of items, by tables of value/value_record.h.  A file begins with its format,
 * ends with a checksum of all preceding bytes, and is replaced atomically.
 *
 *     JSON Lines                                    YAML
 *     {"format":"paro-health/1","when_s":...}       format: paro-baseline/2
 *     {"host":"node0","ranks":2,...}                when_s: 1795363200
 *     {"src":0,"dst":1,...,"Bps":5.98e7}            ports:
 *     {"xxh3":"0123..."}                              - host: node0
 *                                                       ranks: 2
 *                                                   checksum: 0123...
 */
struct health_kind {
    const char *key;  /* items with this key are of this kind */
    const char *list; /* the list's key in YAML */
    const struct record *field;
    size_t size, at, count, space; /* size of an item; offsets of the list's members in the
                                      whole */
    int most;
    int unique; /* 1: the member at offset 0, a char[], is unique among all items */
    /* Returns the fault of an item about to be added, or NULL; *key: its member. */
    const char *(*check)(void *whole, void *item, const char **key);
};

#define HEALTH_ITEMS(struct_, at_, count_, space_)                                             \
    .size = sizeof *((struct_ *)0)->at_, .at = offsetof(struct_, at_),                         \
    .count = offsetof(struct_, count_), .space = offsetof(struct_, space_)
#define HEALTH_LISTED(struct_, list_) HEALTH_ITEMS(struct_, list_.at, list_.count, list_.space)

/* A nonempty name, converted by health_name_clean (health_data.h). */
#define HEALTH_NAME(struct_, member_, key_)                                                    \
    RECORD(TEXT, struct_, member_, key_, .lo = 1, .read = health_store_read_name)
int health_store_read_name(const struct record *f, const struct tree *t,
                           const struct tree_node *n, void *at, struct err *err);

struct health_store {
    const char *format; /* "paro-health/1" */
    int yaml;
    int64_t bytes_most;
    const struct record *head;
    int counted; /* 1: the head counts the items of the first kind */
    const struct health_kind *kind;
    size_t size; /* of *whole, which is zeroed before reading; 0: the caller has done so */
    /* Returns the fault of the whole, or NULL; *key: its member. */
    const char *(*check)(void *whole, const char **key);
    void (*release)(void *whole);
};

/* Format of a run's record, paro-health-record(5): a struct health_data. */
extern const struct health_store health_record_store;

void health_store_print(const struct health_store *s, const void *whole, FILE *out);
/* Parses into *whole, which is released on failure.  ERR_INPUT "name:line: 'key' ...". */
int health_store_parse(const struct health_store *s, const char *name, const char *text,
                       int64_t bytes, void *whole, struct err *err);
int health_store_read(const struct health_store *s, const char *path, void *whole,
                      struct err *err);
int health_store_write(const struct health_store *s, const void *whole, const char *path,
                       int force, struct err *err);

/* Writes to `line` [HEALTH_TAIL] the last line, which makes the text before it a complete
   file. */
enum { HEALTH_TAIL = 64 };
int health_store_tail(const struct health_store *s, const char *text, int64_t bytes,
                      char line[HEALTH_TAIL]);

/* ---- folders and files that others may access ---- */

/*
 * Checks the state's folder, and creates it (0700) if missing.  ERR_INPUT: it is a link or no
 * folder, another user's, or others may write to it or replace it: then nothing is created.
 */
int health_folder_check(const char *dir, struct err *err);

#endif
