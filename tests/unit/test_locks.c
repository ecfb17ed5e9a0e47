/* SPDX-License-Identifier: MIT */
#include "datastore/locks.h"

#include <errno.h>
#include <stdio.h>

#include "datastore/gcrunning.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

#define RUNNING ".cairn/gc.running"

/* As a garbage collection does when it begins. */
static void announce(struct dsfix *f, struct datastore *ds)
{
	struct gcrunning g;
	int fd = -1;

	gcrunning_init(&g);
	assert_ok(gcrunning_open(ds, &fd, &f->e), &f->e);
	assert_true(fd >= 0);
	assert_ok(gcrunning_write(ds, fd, &g, &f->e), &f->e);
	assert_int_equal(close(fd), 0);
}

static bool can(struct dsfix *f, uint64_t byte, short type)
{
	return foreign_can_byte(f->ds->root_fd, ".lock", byte, type);
}

static void test_shared(void **state)
{
	static const uint64_t bytes[] = { LOCK_BYTE_TREE, LOCK_BYTE_PRUNE };
	struct dsfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(bytes); i++) {
		assert_ok(locks_wait_shared(
			      f->ds, bytes[i], "forget", &f->task, &f->e),
		    &f->e);
		assert_true(can(f, bytes[i], F_RDLCK));
		assert_false(can(f, bytes[i], F_WRLCK));
		locks_release(f->ds, bytes[i], LOCK_SHARED);
		assert_true(can(f, bytes[i], F_WRLCK));
		assert_ok(locks_wait_exclusive(
			      f->ds, bytes[i], 0, "gc", &f->task, &f->e),
		    &f->e);
		assert_false(can(f, bytes[i], F_RDLCK));
		locks_release(f->ds, bytes[i], LOCK_EXCLUSIVE);
	}
}

static void test_not_open_for_writing(void **state)
{
	struct dsfix *f = *state;

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_err(
	    locks_wait_shared(f->ds, LOCK_BYTE_TREE, "forget", &f->task, &f->e),
	    &f->e, ERR_REFUSED, "open for reading");
	assert_err(locks_wait_exclusive(
		       f->ds, LOCK_BYTE_TREE, 0, "gc", &f->task, &f->e),
	    &f->e, ERR_REFUSED, "open for reading");
}

/* GC could not have it: the sessions are named, the lock is said. */
static void test_exclusive_busy(void **state)
{
	const struct foreign_lock lock = {
		.type = F_RDLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct dsfix *f = *state;
	struct foreign_holder holder;
	struct session *s = NULL;
	char want[64];

	foreign_start(f->ds->root_fd, ".lock", &lock, &holder);
	assert_err(locks_wait_exclusive(
		       f->ds, LOCK_BYTE_TREE, 100, "gc", &f->task, &f->e),
	    &f->e, ERR_BUSY, "a forget or prune, which leave no name");
	s = sessionfix_open(f, &sessionfix_ten);
	assert_err(locks_wait_exclusive(
		       f->ds, LOCK_BYTE_TREE, 1500, "gc", &f->task, &f->e),
	    &f->e, ERR_BUSY, "gc waited 1 s for the tree lock of '");
	(void)snprintf(want, sizeof(want), "pid %d, since ", getpid());
	assert_non_null(strstr(f->e.msg, "held by: push of host/a (host "));
	assert_non_null(strstr(f->e.msg, want));
	session_abort(s);
	foreign_end(&holder);
	assert_ok(locks_wait_exclusive(
		      f->ds, LOCK_BYTE_TREE, 100, "gc", &f->task, &f->e),
	    &f->e);
	locks_release(f->ds, LOCK_BYTE_TREE, LOCK_EXCLUSIVE);
}

static void test_cancelled(void **state)
{
	const struct foreign_lock lock = {
		.type = F_WRLCK, .start = LOCK_BYTE_PRUNE, .len = 1
	};
	struct dsfix *f = *state;
	struct foreign_holder holder;

	foreign_start(f->ds->root_fd, ".lock", &lock, &holder);
	atomic_store(&f->task.stop, 15);
	assert_err(locks_wait_shared(
		       f->ds, LOCK_BYTE_PRUNE, "forget", &f->task, &f->e),
	    &f->e, ERR_CANCELLED, "SIGTERM");
	foreign_end(&holder);
}

/* A second GC, as far as this process can tell. */
static void hold_byte1(struct dsfix *f)
{
	bool taken = false;

	assert_ok(
	    datastore_open(f->path, DATASTORE_GC, NULL, &f->second, &f->e),
	    &f->e);
	assert_ok(lockfile_try(f->second->locks, LOCK_BYTE_GC, LOCK_EXCLUSIVE,
		      &taken, &f->e),
	    &f->e);
	assert_true(taken);
}

/* gc.running is believed while byte 1 is held, and only then. */
static void test_holder(void **state)
{
	struct dsfix *f = *state;
	char out[256];
	char want[128];

	assert_string_equal(
	    locks_gc_holder(f->ds, out, sizeof(out)), "unknown");
	hold_byte1(f);
	assert_string_equal(
	    locks_gc_holder(f->ds, out, sizeof(out)), "unknown");
	announce(f, f->second);
	assert_ptr_equal(locks_gc_holder(f->ds, out, sizeof(out)), out);
	(void)snprintf(want, sizeof(want), ", pid %d, since 20", getpid());
	assert_int_equal(strncmp(out, "host ", 5), 0);
	assert_non_null(strstr(out, want));
	assert_int_equal(out[strlen(out) - 1], 'Z');
	/* Cut, not overrun. */
	(void)locks_gc_holder(f->ds, out, 8);
	assert_int_equal(strlen(out), 7);
	lockfile_unlock(f->second->locks, LOCK_BYTE_GC, LOCK_EXCLUSIVE);
	assert_string_equal(
	    locks_gc_holder(f->ds, out, sizeof(out)), "unknown");
}

static void test_holder_odd(void **state)
{
	static const char *const odd[] = { "", "{", "[]", "{\"host\":1}",
		"{\"host\":\"h\",\"pid\":\"x\",\"start\":\"s\"}" };
	struct dsfix *f = *state;
	char out[256];

	hold_byte1(f);
	for (size_t i = 0; i < TEST_COUNT(odd); i++) {
		dsfix_put(f, RUNNING, odd[i]);
		assert_string_equal(
		    locks_gc_holder(f->ds, out, sizeof(out)), "unknown");
	}
	/* Names are shown so that they drive nothing. */
	dsfix_put(f, RUNNING,
	    "{\"host\":\"a\\nb\\u001b\",\"pid\":7,"
	    "\"start\":\"2026-11-30T12:00:00Z\"}");
	assert_string_equal(locks_gc_holder(f->ds, out, sizeof(out)),
	    "host a\\nb\\x1b, pid 7, since 2026-11-30T12:00:00Z");
	/* One that has ended is not who holds it now. */
	dsfix_put(f, RUNNING,
	    "{\"host\":\"a\",\"pid\":7,\"state\":\"done\","
	    "\"start\":\"2026-11-30T12:00:00Z\"}");
	assert_string_equal(
	    locks_gc_holder(f->ds, out, sizeof(out)), "unknown");
}

struct said {
	struct dsfix *f;
	char text[1024];
	struct foreign_holder holder;
};

static void say(void *ctx, enum task_level level, const char *text)
{
	struct said *s = ctx;

	(void)level;
	(void)snprintf(s->text, sizeof(s->text), "%s", text);
	foreign_end(&s->holder);
}

/* Schedule 15: after 5 s it is said whose lock is waited for. */
static void test_says(void **state)
{
	static const struct task_ops ops = { .message = say };
	const struct foreign_lock write = {
		.type = F_WRLCK, .start = LOCK_BYTE_PRUNE, .len = 1
	};
	const struct foreign_lock read = {
		.type = F_RDLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct dsfix *f = *state;
	struct said said = { .f = f };

	hold_byte1(f);
	announce(f, f->second);
	f->task.ops = &ops;
	f->task.ctx = &said;
	foreign_start(f->ds->root_fd, ".lock", &write, &said.holder);
	assert_ok(locks_wait_shared(
		      f->ds, LOCK_BYTE_PRUNE, "forget", &f->task, &f->e),
	    &f->e);
	assert_non_null(
	    strstr(said.text, "forget waits for the prune lock of '"));
	assert_non_null(strstr(said.text, "(host "));
	locks_release(f->ds, LOCK_BYTE_PRUNE, LOCK_SHARED);
	foreign_start(f->ds->root_fd, ".lock", &read, &said.holder);
	assert_ok(locks_wait_exclusive(
		      f->ds, LOCK_BYTE_TREE, 30000, "gc", &f->task, &f->e),
	    &f->e);
	assert_non_null(strstr(said.text, "gc waits for the tree lock of '"));
	assert_non_null(strstr(said.text, "held by: a forget or prune"));
	locks_release(f->ds, LOCK_BYTE_TREE, LOCK_EXCLUSIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_shared),
		SESSION_TEST(test_not_open_for_writing),
		SESSION_TEST(test_exclusive_busy),
		SESSION_TEST(test_cancelled),
		SESSION_TEST(test_holder),
		SESSION_TEST(test_holder_odd),
		SESSION_TEST(test_says),
	};

	return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
