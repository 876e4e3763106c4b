/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_CHAT_H
#define DATA_DATA_CHAT_H

#include "data/data_jsonl.h"
#include "token/token.h"

/*
 * Encodes conversations as tokens, with the chat templates of model families.  The assistant's
 * messages are trained, including the template's text up to the next message; all other tokens
 * are context.
 *
 *     <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n
 *     context                                               trained
 *
 * Spellings of special tokens in a message are plain text.  Each message is encoded separately
 * from the surrounding text, in training and in generation.
 */
#define CHAT_NAMES "chatml, qwen2.5, smollm2, llama3, phi3, gemma or mistral"

/* Whether a template of this name exists. */
int chat_is(const char *name);

struct chat; /* a template, with one tokenizer's tokens for it */

/*
 * Opens the template `name`.  If name is NULL: the known template equal to the tokenizer's own,
 * or one with the same system message, or the first whose special tokens are in the vocabulary.
 * ERR_INPUT if there is none, or the tokenizer lacks one of its tokens.  t is borrowed until
 * chat_close.
 */
int chat_open(struct chat **chat, struct tokenizer *t, const char *name, struct err *err);

/* The template used if no name is given: "the chat template 'NAME', guessed by BY". */
struct chat_guess {
    const char *name, *by; /* constants; NULL: it was named, or the tokenizer's own is known */
};
struct chat_guess chat_guess(const struct chat *chat);
#define CHAT_GUESS "the chat template '%s', guessed by %s; --chat-template names one"
void chat_close(struct chat *chat); /* NULL is allowed */
/* The token that ends an answer. */
int32_t chat_end(const struct chat *chat);

/*
 * Passes the tokens of a conversation to `put`, span by span; trained: whether they are
 * targets.  open: the last answer will be generated; otherwise the conversation is complete.
 * ERR_INPUT names a role that the template lacks.
 */
typedef int chat_put(void *arg, const int32_t *ids, int64_t count, int trained,
                     struct err *err);
int chat_encode(struct chat *chat, const struct jsonl_message *message, int messages, int open,
                chat_put *put, void *arg, struct err *err);

#endif
