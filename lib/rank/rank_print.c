/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a ranking, in words and in JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/utf8.h"
#include "rank/rank.h"

/* Prints six decimals, unless those are all zeros or the number has a hundred digits. */
static void print_put_number(FILE *out, int width, double v)
{
    if (!isfinite(v))
        fprintf(out, "%*s", width, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (fabs(v) < 1e8 && (fabs(v) >= 1e-3 || v == 0))
        fprintf(out, "%*.6f", width, v);
    else
        fprintf(out, "%*.6e", width, v);
}

/* Appends words after "; ". */
__attribute__((format(printf, 3, 4))) static void print_add(char *text, int space,
                                                            const char *fmt, ...)
{
    int at = (int)strlen(text);
    va_list args;

    if (at)
        at += snprintf(text + at, (size_t)(space - at), "; ");
    if (at >= space)
        return;
    va_start(args, fmt);
    vsnprintf(text + at, (size_t)(space - at), fmt, args);
    va_end(args);
}

/* Writes remarks on a run, such as "within noise; rewound 1 time", or "". */
static void note_run(const struct rank_result *r, const struct rank_place *p, char *text,
                     int space)
{
    const struct rank_run *run = p->run;
    const struct rank_curve *c = &run->curve;
    int64_t have = rank_curve_epochs(c);

    *text = 0;
    if (!p->epochs)
        print_add(text, space, "not compared: %" PRId64 " epoch%s", have, have == 1 ? "" : "s");
    else if (!isfinite(p->score) && c->bad < 0)
        print_add(text, space, "score overflows");
    else if (!isfinite(p->score))
        print_add(text, space, "not finite from step %" PRId64, c->bad);
    else if (p->best < p->worst)
        print_add(text, space, "within noise");
    if (r->forced && p->epochs)
        print_add(text, space, "%" PRId64 " epoch%s", p->epochs, p->epochs == 1 ? "" : "s");
    if (rank_curve_headless(c))
        print_add(text, space, "begins with step %" PRId64, c->first);
    if (c->back)
        print_add(text, space, "rewound %" PRId64 " time%s", c->back, c->back == 1 ? "" : "s");
    if (c->blind)
        print_add(text, space, "%" PRId64 " epoch%s without the beginning", c->blind,
                  c->blind == 1 ? "" : "s");
    if (run->broken)
        print_add(text, space, "%" PRId64 " broken line%s", run->broken,
                  run->broken == 1 ? "" : "s");
}

static void print_put_head(const struct rank_result *r, FILE *out)
{
    const struct rank_options *o = r->o;

    fprintf(out, "%s", rank_method_name(o->how.method));
    if (o->how.method == RANK_TSE_E)
        fprintf(out, " of the last %" PRId64, o->how.e);
    if (o->how.method == RANK_TSE_EMA)
        fprintf(out, ", gamma %g", o->how.gamma);
    if (r->forced)
        fprintf(out, ", each run's own epochs");
    else
        fprintf(out, ", %" PRId64 " epoch%s", r->epochs, r->epochs == 1 ? "" : "s");
    fprintf(out, " of %" PRId64 " step%s; lower is better", o->per_epoch,
            o->per_epoch == 1 ? "" : "s");
    if (o->noise > 0)
        fprintf(out, "; noise %g, scores closer than %g share a rank", o->noise, 2 * o->noise);
    fprintf(out, "\n");
}

static void print_put_row(const struct rank_result *r, const struct rank_place *p, FILE *out)
{
    char rank[32] = "-", note[256];

    if (p->best)
        snprintf(rank, sizeof rank, p->best < p->worst ? "%d-%d" : "%d", p->best, p->worst);
    fprintf(out, "%-9s", rank);
    if (p->epochs) {
        print_put_number(out, 16, p->score);
        if (r->o->how.method == RANK_SOTL)
            print_put_number(out, 14, p->score / log(2));
        print_put_number(out, 14, p->loss);
        fprintf(out, " %11" PRId64, p->epochs * p->run->curve.per_epoch);
    } else {
        fprintf(out, "%16s%s%14s %11s", "-",
                r->o->how.method == RANK_SOTL ? "             -" : "", "-", "-");
    }
    fprintf(out, "  ");
    utf8_put(p->run->name, "", out);
    note_run(r, p, note, sizeof note);
    if (*note)
        fprintf(out, "  (%s)", note);
    fprintf(out, "\n");
}

static void put_tau(const struct rank_result *r, FILE *out)
{
    fprintf(out, "\nEPOCHS            STEPS  SPEARMAN   KENDALL\n");
    for (int i = 0; i < r->taus; i++) {
        const struct rank_tau *t = &r->tau[i];
        fprintf(out, "%-9" PRId64 " %13" PRId64, t->epochs, t->epochs * r->o->per_epoch);
        for (int k = 0; k < 2; k++) {
            double v = k ? t->kendall : t->spearman;
            if (isnan(v))
                fprintf(out, "%10s", "-");
            else
                fprintf(out, "%10.4f", v);
        }
        fprintf(out, "\n");
    }
}

void rank_print(const struct rank_result *r, FILE *out)
{
    print_put_head(r, out);
    fprintf(out, "RANK                SCORE%s          LAST       STEPS  RUN\n",
            r->o->how.method == RANK_SOTL ? "          BITS" : "");
    for (int i = 0; i < r->o->logs; i++)
        print_put_row(r, &r->place[i], out);
    if (r->taus)
        put_tau(r, out);
    if (r->share) {
        const struct rank_place *p = r->place;
        while (p->run != &r->run[0])
            p++;
        fprintf(out, "\n");
        utf8_put(p->run->name, "", out);
        fprintf(out, ": %s, ", r->stop ? "stop" : "continue");
        if (isfinite(p->score))
            fprintf(out, "rank %d of %d, expected %d or better\n", p->best, r->ranked,
                    r->share);
        else
            fprintf(out, "its score is not finite\n");
    }
}

static void json_run(const struct rank_result *r, const struct rank_place *p, struct jout *j)
{
    const struct rank_curve *c = &p->run->curve;
    char note[256];

    jout_open(j, NULL, '{');
    jout_known(j, "rank", p->best ? p->best : -1);
    jout_known(j, "rank_last", p->best ? p->worst : -1);
    jout_num(j, "score", p->best ? p->score : NAN);
    if (r->o->how.method == RANK_SOTL)
        jout_num(j, "bits_per_token", p->best ? p->score / log(2) : NAN);
    jout_text(j, "run", p->run->name);
    jout_int(j, "epochs", p->epochs);
    jout_int(j, "steps", p->epochs * c->per_epoch);
    jout_num(j, "last_loss", p->best ? p->loss : NAN);
    jout_int(j, "log_epochs", rank_curve_epochs(c));
    jout_int(j, "log_first_step", c->first);
    jout_int(j, "log_last_step", c->last);
    jout_int(j, "log_losses", p->run->losses);
    jout_int(j, "log_broken_lines", p->run->broken);
    jout_int(j, "log_went_back", c->back);
    jout_known(j, "no_number_from_step", c->bad);
    note_run(r, p, note, sizeof note);
    jout_text(j, "note", note);
    jout_close(j, '}');
}

void rank_print_json(const struct rank_result *r, FILE *out)
{
    struct jout j = jout_begin(out, "paro.rank/1");
    const struct rank_options *o = r->o;

    jout_text(&j, "method", rank_method_name(o->how.method));
    if (o->how.method == RANK_TSE_E)
        jout_int(&j, "last_epochs", o->how.e);
    if (o->how.method == RANK_TSE_EMA)
        jout_num(&j, "gamma", o->how.gamma);
    jout_int(&j, "steps_per_epoch", o->per_epoch);
    jout_known(&j, "epochs", r->forced ? -1 : r->epochs);
    jout_num(&j, "noise", o->noise);
    jout_open(&j, "runs", '[');
    for (int i = 0; i < o->logs; i++)
        json_run(r, &r->place[i], &j);
    jout_close(&j, ']');
    if (o->finals) {
        jout_open(&j, "finals", '[');
        for (int i = 0; i < r->taus; i++) {
            jout_open(&j, NULL, '{');
            jout_int(&j, "epochs", r->tau[i].epochs);
            jout_int(&j, "steps", r->tau[i].epochs * o->per_epoch);
            jout_num(&j, "spearman", r->tau[i].spearman);
            jout_num(&j, "kendall", r->tau[i].kendall);
            jout_close(&j, '}');
        }
        jout_close(&j, ']');
    }
    if (r->share) {
        jout_int(&j, "stop_below", r->share);
        jout_bool(&j, "stop", r->stop);
    }
    jout_close(&j, '}');
}
