/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists tensors. */
#include <inttypes.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/units.h"
#include "shard/shard.h"
#include "ckpt/ckpt_weights.h"

static const char *file_of(const struct weights *w, int item)
{
    return w->hf.name[w->item[item].file];
}

static void ls_json(const struct weights *w, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};
    char groups[256];

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.shard.ls/1");
    jout_text(&j, "kind", w->is_ckpt ? "checkpoint" : w->hf.alone ? "file" : "folder");
    if (w->is_ckpt) {
        groups_print(&w->ckpt.groups, groups, sizeof groups);
        jout_text(&j, "strategy", w->ckpt.strategy);
        jout_text(&j, "shape", groups);
        jout_int(&j, "ranks", w->ckpt.groups.ranks);
        jout_text(&j, "trains", w->ckpt.model.partial ? w->ckpt.model.partial : "all");
        jout_known(&j, "step", w->ckpt.has_run ? w->ckpt.run.step : -1);
    }
    jout_int(&j, "bytes", w->bytes);
    jout_open(&j, "tensors", '[');
    for (int i = 0; i < w->count; i++) {
        const struct st_tensor *t = &w->item[i].shape;
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", w->item[i].name);
        jout_text(&j, "type", st_type_name(t->type));
        jout_open(&j, "shape", '[');
        for (int d = 0; d < t->dims; d++)
            jout_int(&j, NULL, t->shape[d]);
        jout_close(&j, ']');
        jout_int(&j, "elems", t->elems);
        jout_int(&j, "bytes", t->elems * st_type_bytes(t->type));
        if (!w->is_ckpt && !w->hf.file[0].pieces)
            jout_text(&j, "file", file_of(w, i));
        jout_close(&j, '}');
    }
    jout_end(&j);
}

static void ls_table(const struct weights *w, FILE *out)
{
    char groups[256], shape[256];
    struct units u;
    int width = 4;

    if (w->is_ckpt) {
        groups_print(&w->ckpt.groups, groups, sizeof groups);
        fprintf(out, "checkpoint of %d ranks (%s), strategy %s", w->ckpt.groups.ranks, groups,
                w->ckpt.strategy);
        if (w->ckpt.model.partial)
            fprintf(out, ", trains %s", w->ckpt.model.partial);
        if (w->ckpt.has_run)
            fprintf(out, ", step %" PRId64, w->ckpt.run.step);
        fputc('\n', out);
    }
    for (int i = 0; i < w->count; i++)
        if ((int)strlen(w->item[i].name) > width)
            width = (int)strlen(w->item[i].name);
    int several = w->hf.files > 1; /* then each line names its file */
    fprintf(out, "%-*s  %-16s  %12s%s\n", width, "name", "type, shape", "size",
            several ? "  file" : "");
    for (int i = 0; i < w->count; i++) {
        const struct st_tensor *t = &w->item[i].shape;
        st_print_shape(t, shape, sizeof shape);
        fprintf(out, "%-*s  %-16s  %12s%s%s\n", width, w->item[i].name, shape,
                units_bytes(&u, (double)(t->elems * st_type_bytes(t->type))),
                several ? "  " : "", several ? file_of(w, i) : "");
    }
    fprintf(out, "%d tensors, %s\n", w->count, units_bytes(&u, (double)w->bytes));
}

int shard_ls(const char *path, const struct shard_options *options, int json, FILE *out,
             struct err *err)
{
    struct weights w;

    if (weights_open(&w, path, options->limits, err))
        return -1;
    if (json)
        ls_json(&w, out);
    else
        ls_table(&w, out);
    if (options->repaired)
        *options->repaired = w.ckpt.repaired;
    weights_close(&w);
    return 0;
}
