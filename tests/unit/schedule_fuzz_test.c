/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of schedules under texts that are nearly right: the generators' own. */
#include "reader_fuzz_fixture.h"
#include "schedule_fixture.h"

int main(int argc, char **argv)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,1,2]"};
    static char words[] =
        "0 1 2 3 4 5 7 -1 12 63 64 1024 1025 999999 1e3 1000000 1048576"
        " 2147483646 2147483647 4>5 0>99 3> > copy add 4294967296 end rows root"
        " planes barrier broadcast group 9e99 18446744073709551616";
    static struct fuzz_texts t = {
        .list = words, .ends = " \n", .cases = 4000, .seed = 1, .part = 50};

    for (int i = 0; i < FUZZ_SEEDS_MAX; i++) {
        struct layout l;
        struct schedule s;
        char *text = NULL;
        size_t bytes = 0;
        FILE *f = mem_stream(&text, &bytes);
        shape(&l, shapes[i % 3]);
        gen(&s, &l, (enum schedule_algo)(i % SCHEDULE_ALGOS), all_phases[i % WHOLE], 1 + i % 2,
            -1);
        schedule_print(&s, f);
        fclose(f);
        fuzz_add(&t, text, bytes);
        mem_free(text);
        schedule_release(&s);
        layout_release(&l);
    }
    return fuzz_main(&t, argc, argv);
}
