/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_NAME_H
#define HEALTH_HEALTH_NAME_H

#include <stddef.h>

/*
 * Names that others have given, of hosts and of ports, as they stand in a line, its perfdata,
 * Prometheus' labels, JSON, a state and a picture alike: UTF-8 without blanks, controls, marks
 * of direction and what one of these, or a shell, takes for its own; bytes that are none of it
 * become %7C.  A name that is too long then keeps its ends, and differs from all others by what
 * stands behind its #.
 */
enum { HEALTH_NAME = 65 /* Linux' own limit for a host, and a 0 */ };

/* Of what a kernel says: different names stay so, a%7C that it says becomes a%257C.  room >=
 * 33, the 0 with it. */
void health_name_make(const char *raw, char *to, size_t room);
/* Of what may be made already (a record, a person who copies it), which stays as it is. */
void health_name_clean(const char *raw, char *to, size_t room);

#endif
