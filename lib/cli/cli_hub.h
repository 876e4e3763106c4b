/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_HUB_H
#define CLI_CLI_HUB_H

enum { CLI_HUB_PATH = 4096 };

/*
 * Finds a model in the Hugging Face hub's cache.  For a folder models--ORG--NAME, or for
 * ORG/NAME if there is no such file, writes the snapshot named by refs/main to `path` and
 * returns it; otherwise returns `given`.  Downloads nothing.
 */
const char *cli_hub(const char *given, char path[CLI_HUB_PATH]);

#endif
