/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_MODEL_FIXTURE_H
#define TESTS_UNIT_MODEL_FIXTURE_H

/* Makes models from the text of a config.json.  After unit.h. */
#include "model/model.h"
#include "words_fixture.h"

/* JSON whose quotes are ' in the text. */
static inline int parse(struct model *m, const char *text)
{
    char *json = mem_dup(text);

    for (char *p = json; (p = strchr(p, '\''));)
        *p = '"';
    int rc = model_parse(m, "c.json", json, (int64_t)strlen(json), &err);
    mem_free(json);
    return rc;
}

static inline void refuse(const char *text, const char *words)
{
    struct model m;

    assert_refused(parse(&m, text), words);
}

#endif
