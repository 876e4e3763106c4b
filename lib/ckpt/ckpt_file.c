/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes checksums, and copies small files into a checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

enum { COPY_BYTES = 1 << 20, FLUSH_BYTES = 1 << 20 };

static void to_hex(XXH128_hash_t h, char hex[33])
{
    static const char digit[] = "0123456789abcdef";
    XXH128_canonical_t canon;

    XXH128_canonicalFromHash(&canon, h);
    for (int i = 0; i < 16; i++) {
        hex[2 * i] = digit[canon.digest[i] >> 4];
        hex[2 * i + 1] = digit[canon.digest[i] & 15];
    }
    hex[32] = 0;
}

void ckpt_hash(const void *data, int64_t bytes, char hex[33])
{
    to_hex(XXH3_128bits(data, (size_t)bytes), hex);
}

void *ckpt_hash_begin(void)
{
    XXH3_state_t *sum = mem_have(XXH3_createState(), "a checksum");

    XXH3_128bits_reset(sum);
    return sum;
}

void ckpt_hash_more(void *sum, const void *data, int64_t bytes)
{
    XXH3_128bits_update(sum, data, (size_t)bytes);
}

void ckpt_hash_end(void *sum, char hex[33])
{
    to_hex(XXH3_128bits_digest(sum), hex);
    XXH3_freeState(sum);
}

const char *ckpt_source_folder(enum ckpt_keep keep)
{
    static const char *const folder[] = {"source/files", "source/headers", "source/rest"};

    return folder[keep];
}

int ckpt_name_ok(const char *name)
{
    int depth = 0;

    for (const char *p = name; depth <= CKPT_DEPTH_MAX; depth++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        if (p[n] == 0)
            return 1;
        p += n + 1;
    }
    return 0;
}

int ckpt_stopped(const atomic_int *stop, struct err *err)
{
    return stop && atomic_load(stop) ? err_set(err, ERR_SYS, "stopped, nothing was written")
                                     : 0;
}

int ckpt_allocate(int fd, int64_t bytes, int holes, struct err *err)
{
    int rc = -1;

    errno = ENOSYS;
    while (!holes && (rc = fallocate(fd, 0, 0, bytes)) && errno == EINTR)
        ;
    if (rc && (errno == EOPNOTSUPP || errno == ENOSYS))
        rc = ftruncate(fd, bytes);
    return rc ? err_sys(err, "cannot write %" PRId64 " bytes", bytes) : 0;
}

int ckpt_create_file(const struct io_out *dir, const char *path, const void *head,
                     int64_t head_bytes, int64_t bytes, int holes, int *fd, struct err *err)
{
    int new = -1;

    if (io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &new, err))
        return -1;
    if (ckpt_allocate(new, bytes, holes, err) || io_pwrite_all(new, head, head_bytes, 0, err)) {
        close(new);
        return err_prefix(err, "%s: ", path);
    }
    *fd = new;
    return 0;
}

void ckpt_flush(int fd, int64_t offset, int64_t bytes)
{
    /* A hint only, not worth a call for a few pages; fsync reports write errors. */
    if (bytes >= FLUSH_BYTES)
        sync_file_range(fd, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

/* Reads fd to its end and computes the checksum; copies the bytes to `to` unless that is -1. */
static int hash_stream(int fd, int to, const atomic_int *stop, int64_t *bytes, char hex[33],
                       struct err *err)
{
    void *buffer = mem_new(COPY_BYTES, 1);
    void *sum = ckpt_hash_begin();
    int64_t done = 0;
    int rc = 0;

    while (rc == 0 && (rc = ckpt_stopped(stop, err)) == 0) {
        ssize_t n = read(fd, buffer, COPY_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, "cannot read");
        if (n <= 0)
            break;
        ckpt_hash_more(sum, buffer, n);
        rc = to >= 0 ? io_pwrite_all(to, buffer, n, done, err) : 0;
        done += n;
    }
    ckpt_hash_end(sum, hex);
    mem_free(buffer);
    *bytes = done;
    return rc;
}

int ckpt_copy_file(int from, const struct io_out *dir, const char *to, const atomic_int *stop,
                   struct ckpt_source *is, struct err *err)
{
    struct stat st;
    int out = -1;

    if (fstat(from, &st))
        return err_sys(err, "cannot read its status");
    /* A user who may not read the file may not read its copy; the owner must, to make further
       copies. */
    if (io_dir_open(dir, to, O_WRONLY | O_CREAT, (st.st_mode & 0777) | S_IRUSR, &out, err))
        return -1;
    int rc = hash_stream(from, out, stop, &is->bytes, is->hash, err);
    if (rc == 0 && fsync(out))
        rc = err_sys(err, "cannot write");
    if (rc)
        err_prefix(err, "copying to '%s': ", to);
    close(out);
    return rc;
}

int ckpt_check_file(const char *path, int64_t bytes, const char *hash, const atomic_int *stop,
                    struct err *err)
{
    char sum[33];
    int64_t is = 0;
    int fd = -1;

    if (io_open_whole(path, bytes, &fd, err)) /* reading a hole of any size takes no disk */
        return -1;
    close(fd);
    if (!hash)
        return 0;
    if (ckpt_hash_file(path, stop, &is, sum, err))
        return -1;
    if (strcmp(sum, hash) == 0)
        return 0;
    return err_mismatch(err, path, NULL, "is damaged: checksum %s, expected %s", sum, hash);
}

int ckpt_hash_file(const char *path, const atomic_int *stop, int64_t *bytes, char hex[33],
                   struct err *err)
{
    int fd = -1;

    if (io_open(path, &fd, NULL, err))
        return -1;
    int rc = hash_stream(fd, -1, stop, bytes, hex, err);
    if (rc)
        err_prefix(err, "'%s': ", path);
    close(fd);
    return rc;
}
