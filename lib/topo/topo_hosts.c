/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lists of host names, as Slurm and people write them: "node[00-15],login". */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_machine.h"

enum { NAME_BYTES = 255 };

struct names {
    char **host;
    int count;
    size_t space;
};

static int add_name(struct names *names, const char *text, struct err *err)
{
    /* Addresses contain dots and colons; characters that a shell or host file would split on
       are rejected. */
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "-_.:");

    if (n == 0 || n > NAME_BYTES || text[n])
        return err_set(err, ERR_INPUT,
                       "'%.64s', expected host names of letters, digits, '-', '_', '.' and ':'",
                       text);
    if (names->count == GROUPS_RANKS_MAX)
        return err_set(err, ERR_INPUT, "has more than %d hosts", GROUPS_RANKS_MAX);
    names->host =
        mem_grow(names->host, &names->space, (size_t)names->count + 1, sizeof *names->host);
    names->host[names->count++] = mem_dup(text);
    return 0;
}

/* The digits of "007": 7; -1 for other text. */
static int hosts_read_index(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return n == 0 || n > 7 || text[n] ? -1 : atoi(text);
}

/* PREFIX, a part of the brackets ("3" or "00-15"), SUFFIX. */
static int hosts_add_part(struct names *names, const char *prefix, char *part,
                          const char *suffix, struct err *err)
{
    char *dash = strchr(part, '-'), text[2 * NAME_BYTES + 16];

    if (dash)
        *dash = 0;
    int from = hosts_read_index(part), to = dash ? hosts_read_index(dash + 1) : from;
    if (from < 0 || to < from)
        return err_set(err, ERR_INPUT,
                       "'%s%s%s' in brackets, expected numbers such as 3 or 0-15", part,
                       dash ? "-" : "", dash ? dash + 1 : "");
    for (; from <= to; from++) {
        /* Padded to the width of the first number: [08-11]. */
        snprintf(text, sizeof text, "%.*s%0*d%.*s", NAME_BYTES, prefix, (int)strlen(part), from,
                 NAME_BYTES, suffix);
        if (add_name(names, text, err))
            return -1;
    }
    return 0;
}

/* "node7", or "node[0-3,8].rack1". */
static int add_word(struct names *names, char *word, struct err *err)
{
    char *open = strchr(word, '['), *close = open ? strchr(open, ']') : NULL;

    if (!open)
        return add_name(names, word, err);
    if (!close)
        return err_set(err, ERR_INPUT, "'%.64s', expected ']' after '['", word);
    *open = *close = 0;
    for (char *at = open + 1, *part; (part = topo_given_next(&at));)
        if (hosts_add_part(names, word, part, close + 1, err))
            return -1;
    return 0;
}

int topo_hosts_parse(const char *text, char ***host, int *count, struct err *err)
{
    struct names names = {0};
    char *copy = mem_dup(text), *at = copy;
    int rc = 0;

    for (char *word; rc == 0 && (word = topo_given_next(&at));)
        rc = add_word(&names, word, err);
    mem_free(copy);
    size_t many = (size_t)names.count;
    char **sorted = mem_new(many, sizeof *sorted);
    for (size_t i = 0; i < many; i++)
        sorted[i] = names.host[i];
    qsort(sorted, many, sizeof *sorted, mem_by_text);
    for (size_t i = 1; rc == 0 && i < many; i++)
        if (strcmp(sorted[i], sorted[i - 1]) == 0)
            rc = err_set(err, ERR_INPUT, "'%.64s' is named twice, expected each host once",
                         sorted[i]);
    mem_free(sorted);
    if (rc) {
        topo_hosts_free(names.host, names.count);
        return -1;
    }
    *host = names.host;
    *count = names.count;
    return 0;
}

void topo_hosts_free(char **host, int count)
{
    for (int i = 0; i < count; i++)
        mem_free(host[i]);
    mem_free(host);
}
