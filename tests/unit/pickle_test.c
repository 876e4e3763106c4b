/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests pickles against Python's: the bytes are what pickle.dumps wrote of the values in the
 * comments, or what a program could write that means no good.
 */
#include "unit.h"

#include "ckpt/ckpt_pickle.h"

#define READ(f, text) pickle_read(f, "file", text, sizeof(text) - 1, &err)

/* The error names the file and has the words. */
#define REFUSES(pickle, words)                                                                 \
    do {                                                                                       \
        struct pickle_file f;                                                                  \
        err = (struct err){0};                                                                 \
        assert_int_equal(READ(&f, pickle), -1);                                                \
        assert_int_equal(err.code, ERR_INPUT);                                                 \
        if (!strstr(err.text, words) || strncmp(err.text, "file: ", 6))                        \
            fail_msg("no '%s' in: %s", words, err.text);                                       \
    } while (0)

static int64_t number(const struct pickle *v)
{
    assert_true(v && v->kind == PICKLE_INT);
    return v->n;
}

TEST(values_are_read_as_python_wrote_them)
{
    struct pickle_file f;

    /* dumps({'a': (1, -2, 300, 70000, 1 << 40, -1 << 40, True), 'b': [1.5, None, 'x']}, 4) */
    assert_int_equal(
        READ(&f, "\x80\4\x95\x3a\0\0\0\0\0\0\0}\x94(\x8c\1a\x94(K\1J\xfe\xff\xff\xffM\x2c\1J"
                 "\x70\x11\1\0\x8a\6\0\0\0\0\0\1\x8a\6\0\0\0\0\0\xff\x88t\x94\x8c\1b\x94]\x94"
                 "(G?\xf8\0\0\0\0\0\0N\x8c\1x\x94"
                 "eu."),
        0);
    const struct pickle *a = pickle_get(f.root, "a"), *b = pickle_get(f.root, "b");
    static const int64_t want[] = {1, -2, 300, 70000, INT64_C(1) << 40, -(INT64_C(1) << 40), 1};
    for (int64_t i = 0; i < 7; i++)
        assert_int_equal(number(pickle_at(a, i)), want[i]);
    assert_null(pickle_at(a, 7));
    assert_int_equal(b->n, 3);
    char *x = pickle_text(pickle_at(b, 2));
    assert_string_equal(x, "x");
    mem_free(x);
    assert_null(pickle_text(a));
    assert_null(pickle_get(f.root, "c"));
    pickle_release(&f);
}

TEST(a_call_is_recorded)
{
    struct pickle_file f;

    /* dumps((torch.Size([2, 3]),) * 2, 2), then an object with a state */
    assert_int_equal(READ(&f, "\x80\2ctorch\nSize\nq\0K\2K\3\x86q\1\x85q\2Rq\3h\3\x86q\4."), 0);
    const struct pickle *args = pickle_call(pickle_at(f.root, 0), "Size");
    assert_int_equal(number(pickle_at(pickle_at(args, 0), 1)), 3);
    assert_ptr_equal(pickle_at(f.root, 0), pickle_at(f.root, 1));
    assert_null(pickle_call(pickle_at(f.root, 0), "Metadata"));
    pickle_release(&f);
    assert_int_equal(READ(&f, "\x80\4\x8c\x25torch.distributed.checkpoint.metadata\x8c\r"
                              "MetadataIndex\x93)\x81}\x8c\3fqn\x8c\1wsb."),
                     0);
    assert_true(pickle_is(pickle_get(f.root, "fqn"), PICKLE_TEXT, "w"));
    pickle_release(&f);
}

TEST(no_other_name_is_taken)
{
    REFUSES("cos\nsystem\n(\x8c\4true\x85R.", "'os.system'");
    REFUSES("\x8c\5posix\x8c\6system\x93.", "'posix.system'");
    REFUSES("cbuiltins\neval\n.", "'builtins.eval'");
    REFUSES("ctorch\nSize float32\n.", "'torch.Size float32'");
    REFUSES("ctorch\n\n.", "'torch.'");
    REFUSES("ctorch.serialization\nSize\n.", "'torch.serialization.Size'");
}

TEST(no_other_operation_is_taken)
{
    REFUSES("i", "operation 0x69 at byte 0");
    REFUSES("\x82\1.", "operation 0x82");
    REFUSES("\x80\6N.", "protocol 6");
}

TEST(what_is_cut_or_lacks_operands_is_refused)
{
    REFUSES("", "ends at byte 0");
    REFUSES("X\xff\xff\xff\xff", "ends at byte 5");
    REFUSES("\x8c\2a", "ends at byte 3");
    REFUSES("ctorch\nSize", "ends within a name");
    REFUSES(".", "operands");
    REFUSES("NN.", "operands");
    REFUSES("(.", "operands");
    REFUSES("}Na.", "operands");
    REFUSES("Na.", "operands");
    REFUSES("N(u.", "operands");
    REFUSES("NR.", "operands");
    REFUSES("NNb.", "operands");
    REFUSES("t.", "operands");
    REFUSES("\x87.", "operands");
    REFUSES("\x8a\x09.........", "9 bytes");
}

TEST(the_memo_is_bounded_by_the_text)
{
    REFUSES("Nr\xff\xff\xff\x7f.", "memo number 2147483647");
    REFUSES("h\0.", "no memo number 0");
    REFUSES("(q\0.", "operands");
}

TEST(nesting_and_sharing_cost_what_the_text_has)
{
    enum { DEEP = 1000000, DOUBLED = 1000 };
    struct pickle_file f;
    char *text = mem_new(DEEP + 2, 1);

    text[0] = ')';
    memset(text + 1, 0x85, DEEP); /* ((((...),),),) */
    text[DEEP + 1] = '.';
    assert_ok(pickle_read(&f, "file", text, DEEP + 2, &err));
    pickle_release(&f);
    for (int i = 0; i < DOUBLED; i++) /* each is twice the one before */
        memcpy(text + 1 + 5 * i, "q\0h\0\x86", 5);
    text[1 + 5 * DOUBLED] = '.';
    assert_ok(pickle_read(&f, "file", text, 2 + 5 * DOUBLED, &err));
    assert_int_equal(f.count, DOUBLED + 1);
    pickle_release(&f);
    mem_free(text);
}
