/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of model.safetensors.index.json, in a folder with two files of
 * weights: a.safetensors has x and z, b.safetensors y. */
#include "reader_fuzz.h"

#include "value/value_tree.h"
#include "ckpt/ckpt_hf.h"
#include "../unit/temp_fixture.h"

static char folder[TEMP_PATH];
static int fd = -1;

static void clean(void)
{
    struct err err;

    io_remove_tree(folder, &err);
}

static void put_weights(const char *name, struct st_tensor *tensor, int count)
{
    char *path = io_join(folder, name), *head = NULL;
    int64_t bytes = 0;
    FILE *f = fopen(path, "we");

    assert(f);
    st_header(tensor, count, &head, &bytes);
    fwrite(head, 1, (size_t)bytes, f);
    for (int64_t i = 0; i < tensor[count - 1].last; i++)
        putc(0, f);
    int rc = fclose(f);
    assert(rc == 0);
    mem_free(head);
    mem_free(path);
}

static void prepare(void)
{
    struct st_tensor a[] = {{.name = (char *)"x", .dims = 1, .shape = {2}},
                            {.name = (char *)"z", .dims = 0}};
    struct st_tensor b[] = {{.name = (char *)"y", .dims = 1, .shape = {1}}};

    temp_folder(folder, "paro-index");
    atexit(clean);
    put_weights("a.safetensors", a, 2);
    put_weights("b.safetensors", b, 1);
    char *path = io_join(folder, "model.safetensors.index.json");
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert(fd >= 0);
    mem_free(path);
}

/* What was accepted says the truth of every tensor, and of all in the files that it names. */
static void check(const struct hf *hf, const char *text, size_t bytes)
{
    struct tree t;
    struct err err;
    int rc = tree_parse_loose(&t, FUZZ_NAME, 1, text, (int64_t)bytes, &err);
    const struct tree_node *map = rc ? NULL : tree_get(t.root, "weight_map");
    int count = 0, file = 0;

    assert(map && hf->files > 0 && !hf->alone);
    for (const struct tree_node *v = map->child; v; v = v->next)
        assert(hf_find(hf, v->key, &file) && strcmp(hf->name[file], tree_string(v)) == 0);
    for (int i = 0; i < hf->files; i++) {
        assert(i == 0 || strcmp(hf->name[i - 1], hf->name[i]) < 0);
        count += hf->file[i].count;
    }
    assert(count == map->items);
    tree_release(&t);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct hf hf = {0};
    struct err err = {0};

    if (fd < 0)
        prepare();
    assert(ftruncate(fd, (off_t)bytes) == 0);
    assert(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (hf_open(&hf, folder, NULL, &err)) {
        assert(err.code == ERR_INPUT || err.code == ERR_ABSENT || err.code == ERR_SYS);
        assert(strstr(err.text, folder) && !hf.dir);
        return 0;
    }
    check(&hf, (const char *)data, bytes);
    hf_release(&hf);
    return 1;
}

FUZZ_SET(.name = "index", .longest = 512, .cases = 4000, .part = 50, .ends = " \n:,{}\"",
         .words = FUZZ_LIST("a.safetensors", "b.safetensors", "\"x\"", "\"y\"", "\"z\"",
                            "\"weight_map\"", "\"../a.safetensors\"", "\"/dev/zero\"", "\".\"",
                            "\"\"", "null", "0", "{}", "[]", "\\u0000", "\xff"),
         .files = FUZZ_LIST("tests/fuzz/corpus/index/both", "tests/fuzz/corpus/index/one"));
