/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests safetensors: files written by the Python library read as they are, files that we write
 * read back, and a folder of broken headers, each with its message (tests/data/safetensors,
 * made by tests/reference/make_safetensors.py).  What a tree has is compared in
 * safetensors_fuzz.c.
 */
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "ckpt/ckpt_safetensors.h"
#include "temp_fixture.h"
#include "words_fixture.h"

#define DATA "tests/data/safetensors/"

TEST(test_python_file)
{
    struct st st;
    float f[6];
    uint16_t h[3];
    double d;
    int64_t i;
    char shape[64];

    assert_int_equal(st_open(&st, DATA "torch.safetensors", NULL, &err), 0);
    assert_int_equal(st.count, 8);
    assert_int_equal(st_read(&st, st_find(&st, "f32"), 0, sizeof f, f, &err), 0);
    for (int k = 0; k < 6; k++)
        assert_true(f[k] == (float)k / 4);
    assert_int_equal(st_read(&st, st_find(&st, "f32"), 4, 8, f, &err), 0); /* a part */
    assert_true(f[0] == 0.25f && f[1] == 0.5f);
    assert_int_equal(st_read(&st, st_find(&st, "bf16"), 0, sizeof h, h, &err), 0);
    assert_true(dtype_f32_of_bf16(h[1]) == -2.5f);
    assert_int_equal(st_read(&st, st_find(&st, "f16"), 0, 4, h, &err), 0);
    assert_true(dtype_f32_of_f16(h[1]) == 65504.0f);
    assert_int_equal(st_read(&st, st_find(&st, "f64"), 0, 8, &d, &err), 0);
    assert_true(d == 1e300);
    assert_int_equal(st_read(&st, st_find(&st, "i64"), 0, 8, &i, &err), 0);
    assert_true(i == ((int64_t)1 << 53) + 1);
    st_print_shape(st_find(&st, "none"), shape, sizeof shape);
    assert_string_equal(shape, "F32 [0, 4]");
    assert_int_equal(st_find(&st, "f64")->dims, 0);
    assert_null(st_find(&st, "f3"));
    st_release(&st);
    assert_int_equal(st_open(&st, DATA "numpy.safetensors", NULL, &err), 0);
    assert_int_equal(st.count, 7);
    assert_int_equal(st_find(&st, "t7")->shape[0], 7);
    st_release(&st);
    assert_int_equal(st_open(&st, DATA "nothing.safetensors", NULL, &err), 0);
    assert_int_equal(st.count, 0);
    assert_null(st_find(&st, "a"));
    st_release(&st);
}

/* The folder of broken headers: NAME.txt has the key words of the message, @ for the path. */
TEST(test_broken)
{
    DIR *d = opendir(DATA "broken");
    int seen = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char *dot = strstr(e->d_name, ".safetensors"), *want = NULL, text[256], got[1024];
        struct st st;
        int64_t bytes = 0;
        if (!dot)
            continue;
        char *path = io_join(DATA "broken", e->d_name);
        snprintf(text, sizeof text, DATA "broken/%.*s.txt", (int)(dot - e->d_name), e->d_name);
        assert_int_equal(io_read_text(text, 4096, &want, &bytes, &err), 0);
        want[strcspn(want, "\n")] = 0;
        assert_true(want[0] == '@' && want[1] == ':');
        assert_int_equal(st_open(&st, path, NULL, &err), -1);
        snprintf(got, sizeof got, "%s%s", path, want + 1);
        assert_words(err.text, got);
        assert_true(err.code == ERR_INPUT);
        mem_free(want);
        mem_free(path);
        seen++;
    }
    closedir(d);
    assert_int_equal(seen, 62);
}

/* Texts that a limit refuses, with the option that raises it; and those that one more lets
   through. */
TEST(test_limits)
{
    static const char two[] = "{\"ab\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                              "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}";
    int64_t n = sizeof two - 1;
    static const struct {
        struct ckpt_limits less; /* what it takes from the least that lets it through */
        const char *words;
    } cases[] = {
        {{.header_bytes = 1}, "x: header 104 bytes, 103 (--max-header)"},
        {{.tensors = 1}, "x: header 1 tensors (--max-tensors)"},
        {{.name_bytes = 1}, "x: name 2 bytes, 1 (--max-name)"},
    };
    char head[8 + sizeof two];
    struct st st;

    assert_int_equal(n, 104);
    io_put_le64((unsigned char *)head, (uint64_t)n);
    memcpy(head + 8, two, sizeof two);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ckpt_limits l = {.header_bytes = n, .tensors = 2, .name_bytes = 2};
        assert_int_equal(st_parse(&st, "x", head, n + 7, n + 10, &l, &err), -1);
        assert_string_equal(err.text, "x: header ends at byte 111, expected 112");
        assert_int_equal(st_parse(&st, "x", head, n + 8, n + 10, &l, &err), 0);
        st_release(&st);
        l.header_bytes -= cases[i].less.header_bytes;
        l.tensors -= cases[i].less.tensors;
        l.name_bytes -= cases[i].less.name_bytes;
        assert_int_equal(st_parse(&st, "x", head, n + 8, n + 10, &l, &err), -1);
        assert_words(err.text, cases[i].words);
        assert_true(err.code == ERR_INPUT);
    }
}

static int64_t peak_kib(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

/*
 * A million tensors, as many as are let through, in a header of 59 MB: less than 10 times it.
 * The struct (176 bytes), the name (32 with what malloc needs) and the pointer (8), 216 of an
 * entry's 59 bytes, and the header itself; the array doubles, so that half as much again may be
 * there while it grows.
 */
TEST(test_million)
{
    enum { COUNT = 1000000, ENTRY = 80 };
    char *head = mem_new(8 + (size_t)COUNT * ENTRY, 1);
    int64_t used = 8;
    struct st st;

    for (int i = 0; i < COUNT; i++)
        used += sprintf(head + used,
                        "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                        i ? ',' : '{', i);
    used += sprintf(head + used, "}");
    io_put_le64((unsigned char *)head, (uint64_t)used - 8);
    int64_t before = peak_kib();
    assert_int_equal(st_parse(&st, "x", head, used, used, NULL, &err), 0);
    assert_int_equal(st.count, COUNT);
    assert_non_null(st_find(&st, "999999"));
    print_message("%" PRId64 " KiB for a header of %" PRId64 "\n", peak_kib() - before,
                  used / 1024);
    if (!getenv("SAN"))
        assert_true((peak_kib() - before) * 1024 < 10 * used);
    st_release(&st);
    mem_free(head);
}

TEST(test_write)
{
    struct st_tensor t[] = {
        {.name = "a.\"quoted\"", .type = st_type_of(DTYPE_F32), .dims = 2, .shape = {2, 3}},
        {.name = "empty", .type = st_type_of(DTYPE_F32), .dims = 1, .shape = {0}},
        {.name = "half", .type = st_type_of(DTYPE_BF16), .dims = 1, .shape = {5}},
    };
    char *head = NULL;
    int64_t bytes = 0;
    struct st st;

    st_header(t, 3, &head, &bytes);
    assert_int_equal(bytes % 8, 0);
    assert_int_equal(t[2].last, 34);
    assert_int_equal(st_parse(&st, "x", head, bytes, bytes + 34, NULL, &err), 0);
    assert_int_equal(st.count, 3);
    assert_int_equal(st_find(&st, "half")->first, 24);
    assert_int_equal(st_find(&st, "a.\"quoted\"")->shape[1], 3);
    st_release(&st);
    /* One byte less or more of data than the tensors have. */
    assert_int_equal(st_parse(&st, "x", head, bytes, bytes + 33, NULL, &err), -1);
    assert_int_equal(st_parse(&st, "x", head, bytes, bytes + 35, NULL, &err), -1);
    mem_free(head);
}

/* Every cut of a good file is refused; so is most of what a changed header byte makes. */
TEST(test_cut)
{
    char *text = NULL, path[TEMP_PATH];
    int64_t bytes = 0;
    struct st st;
    int fd = temp_file(path, "paro-st");

    assert_int_equal(io_read_text(DATA "torch.safetensors", 1 << 20, &text, &bytes, &err), 0);
    assert_int_equal(io_pwrite_all(fd, text, bytes, 0, &err), 0);
    for (int64_t n = bytes - 1; n >= 0; n--) {
        assert_int_equal(ftruncate(fd, n), 0);
        assert_int_equal(st_open(&st, path, NULL, &err), -1);
    }
    for (int64_t i = 0; i < bytes; i++) { /* must not crash, whatever it answers */
        text[i] = (char)(text[i] ^ 4);
        if (st_parse(&st, "x", text, bytes, bytes, NULL, &err) == 0)
            st_release(&st);
        text[i] = (char)(text[i] ^ 4);
    }
    close(fd);
    unlink(path);
    mem_free(text);
}

/* A real file from another tool, where the machine has it. */
TEST(test_real_file)
{
    static const char path[] = "../shared/data/tensor-files/multi_layer.safetensors";
    struct st st;

    if (access(path, R_OK)) {
        print_message("no %s here\n", path);
        skip();
    }
    assert_int_equal(st_open(&st, path, NULL, &err), 0);
    assert_int_equal(st.count, 9);
    assert_int_equal(st_find(&st, "fc1.weight")->elems, 16 * 256);
    assert_int_equal(st_find(&st, "norm1.num_batches_tracked")->dims, 0);
    st_release(&st);
}
