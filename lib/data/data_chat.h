/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_CHAT_H
#define DATA_DATA_CHAT_H

#include "data/data_jsonl.h"
#include "token/token.h"

/*
 * Encodes conversations as tokens, by the templates that families of models were tuned with.
 * The assistant's messages are learned, with what follows up to the next message; all else is
 * context.
 *
 *     <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n
 *     context                                               trained
 *
 * Special tokens that a message spells are text.  Each message is encoded apart from the text
 * around it, in training and when an answer is generated.
 */
#define CHAT_NAMES "chatml, qwen2.5, smollm2, llama3, phi3, gemma or mistral"

/* Whether there is a template of that name. */
int chat_is(const char *name);

struct chat; /* a template, with the tokens that one tokenizer has for it */

/*
 * The template `name`, or, where that is NULL, the one that the tokenizer's own is known to be,
 * or whose system message its own has, or the first whose special tokens the vocabulary has.
 * ERR_INPUT where there is none, or the tokenizer lacks one of its tokens.  t is borrowed until
 * chat_close.
 */
int chat_open(struct chat **chat, struct tokenizer *t, const char *name, struct err *err);

/* The template used where no name is given: "the chat template 'NAME', guessed by BY". */
struct chat_guess {
    const char *name, *by; /* constants; NULL: it is named, or the tokenizer's own is known */
};
struct chat_guess chat_guess(const struct chat *chat);
#define CHAT_GUESS "the chat template '%s', guessed by %s; --chat-template names one"
void chat_close(struct chat *chat); /* NULL is fine */
/* The token that ends an answer. */
int32_t chat_end(const struct chat *chat);

/*
 * Hands the tokens of a conversation to `put`, span by span; trained: they are learned.  open:
 * the last answer is yet to come; else the conversation is whole.  ERR_INPUT names a role that
 * the template does not have.
 */
typedef int chat_put(void *arg, const int32_t *ids, int64_t count, int trained,
                     struct err *err);
int chat_encode(struct chat *chat, const struct jsonl_message *message, int messages, int open,
                chat_put *put, void *arg, struct err *err);

#endif
