/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_JSONL_H
#define DATA_DATA_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_unpack.h"

/*
 * Reads JSON Lines: a document a line, in memory of the longest line.  Empty lines are skipped,
 * and so are keys of other names.
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
    const char *role; /* NULL: a `text`; JSONL_PROMPT, JSONL_COMPLETION: of a text of two */
    const char *text; /* any bytes, 0-terminated */
    int64_t bytes;
};

struct jsonl {
    const char *path; /* borrowed */
    int64_t line;     /* of a list: its objects so far */
    int list;
    int64_t bytes; /* read so far */
    int messages;  /* of the document */
    struct jsonl_message *message;
    size_t messages_space;
    struct unpack *file;
    char *text; /* [room], of which begin .. end has been read and not used */
    size_t space, begin, end;
};

/*
 * Whether the name is of such a file, with .gz or .zst or without: .jsonl or .ndjson; .json
 * where the file begins a list of such objects.
 */
int jsonl_is(const char *path);
int jsonl_open(struct jsonl *j, const char *path, struct err *err);
/* The next document: 1, 0 at the end, or -1; an error names file and line. */
int jsonl_next(struct jsonl *j, struct err *err);
/* The messages of the document, now the caller's: jsonl_free. */
struct jsonl_message *jsonl_take(struct jsonl *j, int *messages);
void jsonl_free(struct jsonl_message *message, int messages);
void jsonl_close(struct jsonl *j);

#endif
