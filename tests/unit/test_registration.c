/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/regfix.h"

static char *content(struct regfix *x)
{
	char rel[PATH_MAX];
	char path[PATH_MAX];

	(void)snprintf(rel, sizeof(rel), SESSIONS "%s", regfix_only(x)->uuid);
	return tmpdir_get(x->f->dir.fd, dsfix_name(rel, path), NULL);
}

static void test_new(void **state)
{
	struct regfix *x = *state;
	const struct registration_info *info = NULL;
	char machine[DATASTORE_ID_SIZE];
	char host[REGISTRATION_HOST_SIZE];
	char text[REGISTRATION_TEXT_SIZE];
	int64_t now = clock_now_s();

	assert_int_equal(regfix_list(x), 0);
	regfix_make(x);
	info = regfix_only(x);
	registration_this_machine(host, machine);
	assert_true(info->live);
	assert_false(info->damaged);
	assert_string_equal(info->host, host);
	assert_string_equal(info->machine_id, machine);
	assert_int_equal(strlen(info->boot_id), 36);
	assert_int_equal(info->pid, getpid());
	assert_string_equal(info->command, "push");
	assert_string_equal(info->group, "ns/prod/ns/db/vm/100");
	assert_string_equal(info->snapshot, "");
	assert_in_range(clock_filetime_s(info->start), now - 3, now + 3);
	assert_non_null(strstr(registration_text(info, text),
	    "push of ns/prod/ns/db/vm/100 (host "));
	/* One file, under its name only. */
	assert_int_equal(tmpdir_count(x->f->ds->cairn_fd, "sessions"), 1);
	assert_ok(registration_set_snapshot(x->r, &x->id, &x->f->e), &x->f->e);
	assert_string_equal(regfix_only(x)->snapshot,
	    "ns/prod/ns/db/vm/100/2027-01-15T08:00:00Z");
	assert_ok(registration_check(x->r, &x->f->e), &x->f->e);
	registration_free(x->r);
	x->r = NULL;
	assert_int_equal(regfix_list(x), 0);
}

/* What comes before the name, and before the snapshot's directory: on disk. */
struct syncs {
	bool written; /* behind the last fsync */
	bool named;
};

static void watch_syncs(void *ctx, struct fault_event *ev)
{
	struct syncs *s = ctx;

	if (ev->call == FAULT_PWRITE)
		s->written = true;
	if (ev->call == FAULT_FSYNC)
		s->written = false;
	if (ev->call == FAULT_LINKAT || ev->call == FAULT_RENAMEAT2) {
		assert_false(s->written);
		s->named = true;
	}
}

static void test_is_on_disk(void **state)
{
	struct regfix *x = *state;
	struct syncs s = { .written = false };
	const struct fault_hooks hooks = { .before = watch_syncs, .ctx = &s };

	fault_install();
	fault_set_hooks(&hooks);
	regfix_make(x);
	assert_true(s.named);
	assert_false(s.written);
	assert_ok(registration_set_snapshot(x->r, &x->id, &x->f->e), &x->f->e);
	assert_false(s.written);
}

/* One line of JSON of a length that never changes. */
static void test_fixed_width(void **state)
{
	struct regfix *x = *state;
	char *before = NULL;
	char *after = NULL;
	char start[32];

	regfix_make(x);
	before = content(x);
	x->id.time += 3600;
	assert_ok(registration_set_snapshot(x->r, &x->id, &x->f->e), &x->f->e);
	after = content(x);
	assert_int_equal(strlen(before), strlen(after));
	assert_int_equal(before[strlen(before) - 1], '\n');
	assert_non_null(strstr(after, "/2027-01-15T09:00:00Z\""));
	(void)snprintf(start, sizeof(start), "\"start\":\"%020lld\"}",
	    (long long)regfix_only(x)->start);
	assert_non_null(strstr(after, start));
	free(before);
	free(after);
}

/*
 * I3 (schedule 6a): written and locked first, then named: nobody ever sees
 * one of its name that is empty or free.
 */
struct birth {
	struct dsfix *f;
	bool named;
	bool whole;
	bool locked;
	uint64_t written;
};

static void see_birth(void *ctx, struct fault_event *ev)
{
	struct birth *b = ctx;
	struct registration_list l = { .n = 0 };
	struct err e = ERR_INIT;

	if (ev->call == FAULT_PWRITE)
		b->written = ev->nth;
	if (b->named || registration_list(b->f->ds, &l, &e) < 0 || l.n == 0)
		return;
	b->named = true;
	b->whole = !l.items[0].damaged;
	b->locked = l.items[0].live;
	registration_list_release(&l);
}

static void test_birth(void **state)
{
	struct regfix *x = *state;
	struct birth b = { .f = x->f };

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = see_birth, .ctx = &b });
	regfix_make(x);
	assert_true(b.named);
	assert_true(b.whole);
	assert_true(b.locked);
	assert_true(b.written > 0);
}

/* A cleaner that is faster to lock the new file: another one is made. */
static void lock_it(void *ctx, struct fault_event *ev)
{
	unsigned *left = ctx;

	if (ev->call == FAULT_OFD_LOCK && *left > 0) {
		(*left)--;
		ev->skip = true;
		ev->result = -1;
		ev->error = EAGAIN;
	}
}

static void test_cleaner_is_faster(void **state)
{
	struct regfix *x = *state;
	unsigned left = 3;

	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = lock_it, .ctx = &left });
	regfix_make(x);
	fault_set_hooks(NULL);
	assert_int_equal(regfix_list(x), 1);
	assert_int_equal(left, 0);
	registration_free(x->r);
	x->r = NULL;
	left = 1000;
	fault_set_hooks(
	    &(struct fault_hooks){ .before = lock_it, .ctx = &left });
	assert_err(
	    registration_new(x->f->ds, "push", &x->id.group, &x->r, &x->f->e),
	    &x->f->e, ERR_SYS, "lock '");
	x->r = NULL;
	fault_uninstall();
	assert_int_equal(regfix_list(x), 0);
}

/* File systems without hard links. */
static void test_no_links(void **state)
{
	struct regfix *x = *state;

	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_LINKAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EPERM });
	regfix_make(x);
	assert_int_equal(fault_hits(), 1);
	assert_true(regfix_only(x)->live);
	assert_ok(registration_check(x->r, &x->f->e), &x->f->e);
}

/* A file clock that lies by so much, for the open registration. */
struct clocks {
	int64_t file_shift;
	int64_t real_shift;
	int64_t boot_shift;
	unsigned touches;
};

static void shift(struct statx_timestamp *ts, int64_t by)
{
	int64_t ns = ts->tv_sec * CLOCK_NS_PER_S + ts->tv_nsec + by;

	ts->tv_sec = ns / CLOCK_NS_PER_S;
	ts->tv_nsec = (uint32_t)(ns % CLOCK_NS_PER_S);
}

static void tell_time(void *ctx, struct fault_event *ev)
{
	struct clocks *c = ctx;
	struct timespec *ts = ev->p;
	struct statx *st = ev->p;
	int64_t by =
	    ev->flags == CLOCK_BOOTTIME ? c->boot_shift : c->real_shift;

	if (ev->call == FAULT_CLOCK_GETTIME)
		ts->tv_sec += (time_t)(by / CLOCK_NS_PER_S);
	if (ev->call == FAULT_UTIMENSAT)
		c->touches++;
	if (ev->call == FAULT_STATX && (ev->flags & AT_EMPTY_PATH) != 0) {
		shift(&st->stx_atime, c->file_shift);
		shift(&st->stx_mtime, c->file_shift);
	}
}

#define HOUR (3600 * CLOCK_NS_PER_S)

/* I3 (schedule 12): start is the lowest file time that was seen. */
static void test_beat_lowers(void **state)
{
	struct regfix *x = *state;
	struct clocks c = { .file_shift = 0 };
	filetime start = 0;
	char *text = NULL;

	regfix_make(x);
	start = regfix_only(x)->start;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = tell_time, .ctx = &c });
	/* The clock goes on: nothing changes. */
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(regfix_only(x)->start, start);
	/* It steps back by an hour, and a second passes. */
	c.file_shift = -HOUR;
	c.boot_shift = CLOCK_NS_PER_S;
	c.real_shift = CLOCK_NS_PER_S;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_true(regfix_only(x)->start < start - HOUR + 10 * CLOCK_NS_PER_S);
	assert_true(regfix_only(x)->start > start - HOUR - 10 * CLOCK_NS_PER_S);
	/* And forward again: the lowest stays. */
	start = regfix_only(x)->start;
	c.file_shift = HOUR;
	c.boot_shift = 2 * CLOCK_NS_PER_S;
	c.real_shift = 2 * CLOCK_NS_PER_S;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(regfix_only(x)->start, start);
	assert_ok(registration_check(x->r, &x->f->e), &x->f->e);
	/* Before 1970, too. */
	c.file_shift = -60LL * 366 * 24 * HOUR;
	c.boot_shift = 3 * CLOCK_NS_PER_S;
	c.real_shift = 3 * CLOCK_NS_PER_S;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_true(regfix_only(x)->start < 0);
	text = content(x);
	assert_non_null(strstr(text, "\"start\":\"-"));
	free(text);
}

/* Cheap per chunk: a second apart, or when the clock has lost a second. */
static void test_beat_pace(void **state)
{
	struct regfix *x = *state;
	struct clocks c = { .file_shift = 0 };

	regfix_make(x);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = tell_time, .ctx = &c });
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	for (int i = 0; i < 50; i++)
		assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(c.touches, 1);
	/* A step forward is none of its business, a step back is. */
	c.real_shift = HOUR;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(c.touches, 1);
	c.real_shift = -2 * CLOCK_NS_PER_S;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(c.touches, 2);
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(c.touches, 2);
	c.boot_shift = 2 * CLOCK_NS_PER_S;
	c.real_shift = 0;
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_int_equal(c.touches, 3);
}

/* What a beat can not do, the session has to know. */
static void test_beat_fails(void **state)
{
	struct regfix *x = *state;
	struct clocks c = { .file_shift = -HOUR };
	char name[PATH_MAX];

	regfix_make(x);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = tell_time, .ctx = &c });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PWRITE),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = ENOSPC });
	assert_err(
	    registration_beat(x->r, &x->f->e), &x->f->e, ERR_SYS, "write '");
	/* It was not lowered, so it is tried again. */
	assert_ok(registration_beat(x->r, &x->f->e), &x->f->e);
	assert_true(
	    regfix_only(x)->start < clock_now_s() * CLOCK_NS_PER_S - HOUR / 2);
	fault_uninstall();
	(void)snprintf(name, sizeof(name), SESSIONS "%s", regfix_only(x)->uuid);
	dsfix_unlink(x->f, name);
	fault_install();
	c.boot_shift = HOUR;
	fault_set_hooks(&(struct fault_hooks){ .after = tell_time, .ctx = &c });
	assert_err(registration_beat(x->r, &x->f->e), &x->f->e, ERR_BUSY,
	    "was removed");
	assert_err(registration_check(x->r, &x->f->e), &x->f->e, ERR_BUSY,
	    "was removed");
}

/* A server that took the lock away lets nobody read through it. */
static void test_check_read(void **state)
{
	struct regfix *x = *state;

	regfix_make(x);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EIO });
	assert_err(registration_check(x->r, &x->f->e), &x->f->e, ERR_BUSY,
	    "can not be read back");
}

/* A value that is rewritten while it is read is never a mixture. */
struct torn {
	struct dsfix *f;
	char name[PATH_MAX];
	char *old;
	unsigned reads;
	unsigned torn;
};

static void tear(void *ctx, struct fault_event *ev)
{
	struct torn *t = ctx;
	char *at = NULL;

	if (ev->call != FAULT_PREAD || ev->at != 0 || ev->result <= 0 ||
	    t->reads++ >= t->torn)
		return;
	at = memmem(ev->p, (size_t)ev->result, "\"start\":\"", 9);
	assert_non_null(at);
	/* The first digits are of one value, the rest of another. */
	memset(at + 9 + 4 + t->reads % 2, '9', 4);
}

static void test_torn(void **state)
{
	struct regfix *x = *state;
	struct torn t = { .torn = 3 };
	filetime start = 0;

	regfix_make(x);
	start = regfix_only(x)->start;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = tear, .ctx = &t });
	assert_int_equal(regfix_only(x)->start, start);
	/* One that never holds still says nothing, and holds all back. */
	t.torn = 1000;
	t.reads = 0;
	assert_true(regfix_only(x)->live);
	assert_true(x->list.items[0].damaged);
	assert_true(x->list.items[0].start == INT64_MIN);
}

/* I3: the very file has to be there under its name, before the manifest. */
static void test_check_name(void **state)
{
	struct regfix *x = *state;
	char path[PATH_MAX];

	regfix_make(x);
	(void)snprintf(path, sizeof(path), SESSIONS "%s", regfix_only(x)->uuid);
	dsfix_put(x->f, SESSIONS "other", "{}");
	dsfix_unlink(x->f, path);
	assert_err(registration_check(x->r, &x->f->e), &x->f->e, ERR_BUSY,
	    "was removed");
	(void)snprintf(
	    path, sizeof(path), "store/" SESSIONS "%s", x->list.items[0].uuid);
	dsfix_move(x->f, "store/" SESSIONS "other", path);
	assert_err(registration_check(x->r, &x->f->e), &x->f->e, ERR_BUSY,
	    "was replaced");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REG_TEST(test_new),
		REG_TEST(test_is_on_disk),
		REG_TEST(test_fixed_width),
		REG_TEST(test_birth),
		REG_TEST(test_cleaner_is_faster),
		REG_TEST(test_no_links),
		REG_TEST(test_beat_lowers),
		REG_TEST(test_beat_pace),
		REG_TEST(test_beat_fails),
		REG_TEST(test_check_read),
		REG_TEST(test_check_name),
		REG_TEST(test_torn),
	};

	return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}
