/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_STORE_H
#define HEALTH_HEALTH_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/io.h"

/*
 * The files of a check: records, states, baselines.  Each is a struct with a head and lists of
 * items; tables say which member has which key and which bounds, and one writer and one reader
 * do the rest.  A file begins with its format, ends with the checksum of all before it, and is
 * replaced whole or not at all.
 *
 *     JSON Lines                                    YAML
 *     {"format":"paro-health/1","when_s":...}       format: paro-baseline/2
 *     {"host":"node0","ranks":2,...}                when_s: 1795363200
 *     {"src":0,"dst":1,...,"Bps":5.98e7}            ports:
 *     {"xxh3":"0123..."}                              - host: node0
 *                                                       ranks: 2
 *                                                   checksum: 0123...
 */
enum health_type {
    HEALTH_TYPE_INT,
    HEALTH_TYPE_I64,
    HEALTH_TYPE_REAL,
    HEALTH_TYPE_BOOL,
    HEALTH_TYPE_TEXT,  /* char[room] */
    HEALTH_TYPE_NAME,  /* char[room], not empty, made clean (health_data.h) */
    HEALTH_TYPE_LEVEL, /* enum health_level */
    HEALTH_TYPE_PARTS, /* unsigned, bits of enum health_part */
    HEALTH_TYPE_COUNT, /* of the first list's items, which follow */
    HEALTH_TYPE_WORD /* int: 1 where the key has this word (NULL: true), 0 where it is absent */
};
struct health_field {
    const char *key;
    enum health_type type;
    size_t at, room;
    int64_t lo, hi;     /* of whole numbers */
    double least, most; /* of reals */
    /* An array of `numbers` items of `each` numbers; the int at count_at counts the items,
     * unless it is 0: then there are as many. */
    int numbers, each;
    size_t count_at;
    const char *word;
};

#define HEALTH_FIELD(struct_, member_, key_, type_, ...)                                       \
    {                                                                                          \
        .key = (key_), .at = offsetof(struct_, member_),                                       \
        .room = sizeof((struct_ *)0)->member_, .type = (type_), __VA_ARGS__                    \
    }
#define HEALTH_WHOLE(struct_, member_, key_, lo_, hi_)                                         \
    HEALTH_FIELD(struct_, member_, key_,                                                       \
                 sizeof((struct_ *)0)->member_ == sizeof(int) ? HEALTH_TYPE_INT                \
                                                              : HEALTH_TYPE_I64,               \
                 .lo = (lo_), .hi = (hi_))
#define HEALTH_REAL(struct_, member_, key_, least_, most_)                                     \
    HEALTH_FIELD(struct_, member_, key_, HEALTH_TYPE_REAL, .least = (least_), .most = (most_))
#define HEALTH_ONE(struct_, member_, key_, type_) HEALTH_FIELD(struct_, member_, key_, type_, )

struct health_kind {
    const char *key;  /* the items that have it are of this kind */
    const char *list; /* the list's key in YAML */
    const struct health_field *field;
    size_t size, at, count, room; /* of an item; where the list is in the whole */
    int most;
    int unique; /* the member at offset 0, a char[], differs between all items */
    /* What is wrong with an item that is about to be added, or NULL; *key: of which member. */
    const char *(*check)(void *whole, void *item, const char **key);
};

#define HEALTH_ITEMS(struct_, at_, count_, room_)                                              \
    .size = sizeof *((struct_ *)0)->at_, .at = offsetof(struct_, at_),                         \
    .count = offsetof(struct_, count_), .room = offsetof(struct_, room_)
#define HEALTH_LISTED(struct_, list_) HEALTH_ITEMS(struct_, list_.at, list_.count, list_.room)

enum { HEALTH_KINDS_MOST = 10 };

struct health_store {
    const char *format; /* "paro-health/1" */
    int yaml;
    int64_t bytes_most;
    const struct health_field *head; /* a key NULL ends all tables */
    const struct health_kind *kind;  /* HEALTH_KINDS_MOST at most */
    size_t size; /* of the whole, zeroed before it is read; 0: the caller has done so */
    /* What is wrong with the whole, or NULL; *key: of which member. */
    const char *(*check)(void *whole, const char **key);
    void (*release)(void *whole);
};

/* The record of a run, paro-health-record(5): a struct health_data. */
extern const struct health_store health_record_store;

void health_store_print(const struct health_store *s, const void *whole, FILE *out);
/* Into *whole, which is released on failure.  ERR_INPUT "name:line: 'key' ...". */
int health_store_parse(const struct health_store *s, const char *name, const char *text,
                       int64_t bytes, void *whole, struct err *err);
int health_store_read(const struct health_store *s, const char *path, void *whole,
                      struct err *err);
int health_store_write(const struct health_store *s, const void *whole, const char *path,
                       int force, struct err *err);

/* The last line that makes a text before it a whole file; `line` has room for HEALTH_TAIL. */
enum { HEALTH_TAIL = 64 };
int health_store_tail(const struct health_store *s, const char *text, int64_t bytes,
                      char line[HEALTH_TAIL]);

/* ---- folders and files that others may read ---- */

/*
 * The state's folder, made (0700) if it is not there.  ERR_INPUT: it is a link or no folder,
 * another's, or others may write to it or put another in its place: then nothing is made.
 */
int health_folder_check(const char *dir, struct err *err);

/*
 * io_create with force, io_commit and io_lock, where others may read the folder: whoever can
 * open a temporary or a lock could lock it, and would be taken for another writer.  So nobody
 * can: a file has its mode from the commit on.
 */
int health_file_create(struct io_out *out, const char *path, int force, struct err *err);
int health_file_commit(struct io_out *out, struct err *err);
int health_file_lock(const char *path, int *fd, struct err *err);

#endif
