/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a number stands in a table. */
#include "rank/rank_put.h"

#include <math.h>

void rank_put_number(FILE *out, int width, double v)
{
    if (!isfinite(v))
        fprintf(out, "%*s", width, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (fabs(v) < 1e8 && (fabs(v) >= 1e-3 || v == 0))
        fprintf(out, "%*.6f", width, v);
    else
        fprintf(out, "%*.6e", width, v);
}
