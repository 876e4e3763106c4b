/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the types that a processor can multiply, and the load of other processes during a
 * measurement: the kernel's time of all processes less that of the ranks.  The variation of
 * rounds would not show it: where ranks share processors rounds vary on a quiet machine too.
 * The load average includes the ranks, and processes that wait for disks.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"
#include "probe/probe_machine.h"

/* More than two measurements usually differ by, as TOPO_SLOW_SHARE. */
static const double DISTURBED = 1 - TOPO_SLOW_SHARE;

enum { LINE_BYTES = 1 << 14 }; /* a processor's flags take 2 KB */

int probe_bf16_in(const char *flags)
{
    /* avx512_bf16, amx_bf16; on Arm bf16, svebf16 */
    while ((flags = strstr(flags, "bf16")) && flags[4] && !isspace((unsigned char)flags[4]))
        flags += 4;
    return flags != NULL;
}

int probe_has_bf16(void)
{
    char line[LINE_BYTES];
    FILE *f = fopen("/proc/cpuinfo", "re");
    int has = 0;

    while (f && !has && fgets(line, sizeof line, f))
        has = probe_bf16_in(line);
    if (f)
        fclose(f);
    return has;
}

double probe_busy_s(const char *line)
{
    /* user nice system idle iowait irq softirq steal; interrupts are partly for ranks'
       packets */
    double t[8] = {0};

    if (sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) < 4)
        return 0;
    return (t[0] + t[1] + t[2] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

struct probe_load probe_load_begin(void)
{
    struct probe_load now = {.start_s = tick_now_s()};
    FILE *f = fopen("/proc/stat", "re");
    char line[LINE_BYTES];
    struct rusage own;

    if (f && fgets(line, sizeof line, f))
        now.busy_s = probe_busy_s(line);
    if (f)
        fclose(f);
    getrusage(RUSAGE_SELF, &own);
    now.own_s = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1e-6;
    return now;
}

int probe_load_end(const struct probe_load *load, struct world *world,
                   char doubt[TOPO_SOURCE_BYTES], struct err *err)
{
    struct probe_load now = probe_load_begin();
    struct seen {
        char id[PROBE_BOOT_BYTES];
        double busy_s, own_s, all_s;
    } mine = {.busy_s = now.busy_s - load->busy_s,
              .own_s = now.own_s - load->own_s,
              .all_s = (now.start_s - load->start_s) * (double)sysconf(_SC_NPROCESSORS_ONLN)};
    struct seen *all = mem_new((size_t)world->ranks, sizeof *all);
    double most = 0;

    probe_boot_id(mine.id);
    int rc = world_allgather(world, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < world->ranks; r++) {
        double others_s = all[r].busy_s;
        for (int q = 0; q < world->ranks; q++)
            if (strcmp(all[q].id, all[r].id) == 0)
                others_s -= all[q].own_s;
        most = fmax(most, others_s / all[r].all_s);
    }
    mem_free(all);
    size_t n = strlen(doubt);
    if (rc == 0 && most > DISTURBED)
        snprintf(
            doubt + n, TOPO_SOURCE_BYTES - n,
            "%sother processes had %.0f %% of a machine's processors during the measurement",
            n ? "; " : "", 100 * most);
    return rc;
}
