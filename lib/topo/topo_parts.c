/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a machine is made of and how NCCL writes that down: the elements and attributes of
 * NCCL 2.27, src/graph/xml.cc.  What is not told is left out, as NCCL fills it in where it
 * runs.
 */
#include "topo/topo_parts.h"

#include <string.h>

#include "base/mem.h"

#define APPEND(array, count, room, item)                                                       \
    ((array) = mem_grow((array), &(room), (size_t)(count) + 1, sizeof *(array)),               \
     (array)[count] = (item), (count)++)

int topo_parts_cpu(struct topo_parts *p, const struct topo_cpu *cpu)
{
    return APPEND(p->cpu, p->cpus, p->cpu_room, *cpu);
}

int topo_parts_pci(struct topo_parts *p, const struct topo_pci *pci)
{
    return APPEND(p->pci, p->pcis, p->pci_room, *pci);
}

void topo_parts_gpu(struct topo_parts *p, struct topo_gpu gpu)
{
    APPEND(p->gpu, p->gpus, p->gpu_room, gpu);
}

void topo_parts_nvlink(struct topo_parts *p, const struct topo_nvlink *link)
{
    APPEND(p->nvlink, p->nvlinks, p->nvlink_room, *link);
}

void topo_parts_nic(struct topo_parts *p, const struct topo_nic *nic)
{
    APPEND(p->nic, p->nics, p->nic_room, *nic);
}

int topo_parts_find(const struct topo_parts *p, const char *busid)
{
    for (int i = 0; i < p->pcis; i++)
        if (strcmp(p->pci[i].busid, busid) == 0)
            return i;
    return -1;
}

void topo_parts_release(struct topo_parts *p)
{
    mem_free(p->cpu);
    mem_free(p->pci);
    mem_free(p->gpu);
    mem_free(p->nvlink);
    mem_free(p->nic);
    *p = (struct topo_parts){0};
}

/* ---- printing ---- */

static void put_value(FILE *out, const char *value)
{
    for (; *value; value++) {
        const char *word = *value == '&'   ? "&amp;"
                           : *value == '<' ? "&lt;"
                           : *value == '>' ? "&gt;"
                           : *value == '"' ? "&quot;"
                                           : NULL;
        if (word)
            fputs(word, out);
        else if ((unsigned char)*value < 0x20)
            fprintf(out, "&#%d;", *value);
        else
            putc(*value, out);
    }
}

static void put_word(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    put_value(out, value);
    putc('"', out);
}

static void put_indent(FILE *out, int depth)
{
    fprintf(out, "%*s", 2 * depth, "");
}

static void put_nvlinks(const struct topo_parts *p, int gpu, int depth, FILE *out)
{
    for (int i = 0; i < p->nvlinks; i++) {
        const struct topo_nvlink *link = &p->nvlink[i];
        if (link->gpu != gpu)
            continue;
        put_indent(out, depth);
        fputs("<nvlink", out);
        put_word(out, "target", link->target);
        fprintf(out, " count=\"%d\" tclass=\"0x%06x\"/>\n", link->count, link->class);
    }
}

static int has_nvlinks(const struct topo_parts *p, int gpu)
{
    for (int i = 0; i < p->nvlinks; i++)
        if (p->nvlink[i].gpu == gpu)
            return 1;
    return 0;
}

static void put_gpus(const struct topo_parts *p, int pci, int depth, FILE *out)
{
    for (int i = 0; i < p->gpus; i++) {
        if (p->gpu[i].pci != pci)
            continue;
        put_indent(out, depth);
        fprintf(out, "<gpu dev=\"%d\" sm=\"%d\"", i, p->gpu[i].sm);
        if (!has_nvlinks(p, i)) {
            fputs("/>\n", out);
            continue;
        }
        fputs(">\n", out);
        put_nvlinks(p, i, depth + 1, out);
        put_indent(out, depth);
        fputs("</gpu>\n", out);
    }
}

static void put_nics(const struct topo_parts *p, int pci, int depth, FILE *out)
{
    int open = 0;

    for (int i = 0; i < p->nics; i++) {
        const struct topo_nic *nic = &p->nic[i];
        if (nic->pci != pci)
            continue;
        if (!open++) {
            put_indent(out, depth);
            fputs("<nic>\n", out);
        }
        put_indent(out, depth + 1);
        fputs("<net", out);
        put_word(out, "name", nic->name);
        fprintf(out, " dev=\"%d\" speed=\"%lld\" port=\"%d\"/>\n", i, (long long)nic->mbit,
                nic->port);
    }
    if (open) {
        put_indent(out, depth);
        fputs("</nic>\n", out);
    }
}

static int has_below(const struct topo_parts *p, int pci)
{
    for (int i = 0; i < p->pcis; i++)
        if (p->pci[i].parent == pci)
            return 1;
    for (int i = 0; i < p->gpus; i++)
        if (p->gpu[i].pci == pci)
            return 1;
    for (int i = 0; i < p->nics; i++)
        if (p->nic[i].pci == pci)
            return 1;
    return 0;
}

/* "2.5", "8.0", "16.0" as the kernel writes it; "" is how NCCL says that it does not know. */
static void put_pci_words(const struct topo_pci *d, FILE *out)
{
    static const char *const ids[] = {"vendor", "device", "subsystem_vendor",
                                      "subsystem_device"};

    fputs("<pci", out);
    put_word(out, "busid", d->busid);
    fprintf(out, " class=\"0x%06x\"", d->class);
    for (int i = 0; (d->id[0] | d->id[1]) && i < 4; i++)
        fprintf(out, " %s=\"0x%04x\"", ids[i], d->id[i]);
    if (d->GTps > 0 && d->lanes > 0)
        fprintf(out, " link_speed=\"%.1f GT/s PCIe\" link_width=\"%d\"", d->GTps, d->lanes);
    else
        fputs(" link_speed=\"\" link_width=\"0\"", out);
}

/* What hangs below a device (parent), or right below a processor: no deeper than sysfs goes. */
static void put_pcis(const struct topo_parts *p, int cpu, int parent, int depth, FILE *out)
{
    for (int i = 0; i < p->pcis; i++) {
        const struct topo_pci *d = &p->pci[i];
        if (d->cpu != cpu || d->parent != parent)
            continue;
        put_indent(out, depth);
        put_pci_words(d, out);
        if (!has_below(p, i)) {
            fputs("/>\n", out);
            continue;
        }
        fputs(">\n", out);
        put_pcis(p, cpu, i, depth + 1, out);
        put_gpus(p, i, depth + 1, out);
        put_nics(p, i, depth + 1, out);
        put_indent(out, depth);
        fputs("</pci>\n", out);
    }
}

void topo_parts_print(const struct topo_parts *p, FILE *out)
{
    fputs("<system version=\"1\">\n", out);
    for (int i = 0; i < p->cpus; i++) {
        const struct topo_cpu *cpu = &p->cpu[i];
        fprintf(out, "  <cpu numaid=\"%d\"", cpu->numa);
        if (cpu->affinity[0])
            put_word(out, "affinity", cpu->affinity);
        if (cpu->arch[0])
            put_word(out, "arch", cpu->arch);
        if (cpu->vendor[0])
            put_word(out, "vendor", cpu->vendor);
        if (cpu->family >= 0)
            fprintf(out, " familyid=\"%d\"", cpu->family);
        if (cpu->model >= 0)
            fprintf(out, " modelid=\"%d\"", cpu->model);
        fputs(">\n", out);
        put_pcis(p, i, -1, 2, out);
        fputs("  </cpu>\n", out);
    }
    fputs("</system>\n", out);
}

static void echo(const struct xml_node *n, int depth, FILE *out)
{
    put_indent(out, depth);
    fprintf(out, "<%s", n->name);
    for (int i = 0; i < n->attrs; i++)
        put_word(out, n->attr[i].name, n->attr[i].value);
    fputs(n->child ? ">\n" : "/>\n", out);
    for (const struct xml_node *c = n->child; c; c = c->next)
        echo(c, depth + 1, out);
    if (!n->child)
        return;
    put_indent(out, depth);
    fprintf(out, "</%s>\n", n->name);
}

void topo_parts_echo(const struct xml *x, FILE *out)
{
    echo(x->root, 0, out);
}
