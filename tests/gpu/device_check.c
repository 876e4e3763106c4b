/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks what every device must do, and what a GPU reports when there is too little of it:
 * device_check DEVICE.  TAP.  EMULATED_FAIL=NAME:N with an emulated GPU: then the rest is to
 * fail.
 */
#include "device_fixture.h"
#include "../unit/plain_fixture.h"

static const char *memory_is_counted(struct device *d)
{
    int64_t before, within, after, all;
    void *p = NULL;

    if (device_memory(d, &before, &all, &err))
        return "the device says what is free";
    if (device_kind(d) == DEVICE_CPU)
        return before == -1 && all == -1 ? NULL : "a CPU's is not asked for";
    if (device_alloc(d, 64 << 20, "x", &p, &err) || device_memory(d, &within, &all, &err))
        return "there are 64 MiB";
    device_free(d, p);
    if (device_memory(d, &after, &all, &err))
        return "it says so again";
    /* Others may share the GPU: a tenth of it is not lost to them in a moment. */
    return before - within < 64 << 20 || before > all || after <= within ||
                   before - after > all / 10
               ? "64 MiB are taken from what is free, and given back"
               : NULL;
}

static const char *too_much_is_refused(struct device *d)
{
    err = (struct err){0};
    void *p = NULL;

    if (!device_alloc(d, INT64_C(1) << 50, "a petabyte", &p, &err))
        return "a petabyte is refused";
    if (err.code != ERR_SYS || !strstr(err.text, "a petabyte"))
        return err.text[0] ? "in words that name it" : "with a text";
    if (device_alloc(d, 16, "little", &p, &err))
        return "and what fits is not";
    device_free(d, p);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        device_check_f *check;
    } all[] = {{"memory is zeroed", memory_is_zeroed},
               {"bytes arrive", bytes_arrive},
               {"queues wait for each other", queues_wait},
               {"graphs are written down", graphs_are_written},
               {"memory is counted", memory_is_counted},
               {"too much is refused", too_much_is_refused}};
    int n = (int)(sizeof all / sizeof *all), failed = 0;
    struct device *d = NULL;
    err = (struct err){0};

    if (argc != 2 || device_open(&d, argv[1], 0, &err)) {
        printf("Bail out! %s\n", argc == 2 ? err.text : "expected: device_check DEVICE");
        return 2;
    }
    int64_t free_bytes = 0, bytes = 0;
    if (device_memory(d, &free_bytes, &bytes, &err) == 0 && bytes > 0)
        printf("# %s, index %d, %.1f of %.1f GiB free\n", device_name(d), device_index(d),
               (double)free_bytes / (1 << 30), (double)bytes / (1 << 30));
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        const char *wrong = all[i].check(d);
        failed += wrong != NULL;
        printf("%s %d - %s%s%s\n", wrong ? "not ok" : "ok", i + 1, all[i].name,
               wrong ? ": not so that " : "", wrong ? wrong : "");
    }
    struct device_event *e = NULL;
    if (device_event_open(d, &e, &err) == -1)
        printf("# %s\n", err.text);
    device_event_close(e);
    device_close(d);
    return failed > 0;
}
