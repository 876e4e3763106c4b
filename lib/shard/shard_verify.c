/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a checkpoint, a folder or a file, and reports all faults, not only the first.  Faults
 * of the content are results, as are reads that the system refuses if there is an intact copy;
 * without one these are errors.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "shard/shard_checkup.h"
#include "ckpt/ckpt_hf.h"
#include "shard/shard.h"

struct report {
    FILE *out;
    int json;
    struct jout j;
    int bad;
    int64_t files, bytes; /* files checked; bytes whose checksums were compared */
};

/* Prints whether the damage can be repaired, and from which copy. */
static void verify_put_copy(struct report *r, const struct checkup *x, const struct damage *w)
{
    char *copy = damage_find_copy(x, w);
    int known = w->kind == DAMAGE_HEADER && checkup_make_header(x->c, w->file, NULL, NULL);

    if (r->json) {
        jout_bool(&r->j, "repairable", known || copy != NULL);
        jout_text(&r->j, "repair_from", copy);
    } else if (copy) {
        fprintf(r->out, "; can be repaired from '%s'", copy);
    } else if (known) {
        fprintf(r->out, "; can be repaired from the manifest");
    } else if (x->c->copies) {
        fprintf(r->out, "; no copy is good: it is lost");
    }
    mem_free(copy);
}

/* Returns 0 and prints a line if the content is at fault; -1 for other errors.  w is NULL
   outside a checkpoint. */
static int report_problem(struct report *r, const struct checkup *x, const struct damage *w,
                          const struct err *err)
{
    if (err->code != ERR_INPUT && err->code != ERR_MISMATCH && err->code != ERR_ABSENT)
        return -1;
    r->bad++;
    if (!r->json) {
        fputs(err->text, r->out);
        if (w)
            verify_put_copy(r, x, w);
        fputc('\n', r->out);
        return 0;
    }
    jout_open(&r->j, NULL, '{');
    jout_text(&r->j, "text", err->text);
    jout_text(&r->j, "file", err->file[0] ? err->file : NULL);
    jout_text(&r->j, "tensor", err->key[0] ? err->key : NULL);
    if (w && w->kind == DAMAGE_BLOCK) {
        const struct ckpt_block *b = &x->c->block[w->block];
        int64_t offset = x->c->model.tensor[b->tensor].offset;
        jout_text(&r->j, "state", x->c->state[b->state].name);
        jout_int(&r->j, "first", b->lo - offset);
        jout_int(&r->j, "end", b->hi - offset);
    }
    if (w)
        verify_put_copy(r, x, w);
    jout_close(&r->j, '}');
    return 0;
}

/* If a copy matches better, reports that the manifest belongs to another run. */
static int verify_ckpt(struct report *r, const char *path, const struct shard_options *options,
                       int quick, struct err *err)
{
    struct ckpt c;
    struct checkup x;

    if (ckpt_open_any(&c, path, options->limits, 1, err))
        /* A manifest that is absent now was deleted meanwhile, or could not be read: an
           error. */
        return err->code == ERR_ABSENT ? -1 : report_problem(r, NULL, NULL, err);
    int rc = checkup_run(&x, &c, quick, options, err);
    if (rc == 0) {
        r->bytes = x.bytes;
        r->files = x.files;
        for (int64_t i = 0; rc == 0 && i < x.damages; i++) {
            damage_report(&x, &x.damage[i], err);
            rc = report_problem(r, &x, &x.damage[i], err);
        }
        checkup_release(&x);
    }
    ckpt_close(&c);
    return rc;
}

/* A folder or file has no checksums: checks its structure, and that the config describes it. */
static int verify_hf(struct report *r, const char *path, const struct ckpt_limits *limits,
                     int quick, struct err *err)
{
    struct hf hf;
    struct model m;

    if (hf_open(&hf, path, limits, err))
        return report_problem(r, NULL, NULL, err);
    int rc = 0;
    if (hf_has_config(&hf)) {
        if (model_read_folder(&m, hf.dir, err)) {
            rc = -1; /* the expected content of the folder is unknown */
        } else {
            int bad = hf_match(&hf, &m, err) || (!quick && hf_check_tied(&hf, err));
            rc = bad ? report_problem(r, NULL, NULL, err) : 0;
            model_release(&m);
        }
    }
    hf_release(&hf);
    return rc;
}

int shard_verify(const char *path, const struct shard_options *options, int quick, int json,
                 FILE *out, int *bad, struct err *err)
{
    struct report r = {.out = out, .json = json};
    struct stat st;
    char *text = NULL;
    size_t used = 0;

    if (stat(path, &st))
        return err_sys(err, "cannot open '%s'", path);
    /* Collects the JSON document in memory and prints it only if there was no error. */
    if (json) {
        r.j.file = mem_stream(&text, &used);
        jout_open(&r.j, NULL, '{');
        jout_text(&r.j, "schema", "paro.shard.verify/1");
        jout_open(&r.j, "problems", '[');
    }
    int folder = S_ISDIR(st.st_mode);
    int rc = folder && ckpt_is(path) ? verify_ckpt(&r, path, options, quick, err)
                                     : verify_hf(&r, path, options->limits, quick, err);
    if (json) {
        jout_close(&r.j, ']');
        jout_int(&r.j, "files", r.files);
        jout_int(&r.j, "checked_bytes", r.bytes);
        jout_bool(&r.j, "ok", r.bad == 0);
        jout_close(&r.j, '}');
        fclose(r.j.file);
        if (rc == 0)
            fputs(text, out);
        mem_free(text);
    }
    if (rc == 0)
        *bad = r.bad;
    return rc;
}
