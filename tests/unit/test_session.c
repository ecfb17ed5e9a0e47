/* SPDX-License-Identifier: MIT */
/* Opening a session: steps 1 to 6. */
#include "datastore/session.h"

#include <stdio.h>

#include "datastore/base/uuid.h"
#include "datastore/locks.h"
#include "datastore/registration.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

static bool byte0_is_free(struct dsfix *f)
{
	return foreign_can_byte(
	    f->ds->root_fd, ".lock", LOCK_BYTE_SESSION, F_WRLCK);
}

static void assert_registered(struct dsfix *f)
{
	struct registration_list l = { .n = 0 };
	char machine[DATASTORE_ID_SIZE];
	char host[REGISTRATION_HOST_SIZE];

	registration_this_machine(host, machine);
	assert_ok(registration_list(f->ds, &l, &f->e), &f->e);
	assert_int_equal(l.n, 1);
	assert_true(l.items[0].live);
	assert_string_equal(l.items[0].group, "host/a");
	assert_string_equal(l.items[0].snapshot, T0_DIR);
	assert_string_equal(l.items[0].command, "push");
	assert_string_equal(l.items[0].machine_id, machine);
	assert_string_equal(l.items[0].host, host);
	assert_int_equal(l.items[0].pid, getpid());
	registration_list_release(&l);
}

/* What each step takes is held until the end, and then is not. */
static void test_steps(void **state)
{
	struct dsfix *f = *state;
	struct session *s = NULL;
	struct session_stats stats;

	assert_true(byte0_is_free(f));
	s = sessionfix_open(f, &sessionfix_ten);
	assert_false(byte0_is_free(f));
	assert_registered(f);
	assert_true(dsfix_has(f, "host/a/owner"));
	assert_false(sessionfix_can_flock(f, "host/a", LOCK_SH));
	assert_false(sessionfix_can_flock(f, T0_DIR, LOCK_SH));
	assert_int_equal(session_id(s)->time, T0);
	assert_int_equal(session_base_fd(s), -1);
	assert_true(session_dir_fd(s) >= 0);
	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	assert_ok(session_beat(s, &f->e), &f->e);
	session_stats(s, &stats);
	assert_int_equal(stats.chunks, 10);
	assert_int_equal(stats.new_chunks, 10);
	assert_int_equal(stats.bytes, 10 * PUSHFIX_CHUNK);
	assert_int_equal(stats.new_bytes, 10 * PUSHFIX_CHUNK);
	assert_in_range(stats.stored_bytes, 1, 10 * (PUSHFIX_CHUNK + 12));
	assert_false(dsfix_has(f, T0_DIR "/" PUSHFIX_NAME));
	assert_false(dsfix_has(f, T0_DIR "/index.json.blob"));
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_true(byte0_is_free(f));
	assert_true(sessionfix_can_flock(f, "host/a", LOCK_EX));
	assert_true(sessionfix_can_flock(f, T0_DIR, LOCK_EX));
	assert_true(dsfix_has(f, T0_DIR "/" PUSHFIX_NAME));
	assert_false(dsfix_has(f, T0_DIR "/" PUSHFIX_TMP));
	sessionfix_census(f, 1, 0, 1, 0);
}

static void test_manifest(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;
	struct backup_snapshot id;
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct manifest m = MANIFEST_INIT;

	assert_ok(pushfix_opts(&sessionfix_ten, &opts, &f->e), &f->e);
	opts.notes = "before the move";
	assert_ok(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e);
	id = *session_id(s);
	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_ok(snapshot_hold(f->ds, &id, LOCK_SHARED, &hold, &f->e), &f->e);
	assert_ok(tree_read_manifest(f->ds, &id, hold.fd, &m, &f->e), &f->e);
	assert_int_equal(m.files_n, 2);
	assert_non_null(manifest_find(&m, PUSHFIX_NAME));
	assert_non_null(manifest_find(&m, "b.conf.blob"));
	assert_string_equal(m.notes, "before the move");
	manifest_release(&m);
	snapshot_release(&hold);
}

/* A name that is taken gives the next second; with --time it is an error. */
static void test_time(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = sessionfix_ten;
	struct session *s = NULL;
	struct backup_snapshot id;
	int64_t now = clock_now_s();

	sessionfix_run(f, &sessionfix_ten, NULL);
	assert_err(pushfix_open(f->ds, &sessionfix_ten, &f->task, &s, &f->e),
	    &f->e, ERR_EXISTS, "'" T0_DIR "' is already there");
	sessionfix_census(f, 1, 0, 1, 0);
	/* An older one may be made after a newer one. */
	p.time = T0 - 86400;
	sessionfix_run(f, &p, &id);
	assert_int_equal(id.time, p.time);
	p.time = -1;
	assert_err(pushfix_open(f->ds, &p, &f->task, &s, &f->e), &f->e,
	    ERR_INVALID, "time -1 of a snapshot");
	p.time = 0;
	for (int i = 0; i < 3; i++) {
		sessionfix_run(f, &p, &id);
		assert_in_range(id.time, now + i, now + i + 60);
	}
	sessionfix_census(f, 5, 0, 1, 0);
}

/* A time without --time that is taken by an unfinished one is passed, too. */
static void test_time_unfinished(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = sessionfix_ten;
	struct backup_snapshot id;
	struct backup_snapshot mark;
	int64_t now = clock_now_s();

	p.time = 0;
	mark = (struct backup_snapshot){ .time = now };
	assert_ok(backup_group_parse(&(struct backup_ns){ .name = "" },
		      "host/a", &mark.group, &f->e),
	    &f->e);
	for (int i = 0; i < 5; i++) {
		char path[BACKUP_PATH_SIZE];

		mark.time = now + i;
		backup_snapshot_path(&mark, path);
		dsfix_mkdir(f, path);
	}
	sessionfix_run(f, &p, &id);
	assert_in_range(id.time, now + 5, now + 60);
	sessionfix_census(f, 1, 5, 1, 0);
}

/* One session per group; who is in the way is said. */
static void test_group_busy(void **state)
{
	struct dsfix *f = *state;
	struct pushfix other = sessionfix_ten;
	struct session *s = sessionfix_open(f, &sessionfix_ten);
	struct session *t = NULL;
	char want[64];

	(void)snprintf(want, sizeof(want), "pid %d, since ", getpid());
	assert_ok(
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->second, &f->e),
	    &f->e);
	other.time = T0 + 1;
	assert_err(pushfix_open(f->second, &other, &f->task, &t, &f->e), &f->e,
	    ERR_BUSY, "group 'host/a' is in use by push of host/a (host ");
	assert_non_null(strstr(f->e.msg, want));
	other.group = "host/b";
	sessionfix_run(f, &other, NULL);
	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 2, 0, 2, 0);
}

/* Byte 0 and the own byte keep a program that locks like PBS out (I9). */
static void test_pbs(void **state)
{
	struct dsfix *f = *state;
	const struct foreign_lock gc = { .classic = true, .type = F_WRLCK };
	const struct foreign_lock writer = { .classic = true, .type = F_RDLCK };
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	assert_false(foreign_can(f->ds->root_fd, ".lock", &gc));
	assert_false(foreign_can(f->ds->root_fd, ".lock", &writer));
	session_abort(s);
}

/* I2: nobody removes a base that is in use; one in removal is no base. */
static void test_base(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot first;
	struct backup_snapshot none;
	struct pushfix p = { .group = "host/b", .time = T0, .base = &first };
	struct session *s = NULL;
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;

	sessionfix_run(f, &sessionfix_ten, &first);
	s = sessionfix_open(f, &p);
	assert_false(sessionfix_can_flock(f, T0_DIR, LOCK_EX));
	assert_true(sessionfix_can_flock(f, T0_DIR, LOCK_SH));
	assert_err(snapshot_forget(f->ds, &first, &f->task, &f->e), &f->e,
	    ERR_BUSY, "'" T0_DIR "' is in use");
	session_abort(s);
	assert_true(sessionfix_can_flock(f, T0_DIR, LOCK_EX));
	assert_ok(
	    snapshot_hold(f->ds, &first, LOCK_EXCLUSIVE, &hold, &f->e), &f->e);
	assert_err(pushfix_open(f->ds, &p, &f->task, &s, &f->e), &f->e,
	    ERR_BUSY,
	    "base: snapshot '" T0_DIR "' is being written or removed");
	snapshot_release(&hold);
	none = first;
	none.time++;
	p.base = &none;
	assert_err(pushfix_open(f->ds, &p, &f->task, &s, &f->e), &f->e,
	    ERR_NOTFOUND, "base: snapshot 'host/a/2027-01-15T08:00:01Z'");
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	p.base = &first;
	assert_err(pushfix_open(f->ds, &p, &f->task, &s, &f->e), &f->e,
	    ERR_NOTFOUND, "base '" T0_DIR "' is not finished");
	sessionfix_census(f, 0, 1, 1, 0);
}

/* Nothing of a session that withdraws is left, but what was there before. */
static void test_abort(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	session_abort(NULL);
	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	session_abort(s);
	sessionfix_census(f, 0, 0, 0, 0);
	assert_true(byte0_is_free(f));
	/* A group that somebody made for it, with its owner, stays. */
	dsfix_mkdir(f, "host/a");
	dsfix_put(f, "host/a/owner", "joe@pbs\n");
	s = sessionfix_open(f, &sessionfix_ten);
	session_abort(s);
	assert_true(dsfix_has(f, "host/a/owner"));
	sessionfix_run(f, &sessionfix_ten, NULL);
	sessionfix_census(f, 1, 0, 1, 0);
}

static void test_dry_run_time(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;

	sessionfix_run(f, &sessionfix_ten, NULL);
	assert_ok(pushfix_opts(&sessionfix_ten, &opts, &f->e), &f->e);
	opts.dry_run = true;
	assert_err(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e,
	    ERR_EXISTS, "'" T0_DIR "' is already there");
}

static void test_read_only(void **state)
{
	struct dsfix *f = *state;
	struct session *s = NULL;

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_err(pushfix_open(f->ds, &sessionfix_ten, &f->task, &s, &f->e),
	    &f->e, ERR_REFUSED, "is not open for writing");
}

static void test_min_free(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;

	assert_ok(pushfix_opts(&sessionfix_ten, &opts, &f->e), &f->e);
	opts.min_free.percent_x100 = 10000;
	fault_install();
	assert_err(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e,
	    ERR_REFUSED, "free");
	assert_int_equal(fault_count(FAULT_CHANGES), 0);
	assert_false(dsfix_has(f, "host/a"));
}

static void test_cancel(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	atomic_store(&f->task.stop, 2);
	assert_err(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e,
	    ERR_CANCELLED, "SIGINT");
	assert_err(session_beat(s, &f->e), &f->e, ERR_CANCELLED, "SIGINT");
	assert_err(session_commit(s, &f->e), &f->e, ERR_CANCELLED, "SIGINT");
	atomic_store(&f->task.stop, 0);
	sessionfix_census(f, 0, 0, 0, 0);
}

/* A foreign store gets its .cairn by the first push. */
static void test_foreign_store(void **state)
{
	struct dsfix *f = *state;

	dsfix_move(f, "store/.cairn", "gone");
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	sessionfix_run(f, &sessionfix_ten, NULL);
	assert_true(dsfix_has(f, ".cairn/format"));
	sessionfix_census(f, 1, 0, 1, 0);
}

/* I3: when its registration goes, a session holds nothing any more. */
struct last {
	struct dsfix *f;
	unsigned seen;
};

static void see_last(void *ctx, struct fault_event *ev)
{
	struct last *l = ctx;

	if (ev->call != FAULT_UNLINKAT || ev->flags != 0 ||
	    !uuid_is_text(ev->name, strlen(ev->name)))
		return;
	l->seen++;
	assert_true(byte0_is_free(l->f));
	assert_true(foreign_can_byte(
	    l->f->ds->root_fd, ".lock", LOCK_BYTE_TREE, F_WRLCK));
	assert_true(sessionfix_can_flock(l->f, "host/a", LOCK_EX));
}

static void test_unregisters_last(void **state)
{
	struct dsfix *f = *state;
	struct last l = { .f = f };
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = see_last, .ctx = &l });
	assert_ok(session_commit(s, &f->e), &f->e);
	fault_uninstall();
	assert_int_equal(l.seen, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_steps),
		SESSION_TEST(test_unregisters_last),
		SESSION_TEST(test_manifest),
		SESSION_TEST(test_time),
		SESSION_TEST(test_time_unfinished),
		SESSION_TEST(test_group_busy),
		SESSION_TEST(test_pbs),
		SESSION_TEST(test_base),
		SESSION_TEST(test_abort),
		SESSION_TEST(test_dry_run_time),
		SESSION_TEST(test_read_only),
		SESSION_TEST(test_min_free),
		SESSION_TEST(test_cancel),
		SESSION_TEST(test_foreign_store),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
