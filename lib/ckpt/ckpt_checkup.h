/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_CHECKUP_H
#define CKPT_CKPT_CHECKUP_H

#include "ckpt/ckpt_parts.h"
#include "ckpt/tool.h"

/* All that is wrong with an open checkpoint's files, copy by copy, and what is good of each. */

/* Small files by number: manifest.json, config.json, then those of source/ as listed. */
enum { CKPT_SMALL_MANIFEST, CKPT_SMALL_CONFIG, CKPT_SMALL_SOURCES };

enum ckpt_wound_kind { WOUND_FILE, WOUND_HEADER, WOUND_BLOCK, WOUND_SMALL };

struct ckpt_wound {
    enum ckpt_wound_kind kind;
    int file;      /* the shard's rank; of what is small its number */
    int copy;      /* 0: the file itself */
    int64_t block; /* WOUND_BLOCK: its number in the checkpoint */
    char hash[33]; /* and what its checksum is; "" where it cannot be read */
    int refused;   /* the system does not let it be opened: it may be good all the same */
    char *text;    /* owned, what is wrong; NULL: its checksum */
};

struct ckpt_checkup {
    struct ckpt *c; /* borrowed */
    int quick;      /* sizes, headers and presence alone were looked at */
    int small;      /* files of one copy that are small: manifest, config, source/ */
    int64_t wounds; /* shards first, then blocks, then what is small; by file and place */
    struct ckpt_wound *wound;
    char *readable; /* [files * (1 + copies)] there and of its size: its blocks can be read */
    char *headed;   /* [the same] and its header is good */
    char *kept;     /* [small * (1 + copies)] */
    int64_t files;  /* looked at */
    int64_t bytes;  /* whose checksums were compared */
    size_t room;
};

int ckpt_checkup(struct ckpt_checkup *x, struct ckpt *c, int quick,
                 const struct tool_means *means, struct err *err);
void ckpt_checkup_release(struct ckpt_checkup *x);

/* A copy that is good, the first of them; -1: none is.  Of a shard's header, too. */
int ckpt_good_block(const struct ckpt_checkup *x, int64_t block);
int ckpt_good_header(const struct ckpt_checkup *x, int file);
int ckpt_good_small(const struct ckpt_checkup *x, int number);
/* A copy whose blocks can be read; which of them are good is another question. */
int ckpt_readable(const struct ckpt_checkup *x, int file);
/* Whether the header is what the manifest's groups and states ask for: then none is lost. */
int ckpt_header_known(const struct ckpt *c, int file);
/* That header, [header_bytes] at `head`. */
void ckpt_header_make(const struct ckpt *c, int file, void *head);

/* The name of a small file within its copy's folder: "source/files/NAME"; mem_free. */
char *ckpt_small_name(const struct ckpt *c, int number);
/*
 * What is wrong, as a sentence with file, tensor and elements.  Its code is ERR_SYS for what
 * the system refused and nothing else can stand in for: whether that is lost nobody knows.
 */
void ckpt_wound_say(const struct ckpt_checkup *x, const struct ckpt_wound *w, struct err *err);
/* Its file's name within the checkpoint; mem_free. */
char *ckpt_wound_file(const struct ckpt_checkup *x, const struct ckpt_wound *w);
/* The file, within the checkpoint, that has what the wound has not; NULL: none; mem_free. */
char *ckpt_wound_cure(const struct ckpt_checkup *x, const struct ckpt_wound *w);
/* Blocks in the order in which they lie, file by file; mem_free. */
int64_t *ckpt_blocks_by_offset(const struct ckpt *c);

#endif
