/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and prints paro-schedule(5): a schedule as lines of text, for grep, diff and pipes.
 *
 *   paro-schedule/1
 *   algo ho-ring
 *   phases gather-across gather-inside
 *   group 0 1                 the ranks of group 0, in member order
 *   group 2 3
 *   segment 0 2               holders of segment 0: one rank of each group
 *   segment 1 3
 *   subchunks 1
 *   planes 1                  (only with scratch chunks)
 *   root 0                    (broadcast only)
 *   barrier 8                 (two-level only)
 *   rows 12
 *   0 0 0 2 0 copy            lane step src dst chunk op; into another chunk: 0>4
 *   end
 */
#include "schedule/schedule.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/num.h"

enum {
    SUBCHUNKS_MAX = 1 << 20,
    CHUNKS_FREE = 1 << 20,           /* chunks without rows; others need a line of text each */
    PLANES_MAX = 1 << 10,            /* scratch needs a few for each doubling of the ranks */
    WORDS_MAX = 1 + GROUPS_RANKS_MAX /* words in a line: the key and at most every rank */
};

void schedule_print(const struct schedule *s, FILE *out)
{
    int count = s->groups.count;

    fprintf(out, "paro-schedule/1\nalgo %s\nphases", schedule_algo_name(s->algo));
    for (int i = 0; i < SCHEDULE_PHASES; i++)
        if (s->phases & 1u << i)
            fprintf(out, " %s", schedule_phase_names[i]);
    for (int k = 0; k < count; k++) {
        fprintf(out, "\ngroup");
        for (int j = 0; j < s->groups.members[k]; j++)
            fprintf(out, " %d", groups_rank(&s->groups, k, j));
    }
    for (int e = 0; e < s->segments; e++) {
        fprintf(out, "\nsegment");
        for (int k = 0; k < count; k++)
            fprintf(out, " %d", s->holder[e * count + k]);
    }
    fprintf(out, "\nsubchunks %d\n", s->subchunks);
    if (s->planes)
        fprintf(out, "planes %d\n", s->planes);
    if (s->phases == SCHEDULE_BROADCAST)
        fprintf(out, "root %d\n", s->root);
    for (int b = 0; b < s->barriers; b++)
        fprintf(out, "barrier %d\n", s->barrier[b]);
    fprintf(out, "rows %" PRId64 "\n", s->rows);
    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *r = &s->row[i];
        fprintf(out, "%d %d %d %d %d", r->lane, r->step, r->src, r->dst, r->chunk);
        if (r->into != r->chunk)
            fprintf(out, ">%d", r->into);
        fputs(r->op == SCHEDULE_ADD ? " add\n" : " copy\n", out);
    }
    fprintf(out, "end\n");
}

void schedule_print_json(const struct schedule *s, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.schedule/1");
    jout_text(&j, "op", schedule_phases_name(s->phases));
    jout_text(&j, "algo", schedule_algo_name(s->algo));
    jout_open(&j, "groups", '[');
    for (int k = 0; k < s->groups.count; k++) {
        jout_open(&j, NULL, '[');
        for (int m = 0; m < s->groups.members[k]; m++)
            jout_int(&j, NULL, groups_rank(&s->groups, k, m));
        jout_close(&j, ']');
    }
    jout_close(&j, ']');
    jout_int(&j, "segments", s->segments);
    jout_int(&j, "subchunks", s->subchunks);
    jout_int(&j, "chunks", s->chunks);
    jout_int(&j, "planes", s->planes);
    jout_int(&j, "steps", s->steps);
    jout_open(&j, "rows", '[');
    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *r = &s->row[i];
        jout_open(&j, NULL, '{');
        jout_int(&j, "lane", r->lane);
        jout_int(&j, "step", r->step);
        jout_int(&j, "src", r->src);
        jout_int(&j, "dst", r->dst);
        jout_int(&j, "chunk", r->chunk);
        jout_int(&j, "into", r->into);
        jout_text(&j, "op", r->op == SCHEDULE_ADD ? "add" : "copy");
        jout_close(&j, '}');
    }
    jout_end(&j);
}

/* A reader of one line at a time, whose words are split in place. */
struct reader {
    const char *name; /* borrowed */
    char *next;       /* points into the caller's text */
    int64_t bytes;
    int line;
    char **word; /* [words] point into the text; array owned */
    size_t space;
    int words;
    struct err *err;
};

static int bad(struct reader *r, const char *key, const char *expected)
{
    return err_at(r->err, r->name, r->line, key, "expected %s", expected);
}

static int text_next_line(struct reader *r)
{
    char *at = r->next;

    r->line++;
    r->words = 0;
    if (!*at)
        return bad(r, NULL, "more lines: the file ends early");
    char *end = strchr(at, '\n');
    if (end)
        *end = 0;
    r->next = end ? end + 1 : at + strlen(at);
    char *save = NULL;
    for (char *w = strtok_r(at, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
        if (r->words == WORDS_MAX)
            return bad(r, NULL, "at most a million ranks in a line");
        r->word = mem_grow(r->word, &r->space, (size_t)r->words + 1, sizeof *r->word);
        r->word[r->words++] = w;
    }
    return 0;
}

static int word_is(const struct reader *r, const char *key)
{
    return r->words > 0 && strcmp(r->word[0], key) == 0;
}

static int text_number(struct reader *r, int at, int64_t lo, int64_t hi, int *out)
{
    int64_t v = 0;

    if (at >= r->words)
        return bad(r, r->words ? r->word[0] : NULL, "more numbers in the line");
    if (num_i64(r->word[at], lo, hi, &v, r->err)) {
        char text[sizeof r->err->text];
        memcpy(text, r->err->text, sizeof text);
        return err_at(r->err, r->name, r->line, NULL, "%.500s", text);
    }
    *out = (int)v;
    return 0;
}

/* Reads a line of a key and one number. */
static int only_number(struct reader *r, int64_t lo, int64_t hi, int *out)
{
    if (r->words > 2)
        return bad(r, r->word[0], "one number in the line");
    return text_number(r, 1, lo, hi, out);
}

static int read_phases(struct reader *r, struct schedule *s)
{
    static const char expected[] = "'phases' and broadcast, or some of reduce-inside, "
                                   "reduce-across, gather-across, gather-inside";

    if (text_next_line(r) || !word_is(r, "phases") || r->words < 2)
        return bad(r, NULL, expected);
    for (int w = 1; w < r->words; w++) {
        int i = 0;
        while (i < SCHEDULE_PHASES && strcmp(r->word[w], schedule_phase_names[i]))
            i++;
        if (i == SCHEDULE_PHASES)
            return bad(r, r->word[w], expected);
        s->phases |= 1u << i;
    }
    if (s->phases > SCHEDULE_BROADCAST)
        return bad(r, "broadcast", "no other phase with it");
    return 0;
}

static int schedule_text_read_groups(struct reader *r, struct schedule *s)
{
    int *group_of = mem_new(GROUPS_RANKS_MAX, sizeof(int)), ranks = 0, count = 0, rc = 0;

    while (rc == 0 && text_next_line(r) == 0 && word_is(r, "group")) {
        count++;
        rc = r->words < 2 ? bad(r, "group", "at least one rank") : 0;
        for (int w = 1, last = 0; rc == 0 && w < r->words; w++) {
            int rank = 0;
            rc = text_number(r, w, 0, GROUPS_RANKS_MAX - 1, &rank);
            if (rc == 0 && (group_of[rank] || (w > 1 && rank < last)))
                rc = bad(r, r->word[w], "each rank in one group only, in rising order");
            last = rank;
            group_of[rank] = count;
            ranks = rank >= ranks ? rank + 1 : ranks;
        }
    }
    rc = r->err->code ? -1 : 0;
    for (int i = 0; i < ranks; i++)
        group_of[i]--;
    if (rc == 0 && groups_init_of(&s->groups, ranks, group_of, r->err))
        rc = err_prefix(r->err, "%s: ", r->name);
    mem_free(group_of);
    return rc;
}

/* Reads segments; the reader already has the line after the groups. */
static int read_segments(struct reader *r, struct schedule *s)
{
    int count = s->groups.count;
    size_t space = 0;

    while (word_is(r, "segment")) {
        if (r->words != count + 1)
            return bad(r, "segment", "one holder for each group");
        s->holder =
            mem_grow(s->holder, &space, (size_t)(s->segments + 1) * (size_t)count, sizeof(int));
        for (int k = 0; k < count; k++) {
            int rank = 0;
            if (text_number(r, k + 1, 0, s->groups.ranks - 1, &rank))
                return -1;
            if (s->groups.group_of[rank] != k)
                return bad(r, r->word[k + 1], "a rank of that group");
            s->holder[s->segments * count + k] = rank;
        }
        s->segments++;
        if (text_next_line(r))
            return -1;
    }
    if (s->segments == 0)
        return bad(r, NULL, "at least one 'segment' line");
    return 0;
}

/* Reads "5", or "5>13". */
static int read_chunks(struct reader *r, const struct schedule *s, struct schedule_row *row)
{
    int slots = s->chunks * (1 + s->planes);
    char *into = r->words > 4 ? strchr(r->word[4], '>') : NULL;

    if (into)
        *into++ = 0;
    if (text_number(r, 4, 0, slots - 1, &row->chunk))
        return -1;
    row->into = row->chunk;
    if (!into)
        return 0;
    r->word[4] = into;
    return text_number(r, 4, 0, slots - 1, &row->into);
}

static int text_read_rows(struct reader *r, struct schedule *s)
{
    int rows = 0;
    size_t space = 0;

    if (!word_is(r, "rows") || only_number(r, 0, INT32_MAX, &rows))
        return r->err->code ? -1 : bad(r, NULL, "'rows' and their number");
    for (int i = 0; i < rows; i++) {
        struct schedule_row row = {0};
        if (text_next_line(r) || text_number(r, 0, 0, s->lanes - 1, &row.lane) ||
            text_number(r, 1, 0, INT32_MAX - 1, &row.step) ||
            text_number(r, 2, 0, s->groups.ranks - 1, &row.src) ||
            text_number(r, 3, 0, s->groups.ranks - 1, &row.dst) || read_chunks(r, s, &row))
            return -1;
        if (r->words != 6 || (strcmp(r->word[5], "copy") && strcmp(r->word[5], "add")))
            return bad(r, NULL, "lane step src dst chunk, and copy or add");
        row.op = strcmp(r->word[5], "add") == 0 ? SCHEDULE_ADD : SCHEDULE_COPY;
        if (row.step >= s->steps)
            s->steps = row.step + 1;
        s->row = mem_grow(s->row, &space, (size_t)i + 1, sizeof *s->row);
        s->row[i] = row;
        s->rows = i + 1;
    }
    if (text_next_line(r) || !word_is(r, "end") || r->words > 1)
        return bad(r, NULL, "'end' after the rows");
    r->line++;
    return *r->next ? bad(r, NULL, "nothing after 'end'") : 0;
}

/* Reads the lines between the sub-chunks and the rows: planes, root, barriers. */
static int read_extras(struct reader *r, struct schedule *s)
{
    if (word_is(r, "planes") &&
        (only_number(r, 1, PLANES_MAX, &s->planes) || text_next_line(r)))
        return -1;
    if ((int64_t)s->chunks * (1 + s->planes) > INT32_MAX)
        return bad(r, "planes", "fewer than 2^31 chunks in all");
    if (s->phases == SCHEDULE_BROADCAST) {
        if (!word_is(r, "root"))
            return bad(r, NULL, "'root' and the rank that broadcasts");
        if (only_number(r, 0, s->groups.ranks - 1, &s->root) || text_next_line(r))
            return -1;
    }
    while (word_is(r, "barrier")) {
        if (s->barriers == 4)
            return bad(r, "barrier", "at most 4 barriers");
        if (only_number(r, 0, INT32_MAX, &s->barrier[s->barriers++]) || text_next_line(r))
            return -1;
    }
    return 0;
}

static int text_read_all(struct reader *r, struct schedule *s)
{
    if (text_next_line(r) || !word_is(r, "paro-schedule/1") || r->words > 1)
        return bad(r, NULL, "'paro-schedule/1' in the first line");
    if (text_next_line(r) || !word_is(r, "algo") || r->words != 2)
        return bad(r, NULL, "'algo' and its name");
    if (schedule_algo_parse(r->word[1], &s->algo, r->err))
        return err_prefix(r->err, "%s:%d: ", r->name, r->line);
    if (s->algo == SCHEDULE_AUTO)
        return bad(r, "auto", "the algorithm that was taken");
    if (read_phases(r, s) || schedule_text_read_groups(r, s) || read_segments(r, s))
        return -1;
    if (!word_is(r, "subchunks") || only_number(r, 1, SUBCHUNKS_MAX, &s->subchunks))
        return r->err->code ? -1 : bad(r, NULL, "'subchunks' and their number");
    int64_t chunks = (int64_t)s->segments * s->groups.count * s->subchunks;
    if (chunks > INT32_MAX)
        return bad(r, "subchunks", "fewer than 2^31 chunks in all");
    if (chunks > CHUNKS_FREE + r->bytes)
        return bad(r, "subchunks", "at most 2^20 chunks more than the text has bytes");
    s->chunks = (int)chunks;
    s->lanes = s->segments + 2;
    if (text_next_line(r) || read_extras(r, s) || text_read_rows(r, s))
        return -1;
    s->gather_step = s->steps;
    return 0;
}

int schedule_parse(struct schedule *s, char *text, int64_t bytes, const char *name,
                   struct err *err)
{
    struct reader r = {.name = name, .next = text, .bytes = bytes, .err = err};
    struct schedule new = {0};
    int rc;

    err->code = ERR_NONE;
    if ((int64_t)strlen(text) != bytes) {
        r.line = 1;
        return bad(&r, NULL, "text without zero bytes");
    }
    rc = text_read_all(&r, &new);
    if (rc == 0)
        *s = new;
    else
        schedule_release(&new);
    mem_free(r.word);
    return rc;
}

int schedule_read(struct schedule *s, const char *path, struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;

    if (io_read_text(path, SCHEDULE_TEXT_MAX, &text, &bytes, err))
        return -1;
    int rc = schedule_parse(s, text, bytes, strcmp(path, "-") ? path : "stdin", err);
    mem_free(text);
    return rc;
}
