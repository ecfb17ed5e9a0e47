/* SPDX-License-Identifier: MIT */
/*
 * lockfix: a lock file in a scratch directory, open.
 */
#ifndef CAIRN_TESTS_SUPPORT_LOCKFIX_H
#define CAIRN_TESTS_SUPPORT_LOCKFIX_H

#include <stdlib.h>

#include "datastore/base/lockfile.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define LOCK_NAME ".lock"
#define SHOWN "store/.lock"
#define LONG_MS 20000U /* never waited for when all is well */

struct fixture {
	struct tmpdir dir;
	struct lockfile *lf;
	struct task task;
	struct err e;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	tmpdir_make(&f->dir);
	tmpdir_put_str(f->dir.fd, LOCK_NAME, "");
	*state = f;
	return lockfile_open(f->dir.fd, LOCK_NAME, &f->lf, SHOWN, &f->e);
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	fault_uninstall();
	lockfile_close(f->lf);
	tmpdir_remove(&f->dir);
	free(f);
	return 0;
}

static inline bool try_lock(
    struct fixture *f, uint64_t byte, enum lock_mode mode)
{
	bool taken = false;

	assert_ok(lockfile_try(f->lf, byte, mode, &taken, &f->e), &f->e);
	return taken;
}

static inline int wait_lock(
    struct fixture *f, uint64_t byte, enum lock_mode mode, uint64_t timeout_ms)
{
	return lockfile_wait(
	    f->lf, byte, mode, timeout_ms, &f->task, NULL, NULL, &f->e);
}

#endif
