/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how NCCL describes a machine: the elements and attributes of NCCL 2.27,
 * src/graph/xml.cc.  What is unknown is left out, as NCCL fills it in where it runs.
 */
#include "topo/topo_parts.h"

#include <string.h>

struct xml_node *topo_parts_cpu(struct xml *x, const struct topo_cpu *cpu)
{
    struct xml_node *n = xml_add(x, x->root, "cpu");

    xml_set(n, "numaid", "%d", cpu->numa);
    if (cpu->affinity[0])
        xml_set(n, "affinity", "%s", cpu->affinity);
    if (cpu->arch[0])
        xml_set(n, "arch", "%s", cpu->arch);
    if (cpu->vendor[0])
        xml_set(n, "vendor", "%s", cpu->vendor);
    if (cpu->family >= 0)
        xml_set(n, "familyid", "%d", cpu->family);
    if (cpu->model >= 0)
        xml_set(n, "modelid", "%d", cpu->model);
    return n;
}

struct xml_node *topo_parts_pci(struct xml *x, struct xml_node *parent,
                                const struct topo_pci *pci)
{
    static const char *const ids[] = {"vendor", "device", "subsystem_vendor",
                                      "subsystem_device"};
    struct xml_node *n = xml_add(x, parent, "pci");
    int known = pci->GTps > 0 && pci->lanes > 0;

    xml_set(n, "busid", "%s", pci->busid);
    xml_set(n, "class", "0x%06x", pci->class);
    for (int i = 0; (pci->id[0] | pci->id[1]) && i < 4; i++)
        xml_set(n, ids[i], "0x%04x", pci->id[i]);
    /* "8.0 GT/s PCIe" as the kernel writes it; "" is how NCCL says that it does not know. */
    if (known)
        xml_set(n, "link_speed", "%.1f GT/s PCIe", pci->GTps);
    else
        xml_set(n, "link_speed", "%s", "");
    xml_set(n, "link_width", "%d", known ? pci->lanes : 0);
    return n;
}

struct xml_node *topo_parts_find(const struct xml *x, const char *busid)
{
    for (struct xml_node *n = x->root; n; n = xml_after(n))
        if (xml_is(n, "pci") && xml_has(n, "busid", busid))
            return n;
    return NULL;
}
