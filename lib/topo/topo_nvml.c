/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries NVML, NVIDIA's management library.  Declares the part that it uses, from the NVML API
 * Reference Guide; the ABI is unchanged since driver 418.  Leaves the use of the answers to
 * topo_nvml_parts.c.
 */
#include "topo/topo_nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_machine.h"

static const char LIBRARY[] = "libnvidia-ml.so.1";

/* The codes of nvmlReturn_t that are handled differently. */
enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, LOST = 15 };

struct pci_info { /* nvmlPciInfo_t, as nvmlDeviceGetPciInfo_v3 fills it */
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char busid[32];
};

struct memory { /* nvmlMemory_t */
    unsigned long long total, unused, used;
};

struct nvml_device; /* nvmlDevice_t points to one */

/* Each call: a member of struct api, whether it is required, name, arguments. */
#define DEVICE struct nvml_device *
#define CALLS(CALL)                                                                            \
    CALL(init, 1, "nvmlInit_v2", (void))                                                       \
    CALL(shutdown, 1, "nvmlShutdown", (void))                                                  \
    CALL(version, 1, "nvmlSystemGetDriverVersion", (char *, unsigned))                         \
    CALL(count, 1, "nvmlDeviceGetCount_v2", (unsigned *))                                      \
    CALL(at, 1, "nvmlDeviceGetHandleByIndex_v2", (unsigned, DEVICE *))                         \
    CALL(name, 1, "nvmlDeviceGetName", (DEVICE, char *, unsigned))                             \
    CALL(memory, 1, "nvmlDeviceGetMemoryInfo", (DEVICE, struct memory *))                      \
    CALL(capability, 1, "nvmlDeviceGetCudaComputeCapability", (DEVICE, int *, int *))          \
    CALL(pci, 1, "nvmlDeviceGetPciInfo_v3", (DEVICE, struct pci_info *))                       \
    CALL(gen_now, 0, "nvmlDeviceGetCurrPcieLinkGeneration", (DEVICE, unsigned *))              \
    CALL(gen_most, 0, "nvmlDeviceGetMaxPcieLinkGeneration", (DEVICE, unsigned *))              \
    CALL(lanes_now, 0, "nvmlDeviceGetCurrPcieLinkWidth", (DEVICE, unsigned *))                 \
    CALL(lanes_most, 0, "nvmlDeviceGetMaxPcieLinkWidth", (DEVICE, unsigned *))                 \
    /* Without these two a driver cannot report NVLinks. */                                    \
    CALL(link_state, 1, "nvmlDeviceGetNvLinkState", (DEVICE, unsigned, unsigned *))            \
    CALL(link_pci, 1, "nvmlDeviceGetNvLinkRemotePciInfo_v2",                                   \
         (DEVICE, unsigned, struct pci_info *))                                                \
    CALL(link_end, 0, "nvmlDeviceGetNvLinkRemoteDeviceType", (DEVICE, unsigned, unsigned *))   \
    CALL(common, 0, "nvmlDeviceGetTopologyCommonAncestor", (DEVICE, DEVICE, unsigned *))       \
    CALL(cpus, 0, "nvmlDeviceGetCpuAffinity", (DEVICE, unsigned, unsigned long *))             \
    CALL(nodes, 0, "nvmlDeviceGetMemoryAffinity", (DEVICE, unsigned, unsigned long *, unsigned))

#define MEMBER(member, needed, name, arguments) int(*member) arguments;
#define SYMBOL(member, needed, name, arguments) {name, offsetof(struct api, member), needed},

struct api {
    void *library;
    const char *(*words)(int);
    CALLS(MEMBER)
};

static const struct symbol {
    const char *name;
    size_t at;
    int needed;
} symbols[] = {{"nvmlErrorString", offsetof(struct api, words), 1}, CALLS(SYMBOL)};

static int fail_call(const struct api *api, const char *what, int code, struct err *err)
{
    return err_set(err, ERR_DEVICE, "nvml: %s: %s (NVML's error %d)", what, api->words(code),
                   code);
}

static int load_library(struct api *api, struct err *err)
{
    char version[80] = "unknown";
    const char *absent = NULL;

    *api = (struct api){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!api->library) {
        const char *why = dlerror();
        why = why ? why : "no reason given";
        /* The text begins with the library's name, which the message contains already. */
        if (strncmp(why, LIBRARY, strlen(LIBRARY)) == 0 && why[strlen(LIBRARY)] == ':')
            why += strlen(LIBRARY) + 2;
        return err_set(err, ERR_ABSENT,
                       "nvml: cannot load '%s', a library of NVIDIA's driver: %s", LIBRARY,
                       why);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(api->library, symbols[i].name);
        memcpy((char *)api + symbols[i].at, &found, sizeof found);
        if (!found && symbols[i].needed && !absent)
            absent = symbols[i].name;
    }
    int rc = absent ? OK : api->init();
    if (!absent && rc == OK)
        return 0;
    if (absent && api->init && api->shutdown && api->version && api->init() == OK) {
        api->version(version, sizeof version);
        api->shutdown();
    }
    if (absent)
        err_set(err, ERR_ABSENT, "nvml: '%s' of driver %s has no %s, expected a newer driver",
                LIBRARY, version, absent);
    else
        fail_call(api, "the driver does not answer", rc, err);
    dlclose(api->library);
    return -1;
}

/* ---- one GPU ---- */

/* Writes a bus id like NCCL and the kernel; a device that the driver hides is all ones. */
static void put_busid(char busid[20], const struct pci_info *pci)
{
    busid[0] = 0;
    if (pci->bus <= 0xff && pci->device <= 0x1f)
        snprintf(busid, 20, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
}

/* A value that not every GPU has: 0 if this one lacks it. */
static int query_number(int (*call)(struct nvml_device *, unsigned *), struct nvml_device *d)
{
    unsigned v = 0;

    return call && call(d, &v) == OK && v <= 1024 ? (int)v : 0;
}

static int read_name(const struct api *api, int i, struct nvml_device *d,
                     struct topo_nvml_gpu *g, struct err *err)
{
    struct memory memory = {0};
    struct pci_info pci = {0};
    int major = 0, minor = 0;
    char what[64];

    snprintf(what, sizeof what, "GPU %d", i);
    int rc = api->name(d, g->name, sizeof g->name);
    if (rc == OK && (rc = api->memory(d, &memory)) == NOT_SUPPORTED)
        rc = OK; /* such a GPU uses the processor's memory */
    rc = rc ? rc : api->capability(d, &major, &minor);
    rc = rc ? rc : api->pci(d, &pci);
    if (rc)
        return fail_call(api, what, rc, err);
    g->name[sizeof g->name - 1] = 0;
    for (char *p = g->name; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = '?';
    if (memory.total < TOPO_MEMORY_MAX_BYTES)
        g->memory_bytes = (int64_t)memory.total;
    g->sm = major * 10 + minor;
    g->device = pci.device_id;
    g->subsystem = pci.subsystem_id;
    put_busid(g->busid, &pci);
    return 0;
}

static void nvml_read_linked(const struct api *api, struct nvml_device *d,
                             struct topo_nvml_gpu *g)
{
    enum { NODES = 16, NEAREST = 0 }; /* NVML_AFFINITY_SCOPE_NODE */
    unsigned long nodes[NODES] = {0};
    unsigned words = sizeof g->cpus / sizeof *g->cpus;

    g->numa = -1;
    if (!api->cpus || api->cpus(d, words, g->cpus) != OK)
        memset(g->cpus, 0, sizeof g->cpus);
    if (!api->nodes || api->nodes(d, NODES, nodes, NEAREST) != OK)
        return;
    for (int bit = NODES * 64; bit-- > 0;)
        if (nodes[bit / 64] >> (bit % 64) & 1)
            g->numa = bit; /* the lowest node is the GPU's own; others are memory only */
}

/*
 * A GPU without NVLink reports NOT_SUPPORTED for its first link; a number past the last is a
 * bad argument.  Any other failure, except a lost GPU, leaves the links unknown.
 */
static int read_links(const struct api *api, int i, struct nvml_device *d,
                      struct topo_nvml_gpu *g, int *unknown, struct err *err)
{
    char what[64];

    for (unsigned l = 0; l < TOPO_NVML_LINKS; l++) {
        struct pci_info pci = {.bus = ~0u};
        unsigned is_up = 0, end = 0;
        snprintf(what, sizeof what, "GPU %d, NVLink %u", i, l);
        int rc = api->link_state(d, l, &is_up);
        if (rc != OK && rc != LOST) {
            *unknown |= rc != BAD_ARGUMENT && rc != NOT_SUPPORTED;
            return 0;
        }
        if (rc == OK && !is_up)
            continue;
        if (rc == OK && (rc = api->link_pci(d, l, &pci)) != OK && rc != LOST) {
            pci.bus = ~0u; /* a virtual machine does not see the far ends of its links */
            rc = OK;
        }
        if (rc)
            return fail_call(api, what, rc, err);
        struct topo_nvml_link *link = &g->link[g->links++];
        put_busid(link->remote, &pci);
        link->end = TOPO_NVML_UNKNOWN;
        if (api->link_end && api->link_end(d, l, &end) == OK && end <= TOPO_NVML_SWITCH)
            link->end = (enum topo_nvml_end)end;
    }
    return 0;
}

/* ---- all ---- */

static int nvml_read_all(const struct api *api, struct topo_nvml *n, int whole, struct err *err)
{
    unsigned count = 0;
    int rc = api->count(&count);
    char what[64];

    if (rc)
        return fail_call(api, "the number of GPUs", rc, err);
    if (count == 0)
        return err_set(err, ERR_ABSENT, "nvml: the driver shows no GPU, expected one at least");
    if (count > TOPO_MACHINE_RANKS)
        return err_set(err, ERR_DEVICE, "nvml: %u GPUs, expected %d at most", count,
                       TOPO_MACHINE_RANKS);
    n->gpus = (int)count;
    n->gpu = mem_new(count, sizeof *n->gpu);
    n->common = mem_new((size_t)count * count, sizeof *n->common);
    struct nvml_device **all = mem_new(count, sizeof *all);
    for (int i = 0; rc == 0 && i < n->gpus; i++) {
        struct topo_nvml_gpu *g = &n->gpu[i];
        snprintf(what, sizeof what, "GPU %d", i);
        rc = api->at((unsigned)i, &all[i]);
        rc = rc ? fail_call(api, what, rc, err) : read_name(api, i, all[i], g, err);
        if (rc || !whole)
            continue;
        g->gen_now = query_number(api->gen_now, all[i]);
        g->gen_most = query_number(api->gen_most, all[i]);
        g->lanes_now = query_number(api->lanes_now, all[i]);
        g->lanes_most = query_number(api->lanes_most, all[i]);
        nvml_read_linked(api, all[i], g);
        rc = read_links(api, i, all[i], g, &n->links_unknown, err);
    }
    for (int i = 0; rc == 0 && whole && i < n->gpus; i++)
        for (int j = 0; j < n->gpus; j++) {
            unsigned level = 0;
            int known = i != j && api->common && api->common(all[i], all[j], &level) == OK;
            n->common[i * n->gpus + j] = known && level <= 1000 ? (int)level : -1;
        }
    mem_free(all);
    return rc;
}

int topo_nvml_read(struct topo_nvml *n, enum topo_nvml_part part, struct err *err)
{
    struct topo_nvml new = {0};
    struct api api;

    if (load_library(&api, err))
        return -1;
    int rc = nvml_read_all(&api, &new, part == TOPO_NVML_ALL, err);
    api.shutdown();
    dlclose(api.library);
    if (rc == 0)
        *n = new;
    else
        topo_nvml_release(&new);
    return rc;
}

void topo_nvml_release(struct topo_nvml *n)
{
    mem_free(n->gpu);
    mem_free(n->common);
    *n = (struct topo_nvml){0};
}

void topo_nvml_name(const struct topo_nvml *n, char *name, size_t space)
{
    int alike = 1;

    for (int i = 1; i < n->gpus; i++)
        alike = alike && strcmp(n->gpu[i].name, n->gpu[0].name) == 0;
    snprintf(name, space, "%.*s%s", (int)space - 12, n->gpu[0].name,
             alike ? "" : " and others");
}
