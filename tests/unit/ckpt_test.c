/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests checkpoints: what n ranks of any groups write, any ranges give back, in any type; every
 * damage is seen and named.
 */
#include "unit.h"

#include "ckpt/ckpt.h"
#include "ckpt/ckpt_states.h"
#include "shard/shard_folder.h"
#include "shard/shard.h"
#include "ckpt_fixture.h"

static void write_trained(struct fixture *f, const char *groups, const char *what)
{
    write_ckpt(f, groups, what,
               &(struct ckpt_run){.step = 7, .tokens = 1234, .position = 99, .seed = 5});
}

static void write_all(struct fixture *f, const char *groups_text)
{
    write_trained(f, groups_text, "all");
}

/* Every rank of every other shape, under every letter, reads what it would hold. */
static void read_as(struct ckpt *c, const char *groups_text)
{
    struct layout l;
    struct groups g;
    struct range ranges[64];
    static float out[4096];

    assert_ok(groups_parse(&g, groups_text, &err));
    layout_init(&l, &g);
    assert_true(layout_ranges_max(&l) <= 64);
    for (int letter = LETTER_N; letter <= LETTER_G; letter++) {
        for (int r = 0; r < g.ranks; r++) {
            for (int u = 0; u < c->model.units; u++) {
                int s = (r + u) % c->states;
                int n =
                    layout_unit_ranges(&l, (enum letter)letter, r, c->model.unit[u].trained,
                                       ckpt_state_elems(&c->model, u, &c->state[s]), ranges);
                for (int i = 0; i < n; i++) {
                    assert_ok(ckpt_read_range(c, u, s, ranges[i], DTYPE_F32, out, &err));
                    for (int64_t e = ranges[i].lo; e < ranges[i].hi; e++)
                        assert_true(out[e - ranges[i].lo] == value(u, s, e));
                }
            }
        }
    }
    layout_release(&l);
    groups_release(&g);
}

TEST(test_any_to_any)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,2]", "[4,4,3]", "5x1", "1x7"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture f;
        struct ckpt c;
        write_all(&f, shapes[i]);
        assert_ok(ckpt_open(&c, f.dir, NULL, &err));
        assert_int_equal(c.run.step, 7);
        assert_int_equal(c.run.position, 99);
        assert_string_equal(c.strategy, "IIG");
        assert_true(groups_equal(&c.groups, &f.layout.groups));
        assert_int_equal(ckpt_find_state(&c, "exp_avg"), 2);
        assert_int_equal(ckpt_find_state(&c, "none"), -1);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            read_as(&c, shapes[k]);
        ckpt_close(&c);
        clean(&f);
    }
}

static const char *const partials[] = {"all", "freeze=*layernorm*,*embed*", "train=*.1.*proj*",
                                       "lora=2,alpha=3", "lora=1,targets=q_proj+up_proj"};
enum { PARTIALS = sizeof partials / sizeof *partials };

/* Two parts a unit: what is written is read back, and states beside params know the first. */
TEST(test_parts)
{
    struct fixture f;
    struct ckpt c;

    for (int i = 1; i < PARTIALS; i++) {
        write_trained(&f, i % 2 ? "[3,2]" : "2x2", partials[i]);
        assert_ok(ckpt_open(&c, f.dir, NULL, &err));
        assert_string_equal(c.model.partial, partials[i]);
        assert_int_equal(c.model.trained, f.model.trained);
        int64_t sum[3] = {0, 0, 0};
        for (int64_t b = 0; b < c.blocks; b++)
            sum[c.block[b].state] += c.block[b].hi - c.block[b].lo;
        assert_int_equal(sum[0], f.model.params);
        assert_int_equal(sum[1], f.model.trained);
        assert_int_equal(sum[2], f.model.trained);
        read_as(&c, "[3,2]");
        read_as(&c, "4x2");
        ckpt_close(&c);
        clean(&f);
    }
}

enum { SEED = 5 };

/* Every element that another model of the network asks for, by the definition: it is in the
 * state, or, of a master, in the parameters, or has its first value.  Counts those of the last
 * kind. */
static int read_other(struct weights *w, const char *what, int state)
{
    struct ckpt *c = &w->ckpt;
    struct model m;
    static float out[4096], first[4096];
    int absent = 0;

    assert_ok(model_parse(&m, "c.json", config, (int64_t)strlen(config), &err));
    assert_ok(model_train(&m, what, &err));
    struct states s = {.weights = w, .model = &m, .state = {state}, .seed = SEED, .threads = 1};
    if (states_check_model(w, &m, &err)) {
        assert_int_equal(err.code, ERR_MISMATCH);
        model_release(&m);
        return -1;
    }
    for (int u = 0; u < m.units; u++) {
        /* in three parts, of which one is empty */
        int64_t e = ckpt_state_elems(&m, u, &c->state[state]), k = e / 3;
        struct range part[] = {{0, k}, {k, k}, {k, e}};
        for (int i = 0; i < 3; i++)
            assert_ok(states_read(&s, u, 0, part[i], out + part[i].lo, &err));
        for (int64_t x = 0; x < e; x++) {
            const struct model_tensor *t = &m.tensor[ckpt_tensor_at(&m, u, x)];
            const struct model_tensor *from = model_find(&c->model, t->name);
            int there = from && (state == 0 || model_trains(&c->model, from));
            model_init_values(t, SEED, x - t->offset, 1, first);
            float want =
                from ? value(u, there ? state : 0, from->offset + x - t->offset) : *first;
            assert_true(out[x] == want);
            absent += !from;
        }
        /* Moments that nothing has are 0. */
        s.state[1] = -1;
        if (!c->model.lora.rank && m.lora.rank && m.unit[u].trained) {
            struct range all = {0, m.unit[u].trained};
            s.state[1] = 2;
            assert_ok(states_read(&s, u, 1, all, out, &err));
            for (int64_t x = 0; x < all.hi; x++)
                assert_true(out[x] == 0);
        }
    }
    model_release(&m);
    return absent;
}

TEST(test_another_part)
{
    struct fixture f;
    struct weights w;

    for (int i = 0; i < PARTIALS; i++) {
        write_trained(&f, "[3,2]", partials[i]);
        assert_ok(weights_open(&w, f.dir, NULL, &err));
        for (int k = 0; k < PARTIALS; k++) {
            /* Adapters that nobody would read, or of another rank, are refused. */
            int fits = i < 3 || i == k;
            for (int s = 0; s < 2; s++) {
                int absent = read_other(&w, partials[k], s);
                assert_int_equal(absent < 0, !fits);
                if (i == k)
                    assert_int_equal(absent, 0);
                if (fits && i != k)
                    assert_int_equal(absent > 0, k >= 3);
            }
        }
        if (i == 3)
            assert_int_equal(read_other(&w, "lora=2,alpha=4", 0), -1);
        if (i == 4) /* more targets are no loss */
            assert_true(read_other(&w, "lora=1,targets=q_proj+up_proj+k_proj", 0) > 0);
        weights_close(&w);
        clean(&f);
    }
}

TEST(test_to_bf16)
{
    struct fixture f;
    struct ckpt c;
    struct range at = {3, 40};
    uint16_t half[37];

    write_all(&f, "[3,2]");
    assert_ok(ckpt_open(&c, f.dir, NULL, &err));
    assert_ok(ckpt_read_range(&c, 1, 1, at, DTYPE_BF16, half, &err));
    for (int i = 0; i < 37; i++)
        assert_int_equal(half[i], dtype_bf16_of_f32(value(1, 1, 3 + i)));
    ckpt_close(&c);
    clean(&f);
}

static void flip(const char *dir, const char *name, int64_t at)
{
    char *path = io_join(dir, name);
    int fd = open(path, O_RDWR);
    unsigned char byte;

    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    mem_free(path);
}

/* One flipped bit in a block: reading there fails and names it; other blocks still read. */
TEST(test_damage)
{
    struct fixture f;
    struct ckpt c;
    float out[4096];

    write_all(&f, "2x2");
    assert_ok(ckpt_open(&c, f.dir, NULL, &err));
    const struct ckpt_block *b = &c.block[c.first[1 * c.model.units + 1] + 2];
    struct range there = {b->lo, b->hi}, before = {0, b->lo};
    flip(f.dir, c.file[b->file].name, b->offset + b->bytes - 1);
    assert_ok(ckpt_read_range(&c, 1, 1, before, DTYPE_F32, out, &err));
    assert_error(ckpt_read_range(&c, 1, 1, there, DTYPE_F32, out, &err), ERR_MISMATCH);
    assert_string_equal(err.key, c.model.tensor[b->tensor].name);
    char *path = io_join(f.dir, c.file[b->file].name);
    assert_string_equal(err.file, path);
    mem_free(path);
    char range[64];
    snprintf(range, sizeof range, "master, elements [%" PRId64 ", %" PRId64 ")",
             b->lo - c.model.tensor[b->tensor].offset,
             b->hi - c.model.tensor[b->tensor].offset);
    assert_non_null(strstr(err.text, range));
    ckpt_close(&c);
    clean(&f);
}

/* Every byte of the manifest counts: flip any one, and it does not open. */
TEST(test_manifest_damage)
{
    struct fixture f;
    struct ckpt c;
    char *text = NULL;
    int64_t bytes = 0;

    write_all(&f, "2x1");
    char *path = io_join(f.dir, "manifest.json");
    assert_ok(io_read_text(path, 1 << 20, &text, &bytes, &err));
    for (int64_t at = 0; at < bytes; at += 17) {
        flip(f.dir, "manifest.json", at);
        assert_int_equal(ckpt_open(&c, f.dir, NULL, &err), -1);
        flip(f.dir, "manifest.json", at);
    }
    assert_int_equal(truncate(path, bytes - 1), 0);
    assert_int_equal(ckpt_open(&c, f.dir, NULL, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_error(ckpt_open(&c, f.dir, NULL, &err), ERR_ABSENT);
    mem_free(text);
    mem_free(path);
    clean(&f);
}

/* A manifest whose checksum is right and whose content is not: it is refused, or what it says
 * is not what the shards have, but nothing is read or written out of bounds. */
static void hostile(const char *what)
{
    static const char bytes_tried[] = {'9', '-', '0', '"', ']', 'e'};
    struct fixture f;
    char *text = NULL;
    int64_t bytes = 0;
    int opened = 0, refused = 0;
    static float out[4096];

    write_trained(&f, "2x1", what);
    char *path = io_join(f.dir, "manifest.json");
    assert_ok(io_read_text(path, 1 << 20, &text, &bytes, &err));
    int64_t before = strstr(text, ",\n\"checksum\"") - text;
    for (int64_t at = 0; at < before; at += 5) {
        char was = text[at];
        struct ckpt c;
        text[at] = bytes_tried[at / 5 % (int64_t)sizeof bytes_tried];
        put_manifest(path, text, before);
        text[at] = was;
        if (ckpt_open(&c, f.dir, NULL, &err)) {
            refused++;
            continue;
        }
        opened++;
        for (int u = 0; u < c.model.units; u++) {
            for (int s = 0; s < c.states; s++) {
                struct range all = {0, ckpt_state_elems(&c.model, u, &c.state[s])};
                if (ckpt_read_range(&c, u, s, all, DTYPE_F32, out, &err) == 0)
                    continue;
                assert_true(err.code == ERR_MISMATCH || err.code == ERR_INPUT);
            }
        }
        ckpt_close(&c);
    }
    /* Digits of a checksum may change and open; a place, a name or a size may not. */
    assert_true(opened > 0 && refused > opened);
    put_manifest(path, text, before);
    struct ckpt c;
    assert_ok(ckpt_open(&c, f.dir, NULL, &err));
    ckpt_close(&c);
    mem_free(text);
    mem_free(path);
    clean(&f);
}

TEST(test_manifest_hostile)
{
    hostile("all");
    hostile("lora=2,alpha=3,targets=q_proj+up_proj");
    hostile("freeze=*layernorm*,*embed*");
}

/* A run's checkpoint has no source: its params become a folder with the model's tensors. */
TEST(test_merge_of_a_run)
{
    const struct shard_merging what = {.options = {.buffer = 64 << 20}};
    struct fixture f;
    struct weights w;
    struct folder folder = {0};
    char to[TEMP_PATH + 8];
    float out[1024];

    write_all(&f, "[3,2]");
    sprintf(to, "%s-merged", f.dir);
    assert_ok(shard_merge(f.dir, &what, (struct shard_target){to, 0}, &err));
    assert_ok(weights_open(&w, to, NULL, &err));
    assert_ok(folder_list(&folder, &w.hf, NULL, &err));
    assert_int_equal(folder.others, 1);
    assert_string_equal(folder.other[0], "config.json");
    assert_ok(states_check_model(&w, &f.model, &err));
    assert_int_equal(weights_type(&w), DTYPE_BF16);
    struct states s = {.weights = &w, .model = &f.model};
    for (int u = 0; u < f.model.units; u++) {
        struct range all = {0, f.model.unit[u].elems};
        assert_true(all.hi <= 1024);
        assert_ok(states_read(&s, u, 0, all, out, &err));
        for (int64_t i = 0; i < all.hi; i++)
            assert_true(out[i] == value(u, 0, i));
    }
    folder_release(&folder);
    weights_close(&w);
    assert_int_equal(shard_merge(f.dir, &what, (struct shard_target){to, 0}, &err),
                     -1); /* it is there */
    io_remove_tree(to, &err);
    clean(&f);
}

/* A fill that fails, and a rank whose disk is no folder: an error, and no entry. */
static int fill_fails(void *arg, int unit, int state, struct range at, void *out,
                      struct err *why)
{
    (void)arg, (void)unit, (void)state, (void)at, (void)out;
    return err_set(why, ERR_DEVICE, "the device is gone");
}

TEST(test_write_fails)
{
    struct fixture f;
    char *entry = NULL;

    write_all(&f, "2x1");
    struct io_out dir = temp_open(f.dir);
    /* Whatever is there under that name was not put there by this command. */
    assert_says(ckpt_write_shard(&dir, 1, 0, &f.shape, fill, NULL, &entry, &err),
                "shard-00001.safetensors': File exists");
    assert_int_equal(unlinkat(dir.fd, "shard-00001.safetensors", 0), 0);
    assert_error(ckpt_write_shard(&dir, 1, 0, &f.shape, fill_fails, NULL, &entry, &err),
                 ERR_DEVICE);
    assert_non_null(strstr(err.text, "shard-00001.safetensors: the device is gone"));
    io_dir_leave(&dir);
    assert_null(entry);
    clean(&f);
}

/* Whatever trains, whatever the groups and the threads; each new block was written once. */
TEST(test_reshard)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,2]", "[4,4,3]", "5x1", "1x7"};
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    atomic_int stop = 1;
    struct ckpt_limits limits = ckpt_limits_usual;

    limits.stop = &stop;
    for (int i = 0; i < SHAPES * PARTIALS; i++) {
        struct fixture f;
        struct groups g;
        struct ckpt c;
        char to[TEMP_PATH + 40];
        write_trained(&f, shapes[i % SHAPES], partials[i % PARTIALS]);
        assert_ok(groups_parse(&g, shapes[(i / PARTIALS + 1) % SHAPES], &err));
        struct shard_request what = {
            .model = &f.model,
            .groups = &g,
            .strategy = "GNI",
            .options = {.buffer = 1 << 20, .jobs = i % 4, .limits = &limits}};
        sprintf(to, "%s-new", f.dir);
        assert_int_equal(shard_reshard(f.dir, &what, (struct shard_target){to, 0}, &err), -1);
        assert_string_equal(err.text, "stopped, nothing was written");
        assert_int_equal(access(to, F_OK), -1);
        what.options.limits = NULL;
        assert_ok(shard_reshard(f.dir, &what, (struct shard_target){to, 0}, &err));
        assert_ok(ckpt_open(&c, to, NULL, &err));
        assert_string_equal(c.strategy, "GNI");
        assert_true(groups_equal(&c.groups, &g));
        assert_int_equal(c.run.tokens, 1234);
        read_as(&c, "[3,2]");
        ckpt_close(&c);
        groups_release(&g);
        io_remove_tree(to, &err);
        clean(&f);
    }
}

/* In pieces of any size the sum is that of the whole. */
TEST(test_hash_pieces)
{
    static unsigned char data[5000];
    char whole[33], pieces[33];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i >> 3);
    for (int64_t bytes = 0; bytes <= (int64_t)sizeof data; bytes += 1 + bytes / 7) {
        void *sum = ckpt_hash_begin();
        for (int64_t at = 0, n; at < bytes; at += n) {
            n = bytes - at < 97 ? bytes - at : 97;
            ckpt_hash_more(sum, data + at, n);
        }
        ckpt_hash_end(sum, pieces);
        ckpt_hash(data, bytes, whole);
        assert_string_equal(whole, pieces);
    }
}
