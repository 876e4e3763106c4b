/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_CHECKUP_H
#define SHARD_SHARD_CHECKUP_H

#include "shard/shard.h"

/*
 * Finds all damage of an open checkpoint, copy by copy.  Files are numbered: shards first, then
 * the small files: manifest.json, config.json, and those of source/ in the manifest's order.
 */
enum { CHECKUP_MANIFEST, CHECKUP_CONFIG, CHECKUP_SOURCES };

enum checkup_state {
    CHECKUP_BAD,
    CHECKUP_READABLE, /* a shard of the right size with readable blocks */
    CHECKUP_GOOD      /* a shard whose header is intact, too; an intact small file */
};

enum damage_kind { DAMAGE_FILE, DAMAGE_HEADER, DAMAGE_BLOCK };

struct damage {
    enum damage_kind kind;
    int file;
    int copy;      /* 0: the original */
    int64_t block; /* DAMAGE_BLOCK: number of the block in the checkpoint */
    int refused;   /* the system refused to open the file, which may be intact */
    char *text;    /* owned: the error */
};

struct checkup {
    struct ckpt *c;  /* borrowed */
    int quick;       /* only sizes, headers and presence were checked */
    int parts;       /* number of files in one copy */
    int64_t damages; /* sorted: shards, blocks, small files; by file and place */
    struct damage *damage;
    char *state;   /* [parts * (1 + copies)] enum checkup_state */
    int64_t files; /* number of files checked */
    int64_t bytes; /* bytes whose checksums were compared */
    size_t space;
    int *place; /* used while blocks are checked: index into `state` of each file read */
};

int checkup_run(struct checkup *x, struct ckpt *c, int quick,
                const struct shard_options *options, struct err *err);
void checkup_release(struct checkup *x);

/* The first copy of a file in at least this state; -1: none. */
int checkup_find(const struct checkup *x, int file, enum checkup_state state);
/* The first copy in which a block is intact, or -1. */
int checkup_find_block(const struct checkup *x, int64_t block);
/* Reads and checks a shard's header; *head is freed with mem_free, on error too. */
int checkup_read_header(const struct ckpt_file *file, const char *path, int fd, void **head,
                        struct err *err);
/*
 * Recreates a shard's header from the manifest's groups and states (mem_free; head NULL: not
 * wanted).  Returns whether its checksum is the original's.
 */
int checkup_make_header(const struct ckpt *c, int file, char **head, int64_t *bytes);
/* The name of copy k of a file within the checkpoint; mem_free. */
char *checkup_name(const struct checkup *x, int file, int k);
/* The numbers of all blocks by file and offset; mem_free. */
int64_t *checkup_order(const struct ckpt *c);

/*
 * Sets err to the damage, with file, tensor and elements; ERR_SYS if the system refused to open
 * the file and no other copy is intact.
 */
void damage_report(const struct checkup *x, const struct damage *w, struct err *err);
/* The name within the checkpoint of an intact copy; NULL: none; mem_free. */
char *damage_find_copy(const struct checkup *x, const struct damage *w);

#endif
