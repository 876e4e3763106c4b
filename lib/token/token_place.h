/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_TOKEN_PLACE_H
#define TOKEN_TOKEN_PLACE_H

#include "value/value_tree.h"
#include "token/token.h"

/* Where files are read from. */
struct token_place {
    const char *dir;
    tokenizer_text *text; /* NULL: the folder's */
    const void *arg;
};

/* A path of a file in the folder; NULL: there is none.  mem_free. */
char *token_find_whole(const char *dir);  /* tokenizer.json or tokenizer.model */
char *token_find_vocab(const char *dir);  /* GPT-2's vocabulary */
char *token_find_merges(const char *dir); /* and merges */

/* A file by its path in the folder; *text NULL: it is not there. */
int token_read_text(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                    struct err *err);
/* One that was found: by now another may have its name. */
int token_read_found(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                     struct err *err);
/* A file of the folder as a tree, which has no root where there is none.  `used`: keys that
 * must be no real numbers. */
int token_read_json(const struct token_place *p, const char *name, const char *used,
                    struct tree *out, struct err *err);

#endif
