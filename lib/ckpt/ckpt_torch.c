/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the zip archives and tensor descriptions that torch.save writes.  References:
 * APPNOTE.TXT of PKWARE, 4.3 and 4.5.3; torch/_utils.py and torch/serialization.py.
 */
#include "ckpt/ckpt_torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/io.h"
#include "base/mem.h"

/* Sizes of an archive's fixed parts; torch.save always writes END64 and the end records after
   it. */
enum { END64 = 56, ENDS = END64 + 20 + 22, ENTRY = 46, LOCAL = 30 };
enum { CHECK_BYTES = 1 << 20 }; /* bytes of a record read at a time */

#define REFUSE(f, ...) err_at(err, (f)->path, 0, NULL, __VA_ARGS__)

static int refuse_zip(const struct torch_file *f, struct err *err)
{
    return REFUSE(
        f, "bytes %" PRId64 " to %" PRId64 " are no whole, uncompressed archive of torch.save",
        f->first, f->first + f->bytes);
}

/* Reads bytes of the archive; an error beyond its end. */
static int read_at(const struct torch_file *f, uint64_t at, uint64_t bytes, void *out,
                   struct err *err)
{
    if (bytes > (uint64_t)f->bytes || at > (uint64_t)f->bytes - bytes)
        return refuse_zip(f, err);
    if (io_pread_all(f->fd, out, (int64_t)bytes, f->first + (int64_t)at, err))
        return err_prefix(err, "%s: ", f->path);
    return 0;
}

static int torch_read_list(struct torch_file *f, uint64_t most, struct err *err)
{
    char end[ENDS];

    if (f->bytes < ENDS || read_at(f, (uint64_t)f->bytes - ENDS, ENDS, end, err) ||
        memcmp(end, "PK\6\6", 4))
        return refuse_zip(f, err);
    f->records = io_le(end + 32, 8);
    f->list_bytes = io_le(end + 40, 8);
    if (f->list_bytes > most || f->list_bytes > (uint64_t)f->bytes ||
        f->records > f->list_bytes / ENTRY)
        return refuse_zip(f, err);
    f->list = mem_new(f->list_bytes + 1, 1);
    return read_at(f, io_le(end + 48, 8), f->list_bytes, f->list, err);
}

/* Reads the 64-bit size and offset of an entry whose 32-bit fields are all ones. */
static void read_wide(const char *extra, uint64_t bytes, uint64_t value[3])
{
    while (bytes >= 4 && io_le(extra + 2, 2) <= bytes - 4) {
        uint64_t n = 4 + io_le(extra + 2, 2), at = 4;
        for (int i = 0; io_le(extra, 2) == 1 && i < 3; i++) {
            if (value[i] == 0xffffffff && at + 8 <= n) {
                value[i] = io_le(extra + at, 8);
                at += 8;
            }
        }
        extra += n;
        bytes -= n;
    }
}

/* Finds the record NAME/`name`; 0: absent. */
static int find_record(const struct torch_file *f, const char *name, struct torch_record *out,
                       struct err *err)
{
    const char *e = f->list, *end = f->list + f->list_bytes;
    char local[LOCAL];

    for (uint64_t i = 0, size; i < f->records; i++, e += size) {
        if (end - e < ENTRY || memcmp(e, "PK\1\2", 4))
            return refuse_zip(f, err);
        uint64_t n = io_le(e + 28, 2), extra = io_le(e + 30, 2), need = strlen(name);
        uint64_t value[3] = {io_le(e + 24, 4), io_le(e + 20, 4), io_le(e + 42, 4)};
        size = ENTRY + n + extra + io_le(e + 32, 2);
        if (size > (uint64_t)(end - e))
            return refuse_zip(f, err);
        const char *slash = memchr(e + ENTRY, '/', n);
        if (!slash || (uint64_t)(e + ENTRY + n - slash - 1) != need ||
            memcmp(slash + 1, name, need))
            continue;
        read_wide(e + ENTRY + n, extra, value);
        if (io_le(e + 10, 2) || value[0] != value[1] ||
            read_at(f, value[2], LOCAL, local, err) || memcmp(local, "PK\3\4", 4))
            return refuse_zip(f, err);
        uint64_t at = value[2] + LOCAL + io_le(local + 26, 2) + io_le(local + 28, 2);
        if (value[0] > (uint64_t)f->bytes || at > (uint64_t)f->bytes - value[0])
            return refuse_zip(f, err);
        *out = (struct torch_record){f->first + (int64_t)at, (int64_t)value[0],
                                     (uint32_t)io_le(e + 16, 4)};
        return 1;
    }
    return 0;
}

static int check_crc(const struct torch_record *r, uint32_t crc, struct err *err)
{
    if (!r->crc || crc == r->crc)
        return 0;
    return err_set(err, ERR_INPUT,
                   "%" PRId64 " bytes at %" PRId64 " are damaged: checksum %08" PRIx32
                   ", expected %08" PRIx32,
                   r->bytes, r->first, crc, r->crc);
}

int torch_check_record(int fd, const struct torch_record *r, struct err *err)
{
    char *part;
    uint32_t crc = 0;
    int rc = 0;

    if (!r->crc)
        return 0;
    part = mem_new(CHECK_BYTES, 1);
    for (int64_t at = 0, n; rc == 0 && at < r->bytes; at += n) {
        n = r->bytes - at < CHECK_BYTES ? r->bytes - at : CHECK_BYTES;
        rc = io_pread_all(fd, part, n, r->first + at, err);
        crc = rc ? 0 : (uint32_t)crc32_z(crc, (const unsigned char *)part, (size_t)n);
    }
    mem_free(part);
    return rc ? rc : check_crc(r, crc, err);
}

/* Reads a whole record and compares its checksum. */
static int read_record(const struct torch_file *f, const struct torch_record *r, char *out,
                       struct err *err)
{
    if (io_pread_all(f->fd, out, r->bytes, r->first, err) ||
        check_crc(r, (uint32_t)crc32_z(0, (const unsigned char *)out, (size_t)r->bytes), err))
        return err_prefix(err, "%s: ", f->path);
    return 0;
}

static int torch_read_value(struct torch_file *f, uint64_t most, struct err *err)
{
    struct torch_record value, byteorder = {0};
    char order[6] = "little";

    if (find_record(f, "data.pkl", &value, err) <= 0 || (uint64_t)value.bytes > most ||
        find_record(f, "byteorder", &byteorder, err) < 0)
        return refuse_zip(f, err);
    if (byteorder.bytes == sizeof order && read_record(f, &byteorder, order, err))
        return -1;
    if ((byteorder.bytes && byteorder.bytes != sizeof order) || memcmp(order, "little", 6))
        return REFUSE(f, "was saved on a big-endian machine");
    f->text = mem_new((size_t)value.bytes + 1, 1);
    return err_any(read_record(f, &value, f->text, err) ||
                   pickle_read(&f->pickle, f->path, f->text, value.bytes, err));
}

int torch_file_open(struct torch_file *f, struct io_id *id, int64_t most, struct err *err)
{
    int64_t all = 0;
    int rc = 0;

    if (io_open_same(f->path, id, &f->fd, &all, err))
        return -1;
    f->bytes = f->bytes < 0 ? all - f->first : f->bytes;
    rc = io_check_pointer(f->fd, f->path, all, err);
    if (rc == 0 && (f->first > all || f->bytes > all - f->first))
        rc = REFUSE(f, "has %" PRId64 " bytes, expected %" PRId64 " from byte %" PRId64 " on",
                    all, f->bytes, f->first);
    rc = err_any(rc || torch_read_list(f, (uint64_t)most, err) ||
                 torch_read_value(f, (uint64_t)most, err));
    if (rc)
        torch_file_close(f);
    return rc;
}

void torch_file_close(struct torch_file *f)
{
    close(f->fd);
    pickle_release(&f->pickle);
    mem_free(f->list);
    mem_free(f->text);
}

/* --- tensors --- */

int torch_size(const struct pickle *v, int64_t size[ST_DIMS_MAX], int *dims)
{
    const struct pickle *args = pickle_call(v, "Size");

    v = args ? pickle_at(args, 0) : v;
    if (!v || v->kind != PICKLE_LIST || v->n > ST_DIMS_MAX)
        return -1;
    for (*dims = 0; *dims < v->n; ++*dims) {
        size[*dims] = v->item[*dims]->n;
        if (v->item[*dims]->kind != PICKLE_INT || size[*dims] < 0)
            return -1;
    }
    return 0;
}

/* Returns the type of ("storage", class, key, device, elements), or -1, and finds the key's
   record. */
static int find_storage(const struct torch_file *f, const struct pickle *v,
                        struct torch_record *out, struct err *err)
{
    static const char *const types[][2] = {{"FloatStorage", "F32"}, {"BFloat16Storage", "BF16"},
                                           {"HalfStorage", "F16"},  {"DoubleStorage", "F64"},
                                           {"LongStorage", "I64"},  {"IntStorage", "I32"},
                                           {"ShortStorage", "I16"}, {"CharStorage", "I8"},
                                           {"ByteStorage", "U8"},   {"BoolStorage", "BOOL"}};
    const struct pickle *id = v && v->kind == PICKLE_REF ? v->item[0] : NULL;
    char *key = pickle_text(pickle_at(id, 2)), name[64];
    int type = -1;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (pickle_is(pickle_at(id, 1), PICKLE_NAME, types[i][0]))
            type = st_type_parse(types[i][1]);
    snprintf(name, sizeof name, "data/%.50s", key ? key : "");
    mem_free(key);
    return find_record(f, name, out, err) > 0 ? type : -1;
}

/* _rebuild_tensor_v2(storage, its first element, shape, strides, ...) */
int torch_file_tensor(const struct torch_file *f, const struct pickle *v, struct st_tensor *out,
                      struct torch_record *record, struct err *err)
{
    const struct pickle *wrapped = pickle_call(v, "_rebuild_parameter");
    const struct pickle *args =
        pickle_call(wrapped ? pickle_at(wrapped, 0) : v, "_rebuild_tensor_v2");
    const struct pickle *first = pickle_at(args, 1);
    struct st_tensor t = {.elems = 1};
    int64_t stride[ST_DIMS_MAX];
    struct torch_record data = {0};
    int dims = 0;

    t.type = find_storage(f, pickle_at(args, 0), &data, err);
    int good = t.type >= 0 && first && first->kind == PICKLE_INT && first->n >= 0 &&
               torch_size(pickle_at(args, 2), t.shape, &t.dims) == 0 &&
               torch_size(pickle_at(args, 3), stride, &dims) == 0 && dims == t.dims;
    for (int d = dims; good && d-- > 0;)
        good = (t.shape[d] <= 1 || t.elems == 0 || stride[d] == t.elems) &&
               !__builtin_mul_overflow(t.elems, t.shape[d], &t.elems);
    if (!good || __builtin_add_overflow(first->n, t.elems, &t.last) ||
        t.last > data.bytes / st_type_bytes(t.type))
        return REFUSE(f, "has no tensor whose elements are stored whole and in order");
    t.first = data.first + first->n * st_type_bytes(t.type);
    t.last = data.first + t.last * st_type_bytes(t.type);
    *out = t;
    *record = data;
    return 0;
}

int torch_file_number(const struct torch_file *f, const struct pickle *v, int64_t *out,
                      struct err *err)
{
    struct torch_record record;
    struct st_tensor t;
    enum dtype type = DTYPE_F32;
    unsigned char bytes[8] = {0};
    double value = 0;

    *out = v && v->kind == PICKLE_INT ? v->n : -1;
    if (v && v->kind == PICKLE_INT)
        return 0;
    if (v && v->kind == PICKLE_NONE)
        return REFUSE(f, "has neither a whole number nor a tensor of one element");
    if (torch_file_tensor(f, v, &t, &record, err))
        return -1;
    if (t.elems != 1)
        return REFUSE(f, "has a tensor of %" PRId64 " elements, expected one", t.elems);
    if (torch_check_record(f->fd, &record, err) ||
        io_pread_all(f->fd, bytes, t.last - t.first, t.first, err))
        return err_prefix(err, "%s: ", f->path);
    *out = (int64_t)io_le64(bytes);
    if (st_type_is_float(t.type) && st_type_dtype(t.type, &type) == 0) {
        dtype_convert(&value, DTYPE_F64, bytes, type, 1);
        *out = value >= 0 && value <= 1e18 ? (int64_t)value : -1;
    } else if (st_type_name(t.type)[0] == 'I') { /* sign-extends the shorter types */
        const int unused = 64 - 8 * st_type_bytes(t.type);
        *out = (int64_t)((uint64_t)*out << unused) >> unused;
    }
    return 0;
}
