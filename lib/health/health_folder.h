/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_FOLDER_H
#define HEALTH_HEALTH_FOLDER_H

#include "base/err.h"

/*
 * The state's folder, made (0700) if it is not there.  ERR_INPUT: it is a link or no folder,
 * another's, or others may write to it or put another in its place: then nothing is made.
 */
int health_folder_check(const char *dir, struct err *err);

#endif
