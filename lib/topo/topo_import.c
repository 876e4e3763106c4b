/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects which tool wrote a text, by its content, and calls its reader.  Leaves the formats to
 * the readers.
 */
#include "topo/topo_import.h"

#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_yaml.h"
#include "topo/topo_boundary.h"
#include "topo/topo_machine.h"

char *topo_next_line(char **at, int *line)
{
    char *text = *at;

    if (!text || !*text)
        return NULL;
    size_t n = strcspn(text, "\n");
    *at = text[n] ? text + n + 1 : NULL;
    text[n] = 0;
    if (n && text[n - 1] == '\r')
        text[n - 1] = 0;
    ++*line;
    return text;
}

/* ---- which tool wrote the text ---- */

enum kind { KIND_YAML, KIND_XML, KIND_SMI, KIND_IB };

static int begins_line(const char *text, const char *const *words)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += line > text || *line == '\n';
        for (int i = 0; words[i]; i++)
            if (strncmp(line, words[i], strlen(words[i])) == 0)
                return 1;
    }
    return 0;
}

/* Finds a line that begins with "GPU0" and a blank: the matrix's underlined head, or a row. */
static int has_gpus(const char *text)
{
    for (const char *p = text; (p = strstr(p, "GPU")); p += 3) {
        const char *begin = p, *end = p + 3 + strspn(p + 3, "0123456789");
        while (begin > text && begin[-1] != '\n' && strchr(" \t\33[4m", begin[-1]))
            begin--;
        if (end > p + 3 && (*end == ' ' || *end == '\t') &&
            (begin == text || begin[-1] == '\n'))
            return 1;
    }
    return 0;
}

static enum kind import_kind_of(const char *text)
{
    static const char *const yaml[] = {"format:", NULL};
    static const char *const ib[] = {"vendid=", "switchguid=", "caguid=", "Switch\t",
                                     "Switch ", "Ca\t",        NULL};

    if (text[strspn(text, " \t\r\n")] == '<')
        return KIND_XML;
    if (begins_line(text, yaml))
        return KIND_YAML;
    if (begins_line(text, ib))
        return KIND_IB;
    return has_gpus(text) ? KIND_SMI : KIND_YAML;
}

/* ---- readers ---- */

int topo_machine_read(struct topo_machine *m, const struct xml *x, int ranks, struct err *err)
{
    if (xml_is(x->root, "system"))
        return topo_nccl_read(m, x, err);
    if (xml_is(x->root, "topology"))
        return topo_hwloc_read(m, x, ranks, err);
    return xml_fail(x, x->root, NULL, err,
                    "is the outermost element, expected 'system' (NCCL) or 'topology' (hwloc)");
}

/* ---- settings for a fabric that the file describes completely ---- */

static int name_groups(struct topo *t, const char *hosts, struct err *err)
{
    char **host = NULL;
    int count = 0;

    if (topo_hosts_parse(hosts, &host, &count, err))
        return err_prefix(err, "--hosts: ");
    int rc = 0;
    if (count != t->groups.count)
        rc = err_set(err, ERR_INPUT,
                     "--hosts names %d machines, expected %d, one for each group", count,
                     t->groups.count);
    for (int k = 0; rc == 0 && k < count; k++)
        topo_set_host(t, k, host[k]);
    topo_hosts_free(host, count);
    return rc;
}

/* With `fill` the settings were made for another file: they only complete this one. */
static int apply_settings(struct topo *t, const char *name,
                          const struct topo_settings *settings, struct err *err)
{
    if (settings->fill)
        return 0;
    if (settings->nodes || settings->ranks)
        return err_set(
            err, ERR_INPUT,
            "'%s' describes all machines and ranks, expected neither --nodes nor --ranks",
            name);
    if (settings->given.nvlink_Bps > 0 || settings->given.nic_Bps > 0)
        return err_set(
            err, ERR_INPUT,
            "'%s' has no link counts, expected rates of levels instead of nvlink and nic",
            name);
    if (topo_given_apply(t, &settings->given, 0, err))
        return -1;
    return settings->hosts ? name_groups(t, settings->hosts, err) : 0;
}

/* Skips a UTF-8 byte order mark unless the text is YAML or XML.  Frees the text. */
int topo_import_text(struct topo *t, const char *name, char *text, int64_t bytes,
                     const struct topo_settings *settings, struct err *err)
{
    static const struct topo_settings none;
    struct topo new = {0};
    struct topo_machine m;
    struct yaml y;
    struct xml x;
    int mark = strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3, rc;
    enum kind kind = import_kind_of(text + mark);

    settings = settings ? settings : &none;
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
        mem_free(text);
        return err_at(err, name, 1, NULL, "begins with the mark of UTF-16, expected UTF-8");
    }
    if ((kind == KIND_SMI || kind == KIND_IB) && memchr(text, 0, (size_t)bytes)) {
        mem_free(text);
        return err_at(err, name, 0, NULL, "has a byte 0x00, expected text");
    }
    topo_machine_init(&m, name);
    if (kind == KIND_YAML) {
        yaml_take(&y, name, text, bytes);
        rc = topo_parse_yaml(&new, &y, err) || apply_settings(&new, name, settings, err) ? -1
                                                                                         : 0;
        yaml_release(&y);
    } else if (kind == KIND_IB) {
        rc = topo_ib_read(&new, name, text + mark, settings, err);
        rc = rc || !settings->hosts || settings->fill ? rc
                                                      : name_groups(&new, settings->hosts, err);
    } else if (kind == KIND_XML) {
        rc = xml_take(&x, name, text, bytes, err);
        if (rc == 0) {
            rc = topo_machine_read(&m, &x, settings->ranks, err) ||
                 topo_machine_build(&new, &m, settings, err);
            xml_release(&x);
        }
    } else {
        rc = topo_smi_read(&m, text + mark, err) || topo_machine_build(&new, &m, settings, err);
    }
    if (kind == KIND_IB || kind == KIND_SMI)
        mem_free(text);
    topo_machine_release(&m);
    if (rc == 0)
        *t = new;
    else
        topo_release(&new);
    return rc ? -1 : 0;
}

/* Keeps only the groups of these hosts, in the fabric's order. */
static int keep_hosts(struct topo *t, const char *only, struct err *err)
{
    struct topo part;
    char **host = NULL;
    int count = 0, ranks = 0, rc = 0;

    if (topo_hosts_parse(only, &host, &count, err))
        return err_prefix(err, "--only: ");
    int *kept = mem_new((size_t)t->groups.count, sizeof *kept);
    int *group_of = mem_new((size_t)t->groups.ranks, sizeof *group_of);
    for (int i = 0; rc == 0 && i < count; i++) {
        int found = 0;
        for (int k = 0; k < t->groups.count; k++)
            if (strcmp(t->host[k], host[i]) == 0)
                found = kept[k] = 1;
        if (!found)
            rc = err_set(err, ERR_INPUT, "--only names '%.64s', expected hosts of the fabric",
                         host[i]);
    }
    for (int r = 0; r < t->groups.ranks; r++)
        if (kept[t->groups.group_of[r]])
            group_of[ranks++] = t->groups.group_of[r];
    if (rc == 0) {
        topo_subset(t, ranks, group_of, &part);
        topo_release(t);
        *t = part;
    }
    mem_free(kept);
    mem_free(group_of);
    topo_hosts_free(host, count);
    return rc;
}

int topo_import(struct topo *t, const char *what, const struct topo_settings *settings,
                struct err *err)
{
    static const struct topo_settings none;
    struct topo new = {0};
    char *text = NULL;
    int64_t bytes = 0;
    int rc;

    settings = settings ? settings : &none;
    if (topo_is_local(what)) {
        rc = topo_local_read(&new, what, settings, err);
    } else if (strncmp(what, "synth:", 6) == 0) {
        rc = topo_parse_synth(&new, what + 6, err);
        rc = rc ? rc : apply_settings(&new, what, settings, err);
    } else if (topo_is_instance(what)) {
        rc = topo_instance_read(&new, what, err);
        rc = rc ? rc : apply_settings(&new, what, settings, err);
    } else {
        rc = io_read_text(what, YAML_BYTES_MAX, &text, &bytes, err);
        const char *name = strcmp(what, "-") ? what : "stdin";
        rc = rc ? rc : topo_import_text(&new, name, text, bytes, settings, err);
    }
    if (rc == 0 && settings->only)
        rc = keep_hosts(&new, settings->only, err);
    if (rc)
        topo_release(&new);
    else
        *t = new;
    return rc;
}

/* Rejects a file that leaves figures open: the caller has no way to complete them. */
int topo_read(struct topo *t, const char *what, struct err *err)
{
    const char *name = strcmp(what, "-") ? what : "stdin";
    struct topo new;

    if (topo_import(&new, what, NULL, err))
        return -1;
    if (new.open[0]) {
        err_set(err, ERR_INPUT, "%s; expected the output of 'paro-topo -i FILE'", new.open);
        snprintf(err->file, sizeof err->file, "%s", name);
        topo_release(&new);
        return -1;
    }
    *t = new;
    return 0;
}
