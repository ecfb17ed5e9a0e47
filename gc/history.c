/* SPDX-License-Identifier: MIT */
#include "gc/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/cairndir.h"
#include "datastore/locks.h"
#include "gc/history_internal.h"
#include "gc/running.h"

#define APPLICATION_ID 0x6372486e /* "crHn" */
#define VERSION 1

#define JOURNAL_NAME HISTORY_NAME "-journal"

/* How long its lock is waited for, and how often it is tried. */
#define WAIT_NS (5 * CLOCK_NS_PER_S)
#define SOON_NS (CLOCK_NS_PER_S / 4)
#define PAUSE_MS 50U
/* Times that it may be replaced between its opening and its locking. */
#define OPEN_TRIES 8

static const char schema[] =
    "create table run(id integer primary key autoincrement, "
    "kind text not null, result text not null, started integer not null, "
    "ended integer, host text not null, machine text not null, "
    "pid integer not null, lock integer not null, removed integer not null, "
    "freed integer not null, unlogged integer not null, why text not null);"
    "create table count(run integer not null, key text not null, "
    "n integer not null, primary key(run, key)) without rowid;"
    "create table snapshot(run integer not null, name text not null, "
    "primary key(run, name)) without rowid;"
    "create table removed(run integer not null, seq integer not null, "
    "digest blob not null, what text not null, bytes integer not null, "
    "used integer not null, primary key(run, seq)) without rowid;";

void history_run_init(
    struct history_run *r, const struct datastore *ds, enum history_kind kind)
{
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->result = HISTORY_RUNNING;
	r->started = clock_now_s();
	registration_this_machine(r->host, r->machine_id);
	r->pid = getpid();
	r->lock_byte = kind == HISTORY_GC ? LOCK_BYTE_GC : ds->own_byte;
}

void history_close(struct history *h)
{
	if (h == NULL)
		return;
	history_sql_close(h);
	/* Its lock goes with it. */
	file_close(&h->fd);
	file_close(&h->dirfd);
	if (h->writing)
		(void)pthread_sigmask(SIG_SETMASK, &h->signals, NULL);
	free(h);
}

/* A process that is stopped by a key would keep the lock for hours. */
static void block_stop(struct history *h)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)pthread_sigmask(SIG_BLOCK, &set, &h->signals);
}

static int open_file(struct history *h, bool *ret_found, struct err *e)
{
	int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
	    (h->writing ? O_RDWR : O_RDONLY);
	struct statx st = { .stx_mask = 0 };
	int rc = 0;

	h->fd = sysio_openat(h->dirfd, HISTORY_NAME, flags, 0);
	if (h->fd < 0 && errno == ENOENT && h->writing) {
		h->fd = sysio_openat(h->dirfd, HISTORY_NAME,
		    flags | O_CREAT | O_EXCL, FILE_MODE);
		/* Another one has just made it: once more. */
		if (h->fd < 0 && errno == EEXIST)
			h->fd = sysio_openat(h->dirfd, HISTORY_NAME, flags, 0);
		else if (h->fd >= 0)
			rc = file_set_owner(
			    h->fd, &h->ds->owner, FILE_MODE, h->shown, e);
		if (rc == 0 && h->fd >= 0)
			rc = file_sync(h->dirfd, h->shown, e);
		if (rc < 0)
			return rc;
	}
	if (h->fd < 0 && errno == ENOENT && !h->writing) {
		*ret_found = false;
		return 0;
	}
	if (h->fd < 0)
		return err_sys(e, "open '%s'", h->shown);
	rc = file_stat_fd(h->fd, &st, h->shown, e);
	if (rc == 0 && !S_ISREG(st.stx_mode))
		rc = err_set(
		    e, ERR_CORRUPT, "'%s' is no regular file", h->shown);
	if (rc == 0)
		*ret_found = true;
	return rc;
}

/* All of it: that is what SQLite's programs look at, too. */
static int lock_file(struct history *h, struct err *e)
{
	int64_t began = clock_boot_ns();

	for (;;) {
		struct flock l = {
			.l_type = h->writing ? F_WRLCK : F_RDLCK,
			.l_whence = SEEK_SET,
		};
		int rc = task_check(h->task, e);

		if (rc < 0)
			return rc;
		if (sysio_ofd_lock(h->fd, F_OFD_SETLK, &l) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return err_sys(e, "lock '%s'", h->shown);
		if (clock_boot_ns() - began >= h->wait_ns)
			return err_set(e, ERR_BUSY,
			    "'%s' is kept locked by another program", h->shown);
		clock_sleep_ms(PAUSE_MS);
	}
}

/* Is what was locked still what stands under the name? */
static int is_current(struct history *h, bool *ret, struct err *e)
{
	struct statx mine;
	struct statx there;
	bool found = false;
	int rc = file_stat_fd(h->fd, &mine, h->shown, e);

	if (rc == 0)
		rc = file_stat_at(
		    h->dirfd, HISTORY_NAME, &there, &found, h->shown, e);
	if (rc == 0)
		*ret = found && file_same(&mine, &there);
	return rc;
}

static int open_locked(struct history *h, bool *ret_found, struct err *e)
{
	bool current = false;
	bool found = false;
	int rc = 0;

	for (int i = 0; i < OPEN_TRIES && rc == 0 && !current; i++) {
		file_close(&h->fd);
		rc = open_file(h, &found, e);
		if (rc == 0 && !found)
			break;
		if (rc == 0)
			rc = lock_file(h, e);
		if (rc == 0)
			rc = is_current(h, &current, e);
	}
	if (rc == 0 && found && !current)
		rc = err_set(
		    e, ERR_BUSY, "'%s' is replaced all the time", h->shown);
	if (rc == 0)
		*ret_found = found;
	return rc;
}

/* It is new, or empty because its maker was killed. */
static int create(struct history *h, struct err *e)
{
	char sql[128];
	int rc = history_sql_exec(
	    h, "pragma page_size = 4096; pragma auto_vacuum = incremental", e);

	(void)snprintf(sql, sizeof(sql),
	    "pragma application_id = %d; pragma user_version = %d",
	    APPLICATION_ID, VERSION);
	if (rc == 0)
		rc = history_begin(h, e);
	if (rc < 0)
		return rc;
	rc = history_sql_exec(h, schema, e);
	if (rc == 0)
		rc = history_sql_exec(h, sql, e);
	return history_finish(h, rc, e);
}

static int check_version(struct history *h, struct err *e)
{
	int64_t application = 0;
	int64_t version = 0;
	int64_t tables = 0;
	int rc = history_number(h, "pragma application_id", &application, e);

	if (rc == 0)
		rc = history_number(h, "pragma user_version", &version, e);
	if (rc == 0)
		rc = history_number(
		    h, "select count(*) from sqlite_schema", &tables, e);
	if (rc < 0)
		return rc;
	if (application == 0 && version == 0 && tables == 0) {
		if (h->writing)
			return create(h, e);
		return err_set(e, ERR_NOTFOUND, "'%s' is empty", h->shown);
	}
	if (application != APPLICATION_ID || version < 1)
		return err_set(
		    e, ERR_CORRUPT, "'%s' is no history of cairn", h->shown);
	if (version > VERSION)
		return err_set(e, ERR_UNSUPPORTED,
		    "'%s' is of version %" PRId64
		    ", this cairn knows versions up to %d",
		    h->shown, version, VERSION);
	return 0;
}

static int connect(struct history *h, struct err *e)
{
	int rc = history_sql_open(h, e);

	/* The journal is a file that stays, empty: to make one each time would
	 * be a change of the directory each time. */
	if (rc == 0 && h->writing)
		rc = history_sql_exec(h, "pragma journal_mode = truncate", e);
	if (rc == 0)
		rc = check_version(h, e);
	return rc;
}

/* *ret_hot: its writer was killed, and only who writes can mend that. */
static int open_once(struct datastore *ds, enum history_mode mode,
    struct task *task, bool *ret_hot, struct history **ret, bool *ret_found,
    struct err *e)
{
	bool soon = mode == HISTORY_READ_SOON || mode == HISTORY_WRITE_SOON;
	bool writing = mode == HISTORY_WRITE || mode == HISTORY_WRITE_SOON;
	struct history *h = calloc(1, sizeof(*h));
	bool locked = false;
	bool found = false;
	int rc = 0;

	if (h == NULL)
		return err_nomem(e);
	h->ds = ds;
	h->task = task;
	h->writing = writing;
	if (writing)
		block_stop(h);
	h->wait_ns = soon ? SOON_NS : WAIT_NS;
	h->dirfd = -1;
	h->fd = -1;
	h->bytes_max = HISTORY_BYTES_MAX;
	h->runs_max = HISTORY_RUNS_MAX;
	(void)datastore_shown(
	    ds, CAIRNDIR "/" HISTORY_NAME, h->shown, sizeof(h->shown));
	rc = cairndir_open(ds, CAIRNDIR, &h->dirfd, &found, e);
	if (rc == 0 && found)
		rc = open_locked(h, &found, e);
	locked = rc == 0 && found;
	if (locked)
		rc = connect(h, e);
	/* Made by somebody who was killed right then. */
	if (rc == ERR_NOTFOUND && !writing) {
		rc = err_forget(e);
		found = false;
	}
	*ret_hot = h->hot;
	if (rc == ERR_CORRUPT && writing && locked)
		*ret = h;
	else if (rc < 0 || !found)
		history_close(h);
	if (rc < 0)
		return rc;
	*ret = found ? h : NULL;
	*ret_found = found;
	return 0;
}

/* What a killed writer began is undone by the next that opens for writing. */
static bool undo(struct datastore *ds, struct task *task)
{
	struct history *h = NULL;
	struct err ignored = ERR_INIT;
	bool hot = false;
	bool found = false;
	int rc =
	    open_once(ds, HISTORY_WRITE_SOON, task, &hot, &h, &found, &ignored);

	history_close(h);
	return rc == 0 && found;
}

int history_open(struct datastore *ds, enum history_mode mode,
    struct task *task, struct history **ret, bool *ret_found, struct err *e)
{
	bool reading = mode == HISTORY_READ || mode == HISTORY_READ_SOON;
	bool hot = false;
	int rc = open_once(ds, mode, task, &hot, ret, ret_found, e);

	if (rc < 0 && hot && reading && undo(ds, task)) {
		(void)err_forget(e);
		rc = open_once(ds, mode, task, &hot, ret, ret_found, e);
	}
	return rc;
}

int history_set_aside(struct history *h, struct err *e)
{
	bool current = false;
	int rc = 0;

	history_sql_close(h);
	/* Gone already, or another one stands there by now. */
	rc = is_current(h, &current, e);
	if (rc < 0 || !current)
		return rc;
	/* The journal is of the damaged one, and must not get into the next.
	 * Once the name is free there may be a next one, whose journal is not
	 * ours to remove: so it goes first. */
	rc = file_unlink_at(h->dirfd, JOURNAL_NAME, h->shown, e);
	if (rc == 0 &&
	    sysio_renameat2(
		h->dirfd, HISTORY_NAME, h->dirfd, HISTORY_ASIDE, 0) < 0)
		rc = err_sys(e, "rename '%s'", h->shown);
	return rc;
}

void history_limit(struct history *h, uint64_t bytes, uint64_t runs)
{
	h->bytes_max = bytes;
	h->runs_max = runs;
}

/* A run of this kind that says it runs, and does not. */
static int bury_one(struct history *h, int64_t id, struct err *e)
{
	const struct history_value v[] = {
		history_text_value(history_result_name(HISTORY_KILLED)),
		{ .number = id },
	};

	return history_sql_run(h, "update run set result = ? where id = ?", v,
	    sizeof(v) / sizeof(v[0]), NULL, e);
}

/* The dead among those that did not end; at most so many at a time. */
#define DEAD_MAX 32

static int find_dead(struct history *h, const struct history_run *self,
    int64_t ids[DEAD_MAX], size_t *ret_n, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	size_t n = 0;
	bool row = false;
	int rc = history_sql_prepare(h,
	    "select " HISTORY_COLUMNS " from run where result = 'running'",
	    &stmt, e);

	while (rc == 0 && n < DEAD_MAX) {
		struct history_run r;
		bool alive = false;

		rc = history_sql_step(h, stmt, &row, e);
		if (rc < 0 || !row)
			break;
		rc = history_row(h, stmt, &r, e);
		/* There is one GC at a time, and that is this one. */
		if (rc == 0 &&
		    !(r.kind == HISTORY_GC && self->kind == HISTORY_GC &&
			self->lock_byte != 0))
			rc = history_is_alive(h, &r, &alive, e);
		if (rc == 0 && !alive)
			ids[n++] = r.id;
	}
	(void)sqlite3_finalize(stmt);
	if (rc == 0)
		*ret_n = n;
	return rc;
}

static int bury(
    struct history *h, const struct history_run *self, struct err *e)
{
	int64_t ids[DEAD_MAX];
	size_t n = 0;
	int rc = find_dead(h, self, ids, &n, e);

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = bury_one(h, ids[i], e);
	return rc;
}

static int insert_run(struct history *h, struct history_run *r, struct err *e)
{
	const struct history_value v[] = {
		history_text_value(history_kind_name(r->kind)),
		history_text_value(history_result_name(r->result)),
		{ .number = r->started },
		history_time_value(r->ended),
		history_text_value(r->host),
		history_text_value(r->machine_id),
		{ .number = r->pid },
		history_unsigned_value(r->lock_byte),
		history_unsigned_value(r->removed),
		history_unsigned_value(r->freed),
		history_unsigned_value(r->unlogged),
		history_text_value(r->why),
	};
	int rc = history_sql_run(h,
	    "insert into run(kind, result, started, ended, host, machine, "
	    "pid, lock, removed, freed, unlogged, why) "
	    "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	    v, sizeof(v) / sizeof(v[0]), NULL, e);

	if (rc == 0)
		r->id = sqlite3_last_insert_rowid(h->db);
	return rc;
}

/* How many of them there are that are this run. */
static int count_of(struct history *h, const struct history_run *r,
    const char *and, int64_t *ret, struct err *e)
{
	const struct history_value v[] = {
		history_text_value(history_kind_name(r->kind)),
		{ .number = r->started },
		{ .number = r->pid },
		history_text_value(r->machine_id),
		{ .number = r->id },
	};
	char sql[256];

	(void)snprintf(sql, sizeof(sql),
	    "select count(*) from run where kind = ?1 and started = ?2 and "
	    "pid = ?3 and machine = ?4 and (?5 = 0 or id = ?5)%s",
	    and);
	return history_sql_run(h, sql, v, sizeof(v) / sizeof(v[0]), ret, e);
}

int history_knows(
    struct history *h, const struct history_run *r, bool *ret, struct err *e)
{
	int64_t n = 0;
	int rc = count_of(h, r, "", &n, e);

	if (rc == 0)
		*ret = n > 0;
	return rc;
}

int history_has_ended(
    struct history *h, const struct history_run *r, bool *ret, struct err *e)
{
	int64_t n = 0;
	int rc =
	    count_of(h, r, " and result not in ('running', 'killed')", &n, e);

	if (rc == 0)
		*ret = n > 0;
	return rc;
}

int history_add(struct history *h, struct history_run *r, struct err *e)
{
	int rc = history_begin(h, e);

	if (rc < 0)
		return rc;
	rc = bury(h, r, e);
	if (rc == 0)
		rc = insert_run(h, r, e);
	rc = history_finish(h, rc, e);
	if (rc < 0)
		r->id = 0;
	return rc;
}

static int put_counts(struct history *h, int64_t run,
    const struct history_count *counts, size_t n, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct history_value v[] = {
			{ .number = run },
			history_text_value(counts[i].key),
			history_unsigned_value(counts[i].n),
		};

		rc = history_sql_run(h,
		    "insert or replace into count(run, key, n) values(?, ?, ?)",
		    v, sizeof(v) / sizeof(v[0]), NULL, e);
	}
	return rc;
}

int history_update(struct history *h, const struct history_run *r,
    const struct history_count *counts, size_t n, struct err *e)
{
	const struct history_value v[] = {
		history_text_value(history_result_name(r->result)),
		history_time_value(r->ended),
		history_unsigned_value(r->removed),
		history_unsigned_value(r->freed),
		history_unsigned_value(r->unlogged),
		history_text_value(r->why),
		{ .number = r->id },
	};
	int rc = history_begin(h, e);

	if (rc < 0)
		return rc;
	rc = history_sql_run(h,
	    "update run set result = ?, ended = ?, removed = ?, freed = ?, "
	    "unlogged = ?, why = ? where id = ?",
	    v, sizeof(v) / sizeof(v[0]), NULL, e);
	if (rc == 0 && sqlite3_changes64(h->db) != 1)
		rc = err_set(e, ERR_NOTFOUND, "'%s' has no run %" PRId64,
		    h->shown, r->id);
	if (rc == 0)
		rc = put_counts(h, r->id, counts, n, e);
	return history_finish(h, rc, e);
}

static int one_snapshot(struct history *h, const char *sql, int64_t run,
    const char *name, struct err *e)
{
	const struct history_value v[] = { { .number = run },
		history_text_value(name) };

	return history_sql_run(h, sql, v, 2, NULL, e);
}

int history_add_snapshot(
    struct history *h, int64_t run, const char *name, struct err *e)
{
	return one_snapshot(h,
	    "insert or replace into snapshot(run, name) values(?, ?)", run,
	    name, e);
}

int history_drop_snapshot(
    struct history *h, int64_t run, const char *name, struct err *e)
{
	return one_snapshot(
	    h, "delete from snapshot where run = ? and name = ?", run, name, e);
}

int history_add_ended(struct history *h, struct history_run *r,
    const char *made, const struct history_count *counts, size_t n,
    struct err *e)
{
	int rc = history_begin(h, e);

	if (rc < 0)
		return rc;
	rc = insert_run(h, r, e);
	if (rc == 0)
		rc = put_counts(h, r->id, counts, n, e);
	if (rc == 0 && made != NULL)
		rc = history_add_snapshot(h, r->id, made, e);
	rc = history_finish(h, rc, e);
	if (rc < 0)
		r->id = 0;
	return rc;
}
