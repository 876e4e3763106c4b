/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_JSONL_H
#define DATA_DATA_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_unpack.h"

/*
 * Reads JSON Lines: one document in each line; memory is that of the longest line.  Skips empty
 * lines and other keys.
 *
 *     {"text": "..."}
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", ...}]}
 *     {"conversations": [{"from": "human", "value": "..."}, ...]}
 *     {"instruction": "...", "input": "...", "output": "..."}
 *     {"prompt": "...", "completion": "..."}
 *
 *     jsonl_open(&j, "chats.jsonl.zst", err);
 *     while ((rc = jsonl_next(&j, err)) > 0) ... j.message[0 .. j.messages - 1] ...
 *     jsonl_close(&j);
 */
enum { JSONL_LINE_MAX = 256 << 20, JSONL_MESSAGES_MAX = 1 << 20 };

#define JSONL_PROMPT     "prompt"
#define JSONL_COMPLETION "completion"

struct jsonl_message {
    const char *role; /* NULL: a `text`; JSONL_PROMPT, JSONL_COMPLETION: the parts of a text */
    const char *text; /* any bytes, 0-terminated */
    int64_t bytes;
};

struct jsonl {
    const char *path; /* borrowed */
    int64_t line;     /* line number; in a list the number of objects so far */
    int list;
    int64_t bytes; /* read so far */
    int messages;  /* messages of the document */
    struct jsonl_message *message;
    size_t messages_space;
    struct unpack *file;
    char *text; /* [space]; begin .. end has been read but not used */
    size_t space, begin, end;
};

/*
 * Whether the file is JSON Lines by its name, with or without .gz or .zst: .jsonl or .ndjson;
 * also .json if the file begins with a list of such objects.
 */
int jsonl_is(const char *path);
int jsonl_open(struct jsonl *j, const char *path, struct err *err);
/* Reads the next document: 1, 0 at the end, or -1; errors name file and line. */
int jsonl_next(struct jsonl *j, struct err *err);
/* Passes ownership of the document's messages to the caller: jsonl_free. */
struct jsonl_message *jsonl_take(struct jsonl *j, int *messages);
void jsonl_free(struct jsonl_message *message, int messages);
void jsonl_close(struct jsonl *j);

#endif
