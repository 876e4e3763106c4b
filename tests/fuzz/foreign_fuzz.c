/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the readers of other trainers' checkpoints: an archive of torch.save as the
 * one file of a universal checkpoint, anything else as the .metadata of a folder with
 * __0_0.distcp.  What was accepted can be read whole. */
#include "reader_fuzz.h"

#include "ckpt/ckpt_foreign.h"
#include "../unit/temp_fixture.h"

enum { WHOLE = 1 << 16 };

static char folder[TEMP_PATH], *torch_dir, *zero_dir;
static int metadata = -1, archive = -1;

static void clean(void)
{
    struct err err;

    io_remove_tree(folder, &err);
    mem_free(torch_dir);
    mem_free(zero_dir);
}

static int create(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert(fd >= 0);
    mem_free(path);
    return fd;
}

static void prepare(void)
{
    struct err err;
    char *text = NULL;
    int64_t bytes = 0;

    temp_folder(folder, "paro-foreign");
    atexit(clean);
    torch_dir = io_join(folder, "torch");
    zero_dir = io_join(folder, "zero-dir");
    char *inner = io_join(zero_dir, "zero/w");
    assert(io_mkdir(torch_dir, NULL, &err) == 0 && io_mkdir(inner, NULL, &err) == 0);
    assert(io_read_file("tests/fuzz/corpus/foreign/distcp", WHOLE, NULL, &text, &bytes, &err) ==
           0);
    int fd = create(torch_dir, "__0_0.distcp");
    assert(io_pwrite_all(fd, text, bytes, 0, &err) == 0);
    close(fd);
    metadata = create(torch_dir, ".metadata");
    archive = create(inner, "fp32.pt");
    mem_free(inner);
    mem_free(text);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct err err = {0};
    struct st st;
    int zip = bytes > 2 && data[0] == 'P' && data[1] == 'K';

    if (metadata < 0)
        prepare();
    int fd = zip ? archive : metadata;
    const char *dir = zip ? zero_dir : torch_dir;
    assert(ftruncate(fd, (off_t)bytes) == 0);
    assert(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (foreign_open(&st, dir, NULL, &err)) {
        assert(err.code && strstr(err.text, folder));
        return 0;
    }
    for (int i = 0; i < st.count; i++) {
        const struct st_tensor *t = &st.tensor[i];
        void *out = mem_new((size_t)t->last + 1, 1);
        assert(st_find(&st, t->name) == t && t->last <= WHOLE);
        assert(st_read(&st, t, 0, t->last, out, &err) == 0 || strstr(err.text, "are damaged"));
        mem_free(out);
    }
    st_release(&st);
    return 1;
}

FUZZ_SET(.name = "foreign", .longest = 8192, .cases = 8000, .part = 1000, .ends = "qhR\x86",
         .words = FUZZ_LIST("offset", "length", "chunks", "sizes", "size", "fqn", "PK\x01\x02",
                            "PK\x06\x06", "PK\x03\x04", "\xff\xff\xff\xff", "K\x03", "\x94",
                            "data.pkl", "data/0", "__0_0.distcp", "../x", "model.w",
                            "state.w.step", "ctorch\nFloatStorage\n",
                            "ctorch\nBFloat16Storage\n"),
         .files = FUZZ_LIST("tests/fuzz/corpus/foreign/metadata",
                            "tests/fuzz/corpus/foreign/fp32.pt"));
