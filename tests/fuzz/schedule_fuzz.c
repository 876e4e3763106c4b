/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of schedules and to the verifier behind it. */
#include "schedule_fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"

/* A schedule from a copy of the bytes, as short as they are: a read beyond them is seen. */
static int parse(struct schedule *s, const void *data, size_t bytes, struct err *err)
{
    char *text = malloc(bytes + 1);

    assert(text);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    int rc = schedule_parse(s, text, (int64_t)bytes, "fuzz", err);
    free(text);
    assert(rc == 0 || (err->code == ERR_INPUT && err->text[0]));
    return rc;
}

static char *print(const struct schedule *s, int json, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    (json ? schedule_print_json : schedule_print)(s, f);
    int rc = fclose(f);
    assert(rc == 0);
    return text;
}

static enum fuzz_outcome verify(const struct schedule *s)
{
    struct err err = {0};
    int rc = schedule_verify(s, &err);

    assert(rc == 0 || err.text[0]);
    return rc ? FUZZ_WRONG : FUZZ_PROVEN;
}

enum fuzz_outcome schedule_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct schedule s = {0}, back = {0};
    struct err err = {0};
    size_t first_bytes = 0, again_bytes = 0, json_bytes = 0;

    if (bytes > FUZZ_BYTES_MAX || parse(&s, data, bytes, &err))
        return FUZZ_REFUSED;
    enum fuzz_outcome outcome = verify(&s);
    char *first = print(&s, 0, &first_bytes), *json = print(&s, 1, &json_bytes);
    int rc = parse(&back, first, first_bytes, &err);
    assert(rc == 0);
    char *again = print(&back, 0, &again_bytes);
    assert(first_bytes == again_bytes && memcmp(first, again, first_bytes) == 0);
    assert(verify(&back) == outcome);
    free(first);
    free(again);
    free(json);
    schedule_release(&s);
    schedule_release(&back);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    schedule_fuzz_case(data, bytes);
    return 0;
}
