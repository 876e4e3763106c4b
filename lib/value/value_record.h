/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_RECORD_H
#define VALUE_VALUE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "value/value_json_out.h"
#include "value/value_tree.h"

/*
 * One table says which member of a struct has which key, type and range.  It reads the struct
 * from YAML or JSON and writes it as YAML, JSON or a line of CSV.
 *
 *     struct port { char host[64]; int ranks; double out_Bps; };
 *
 *     static const struct record port[] = {
 *         RECORD(TEXT, struct port, host, "host"),
 *         RECORD_INT(struct port, ranks, "ranks", 1, INT32_MAX),
 *         RECORD_NUM(struct port, out_Bps, "out_Bps", 1, 1e25, .flags = RECORD_OPTIONAL),
 *         {0}};
 *     record_read(&tree, node, port, "", &p, err);         p is initialized: an absent key
 *     record_put(&j, port, &p);                            leaves its member as it is
 *
 * The value of an optional or nullable key can be unknown: a number out of its range (with
 * RECORD_ZERO 0 too), an empty text, a word without a name, an object whose first key is
 * unknown.  Then YAML leaves it out, and JSON has null.
 */
enum record_type {
    RECORD_END,
    RECORD_WHOLE,  /* int or int64_t, by its size */
    RECORD_REAL,   /* double */
    RECORD_BOOL,   /* int: true or false, in YAML yes or no */
    RECORD_TEXT,   /* char[room] without control characters */
    RECORD_CHOICE, /* int or enum: the index of one of `words` */
    RECORD_WORD,   /* a text that `parse` reads and `name` writes */
    RECORD_OWN,    /* of its own functions */
    RECORD_OBJECT, /* members of `of`, in the object that is open where key is NULL */
};

enum {
    RECORD_OPTIONAL = 1, /* may be absent or null */
    RECORD_NULLABLE = 2, /* is there, and may be null */
    RECORD_ABSENT = 4,   /* unknown: JSON leaves it out too */
    RECORD_ZERO = 8,     /* 0 is unknown */
    RECORD_BRIEF = 16,   /* YAML leaves out the first choice */
    RECORD_OTHER = 256,  /* from here on the table's own */
};

struct record {
    const char *key;
    enum record_type type;
    size_t at, space;
    int flags;
    int64_t lo, hi;     /* of whole numbers; of a text the least bytes are lo */
    double least, most; /* of reals */
    /* A list of `numbers` items of `each` numbers; the int at count_at counts the items, unless
     * it is 0: then there are as many. */
    int numbers, each;
    size_t count_at;
    const char *const *words; /* up to a NULL */
    const struct record *of;
    /* Each may be NULL; they go before what the type does. */
    int (*parse)(const char *text, void *out, struct err *why); /* why: "'x', expected ..." */
    int (*read)(const struct record *f, const struct tree *t, const struct tree_node *n,
                void *at, struct err *err); /* fails as tree_fail */
    void (*put)(const struct record *f, struct jout *j, const void *at);
    const char *(*name)(const void *value); /* of a word; NULL: unknown */
    const char *column;                     /* of CSV, where it is not the key */
};

/* RECORD(TEXT, struct port, host, "host") */
#define RECORD(type_, struct_, member_, key_, ...)                                             \
    {                                                                                          \
        .key = (key_), .type = RECORD_##type_, .at = offsetof(struct_, member_),               \
        .space = sizeof((struct_ *)0)->member_, __VA_ARGS__                                    \
    }
#define RECORD_INT(struct_, member_, key_, lo_, hi_, ...)                                      \
    RECORD(WHOLE, struct_, member_, key_, .lo = (lo_), .hi = (hi_), __VA_ARGS__)
#define RECORD_NUM(struct_, member_, key_, least_, most_, ...)                                 \
    RECORD(REAL, struct_, member_, key_, .least = (least_), .most = (most_), __VA_ARGS__)
/* Uses the functions that RECORD_WORDS makes. */
#define RECORD_TERM(struct_, member_, key_, words_, ...)                                       \
    RECORD(WORD, struct_, member_, key_, .parse = parse_##words_, .name = name_of_##words_,    \
           __VA_ARGS__)
#define RECORD_WORDS(words_, type_, parser_, namer_)                                           \
    static int parse_##words_(const char *text, void *out, struct err *why)                    \
    {                                                                                          \
        return parser_(text, out, why);                                                        \
    }                                                                                          \
    static const char *name_of_##words_(const void *value)                                     \
    {                                                                                          \
        return namer_(*(const type_ *)value);                                                  \
    }
/* Members of the same struct as an object, or among the others where the key is NULL. */
#define RECORD_PART(key_, of_, ...)                                                            \
    {                                                                                          \
        .key = (key_), .type = RECORD_OBJECT, .of = (of_), __VA_ARGS__                         \
    }

/* A member that is RECORD_REAL. */
double record_real(const struct record *f, const void *from);
/* n is a mapping of the table's keys and of `more` (as tree_keys takes them). */
int record_keys(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, struct err *err);
/* Reads the members from n, whose keys have been checked. */
int record_values(const struct tree *t, const struct tree_node *n, const struct record *f,
                  void *out, struct err *err);
/* Both. */
int record_read(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, void *out, struct err *err);
/* The members alone: their object is open. */
void record_put(struct jout *j, const struct record *f, const void *from);
/* An object of the members, and a list of `count` such objects of `size` bytes each. */
void record_put_object(struct jout *j, const char *key, const struct record *f,
                       const void *from);
void record_put_list(struct jout *j, const char *key, const struct record *f, const void *from,
                     int count, size_t size);
/* A line of JSON, with its newline. */
void record_put_line(FILE *out, const struct record *f, const void *from);
/* A line of CSV (RFC 4180); from NULL: the names of the columns. */
void record_put_csv(FILE *out, const struct record *f, const void *from);

#endif
