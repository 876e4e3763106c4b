/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a checkpoint's manifest.json: as they are, and with the checksum
 * that they should have, for else no change would get past it. */
#include "reader_fuzz.h"

#include "value/value_json_out.h"
#include "ckpt/ckpt_write.h"

static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_head\":1,"
                             "\"n_layer\":1,\"vocab_size\":5}";
static const char tail[] = ",\n\"checksum\": \"";

static void model(struct model *m)
{
    struct err err = {0};
    int rc = model_parse(m, "c", config, sizeof config - 1, &err);

    assert(rc == 0);
}

/* The model, read once: what a manifest does to it that says what trains, it does to its own.
 */
static struct model whole;

static void release(struct ckpt *c)
{
    if (c->model.tensor == whole.tensor)
        c->model = (struct model){0};
    ckpt_close(c);
}

static int parse(struct ckpt *c, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);

    if (!whole.tensor)
        model(&whole);
    *c = (struct ckpt){.cached = -1, .model = whole};
    if (memmem(text, bytes, "train", 5) || memchr(text, '\\', bytes))
        model(&c->model);
    int rc = ckpt_manifest_parse(c, FUZZ_NAME, FUZZ_NAME ".config", &ckpt_limits_usual, text,
                                 (int64_t)bytes, &err);
    mem_free(text);
    if (rc && err.code == ERR_MISMATCH) /* a config's checksum, of another one */
        err.code = ERR_INPUT;
    if (fuzz_judge(rc, &err))
        release(c);
    return rc;
}

/* The text up to its checksum, or all of it, and the right one; freed by the caller. */
static char *summed(const uint8_t *data, size_t bytes, size_t *out)
{
    char hash[33], *text = NULL;
    size_t n = sizeof tail - 1, at = bytes;

    while (at > 0 && (at + n > bytes || memcmp(data + at, tail, n)))
        at--;
    at = at ? at : bytes;
    FILE *f = mem_stream(&text, out);
    fwrite(data, 1, at, f);
    ckpt_hash(data, (int64_t)at, hash);
    fprintf(f, "%s%s\"\n}\n", tail, hash);
    fclose(f);
    return text;
}

static void put_block(struct jout *j, const struct ckpt *c, const struct ckpt_block *b)
{
    jout_open(j, NULL, '{');
    jout_text(j, "unit", c->model.unit[b->unit].name);
    jout_text(j, "state", c->state[b->state].name);
    jout_open(j, "blocks", '[');
    jout_open(j, NULL, '[');
    jout_int(j, NULL, b->lo);
    jout_int(j, NULL, b->hi);
    jout_text(j, NULL, b->hash);
    jout_close(j, ']');
    jout_close(j, ']');
    jout_close(j, '}');
}

/* The file's blocks must lie one after the other behind its header: they are put so. */
static void put_file(struct jout *j, const struct ckpt *c, int file)
{
    const struct ckpt_file *f = &c->file[file];
    int64_t at = f->header_bytes;

    jout_open(j, NULL, '{');
    jout_text(j, "name", f->name);
    jout_int(j, "bytes", f->bytes);
    jout_int(j, "header_bytes", f->header_bytes);
    jout_text(j, "header_xxh3", f->header_hash);
    jout_open(j, "tensors", '[');
    for (int64_t b = 0; b < c->blocks;) {
        const struct ckpt_block *k = &c->block[b++];
        if (k->file != file || k->offset != at)
            continue;
        put_block(j, c, k);
        at += k->bytes;
        b = 0;
    }
    assert(at == f->bytes);
    jout_close(j, ']');
    jout_close(j, '}');
}

static void put_source(struct jout *j, const struct ckpt_source *s)
{
    jout_open(j, NULL, '{');
    jout_text(j, "name", s->name);
    jout_bool(j, "header", s->keep == CKPT_KEEP_HEADER);
    jout_bool(j, "rest", s->keep == CKPT_KEEP_REST);
    jout_int(j, "bytes", s->bytes);
    jout_int(j, "whole", s->whole);
    jout_text(j, "xxh3", s->hash);
    jout_close(j, '}');
}

static void put_lists(struct jout *j, const struct ckpt *c)
{
    jout_open(j, "group_of", '[');
    for (int r = 0; r < c->groups.ranks; r++)
        jout_int(j, NULL, c->groups.group_of[r]);
    jout_close(j, ']');
    jout_open(j, "states", '[');
    for (int s = 0; s < c->states; s++) {
        jout_open(j, NULL, '{');
        jout_text(j, "name", c->state[s].name);
        jout_text(j, "type", dtype_name(c->state[s].type));
        jout_close(j, '}');
    }
    jout_close(j, ']');
    jout_open(j, "units", '[');
    for (int u = 0; u < c->model.units; u++) {
        jout_open(j, NULL, '{');
        jout_text(j, "name", c->model.unit[u].name);
        jout_int(j, "elems", c->model.unit[u].elems);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    jout_open(j, "source", '[');
    for (int i = 0; i < c->source.count; i++)
        put_source(j, &c->source.item[i]);
    jout_close(j, ']');
}

/* What was read, without its end and its checksum. */
static char *print(const struct ckpt *c, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);
    struct jout j = {.file = f, .depth = 1};

    putc('{', f);
    jout_text(&j, "format", "paro-checkpoint/1");
    jout_text(&j, "strategy", c->strategy);
    if (c->model.partial)
        jout_text(&j, "trainable", c->model.partial);
    if (c->copies)
        jout_int(&j, "copies", c->copies);
    put_lists(&j, c);
    if (c->has_run) {
        jout_open(&j, "run", '{');
        jout_int(&j, "step", c->run.step);
        jout_int(&j, "tokens", c->run.tokens);
        jout_int(&j, "position", c->run.position);
        jout_int(&j, "seed", (int64_t)c->run.seed);
        jout_close(&j, '}');
    } else {
        jout_null(&j, "run");
    }
    jout_open(&j, "files", '[');
    for (int k = 0; k < c->files; k++)
        put_file(&j, c, k);
    jout_close(&j, ']');
    fclose(f);
    return text;
}

/* Every element of every state in one block, and in the tensor that it says. */
static void check(const struct ckpt *c)
{
    assert(c->states > 0 && c->files == c->groups.ranks && c->files > 0);
    assert(!c->has_run || (c->run.step >= 0 && c->run.tokens >= 0 && c->run.position >= 0));
    for (int s = 0, i = 0; s < c->states; s++) {
        for (int u = 0; u < c->model.units; u++, i++) {
            int64_t at = 0;
            for (int64_t b = c->first[i]; b < c->first[i + 1]; b++) {
                const struct ckpt_block *k = &c->block[b];
                const struct model_tensor *t = &c->model.tensor[k->tensor];
                assert(k->state == s && k->unit == u && k->lo == at && k->hi > at);
                assert(t->unit == u && at >= t->offset && k->hi <= t->offset + t->elems);
                assert(k->bytes == (k->hi - at) * dtype_bytes(c->state[s].type));
                at = k->hi;
            }
            assert(at == ckpt_state_elems(&c->model, u, &c->state[s]));
        }
    }
    assert(c->first[c->states * c->model.units] == c->blocks);
    for (int i = 0; i < c->source.count; i++)
        assert(ckpt_name_ok(c->source.item[i].name));
}

static int take(const void *data, size_t bytes)
{
    struct ckpt c, back;
    size_t first_bytes = 0, again_bytes = 0, all = 0;

    if (parse(&c, data, bytes))
        return 0;
    check(&c);
    char *first = print(&c, &first_bytes);
    char *text = summed((const uint8_t *)first, first_bytes, &all);
    int rc = parse(&back, text, all);
    assert(rc == 0);
    char *again = print(&back, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    mem_free(text);
    release(&c);
    release(&back);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    size_t all = 0;

    char *text = summed(data, bytes, &all);
    int taken = take(text, all);
    /* The same bytes, or some whose checksum is theirs by 128 bits' chance. */
    if (take(data, bytes))
        assert(taken && all == bytes && memcmp(text, data, bytes) == 0);
    mem_free(text);
    return taken;
}

FUZZ_SET(.name = "manifest", .cases = 6000, .ends = " \n:,{}[]",
         .words = FUZZ_LIST("0", "1", "-1", "4124", "4125", "192", "1e3", "9223372036854775807",
                            "9223372036854775808", "null", "true", "\"\"", "\"x\"", "[]", "{}",
                            "[0,1]", "\"embed\"", "\"layers.0\"", "\"params\"", "\"bf16\"",
                            "\"../x\"", "\"name\"", "\"copies\":1",
                            "\"shard-00001.safetensors\"",
                            "\"dbd7391be7b4c51975141c8dd0ba48f9\"", "\xff", "\\u0000"),
         .files = FUZZ_LIST("tests/fuzz/corpus/manifest/one-rank",
                            "tests/fuzz/corpus/manifest/ragged",
                            "tests/fuzz/corpus/manifest/run",
                            "tests/fuzz/corpus/manifest/adapters"));
