/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_FIXTURE_H
#define DATA_FIXTURE_H

/* Makes files of tokens in a folder of their own.  After unit.h. */
#include "temp_fixture.h"

static char folder[TEMP_PATH];

static inline int folder_make(void **state)
{
    (void)state;
    temp_folder(folder, "paro-data");
    return 0;
}

static inline int folder_drop(void **state)
{
    (void)state;
    return io_remove_tree(folder, &err);
}

UNIT_GROUP(folder_make, folder_drop);

/* The path of a file in the folder; the next three calls leave it alone. */
static inline const char *in_folder(const char *name)
{
    static char path[4][TEMP_PATH + 64];
    static int next;
    char *p = path[next++ % 4];

    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static inline const char *put(const char *name, const void *bytes, size_t n)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline unsigned char *put_le(unsigned char *p, uint64_t v, int bytes)
{
    for (int b = 0; b < bytes; b++)
        *p++ = (unsigned char)(v >> 8 * b);
    return p;
}

#endif
