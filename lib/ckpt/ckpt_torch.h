/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_TORCH_H
#define CKPT_CKPT_TORCH_H

#include "ckpt/ckpt_pickle.h"
#include "ckpt/ckpt_safetensors.h"

/*
 * Reads files of torch.save: a zip archive of uncompressed records, as a file or part of one.
 *
 *     | NAME/data.pkl | NAME/byteorder | NAME/data/0 | NAME/data/1 | ... | their list |
 *
 * data.pkl is a pickle of the saved value, in which a tensor names its record, type, shape and
 * strides.  Only tensors in the order of their elements are read.
 */
struct torch_file {
    const char *path;     /* borrowed */
    int64_t first, bytes; /* range of the archive in the file */
    int fd;
    struct pickle_file pickle; /* the saved value */
    char *list, *text;         /* the archive's directory; the pickle's text */
    uint64_t records, list_bytes;
};

/* A record: byte range from the start of the file, and checksum. */
struct torch_record {
    int64_t first, bytes;
    uint32_t crc; /* 0: torch.save did not compute one */
};
/* Reads the whole record; ERR_INPUT if it is damaged. */
int torch_check_record(int fd, const struct torch_record *r, struct err *err);
/*
 * The caller sets path, first and bytes (-1: to the file's end) of f.  id: as io_open_same.
 * `most`: largest size of the directory and of the pickle, in bytes.
 */
int torch_file_open(struct torch_file *f, struct io_id *id, int64_t most, struct err *err);
/* Describes a tensor within the value: type, dims, shape, elems, and [first, last) in the file;
   and its record, which is not read. */
int torch_file_tensor(const struct torch_file *f, const struct pickle *v, struct st_tensor *out,
                      struct torch_record *record, struct err *err);
/* Reads a whole number, or a tensor of one number; -1: it is below 0 or above 1e18. */
int torch_file_number(const struct torch_file *f, const struct pickle *v, int64_t *out,
                      struct err *err);
void torch_file_close(struct torch_file *f);
/* Reads a tuple of whole numbers >= 0, or a torch.Size; -1: another value. */
int torch_size(const struct pickle *v, int64_t size[ST_DIMS_MAX], int *dims);

#endif
