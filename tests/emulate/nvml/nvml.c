/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVML in software: as much of NVIDIA's management library as paro asks, with the answers of a
 * machine that the file NVML_MACHINE tells, a line for each thing:
 *
 *     driver VERSION
 *     gpu BUSID SM MEMORY GEN/MOST LANES/MOST NUMA CPUS NAME...   numbers of GPUs count from 0
 *     link GPU COUNT gpu|switch|hidden BUSID                      NVLinks that are up
 *     down GPU COUNT                                              and that are not
 *     meet A B LEVEL                                              0 10 20 30 40 50; else 50
 *     fail FUNCTION GPU CODE                                      GPU -1: without one
 *
 * NUMA -1 and a GEN of 0 are not supported; CPUS is a mask in hexadecimal digits.  Built as
 * libnvidia-ml.so.1 and found through LD_LIBRARY_PATH:
 *
 *     cc -shared -fPIC -o DIR/libnvidia-ml.so.1 tests/emulate/nvml/nvml.c
 *
 * An older driver lacks a function: -DnvmlDeviceGetNvLinkRemoteDeviceType=lacking renames it.
 * Shares no declaration with what it tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, GPUS = 16, LINKS = 18 };

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

struct nvmlDevice {
    char busid[32], name[96];
    int sm, gen, gen_most, lanes, lanes_most, numa, links;
    unsigned long long memory;
    unsigned long cpus;
    struct {
        int up, end; /* end: 0 a GPU, 2 a switch, 255 hidden */
        char busid[32];
    } link[LINKS];
};
typedef struct nvmlDevice *nvmlDevice_t;

static struct {
    int is_open, gpus, fails;
    char driver[80];
    struct nvmlDevice gpu[GPUS];
    int meet[GPUS][GPUS];
    struct {
        char name[64];
        int gpu, code;
    } fail[GPUS];
} machine;

static void wrong(const char *line)
{
    fprintf(stderr, "tests/emulate/nvml/nvml.c: %s\n", line);
    abort();
}

static void read_gpu(const char *line)
{
    struct nvmlDevice *g = &machine.gpu[machine.gpus];

    if (machine.gpus == GPUS ||
        sscanf(line, "gpu %31s %d %llu %d/%d %d/%d %d %lx %95[^\n]", g->busid, &g->sm,
               &g->memory, &g->gen, &g->gen_most, &g->lanes, &g->lanes_most, &g->numa, &g->cpus,
               g->name) != 10)
        wrong(line);
    machine.gpus++;
}

static void read_link(const char *line, int gpu, int count, const char *end, const char *busid)
{
    struct nvmlDevice *g = &machine.gpu[gpu];

    for (; count > 0; count--) {
        if (g->links == LINKS)
            wrong(line);
        g->link[g->links].up = end[0] != 0;
        g->link[g->links].end = end[0] == 'g' ? 0 : end[0] == 's' ? 2 : 255;
        strcpy(g->link[g->links++].busid, busid);
    }
}

static void read_line(const char *line)
{
    char word[64] = "", busid[32] = "";
    int a = 0, b = 0, c = 0;

    if (strncmp(line, "gpu ", 4) == 0)
        read_gpu(line);
    else if (sscanf(line, "link %d %d %15s %31s", &a, &b, word, busid) == 4 && a < GPUS)
        read_link(line, a, b, word, busid);
    else if (sscanf(line, "down %d %d", &a, &b) == 2 && a < GPUS)
        read_link(line, a, b, "", "");
    else if (sscanf(line, "meet %d %d %d", &a, &b, &c) == 3 && a < GPUS && b < GPUS)
        machine.meet[a][b] = machine.meet[b][a] = c;
    else if (sscanf(line, "fail %63s %d %d", word, &a, &b) == 3 && machine.fails < GPUS) {
        strcpy(machine.fail[machine.fails].name, word);
        machine.fail[machine.fails].gpu = a;
        machine.fail[machine.fails++].code = b;
    } else if (sscanf(line, "driver %79s", machine.driver) != 1)
        wrong(line);
}

static int failing(const char *function, nvmlDevice_t d)
{
    int gpu = d ? (int)(d - machine.gpu) : -1;

    for (int i = 0; i < machine.fails; i++)
        if (strcmp(machine.fail[i].name, function) == 0 && machine.fail[i].gpu == gpu)
            return machine.fail[i].code;
    return machine.is_open ? OK : UNINITIALIZED;
}

int nvmlInit_v2(void)
{
    const char *path = getenv("NVML_MACHINE");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[256];

    if (!f)
        wrong("NVML_MACHINE names no file");
    memset(&machine, 0, sizeof machine);
    while (fgets(line, sizeof line, f))
        if (line[0] != '\n' && line[0] != '#')
            read_line(line);
    fclose(f);
    machine.is_open = 1;
    int rc = failing("nvmlInit_v2", NULL);
    machine.is_open = rc == OK;
    return rc;
}

int nvmlShutdown(void)
{
    machine.is_open = 0;
    return OK;
}

const char *nvmlErrorString(int code)
{
    return code == 9    ? "Driver Not Loaded"
           : code == 15 ? "GPU is lost"
           : code == 18 ? "Driver/library version mismatch"
           : code == 3  ? "Not Supported"
                        : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    snprintf(version, length, "%s", machine.driver);
    return failing(__func__, NULL);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)machine.gpus;
    return failing(__func__, NULL);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (index >= (unsigned)machine.gpus)
        return BAD_ARGUMENT;
    *device = &machine.gpu[index];
    return failing(__func__, *device);
}

int nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned length)
{
    snprintf(name, length, "%s", d->name);
    return failing(__func__, d);
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
    *memory = (nvmlMemory_t){.total = d->memory, .free = d->memory};
    return failing(__func__, d);
}

int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
    *major = d->sm / 10;
    *minor = d->sm % 10;
    return failing(__func__, d);
}

static void put_pci(nvmlPciInfo_t *pci, const char *busid)
{
    *pci = (nvmlPciInfo_t){.pciDeviceId = 0x233510de, .pciSubSystemId = 0x18be10de};
    if (sscanf(busid, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        pci->domain = pci->bus = pci->device = ~0u;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff,
             pci->device & 0xff);
}

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
    put_pci(pci, d->busid);
    return failing(__func__, d);
}

static int give(const char *function, nvmlDevice_t d, int value, unsigned *out)
{
    int rc = failing(function, d);

    *out = (unsigned)value;
    return rc ? rc : value ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *gen)
{
    return give(__func__, d, d->gen, gen);
}

int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *gen)
{
    return give(__func__, d, d->gen_most, gen);
}

int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *lanes)
{
    return give(__func__, d, d->lanes, lanes);
}

int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *lanes)
{
    return give(__func__, d, d->lanes_most, lanes);
}

int nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, unsigned *is_up)
{
    if (d->links == 0)
        return NOT_SUPPORTED;
    if (link >= (unsigned)d->links)
        return BAD_ARGUMENT;
    *is_up = (unsigned)d->link[link].up;
    return failing(__func__, d);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *pci)
{
    put_pci(pci, d->link[link].busid);
    return failing(__func__, d);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, unsigned *type)
{
    *type = (unsigned)d->link[link].end;
    return failing(__func__, d);
}

int nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, unsigned *level)
{
    int told = machine.meet[a - machine.gpu][b - machine.gpu];

    *level = told ? (unsigned)told : 50;
    return failing(__func__, a);
}

int nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned words, unsigned long *cpus)
{
    memset(cpus, 0, words * sizeof *cpus);
    cpus[0] = d->cpus;
    return failing(__func__, d);
}

int nvmlDeviceGetMemoryAffinity(nvmlDevice_t d, unsigned words, unsigned long *nodes,
                                unsigned scope)
{
    (void)scope;
    memset(nodes, 0, words * sizeof *nodes);
    if (d->numa < 0)
        return NOT_SUPPORTED;
    nodes[d->numa / 64] = 1ul << (d->numa % 64);
    return failing(__func__, d);
}
