/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the text of ibnetdiscover (infiniband-diags):
 *
 *     Switch  36 "S-0008f10500200134"  # "leaf1" enhanced port 0 lid 1 lmc 0
 *     [1]  "H-00117500007ea9b2"[1](117500007ea9b2)  # "node1 HCA-1" lid 2 4xQDR
 *     [19] "S-0008f10500200200"[3]                  # "spine" lid 7 4xQDR s=4 w=2
 *
 *     Ca  1 "H-00117500007ea9b2"  # "node1 HCA-1"
 *     [1](117500007ea9b2)  "S-0008f10500200134"[1]  # lid 2 lmc 0 "leaf1" lid 1 4xQDR
 *
 * Leaves building the fabric to topo_ib.c.
 */
#include "topo/topo_ib.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FAIL(ib, line, ...) err_at((ib)->err, (ib)->file, line, NULL, __VA_ARGS__)

/* ---- parts of a line ---- */

static void ib_text_skip_blanks(char **at)
{
    *at += strspn(*at, " \t");
}

/* Cuts out the text between two quotes; NULL without quotes. */
static char *cut_quoted(char **at)
{
    char *text, *end;

    ib_text_skip_blanks(at);
    text = *at + 1;
    if (**at != '"' || !(end = strchr(text, '"')))
        return NULL;
    *end = 0;
    *at = end + 1;
    return text;
}

/* A port's number "[12]"; "[ext 3]" and "(guid)" may come after it. */
static int port_number(char **at, int *port)
{
    ib_text_skip_blanks(at);
    if (**at != '[')
        return -1;
    ++*at;
    size_t n = strspn(*at, "0123456789");
    if (n == 0 || n > 3 || (*at)[n] != ']')
        return -1;
    *port = atoi(*at);
    *at += n + 1;
    if (strncmp(*at, "[ext ", 5) == 0 && strchr(*at, ']'))
        *at = strchr(*at, ']') + 1;
    if (**at == '(' && strchr(*at, ')'))
        *at = strchr(*at, ')') + 1;
    return *port >= 1 && *port <= IB_PORTS_MAX ? 0 : -1;
}

/* "S-0008f10500200134": the kind and up to 16 digits. */
static int ib_text_is_id(const char *text)
{
    size_t n = text && strchr("SHR", text[0]) && text[0] && text[1] == '-'
                   ? strspn(text + 2, "0123456789abcdefABCDEF")
                   : 0;

    return n >= 1 && n <= 16 && text[2 + n] == 0;
}

/*
 * "4xHDR": lanes, and the data rate of a lane in Gbit/s, net of the generation's line coding
 * (InfiniBand Architecture: 8b/10b to QDR, 64b/66b from FDR10 on; FDR is 14.0625 Gbaud).
 */
static int read_rate(const char *word, double *Bps)
{
    static const struct {
        const char *name;
        double gigabits;
    } lanes[] = {
        {"SDR", 2},  {"DDR", 4},  {"QDR", 8},   {"FDR10", 10}, {"FDR", 14.0625 * 64 / 66},
        {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
    char *x = NULL;
    long width = strtol(word, &x, 10);

    if (*x != 'x' || (width != 1 && width != 2 && width != 4 && width != 8 && width != 12))
        return -1;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        if (strcmp(x + 1, lanes[i].name))
            continue;
        *Bps = (double)width * lanes[i].gigabits * 1e9 / 8;
        return 0;
    }
    return -1;
}

/* Reads the comment after '#': the description in quotes, and the rate among the words. */
static int read_comment(const struct ib *ib, int line, char *at, const char **words,
                        double *Bps)
{
    *words = "";
    *Bps = 0;
    for (;;) {
        ib_text_skip_blanks(&at);
        if (!*at)
            return 0;
        if (*at == '"') {
            if (!(*words = cut_quoted(&at)))
                return FAIL(ib, line, "has an unterminated description, expected '\"'");
            continue;
        }
        char *word = at;
        at += strcspn(at, " \t");
        if (*at)
            *at++ = 0;
        size_t n = strspn(word, "0123456789");
        int is_rate = n && word[n] == 'x' && word[n + 1] >= 'A' && word[n + 1] <= 'Z';
        if (is_rate && read_rate(word, Bps))
            return FAIL(ib, line, "has the rate '%.16s', expected 1x to 12x and SDR to XDR",
                        word);
    }
}

/* ---- lines ---- */

/* SHARP shows a switch as a host of this name. */
static const char aggregation[] = "Aggregation Node";

static int read_node(struct ib *ib, int line, char *at)
{
    struct ib_node n = {.line = line, .is_switch = at[0] == 'S', .first = ib->links};
    double ignored = 0;

    at += strcspn(at, " \t");
    ib_text_skip_blanks(&at);
    size_t digits = strspn(at, "0123456789");
    at += digits;
    const char *id = cut_quoted(&at);
    if (digits == 0 || !ib_text_is_id(id))
        return FAIL(ib, line,
                    "is not a node, expected a number of ports and \"S-\" or \"H-\" and"
                    " a GUID");
    snprintf(n.id, sizeof n.id, "%s", id);
    ib_text_skip_blanks(&at);
    if (*at && *at != '#')
        return FAIL(ib, line, "has '%.24s' after '%s', expected '#'", at, n.id);
    if (read_comment(ib, line, at + (*at == '#'), &n.words, &ignored))
        return -1;
    if (n.is_switch != (n.id[0] == 'S'))
        return FAIL(ib, line, "calls '%s' %s", n.id,
                    n.is_switch ? "a switch, expected Ca" : "an adapter, expected Switch");
    n.is_ignored = n.id[0] == 'R' || strstr(n.words, aggregation);
    ib->node = mem_grow(ib->node, &ib->node_space, (size_t)ib->nodes + 1, sizeof *ib->node);
    ib->node[ib->nodes++] = n;
    return 0;
}

static int read_link(struct ib *ib, int line, char *at)
{
    struct ib_link l = {.from = ib->nodes - 1, .to = -1, .line = line};
    const char *words = NULL;

    if (ib->nodes == 0)
        return FAIL(ib, line, "is a port without a node, expected 'Switch' or 'Ca' before it");
    if (port_number(&at, &l.port))
        return FAIL(ib, line, "is not a port, expected a number from 1 to %d", IB_PORTS_MAX);
    const char *id = cut_quoted(&at);
    if (!ib_text_is_id(id))
        return FAIL(ib, line, "has no node, expected \"S-\" or \"H-\" and a GUID");
    snprintf(l.peer, sizeof l.peer, "%s", id);
    if (port_number(&at, &l.its))
        return FAIL(ib, line, "has no port of '%s', expected its number", l.peer);
    ib_text_skip_blanks(&at);
    if (*at && *at != '#')
        return FAIL(ib, line, "has '%.24s' after '%s', expected '#'", at, l.peer);
    if (read_comment(ib, line, at + (*at == '#'), &words, &l.Bps))
        return -1;
    struct ib_node *n = &ib->node[l.from];
    if (n->links == IB_PORTS_MAX)
        return FAIL(ib, line, "is one of more than %d ports of '%s'", IB_PORTS_MAX, n->id);
    for (int i = n->first; i < n->first + n->links; i++)
        if (ib->link[i].port == l.port)
            return FAIL(ib, line, "has port %d of '%s' as line %d has, expected each once",
                        l.port, n->id, ib->link[i].line);
    l.peer_ignored = l.peer[0] == 'R' || (l.peer[0] == 'H' && strstr(words, aggregation));
    n->links++;
    ib->link = mem_grow(ib->link, &ib->link_space, (size_t)ib->links + 1, sizeof *ib->link);
    ib->link[ib->links++] = l;
    return 0;
}

static int ib_text_read_lines(struct ib *ib, char *text)
{
    int number = 0, rc = 0;

    for (char *line; rc == 0 && (line = topo_next_line(&text, &number));) {
        ib_text_skip_blanks(&line);
        size_t word = strcspn(line, " \t"), fact = strspn(line, "abcdefghijklmnopqrstuvwxyz");
        if (*line == '[')
            rc = read_link(ib, number, line);
        else if (line[word] && ((word == 6 && strncmp(line, "Switch", 6) == 0) ||
                                (word == 2 && strncmp(line, "Ca", 2) == 0) ||
                                (word == 2 && strncmp(line, "Rt", 2) == 0)))
            rc = read_node(ib, number, line);
        /* Skips facts of a node ("devid=0xd2f0"), comments, and the headings of ibnetdiscover
           -g. */
        else if (*line && *line != '#' && (fact == 0 || line[fact] != '=') &&
                 strncmp(line, "Chassis", 7) && strncmp(line, "Non-Chassis", 11))
            rc = FAIL(ib, number, "has '%.24s', expected a node, a port or a comment", line);
    }
    return rc;
}

/* ---- both ends ---- */

static int by_id(const void *a, const void *b)
{
    const struct ib_node *x = *(const struct ib_node *const *)a;
    const struct ib_node *y = *(const struct ib_node *const *)b;
    int differ = strcmp(x->id, y->id);

    return differ || !x->line || !y->line ? differ : x->line - y->line;
}

static int find_ends(struct ib *ib, const struct ib_node **sorted)
{
    for (int i = 1; i < ib->nodes; i++)
        if (strcmp(sorted[i]->id, sorted[i - 1]->id) == 0)
            return FAIL(ib, sorted[i]->line, "is '%s' as line %d is, expected each node once",
                        sorted[i]->id, sorted[i - 1]->line);
    for (int i = 0; i < ib->links; i++) {
        struct ib_link *l = &ib->link[i];
        struct ib_node key = {.line = 0}; /* its line is not compared */
        const struct ib_node *wanted = &key;
        memcpy(key.id, l->peer, sizeof key.id);
        const struct ib_node **found =
            bsearch(&wanted, sorted, (size_t)ib->nodes, sizeof *sorted, by_id);
        if (!found && !l->peer_ignored)
            return FAIL(ib, l->line,
                        "refers to '%s', which the file does not describe: is it cut?",
                        l->peer);
        if (found && !(*found)->is_ignored && !l->peer_ignored)
            l->to = (int)(*found - ib->node);
    }
    return 0;
}

static int ib_text_check_end(const struct ib *ib, const struct ib_link *l)
{
    const struct ib_node *peer = &ib->node[l->to];

    for (int i = peer->first; i < peer->first + peer->links; i++) {
        const struct ib_link *back = &ib->link[i];
        if (back->port != l->its)
            continue;
        if (back->to != l->from || back->its != l->port)
            return FAIL(ib, l->line,
                        "ends at port %d of '%s', but line %d has another link there", l->its,
                        l->peer, back->line);
        if (back->Bps != l->Bps)
            return FAIL(ib, l->line, "has a different rate than its other end on line %d",
                        back->line);
        return 0;
    }
    return FAIL(ib, l->line,
                "ends at port %d of '%s', which line %d describes without it: is the file cut?",
                l->its, l->peer, peer->line);
}

int topo_ib_parse(struct ib *ib, char *text)
{
    if (ib_text_read_lines(ib, text))
        return -1;
    if (ib->nodes == 0)
        return FAIL(ib, 0, "has no node, expected 'Switch' and 'Ca'");
    const struct ib_node **sorted = mem_new((size_t)ib->nodes, sizeof *sorted);
    for (int i = 0; i < ib->nodes; i++)
        sorted[i] = &ib->node[i];
    qsort(sorted, (size_t)ib->nodes, sizeof *sorted, by_id);
    int rc = find_ends(ib, sorted);
    mem_free(sorted);
    for (int i = 0; rc == 0 && i < ib->links; i++)
        if (ib->link[i].to >= 0 && !ib->node[ib->link[i].from].is_ignored)
            rc = ib_text_check_end(ib, &ib->link[i]);
    return rc;
}

void topo_ib_release(struct ib *ib)
{
    mem_free(ib->node);
    mem_free(ib->link);
}
