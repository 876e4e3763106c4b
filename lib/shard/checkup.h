/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_CHECKUP_H
#define SHARD_CHECKUP_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/*
 * All that is wrong with an open checkpoint's files, copy by copy, and what is good of each.
 * Its files by number: the shards, then those that are small: manifest.json, config.json, and
 * those of source/ as listed.
 */
enum { CHECKUP_MANIFEST, CHECKUP_CONFIG, CHECKUP_SOURCES };

enum checkup_state {
    CHECKUP_BAD,
    CHECKUP_READABLE, /* a shard that is there and of its size: its blocks can be read */
    CHECKUP_GOOD      /* and its header is good; or all of a small file is */
};

enum damage_kind { DAMAGE_FILE, DAMAGE_HEADER, DAMAGE_BLOCK };

struct damage {
    enum damage_kind kind;
    int file;
    int copy;      /* 0: the file itself */
    int64_t block; /* DAMAGE_BLOCK: its number in the checkpoint */
    int refused;   /* the system does not let it be opened: it may be good all the same */
    char *text;    /* owned, what is wrong */
};

struct checkup {
    struct ckpt *c;  /* borrowed */
    int quick;       /* sizes, headers and presence alone were looked at */
    int parts;       /* files of one copy */
    int64_t damages; /* shards first, then blocks, then what is small; by file and place */
    struct damage *damage;
    char *state;   /* [parts * (1 + copies)] enum checkup_state */
    int64_t files; /* looked at */
    int64_t bytes; /* whose checksums were compared */
    size_t room;
    int *place; /* while blocks are checked: of each file that is read, its place in state */
};

int checkup_run(struct checkup *x, struct ckpt *c, int quick,
                const struct shard_options *options, struct err *err);
void checkup_release(struct checkup *x);

/* The first copy of a file that is in this state or a better one, -1: none is. */
int checkup_find(const struct checkup *x, int file, enum checkup_state state);
/* The first copy in which a block is good, or -1. */
int checkup_find_block(const struct checkup *x, int64_t block);
/*
 * A shard's header as the manifest's groups and states ask for it (mem_free; NULL: not wanted),
 * and whether it is the one that was there: then none is lost.
 */
int checkup_make_header(const struct ckpt *c, int file, char **head, int64_t *bytes);
/* Copy k of a file, by its name within the checkpoint; mem_free. */
char *checkup_name(const struct checkup *x, int file, int k);
/* Blocks in the order in which they lie, file by file; mem_free. */
int64_t *checkup_order(const struct ckpt *c);

/*
 * What is wrong, as a sentence with file, tensor and elements.  Its code is ERR_SYS for what
 * the system refused and nothing else can stand in for: whether that is lost nobody knows.
 */
void damage_report(const struct checkup *x, const struct damage *w, struct err *err);
/* The copy, by its name within the checkpoint, that is good there; NULL: none; mem_free. */
char *damage_find_copy(const struct checkup *x, const struct damage *w);

#endif
