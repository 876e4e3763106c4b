/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_TOKEN_FIND_H
#define TOKEN_TOKEN_FIND_H

#include "token/token_parts.h"

/* Internal to token/: finds added tokens in texts. */
struct token_found {
    const char *from, *to; /* including white space that the token strips */
    const char *next;      /* where the next token may begin */
    int32_t id;
};

/* NULL: there are no added tokens. */
struct token_finder *token_finder_new(const struct token_tables *t, int normalized);
void token_finder_free(struct token_finder *f);
/*
 * Finds the next added token from p on, in a text that begins at `begin` and whose tokens up to
 * `done` have been found.  0: there is none.
 */
int token_finder_next(const struct token_finder *f, const char *begin, const char *done,
                      const char *p, const char *end, int plain, struct token_found *found);

#endif
