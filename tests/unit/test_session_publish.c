/* SPDX-License-Identifier: MIT */
/* How a snapshot becomes visible: steps 8 to 11. */
#include <errno.h>
#include <stdio.h>

#include "datastore/damage.h"
#include "datastore/locks.h"
#include "datastore/registration.h"
#include "datastore/session.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

#define UUID_LEN 36
#define INDEX_PATH T0_DIR "/" PUSHFIX_NAME

/*
 * The order of what was done, a letter each:
 *   S syncfs         T t tree lock taken, dropped   i b index, blob renamed
 *   f d file, directory fsynced                     B base's index looked at
 *   D damage list opened    R registration looked at by its name
 *   M manifest made, m renamed    0 byte 0 dropped    U registration unlinked
 */
struct trace {
	char steps[64];
	size_t n;
};

static char lock_step(const struct fault_event *ev)
{
	const struct flock *l = ev->p;

	if (ev->flags != F_OFD_SETLK)
		return 0;
	if (l->l_start == LOCK_BYTE_TREE)
		return l->l_type == F_UNLCK ? 't' : 'T';
	if (l->l_start == LOCK_BYTE_SESSION && l->l_len == 1 &&
	    l->l_type == F_UNLCK)
		return '0';
	return 0;
}

static char sync_step(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? 'd' : 'f';
}

static char name_step(const struct fault_event *ev)
{
	const char *to = ev->to_name == NULL ? "" : ev->to_name;
	const char *name = ev->name == NULL ? "" : ev->name;

	if (ev->call == FAULT_RENAMEAT2) {
		if (strcmp(to, "index.json.blob") == 0)
			return 'm';
		return strcmp(to, PUSHFIX_NAME) == 0 ? 'i' : 'b';
	}
	if (ev->call == FAULT_STATX && strcmp(name, PUSHFIX_NAME) == 0)
		return 'B';
	if (ev->call == FAULT_STATX && strlen(name) == UUID_LEN)
		return 'R';
	if (ev->call == FAULT_UNLINKAT && strlen(name) == UUID_LEN)
		return 'U';
	if (ev->call == FAULT_OPENAT && strcmp(name, "damaged") == 0)
		return 'D';
	if (ev->call == FAULT_CREATE &&
	    strcmp(name, "index.json.tmp_blob") == 0)
		return 'M';
	return 0;
}

static void see_step(void *ctx, struct fault_event *ev)
{
	struct trace *t = ctx;
	char c = 0;

	if (ev->call == FAULT_SYNCFS) {
		c = 'S';
	} else if (ev->call == FAULT_FSYNC) {
		c = sync_step(ev->fd);
	} else if (ev->call == FAULT_OFD_LOCK) {
		c = lock_step(ev);
	} else {
		c = name_step(ev);
	}
	if (c != 0 && t->n + 1 < sizeof(t->steps))
		t->steps[t->n++] = c;
}

static void trace_start(struct trace *t)
{
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = see_step, .ctx = t });
}

static struct session *filled(struct dsfix *f, const struct pushfix *p)
{
	struct session *s = sessionfix_open(f, p);

	assert_ok(pushfix_fill(s, p, &f->e), &f->e);
	return s;
}

static void test_order(void **state)
{
	static const struct {
		enum sync_level level;
		const char *want;
	} cases[] = {
		{ SYNC_NONE, "TibdDRMfmddt0U" },
		{ SYNC_FILESYSTEM, "STibdDRMfmddt0U" },
		{ SYNC_FILE, "STibdDRMfmddt0U" },
	};
	struct dsfix *f = *state;

	/* It is made once, which is one more sync of a directory. */
	dsfix_put(f, ".cairn/added", "");
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct pushfix p = sessionfix_ten;
		struct trace t = { .n = 0 };
		struct session_opts opts;
		struct session *s = NULL;

		p.time += (int64_t)i;
		p.put.first += (unsigned)i * 10;
		assert_ok(pushfix_opts(&p, &opts, &f->e), &f->e);
		opts.sync_level = cases[i].level;
		assert_ok(
		    session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e);
		fault_install();
		assert_ok(pushfix_fill(s, &p, &f->e), &f->e);
		/* The two files; each chunk and its directory at `file`. */
		assert_in_range(fault_count(FAULT_BIT(FAULT_FSYNC)),
		    cases[i].level == SYNC_FILE ? 22 : 2,
		    cases[i].level == SYNC_FILE ? 32 : 2);
		trace_start(&t);
		assert_ok(session_commit(s, &f->e), &f->e);
		fault_uninstall();
		assert_string_equal(t.steps, cases[i].want);
	}
	sessionfix_census(f, 3, 0, 1, 0);
}

static const struct pushfix based = {
	.group = "host/b",
	.time = T0,
	.reuse = { .first = 0, .n = 10 },
	.put = { .first = 10, .n = 1 },
};

/* I2: the base is looked at behind our index files, before our manifest. */
static void test_order_with_base(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = based;
	struct backup_snapshot first;
	struct trace t = { .n = 0 };
	struct session *s = NULL;

	sessionfix_run(f, &sessionfix_ten, &first);
	p.base = &first;
	s = filled(f, &p);
	trace_start(&t);
	assert_ok(session_commit(s, &f->e), &f->e);
	fault_uninstall();
	assert_string_equal(t.steps, "TidBDRMfmddt0U");
	sessionfix_census(f, 2, 0, 2, 0);
}

/* What a program that takes no lock of ours does to the base (schedule 9). */
static void base_removed(struct dsfix *f)
{
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	dsfix_unlink(f, T0_DIR "/b.conf.blob");
	dsfix_unlink(f, INDEX_PATH);
	dsfix_rmdir(f, T0_DIR);
}

static void base_half_removed(struct dsfix *f)
{
	dsfix_unlink(f, T0_DIR "/index.json.blob");
}

static void base_index_removed(struct dsfix *f)
{
	dsfix_unlink(f, INDEX_PATH);
}

static void base_index_replaced(struct dsfix *f)
{
	size_t n = 0;
	char *p = tmpdir_get(f->dir.fd, "store/" INDEX_PATH, &n);

	dsfix_unlink(f, INDEX_PATH);
	tmpdir_put(f->dir.fd, "store/" INDEX_PATH, p, n);
	free(p);
}

static void base_moved(struct dsfix *f)
{
	dsfix_move(f, "store/host/a", "store/host/c");
}

static void base_replaced(struct dsfix *f)
{
	dsfix_move(f, "store/" T0_DIR, "store/host/old");
	dsfix_mkdir(f, T0_DIR);
	dsfix_put(f, T0_DIR "/index.json.blob", "another");
}

static void test_base_lost(void **state)
{
	static const struct {
		void (*change)(struct dsfix *f);
		const char *want;
	} cases[] = {
		{ base_removed, "was removed" },
		{ base_half_removed, "was removed" },
		{ base_index_removed, "changed" },
		{ base_index_replaced, "changed" },
		{ base_moved, "was removed" },
		{ base_replaced, "was replaced" },
	};
	(void)state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		void *one = NULL;
		struct dsfix *f = NULL;
		struct pushfix p = based;
		struct backup_snapshot first;
		struct session *s = NULL;

		assert_int_equal(sessionfix_setup(&one), 0);
		f = one;
		sessionfix_run(f, &sessionfix_ten, &first);
		p.base = &first;
		s = filled(f, &p);
		cases[i].change(f);
		assert_err(
		    session_commit(s, &f->e), &f->e, ERR_BUSY, cases[i].want);
		assert_non_null(strstr(f->e.msg, "base '" T0_DIR "'"));
		assert_false(dsfix_has(f, "host/b"));
		assert_true(foreign_can_byte(
		    f->ds->root_fd, ".lock", LOCK_BYTE_SESSION, F_WRLCK));
		assert_int_equal(dsfix_teardown(&one), 0);
	}
}

static void test_base_file(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = based;
	struct backup_snapshot first;
	struct session *s = NULL;
	char name[PATH_MAX];
	int fd = -1;

	sessionfix_run(f, &sessionfix_ten, &first);
	fd = openat(f->dir.fd, dsfix_name(INDEX_PATH, name), O_RDONLY);
	s = sessionfix_open(f, &(struct pushfix){ .group = "host/c" });
	assert_err(session_use_base_file(s, PUSHFIX_NAME, fd, &f->e), &f->e,
	    ERR_INVALID, "without a base");
	session_abort(s);
	p.base = &first;
	s = sessionfix_open(f, &p);
	base_index_replaced(f);
	assert_err(session_use_base_file(s, PUSHFIX_NAME, fd, &f->e), &f->e,
	    ERR_BUSY, "changed");
	session_abort(s);
	(void)close(fd);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* I2: what was found damaged while we worked, and we reference. */
static void test_damage_meanwhile(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot first;
	struct pushfix p = based;
	struct session *s = NULL;
	struct digest d;

	sessionfix_run(f, &sessionfix_ten, &first);
	p.base = &first;
	pushfix_digest(7, &d);
	s = filled(f, &p);
	assert_ok(damage_append(f->ds, &d, DAMAGE_MISSING, &f->e), &f->e);
	assert_err(session_commit(s, &f->e), &f->e, ERR_BUSY,
	    "which '" PUSHFIX_NAME "' references, was found missing");
	sessionfix_census(f, 1, 0, 1, 0);
	/* Known from its start: stored anew, and so no obstacle. */
	s = filled(f, &p);
	assert_ok(session_commit(s, &f->e), &f->e);
	/* Found bad again after that: an obstacle for the next. */
	p.time++;
	s = filled(f, &p);
	assert_ok(damage_append(f->ds, &d, DAMAGE_BAD, &f->e), &f->e);
	/* Compacting does not hide it. */
	assert_ok(damage_compact(f->ds, &f->e), &f->e);
	assert_err(session_commit(s, &f->e), &f->e, ERR_BUSY, "references");
	/* What we do not need is not looked at. */
	s = filled(f, &p);
	pushfix_digest(99, &d);
	assert_ok(damage_append(f->ds, &d, DAMAGE_BAD, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 3, 0, 2, 0);
}

static void find_registration(struct dsfix *f, char out[PATH_MAX])
{
	struct registration_list l = { .n = 0 };

	assert_ok(registration_list(f->ds, &l, &f->e), &f->e);
	assert_int_equal(l.n, 1);
	(void)snprintf(out, PATH_MAX, ".cairn/sessions/%s", l.items[0].uuid);
	registration_list_release(&l);
}

static void registration_removed(struct dsfix *f)
{
	char name[PATH_MAX];

	find_registration(f, name);
	dsfix_unlink(f, name);
}

static void registration_replaced(struct dsfix *f)
{
	char name[PATH_MAX];
	char path[PATH_MAX];
	char *text = NULL;

	find_registration(f, name);
	text = tmpdir_get(f->dir.fd, dsfix_name(name, path), NULL);
	dsfix_unlink(f, name);
	dsfix_put(f, name, text);
	free(text);
}

static void registration_changed(struct dsfix *f)
{
	char name[PATH_MAX];

	find_registration(f, name);
	dsfix_put(f, name, "{}");
}

static void sessions_moved(struct dsfix *f)
{
	dsfix_move(f, "store/.cairn", "cairn");
	dsfix_mkdir(f, ".cairn/sessions");
}

/* I3 (schedule 6): without it GC may have taken our chunks for garbage. */
static void test_registration_lost(void **state)
{
	static const struct {
		void (*change)(struct dsfix *f);
		const char *want;
	} cases[] = {
		{ registration_removed, "removed" },
		{ registration_replaced, "replaced" },
		{ registration_changed, "can not be read back" },
		{ sessions_moved, "removed" },
	};
	(void)state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		void *one = NULL;
		struct dsfix *f = NULL;
		struct session *s = NULL;

		assert_int_equal(sessionfix_setup(&one), 0);
		f = one;
		s = filled(f, &sessionfix_ten);
		/* So that the beat has nothing to do. */
		assert_ok(session_beat(s, &f->e), &f->e);
		cases[i].change(f);
		assert_err(
		    session_commit(s, &f->e), &f->e, ERR_BUSY, cases[i].want);
		assert_false(dsfix_has(f, "host/a"));
		assert_int_equal(dsfix_teardown(&one), 0);
	}
}

/* The last steps fail: the manifest was there, and is not any more. */
static void test_sync_fails(void **state)
{
	struct dsfix *f = *state;
	struct session *s = NULL;

	for (uint64_t at = 1; at <= 4; at++) {
		s = filled(f, &sessionfix_ten);
		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_FSYNC),
		    .what = FAULT_FAIL,
		    .at = at,
		    .times = 1,
		    .error = EIO });
		assert_err(session_commit(s, &f->e), &f->e, ERR_SYS, T0_DIR);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		sessionfix_census(f, 0, 0, 0, 0);
	}
	s = filled(f, &sessionfix_ten);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_SYNCFS),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EIO });
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_int_equal(fault_hits(), 0);
}

static void no_flags(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_RENAMEAT2 || ev->flags == 0)
		return;
	ev->skip = true;
	ev->result = -1;
	ev->error = EINVAL;
}

/* NFS knows no RENAME_NOREPLACE. */
static void test_no_noreplace(void **state)
{
	struct dsfix *f = *state;
	struct session *s = filled(f, &sessionfix_ten);

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = no_flags });
	assert_ok(session_commit(s, &f->e), &f->e);
	fault_uninstall();
	sessionfix_census(f, 1, 0, 1, 0);
}

/* A file that appears under our name is not replaced. */
static void test_name_taken(void **state)
{
	struct dsfix *f = *state;

	for (int i = 0; i < 2; i++) {
		struct session *s = filled(f, &sessionfix_ten);

		dsfix_put(f, INDEX_PATH, "somebody's");
		fault_install();
		if (i == 1) {
			fault_set_hooks(
			    &(struct fault_hooks){ .before = no_flags });
		}
		assert_true(session_commit(s, &f->e) < 0);
		assert_non_null(strstr(f->e.msg, PUSHFIX_NAME));
		fault_uninstall();
		sessionfix_census(f, 0, 0, 0, 0);
	}
}

static void test_add_names(void **state)
{
	static const struct {
		const char *tmp;
		const char *name;
		int code;
		const char *want;
	} cases[] = {
		{ "x.tmp", "x", ERR_INVALID, "'x' is no name" },
		{ "x.tmp", "../x.fidx", ERR_INVALID, "is no name" },
		{ "x.tmp", ".x.fidx", ERR_INVALID, "is no name" },
		{ "x.tmp", "index.json.blob", ERR_INVALID, "is no name" },
		{ "x.tmp", "client.log.blob", ERR_INVALID, "is no name" },
		{ "x.fidx", "x.didx", ERR_INVALID, "no temporary name" },
		{ "../x", "x.didx", ERR_INVALID, "no temporary name" },
		{ "none", "x.didx", ERR_NOTFOUND, "none" },
		{ "x.tmp", PUSHFIX_NAME, ERR_EXISTS, "already" },
	};
	struct dsfix *f = *state;
	struct session *s = filled(f, &sessionfix_ten);
	struct digest d = { .b = { 0 } };
	char longest[BACKUP_NAME_MAX + 16];

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_err(session_add_file(
			       s, cases[i].tmp, cases[i].name, 0, &d, &f->e),
		    &f->e, cases[i].code, cases[i].want);
	}
	memset(longest, 'x', sizeof(longest));
	memcpy(longest + sizeof(longest) - 6, ".blob", 6);
	assert_err(session_add_blob(s, longest, "x", 1, &f->e), &f->e,
	    ERR_INVALID, "is no name of a blob");
	assert_err(session_add_blob(s, "x.fidx", "x", 1, &f->e), &f->e,
	    ERR_INVALID, "is no name of a blob");
	assert_err(session_add_blob(s, "b.conf.blob", "x", 1, &f->e), &f->e,
	    ERR_EXISTS, "already");
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 1, 0, 1, 0);
}

static void test_no_references(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;

	assert_ok(pushfix_opts(&sessionfix_ten, &opts, &f->e), &f->e);
	opts.references = NULL;
	assert_ok(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e);
	assert_err(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e, ERR_INVALID,
	    "without 'references'");
	assert_ok(session_add_blob(s, "b.conf.blob", "x", 1, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 1, 0, 1, 0);
}

struct waiting {
	struct foreign_holder holder;
	char text[512];
};

static void end_holder(void *ctx, enum task_level level, const char *text)
{
	struct waiting *w = ctx;

	(void)level;
	(void)snprintf(w->text, sizeof(w->text), "%s", text);
	foreign_end(&w->holder);
}

/* I4: while GC lists, nothing becomes visible; after 5 s it is said why. */
static void test_waits_for_listing(void **state)
{
	static const struct task_ops ops = { .message = end_holder };
	const struct foreign_lock lock = {
		.type = F_WRLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct dsfix *f = *state;
	struct session *s = filled(f, &sessionfix_ten);
	struct waiting w = { .text = "" };

	foreign_start(f->ds->root_fd, ".lock", &lock, &w.holder);
	f->task.ops = &ops;
	f->task.ctx = &w;
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_non_null(strstr(w.text, "push waits for the tree lock of"));
	sessionfix_census(f, 1, 0, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_order),
		SESSION_TEST(test_order_with_base),
		cmocka_unit_test(test_base_lost),
		SESSION_TEST(test_base_file),
		SESSION_TEST(test_damage_meanwhile),
		cmocka_unit_test(test_registration_lost),
		SESSION_TEST(test_sync_fails),
		SESSION_TEST(test_no_noreplace),
		SESSION_TEST(test_name_taken),
		SESSION_TEST(test_add_names),
		SESSION_TEST(test_no_references),
		SESSION_TEST(test_waits_for_listing),
	};

	return cmocka_run_group_tests_name(
	    "session_publish", tests, NULL, NULL);
}
