/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the matrix that `nvidia-smi topo -m` prints:
 *
 *             GPU0    GPU1    mlx5_0  CPU Affinity    NUMA Affinity
 *     GPU0     X      NV12    PXB     0-31            0
 *     GPU1    NV12     X      NODE    0-31            0
 *     mlx5_0  PXB     NODE     X
 *
 * It counts NVLinks and network devices but states no rates; the user gives them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_machine.h"

enum { COLUMNS_MAX = TOPO_MACHINE_RANKS, NAME_BYTES = 31 };

/*
 * The most NVLinks of a GPU that lead directly to other GPUs (Hopper, Blackwell; Volta 6,
 * Ampere 12).  A matrix with more in a row counts the same links again for each peer: a switch
 * joins them all.
 */
enum { LINKS_DIRECT = 18 };

enum { ITSELF = -1, FAR = -2 }; /* FAR: through the link between processors */

struct column {
    char name[NAME_BYTES + 1];
    int is_gpu;
    int line; /* line of its row; 0: not seen yet */
};

struct smi {
    struct topo_machine *m;
    struct column *column; /* [columns], owned */
    size_t space;
    int columns, line, rows;
    int *cell; /* [columns][columns], owned: number of NVLinks, 0 for another path, or: */
    struct err *err;
};

#define FAIL(s, ...) err_at((s)->err, (s)->m->file, (s)->line, NULL, __VA_ARGS__)

/* Cuts off the next word of the line; NULL at the end. */
static char *smi_next_word(char **at)
{
    char *word = *at + strspn(*at, " \t");
    size_t n = strcspn(word, " \t");

    if (n == 0)
        return NULL;
    *at = word + n + (word[n] != 0);
    word[n] = 0;
    return word;
}

static int find_column(const struct smi *s, const char *name)
{
    for (int i = 0; i < s->columns; i++)
        if (strcmp(s->column[i].name, name) == 0)
            return i;
    return -1;
}

static int add_column(struct smi *s, const char *name)
{
    size_t digits = strncmp(name, "GPU", 3) ? 0 : strspn(name + 3, "0123456789");
    struct column c = {.is_gpu = digits > 0 && name[3 + digits] == 0};

    if (strlen(name) > NAME_BYTES)
        return FAIL(s, "has a column '%.40s...', expected names of %d bytes at most", name,
                    NAME_BYTES);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
            return FAIL(s, "has a column '%s', expected GPUs and network devices", name);
    if (find_column(s, name) >= 0)
        return FAIL(s, "has the column '%s' twice, expected each once", name);
    if (s->columns == COLUMNS_MAX)
        return FAIL(s, "has more than %d columns", COLUMNS_MAX);
    snprintf(c.name, sizeof c.name, "%s", name);
    s->column = mem_grow(s->column, &s->space, (size_t)s->columns + 1, sizeof *s->column);
    s->column[s->columns++] = c;
    return 0;
}

static int smi_read_cell(const struct smi *s, const struct column *to, const char *word,
                         int *out)
{
    static const char *const far[] = {"SYS", "SOC"}, *const ways[] = {"NODE", "PHB", "PXB",
                                                                      "PIX"};
    size_t n = strncmp(word, "NV", 2) ? 0 : strspn(word + 2, "0123456789");

    *out = strcmp(word, "X") ? 0 : ITSELF;
    for (int i = 0; i < 2; i++)
        *out = strcmp(word, far[i]) ? *out : FAR;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(word, ways[i]) == 0)
            return 0;
    if (n > 0 && n < 4 && word[2 + n] == 0)
        *out = atoi(word + 2);
    return *out ? 0
                : FAIL(s,
                       "has '%.24s' in column '%s', expected X, SYS, NODE, PHB, PXB, PIX or"
                       " NV and a number above 0",
                       word, to->name);
}

static int smi_read_row(struct smi *s, char *line)
{
    const char *name = smi_next_word(&line);
    int row = find_column(s, name);

    if (row < 0)
        return FAIL(s, "has a row '%.40s', expected one of the columns", name);
    if (s->column[row].line)
        return FAIL(s, "has a row '%s' as line %d has, expected each once", name,
                    s->column[row].line);
    s->column[row].line = s->line;
    s->rows++;
    for (int i = 0; i < s->columns; i++) {
        const char *word = smi_next_word(&line);
        if (!word)
            return FAIL(s, "has %d cells, expected %d", i, s->columns);
        int *cell = &s->cell[row * s->columns + i];
        if (smi_read_cell(s, &s->column[i], word, cell))
            return -1;
        if ((*cell == ITSELF) != (i == row))
            return FAIL(s, "has '%s' in column '%s', expected X in column '%s' and only there",
                        word, s->column[i].name, s->column[row].name);
    }
    return 0;
}

static int smi_read_matrix(struct smi *s, char *text)
{
    for (char *line; (line = topo_next_line(&text, &s->line));) {
        /* The head is underlined by escapes "\33[4m" and "\33[0m", which become blanks. */
        for (char *p = line; (p = strchr(p, '\33'));) {
            size_t n = p[1] == '[' ? 2 + strspn(p + 2, "0123456789;") : 0;
            if (n && p[n] == 'm')
                memset(p, ' ', n + 1);
            else
                p++;
        }
        char *first = line + strspn(line, " \t");
        if (s->columns == 0 && strncmp(first, "GPU", 3) == 0 && strcspn(first, " \t") > 3) {
            /* Up to "CPU Affinity": the columns from there on describe processors. */
            for (char *word; (word = smi_next_word(&line)) && strcmp(word, "CPU");)
                if (add_column(s, word))
                    return -1;
            s->cell = mem_new((size_t)s->columns * (size_t)s->columns, sizeof *s->cell);
        } else if (s->columns && !*first) {
            break; /* the legend follows */
        } else if (s->columns && smi_read_row(s, line)) {
            return -1;
        }
    }
    if (s->rows == s->columns)
        return 0;
    for (int i = 0; i < s->columns; i++)
        if (!s->column[i].line)
            return FAIL(s, "ends the matrix without a row '%s', expected one for each column",
                        s->column[i].name);
    return 0;
}

static int smi_check_ends(struct smi *s)
{
    for (int i = 0; i < s->columns; i++)
        for (int j = 0; j < i; j++) {
            int out = s->cell[i * s->columns + j], back = s->cell[j * s->columns + i];
            if (out == back || (out <= 0 && back <= 0))
                continue;
            s->line = s->column[i].line;
            return FAIL(s,
                        "has %d NVLinks from '%s' to '%s', but line %d has %d back, expected"
                        " as many",
                        out, s->column[i].name, s->column[j].name, s->column[j].line, back);
        }
    return 0;
}

static int build_machine(struct smi *s)
{
    struct topo_machine *m = s->m;
    int gpus = 0;

    for (int i = 0; i < s->columns; i++)
        gpus += s->column[i].is_gpu;
    if (gpus == 0)
        return FAIL(s, "has no GPU column, expected 'GPU0' and so on");
    topo_machine_gpus(m, gpus, TOPO_CUDA);
    m->counts_links = 1;
    m->nics = s->columns - gpus;
    for (int i = 0, gpu = 0; i < s->columns; i++) {
        int most = 0, sum = 0, other = 0, far = 1;
        if (!s->column[i].is_gpu) {
            /* Whether the network device shares a processor with no GPU. */
            for (int j = 0; far && j < s->columns; j++)
                far = !s->column[j].is_gpu || s->cell[i * s->columns + j] == FAR;
            if (far)
                topo_machine_far(m, s->column[i].name);
            continue;
        }
        double *direct = &m->direct[gpu * m->ranks];
        for (int j = 0; j < s->columns; j++) {
            int n = s->cell[i * s->columns + j];
            if (!s->column[j].is_gpu)
                continue;
            n = n > 0 ? n : 0;
            most = n > most ? n : most;
            sum += n;
            direct[other++] = n;
        }
        if (sum > LINKS_DIRECT) {
            memset(direct, 0, (size_t)m->ranks * sizeof *direct);
            m->to_switch[gpu] = most;
        }
        gpu++;
    }
    topo_machine_linked(m);
    return 0;
}

int topo_smi_read(struct topo_machine *m, char *text, struct err *err)
{
    struct smi s = {.m = m, .err = err};
    int rc = smi_read_matrix(&s, text);

    rc = rc ? rc : smi_check_ends(&s);
    rc = rc ? rc : build_machine(&s);
    mem_free(s.column);
    mem_free(s.cell);
    return rc;
}
