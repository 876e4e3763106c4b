/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares memory among the ranks of one host: each makes an anonymous file in memory (memfd) and
 * maps the others' through /proc/PID/fd.  No name can remain, and no limit of /dev/shm applies;
 * the pages are allocated at once, so that a lack of memory is reported here and not by a
 * signal later.
 */
#include "world/world_mpi.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct card { /* a rank's description of its part, for the others */
    int64_t bytes;
    uint64_t inode;
    int32_t pid, fd;
};

int64_t world_available_bytes(void)
{
    char line[256];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "re");

    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        fclose(f);
    return kib < 0 ? INT64_MAX : kib * 1024;
}

static int make_part(int64_t bytes, struct card *card, struct err *err)
{
    struct stat st;
    int fd = memfd_create("paro", MFD_CLOEXEC), rc = 0;

    if (fd < 0 || fstat(fd, &st)) {
        err_sys(err, "cannot create shared memory");
        goto fail;
    }
    do {
        rc = bytes ? posix_fallocate(fd, 0, bytes) : 0;
    } while (rc == EINTR);
    if (rc) {
        errno = rc;
        err_sys(err, "cannot have %" PRId64 " bytes of shared memory", bytes);
        goto fail;
    }
    *card = (struct card){bytes, st.st_ino, getpid(), fd};
    return 0;
fail:
    if (fd >= 0)
        close(fd);
    return -1;
}

static int map_part(int fd, int64_t bytes, char **base, struct err *err)
{
    *base = NULL;
    if (bytes == 0)
        return 0;
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(err, "cannot map %" PRId64 " bytes of shared memory", bytes);
    *base = p;
    return 0;
}

static int map_peer(const struct card *card, char **base, struct err *err)
{
    struct stat st;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", card->pid, card->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open the memory of another rank of this host, '%s'", path);
    /* Hosts with the same name, such as containers, may have different processes with one
       number. */
    if (fstat(fd, &st) || st.st_ino != card->inode || st.st_size != card->bytes) {
        close(fd);
        return err_set(
            err, ERR_SYS,
            "'%s' is not the memory of a rank of this host: do two hosts have the same name?",
            path);
    }
    int rc = map_part(fd, card->bytes, base, err);
    close(fd);
    return rc;
}

int world_share_open(struct world *w, int64_t bytes, struct world_share *out, struct err *err)
{
    struct world_share s = {.ranks = w->node_ranks};
    struct card mine = {.fd = -1}, *card = mem_new((size_t)s.ranks, sizeof *card);

    s.base = mem_new((size_t)s.ranks, sizeof *s.base);
    s.bytes = mem_new((size_t)s.ranks, sizeof *s.bytes);
    /*
     * The parts of all ranks of the host must fit together: the system grants pages of a memory
     * file one by one, until it kills a process.
     */
    double sum = 0;
    /* before the exchange: no rank has begun to allocate */
    int64_t have = world_available_bytes();
    int rc = world_node_allgather(w, &bytes, sizeof bytes, s.bytes, err);
    for (int r = 0; r < s.ranks; r++)
        sum += (double)s.bytes[r];
    if (rc == 0 && sum > (double)have)
        rc = err_set(err, ERR_SYS,
                     "cannot have %" PRId64
                     " bytes of shared memory: the ranks of this host need"
                     " %.0f together, expected at most %" PRId64 ", as are available",
                     bytes, sum, have);
    if (rc == 0)
        rc = make_part(bytes, &mine, err);
    rc = world_agree(w, rc, err);
    if (rc == 0)
        rc = world_node_allgather(w, &mine, sizeof mine, card, err);
    int mapped = rc;
    for (int r = 0; mapped == 0 && r < s.ranks; r++) {
        s.bytes[r] = card[r].bytes;
        mapped = r == w->node_rank ? map_part(card[r].fd, card[r].bytes, &s.base[r], err)
                                   : map_peer(&card[r], &s.base[r], err);
    }
    /* Hence the second agreement: no rank closes its file before all have opened it. */
    if (rc == 0)
        rc = world_agree(w, mapped, err);
    if (mine.fd >= 0)
        close(mine.fd);
    mem_free(card);
    if (rc == 0)
        *out = s;
    else
        world_share_close(&s);
    return rc;
}

void world_share_close(struct world_share *s)
{
    for (int r = 0; r < s->ranks; r++)
        if (s->base[r])
            munmap(s->base[r], (size_t)s->bytes[r]);
    mem_free(s->base);
    mem_free(s->bytes);
    *s = (struct world_share){0};
}
