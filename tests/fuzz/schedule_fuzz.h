/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_FUZZ_H
#define SCHEDULE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Longer texts are left alone: what a fuzzer finds it finds in short ones. */
enum { FUZZ_BYTES_MAX = 1 << 16 };

enum fuzz_outcome { FUZZ_REFUSED, FUZZ_WRONG, FUZZ_PROVEN };

/*
 * Any bytes as a schedule: read, verified, printed.  What was accepted must print to a text
 * that reads back to the same text and the same verdict; a refusal must say why.  Aborts where
 * not.
 */
enum fuzz_outcome schedule_fuzz_case(const uint8_t *data, size_t bytes);

/* The entry that libFuzzer, AFL++ and honggfuzz look for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
