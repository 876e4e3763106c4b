/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_IMPORT_FIXTURE_H
#define TOPO_IMPORT_FIXTURE_H

/*
 * Fabrics from other tools' files (tests/data/topo and examples/fabrics, all written by hand):
 * what the tests of their readers share.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/mem.h"
#include "topo/topo_import.h"
#include "words_fixture.h"

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"

static inline int import(const char *file, const struct topo_ask *ask, struct topo *t,
                         struct err *err)
{
    *t = (struct topo){0};
    *err = (struct err){0};
    return topo_import(t, file, ask, err);
}

static inline struct topo_ask given(const char *words)
{
    struct topo_ask ask = {0};
    struct err err;

    if (words)
        assert_int_equal(topo_given_parse(&ask.given, words, &err), 0);
    return ask;
}

/* Rates in GB/s, exactly; latency in us, less what one rounding of a power of 10 makes. */
static inline void check_level(const struct topo *t, int l, double port, double flow,
                               double member, double latency)
{
    const struct topo_level *v = &t->level[l];

    if (v->port_Bps != port * 1e9 || v->flow_Bps != flow * 1e9 ||
        v->member_Bps != member * 1e9 ||
        fabs(v->latency_s - latency / 1e6) > 0x1p-52 * v->latency_s)
        fail_msg("level %d: port %g flow %g member %g latency %g", l, v->port_Bps, v->flow_Bps,
                 v->member_Bps, v->latency_s);
}

/* The file's text with the first `from` in it replaced. */
static inline char *edited(const char *file, const char *from, const char *to, int64_t *bytes)
{
    char *text = NULL;
    struct err err;

    assert_int_equal(io_read_text(file, 1 << 20, &text, bytes, &err), 0);
    char *at = strstr(text, from), *new = mem_new((size_t)*bytes + strlen(to) + 1, 1);
    *bytes = sprintf(new, "%.*s%s%s", at ? (int)(at - text) : (int)*bytes, text, at ? to : "",
                     at ? at + strlen(from) : "");
    mem_free(text);
    return new;
}

#endif
