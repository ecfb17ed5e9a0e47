/* SPDX-License-Identifier: MIT */
/*
 * signals: Ctrl-C and SIGTERM ask the task to stop; a second one ends the
 * program at once.  SIGPIPE is ignored: writes fail with EPIPE instead.
 */
#ifndef CAIRN_CLI_SIGNALS_H
#define CAIRN_CLI_SIGNALS_H

#include "datastore/base/err.h"
#include "datastore/base/task.h"

int signals_watch(struct task *task, struct err *e);

#endif
