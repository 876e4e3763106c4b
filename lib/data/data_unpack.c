/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads compressed files.  zlib also reads uncompressed ones. */
#include "data/data_unpack.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"
#include "base/mem.h"

struct unpack {
    char *path;
    int fd;    /* -1: owned by gz */
    gzFile gz; /* NULL: zstd */
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer in;
    char *space;   /* buffer of `in` */
    size_t wanted; /* zstd's last result: 0 between frames */
};

int unpack_open(struct unpack **out, const char *path, struct err *err)
{
    struct unpack *u = mem_new(1, sizeof *u);
    unsigned char head[4] = {0};
    int64_t bytes = 0;

    *u = (struct unpack){.path = mem_dup(path), .fd = -1};
    int rc = err_any(io_open(path, &u->fd, &bytes, err) ||
                     io_check_pointer(u->fd, path, bytes, err));
    if (rc == 0 && bytes >= 4 && io_pread_all(u->fd, head, 4, 0, err))
        rc = err_prefix(err, "data '%s': ", path);
    uint32_t magic = (uint32_t)io_le(head, 4);
    /* Or a skippable frame */
    if (rc == 0 && (magic == 0xfd2fb528 || (magic & ~15u) == 0x184d2a50)) {
        u->zstd = mem_have(ZSTD_createDCtx(), "zstd");
        u->space = mem_new(ZSTD_DStreamInSize(), 1);
        u->in.src = u->space;
    } else if (rc == 0) {
        u->gz = mem_have(gzdopen(u->fd, "rb"), "zlib");
        gzbuffer(u->gz, 1 << 17);
        u->fd = -1;
    }
    if (rc) {
        unpack_close(u);
        return -1;
    }
    *out = u;
    return 0;
}

static int read_zstd(struct unpack *u, void *to, int64_t bytes, int64_t *got, struct err *err)
{
    ZSTD_outBuffer out = {to, (size_t)bytes, 0};

    while (out.pos == 0) {
        if (u->in.pos == u->in.size) {
            ssize_t n = read(u->fd, u->space, ZSTD_DStreamInSize());
            if (n < 0)
                return err_sys(err, "cannot read data '%s'", u->path);
            if (n == 0 && u->wanted)
                return err_set(err, ERR_INPUT, "data '%s' ends within a zstd frame", u->path);
            if (n == 0)
                break;
            u->in.size = (size_t)n;
            u->in.pos = 0;
        }
        u->wanted = ZSTD_decompressStream(u->zstd, &out, &u->in);
        if (ZSTD_isError(u->wanted))
            return err_set(err, ERR_INPUT, "data '%s' cannot be unpacked, expected zstd: %s",
                           u->path, ZSTD_getErrorName(u->wanted));
    }
    *got = (int64_t)out.pos;
    return 0;
}

int unpack_read(struct unpack *u, void *to, int64_t bytes, int64_t *got, struct err *err)
{
    int what = Z_OK;

    if (!u->gz)
        return read_zstd(u, to, bytes, got, err);
    int n = gzread(u->gz, to, (unsigned)bytes);
    const char *why = gzerror(u->gz, &what);
    if (what == Z_ERRNO)
        return err_sys(err, "cannot read data '%s'", u->path);
    /* A truncated file returns its data, and this error. */
    if (n < 0 || what == Z_BUF_ERROR)
        return err_set(err, ERR_INPUT, "data '%s' is damaged, expected gzip: %s", u->path,
                       what == Z_BUF_ERROR ? "unexpected end of file" : why);
    *got = n;
    return 0;
}

void unpack_close(struct unpack *u)
{
    if (!u)
        return;
    if (u->gz)
        gzclose_r(u->gz);
    if (u->fd >= 0)
        close(u->fd);
    ZSTD_freeDCtx(u->zstd);
    MEM_FREE(u->space, u->path, u);
}
