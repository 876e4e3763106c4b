/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a table of features and y is read, line by line.  Does not know what it is for. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/units.h"
#include "rank/rank_blr.h"
#include "rank/rank_line.h"

struct reader {
    struct rank_blr_data data;
    size_t x_room, y_room; /* numbers that x and y have room for */
    int64_t most, left;    /* bytes of numbers: of all files, and what those before left */
    int named;             /* a line of names was passed over, or may not come any more */
    int line;
    const char *name;
    char **cell; /* [columns] of the line at hand, which they lie in */
    size_t cell_room;
    int cells;
};

static int fail(const struct reader *r, struct err *err, const char *text)
{
    return err_at(err, r->name, r->line, NULL, "%s", text);
}

static int grow(double **v, size_t *room, int64_t need, struct err *err)
{
    void *grown = *v;
    int rc = mem_grow_data(&grown, room, (size_t)need, sizeof **v, "a table's numbers", err);

    *v = grown;
    return rc;
}

static char *trim(char *text)
{
    text += strspn(text, " ");
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    text[n] = 0;
    return text;
}

/* Cuts a line into its columns. */
static void split(struct reader *r, char *line)
{
    r->cells = 0;
    for (char *tab = line; tab; line = tab + 1) {
        tab = strchr(line, '\t');
        if (tab)
            *tab = 0;
        r->cell = mem_grow(r->cell, &r->cell_room, (size_t)r->cells + 1, sizeof *r->cell);
        r->cell[r->cells++] = trim(line);
        if (!tab)
            break;
    }
}

/* A word that no number begins: "x1", "loss", "info", but neither "nan" nor "inf" nor "1x". */
static int is_name(const char *cell)
{
    char *end = NULL;

    strtod(cell, &end);
    return cell[0] && !strchr("0123456789+-.", cell[0]) && *end;
}

/* The number of columns is the first line's. */
static int check_columns(struct reader *r, struct err *err)
{
    if (r->data.features == 0 && r->cells < 2)
        return fail(r, err, "has one column, expected features and y, separated by tabs");
    if (r->data.features == 0 && r->cells - 1 > RANK_BLR_FEATURES_MAX)
        return err_at(err, r->name, r->line, NULL, "has %d features, expected %d at most",
                      r->cells - 1, RANK_BLR_FEATURES_MAX);
    if (r->data.features == 0)
        r->data.features = r->cells - 1;
    if (r->cells != r->data.features + 1)
        return err_at(err, r->name, r->line, NULL, "has %d columns, expected %d as above it",
                      r->cells, r->data.features + 1);
    return 0;
}

static int read_row(struct reader *r, struct err *err)
{
    struct rank_blr_data *d = &r->data;
    int64_t n = d->rows, wide = d->features;
    struct units most;

    if ((n + 1) * (wide + 1) > r->left / (int64_t)sizeof(double))
        return err_at(err, r->name, r->line, NULL,
                      "is row %" PRId64
                      " of %d columns, expected %s of numbers at most, in all",
                      n + 1, r->cells, units_bytes(&most, (double)r->most));
    if (grow(&d->x, &r->x_room, (n + 1) * wide, err) || grow(&d->y, &r->y_room, n + 1, err))
        return -1;
    for (int c = 0; c <= wide; c++) {
        double *to = c < wide ? &d->x[n * wide + c] : &d->y[n];
        char column[24];
        struct err why;
        snprintf(column, sizeof column, "column %d", c + 1);
        if (num_f64(r->cell[c], -RANK_BLR_NUMBER_MAX, RANK_BLR_NUMBER_MAX, to, &why))
            return err_at(err, r->name, r->line, column, "is %s", why.text);
    }
    d->rows++;
    return 0;
}

/* text: its end is cut off, bytes long. */
static int read_line(struct reader *r, char *text, size_t bytes, struct err *err)
{
    int mark = r->line == 1 ? rank_line_mark(text, (int64_t)bytes, r->name, err) : 0;

    if (mark < 0)
        return -1;
    text += mark;
    bytes -= (size_t)mark;
    if (strlen(text) != bytes)
        return fail(r, err, "has a zero byte, expected text");
    if (bytes > 0 && text[bytes - 1] == '\r')
        text[--bytes] = 0;
    if (text[0] == '#' || !text[strspn(text, " ")])
        return 0;
    split(r, text);
    if (check_columns(r, err))
        return -1;
    int header = !r->named;
    for (int c = 0; header && c < r->cells; c++)
        header = is_name(r->cell[c]);
    r->named = 1;
    return header ? 0 : read_row(r, err);
}

/* A line from the next byte on, a 0 for its end; *bytes long.  0 at the end of the file. */
static int next_line(FILE *f, char *text, size_t most, size_t *bytes)
{
    size_t n = 0;
    int c;

    while ((c = getc_unlocked(f)) != EOF && c != '\n' && n < most)
        text[n++] = (char)c;
    text[n] = 0;
    *bytes = n;
    return n > 0 || c == '\n';
}

int rank_blr_read_stream(FILE *f, const char *name, int64_t most_bytes, int64_t left,
                         struct rank_blr_data *out, struct err *err)
{
    size_t most = RANK_BLR_LINE_MAX + 1, bytes = 0; /* one more tells that it is too long */
    char *text = mem_new(most + 1, 1);
    struct reader r = {.name = name, .most = most_bytes, .left = left};
    int rc = 0;

    while (rc == 0 && next_line(f, text, most, &bytes)) {
        r.line++;
        rc = bytes == most ? err_at(err, name, r.line, NULL,
                                    "has more than %d bytes, expected a row", RANK_BLR_LINE_MAX)
                           : read_line(&r, text, bytes, err);
    }
    if (rc == 0 && ferror(f))
        rc = err_sys(err, "cannot read '%s'", name);
    if (rc == 0 && r.data.rows == 0)
        rc = err_at(err, name, 0, NULL,
                    "has no row, expected features and y, separated by tabs");
    mem_free(text);
    mem_free(r.cell);
    if (rc) {
        rank_blr_data_release(&r.data);
        return -1;
    }
    r.data.name = mem_dup(name);
    *out = r.data;
    return 0;
}

static int read_path(const char *path, int64_t most, int64_t left, struct rank_blr_data *out,
                     struct err *err)
{
    int std = strcmp(path, "-") == 0;
    /* Of stdin a twin is closed: 0 stays taken. */
    int twin = std ? fcntl(0, F_DUPFD_CLOEXEC, 3) : -1;
    FILE *f = !std ? fopen(path, "re") : twin < 0 ? NULL : fdopen(twin, "r");
    const char *name = std ? "stdin" : path;

    if (!f)
        return err_sys(err, "cannot open '%s'", name);
    int rc = rank_blr_read_stream(f, name, most, left, out, err);
    fclose(f);
    return rc;
}

int rank_blr_read(const char *const *path, int n, int64_t most_bytes, struct rank_blr_data *out,
                  struct err *err)
{
    int64_t left = most_bytes;
    int read = 0, rc = 0;

    for (; read < n && rc == 0; read += rc == 0) {
        rc = read_path(path[read], most_bytes, left, &out[read], err);
        if (rc == 0)
            left -= out[read].rows * (out[read].features + 1) * (int64_t)sizeof(double);
    }
    while (rc && read > 0)
        rank_blr_data_release(&out[--read]);
    return rc;
}

void rank_blr_data_release(struct rank_blr_data *d)
{
    mem_free(d->name);
    mem_free(d->x);
    mem_free(d->y);
    *d = (struct rank_blr_data){0};
}
