/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef XML_FUZZ_H
#define XML_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Any bytes as XML.  What was accepted must be a tree, and written out again must read back as
 * the same one; a refusal must say why.  Returns whether it was accepted; aborts where not.
 */
int xml_fuzz_case(const uint8_t *data, size_t bytes);

/* The entry that libFuzzer, AFL++ and honggfuzz look for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
