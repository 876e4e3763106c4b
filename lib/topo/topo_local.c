/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a fabric of this machine, and writes a machine as NCCL's XML.  The answers of NVML and
 * the kernel become NCCL's XML first, from which the reader of NCCL's files makes the fabric.
 * So there is one table of rates, and nvml: gives the same fabric as NCCL's dump on this
 * machine or the output of --format nccl.
 */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "topo/topo_machine.h"
#include "topo/topo_parts.h"

/* ---- elements of NCCL 2.27 (src/graph/xml.cc), which itself adds unknown values ---- */

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
    /* "8.0 GT/s PCIe", as the kernel writes it; NCCL writes "" for an unknown speed. */
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

/* ---- this machine as a fabric ---- */

int topo_is_local(const char *what)
{
    return strncmp(what, "nvml:", 5) == 0;
}

/*
 * Queries this machine's GPUs and describes the machine as NCCL's XML. *root is the folder of
 * the kernel's files, "" for "/".
 */
static int local_read_local(const char *what, const char **root, struct topo_nvml *n,
                            struct xml *x, struct err *err)
{
    *root = what + 5;
    if (**root && **root != '/')
        return err_set(
            err, ERR_INPUT,
            "'%s', expected nvml: or nvml:/FOLDER, where FOLDER has the machine's sys/ and"
            " proc/",
            what);
    if (topo_nvml_read(n, TOPO_NVML_ALL, err))
        return -1;
    topo_nvml_parts(x, n, *root);
    return 0;
}

int topo_local_read(struct topo *t, const char *what, const struct topo_settings *settings,
                    struct err *err)
{
    struct topo_nvml n = {0};
    struct topo_machine m;
    struct xml x;
    const char *root = NULL;

    if (local_read_local(what, &root, &n, &x, err))
        return -1;
    topo_machine_init(&m, "nvml");
    int rc = topo_nccl_read(&m, &x, err);
    if (rc == 0) {
        m.linked_unknown = !m.linked && n.links_unknown;
        m.memory_bytes = n.gpu[0].memory_bytes;
        for (int i = 1; i < n.gpus; i++)
            if (n.gpu[i].memory_bytes < m.memory_bytes)
                m.memory_bytes = n.gpu[i].memory_bytes;
        m.devices = (struct topo_devices){
            .gpus = n.gpus, .nics = m.nics, .numa_nodes = topo_sysfs_nodes(root)};
        topo_nvml_name(&n, m.devices.gpu_name, sizeof m.devices.gpu_name);
        topo_sysfs_host(root, m.host, sizeof m.host);
        rc = topo_machine_build(t, &m, settings, err);
    }
    topo_machine_release(&m);
    xml_release(&x);
    topo_nvml_release(&n);
    return rc;
}

/* ---- a machine as NCCL's XML ---- */

static int fail_parts(const char *name, struct err *err)
{
    return err_set(err, ERR_ABSENT,
                   "'%s' does not list PCI devices, expected nvml:, or XML of NCCL or hwloc",
                   name);
}

static int export_xml(const struct xml *x, FILE *out, struct err *err)
{
    struct xml parts = {0};
    struct topo_machine m;

    if (xml_is(x->root, "topology")) {
        if (topo_hwloc_parts(&parts, x, err))
            return -1;
        xml_print(&parts, out);
        xml_release(&parts);
        return 0;
    }
    /* The reader of machines rejects invalid documents, so only valid ones are copied. */
    topo_machine_init(&m, x->name);
    int rc = topo_machine_read(&m, x, 0, err);
    topo_machine_release(&m);
    if (rc == 0)
        xml_print(x, out);
    return rc;
}

int topo_export_nccl(const char *what, FILE *out, struct err *err)
{
    const char *name = strcmp(what, "-") ? what : "stdin";
    char *text = NULL;
    int64_t bytes = 0;
    struct xml x;

    if (topo_is_local(what)) {
        struct topo_nvml n = {0};
        const char *root = NULL;
        int rc = 0;

        if (local_read_local(what, &root, &n, &x, err))
            return -1;
        if (n.links_unknown && n.gpus > 1)
            rc = err_set(err, ERR_ABSENT,
                         "nvml: the driver does not report NVLink, expected it for NCCL's XML");
        else
            xml_print(&x, out);
        xml_release(&x);
        topo_nvml_release(&n);
        return rc;
    }
    if (strncmp(what, "synth:", 6) == 0)
        return fail_parts(name, err);
    if (io_read_text(what, XML_BYTES_MAX, &text, &bytes, err))
        return -1;
    const char *begin = text + (strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3);
    if (begin[strspn(begin, " \t\r\n")] != '<') {
        mem_free(text);
        return fail_parts(name, err);
    }
    if (xml_take(&x, name, text, bytes, err))
        return -1;
    int rc = export_xml(&x, out, err);
    xml_release(&x);
    return rc;
}
