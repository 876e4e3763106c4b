/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/paro.h"

const char *paro_version(void)
{
    return PARO_VERSION;
}
