/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the chat templates of the supported families, one row each, and encodes conversations
 * with them.
 */
#include "data/data_chat.h"

#include <ctype.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"

enum { ROLES = 4, TRIMS_LEFT = 1, TRIMS_RIGHT = 2 };
enum role { SYSTEM, USER, ASSISTANT, TOOL };

/* Role names of OpenAI and ShareGPT. */
static const struct {
    const char *name;
    enum role role;
} role_names[] = {
    {"system", SYSTEM}, {"developer", SYSTEM}, {"user", USER},
    {"human", USER},    {"model", ASSISTANT},  {"assistant", ASSISTANT},
    {"gpt", ASSISTANT}, {"tool", TOOL},        {"observation", TOOL},
};
enum { ROLE_NAMES = sizeof role_names / sizeof *role_names };

/*
 * before and after: text around a message of the role; special tokens in it become tokens.
 * Without a form (NULL) a system message is put before the first user message, separated by two
 * line ends, and a tool's message is an error.
 */
struct template
{
    const char *name;
    const char *marker; /* a token of this template only */
    const char *first;  /* text at the beginning */
    const char *system; /* system message if the conversation has none; NULL: none */
    struct form {
        const char *before, *after;
    } form[ROLES];
    int trims;        /* spaces around a message are dropped */
    struct form tool; /* text around each of several tool messages that form one; NULL: none */
};

#define IM(role) "<|im_start|>" role "\n"
#define IM_END   "<|im_end|>\n"
#define IM_FORMS(tool)                                                                         \
    {                                                                                          \
        {IM("system"), IM_END}, {IM("user"), IM_END}, {IM("assistant"), IM_END},               \
            {IM(tool), IM_END},                                                                \
    }
#define NOTHING                                                                                \
    {                                                                                          \
        NULL, NULL                                                                             \
    }
#define HEAD(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

/* The published templates of Qwen2.5, SmolLM2, Llama 3, Phi-3, Gemma and Mistral v0.3. */
static const struct template templates[] = {
    {"chatml", "<|im_start|>", "", NULL, IM_FORMS("tool"), 0, NOTHING},
    {"qwen2.5",
     "<|im_start|>",
     "",
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     IM_FORMS("user"),
     0,
     {"<tool_response>\n", "\n</tool_response>"}},
    {"smollm2", "<|im_start|>", "",
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face", IM_FORMS("tool"),
     0, NOTHING},
    {"llama3",
     "<|start_header_id|>",
     "<|begin_of_text|>",
     NULL,
     {{HEAD("system"), "<|eot_id|>"},
      {HEAD("user"), "<|eot_id|>"},
      {HEAD("assistant"), "<|eot_id|>"},
      {HEAD("tool"), "<|eot_id|>"}},
     TRIMS_LEFT | TRIMS_RIGHT,
     NOTHING},
    {"phi3",
     "<|assistant|>",
     "",
     NULL,
     /* published with line ends after these tokens, which the tokens strip */
     {{"<|system|>", "<|end|>"},
      {"<|user|>", "<|end|>"},
      {"<|assistant|>", "<|end|>"},
      NOTHING},
     TRIMS_LEFT,
     NOTHING},
    {"gemma",
     "<start_of_turn>",
     "<bos>",
     NULL,
     {{NULL, NULL},
      {"<start_of_turn>user\n", "<end_of_turn>\n"},
      {"<start_of_turn>model\n", "<end_of_turn>\n"},
      NOTHING},
     TRIMS_LEFT | TRIMS_RIGHT,
     NOTHING},
    {"mistral",
     "[INST]",
     "<s>",
     NULL,
     {{NULL, NULL}, {"[INST] ", "[/INST]"}, {" ", "</s>"}, NOTHING},
     0,
     NOTHING},
};

enum { TEMPLATES = sizeof templates / sizeof *templates };

/*
 * Models' templates that give the same text as a row above, by hash_of;
 * tests/reference/check_templates.py compares them and prints these rows.
 */
static const struct known {
    uint64_t hash;
    const char *name;
} known[] = {
    {0x88bf4138d5c826f0, "chatml"},  /* Hermes 2, many others */
    {0x773d13e188afc917, "chatml"},  /* Dolphin */
    {0xe107a1a77ff98d94, "chatml"},  /* MiniCPM3 */
    {0x11d394755cef9355, "qwen2.5"}, /* Qwen2.5, of 7B */
    {0xc25e8e972d35cca7, "qwen2.5"}, /* Qwen2.5, of 0.5B */
    {0x45ec583d4d25bc3a, "smollm2"}, /* SmolLM2 */
    {0x0e60067a5537498e, "llama3"},  /* Llama 3 */
    {0xecebdb26677c663d, "phi3"},    /* Phi-3 mini */
    {0xcf278cde387a54c8, "phi3"},    /* Phi-3.5 mini */
    {0xd6a2d985b28ca308, "phi3"},    /* Phi-4 mini */
    {0x5c10ee65212d93b3, "gemma"},   /* Gemma, Gemma 2 */
    {0x5e86a815daeaa1a5, "gemma"},   /* Gemma 3, of 1B */
    {0xd19b6ff3a49deea5, "gemma"},   /* Gemma 3, of 270M */
};

enum { KNOWN = sizeof known / sizeof *known };

struct chat {
    const struct template *is;
    struct tokenizer *tokenizer; /* borrowed */
    int32_t end;
    const char *guess; /* reason of the guess; NULL: the template is known */
};

void chat_close(struct chat *chat)
{
    mem_free(chat);
}

int32_t chat_end(const struct chat *chat)
{
    return chat->end;
}

/* The end of the special token at the beginning of text; NULL: there is none. */
static const char *special_end(const char *text)
{
    const char *end = NULL;

    if (strncmp(text, "<|", 2) == 0)
        end = strstr(text, "|>");
    else if (*text == '<' || *text == '[')
        end = strchr(text, *text == '<' ? '>' : ']');
    return end ? end + (*text == '<' && text[1] == '|' ? 2 : 1) : NULL;
}

static int32_t id_of(const struct tokenizer *t, const char *special, const char *end)
{
    char *piece = mem_new((size_t)(end - special) + 1, 1);

    memcpy(piece, special, (size_t)(end - special));
    int32_t id = tokenizer_id(t, piece);
    mem_free(piece);
    return id;
}

/* Checks that all special tokens of a piece of the template are in the vocabulary. */
static int check_piece(const struct chat *chat, const char *piece, struct err *err)
{
    for (const char *end; piece && *piece; piece = end ? end : piece + 1) {
        end = special_end(piece);
        if (end && id_of(chat->tokenizer, piece, end) < 0)
            return err_set(err, ERR_INPUT,
                           "chat template '%s' without the token %.*s in the vocabulary, "
                           "expected another of " CHAT_NAMES,
                           chat->is->name, (int)(end - piece), piece);
    }
    return 0;
}

/*
 * Hashes a template in the form that Jinja reads: a line end is one character, an escaped one
 * is a line end, and the last is dropped.
 */
static uint64_t hash_of(const char *text)
{
    size_t bytes = strlen(text);
    uint64_t h = FNV_BASIS;

    bytes -= bytes && text[bytes - 1] == '\n';
    for (size_t i = 0; i < bytes; i++) {
        int escaped = text[i] == '\\' && text[i + 1] == 'n';
        if (text[i] != '\r')
            h = fnv_mix(h, escaped ? '\n' : (unsigned char)text[i]);
        i += (size_t)escaped;
    }
    return h;
}

static const struct template *chat_find_name(const char *name)
{
    for (int i = 0; i < TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

/* Guesses by the folder's template, by the system message in it, or by a token. */
static const struct template *guess(const struct tokenizer *t, const char **by)
{
    const char *own = tokenizer_template(t);
    uint64_t hash = own ? hash_of(own) : 0;

    *by = NULL;
    for (int i = 0; own && i < KNOWN; i++)
        if (known[i].hash == hash)
            return chat_find_name(known[i].name);
    *by = "the system message of the model's own, which is not known";
    for (int i = 0; own && i < TEMPLATES; i++)
        if (templates[i].system && strstr(own, templates[i].system))
            return &templates[i];
    *by = own ? "a token of the tokenizer, since the model's own is not known"
              : "a token of the tokenizer";
    for (int i = 0; i < TEMPLATES; i++)
        if (tokenizer_id(t, templates[i].marker) >= 0)
            return &templates[i];
    return NULL;
}

int chat_is(const char *name)
{
    return chat_find_name(name) != NULL;
}

struct chat_guess chat_guess(const struct chat *chat)
{
    return (struct chat_guess){chat->guess ? chat->is->name : NULL, chat->guess};
}

int chat_open(struct chat **out, struct tokenizer *t, const char *name, struct err *err)
{
    const char *by = NULL;
    const struct template *is = name ? chat_find_name(name) : guess(t, &by);

    if (!is && name)
        return err_set(err, ERR_INPUT, "--chat-template '%s', expected " CHAT_NAMES, name);
    if (!is)
        return err_set(
            err, ERR_INPUT,
            "the vocabulary has no special tokens of a chat template, expected those "
            "of " CHAT_NAMES);
    struct chat *chat = mem_new(1, sizeof *chat);
    *chat = (struct chat){.is = is, .tokenizer = t, .guess = by};
    int rc = check_piece(chat, is->first, err);
    for (int r = 0; rc == 0 && r < ROLES; r++)
        if (check_piece(chat, is->form[r].before, err) ||
            check_piece(chat, is->form[r].after, err))
            rc = -1;
    if (rc) {
        chat_close(chat);
        return -1;
    }
    const char *after = is->form[ASSISTANT].after;
    chat->end = id_of(t, after, special_end(after));
    *out = chat;
    return 0;
}

/* The destination of tokens. */
struct sink {
    struct chat *chat;
    chat_put *put;
    void *arg;
    int flags; /* flags for the next text */
};

static int chat_put_text(struct sink *s, const char *text, int64_t bytes, int trained,
                         struct err *err)
{
    int32_t *ids = NULL;
    int64_t n =
        bytes ? tokenizer_encode(s->chat->tokenizer, text, bytes, s->flags, &ids, err) : 0;
    int rc = n < 0 ? -1 : n ? s->put(s->arg, ids, n, trained, err) : 0;
    if (bytes)
        s->flags |= TOKENIZER_MIDDLE;

    mem_free(ids);
    return rc;
}

/* Adds a piece of the template up to `to`: special tokens, and text between them. */
static int put_piece(struct sink *s, const char *piece, const char *to, int trained,
                     struct err *err)
{
    while (piece < to) {
        const char *end = special_end(piece);
        if (end) {
            int32_t id = id_of(s->chat->tokenizer, piece, end);
            s->flags |= TOKENIZER_MIDDLE;
            if (s->put(s->arg, &id, 1, trained, err))
                return -1;
        } else {
            end = piece + 1;
            while (end < to && !special_end(end))
                end++;
            if (chat_put_text(s, piece, end - piece, trained, err))
                return -1;
        }
        piece = end;
    }
    return 0;
}

/*
 * Text before a message is encoded together with it, so that words are split as in a whole
 * conversation.  Before an answer it is separate, since generation begins after it; but a space
 * belongs to the answer.
 */
static const char *chat_joint_of(const struct form *form, enum role role)
{
    const char *tail = form->before; /* after the last special token */

    for (const char *at = tail, *end; *at; at = end ? end : at + 1) {
        end = special_end(at);
        tail = end ? end : tail;
    }
    return role == ASSISTANT && strcmp(tail, " ") ? strchr(form->before, 0) : tail;
}

/* The message without the spaces that the template drops. */
static struct jsonl_message chat_trim(const struct template *is, struct jsonl_message m)
{
    for (; (is->trims & TRIMS_LEFT) && m.bytes && isspace((unsigned char)*m.text); m.bytes--)
        m.text++;
    while ((is->trims & TRIMS_RIGHT) && m.bytes && isspace((unsigned char)m.text[m.bytes - 1]))
        m.bytes--;
    return m;
}

/* text: of one message, or of two. */
static int put_message(struct sink *s, enum role role, const char *text, int64_t bytes,
                       struct err *err)
{
    const struct form *form = &s->chat->is->form[role];
    const char *joint = chat_joint_of(form, role);
    int64_t before = (int64_t)strlen(joint);
    int trained = role == ASSISTANT;

    char *whole = mem_new((size_t)(before + bytes) + 1, 1);
    memcpy(whole, joint, (size_t)before);
    memcpy(whole + before, text, (size_t)bytes);
    int rc = put_piece(s, form->before, joint, 0, err) ||
             chat_put_text(s, whole, before + bytes, trained, err) ||
             put_piece(s, form->after, strchr(form->after, 0), trained, err);
    mem_free(whole);
    return rc ? -1 : 0;
}

/* Adds a system message in front of the user's. */
static int put_joined(struct sink *s, const struct jsonl_message *system,
                      const struct jsonl_message *user, struct err *err)
{
    int64_t bytes = system->bytes + 2 + user->bytes;
    char *text = mem_new((size_t)bytes, 1);

    memcpy(text, system->text, (size_t)system->bytes);
    memcpy(text + system->bytes, "\n\n", 2);
    memcpy(text + system->bytes + 2, user->text, (size_t)user->bytes);
    int rc = put_message(s, USER, text, bytes, err);
    mem_free(text);
    return rc;
}

static int role_of(const struct chat *chat, const char *name, enum role *role, struct err *err)
{
    int r = 0;

    while (r < ROLE_NAMES && strcmp(role_names[r].name, name))
        r++;
    int tools = chat->is->form[TOOL].before != NULL;
    if (r == ROLE_NAMES || (role_names[r].role == TOOL && !tools))
        return err_set(err, ERR_INPUT,
                       "chat template '%s' with the role '%s', expected system, user%s or "
                       "assistant",
                       chat->is->name, name, tools ? ", tool" : "");
    *role = role_names[r].role;
    return 0;
}

/* Adds consecutive tool messages as one; sets *count to their number. */
static int put_tools(struct sink *s, const struct jsonl_message *m, int messages, int *count,
                     struct err *err)
{
    const struct form *in = &s->chat->is->tool;
    size_t before = in->before ? strlen(in->before) : 0, used = 0, space = 0;
    char *text = NULL;

    for (*count = 0; *count < messages; ++*count) {
        enum role role;
        struct err other;
        if (role_of(s->chat, m[*count].role, &role, &other) || role != TOOL ||
            (*count && !in->before))
            break;
        struct jsonl_message one = chat_trim(s->chat->is, m[*count]);
        size_t bytes = (size_t)one.bytes, after = in->before ? strlen(in->after) : 0;
        text = mem_grow(text, &space, used + 1 + before + bytes + after, 1);
        if (*count)
            text[used++] = '\n';
        if (before)
            memcpy(text + used, in->before, before);
        memcpy(text + used + before, one.text, bytes);
        if (after)
            memcpy(text + used + before + bytes, in->after, after);
        used += before + bytes + after;
    }
    int rc = put_message(s, TOOL, text, (int64_t)used, err);
    mem_free(text);
    return rc;
}

int chat_encode(struct chat *chat, const struct jsonl_message *message, int messages, int open,
                chat_put *put, void *arg, struct err *err)
{
    const struct template *is = chat->is;
    struct sink s = {chat, put, arg, TOKENIZER_PLAIN};
    const struct jsonl_message *system = NULL; /* not yet added to a user message */

    if (put_piece(&s, is->first, strchr(is->first, 0), 0, err))
        return -1;
    for (int i = 0; i < messages; i++) {
        const struct jsonl_message m = chat_trim(is, message[i]);
        enum role role = USER;
        int rc = 0;
        if (role_of(chat, m.role, &role, err))
            return -1;
        if (i == 0 && role != SYSTEM && is->system)
            rc = put_message(&s, SYSTEM, is->system, (int64_t)strlen(is->system), err);
        if (rc)
            return -1;
        if (role == SYSTEM && !is->form[SYSTEM].before) {
            if (i)
                return err_set(err, ERR_INPUT,
                               "chat template '%s' with a system message after another, "
                               "expected it to be the first",
                               is->name);
            system = &message[i];
            continue;
        }
        if (system && role != USER)
            return err_set(err, ERR_INPUT,
                           "chat template '%s' with an answer after the system message, "
                           "expected a user's message",
                           is->name);
        int tools = 1;
        if (system         ? put_joined(&s, system, &m, err)
            : role == TOOL ? put_tools(&s, &message[i], messages - i, &tools, err)
                           : put_message(&s, role, m.text, m.bytes, err))
            return -1;
        i += tools - 1;
        system = NULL;
    }
    const struct form *answer = &is->form[ASSISTANT];
    if (system)
        return err_set(
            err, ERR_INPUT,
            "chat template '%s' with a system message alone, expected a user's message",
            is->name);
    return open ? put_piece(&s, answer->before, chat_joint_of(answer, ASSISTANT), 0, err) : 0;
}
