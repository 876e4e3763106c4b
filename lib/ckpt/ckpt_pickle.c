/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the operations of a pickle: a program for a machine with one stack and a memo of
 * numbered values.
 *
 *     PROTO 2  EMPTY_DICT  BINPUT 0  BINUNICODE "step"  BININT1 20  SETITEM  STOP
 *
 * Reference: pickletools of Python's library.
 */
#include "ckpt/ckpt_pickle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

/* The names that checkpoints contain, by module; none of them is called. */
static const char *const names[][2] = {
    {"torch.distributed.checkpoint.metadata",
     " Metadata TensorStorageMetadata BytesStorageMetadata ChunkStorageMetadata"
     " TensorProperties _MEM_FORMAT_ENCODING MetadataIndex StorageMeta "},
    {"torch.distributed.checkpoint.filesystem", " _StorageInfo "},
    {"torch.serialization", " _get_layout "},
    {"torch._utils", " _rebuild_tensor_v2 _rebuild_parameter "},
    {"torch", " Size float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool"
              " FloatStorage BFloat16Storage HalfStorage DoubleStorage LongStorage IntStorage"
              " ShortStorage CharStorage ByteStorage BoolStorage "},
    {"collections", " OrderedDict "},
    {"builtins", " getattr "}, /* member of an enumeration, in Python 3.11 */
    {"pathlib", " PosixPath PurePosixPath "},
    {"pathlib._local", " PosixPath PurePosixPath "}};

struct vm {
    const char *name;
    const unsigned char *text;
    int64_t at, bytes, op; /* op: start of the operation */
    struct pickle_file *file;
    struct pickle **stack, **memo;
    int64_t depth, memos; /* memos: operations that filled the memo */
    size_t stack_space, memo_space, memo_used;
    struct err *err;
};

enum { KEYS_MAX = 1000 }; /* keys of an object or of a file's value; real ones have dozens */

#define REFUSE(vm, ...) err_at((vm)->err, (vm)->name, 0, NULL, __VA_ARGS__)

static int refuse_stack(struct vm *vm)
{
    return REFUSE(vm, "operation 0x%02x at byte %" PRId64 " of the pickle lacks its operands",
                  vm->text[vm->op], vm->op);
}

/* --- the stack --- */

static struct pickle *push(struct vm *vm, struct pickle *v)
{
    vm->stack = mem_grow(vm->stack, &vm->stack_space, (size_t)vm->depth + 1, sizeof *vm->stack);
    return vm->stack[vm->depth++] = v;
}

static struct pickle *new_value(struct vm *vm, enum pickle_kind kind)
{
    struct pickle_file *f = vm->file;
    struct pickle *v = mem_new(1, sizeof *v);

    v->kind = kind;
    f->value = mem_grow(f->value, &f->space, (size_t)f->count + 1, sizeof *f->value);
    return f->value[f->count++] = v;
}

static struct pickle *push_new(struct vm *vm, enum pickle_kind kind)
{
    return push(vm, new_value(vm, kind));
}

static void pickle_add_item(struct pickle *v, struct pickle *item)
{
    size_t space = v->space;

    v->item = mem_grow(v->item, &space, (size_t)v->n + 1, sizeof *v->item);
    v->space = (unsigned)space;
    v->item[v->n++] = item;
}

/* Pops the top n values, or with n 0 those above the last mark and the mark; NULL: too few. */
static struct pickle **pickle_pop(struct vm *vm, int n, int64_t *count)
{
    int64_t first = vm->depth;

    while (first > 0 && (n == 0 || vm->depth - first < n) &&
           vm->stack[first - 1]->kind != PICKLE_MARK)
        first--;
    *count = vm->depth - first;
    if (n ? *count < n : first == 0)
        return NULL;
    vm->depth = first - (n == 0);
    return vm->stack + first;
}

/* --- arguments in the text --- */

static const unsigned char *pickle_take(struct vm *vm, uint64_t bytes)
{
    const unsigned char *p = vm->text + vm->at;

    if (bytes > (uint64_t)(vm->bytes - vm->at)) {
        REFUSE(vm, "the pickle ends at byte %" PRId64 " within an operation", vm->bytes);
        return NULL;
    }
    vm->at += (int64_t)bytes;
    return p;
}

static int pickle_take_number(struct vm *vm, int bytes, uint64_t *out)
{
    const unsigned char *p = pickle_take(vm, (uint64_t)bytes);

    *out = p ? io_le(p, bytes) : 0;
    return p ? 0 : -1;
}

/* --- operations --- */

static int op_protocol(struct vm *vm, int most)
{
    uint64_t n = 0;

    if (pickle_take_number(vm, 1, &n))
        return -1;
    return n <= (uint64_t)most ? 0 : REFUSE(vm, "has pickle protocol %d", (int)n);
}

static int op_skip(struct vm *vm, int bytes)
{
    return pickle_take(vm, (uint64_t)bytes) ? 0 : -1;
}

static int op_new(struct vm *vm, int kind)
{
    push_new(vm, (enum pickle_kind)kind);
    return 0;
}

static int op_bool(struct vm *vm, int value)
{
    push_new(vm, PICKLE_INT)->n = value;
    return 0;
}

static int op_real(struct vm *vm, int bytes)
{
    const unsigned char *p = pickle_take(vm, (uint64_t)bytes);
    struct pickle *v = push_new(vm, PICKLE_NONE);

    v->text = (const char *)p;
    v->n = p ? bytes : 0;
    return p ? 0 : -1;
}

/* An integer of |bytes| bytes, signed unless bytes > 0; 0: its size, a byte, comes first. */
static int op_int(struct vm *vm, int bytes)
{
    uint64_t n = (uint64_t)(bytes < 0 ? -bytes : bytes), bits = 0;

    if (bytes == 0 && pickle_take_number(vm, 1, &n))
        return -1;
    if (n > 8)
        return REFUSE(vm, "has a whole number of %" PRIu64 " bytes, expected at most 8", n);
    if (pickle_take_number(vm, (int)n, &bits))
        return -1;
    if (bytes <= 0 && n && n < 8 && bits >> (8 * n - 1))
        bits |= ~UINT64_C(0) << 8 * n;
    push_new(vm, PICKLE_INT)->n = (int64_t)bits;
    return 0;
}

static int op_text(struct vm *vm, int length_bytes)
{
    uint64_t n = 0;
    const unsigned char *p =
        pickle_take_number(vm, length_bytes, &n) ? NULL : pickle_take(vm, n);

    if (!p)
        return -1;
    struct pickle *v = push_new(vm, PICKLE_TEXT);
    v->text = (const char *)p;
    v->n = (int64_t)n;
    return 0;
}

/* Combines n values, or with n 0 those above the mark, into a new value. */
static int pickle_gather(struct vm *vm, int n, enum pickle_kind kind)
{
    int64_t count = 0;
    struct pickle **from = pickle_pop(vm, n, &count), *v;

    if (!from)
        return refuse_stack(vm);
    v = new_value(vm, kind);
    v->space = (unsigned)count + 1; /* a state may be added */
    v->item = mem_new(v->space, sizeof *v->item);
    v->n = count;
    memcpy(v->item, from, (size_t)count * sizeof *from);
    push(vm, v);
    return 0;
}

static int op_tuple(struct vm *vm, int n)
{
    return pickle_gather(vm, n, PICKLE_LIST);
}

static int op_ref(struct vm *vm, int n)
{
    return pickle_gather(vm, n, PICKLE_REF);
}

/* Records a call.  An OrderedDict is a dictionary. */
static int op_call(struct vm *vm, int n)
{
    if (pickle_gather(vm, n, PICKLE_OBJECT))
        return -1;
    struct pickle *v = vm->stack[vm->depth - 1];
    if (v->item[0]->kind != PICKLE_NAME || v->item[1]->kind != PICKLE_LIST)
        return refuse_stack(vm);
    if (pickle_is(v->item[0], PICKLE_NAME, "OrderedDict"))
        vm->stack[vm->depth - 1] = new_value(vm, PICKLE_DICT);
    return 0;
}

/* Moves n values, or those above the mark, to the end of what lies below them. */
static int op_add(struct vm *vm, int n)
{
    int64_t count = 0;
    struct pickle **from = pickle_pop(vm, n, &count),
                  *v = from && vm->depth ? from[-1 - !n] : NULL;

    if (!v || vm->depth == 0 ||
        !(v->kind == PICKLE_LIST || (v->kind == PICKLE_DICT && count % 2 == 0)))
        return refuse_stack(vm);
    for (int64_t i = 0; i < count; i++)
        pickle_add_item(v, from[i]);
    return 0;
}

/* Sets the state of an object; a dictionary's state is ignored. */
static int op_build(struct vm *vm, int n)
{
    int64_t count = 0;
    struct pickle **from = pickle_pop(vm, n, &count), *v = from && vm->depth ? from[-1] : NULL;

    if (!v || (v->kind != PICKLE_DICT && (v->kind != PICKLE_OBJECT || v->n != 2)))
        return refuse_stack(vm);
    if (v->kind == PICKLE_OBJECT)
        pickle_add_item(v, *from);
    return 0;
}

static int push_name(struct vm *vm, const char *module, int64_t m, const char *name, int64_t n)
{
    char word[64];

    snprintf(word, sizeof word, " %.*s ", n < 61 ? (int)n : 61, name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if ((int64_t)strlen(names[i][0]) != m || memcmp(names[i][0], module, (size_t)m) ||
            (int64_t)strlen(word) != n + 2 || strchr(word + 1, ' ') != word + n + 1 ||
            !strstr(names[i][1], word))
            continue;
        struct pickle *v = push_new(vm, PICKLE_NAME);
        v->text = name;
        v->n = n;
        return 0;
    }
    return REFUSE(vm,
                  "has the name '%.*s.%.*s', expected those that checkpoints consist of; "
                  "nothing was executed",
                  m < 60 ? (int)m : 60, module, n < 60 ? (int)n : 60, name);
}

/* Reads module and name, one line each. */
static int op_global(struct vm *vm, int unused)
{
    const char *module = (const char *)vm->text + vm->at;
    const char *end = memchr(module, '\n', (size_t)(vm->bytes - vm->at)), *last = NULL;

    (void)unused;
    if (end)
        last = memchr(end + 1, '\n', (size_t)((const char *)vm->text + vm->bytes - end - 1));
    if (!last)
        return REFUSE(vm, "the pickle ends within a name");
    vm->at = last + 1 - (const char *)vm->text;
    return push_name(vm, module, end - module, end + 1, last - end - 1);
}

static int op_stack_global(struct vm *vm, int n)
{
    int64_t count = 0;
    struct pickle **v = pickle_pop(vm, n, &count);

    if (!v || v[0]->kind != PICKLE_TEXT || v[1]->kind != PICKLE_TEXT)
        return refuse_stack(vm);
    return push_name(vm, v[0]->text, v[0]->n, v[1]->text, v[1]->n);
}

/* Stores to the memo; its number has `bytes` bytes, 0: the next number.  A number above the
   count of bytes read is invalid. */
static int op_put(struct vm *vm, int bytes)
{
    uint64_t number = (uint64_t)vm->memos++;
    int64_t count = 0;
    struct pickle **v = NULL;

    if ((bytes && pickle_take_number(vm, bytes, &number)) || !(v = pickle_pop(vm, 1, &count)) ||
        number > (uint64_t)vm->at)
        return v ? REFUSE(vm, "has memo number %" PRIu64 " at byte %" PRId64, number, vm->op)
                 : refuse_stack(vm);
    vm->depth++;
    vm->memo = mem_grow(vm->memo, &vm->memo_space, (size_t)number + 1, sizeof *vm->memo);
    while (vm->memo_used <= number)
        vm->memo[vm->memo_used++] = NULL;
    vm->memo[number] = *v;
    return 0;
}

static int op_get(struct vm *vm, int bytes)
{
    uint64_t number = 0;

    if (pickle_take_number(vm, bytes, &number))
        return -1;
    if (number >= vm->memo_used || !vm->memo[number])
        return REFUSE(vm, "has no memo number %" PRIu64 " at byte %" PRId64, number, vm->op);
    push(vm, vm->memo[number]);
    return 0;
}

static const struct {
    unsigned char code;
    int (*run)(struct vm *vm, int arg);
    int arg;
} operations[] = {{0x80, op_protocol, 5},
                  {0x95, op_skip, 8},
                  {'N', op_new, PICKLE_NONE},
                  {0x88, op_bool, 1},
                  {0x89, op_bool, 0},
                  {'J', op_int, -4},
                  {'K', op_int, 1},
                  {'M', op_int, 2},
                  {0x8a, op_int, 0},
                  {'G', op_real, 8},
                  {0x8c, op_text, 1},
                  {'X', op_text, 4},
                  {']', op_new, PICKLE_LIST},
                  {')', op_new, PICKLE_LIST},
                  {'}', op_new, PICKLE_DICT},
                  {'(', op_new, PICKLE_MARK},
                  {'t', op_tuple, 0},
                  {0x85, op_tuple, 1},
                  {0x86, op_tuple, 2},
                  {0x87, op_tuple, 3},
                  {'a', op_add, 1},
                  {'e', op_add, 0},
                  {'s', op_add, 2},
                  {'u', op_add, 0},
                  {'c', op_global, 0},
                  {0x93, op_stack_global, 2},
                  {'R', op_call, 2},
                  {0x81, op_call, 2},
                  {'b', op_build, 1},
                  {'Q', op_ref, 1},
                  {'q', op_put, 1},
                  {'r', op_put, 4},
                  {0x94, op_put, 0},
                  {'h', op_get, 1},
                  {'j', op_get, 4}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static int pickle_run(struct vm *vm)
{
    int64_t count = 0;

    for (;;) {
        int i = 0;
        vm->op = vm->at;
        const unsigned char *code = pickle_take(vm, 1);
        if (!code)
            return -1;
        if (*code == '.')
            break;
        while (i < OPERATIONS && operations[i].code != *code)
            i++;
        if (i == OPERATIONS)
            return REFUSE(vm,
                          "has operation 0x%02x at byte %" PRId64
                          " of the pickle, which no checkpoint needs",
                          *code, vm->op);
        if (operations[i].run(vm, operations[i].arg))
            return -1;
    }
    struct pickle **root = pickle_pop(vm, 1, &count);
    vm->file->root = root ? *root : NULL;
    return root && vm->depth == 0 ? 0 : refuse_stack(vm);
}

int pickle_read(struct pickle_file *f, const char *name, const char *text, int64_t bytes,
                struct err *err)
{
    struct vm vm = {.name = name,
                    .text = (const unsigned char *)text,
                    .bytes = bytes,
                    .file = f,
                    .err = err};
    int rc;

    *f = (struct pickle_file){0};
    rc = pickle_run(&vm);
    mem_free(vm.stack);
    mem_free(vm.memo);
    if (rc)
        pickle_release(f);
    return rc;
}

void pickle_release(struct pickle_file *f)
{
    for (int64_t i = 0; i < f->count; i++) {
        if (f->value[i]->space)
            mem_free(f->value[i]->item);
        mem_free(f->value[i]);
    }
    mem_free(f->value);
    *f = (struct pickle_file){0};
}

/* --- for readers --- */

int pickle_is(const struct pickle *v, enum pickle_kind kind, const char *text)
{
    return v && v->kind == kind && (int64_t)strlen(text) == v->n &&
           memcmp(v->text, text, (size_t)v->n) == 0;
}

const struct pickle *pickle_call(const struct pickle *v, const char *name)
{
    return v && v->kind == PICKLE_OBJECT && pickle_is(v->item[0], PICKLE_NAME, name)
               ? v->item[1]
               : NULL;
}

const struct pickle *pickle_get(const struct pickle *v, const char *key)
{
    if (v && v->kind == PICKLE_OBJECT)
        v = v->n > 2 ? v->item[2] : NULL;
    /* Bounds the search: an object with very many keys may be shared and searched again and
       again. */
    for (int64_t i = 0; v && v->kind == PICKLE_DICT && i < v->n && i < 2 * KEYS_MAX; i += 2)
        if (pickle_is(v->item[i], PICKLE_TEXT, key))
            return v->item[i + 1];
    return NULL;
}

double pickle_real(const struct pickle *v)
{
    uint64_t bits = 0;
    double real = NAN;

    /* Most significant byte first */
    for (int i = 0; v && v->kind == PICKLE_NONE && i < v->n; i++)
        bits = bits << 8 | (unsigned char)v->text[i];
    if (v && v->kind == PICKLE_NONE && v->n == sizeof bits)
        memcpy(&real, &bits, sizeof real);
    return real;
}

const struct pickle *pickle_at(const struct pickle *v, int64_t i)
{
    return v && v->kind == PICKLE_LIST && i < v->n ? v->item[i] : NULL;
}

char *pickle_text(const struct pickle *v)
{
    if (!v || v->kind != PICKLE_TEXT || memchr(v->text, 0, (size_t)v->n))
        return NULL;
    char *text = mem_new((size_t)v->n + 1, 1);
    memcpy(text, v->text, (size_t)v->n);
    return text;
}
