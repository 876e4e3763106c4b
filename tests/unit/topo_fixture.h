/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_FIXTURE_H
#define TOPO_FIXTURE_H

/*
 * Provides what the tests of fabrics share: synthetic ones, and those of other tools' files
 * (tests/data/topo and examples/fabrics, all written by hand).
 */
#include <math.h>

#include "base/io.h"
#include "base/mem.h"
#include "topo/topo_import.h"
#include "words_fixture.h"

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"

static inline struct topo read_synth(const char *spec)
{
    struct topo t = {0};

    if (topo_parse_synth(&t, spec, &err))
        fail_msg("%s: %s", spec, err.text);
    return t;
}

static inline int import(const char *file, const struct topo_settings *settings, struct topo *t)
{
    *t = (struct topo){0};
    err = (struct err){0};
    return topo_import(t, file, settings, &err);
}

static inline struct topo_settings given(const char *words)
{
    struct topo_settings settings = {0};

    if (words)
        assert_ok(topo_given_parse(&settings.given, words, &err));
    return settings;
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

/* The text, or that of a file, with the first `from` in it replaced; "" replaces nothing. */
static inline char *edited(const char *of, const char *from, const char *to, int64_t *bytes)
{
    char *text = NULL;

    if (strchr(of, '\n'))
        text = mem_dup(of);
    else
        assert_ok(io_read_text(of, 1 << 20, &text, bytes, &err));
    char *at = strstr(text, from), *new = mem_new(strlen(text) + strlen(to) + 1, 1);
    if (!at)
        fail_msg("'%s' is not there", from);
    *bytes = sprintf(new, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    mem_free(text);
    return new;
}

/* A text or a file with one thing changed, and the key words of its message; "": it is read. */
struct change {
    const char *of, *from, *to, *want;
};

static inline void check_changes(const struct change *c, size_t count,
                                 const struct topo_settings *settings)
{
    int wrong = 0;

    for (; count--; c++) {
        struct topo t = {0};
        err = (struct err){0};
        int64_t bytes = 0;
        char *text = edited(c->of, c->from, c->to, &bytes);
        int rc = topo_import_text(&t, "f", text, bytes, settings, &err);
        /* An error of YAML has a place; a second document has a line and no key. */
        int placed =
            !strchr(c->of, '\n') || (err.line && (err.key[0] || strstr(err.text, "format") ||
                                                  strstr(err.text, "document")));
        if (!has_words(err.text, c->want) || (rc != 0) != (c->want[0] != 0) ||
            (rc && (err.code != ERR_INPUT || t.level || !placed))) {
            print_error("%.40s: '%s' to '%s': said '%s'\n", c->of, c->from, c->to, err.text);
            wrong++;
        }
        topo_release(&t);
    }
    assert_int_equal(wrong, 0);
}

#endif
