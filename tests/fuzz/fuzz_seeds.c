/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked to each NAME_fuzz.c: its seeds, and the entries of libFuzzer.  `NAME_fuzz --seeds
 * FOLDER` writes the seeds of each set to FOLDER/corpus/SET, its dictionary to FOLDER/SET.dict,
 * and prints lines "SET LONGEST". */
#include "reader_fuzz.h"

#include <sys/stat.h>

#include "base/io.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { WORD_MAX = 40 }; /* libFuzzer takes 64 bytes */

/* Of the set that is written. */
static const char *folder;
static const struct fuzz_set *writes;
static int written;
static FILE *dict;

void fuzz_add_seeds(const struct fuzz_set *set, fuzz_add_f *add)
{
    for (const char *const *path = set->files; path && *path; path++) {
        char *text = NULL;
        int64_t bytes = 0;
        struct err err;
        int rc = io_read_text(*path, FUZZ_MAX, &text, &bytes, &err);
        assert(rc == 0);
        add(text, (size_t)bytes);
        mem_free(text);
    }
    for (const struct fuzz_text *t = set->text; t->at; t++)
        add(t->at, t->bytes);
    if (set->more)
        set->more(add);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes <= FUZZ_MAX)
        reader_fuzz_case(data, bytes);
    return 0;
}

static void put_word(const char *word, size_t bytes)
{
    if (bytes == 0 || bytes > WORD_MAX)
        return;
    putc('"', dict);
    for (size_t i = 0; i < bytes; i++)
        if (word[i] < ' ' || word[i] > '~' || strchr("\"\\", word[i]))
            fprintf(dict, "\\x%02x", (unsigned char)word[i]);
        else
            putc(word[i], dict);
    fputs("\"\n", dict);
}

/* FOLDER/BEFORE SET AFTER, without the blanks. */
static const char *path_of(const char *before, const char *after)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s%s%s", folder, before, writes->name, after);
    return path;
}

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "w");

    assert(f);
    return f;
}

static void write_seed(const void *text, size_t bytes)
{
    char name[32];

    snprintf(name, sizeof name, "/seed-%d", written++);
    FILE *f = create(path_of("corpus/", name));
    fwrite(text, 1, bytes, f);
    fclose(f);
    for (const char *p = text, *end = p + bytes; p < end; p++) {
        const char *word = p;
        while (p < end && !strchr(writes->ends, *p))
            p++;
        put_word(word, (size_t)(p - word));
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    if (*argc < 3 || strcmp((*argv)[1], "--seeds"))
        return 0;
    folder = (*argv)[2];
    for (writes = fuzz_sets; writes->name; writes++) {
        mkdir(path_of("corpus/", ""), 0777);
        dict = create(path_of("", ".dict"));
        fuzz_add_seeds(writes, write_seed);
        for (const char *const *word = writes->words; *word; word++)
            put_word(*word, strlen(*word));
        fclose(dict);
        printf("%s %d\n", writes->name, writes->longest ? writes->longest : 4096);
    }
    fflush(stdout);
    exit(0);
}
