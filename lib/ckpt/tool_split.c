/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a folder of weights becomes a checkpoint.  In source/:
 *
 *     headers/NAME   the first bytes of each weights file, up to its data, verbatim
 *     rest/NAME      the data of its tensors that are no parameters, one after the other
 *     files/NAME     every other file of the folder, verbatim
 *
 * so that merge needs to add nothing but the data, which the shards hold.  Where the weights
 * are converted, the first two would be of another type, and are not kept.  Where adapters
 * train, merge gives them alone: of the files those of the tokenizer and of generation.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_carry.h"
#include "ckpt/ckpt_pieces.h"
#include "ckpt/hf.h"
#include "ckpt/optim.h"
#include "ckpt/peft.h"
#include "ckpt/tool_parts.h"

struct filling {
    struct hf *hf;
    const struct tool_splitting *what;
    const struct model *model;
    struct peft peft;
    struct optim optim;
    float *first; /* [CHUNK]: values of adapters that are new */
    int64_t froms;
    struct move_from *from;
    struct piece *piece;
    size_t room, piece_room;
};

/* Of a tensor's state, elements from `first` on. */
struct piece {
    int tensor, state;
    int64_t first;
};

enum { CHUNK = 1 << 16, REST_BYTES = 1 << 20, PIECE_BYTES = 4 << 20 };

/* Elements of an adapter: from its folder, or its first values. */
static int fill_adapter(struct filling *f, const struct model_tensor *t, int64_t first,
                        int64_t count, void *out, struct err *err)
{
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

/* Elements [lo, lo + count) of a piece. */
static int make_elems(struct filling *f, const struct piece *p, int64_t lo, int64_t count,
                      void *out, struct err *err)
{
    const struct model_tensor *t = &f->model->tensor[p->tensor];

    return p->state ? optim_read(&f->optim, t, p->state - 1, p->first + lo, count, out, err)
                    : fill_adapter(f, t, p->first + lo, count, out, err);
}

/*
 * Any bytes of a piece: behind an odd number of 2-byte parameters the F32 states begin at a
 * byte of the stream that is no multiple of 4, and an element may lie over either end.
 */
static int make_piece(void *arg, int64_t number, int64_t first, int64_t bytes, void *out,
                      struct err *err)
{
    struct filling *f = arg;
    const struct piece *p = &f->piece[number];
    int64_t width = dtype_bytes(p->state ? DTYPE_F32 : f->hf->type);
    int64_t lo = first / width, hi = (first + bytes + width - 1) / width;

    if (hi * width == first + bytes && lo * width == first && (uintptr_t)out % 8 == 0)
        return make_elems(f, p, lo, hi - lo, out, err);
    char *whole = mem_new((size_t)(hi - lo), (size_t)width);
    int rc = make_elems(f, p, lo, hi - lo, whole, err);
    if (rc == 0)
        memcpy(out, whole + first - lo * width, (size_t)bytes);
    mem_free(whole);
    return rc;
}

/* A tensor's state as the stream has it; of the file that lies behind the folder's, too. */
static void list_tensor(struct filling *f, int number, int state)
{
    const struct model_tensor *t = &f->model->tensor[number];
    int64_t width = dtype_bytes(state ? DTYPE_F32 : f->hf->type), most = PIECE_BYTES / width;
    const struct hf_place *p = &f->hf->place[number];
    int file = -1;
    int64_t offset = 0;

    if (state == 0 && !model_is_adapter(t)) {
        file = p->file;
        offset = f->hf->file[file].data + p->t->first;
    } else if (state > 0) {
        const struct st_tensor *from = optim_find(&f->optim, t, state - 1);
        if (from->type == st_type_of(DTYPE_F32)) {
            file = f->hf->files;
            offset = f->optim.st.data + from->first;
        }
    }
    for (int64_t at = 0, n; at < t->elems; at += n) {
        n = t->elems - at < most ? t->elems - at : most;
        f->from = mem_grow(f->from, &f->room, (size_t)f->froms + 1, sizeof *f->from);
        f->piece = mem_grow(f->piece, &f->piece_room, (size_t)f->froms + 1, sizeof *f->piece);
        f->piece[f->froms] = (struct piece){number, state, at};
        f->from[f->froms++] = (struct move_from){
            .bytes = n * width, .file = file, .offset = file < 0 ? 0 : offset + at * width};
    }
}

/* The states, one after the other; of each the model's tensors, unit by unit. */
static void list_pieces(struct filling *f)
{
    for (int state = 0; state < (f->optim.open ? 1 + OPTIM_STATES : 1); state++)
        for (int i = 0; i < f->model->tensors; i++)
            if (state == 0 || model_trains(f->model, &f->model->tensor[i]))
                list_tensor(f, i, state);
}

/* What is read: the folder's weights and, last, the optimizer's state or the adapters. */
static int read_files(const struct filling *f)
{
    return f->hf->files + (f->optim.open || f->peft.open);
}

static const struct st *read_file(const struct filling *f, int number)
{
    return number < f->hf->files ? &f->hf->file[number]
           : f->optim.open       ? &f->optim.st
                                 : &f->peft.st;
}

/* The same file, and nobody has written to it. */
static int is_as_it_was(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* [read_files]; for mem_free, on error too. */
static int look_at_files(const struct filling *f, struct stat **out, struct err *err)
{
    *out = mem_new((size_t)read_files(f), sizeof **out);
    for (int i = 0; i < read_files(f); i++)
        if (stat(read_file(f, i)->path, &(*out)[i]))
            return err_sys(err, "cannot read '%s'", read_file(f, i)->path);
    return 0;
}

/* What was read has no checksums: all of it must be of one moment. */
static int check_files(const struct filling *f, const struct stat *was, struct err *err)
{
    struct stat *is = NULL;
    int rc = look_at_files(f, &is, err);

    for (int i = 0; rc == 0 && i < read_files(f); i++)
        if (!is_as_it_was(&was[i], &is[i]))
            rc = err_at(err, read_file(f, i)->path, 0, NULL, "was changed while it was read");
    mem_free(is);
    return rc;
}

static int put_header(const struct io_dir *dir, const struct st *st, const char *name,
                      struct ckpt_source *s, struct err *err)
{
    void *head = NULL;
    int fd = -1;

    if (io_open(st->path, &fd, NULL, err))
        return -1;
    int rc = mem_data(st->data, "a safetensors header", &head, err);
    if (rc == 0 && io_pread_all(fd, head, st->data, 0, err))
        rc = err_prefix(err, "%s: ", st->path);
    close(fd);
    if (rc == 0) {
        char *path = io_join(ckpt_source_folder(CKPT_KEEP_HEADER), name);
        rc = io_dir_put(dir, path, head, st->data, err);
        mem_free(path);
    }
    if (rc == 0) {
        *s = (struct ckpt_source){
            mem_dup(name), CKPT_KEEP_HEADER, st->data, st->file_bytes, {0}};
        ckpt_hash(head, st->data, s->hash);
    }
    mem_free(head);
    return rc;
}

/* The data of a file's buffers into a file of their own; *bytes 0: there are none. */
static int put_rest(const struct io_dir *dir, const char *path, const struct hf *hf,
                    const struct st *st, int64_t *bytes, struct err *err)
{
    const struct model_tensor *t;
    char *buffer = mem_new(REST_BYTES, 1);
    int fd = -1, rc = 0;

    *bytes = 0;
    for (int i = 0; rc == 0 && i < st->count; i++) {
        const struct st_tensor *b = &st->tensor[i];
        if (hf_role(hf->model, b->name, &t) != HF_BUFFER)
            continue;
        if (fd < 0)
            rc = io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &fd, err);
        for (int64_t at = 0, n; rc == 0 && at < b->last - b->first; at += n) {
            if ((rc = ckpt_stopped(hf->stop, err)))
                break;
            n = b->last - b->first - at < REST_BYTES ? b->last - b->first - at : REST_BYTES;
            rc = st_read(st, b, at, n, buffer, err) || io_pwrite_all(fd, buffer, n, *bytes, err)
                     ? -1
                     : 0;
            *bytes += n;
        }
    }
    if (fd >= 0 && rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    if (fd >= 0)
        close(fd);
    mem_free(buffer);
    return rc;
}

static int keep_rest(const struct io_dir *dir, const struct hf *hf, int file,
                     struct ckpt_sources *list, struct err *err)
{
    struct ckpt_source *s = &list->item[list->count];
    char *folder = io_join(dir->temp, ckpt_source_folder(CKPT_KEEP_REST));
    char *path = io_join(folder, hf->name[file]);
    int rc = put_rest(dir, path, hf, &hf->file[file], &s->bytes, err);

    if (rc == 0 && s->bytes) {
        rc = ckpt_hash_file(path, hf->stop, &s->bytes, s->hash, err);
        s->whole = s->bytes;
        s->keep = CKPT_KEEP_REST;
        s->name = mem_dup(hf->name[file]);
        list->count++;
    }
    mem_free(path);
    mem_free(folder);
    return rc;
}

static int keep_weights(const struct io_dir *dir, const struct hf *hf,
                        struct ckpt_sources *list, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < hf->files; i++) {
        rc = put_header(dir, &hf->file[i], hf->name[i], &list->item[list->count], err);
        list->count += rc == 0;
        if (rc == 0)
            rc = keep_rest(dir, hf, i, list, err);
    }
    return rc;
}

/* Puts all that merge needs into dir/source and lists it; the list is what got there. */
static int put_source(const struct io_dir *dir, struct hf *hf, int converted,
                      struct ckpt_sources *list, struct err *err)
{
    char *files = io_join(dir->temp, ckpt_source_folder(CKPT_KEEP_FILE));
    int rc;

    list->item = mem_new((size_t)(2 * hf->files + hf->others), sizeof *list->item);
    rc = converted ? 0 : keep_weights(dir, hf, list, err);
    for (int i = 0; rc == 0 && i < hf->others; i++) {
        struct ckpt_source *s = &list->item[list->count];
        if (!tool_keeps(CKPT_KEEP_FILE, hf->other[i], converted) ||
            (hf->model->lora.rank && !ckpt_carries(hf->other[i])))
            continue;
        char *to = io_join(files, hf->other[i]);
        int fd = -1;
        rc = hf_open_other(hf, i, &fd, err) || ckpt_copy_file(fd, dir, to, hf->stop, s, err)
                 ? -1
                 : 0;
        if (fd >= 0)
            close(fd);
        mem_free(to);
        if (rc == 0) {
            s->name = mem_dup(hf->other[i]);
            s->whole = s->bytes;
            list->count++;
        }
    }
    mem_free(files);
    return rc;
}

/* The files, read by their names: what is there is what was opened. */
static int move_weights(const struct io_dir *dir, struct filling *f, const struct tool_cut *cut,
                        struct err *err)
{
    const struct tool_means *means = &f->what->means;
    struct move_file *file = mem_new((size_t)read_files(f), sizeof *file);
    struct ckpt_move move = {.from_files = read_files(f),
                             .from_file = file,
                             .buffer = means->buffer,
                             .jobs = ckpt_jobs(means->jobs),
                             .stop = f->hf->stop,
                             .arg = f,
                             .ear = means->ear,
                             .make = make_piece,
                             .tell = means->tell};

    for (int i = 0; i < read_files(f); i++) {
        const struct st *st = read_file(f, i);
        file[i] = (struct move_file){(const char *const *)&st->path, 1, st->file_bytes};
    }
    list_pieces(f);
    move.froms = f->froms;
    move.from = f->from;
    int rc = tool_cut(dir, cut, &move, NULL, err);
    mem_free(file);
    return rc;
}

/* Everything of the checkpoint but its name. */
static int fill_folder(const struct io_dir *dir, struct filling *f,
                       const struct ckpt_shape *shape, struct err *err)
{
    struct ckpt_sources list = {.stop = f->hf->stop};
    struct ckpt_state is[CKPT_STATES_MAX];
    /* A run's data stands where its steps do. */
    struct ckpt_run run = {.step = f->optim.step,
                           .tokens = f->optim.tokens,
                           .position = f->optim.step,
                           .seed = f->what->seed};
    struct tool_cut cut = {
        .shape = shape, .is = is, .run = f->optim.open ? &run : NULL, .source = &list};
    struct stat *was = NULL;

    memcpy(is, shape->state, sizeof is);
    is[0].type = f->hf->type;
    cut.type = shape->state[0].type;
    cut.converted = cut.type != is[0].type;
    int rc = look_at_files(f, &was, err);
    if (rc == 0)
        rc = put_source(dir, f->hf, cut.converted || shape->model->lora.rank, &list, err);
    if (rc == 0)
        rc = move_weights(dir, f, &cut, err) || check_files(f, was, err) ? -1 : 0;
    for (int i = 0; i < list.count; i++)
        mem_free(list.item[i].name);
    mem_free(list.item);
    mem_free(was);
    return rc;
}

/* The folder's own config.json, where there is one, else the plan's model. */
static int pick_model(const struct hf *hf, const struct model *plan, struct model *own,
                      const struct model **out, struct err *err)
{
    char *path = io_join(hf->dir, "config.json");
    int rc = 0;

    *out = plan;
    if (!hf->alone && !io_absent(path)) {
        rc = model_read_folder(own, hf->dir, err) || tool_check_same(hf->dir, own, plan, err) ||
                     (plan->partial && model_train(own, plan->partial, err))
                 ? -1
                 : 0;
        *out = own;
    }
    mem_free(path);
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

/* The states: the weights, and what the optimizer's file has. */
static int open_optimizer(struct filling *f, struct ckpt_shape *shape, struct err *err)
{
    const struct tool_splitting *what = f->what;

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
    if (optim_open(&f->optim, what->optimizer, what->means.limits, shape->model, err))
        return -1;
    for (int s = 0; s < OPTIM_STATES; s++) {
        struct ckpt_state *state = &shape->state[shape->states++];
        snprintf(state->name, sizeof state->name, "%s", optim_state_name(s));
        state->type = DTYPE_F32;
    }
    return 0;
}

/* Whatever is read lies outside the folder that --force removes. */
static int check_kept(const char *from, const struct tool_splitting *what, const char *to,
                      struct err *err)
{
    if (tool_check_kept(from, to, err) ||
        (what->adapter && tool_check_kept(what->adapter, to, err)))
        return -1;
    return what->optimizer ? tool_check_kept(what->optimizer, to, err) : 0;
}

int tool_split(const char *from, const struct tool_splitting *what, struct tool_target to,
               struct err *err)
{
    struct hf hf = {0};
    struct model own = {0};
    struct layout layout;
    struct ckpt_shape shape = {
        .layout = &layout, .strategy = what->strategy, .copies = what->copies};
    struct filling f = {.hf = &hf, .what = what};
    struct io_dir dir;
    int rc = -1;

    if (!what->model->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    layout_init(&layout, what->groups);
    if (hf_open_within(&hf, from, what->means.limits, err) ||
        hf_list(&hf, what->means.limits, err) ||
        pick_model(&hf, what->model, &own, &shape.model, err) ||
        hf_match(&hf, shape.model, err) || hf_check_tied(&hf, err) ||
        open_adapter(&f, shape.model, err) || open_optimizer(&f, &shape, err) ||
        ckpt_check_copies(what->groups, what->copies, err) ||
        check_kept(from, what, to.dir, err))
        goto done;
    f.first = mem_new(CHUNK, sizeof *f.first);
    f.model = shape.model;
    if (io_dir_create(&dir, to.dir, to.force, err))
        goto done;
    rc = fill_folder(&dir, &f, &shape, err);
    rc = io_dir_end(&dir, rc, err);
done:
    mem_free(f.first);
    mem_free(f.from);
    mem_free(f.piece);
    optim_release(&f.optim);
    peft_release(&f.peft);
    hf_release(&hf);
    model_release(&own);
    layout_release(&layout);
    return rc;
}
