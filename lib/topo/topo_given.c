/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the words that give a fabric's figures, in synth: and after --set, and sets levels and
 * ports from the figures given.
 */
#include "topo/topo_given.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_print.h"

/* Times 2^20 ranks this stays below TOPO_RATE_MAX_BPS. */
static const double RATE_MAX_BPS = 1e18;

/* "intra" 0, "inter" 1, "level2" 2, ...; -1 for other words. */
static int level_of(const char *word, int levels)
{
    int64_t level = -1;
    struct err ignored;

    if (strcmp(word, "intra") == 0)
        return 0;
    if (strcmp(word, "inter") == 0)
        return 1;
    if (strncmp(word, "level", 5) || num_i64(word + 5, 2, levels - 1, &level, &ignored))
        return -1;
    return (int)level;
}

static int parse_rate(const char *text, double *out_Bps, struct err *err)
{
    double Bps = 0;

    if (num_rate(text, &Bps, err))
        return -1;
    if (Bps < TOPO_RATE_MIN_BPS || Bps > RATE_MAX_BPS)
        return err_set(err, ERR_INPUT, "'%s', expected a rate from %g to %g B/s", text,
                       TOPO_RATE_MIN_BPS, RATE_MAX_BPS);
    *out_Bps = Bps;
    return 0;
}

/* RATE[/rank][:LATENCY], or ":LATENCY" alone. */
static int parse_level(struct topo_given_level *g, char *text, struct err *err)
{
    char *colon = strchr(text, ':');

    if (colon) {
        *colon = 0;
        if (num_time(colon + 1, &g->latency_s, err))
            return -1;
        if (g->latency_s > TOPO_LATENCY_MAX_S)
            return err_set(err, ERR_INPUT, "'%s', expected a latency of %g s at most",
                           colon + 1, TOPO_LATENCY_MAX_S);
        g->has_latency = 1;
        if (colon == text)
            return 0;
    }
    size_t n = strlen(text);
    if (n > 5 && strcmp(text + n - 5, "/rank") == 0) {
        g->per_rank = 1;
        text[n - 5] = 0;
    }
    g->has_rate = 1;
    return parse_rate(text, &g->rate_Bps, err);
}

/* Rejects values too small for any machine: "80" typed for 80GB lacks the unit. */
static int check_unit(const char *text, double v, const char *as, struct err *err)
{
    const double bare_min = 1e6;
    char last = text[strlen(text) - 1];

    if (v >= bare_min || last < '0' || last > '9')
        return 0;
    return err_set(err, ERR_INPUT, "'%s', expected a number with its unit, as %s", text, as);
}

/* The rate that a word names: flops, flops_f32, flops_bf16, or flops3 of group 3; or NULL. */
static double *flops_of(struct topo_given *g, const char *word)
{
    int64_t group = 0;
    struct err why;

    if (strncmp(word, "flops", 5) != 0)
        return NULL;
    if (strcmp(word + 5, "_f32") == 0 || strcmp(word + 5, "_bf16") == 0)
        return &g->flops_in[word[6] == 'b'];
    if (word[5] && num_i64(word + 5, 0, TOPO_GIVEN_OWN - 1, &group, &why))
        return NULL;
    return word[5] ? &g->own_flops[group] : &g->flops;
}

int topo_given_word(struct topo_given *g, int levels, int links, char *word, struct err *err)
{
    char *value = strchr(word, '=');
    int rc = -1, twice = 0;
    double *flops;

    if (!value)
        return err_set(err, ERR_INPUT, "'%s', expected NAME=VALUE", word);
    *value++ = 0;
    int l = level_of(word, levels);
    if (l >= 0) {
        twice = g->level[l].has_rate || g->level[l].has_latency;
        rc = twice ? -1 : parse_level(&g->level[l], value, err);
    } else if (strcmp(word, "memory") == 0) {
        twice = g->memory_bytes != 0;
        rc = twice || num_bytes(value, 1, TOPO_MEMORY_MAX_BYTES, &g->memory_bytes, err) ||
                     check_unit(value, (double)g->memory_bytes, "80GB or 80e9", err)
                 ? -1
                 : 0;
    } else if ((flops = flops_of(g, word))) {
        twice = *flops > 0;
        rc = twice || num_per_s(value, 1, TOPO_FLOPS_MAX, flops, err) ||
                     check_unit(value, *flops, "400T or 4e14", err)
                 ? -1
                 : 0;
    } else if (strcmp(word, "ring_loss") == 0) {
        twice = g->ring_loss > 0;
        rc = twice ? -1 : num_f64(value, 0, 1, &g->ring_loss, err);
    } else if (strcmp(word, "device") == 0) {
        twice = g->has_device++;
        rc = twice ? -1 : topo_device_parse(value, &g->device, err);
    } else if (strcmp(word, "compute_type") == 0) {
        twice = g->has_type++;
        rc = twice ? -1 : dtype_parse_compute(value, &g->compute_type, err);
    } else if (strcmp(word, "cabling") == 0) {
        twice = g->cabling != 0;
        for (int i = 0; topo_cablings[i]; i++)
            g->cabling = strcmp(value, topo_cablings[i]) == 0 ? 1 + i : g->cabling;
        rc = twice ? -1 : 0;
        if (!g->cabling)
            rc = err_set(err, ERR_INPUT, "'%s', expected switch or ring", value);
    } else if (links && (strcmp(word, "nvlink") == 0 || strcmp(word, "nic") == 0)) {
        double *Bps = word[1] == 'v' ? &g->nvlink_Bps : &g->nic_Bps;
        twice = *Bps > 0;
        rc = twice ? -1 : parse_rate(value, Bps, err);
    } else {
        char further[40] = "";

        if (levels > 2)
            snprintf(further, sizeof further, levels == 3 ? "level2, " : "level2 to level%d, ",
                     levels - 1);
        return err_set(err, ERR_INPUT,
                       "'%s', expected intra, inter, %s%sring_loss, memory, flops, flopsGROUP,"
                       " flops_f32, flops_bf16, device, cabling or compute_type",
                       word, further, links ? "nvlink, nic, " : "");
    }
    if (twice)
        err_set(err, ERR_INPUT, "is given twice, expected once");
    return rc ? err_prefix(err, "%s ", word) : 0;
}

char *topo_given_next(char **at)
{
    char *word = *at;
    int depth = 0;

    if (!word)
        return NULL;
    char *p = word;
    for (; *p && (*p != ',' || depth > 0); p++)
        depth += (*p == '[') - (*p == ']');
    *at = *p ? p + 1 : NULL;
    *p = 0;
    return word;
}

int topo_given_parse(struct topo_given *g, const char *words, struct err *err)
{
    struct topo_given new = *g;
    char *copy = mem_dup(words), *at = copy;
    int rc = 0;

    for (char *word; rc == 0 && (word = topo_given_next(&at));)
        rc = topo_given_word(&new, TOPO_LEVELS_MAX, 1, word, err);
    mem_free(copy);
    if (rc == 0)
        *g = new;
    return rc;
}

/* ---- applying ---- */

struct topo_unit topo_largest_unit(const struct topo *t, int l)
{
    int count = t->groups.count;
    struct topo_unit most = {.ranks = l ? groups_largest(&t->groups) : 1};

    if (l < 2)
        return most;
    struct topo_unit *unit = mem_new((size_t)count, sizeof *unit);
    const int *block = t->block + (l - 2) * count;
    for (int k = 0; k < count; k++) {
        unit[block[k]].ranks += t->groups.members[k];
        unit[block[k]].port_Bps += t->port[k].out_Bps;
    }
    most = unit[block[0]];
    for (int k = 1; k < count; k++)
        if (unit[block[k]].ranks > most.ranks)
            most = unit[block[k]];
    mem_free(unit);
    return most;
}

void topo_given_level(struct topo *t, int l, const struct topo_given_level *g)
{
    struct topo_level *level = &t->level[l];

    if (g->has_latency) {
        level->latency_s = g->latency_s;
        level->latency_source[0] = 0;
    }
    if (!g->has_rate)
        return;
    int ranks = topo_largest_unit(t, l).ranks;
    level->port_Bps = g->per_rank ? g->rate_Bps * ranks : g->rate_Bps;
    level->member_Bps = level->port_Bps / ranks;
    level->flow_Bps = g->rate_Bps;
    level->rate_source[0] = 0;
    for (int k = 0; l == 1 && k < t->groups.count; k++) {
        double Bps = g->per_rank ? g->rate_Bps * t->groups.members[k] : g->rate_Bps;
        t->port[k] = (struct topo_port){.out_Bps = Bps, .in_Bps = Bps};
    }
}

int topo_given_rank(struct topo *t, const struct topo_given *g, int fill, struct err *err)
{
    if (g->cabling == 2 && (t->levels > 2 || t->groups.count < 3))
        return err_set(err, ERR_INPUT,
                       "cabling=ring, expected two levels and three groups or more");
    if (g->cabling && !fill)
        t->groups.ring = g->cabling == 2;
    if (t->groups.ring)
        t->level[1].flow_Bps = fmin(t->level[1].flow_Bps, t->level[1].port_Bps / 2);
    for (int l = 1; l < t->levels && g->ring_loss > 0; l++)
        if (!(fill && t->level[l].ring_loss > 0))
            t->level[l].ring_loss = g->ring_loss;
    if (g->has_device && !fill)
        t->device = g->device;
    if (g->has_type && g->compute_type != t->compute_type && !(fill && t->flops > 0)) {
        double flops = t->other_flops;
        t->other_flops = flops > 0 ? t->flops : 0;
        t->flops = flops > 0 ? flops : t->flops;
        t->compute_type = g->compute_type;
    }
    if (g->memory_bytes && !(fill && t->memory_bytes))
        t->memory_bytes = g->memory_bytes;
    if (g->flops > 0 && !(fill && t->flops > 0))
        t->flops = g->flops;
    double other = g->flops_in[topo_other_type(t)];
    if (g->flops_in[t->compute_type] > 0 || (other > 0 && !(t->flops > 0)))
        return err_set(err, ERR_INPUT,
                       "flops_f32 or flops_bf16, expected flops of compute_type,"
                       " %s, and of the other type %s",
                       dtype_name(t->compute_type), topo_other_key(t));
    if (other > 0 && !(fill && t->other_flops > 0))
        t->other_flops = other;
    for (int k = 0; k < TOPO_GIVEN_OWN && !(fill && t->rank_flops); k++) {
        if (!(g->own_flops[k] > 0))
            continue;
        if (k >= t->groups.count || !(t->flops > 0))
            return err_set(err, ERR_INPUT,
                           "flops%d, expected flops with it, and groups 0 to %d", k,
                           t->groups.count - 1);
        for (int j = 0; j < t->groups.members[k]; j++)
            topo_set_rank_flops(t, groups_rank(&t->groups, k, j), g->own_flops[k]);
    }
    return 0;
}

int topo_given_apply(struct topo *t, const struct topo_given *g, int fill, struct err *err)
{
    for (int l = 0; l < TOPO_LEVELS_MAX; l++) {
        struct topo_given_level level = g->level[l];
        if ((!level.has_rate && !level.has_latency) || (l >= t->levels && fill))
            continue;
        if (l >= t->levels)
            return err_set(err, ERR_INPUT, "level%d is given, but the fabric has %d levels", l,
                           t->levels);
        if (fill && t->level[l].port_Bps > 0)
            level.has_rate = 0;
        if (fill && t->level[l].latency_s >= 0)
            level.has_latency = 0;
        topo_given_level(t, l, &level);
    }
    return topo_given_rank(t, g, fill, err);
}
