/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the matrix that `nvidia-smi topo -m` prints:
 *
 *             GPU0    GPU1    mlx5_0  CPU Affinity    NUMA Affinity
 *     GPU0     X      NV12    PXB     0-31            0
 *     GPU1    NV12     X      NODE    0-31            0
 *     mlx5_0  PXB     NODE     X
 *
 * It counts NVLinks and network devices and states no rate of any: those are to be given.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_machine.h"

enum { COLUMNS_MAX = TOPO_MACHINE_RANKS, NAME_BYTES = 31 };

/*
 * No GPU has more NVLinks than this that lead to others directly (Hopper, Blackwell; Volta 6,
 * Ampere 12): where the matrix counts more in a row, the same links are counted again for each
 * peer, and a switch joins them all.
 */
enum { LINKS_DIRECT = 18 };

struct column {
    char name[NAME_BYTES + 1];
    int is_gpu;
    int line; /* of its row, 0: none yet */
};

struct smi {
    struct topo_machine *m;
    struct column *column; /* [columns], owned */
    size_t room;
    int columns, line, rows;
    int *cell; /* [columns][columns], owned: NVLinks, 0 for another way, -1: itself */
    struct err *err;
};

static int fail(const struct smi *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static int fail(const struct smi *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(s->err, s->m->file, s->line, NULL, "%s", text);
}

/* The head is underlined by escapes "\33[4m" and "\33[0m", in a file too: they become blanks.
 */
static void blank_escapes(char *line)
{
    for (char *p = line; (p = strchr(p, '\33'));) {
        size_t n = p[1] == '[' ? 2 + strspn(p + 2, "0123456789;") : 0;
        if (n && p[n] == 'm')
            memset(p, ' ', n + 1);
        else
            p++;
    }
}

/* The next word of the line, cut; NULL behind the last. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t");
    size_t n = strcspn(word, " \t");

    if (n == 0)
        return NULL;
    *at = word + n + (word[n] != 0);
    word[n] = 0;
    return word;
}

static int is_gpu(const char *name)
{
    size_t n = strncmp(name, "GPU", 3) ? 0 : strspn(name + 3, "0123456789");

    return n > 0 && name[3 + n] == 0;
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
    struct column c = {.is_gpu = is_gpu(name)};

    if (strlen(name) > NAME_BYTES)
        return fail(s, "has a column '%.40s...', expected names of %d bytes at most", name,
                    NAME_BYTES);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
            return fail(s, "has a column '%s', expected GPUs and network devices", name);
    if (find_column(s, name) >= 0)
        return fail(s, "has the column '%s' twice, expected each once", name);
    if (s->columns == COLUMNS_MAX)
        return fail(s, "has more than %d columns", COLUMNS_MAX);
    snprintf(c.name, sizeof c.name, "%s", name);
    s->column = mem_grow(s->column, &s->room, (size_t)s->columns + 1, sizeof *s->column);
    s->column[s->columns++] = c;
    return 0;
}

/* Up to "CPU Affinity": what stands behind it is of the machine's processors. */
static int read_head(struct smi *s, char *line)
{
    for (char *word; (word = next_word(&line)) && strcmp(word, "CPU");)
        if (add_column(s, word))
            return -1;
    s->cell = mem_new((size_t)s->columns * (size_t)s->columns, sizeof *s->cell);
    return 0;
}

static int read_cell(const struct smi *s, const struct column *to, const char *word, int *out)
{
    static const char *const ways[] = {"SYS", "SOC", "NODE", "PHB", "PXB", "PIX"};
    size_t n = strncmp(word, "NV", 2) ? 0 : strspn(word + 2, "0123456789");

    *out = strcmp(word, "X") ? 0 : -1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(word, ways[i]) == 0)
            return 0;
    if (n > 0 && n < 4 && word[2 + n] == 0)
        *out = atoi(word + 2);
    return *out ? 0
                : fail(s,
                       "has '%.24s' in column '%s', expected X, SYS, NODE, PHB, PXB, PIX or"
                       " NV and a number above 0",
                       word, to->name);
}

static int read_row(struct smi *s, char *line)
{
    const char *name = next_word(&line);
    int row = find_column(s, name);

    if (row < 0)
        return fail(s, "has a row '%.40s', expected one of the columns", name);
    if (s->column[row].line)
        return fail(s, "has a row '%s' as line %d has, expected each once", name,
                    s->column[row].line);
    s->column[row].line = s->line;
    s->rows++;
    for (int i = 0; i < s->columns; i++) {
        const char *word = next_word(&line);
        if (!word)
            return fail(s, "has %d cells, expected %d", i, s->columns);
        int *cell = &s->cell[row * s->columns + i];
        if (read_cell(s, &s->column[i], word, cell))
            return -1;
        if ((*cell < 0) != (i == row))
            return fail(s, "has '%s' in column '%s', expected X in column '%s' and only there",
                        word, s->column[i].name, s->column[row].name);
    }
    return 0;
}

static int is_empty(const char *line)
{
    return line[strspn(line, " \t")] == 0;
}

static int read_matrix(struct smi *s, char *text)
{
    for (char *line; (line = topo_next_line(&text, &s->line));) {
        blank_escapes(line);
        char *first = line + strspn(line, " \t");
        if (s->columns == 0 && strncmp(first, "GPU", 3) == 0 && strcspn(first, " \t") > 3) {
            if (read_head(s, line))
                return -1;
        } else if (s->columns && is_empty(line)) {
            break; /* the legend follows */
        } else if (s->columns && read_row(s, line)) {
            return -1;
        }
    }
    if (s->rows == s->columns)
        return 0;
    for (int i = 0; i < s->columns; i++)
        if (!s->column[i].line)
            return fail(s, "ends the matrix without a row '%s', expected one for each column",
                        s->column[i].name);
    return 0;
}

static int check_ends(struct smi *s)
{
    for (int i = 0; i < s->columns; i++) {
        for (int j = 0; j < i; j++) {
            int out = s->cell[i * s->columns + j], back = s->cell[j * s->columns + i];
            if (out == back)
                continue;
            s->line = s->column[i].line;
            return fail(s,
                        "has %d NVLinks from '%s' to '%s', but line %d has %d back, expected"
                        " as many",
                        out, s->column[i].name, s->column[j].name, s->column[j].line, back);
        }
    }
    return 0;
}

static int links_of(const struct smi *s, int row, int *most)
{
    int sum = 0;

    *most = 0;
    for (int i = 0; i < s->columns; i++) {
        int n = s->cell[row * s->columns + i];
        if (!s->column[i].is_gpu || n <= 0)
            continue;
        sum += n;
        *most = n > *most ? n : *most;
    }
    return sum;
}

static void fill_near(const struct smi *s, struct topo_near *near)
{
    for (int i = 0, gpu = 0; i < s->columns; i++) {
        int most = 0, sum = links_of(s, i, &most);
        if (!s->column[i].is_gpu)
            continue;
        if (sum > LINKS_DIRECT)
            near->to_switch[gpu] = most;
        for (int j = 0, other = 0; sum <= LINKS_DIRECT && j < s->columns; j++) {
            int n = s->cell[i * s->columns + j];
            if (s->column[j].is_gpu)
                near->direct[gpu * near->ranks + other++] = n > 0 ? n : 0;
        }
        gpu++;
    }
}

static int build(struct smi *s)
{
    struct topo_machine *m = s->m;
    struct topo_near near;
    int gpus = 0;

    for (int i = 0; i < s->columns; i++)
        gpus += s->column[i].is_gpu;
    if (gpus == 0)
        return fail(s, "has no GPU column, expected 'GPU0' and so on");
    m->ranks = gpus;
    m->own_ranks = m->counts_links = 1;
    m->device = TOPO_CUDA;
    m->nics = s->columns - gpus;
    m->domain = mem_new((size_t)gpus, sizeof *m->domain);
    topo_near_init(&near, gpus);
    fill_near(s, &near);
    topo_machine_near(m, &near);
    topo_near_release(&near);
    if (m->near)
        topo_model_latency(&m->inside, TOPO_NVLINK_S, "NVLink");
    return 0;
}

int topo_smi_read(struct topo_machine *m, char *text, struct err *err)
{
    struct smi s = {.m = m, .err = err};
    int rc = read_matrix(&s, text);

    rc = rc ? rc : check_ends(&s);
    rc = rc ? rc : build(&s);
    mem_free(s.column);
    mem_free(s.cell);
    return rc;
}
