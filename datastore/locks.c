/* SPDX-License-Identifier: MIT */
#include "datastore/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/registration.h"

#define RUNNING_MAX 4096U
#define HOLDER_SIZE 256
#define HOST_FIELD 80
#define TIME_FIELD 40
#define MS_PER_S 1000U

#define KEY_HOST "host"
#define KEY_MACHINE "machine-id"
#define KEY_PID "pid"
#define KEY_START "start"

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
	    "%s waited %" PRIu64 " s for the %s of '%s', held by: %s", what,
	    timeout_ms / MS_PER_S, byte_name(byte), ds->path, sessions);
}

void locks_release(struct datastore *ds, uint64_t byte, enum lock_mode mode)
{
	lockfile_unlock(ds->locks, byte, mode);
}

/* The JSON line of gc.running. */
static int running_text(struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *doc = js_object();
	char host[REGISTRATION_HOST_SIZE];
	char machine[DATASTORE_ID_SIZE];
	char start[TEXT_TIME_SIZE];
	int rc = 0;

	registration_this_machine(host, machine);
	js_set_str(doc, KEY_HOST, host, &failure);
	js_set_str(doc, KEY_MACHINE, machine, &failure);
	js_set_i64(doc, KEY_PID, getpid(), &failure);
	js_set_str(doc, KEY_START, text_time(start, clock_now_s()), &failure);
	rc = js_dump(doc, JS_COMPACT, out, &failure);
	js_free(doc);
	if (rc < 0) {
		*e = failure;
		return rc;
	}
	return buf_append(out, "\n", 1, e);
}

/* -1 without an error: there is no such file. */
static int open_running(
    const struct datastore *ds, int *ret_fd, const char *shown, struct err *e)
{
	bool found = false;
	int dirfd = -1;
	int fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc < 0)
		return rc;
	if (found) {
		fd = sysio_openat(dirfd, LOCKS_GC_RUNNING,
		    O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
		    0);
		if (fd < 0 && errno != ENOENT)
			rc = err_sys(e, "open '%s'", shown);
	}
	file_close(&dirfd);
	if (rc == 0)
		*ret_fd = fd;
	return rc;
}

static const char *running_shown(
    const struct datastore *ds, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown(
	    ds, CAIRNDIR "/" LOCKS_GC_RUNNING, out, CAIRNDIR_SHOWN);
}

/*
 * Written in place: nothing is created before the first unlink (I11).  The
 * old text goes first, so that a half-written one is no JSON and says
 * "unknown" instead of a mixture.
 */
static int write_running(
    int fd, const struct buf *text, const char *shown, struct err *e)
{
	if (sysio_ftruncate(fd, 0) < 0)
		return err_sys(e, "empty '%s'", shown);
	return file_pwrite_fully(fd, text->data, text->len, 0, shown, e);
}

int locks_gc_announce(struct datastore *ds, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	struct buf text = BUF_INIT;
	int fd = -1;
	int rc = open_running(ds, &fd, running_shown(ds, shown), e);

	if (rc == 0 && fd >= 0)
		rc = running_text(&text, e);
	if (rc == 0 && fd >= 0)
		rc = write_running(fd, &text, shown, e);
	file_close(&fd);
	buf_release(&text);
	return rc;
}

void locks_gc_retract(struct datastore *ds)
{
	char shown[CAIRNDIR_SHOWN];
	struct err ignored = ERR_INIT;
	int fd = -1;

	/* What stays is believed only while byte 1 is held. */
	if (open_running(ds, &fd, running_shown(ds, shown), &ignored) == 0 &&
	    fd >= 0)
		(void)sysio_ftruncate(fd, 0);
	file_close(&fd);
}

static int holder_text(
    const struct buf *text, char *out, size_t size, struct err *e)
{
	struct js *doc = NULL;
	const char *host = NULL;
	const char *start = NULL;
	char host_field[HOST_FIELD];
	char start_field[TIME_FIELD];
	int64_t pid = 0;
	int rc = js_parse(text->data, text->len, &doc, e);

	if (rc == 0)
		rc = js_get_str(doc, KEY_HOST, &host, NULL, e);
	if (rc == 0)
		rc = js_get_i64(doc, KEY_PID, &pid, NULL, e);
	if (rc == 0)
		rc = js_get_str(doc, KEY_START, &start, NULL, e);
	if (rc == 0) {
		(void)snprintf(out, size, "host %s, pid %" PRId64 ", since %s",
		    text_name(host_field, sizeof(host_field), host), pid,
		    text_name(start_field, sizeof(start_field), start));
	}
	js_free(doc);
	return rc;
}

const char *locks_gc_holder(const struct datastore *ds, char *out, size_t size)
{
	char shown[CAIRNDIR_SHOWN];
	struct err ignored = ERR_INIT;
	struct buf text = BUF_INIT;
	bool found = false;
	bool told = false;
	int dirfd = -1;

	/* It is for a message: whatever is wrong with the file, "unknown". */
	if (gc_runs(ds) &&
	    cairndir_open(ds, CAIRNDIR, &dirfd, &found, &ignored) == 0 &&
	    found &&
	    file_read_at(dirfd, LOCKS_GC_RUNNING, RUNNING_MAX, &text,
		running_shown(ds, shown), &ignored) == 0)
		told = holder_text(&text, out, size, &ignored) == 0;
	if (!told)
		(void)snprintf(out, size, "unknown");
	file_close(&dirfd);
	buf_release(&text);
	return out;
}
