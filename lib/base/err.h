/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/*
 * An error is one sentence: what was found and what was expected, and, if a file is at fault,
 * its name, line and key.  It uses no heap and no globals.  The function that detects an error
 * fills it; callers may add a place (err_prefix) but do not repeat the text.
 */
enum err_code {
    ERR_NONE,
    ERR_INPUT,    /* the user's input is wrong: the user must correct a file or option */
    ERR_SYS,      /* the system failed: disk, memory, permission */
    ERR_MISMATCH, /* two inputs that must agree do not */
    ERR_ABSENT,   /* a requested item does not exist */
    ERR_PEER,     /* another rank failed or was lost */
    ERR_DEVICE    /* an accelerator or a library on it failed */
};

struct err {
    enum err_code code;
    int line; /* from 1, if a file is at fault; else 0 */
    /* ERR_SYS for lack of memory or descriptors: the request itself may be valid */
    int scarce;
    int has_rank;   /* the text names the rank that it comes from: world/ adds that once */
    char file[256]; /* "" if no file is at fault; as given, possibly unprintable */
    char key[96];   /* the key in it, or ""; as given */
    char text[768]; /* the whole sentence, including "file:line: 'key' ..."; printable UTF-8 */
};

/* All functions set err and return -1, so a caller can write `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* ERR_SYS (ERR_ABSENT for ENOENT); appends ": " and the text of errno. */
int err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ERR_INPUT with a place: "file:line: 'key' text"; line 0 and key NULL are omitted. */
int err_at(struct err *err, const char *file, int line, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* As err_at with line 0, but ERR_MISMATCH. */
int err_mismatch(struct err *err, const char *file, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* -1 if one of several calls failed: rc = err_any(first(err) || second(err)). */
static inline int err_any(int failed)
{
    return failed ? -1 : 0;
}
/* Inserts text before that of an error that is already set. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends text to that of an error that is already set. */
int err_suffix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The code's name in JSON: "input", "system", ... */
const char *err_code_name(enum err_code code);

#endif
