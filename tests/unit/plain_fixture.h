/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_PLAIN_FIXTURE_H
#define TESTS_UNIT_PLAIN_FIXTURE_H

/* Provides what most programs of tests need, with cmocka and without. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

/* The error of the call at hand. */
static struct err err __attribute__((unused));

/* A list of short items, whose lines the formatter fills. */
#define LIST(...)                                                                              \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

#endif
