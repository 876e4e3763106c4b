/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/*
 * An error is a sentence with an address: what was found, what was expected, and,
 * where a file is to blame, its name, line and key.  No heap, no global.  The first
 * to know fills it, callers may say where (err_prefix), nobody repeats it.
 */
enum err_code {
    ERR_NONE,
    ERR_INPUT,    /* the user's input is wrong: mend the file or the option */
    ERR_SYS,      /* the system refused: disk, memory, permission */
    ERR_MISMATCH, /* two things that must agree do not */
    ERR_ABSENT,   /* something asked for is not there */
    ERR_PEER,     /* another rank failed or is gone */
    ERR_DEVICE    /* an accelerator or a library on it failed */
};

struct err {
    enum err_code code;
    int line;     /* 1.. where a file is to blame, else 0 */
    int scarce;   /* ERR_SYS for want of memory or open files: what was asked for may be fine */
    int has_rank; /* the text says which rank it comes from: world/ puts that in once */
    char file[256]; /* "" when no file is to blame; as it is called, printable or not */
    char key[96];   /* the key within it, or ""; likewise */
    char text[768]; /* the whole sentence, "file:line: 'key' ..." included; printable UTF-8 */
};

/* All set err and return -1, so that a caller can say `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* ERR_SYS (ERR_ABSENT for ENOENT), with ": " and errno's words behind the text. */
int err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ERR_INPUT at a place: "file:line: 'key' text"; line 0 and key NULL are left out. */
int err_at(struct err *err, const char *file, int line, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* As err_at of line 0, but ERR_MISMATCH. */
int err_mismatch(struct err *err, const char *file, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* -1 where one of several calls failed: rc = err_any(first(err) || second(err)). */
static inline int err_any(int failed)
{
    return failed ? -1 : 0;
}
/* Puts words before the text of an error that is already set. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* And behind it. */
int err_suffix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "input", "system", ...: the code's name in JSON. */
const char *err_code_name(enum err_code code);

#endif
