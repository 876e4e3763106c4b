/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the configuration space of a PCI Express device lists its capabilities (PCI Express
 * Base Specification, chapter 7): those of PCI from the pointer at 0x34, a byte each for id and
 * next; extended ones from 0x100, 16 bits of id, 4 of version, 12 of next.
 *
 *     0x000  header    0x040  capabilities    0x100  extended capabilities    0x1000
 *     anyone may read  root may                root may
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "topo/topo_parts.h"

enum { HEADER = 0x40, PCI = 0x100, EXPRESS = 0x1000 };

static int read_config(const char *root, const char *busid, unsigned char config[EXPRESS])
{
    char path[PATH_MAX];
    ssize_t bytes = 0, n;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/config", root, busid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    while (bytes < EXPRESS && (n = read(fd, config + bytes, (size_t)(EXPRESS - bytes))) > 0)
        bytes += n;
    close(fd);
    return (int)bytes;
}

static unsigned word_at(const unsigned char *config, int at)
{
    return config[at] | (unsigned)config[at + 1] << 8;
}

enum io_answer topo_config_word(const char *root, const char *busid, unsigned capability,
                                int offset, int *at, unsigned *word)
{
    const int extended = (capability & TOPO_EXTENDED) != 0, from = extended ? PCI : HEADER;
    const unsigned id = capability & ~(unsigned)TOPO_EXTENDED;
    unsigned char config[EXPRESS];
    int bytes = read_config(root, busid, config);

    if (bytes <= HEADER)
        return IO_BROKEN;
    int here = extended ? PCI : config[0x34] & ~3;
    /* As many as there is space for: a list may run in a circle. */
    for (int n = 0; n < (EXPRESS - PCI) / 4 && here >= from; n++) {
        if (here + offset + 2 > bytes)
            return here >= PCI && bytes == PCI ? IO_ABSENT : IO_BROKEN;
        if ((extended ? word_at(config, here) : config[here]) == id) {
            *at = here + offset;
            *word = word_at(config, *at);
            return IO_THERE;
        }
        here = (extended ? (int)word_at(config, here + 2) >> 4 : config[here + 1]) & ~3;
    }
    return IO_ABSENT;
}
