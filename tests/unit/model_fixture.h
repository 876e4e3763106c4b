/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_MODEL_FIXTURE_H
#define TESTS_UNIT_MODEL_FIXTURE_H

/* Models from the text of a config.json.  After unit.h. */
#include "model/model.h"
#include "words_fixture.h"

static inline int parse(struct model *m, const char *text, struct err *err)
{
    return model_parse(m, "c.json", text, (int64_t)strlen(text), err);
}

static inline void refuse(const char *text, const char *words)
{
    struct model m;
    struct err err = {0};

    assert_int_equal(parse(&m, text, &err), -1);
    assert_words(err.text, words);
}

#endif
