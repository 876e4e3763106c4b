/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a run writes a checkpoint: each rank its shard file, then one the manifest. */
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

static int write_blocks(struct ckpt_shard *s, int fd, ckpt_fill fill, void *arg,
                        struct err *err)
{
    void *buffer = NULL;
    int rc = mem_data((int64_t)CKPT_BLOCK_ELEMS * 8, "a checkpoint's block", &buffer, err);

    for (int64_t i = 0; rc == 0 && i < s->blocks; i++) {
        struct ckpt_block *b = &s->block[i];
        rc = fill(arg, b->unit, b->state, (struct range){b->lo, b->hi}, buffer, err) ||
                     io_pwrite_all(fd, buffer, b->bytes, b->offset, err)
                 ? -1
                 : 0;
        if (rc)
            break;
        ckpt_flush(fd, b->offset, b->bytes);
        ckpt_hash(buffer, b->bytes, b->hash);
    }
    if (rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write");
    mem_free(buffer);
    return rc;
}

int ckpt_write_shard(const struct io_dir *dir, int rank, const struct ckpt_shape *shape,
                     ckpt_fill fill, void *arg, char **entry, struct err *err)
{
    struct ckpt_shard s;
    char *head = NULL;
    int64_t head_bytes = 0;
    int fd = -1;

    ckpt_shard_init(&s, shape, rank);
    ckpt_shard_header(&s, &head, &head_bytes);
    char *path = io_join(dir->temp, s.file.name);
    int rc = ckpt_create_file(dir, path, head, head_bytes, s.file.bytes, 0, &fd, err);
    if (rc == 0) {
        rc = write_blocks(&s, fd, fill, arg, err);
        if (rc)
            err_prefix(err, "%s: ", path);
        close(fd);
    }
    if (rc == 0)
        *entry = ckpt_shard_entry(&s);
    ckpt_shard_release(&s);
    mem_free(head);
    mem_free(path);
    return rc;
}
