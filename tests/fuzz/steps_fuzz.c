/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of the rows of steps, and proves and draws what it accepts. */
#include "reader_fuzz.h"

#include "plan/rows.h"

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct err err = {0};

    if (bytes > FUZZ_MAX)
        return 0;
    char *text = fuzz_copy(data, bytes), *out = NULL;
    size_t out_bytes = 0;
    FILE *f = mem_stream(&out, &out_bytes);

    int rc = plan_steps_verify(FUZZ_NAME, text, (int64_t)bytes, 0, f, &err);
    if (rc < 0)
        fuzz_judge(rc, &err);
    if (rc == 0) {
        rc =
            plan_steps_draw(FUZZ_NAME, text, (int64_t)bytes, "synth:2x1,flops=1e9", 0, f, &err);
        assert(rc == 0 || err.code == ERR_INPUT);
        rc = 0;
    }
    fclose(f);
    free(out);
    mem_free(text);
    return rc >= 0;
}
