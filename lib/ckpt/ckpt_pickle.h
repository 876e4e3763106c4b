/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PICKLE_H
#define CKPT_CKPT_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Reads what Python's pickle module wrote of a checkpoint, or PyTorch of plain values
 * (protocols 2 to 5), and executes nothing: a class or a function is a name, and a call of one
 * is a record of the name and its arguments.  A name or an operation that no checkpoint needs
 * is an error that states it.
 *
 * Memory is bounded by some 100 times the text; for real ones it is some 20 times.  Values may
 * be shared and may contain each other: a reader must not follow them without a bound.
 */
enum pickle_kind {
    PICKLE_NONE, /* and real numbers: pickle_real */
    PICKLE_INT,  /* and booleans */
    PICKLE_TEXT,
    PICKLE_LIST,   /* or a tuple */
    PICKLE_DICT,   /* a key, its value, the next key, ... */
    PICKLE_NAME,   /* of a class or function, without its module */
    PICKLE_OBJECT, /* its name, the arguments of its call, its state if it has one */
    PICKLE_REF,    /* a persistent identifier: one item */
    PICKLE_MARK    /* none that a reader sees */
};

struct pickle {
    enum pickle_kind kind;
    unsigned space;
    int64_t n; /* the number; or of text bytes (8 of a real number), and else items */
    union {
        const char *text;     /* no 0 follows; lies in what was read */
        struct pickle **item; /* [n] */
    };
};

struct pickle_file {
    struct pickle *root;
    struct pickle **value; /* [count]: all */
    int64_t count;
    size_t space;
};

/* The text must live as long as the file. */
int pickle_read(struct pickle_file *f, const char *name, const char *text, int64_t bytes,
                struct err *err);
void pickle_release(struct pickle_file *f);

/* All may be given NULL, and values of any kind. */
int pickle_is(const struct pickle *v, enum pickle_kind kind, const char *text);
/* The arguments of an object of that class, or NULL. */
const struct pickle *pickle_call(const struct pickle *v, const char *name);
/* The value of a text key of a dictionary, or of an object's state; or NULL. */
const struct pickle *pickle_get(const struct pickle *v, const char *key);
/* A real number; NAN: it is none. */
double pickle_real(const struct pickle *v);
/* Item i of a list, or NULL. */
const struct pickle *pickle_at(const struct pickle *v, int64_t i);
/* A text as a string, for mem_free; NULL where it is none, or has a 0. */
char *pickle_text(const struct pickle *v);

#endif
