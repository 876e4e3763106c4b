/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_TOKEN_PLACE_H
#define TOKEN_TOKEN_PLACE_H

#include "value/value_tree.h"
#include "token/token.h"

/* The source of a tokenizer's files. */
struct token_place {
    const char *dir;
    tokenizer_text *text; /* NULL: read from the folder */
    const void *arg;
};

/* Return a file's path in the folder (mem_free); NULL: there is none. */
char *token_find_whole(const char *dir);  /* tokenizer.json or tokenizer.model */
char *token_find_vocab(const char *dir);  /* GPT-2's vocabulary */
char *token_find_merges(const char *dir); /* GPT-2's merges */

/* Reads a file by its path in the folder; *text NULL: it does not exist. */
int token_read_text(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                    struct err *err);
/* As above for a file that was found, but may have been replaced or removed since. */
int token_read_found(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                     struct err *err);
/* Reads a file of the folder as a tree, without root if the file is absent.  `used`: keys that
   may not be real numbers. */
int token_read_json(const struct token_place *p, const char *name, const char *used,
                    struct tree *out, struct err *err);

#endif
