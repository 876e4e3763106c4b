/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a fabric of machines by the name of their type: [HOSTSx]NAME, as "16xaws-p5".
 * NAME.yaml describes one machine.
 */
#include "topo/topo_import.h"

#include <ctype.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_boundary.h"
#include "value/value_yaml.h"

int topo_is_instance(const char *what)
{
    size_t n = 0;

    while (isalnum((unsigned char)what[n]) || (n && what[n] == '-'))
        n++;
    return n && !what[n] && io_absent(what);
}

/* Fails with the names of the known types. */
static int refuse_name(const char *name, const char *folder, struct err *err)
{
    struct io_names all;
    struct err ignored;

    io_names_read(&all, -1, folder, &ignored); /* without the folder: none */
    err_set(err, ERR_INPUT,
            "cannot open '%s': No such file or directory, expected a file, synth:SPEC, or"
            " [HOSTSx]NAME with a type of machine, which are %d:",
            name, all.count);
    for (int i = 0; i < all.count; i++) {
        size_t n = strlen(err->text);
        const char *file = all.entry[i]->d_name;
        snprintf(err->text + n, sizeof err->text - n, " %.*s", (int)strcspn(file, "."), file);
    }
    io_names_free(&all);
    return -1;
}

/* Reads the description of one machine. */
static int read_machine(struct topo *one, const char *name, struct err *err)
{
    char *folder = io_program_path("../share/paro/instances"), *text, file[100];
    int64_t bytes;

    if (io_absent(folder)) { /* not installed: the source tree */
        mem_free(folder);
        folder = io_program_path("../examples/instances");
    }
    snprintf(file, sizeof file, "%s.yaml", name);
    char *path = io_join(folder, file);
    int rc = io_absent(path) ? refuse_name(name, folder, err)
                             : io_read_file(path, YAML_BYTES_MAX, NULL, &text, &bytes, err);
    rc = rc ? rc : topo_import_text(one, path, text, bytes, NULL, err);
    mem_free(path);
    mem_free(folder);
    return rc;
}

int topo_instance_read(struct topo *t, const char *what, struct err *err)
{
    struct topo one = {0};
    char *copy = mem_dup(what), *name = copy;
    size_t digits = strspn(name, "0123456789");
    int64_t hosts = 1;
    int rc = 0;

    if (digits && name[digits] == 'x') {
        name[digits] = 0;
        rc = num_i64(name, 1, GROUPS_RANKS_MAX, &hosts, err);
        name += digits + 1;
    }
    rc = rc || read_machine(&one, name, err) ? -1 : 0;
    if (rc == 0 && hosts * one.groups.ranks > GROUPS_RANKS_MAX)
        rc = err_set(err, ERR_INPUT, "has more than %d ranks", GROUPS_RANKS_MAX);
    if (rc == 0)
        topo_extend(&one, (int)hosts * one.groups.count, t);
    topo_release(&one);
    mem_free(copy);
    return rc ? err_prefix(err, "%s: ", what) : 0;
}
