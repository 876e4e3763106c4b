/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a long text into parts, which threads encode in bounded memory.  Cuts between two
 * words, where no token and no match of a known pattern crosses:
 *
 *     the end of a line|and the next one| is cut here         one blank or end of a line
 *                                                             between two letters
 */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_find.h"

/* ---- preparations ---- */

static void add_late(struct token_tables *t, struct token_step step)
{
    t->late.step =
        mem_grow(t->late.step, &t->late.space, (size_t)t->late.count + 1, sizeof *t->late.step);
    t->late.step[t->late.count++] = step;
}

/* Moves text changes of the first pre-tokenizer to the front, as normalizers; the rest then
   only splits. */
static void split_first(struct token_tables *t)
{
    struct token_step *s = t->pre.count ? &t->pre.step[0] : NULL;

    if (!s || (s->kind != TOKEN_METASPACE && s->kind != TOKEN_BYTE_LEVEL))
        return;
    if (s->kind == TOKEN_METASPACE)
        add_late(t, (struct token_step){
                        .kind = TOKEN_REPLACE, .from = mem_dup(" "), .to = mem_dup(s->to)});
    if (s->add)
        add_late(t,
                 (struct token_step){.kind = TOKEN_PREPEND,
                                     .add = s->add,
                                     .to = mem_dup(s->kind == TOKEN_METASPACE ? s->to : " ")});
    s->add = TOKEN_NEVER;
}

static int is_one_character(const char *text)
{
    return text && text[0] && !text[utf8_next(text, NULL)];
}

/* Whether normalizers change a part in the same way as within the whole text. */
static int are_local(const struct token_steps *steps)
{
    for (int i = 0; i < steps->count; i++) {
        const struct token_step *s = &steps->step[i];
        if (s->kind == TOKEN_STRIP || (s->kind == TOKEN_REPLACE && !is_one_character(s->from)))
            return 0;
    }
    return 1;
}

/* A letter, or a character that replaces it before a blank in scripts without letters. */
static int is_edge(uint32_t code)
{
    return code < 0x80 ? isalpha((int)code) : !token_is_space(code) && code != 0x2581;
}

/* Whether text[at] is the single blank between two words: the text is then split at its end at
   least. */
static int is_gap(const char *text, int64_t at, int64_t bytes)
{
    char tail[5] = {0};
    uint32_t before = 0, after = 0;
    int n;

    if ((text[at] != ' ' && text[at] != '\n') || at == 0 || at + 1 == bytes)
        return 0;
    memcpy(tail, text + at + 1, (size_t)(bytes - at - 1 < 4 ? bytes - at - 1 : 4));
    if (!utf8_next(tail, &after) || !is_edge(after) || (after >= 0x80 && !token_is_word(after)))
        return 0;
    for (n = 1; n < 4 && n < at && ((unsigned char)text[at - n] & 0xc0) == 0x80;)
        n++;
    memcpy(tail, text + at - n, (size_t)n);
    tail[n] = 0;
    return utf8_next(tail, &before) == n && is_edge(before);
}

/* Whether no merge makes a token across a gap. */
static int ends_at_gaps(const struct token_vocab *v)
{
    int n;

    for (int32_t i = 0; i < v->merges; i++) {
        const struct token_piece *piece = &v->piece[v->list[i].to];
        const char *p = v->text + piece->at, *end = p + piece->bytes;
        uint32_t left = token_code_at(p, &n), right;
        for (p += n; p < end; p += n, left = right) {
            right = token_code_at(p, &n);
            if (left != right && (left == '\n' || right == ' ' || right == 0x2581))
                return 0;
        }
    }
    return 1;
}

/* Whether the pre-tokenizers have known patterns, and these or the merges end at gaps. */
static int are_known(const struct token_tables *t)
{
    int cuts = t->joints && ends_at_gaps(&t->vocab);

    for (int i = 0; i < t->pre.count; i++) {
        const struct token_step *s = &t->pre.step[i];
        int known = s->known && s->behavior == TOKEN_ISOLATED && !s->invert;
        if (s->add || !(known || is_one_character(s->from) || s->behavior == TOKEN_WHOLE ||
                        s->kind == TOKEN_BYTE_LEVEL || s->kind == TOKEN_METASPACE))
            return 0;
        cuts |= s->kind == TOKEN_BYTE_LEVEL && s->behavior != TOKEN_WHOLE;
        cuts |= known && token_pattern_words(s->known) != TOKENIZER_SMOLLM;
    }
    return cuts;
}

/* Whether an added token could lie at a gap. */
static int joins_gaps(const struct token_vocab *v, const struct token_added *a)
{
    const struct token_piece *p = &v->piece[a->id];
    const char *text = v->text + p->at, *end = text + p->bytes;
    int n, joins = is_edge(token_code_at(text, &n)) ||
                   is_edge(token_code_at(token_code_before(text, end), &n));

    for (int64_t i = 0; i < p->bytes && !joins; i++)
        joins = is_gap(text, i, p->bytes);
    return joins;
}

void token_tables_prepare(struct token_tables *t)
{
    split_first(t);
    t->find[0] = token_finder_new(t, 0);
    t->find[1] = token_finder_new(t, 1);
    t->joints = token_joints_new(t);
    t->byte_merges = token_byte_merges_new(t);
    for (int i = 0; i < t->pre.count; i++) {
        struct token_step *step = &t->pre.step[i];
        struct err err;
        if (step->kind == TOKEN_BYTE_LEVEL && step->behavior != TOKEN_WHOLE) {
            int rc = token_regex_compile(&step->regex, TOKEN_GPT2_PATTERN, 0, &err);
            assert(rc == 0);
            (void)rc;
            step->known = token_pattern_of(TOKEN_GPT2_PATTERN);
        }
        if (step->known && !t->class[0])
            token_classes(t->class);
    }
    t->cuttable = are_local(&t->normal) && are_known(t) && (!t->late.count || !t->find[1]);
    for (int i = 0; i < t->added_count; i++)
        t->cuttable &= !joins_gaps(&t->vocab, &t->added[i]);
}

void token_tables_release(struct token_tables *t)
{
    token_vocab_release(&t->vocab);
    token_steps_release(&t->normal);
    token_steps_release(&t->pre);
    token_steps_release(&t->late);
    token_steps_release(&t->decode);
    token_finder_free(t->find[0]);
    token_finder_free(t->find[1]);
    mem_free(t->added);
    mem_free(t->prefix);
    mem_free(t->suffix);
    mem_free(t->joints);
    mem_free(t->byte_merges);
    mem_free(t->template);
    mem_free(t);
}

void token_state_prepare(struct tokenizer *t)
{
    enum { STACK = 1 << 15, STACK_MAX = 8 << 20 };

    if (t->cache)
        return;
    t->cache = token_cache_new();
    t->match = mem_have(pcre2_match_data_create(1, NULL), "a match");
    t->limits = mem_have(pcre2_match_context_create(NULL), "the limits of a match");
    t->stack = pcre2_jit_stack_create(STACK, STACK_MAX, NULL);
    pcre2_jit_stack_assign(t->limits, NULL, mem_have(t->stack, "the stack of a match"));
    pcre2_set_match_limit(t->limits, TOKEN_STEPS_MAX);
}

void token_state_release(struct tokenizer *t)
{
    struct token_buffer *buffers[] = {&t->normal[0], &t->normal[1], &t->late[0],
                                      &t->late[1],   &t->prefixed,  &t->decoded};

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        mem_free(buffers[i]->text);
    mem_free(t->cache);
    mem_free(t->part);
    mem_free(t->heap);
    mem_free(t->ids);
    pcre2_match_data_free(t->match);
    pcre2_match_context_free(t->limits);
    pcre2_jit_stack_free(t->stack);
}

/* ---- texts ---- */

int64_t tokenizer_cut(const struct tokenizer *t, const char *text, int64_t at, int64_t bytes)
{
    if (!t->tables->cuttable)
        return bytes;
    while (at < bytes && !is_gap(text, at, bytes))
        at++;
    return at < bytes && text[at] == '\n' ? at + 1 : at;
}

int64_t tokenizer_encode(struct tokenizer *t, const char *text, int64_t bytes, int flags,
                         int32_t **ids, struct err *err)
{
    enum { FEW = 1 << 10 };
    const struct token_tables *a = t->tables;
    int wrap = flags & TOKENIZER_WRAP;
    int64_t guess = bytes / 3 + FEW;
    int before = wrap ? a->prefix_count : 0, after = wrap ? a->suffix_count : 0;
    enum token_begins begins = flags & TOKENIZER_CONTINUED ? TOKEN_MIDDLE
                               : flags & TOKENIZER_MIDDLE  ? TOKEN_SEGMENT
                                                           : TOKEN_TEXT;

    t->plain = flags & TOKENIZER_PLAIN;
    t->count = 0;
    if (guess > (int64_t)t->ids_space) { /* large pages take a tenth of the time off */
        void *space = NULL;
        if (mem_buffer(guess * (int64_t)sizeof *t->ids, "tokens", &space, err))
            return -1;
        mem_free(t->ids);
        t->ids = space;
        t->ids_space = (size_t)guess;
    }
    token_put_ids(t, a->prefix, before);
    if (token_encode_text(t, text, bytes, begins, err))
        return -1;
    token_put_ids(t, a->suffix, after);
    /* The caller gets the buffer of many tokens: a second one would cost page faults. */
    int64_t count = t->count;
    if (count <= FEW) {
        *ids = mem_new((size_t)count, sizeof **ids);
        memcpy(*ids, t->ids, (size_t)count * sizeof **ids);
        return count;
    }
    int32_t *less = reallocarray(t->ids, (size_t)count, sizeof *less);
    *ids = less ? less : t->ids;
    t->ids = NULL;
    t->ids_space = 0;
    return count;
}
