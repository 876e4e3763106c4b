/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a step and its loss in a line by a user's expression. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <string.h>

#include "base/mem.h"
#include "rank/rank_line.h"

struct rank_regex {
    pcre2_code *code;
    pcre2_match_data *match;
    uint32_t step, loss; /* group numbers; step 0: none */
};

/* Finds the groups; both by name, or both by number. */
static int find_groups(struct rank_regex *r, const char *text, struct err *err)
{
    uint32_t groups = 0;
    int loss = pcre2_substring_number_from_name(r->code, (PCRE2_SPTR) "loss");
    int step = pcre2_substring_number_from_name(r->code, (PCRE2_SPTR) "step");

    pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    if (loss == PCRE2_ERROR_NOUNIQUESUBSTRING || step == PCRE2_ERROR_NOUNIQUESUBSTRING)
        return err_set(err, ERR_INPUT, "'%s' has several groups named %s, expected one", text,
                       loss == PCRE2_ERROR_NOUNIQUESUBSTRING ? "loss" : "step");
    if (loss > 0) {
        r->loss = (uint32_t)loss;
        r->step = step > 0 ? (uint32_t)step : 0;
        return 0;
    }
    if (groups == 0 || step > 0)
        return err_set(err, ERR_INPUT,
                       "'%s' has no group for the loss, expected (?<step>...) and"
                       " (?<loss>...), or two groups, or one for the loss",
                       text);
    r->step = groups > 1 ? 1 : 0;
    r->loss = groups > 1 ? 2 : 1;
    return 0;
}

int rank_regex_new(const char *text, struct rank_regex **out, struct err *err)
{
    struct rank_regex *r = mem_new(1, sizeof *r);
    PCRE2_UCHAR words[160] = "";
    PCRE2_SIZE at = 0;
    int code = 0, rc = 0;

    r->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
    if (r->code) {
        rc = find_groups(r, text, err);
    } else {
        pcre2_get_error_message(code, words, sizeof words);
        rc = err_set(err, ERR_INPUT, "'%s' at byte %zu: %s", text, at, (const char *)words);
    }
    if (rc) {
        rank_regex_free(r);
        return rc;
    }
    /* Without JIT (a kernel may forbid it) matching is slower, with equal results. */
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    r->match = mem_have(pcre2_match_data_create_from_pattern(r->code, NULL), "a match");
    *out = r;
    return 0;
}

void rank_regex_free(struct rank_regex *r)
{
    if (!r)
        return;
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    mem_free(r);
}

/* Copies the text of a group, with a 0; -1: it did not match, or is too long for a number. */
static int group_text(const struct rank_regex *r, const char *p, uint32_t group, char text[64])
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(r->match) + 2 * (size_t)group;

    if (range[0] == PCRE2_UNSET || range[1] < range[0] || range[1] - range[0] > 63)
        return -1;
    memcpy(text, p + range[0], range[1] - range[0]);
    text[range[1] - range[0]] = 0;
    return 0;
}

int rank_regex_line(struct rank_regex *r, const char *p, int64_t bytes, struct rank_point *out,
                    enum rank_said *said, struct err *err)
{
    char text[64] = "";
    const char *end;

    *out = (struct rank_point){.step = -1};
    *said = RANK_NOTHING;
    int rc = pcre2_match(r->code, (PCRE2_SPTR)p, (PCRE2_SIZE)bytes, 0, 0, r->match, NULL);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        PCRE2_UCHAR words[160] = "";
        pcre2_get_error_message(rc, words, sizeof words);
        return err_set(err, ERR_INPUT, "--regex failed: %s", (const char *)words);
    }
    *said = RANK_BROKEN;
    if (r->step &&
        (group_text(r, p, r->step, text) || !(end = rank_line_step(text, &out->step)) || *end))
        return 0;
    if (group_text(r, p, r->loss, text) == 0 && (end = rank_line_number(text, &out->loss)) &&
        *end == 0)
        *said = RANK_LOSS;
    return 0;
}
