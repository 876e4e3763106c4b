/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_CHECKUP_H
#define SHARD_SHARD_CHECKUP_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/*
 * Reports all damage of an open checkpoint, copy by copy.  Its files by number: the shards,
 * then the small ones: manifest.json, config.json, and those of source/ as the manifest lists
 * them.
 */
enum { CHECKUP_MANIFEST, CHECKUP_CONFIG, CHECKUP_SOURCES };

enum checkup_state {
    CHECKUP_BAD,
    CHECKUP_READABLE, /* a shard of the right size, of which blocks can be read */
    CHECKUP_GOOD      /* the header of a shard is good, too; a small file is good */
};

enum damage_kind { DAMAGE_FILE, DAMAGE_HEADER, DAMAGE_BLOCK };

struct damage {
    enum damage_kind kind;
    int file;
    int copy;      /* 0: the file itself */
    int64_t block; /* DAMAGE_BLOCK: its number in the checkpoint */
    int refused;   /* the system refused to open the file, which may be good */
    char *text;    /* owned, what is wrong */
};

struct checkup {
    struct ckpt *c;  /* borrowed */
    int quick;       /* only sizes, headers and presence were checked */
    int parts;       /* files of one copy */
    int64_t damages; /* of shards, of blocks, of small files; by file and place */
    struct damage *damage;
    char *state;   /* [parts * (1 + copies)] enum checkup_state */
    int64_t files; /* that were checked */
    int64_t bytes; /* whose checksums were compared */
    size_t space;
    int *place; /* while blocks are checked: of each file that is read, its place in state */
};

int checkup_run(struct checkup *x, struct ckpt *c, int quick,
                const struct shard_options *options, struct err *err);
void checkup_release(struct checkup *x);

/* The first copy of a file in this state or a better one; -1: none. */
int checkup_find(const struct checkup *x, int file, enum checkup_state state);
/* The first copy in which a block is good, or -1. */
int checkup_find_block(const struct checkup *x, int64_t block);
/* The checked header of a shard; *head is for mem_free, on error too. */
int checkup_read_header(const struct ckpt_file *file, const char *path, int fd, void **head,
                        struct err *err);
/*
 * Makes the shard's header again from the manifest's groups and states (mem_free; NULL: not
 * wanted).  Returns whether its checksum is the original's.
 */
int checkup_make_header(const struct ckpt *c, int file, char **head, int64_t *bytes);
/* The name of copy k of a file within the checkpoint; mem_free. */
char *checkup_name(const struct checkup *x, int file, int k);
/* The numbers of all blocks by file and offset; mem_free. */
int64_t *checkup_order(const struct ckpt *c);

/*
 * The damage as an error with file, tensor and elements; ERR_SYS where the system refused to
 * open the file and no other copy is good.
 */
void damage_report(const struct checkup *x, const struct damage *w, struct err *err);
/* The name within the checkpoint of a copy that is good there; NULL: none; mem_free. */
char *damage_find_copy(const struct checkup *x, const struct damage *w);

#endif
