/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PICKLE_H
#define CKPT_CKPT_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Reads checkpoints' pickles (Python's pickle module, PyTorch; protocols 2 to 5) without
 * executing them: a class or function becomes a name, a call becomes a record of the name and
 * its arguments.  Names and operations that checkpoints do not need are errors.
 *
 * Memory is at most about 100 times the text; for real checkpoints about 20 times.  Values may
 * be shared and may contain each other: a reader must not follow them without a bound.
 */
enum pickle_kind {
    PICKLE_NONE, /* None; also real numbers, see pickle_real */
    PICKLE_INT,  /* and booleans */
    PICKLE_TEXT,
    PICKLE_LIST,   /* or a tuple */
    PICKLE_DICT,   /* a key, its value, the next key, ... */
    PICKLE_NAME,   /* name of a class or function, without its module */
    PICKLE_OBJECT, /* items: its name, the arguments of its call, its state if it has one */
    PICKLE_REF,    /* a persistent identifier: one item */
    PICKLE_MARK    /* internal to the reader */
};

struct pickle {
    enum pickle_kind kind;
    unsigned space;
    int64_t n; /* the integer; or bytes of the text (8 for a real number), or number of items */
    union {
        const char *text;     /* borrowed from the pickle; not terminated by 0 */
        struct pickle **item; /* [n] */
    };
};

struct pickle_file {
    struct pickle *root;
    struct pickle **value; /* [count]: all values */
    int64_t count;
    size_t space;
};

/* The text must live as long as the file. */
int pickle_read(struct pickle_file *f, const char *name, const char *text, int64_t bytes,
                struct err *err);
void pickle_release(struct pickle_file *f);

/* Whether v has this kind and, unless text is NULL, this text.  All accessors accept v NULL and
   values of any kind. */
int pickle_is(const struct pickle *v, enum pickle_kind kind, const char *text);
/* The arguments of an object of this class, or NULL. */
const struct pickle *pickle_call(const struct pickle *v, const char *name);
/* The value of a text key in a dictionary or in an object's state, or NULL. */
const struct pickle *pickle_get(const struct pickle *v, const char *key);
/* A real number; NAN: not a number. */
double pickle_real(const struct pickle *v);
/* Item i of a list, or NULL. */
const struct pickle *pickle_at(const struct pickle *v, int64_t i);
/* A text as a string, for mem_free; NULL: not a text, or it contains a 0 byte. */
char *pickle_text(const struct pickle *v);

#endif
