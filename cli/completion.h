/* SPDX-License-Identifier: MIT */
/*
 * completion: scripts that complete command lines in bash, zsh and fish, made
 * from the table of commands.
 *
 * What an argument is, is read off its word in the table (command.h): SNAPSHOT
 * and GROUP are asked from the datastore while completing, names of datastores
 * are those of the config file, lower-case words stand for themselves, the rest
 * are files.
 */
#ifndef CAIRN_CLI_COMPLETION_H
#define CAIRN_CLI_COMPLETION_H

#include "datastore/base/err.h"

/* To stdout.  ERR_INVALID: shell is none of "bash", "zsh", "fish". */
int completion_print(const char *shell, struct err *e);

#endif
