/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a folder of weights into a checkpoint.  source/ gets
 *
 *     headers/NAME   the first bytes of each weights file, up to its data, verbatim
 *     rest/NAME      the data of its tensors that are not parameters, one after the other
 *     files/NAME     every other file of the folder, verbatim
 *
 * so that merge only has to add the data from the shards.  If the weights are converted, the
 * first two would have another type and are not kept.  If adapters train, merge writes only
 * these, so of the files only those for tokenizer and generation are kept.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "shard/shard_carry.h"
#include "shard/shard_folder.h"
#include "ckpt/ckpt_foreign.h"
#include "ckpt/ckpt_hf.h"
#include "ckpt/ckpt_states.h"
#include "ckpt/ckpt_pieces.h"
#include "shard/shard_peft.h"
#include "shard/shard_parts.h"

/* --- the optimizer's state --- */

/*
 * An optimizer's state in one .safetensors file, for programs that have no other format:
 *
 *     NAME/master, NAME/exp_avg, NAME/exp_avg_sq   floats, shaped like the trained tensor NAME
 *     step, tokens                                 I64, one number each: the run's progress
 *
 * or in a checkpoint of another trainer (ckpt/ckpt_foreign.h), whose parameters, if present,
 * become the master.
 */
enum { OPTIM_STATES = 3 };

struct optim {
    struct st st;                   /* path NULL: not open */
    const struct model *model;      /* borrowed */
    const struct st_tensor **place; /* [tensors * OPTIM_STATES], owned; NULL: not trained */
    int64_t step, tokens;
};

static const char *const optim_states[OPTIM_STATES] = {"master", "exp_avg", "exp_avg_sq"};

/* The model's tensor whose master copy is the folder's tensor of this name, or NULL. */
static const struct model_tensor *find_master(const struct optim *o, const char *name)
{
    const struct model_tensor *t = NULL;
    enum hf_role role = hf_role(o->model, name, &t);

    return role == HF_OURS || (role == HF_TIED && !hf_has_embedding(o->model, &o->st)) ? t
                                                                                       : NULL;
}

/* The model's tensor and the state named by "NAME/STATE", or NULL. */
static const struct model_tensor *find_tensor(const struct optim *o, const char *name,
                                              int *state)
{
    const struct model *m = o->model;
    const char *slash = strrchr(name, '/');
    char own[sizeof m->tensor->name];

    if (!slash || slash - name >= (int)sizeof own)
        return NULL;
    for (*state = 0; *state < OPTIM_STATES; ++*state)
        if (strcmp(slash + 1, optim_states[*state]) == 0)
            break;
    snprintf(own, sizeof own, "%.*s", (int)(slash - name), name);
    return *state < OPTIM_STATES ? find_master(o, own) : NULL;
}

static int split_read_number(const struct st *st, const char *name, int64_t *out,
                             struct err *err)
{
    const struct st_tensor *t = st_find(st, name);
    unsigned char bytes[8];

    if (!t)
        return err_at(err, st->path, 0, name, "is missing, expected one number of type I64");
    if (strcmp(st_type_name(t->type), "I64") || t->elems != 1) {
        char have[256];
        st_print_shape(t, have, sizeof have);
        return err_at(err, st->path, 0, name, "is %s, expected one number of type I64", have);
    }
    if (st_read(st, t, 0, sizeof bytes, bytes, err))
        return -1;
    int64_t value = (int64_t)io_le64(bytes);
    if (value < 0 || value > CKPT_RUN_MAX)
        return err_at(err, st->path, 0, name, "is %" PRId64 ", expected 0 to 1e18", value);
    *out = value;
    return 0;
}

/* Assigns each tensor of the file to a place; every place must get a tensor. */
static int match_tensors(struct optim *o, const struct ckpt_limits *limits, struct err *err)
{
    const struct model *m = o->model;
    const struct model_tensor *t;

    for (int i = 0; i < o->st.count; i++) {
        const struct st_tensor *have = &o->st.tensor[i];
        int state = 0, weights = o->st.pieces && !pieces_state(have->name);
        if (!o->st.pieces && (!strcmp(have->name, "step") || !strcmp(have->name, "tokens")))
            continue;
        t = weights ? find_master(o, have->name) : find_tensor(o, have->name, &state);
        if (weights && !t)
            continue;
        if (!t)
            return err_at(err, o->st.path, 0, have->name,
                          "is not a state of the model, expected NAME/master, NAME/exp_avg or "
                          "NAME/exp_avg_sq");
        hf_unflatten(&o->st, have, t);
        if (hf_check_shape(&o->st, have, t, err))
            return -1;
        const struct st_tensor **at = &o->place[(t - m->tensor) * OPTIM_STATES + state];
        if (*at)
            return err_at(err, o->st.path, 0, have->name, "appears twice, also as '%s'",
                          (*at)->name);
        *at = have;
    }
    for (int i = 0; i < m->tensors * OPTIM_STATES; i++) {
        t = &m->tensor[i / OPTIM_STATES];
        if (!o->place[i] && model_trains(m, t) && !(o->st.pieces && i % OPTIM_STATES == 0))
            return err_set(err, ERR_MISMATCH, "%s: '%s/%s' is missing, but '%s' trains",
                           o->st.path, t->name, optim_states[i % OPTIM_STATES], t->name);
    }
    if (o->st.pieces)
        return foreign_step(&o->st, limits, &o->step, err);
    return err_any(split_read_number(&o->st, "step", &o->step, err) ||
                   split_read_number(&o->st, "tokens", &o->tokens, err));
}

static void optim_release(struct optim *o)
{
    st_release(&o->st);
    mem_free(o->place);
    *o = (struct optim){0};
}

/*
 * Opens the file or folder.  It must contain all states of all trained tensors, and no other
 * keys except states of other tensors.  The model must outlive o.
 */
static int optim_open(struct optim *o, const char *path, const struct ckpt_limits *limits,
                      const struct model *m, struct err *err)
{
    *o = (struct optim){.model = m};
    if (foreign_is(path) ? foreign_open(&o->st, path, limits, err)
                         : st_open(&o->st, path, limits, err))
        return -1;
    o->place = mem_new((size_t)m->tensors * OPTIM_STATES, sizeof *o->place);
    if (match_tensors(o, limits, err) == 0)
        return 0;
    optim_release(o);
    return -1;
}

/* The file's tensor of that state; NULL: absent. */
static const struct st_tensor *optim_find(const struct optim *o, const struct model_tensor *t,
                                          int state)
{
    return o->place[(t - o->model->tensor) * OPTIM_STATES + state];
}

/* --- the checkpoint --- */

struct filling {
    struct hf *hf;
    struct folder folder;
    const struct shard_request *what;
    const struct model *model;
    struct peft peft;
    struct optim optim;
    float *first; /* [CHUNK]: initial values of adapters */
};

enum { CHUNK = 1 << 16, REST_BYTES = 1 << 20 };

/* The id of a made piece is tensor * (1 + OPTIM_STATES) + state. */
static int split_make_elements(void *arg, int64_t id, int64_t first, int64_t count, void *out,
                               struct err *err)
{
    struct filling *f = arg;
    const struct model_tensor *t = &f->model->tensor[id / (1 + OPTIM_STATES)];
    int state = (int)(id % (1 + OPTIM_STATES));
    const struct hf_place *p = &f->hf->place[t - f->model->tensor];

    if (state && optim_find(&f->optim, t, state - 1))
        return st_read_as(&f->optim.st, optim_find(&f->optim, t, state - 1), first, count,
                          DTYPE_F32, out, err);
    if (p->t)
        return st_read_as(&f->hf->file[p->file], p->t, first, count,
                          state ? DTYPE_F32 : f->hf->type, out, err);
    /* Makes elements of an adapter, from its folder or as initial values. */
    enum dtype type = f->hf->type;
    char *to = out;
    if (f->what->adapter)
        return peft_read(&f->peft, t, first, count, type, out, err);
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < CHUNK ? count - at : CHUNK;
        model_init_values(t, f->what->seed, first + at, n, f->first);
        dtype_convert(to + at * dtype_bytes(type), type, f->first, DTYPE_F32, n);
    }
    return 0;
}

/* Adds a tensor's state to the stream; number: input file, also the one after the folder's. */
static void split_add_tensor(struct moves *m, const struct filling *f, int number, int state)
{
    const struct model_tensor *t = &f->model->tensor[number];
    int width = dtype_bytes(state ? DTYPE_F32 : f->hf->type), file = -1;
    int64_t offset = 0;

    const struct hf_place *p = &f->hf->place[number];
    if (state == 0 && p->t && !f->hf->file[p->file].pieces) {
        file = p->file;
        offset = f->hf->file[file].data + p->t->first;
    } else if (state > 0 && !f->optim.st.pieces) {
        const struct st_tensor *from = optim_find(&f->optim, t, state - 1);
        if (from->type == st_type_of(DTYPE_F32)) {
            /* Pieces are made, so their file is not in the list */
            file = f->hf->file[0].pieces ? 0 : f->hf->files;
            offset = f->optim.st.data + from->first;
        }
    }
    if (file < 0)
        moves_add_made(m, number * (1 + OPTIM_STATES) + state, 0, t->elems, width);
    else
        moves_add_from(m, (struct move_from){t->elems * width, file, offset, NULL, 0, 0, 0});
}

/* The number of files read: the folder's weights and, last, the optimizer's state or the
   adapters. */
static int split_read_files(const struct filling *f)
{
    return f->hf->files + (f->optim.st.path || f->peft.st.path);
}

static const struct st *split_read_file(const struct filling *f, int number)
{
    return number < f->hf->files ? &f->hf->file[number]
           : f->optim.st.path    ? &f->optim.st
                                 : &f->peft.st;
}

/* Path i of all files read; NULL: there are fewer. */
static const char *read_path(const struct filling *f, int i)
{
    const char *path = NULL;

    for (int n = 0, in = 0; !path && n < split_read_files(f); n++, i -= in)
        for (in = 0; !path && st_path(split_read_file(f, n), in); in++)
            path = in == i ? st_path(split_read_file(f, n), in) : NULL;
    return path;
}

/* [one for each path]; mem_free, on error too. */
static int stat_files(const struct filling *f, struct stat **out, struct err *err)
{
    const char *path;
    size_t space = 0;

    for (int i = 0; (path = read_path(f, i)); i++) {
        *out = mem_grow(*out, &space, (size_t)i + 1, sizeof **out);
        if (stat(path, &(*out)[i]))
            return err_sys(err, "cannot read '%s'", path);
    }
    return 0;
}

/* Appends bytes [first, last) of a weights file to fd. */
static int keep_bytes(const struct hf *hf, int from, int64_t first, int64_t last, int fd,
                      struct ckpt_source *s, void *sum, struct err *err)
{
    char *buffer = mem_new(REST_BYTES, 1);
    int rc = 0;

    for (int64_t n; rc == 0 && first < last; first += n, s->bytes += n) {
        n = last - first < REST_BYTES ? last - first : REST_BYTES;
        rc = err_any(ckpt_stopped(hf->stop, err) || io_pread_all(from, buffer, n, first, err) ||
                     io_pwrite_all(fd, buffer, n, s->bytes, err));
        if (rc == 0)
            ckpt_hash_more(sum, buffer, n);
    }
    mem_free(buffer);
    return rc;
}

/* Keeps a weights file's header, or the data of its buffers one after the other. */
static int keep_part(const struct io_out *dir, const struct hf *hf, int file,
                     enum ckpt_keep keep, struct ckpt_source *s, struct err *err)
{
    const struct st *st = &hf->file[file];
    const struct model_tensor *t;
    char *folder = io_join(dir->temp, ckpt_source_folder(keep));
    char *path = io_join(folder, hf->name[file]);
    void *sum = ckpt_hash_begin();
    int fd = -1, from = -1;
    int rc = err_any(st_reopen(st, &from, err) ||
                     io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &fd, err));

    *s = (struct ckpt_source){.name = mem_dup(hf->name[file]), .keep = keep};
    if (rc == 0 && keep == CKPT_KEEP_HEADER)
        rc = keep_bytes(hf, from, 0, st->data, fd, s, sum, err);
    for (int i = 0; rc == 0 && keep == CKPT_KEEP_REST && i < st->count; i++)
        if (hf_role(hf->model, st->tensor[i].name, &t) == HF_BUFFER)
            rc = keep_bytes(hf, from, st->data + st->tensor[i].first,
                            st->data + st->tensor[i].last, fd, s, sum, err);
    if (rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    else if (rc && fd >= 0)
        err_prefix(err, "copying '%s' to '%s': ", st->path, path);
    s->whole = keep == CKPT_KEEP_HEADER ? st->file_bytes : s->bytes;
    ckpt_hash_end(sum, s->hash);
    if (fd >= 0)
        close(fd);
    if (from >= 0)
        close(from);
    mem_free(path);
    mem_free(folder);
    return rc;
}

static int has_buffers(const struct hf *hf, const struct st *st)
{
    const struct model_tensor *t;

    for (int i = 0; i < st->count; i++)
        if (st->tensor[i].last > st->tensor[i].first &&
            hf_role(hf->model, st->tensor[i].name, &t) == HF_BUFFER)
            return 1;
    return 0;
}

static int keep_weights(const struct io_out *dir, const struct hf *hf,
                        struct ckpt_sources *list, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < hf->files; i++) {
        rc = keep_part(dir, hf, i, CKPT_KEEP_HEADER, &list->item[list->count++], err);
        if (rc == 0 && has_buffers(hf, &hf->file[i]))
            rc = keep_part(dir, hf, i, CKPT_KEEP_REST, &list->item[list->count++], err);
    }
    return rc;
}

static int put_base(const struct io_out *dir, const struct hf *hf, struct ckpt_sources *list,
                    struct err *err)
{
    struct carry base = {0};

    carry_base(&base, hf);
    int rc = carry_put(&base, dir, err);
    if (base.list.count) {
        list->item[list->count++] = base.list.item[0];
        base.list.item[0].name = NULL;
    }
    carry_release(&base);
    return rc;
}

/* Puts all files that merge needs into dir/source, and lists them. */
static int split_put_source(const struct io_out *dir, struct filling *f, int converted,
                            struct ckpt_sources *list, struct err *err)
{
    const struct hf *hf = f->hf;
    char *files = io_join(dir->temp, ckpt_source_folder(CKPT_KEEP_FILE));
    int rc;

    list->item = mem_new((size_t)(2 * hf->files + f->folder.others + 1), sizeof *list->item);
    rc = converted ? 0 : keep_weights(dir, hf, list, err);
    if (rc == 0 && hf->model->lora.rank)
        rc = put_base(dir, hf, list, err);
    for (int i = 0; rc == 0 && i < f->folder.others; i++) {
        struct ckpt_source *s = &list->item[list->count];
        const char *name = f->folder.other[i];
        if (!shard_keeps(CKPT_KEEP_FILE, name, converted) ||
            ((hf->model->lora.rank || hf->file[0].pieces) && !carry_has(name)))
            continue;
        char *to = io_join(files, name);
        int fd = -1;
        rc = err_any(folder_open(&f->folder, name, &fd, err) ||
                     ckpt_copy_file(fd, dir, to, hf->stop, s, err));
        if (fd >= 0)
            close(fd);
        mem_free(to);
        if (rc == 0) {
            s->name = mem_dup(name);
            s->whole = s->bytes;
            list->count++;
        }
    }
    mem_free(files);
    return rc;
}

/*
 * Moves the states one after the other, in each the model's tensors, unit by unit.  Opens files
 * by name and checks that they are the files opened before.
 */
static int move_weights(const struct io_out *dir, struct filling *f,
                        const struct shard_cut *cut, struct err *err)
{
    struct moves m = {.options = &f->what->options,
                      .stop = f->hf->stop,
                      .make = split_make_elements,
                      .arg = f};

    for (int i = 0; i < split_read_files(f); i++)
        if (!split_read_file(f, i)->pieces)
            moves_add_file(&m.in, split_read_file(f, i)->file_bytes,
                           mem_dup(split_read_file(f, i)->path));
    for (int state = 0; state < (f->optim.st.path ? 1 + OPTIM_STATES : 1); state++)
        for (int i = 0; i < f->model->tensors; i++)
            if (state == 0 || model_trains(f->model, &f->model->tensor[i]))
                split_add_tensor(&m, f, i, state);
    int rc = shard_cut(dir, cut, &m, err);
    moves_release(&m);
    return rc;
}

/* Fills the checkpoint's folder, without renaming it. */
static int split_fill_folder(const struct io_out *dir, struct filling *f,
                             const struct ckpt_shape *shape, struct err *err)
{
    struct ckpt_sources list = {.stop = f->hf->stop};
    struct ckpt_state is[CKPT_STATES_MAX];
    /* A run's position in the data is that of its step count. */
    struct ckpt_run run = {.step = f->optim.step,
                           .tokens = f->optim.tokens,
                           .position = f->optim.step,
                           .seed = f->what->seed};
    struct shard_cut cut = {
        .shape = shape, .is = is, .run = f->optim.st.path ? &run : NULL, .source = &list};
    struct stat *was = NULL, *is_now = NULL;

    memcpy(is, shape->state, sizeof is);
    is[0].type = f->hf->type;
    cut.type = shape->state[0].type;
    cut.converted = cut.type != is[0].type;
    int rc = stat_files(f, &was, err);
    if (rc == 0)
        rc = split_put_source(dir, f,
                              cut.converted || shape->model->lora.rank || f->hf->file[0].pieces,
                              &list, err);
    if (rc == 0)
        rc = err_any(move_weights(dir, f, &cut, err) || stat_files(f, &is_now, err));
    /* The input files have no checksums: they must not have changed while they were read. */
    const char *path;
    for (int i = 0; rc == 0 && (path = read_path(f, i)); i++)
        if (was[i].st_dev != is_now[i].st_dev || was[i].st_ino != is_now[i].st_ino ||
            was[i].st_size != is_now[i].st_size ||
            was[i].st_mtim.tv_sec != is_now[i].st_mtim.tv_sec ||
            was[i].st_mtim.tv_nsec != is_now[i].st_mtim.tv_nsec)
            rc = err_at(err, path, 0, NULL, "was changed while it was read");
    for (int i = 0; i < list.count; i++)
        mem_free(list.item[i].name);
    MEM_FREE(list.item, was, is_now);
    return rc;
}

/* The folder's own config.json, if there is one, else the plan's model. */
static int pick_model(const struct hf *hf, const struct model *plan, struct model *own,
                      const struct model **out, struct err *err)
{
    int rc = 0;

    *out = plan;
    if (plan->sparse.share > 0)
        return err_set(err, ERR_INPUT,
                       "the plan's model is sparse (%s), and its first masks are paro-train's:"
                       " expected paro-train --init with this folder",
                       plan->partial);
    if (hf_has_config(hf)) {
        rc = err_any(model_read_folder(own, hf->dir, err) ||
                     states_check_network(hf->dir, own, plan, err) ||
                     (plan->partial && model_train(own, plan->partial, err)));
        *out = own;
    }
    return rc;
}

static int open_adapter(struct filling *f, const struct model *m, struct err *err)
{
    if (!f->what->adapter)
        return 0;
    if (!m->lora.rank)
        return err_set(
            err, ERR_INPUT,
            "the plan's model has no adapters, expected lora=RANK in what it trains");
    return peft_open(&f->peft, f->what->adapter, m, err);
}

/* Sets the states: the weights, and those of the optimizer's file. */
static int open_optimizer(struct filling *f, struct ckpt_shape *shape, struct err *err)
{
    const struct shard_request *what = f->what;

    strcpy(shape->state[0].name, "params");
    shape->state[0].type = what->type ? *what->type : f->hf->type;
    shape->states = 1;
    if (!what->optimizer)
        return 0;
    if (shape->model->lora.rank)
        return err_set(err, ERR_INPUT,
                       "the plan trains adapters, expected all or a part of the model for the "
                       "optimizer state in '%s'",
                       what->optimizer);
    const struct ckpt_limits *limits = what->options.limits;
    struct hf all = {.dir = (char *)what->optimizer, .stop = limits ? limits->stop : NULL};
    if ((foreign_is(all.dir) && folder_check(&all, limits, err)) ||
        optim_open(&f->optim, what->optimizer, limits, shape->model, err))
        return -1;
    for (int s = 0; s < OPTIM_STATES; s++) {
        struct ckpt_state *state = &shape->state[shape->states++];
        snprintf(state->name, sizeof state->name, "%s", optim_states[s]);
        state->type = DTYPE_F32;
    }
    return 0;
}

int shard_split(const char *from, const struct shard_request *what, struct shard_target to,
                struct err *err)
{
    struct hf hf = {0};
    struct model own = {0};
    struct layout layout;
    struct ckpt_shape shape = {
        .layout = &layout, .strategy = what->strategy, .copies = what->copies};
    struct filling f = {.hf = &hf, .what = what};
    struct io_out dir;
    int rc = -1;

    if (!what->model->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    layout_init(&layout, what->groups);
    if (hf_open(&hf, from, what->options.limits, err) ||
        folder_list(&f.folder, &hf, what->options.limits, err) ||
        pick_model(&hf, what->model, &own, &shape.model, err) ||
        hf_match(&hf, shape.model, err) || hf_check_tied(&hf, err) ||
        open_adapter(&f, shape.model, err) || open_optimizer(&f, &shape, err) ||
        ckpt_check_copies(what->groups, what->copies, err))
        goto done;
    /* All inputs must lie outside the folder that --force removes. */
    const char *const read[] = {from, what->adapter, what->optimizer};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i] &&
            shard_check_apart(read[i], to.dir, SHARD_BE_INSIDE | SHARD_BE_SOURCE, err))
            goto done;
    f.first = mem_new(CHUNK, sizeof *f.first);
    f.model = shape.model;
    if (io_dir_create(&dir, to.dir, to.force, err))
        goto done;
    rc = split_fill_folder(&dir, &f, &shape, err);
    rc = io_end(&dir, rc, err);
done:
    mem_free(f.first);
    optim_release(&f.optim);
    peft_release(&f.peft);
    folder_release(&f.folder);
    hf_release(&hf);
    model_release(&own);
    layout_release(&layout);
    return rc;
}
