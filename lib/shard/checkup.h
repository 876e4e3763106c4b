/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_CHECKUP_H
#define SHARD_CHECKUP_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/* All that is wrong with an open checkpoint's files, copy by copy, and what is good of each. */

/* Small files by number: manifest.json, config.json, then those of source/ as listed. */
enum { CHECKUP_MANIFEST, CHECKUP_CONFIG, CHECKUP_SOURCES };

enum wound_kind { WOUND_FILE, WOUND_HEADER, WOUND_BLOCK, WOUND_SMALL };

struct wound {
    enum wound_kind kind;
    int file;      /* the shard's rank; of what is small its number */
    int copy;      /* 0: the file itself */
    int64_t block; /* WOUND_BLOCK: its number in the checkpoint */
    char hash[33]; /* and what its checksum is; "" where it cannot be read */
    int refused;   /* the system does not let it be opened: it may be good all the same */
    char *text;    /* owned, what is wrong; NULL: its checksum */
};

struct checkup {
    struct ckpt *c; /* borrowed */
    int quick;      /* sizes, headers and presence alone were looked at */
    int small;      /* files of one copy that are small: manifest, config, source/ */
    int64_t wounds; /* shards first, then blocks, then what is small; by file and place */
    struct wound *wound;
    char *readable; /* [files * (1 + copies)] there and of its size: its blocks can be read */
    char *headed;   /* [the same] and its header is good */
    char *kept;     /* [small * (1 + copies)] */
    int64_t files;  /* looked at */
    int64_t bytes;  /* whose checksums were compared */
    size_t room;
    int *copy; /* while blocks are checked: which copy each file that is read is */
};

int checkup_run(struct checkup *x, struct ckpt *c, int quick, const struct shard_means *means,
                struct err *err);
void checkup_release(struct checkup *x);

/* A copy that is good, the first of them; -1: none is.  Of a shard's header, too. */
int checkup_good_block(const struct checkup *x, int64_t block);
int checkup_good_header(const struct checkup *x, int file);
int checkup_good_small(const struct checkup *x, int number);
/* A copy whose blocks can be read; which of them are good is another question. */
int checkup_readable(const struct checkup *x, int file);
/* Whether the header is what the manifest's groups and states ask for: then none is lost. */
int checkup_header_known(const struct ckpt *c, int file);
/* That header; mem_free. */
void checkup_header_make(const struct ckpt *c, int file, char **head, int64_t *bytes);

/* The name of a small file within its copy's folder: "source/files/NAME"; mem_free. */
char *checkup_small_name(const struct ckpt *c, int number);
/*
 * What is wrong, as a sentence with file, tensor and elements.  Its code is ERR_SYS for what
 * the system refused and nothing else can stand in for: whether that is lost nobody knows.
 */
void wound_say(const struct checkup *x, const struct wound *w, struct err *err);
/* Its file's name within the checkpoint; mem_free. */
char *wound_file(const struct checkup *x, const struct wound *w);
/* The file, within the checkpoint, that has what the wound has not; NULL: none; mem_free. */
char *wound_cure(const struct checkup *x, const struct wound *w);
/* Blocks in the order in which they lie, file by file; mem_free. */
int64_t *checkup_order(const struct ckpt *c);

#endif
