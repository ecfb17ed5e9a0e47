/* SPDX-License-Identifier: MIT */
/*
 * signals: Ctrl-C and SIGTERM ask the task to stop; a second one ends the
 * program at once.  SIGUSR1 asks for a line of progress.  SIGPIPE is ignored:
 * writes fail with EPIPE instead.
 */
#ifndef CAIRN_CLI_SIGNALS_H
#define CAIRN_CLI_SIGNALS_H

#include <stdatomic.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"

/* *asked becomes true with SIGUSR1; whoever shows progress takes it back. */
int signals_watch(struct task *task, atomic_bool *asked, struct err *e);

/*
 * The work is done and its result told: what still comes changes nothing, and
 * the task that signals_watch() was given may go.
 */
void signals_ignore(void);

#endif
