/* SPDX-License-Identifier: MIT */
#include "datastore/locks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/gcrunning.h"
#include "datastore/registration.h"

#define HOLDER_SIZE 256
#define HOST_FIELD 80
#define MS_PER_S 1000U

static const char *byte_name(uint64_t byte)
{
	switch (byte) {
	case LOCK_BYTE_TREE:
		return "tree lock";
	case LOCK_BYTE_PRUNE:
		return "prune lock";
	default:
		return "lock";
	}
}

static int need_locks(const struct datastore *ds, struct err *e)
{
	if (ds->locks != NULL)
		return 0;
	return err_set(e, ERR_REFUSED,
	    "'%s' is open for reading, want it open for writing", ds->path);
}

/* For whom, and what for, lockfile_wait's callbacks speak. */
struct waiting {
	struct datastore *ds;
	uint64_t byte;
	const char *what;
};

/* True if byte 1 is held by another process, as far as one can tell. */
static bool gc_runs(const struct datastore *ds)
{
	struct err ignored = ERR_INIT;
	bool held = false;

	if (ds->locks == NULL)
		return true;
	return lockfile_is_held(ds->locks, LOCK_BYTE_GC, LOCK_SHARED, &held,
		   &ignored) == 0 &&
	    held;
}

/*
 * After 5 s.  F_OFD_GETLK names no process, so who holds it is taken from
 * gc.running: only GC takes the tree lock exclusively, and only GC and prune
 * the prune lock.
 */
static void say_gc(void *ctx, struct task *task)
{
	const struct waiting *w = ctx;
	char holder[HOLDER_SIZE];

	if (w->byte == LOCK_BYTE_PRUNE && !gc_runs(w->ds)) {
		task_message(task, TASK_NOTE,
		    "%s waits for the %s of '%s', held by a prune or forget",
		    w->what, byte_name(w->byte), w->ds->path);
		return;
	}

	task_message(task, TASK_NOTE,
	    "%s waits for the %s of '%s', which garbage collection holds while "
	    "it lists snapshots (%s)",
	    w->what, byte_name(w->byte), w->ds->path,
	    locks_gc_holder(w->ds, holder, sizeof(holder)));
}

/* The live sessions as text, cut where it does not fit; never empty. */
static void name_sessions(struct datastore *ds, char *out, size_t size)
{
	struct registration_list list = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	struct buf text = BUF_INIT;
	const char *s = NULL;

	/* What can not be listed is not named; who waits has other worries. */
	(void)registration_list(ds, &list, &ignored);
	for (size_t i = 0; i < list.n; i++) {
		char who[REGISTRATION_TEXT_SIZE];

		if (!list.items[i].live)
			continue;
		(void)buf_append_fmt(&text, &ignored, "%s%s",
		    text.len > 0 ? "; " : "",
		    registration_text(&list.items[i], who));
	}
	registration_list_release(&list);
	if (text.len > 0)
		s = buf_cstr(&text, &ignored);
	if (s == NULL)
		s = "a forget or prune, which leave no name";
	(void)snprintf(out, size, "%.*s", (int)size - 1, s);
	buf_release(&text);
}

/* Only sessions and those that remove snapshots take these two shared. */
static void say_sessions(void *ctx, struct task *task)
{
	const struct waiting *w = ctx;
	char sessions[HOLDER_SIZE];

	name_sessions(w->ds, sessions, sizeof(sessions));
	task_message(task, TASK_NOTE,
	    "%s waits for the %s of '%s', held by: %s", w->what,
	    byte_name(w->byte), w->ds->path, sessions);
}

int locks_wait_shared(struct datastore *ds, uint64_t byte, const char *what,
    struct task *task, struct err *e)
{
	struct waiting w = { .ds = ds, .byte = byte, .what = what };
	int rc = need_locks(ds, e);

	if (rc < 0)
		return rc;
	return lockfile_wait(
	    ds->locks, byte, LOCK_SHARED, UINT64_MAX, task, say_gc, &w, e);
}

int locks_wait_prune(struct datastore *ds, struct task *task, struct err *e)
{
	struct waiting w = {
		.ds = ds,
		.byte = LOCK_BYTE_PRUNE,
		.what = "prune",
	};
	int rc = need_locks(ds, e);

	if (rc < 0)
		return rc;
	return lockfile_wait(ds->locks, LOCK_BYTE_PRUNE, LOCK_EXCLUSIVE,
	    UINT64_MAX, task, say_gc, &w, e);
}

int locks_wait_exclusive(struct datastore *ds, uint64_t byte,
    uint64_t timeout_ms, const char *what, struct task *task, struct err *e)
{
	struct waiting w = { .ds = ds, .byte = byte, .what = what };
	char sessions[HOLDER_SIZE];
	int rc = need_locks(ds, e);

	if (rc < 0)
		return rc;
	rc = lockfile_wait(ds->locks, byte, LOCK_EXCLUSIVE, timeout_ms, task,
	    say_sessions, &w, e);
	if (rc != ERR_BUSY)
		return rc;
	name_sessions(ds, sessions, sizeof(sessions));
	return err_set(e, ERR_BUSY,
	    "%s waited %" PRIu64
	    " s for the %s of '%s', held by: %s" ERR_TRY_AGAIN,
	    what, timeout_ms / MS_PER_S, byte_name(byte), ds->path, sessions);
}

void locks_release(struct datastore *ds, uint64_t byte, enum lock_mode mode)
{
	lockfile_unlock(ds->locks, byte, mode);
}

const char *locks_gc_holder(const struct datastore *ds, char *out, size_t size)
{
	struct gcrunning g = { .pid = 0 };
	struct err ignored = ERR_INIT;
	char host[HOST_FIELD];
	char start[TEXT_TIME_SIZE];
	bool found = false;

	/* It is for a message: whatever is wrong with the file, "unknown". */
	if (!gc_runs(ds) || gcrunning_read(ds, &g, &found, &ignored) < 0 ||
	    !found || strcmp(g.state, GCRUNNING_RUNNING) != 0) {
		(void)snprintf(out, size, "unknown");
		return out;
	}
	(void)snprintf(out, size, "host %s, pid %" PRId64 ", since %s",
	    text_name(host, sizeof(host), g.host), g.pid,
	    text_time(start, g.start));
	return out;
}
