/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_HUB_H
#define CLI_CLI_HUB_H

enum { CLI_HUB_PATH = 4096 };

/*
 * Finds a model in the Hugging Face hub's cache: of a folder models--ORG--NAME, or of ORG/NAME
 * where no such file is, the snapshot that refs/main names, in `path`; else `given` itself.
 * Nothing is downloaded.
 */
const char *cli_hub(const char *given, char path[CLI_HUB_PATH]);

#endif
