/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_FUZZ_H
#define TOPO_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum topo_outcome {
    TOPO_REFUSED,
    TOPO_COMPLETED, /* a fabric once what the text does not state is given */
    TOPO_TAKEN
};

/*
 * Any bytes as a fabric, in every format that is read: as they are, and as two machines with
 * all that may be missing given.  What was accepted must print in every format, and as YAML
 * read back as the same fabric; a refusal must say why.  Aborts where not.
 */
enum topo_outcome topo_fuzz_case(const uint8_t *data, size_t bytes);

/* The entry that libFuzzer, AFL++ and honggfuzz look for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
