/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of JSON Lines: plain ones, and what gzip and zstd packed. */
#include "reader_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "data/data_jsonl.h"

/* A file in memory by its path, whose name is not FUZZ_NAME: jsonl's own is set to it. */
static int open_bytes(struct jsonl *j, const uint8_t *data, size_t bytes, int *fd,
                      struct err *err)
{
    char path[40];

    *fd = memfd_create("lines", 0);
    assert(*fd >= 0 && write(*fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    if (jsonl_open(j, path, err))
        return -1;
    j->path = FUZZ_NAME;
    return 0;
}

/* 0: a line is wrong, or the file is damaged, after some good documents. */
int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct jsonl j;
    struct err err = {0};
    int fd, rc = open_bytes(&j, data, bytes, &fd, &err);
    int64_t documents = 0;

    assert(rc == 0);
    while ((rc = jsonl_next(&j, &err)) > 0) {
        documents++;
        assert(j.messages >= 1 && documents <= j.line);
        for (int i = 0; i < j.messages; i++) {
            const struct jsonl_message *m = &j.message[i];
            assert(m->text && m->text[m->bytes] == 0);
            assert(m->role ? 1 : j.messages == 1);
        }
    }
    assert(rc == 0 || strlen(err.text) > 0);
    jsonl_close(&j);
    close(fd);
    return rc == 0 && documents > 0;
}

static const char chats[] =
    "{\"text\": \"a\\u00e9 \\ud83d\\ude00\\n\"}\n\n{\"messages\": [{\"role\": \"user\", "
    "\"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"\", \"x\": [1, {}]}], "
    "\"n\": null}\n{\"id\": -1.5e3, \"text\": \"\"}";
static const char trainers[] =
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}], \"system\": \"s\"}\n"
    "{\"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\"}\n"
    "{\"prompt\": \"p\", \"completion\": [{\"role\": \"a\", \"content\": [{\"type\": \"text\", "
    "\"text\": \"b\"}, {\"text\": \"\"}], \"tool_calls\": []}]}\n";
static const char one[] = "{\"text\":\"\\u0000\"}\r\n";
/* "{"text":"abc"}\n" by gzip -n, and by zstd. */
static const char gzip[] =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x4a"
    "\x4c\x4a\x56\xaa\xe5\x02\x00\xaf\x49\xe2\xfa\x0f\x00\x00\x00";
static const char zstd[] =
    "\x28\xb5\x2f\xfd\x04\x58\x79\x00\x00\x7b\x22\x74\x65\x78\x74\x22\x3a\x22\x61\x62"
    "\x63\x22\x7d\x0a\x02\xa3\x8c\xf1";

FUZZ_SET(.name = "jsonl", .cases = 20000, .ends = "{}[]:,\"\n ",
         .words = FUZZ_LIST("text", "messages", "role", "content", "user", "prompt", "input",
                            "output", "conversations", "value", "tool_calls", "\\ud800",
                            "\\u0000", "null", "1e400", "[[[[", "\xff", "\x28\xb5\x2f\xfd",
                            "\x1f\x8b\x08"),
         .text = {FUZZ_TEXT(chats), FUZZ_TEXT(trainers), FUZZ_TEXT(one), FUZZ_TEXT(gzip),
                  FUZZ_TEXT(zstd)});
