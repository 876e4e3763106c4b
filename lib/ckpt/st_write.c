/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a safetensors header is written.  The data behind it is the caller's. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/st.h"

static void put_tensor(struct jout *j, const struct st_tensor *t)
{
    jout_open(j, t->name, '{');
    jout_text(j, "dtype", st_type_name(t->type));
    jout_open(j, "shape", '[');
    for (int d = 0; d < t->dims; d++)
        jout_int(j, NULL, t->shape[d]);
    jout_close(j, ']');
    jout_open(j, "data_offsets", '[');
    jout_int(j, NULL, t->first);
    jout_int(j, NULL, t->last);
    jout_close(j, ']');
    jout_close(j, '}');
}

void st_header(struct st_tensor *tensor, int count, char **text, int64_t *bytes)
{
    char *json = NULL;
    size_t used = 0;
    FILE *f = mem_stream(&json, &used);
    struct jout j = {.file = f};
    int64_t at = 0;

    jout_open(&j, NULL, '{');
    jout_open(&j, "__metadata__", '{');
    jout_text(&j, "format", "pt");
    jout_close(&j, '}');
    for (int i = 0; i < count; i++) {
        struct st_tensor *t = &tensor[i];
        t->elems = 1;
        for (int d = 0; d < t->dims; d++)
            t->elems *= t->shape[d];
        t->first = at;
        t->last = at += t->elems * st_type_bytes(t->type);
        put_tensor(&j, t);
    }
    jout_close(&j, '}');
    fclose(f);
    used--; /* the newline behind the document is no part of it */
    size_t whole = (8 + used + 7) / 8 * 8;
    char *out = mem_new(whole, 1);
    io_put_le64((unsigned char *)out, whole - 8);
    memcpy(out + 8, json, used);
    memset(out + 8 + used, ' ', whole - 8 - used); /* the format pads with spaces */
    free(json);
    *text = out;
    *bytes = (int64_t)whole;
}
