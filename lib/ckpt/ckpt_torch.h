/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_TORCH_H
#define CKPT_CKPT_TORCH_H

#include "ckpt/ckpt_pickle.h"
#include "ckpt/ckpt_safetensors.h"

/*
 * Reads files of torch.save: a zip archive of stored records, as a file or within one.
 *
 *     | NAME/data.pkl | NAME/byteorder | NAME/data/0 | NAME/data/1 | ... | their list |
 *
 * data.pkl is a pickle of the saved value, in which a tensor names its record, type, shape and
 * strides.  Only tensors in the order of their elements are read.
 */
struct torch_file {
    const char *path;     /* borrowed */
    int64_t first, bytes; /* of the archive in the file */
    int fd;
    struct pickle_file pickle; /* of the saved value */
    char *list, *text;         /* of the records; of the pickle */
    uint64_t records, list_bytes;
};

/* A record: its bytes, from the start of the file, and their checksum. */
struct torch_record {
    int64_t first, bytes;
    uint32_t crc; /* 0: torch.save did not compute it */
};
/* Reads the whole of it: ERR_INPUT where it is damaged. */
int torch_check_record(int fd, const struct torch_record *r, struct err *err);
/*
 * The caller sets path, first and bytes (-1: to the file's end) of f.  id: as io_open_same.
 * `most`: bytes of the list, and of the pickle.
 */
int torch_file_open(struct torch_file *f, struct io_id *id, int64_t most, struct err *err);
/* A tensor within the value: type, dims, shape, elems, and [first, last) in the file; and the
   record that has it, which is not read. */
int torch_file_tensor(const struct torch_file *f, const struct pickle *v, struct st_tensor *out,
                      struct torch_record *record, struct err *err);
/* A whole number, or a tensor of one number; -1: it is below 0 or above 1e18. */
int torch_file_number(const struct torch_file *f, const struct pickle *v, int64_t *out,
                      struct err *err);
void torch_file_close(struct torch_file *f);
/* A tuple of whole numbers from 0 on, or a torch.Size of one; -1: it is none. */
int torch_size(const struct pickle *v, int64_t size[ST_DIMS_MAX], int *dims);

#endif
