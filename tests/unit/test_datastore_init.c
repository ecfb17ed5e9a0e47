/* SPDX-License-Identifier: MIT */
/*
 * Making a datastore: what is made, where it is refused, and that a failed or
 * interrupted one leaves no half of a store.
 */
#include "datastore/datastore.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "datastore/gcrunning.h"
#include "tests/support/dsfix.h"

/* The directory only; every test makes its own store. */
static int setup(void **state)
{
	struct dsfix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->task = (struct task)TASK_SILENT;
	return 0;
}

static int init(struct dsfix *f, bool pbs_layout)
{
	const struct datastore_init_opts opts = { .pbs_layout = pbs_layout };

	f->e = (struct err)ERR_INIT;
	return datastore_init(f->path, &opts, &f->task, &f->e);
}

static void assert_file(
    struct dsfix *f, const char *name, unsigned mode, off_t size)
{
	char path[DSFIX_NAME_SIZE];
	struct stat st;

	assert_int_equal(fstatat(f->dir.fd, dsfix_name(name, path), &st,
			     AT_SYMLINK_NOFOLLOW),
	    0);
	assert_int_equal(st.st_mode, mode);
	if (S_ISREG(st.st_mode))
		assert_int_equal(st.st_size, size);
}

static size_t count(struct dsfix *f, const char *name)
{
	char path[DSFIX_NAME_SIZE];
	size_t n = 0;
	int fd = openat(f->dir.fd, dsfix_name(name, path),
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	n = tmpdir_count(fd, "");
	(void)close(fd);
	return n;
}

static void assert_made(struct dsfix *f, bool pbs_layout)
{
	assert_file(f, ".chunks", S_IFDIR | 0750, 0);
	assert_file(f, ".lock", S_IFREG | 0644, 0);
	assert_file(f, ".cairn", S_IFDIR | 0755, 0);
	assert_file(f, ".cairn/sessions", S_IFDIR | 0755, 0);
	assert_file(f, ".cairn/gc.running", S_IFREG | 0644, GCRUNNING_BYTES);
	/* In one of PBS there will be more than what cairn writes down. */
	if (!pbs_layout)
		assert_file(f, ".cairn/added", S_IFREG | 0644, 17);
	assert_int_equal(count(f, ".cairn"), pbs_layout ? 3 : 4);
	assert_false(dsfix_has(f, ".chunks.init"));
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	datastore_close(f->ds);
	f->ds = NULL;
}

static void test_new(void **state)
{
	struct dsfix *f = *state;
	mode_t mask = umask(077);
	char *format = NULL;

	assert_ok(init(f, false), &f->e);
	(void)umask(mask);
	assert_file(f, ".", S_IFDIR | 0755, 0);
	assert_made(f, false);
	assert_int_equal(count(f, ""), 3);
	assert_int_equal(count(f, ".chunks"), 0);
	format = tmpdir_get(f->dir.fd, "store/.cairn/format", NULL);
	assert_non_null(format);
	assert_memory_equal(format, "{\"format\":1,\"store\":\"",
	    strlen("{\"format\":1,\"store\":\""));
	assert_non_null(strstr(format, "\",\"requires\":[],\"host\":"));
	assert_string_equal(format + strlen(format) - 2, "}\n");
	free(format);
	assert_err(init(f, false), &f->e, ERR_EXISTS, "");
	dsfix_assert_message(
	    f, "'$' is a datastore already: it has a '.chunks'");
	assert_made(f, false);
}

/* What a fresh file system or a home may hold is kept as it is. */
static void test_existing(void **state)
{
	struct dsfix *f = *state;

	dsfix_mkdir(f, "lost+found");
	dsfix_put(f, ".profile", "x");
	assert_int_equal(fchmodat(f->dir.fd, "store", 0700, 0), 0);
	assert_ok(init(f, false), &f->e);
	assert_file(f, ".", S_IFDIR | 0700, 0);
	assert_made(f, false);
	assert_true(dsfix_has(f, "lost+found"));
	assert_file(f, ".profile", S_IFREG | 0644, 1);
	assert_int_equal(count(f, ""), 5);
}

static void test_refused(void **state)
{
	struct dsfix *f = *state;

	dsfix_mkdir(f, "ns");
	assert_err(init(f, false), &f->e, ERR_REFUSED, "");
	dsfix_assert_message(f,
	    "'$' is not empty: it has 'ns', want at most 'lost+found' and "
	    "names with a leading dot");
	assert_int_equal(count(f, ""), 1);
	dsfix_rmdir(f, "ns");

	dsfix_put(f, ".lock", "");
	assert_err(init(f, false), &f->e, ERR_EXISTS, "");
	dsfix_assert_message(f,
	    "'$' has a '.lock' already, which is not of an interrupted init: "
	    "remove it first");
	assert_int_equal(count(f, ""), 1);
	dsfix_unlink(f, ".lock");

	dsfix_symlink(f, "/nowhere", ".cairn");
	assert_err(init(f, false), &f->e, ERR_CORRUPT, ".cairn");
	assert_int_equal(count(f, ""), 1);
	dsfix_unlink(f, ".cairn");

	assert_int_equal(unlinkat(f->dir.fd, "store", AT_REMOVEDIR), 0);
	tmpdir_put_str(f->dir.fd, "store", "x");
	assert_err(init(f, false), &f->e, ERR_SYS, "");
	dsfix_assert_message(f, "open directory '$': Not a directory");
	assert_int_equal(unlinkat(f->dir.fd, "store", 0), 0);

	(void)snprintf(f->path, sizeof(f->path), "%s/no/store", f->dir.path);
	assert_err(init(f, false), &f->e, ERR_NOTFOUND, "");
	dsfix_assert_message(
	    f, "'$' can not be made: the directory above does not exist");
	assert_int_equal(tmpdir_count(f->dir.fd, ""), 0);
}

/* A directory where nothing can be made. */
static void test_unwritable(void **state)
{
	static const struct {
		const char *name;
		int error;
		const char *message;
	} rows[] = {
		{ "store", EACCES, "make directory '$': Permission denied" },
		{ ".cairn", EROFS,
		    "make directory '$/.cairn': Read-only file system" },
		{ "sessions", ENOSPC,
		    "make directory '$/.cairn/sessions': No space left on "
		    "device" },
		{ ".chunks.init", EDQUOT,
		    "make directory '$/.chunks.init': Disk quota exceeded" },
	};
	struct dsfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		const struct fault_rule rule = {
			.calls = FAULT_BIT(FAULT_MKDIRAT),
			.name = rows[i].name,
			.what = FAULT_FAIL,
			.at = 1,
			.times = 1,
			.error = rows[i].error,
		};

		fault_install();
		fault_add(&rule);
		assert_err(init(f, false), &f->e, ERR_SYS, "");
		fault_uninstall();
		dsfix_assert_message(f, rows[i].message);
		assert_int_equal(tmpdir_count(f->dir.fd, ""), 0);
	}
}

/* A1: a file system that says yes and does nothing; 5 s pass quickly. */
static void ignore_touches(void *ctx, struct fault_event *ev)
{
	int64_t *now = ctx;

	if (ev->call == FAULT_UTIMENSAT || ev->call == FAULT_NANOSLEEP) {
		ev->skip = true;
		ev->result = 0;
	}
	if (ev->call == FAULT_CLOCK_GETTIME) {
		struct timespec *ts = ev->p;

		*ts = (struct timespec){ .tv_sec = (*now)++ };
		ev->skip = true;
		ev->result = 0;
	}
}

/* A3: every lock is granted. */
static void grant_locks(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_OFD_LOCK) {
		ev->skip = true;
		ev->result = 0;
	}
}

static void test_probes(void **state)
{
	struct dsfix *f = *state;
	int64_t now = 1;
	struct fault_hooks atime = { .before = ignore_touches, .ctx = &now };
	struct fault_hooks locks = { .before = grant_locks };

	fault_install();
	fault_set_hooks(&atime);
	assert_err(
	    init(f, false), &f->e, ERR_REFUSED, "does not keep access times");
	assert_non_null(strstr(f->e.msg, "/store/.chunks.init'"));
	assert_int_equal(tmpdir_count(f->dir.fd, ""), 0);
	fault_set_hooks(&locks);
	assert_err(
	    init(f, false), &f->e, ERR_REFUSED, "is not seen by another");
	assert_non_null(strstr(f->e.msg, "/store/.lock'"));
	assert_int_equal(tmpdir_count(f->dir.fd, ""), 0);
}

/* An init that was killed, at each step of the order it works in. */
static void test_interrupted(void **state)
{
	struct dsfix *f = *state;

	for (int step = 0; step < 6; step++) {
		dsfix_mkdir(f, ".cairn");
		if (step >= 1)
			dsfix_mkdir(f, ".cairn/sessions");
		if (step >= 2)
			dsfix_put(f, ".cairn/gc.running", "");
		if (step >= 3)
			dsfix_put(f, ".cairn/format.tmp_AbCdEf", "{");
		if (step >= 4)
			dsfix_put(f, ".lock", "");
		if (step >= 5) {
			dsfix_mkdir(f, ".chunks.init/0000");
			dsfix_put(f, ".cairn/format", "{}");
		}
		/* Made, but not yet given their modes. */
		assert_int_equal(
		    fchmodat(f->dir.fd, "store/.cairn", 0700, 0), 0);
		assert_err(
		    dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, "");
		dsfix_assert_message(f,
		    "'$' is no datastore: it has '.cairn' but no '.chunks', "
		    "as an interrupted init leaves it: run init again");
		assert_ok(init(f, false), &f->e);
		assert_made(f, false);
		assert_int_equal(count(f, ".chunks"), step >= 5);
		dsfix_move(f, "store", "old");
		tmpdir_remove(&f->dir);
		tmpdir_make(&f->dir);
		(void)snprintf(
		    f->path, sizeof(f->path), "%s/store", f->dir.path);
	}
}

/* A `.cairn` that was in use is not emptied. */
static void test_not_interrupted(void **state)
{
	static const struct {
		const char *name;
		const char *message;
	} rows[] = {
		{ ".cairn/history.db",
		    "'$/.cairn' has 'history.db', which is not of an "
		    "interrupted init: move it away first" },
		{ ".cairn/sessions/x",
		    "'$/.cairn' has 'sessions/*', which is not of an "
		    "interrupted init: move it away first" },
	};
	struct dsfix *f = *state;

	dsfix_mkdir(f, ".cairn/sessions");
	dsfix_put(f, ".cairn/format", "{}");
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		dsfix_put(f, rows[i].name, "");
		assert_err(init(f, false), &f->e, ERR_EXISTS, "");
		dsfix_assert_message(f, rows[i].message);
		assert_true(dsfix_has(f, ".cairn/format"));
		assert_true(dsfix_has(f, rows[i].name));
		assert_int_equal(count(f, ""), 1);
		dsfix_unlink(f, rows[i].name);
	}
	assert_ok(init(f, false), &f->e);
	assert_made(f, false);
}

static void test_two_at_once(void **state)
{
	struct dsfix *f = *state;
	int fd = -1;

	dsfix_mkdir(f, "lost+found");
	fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_err(init(f, false), &f->e, ERR_BUSY, "");
	dsfix_assert_message(f,
	    "'$' is locked: another init runs there; try again when "
	    "that has ended");
	assert_int_equal(count(f, ""), 1);
	(void)close(fd);
	assert_ok(init(f, false), &f->e);
}

/* A rename that a server did and then forgot that it did. */
static void test_rename_twice(void **state)
{
	struct dsfix *f = *state;
	const struct fault_rule rule = {
		.calls = FAULT_BIT(FAULT_RENAMEAT2),
		.name = ".chunks.init",
		.what = FAULT_FAIL_AFTER,
		.at = 1,
		.times = 1,
		.error = ENOENT,
	};

	fault_install();
	fault_add(&rule);
	assert_ok(init(f, false), &f->e);
	assert_int_equal(fault_hits(), 1);
	fault_uninstall();
	assert_made(f, false);
}

/* root makes it for whom the directory belongs to. */
static void test_owner(void **state)
{
	struct dsfix *f = *state;
	static const char *const names[] = { ".chunks", ".lock", ".cairn",
		".cairn/format", ".cairn/sessions", ".cairn/gc.running",
		".cairn/added" };

	if (geteuid() != 0)
		skip();
	dsfix_mkdir(f, "lost+found");
	assert_int_equal(fchownat(f->dir.fd, "store", 12345, 54321, 0), 0);
	assert_ok(init(f, false), &f->e);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char path[DSFIX_NAME_SIZE];
		struct stat st;

		assert_int_equal(
		    fstatat(f->dir.fd, dsfix_name(names[i], path), &st, 0), 0);
		assert_int_equal(st.st_uid, 12345);
		assert_int_equal(st.st_gid, 54321);
	}
}

/* What the task is told. */
struct sink {
	uint64_t done;
	uint64_t reports;
	unsigned warnings;
	struct task *stop; /* when half is done */
};

static void sink_message(void *ctx, enum task_level level, const char *text)
{
	struct sink *s = ctx;

	assert_int_equal(level, TASK_WARNING);
	assert_non_null(strstr(text, "will not belong to the user 'backup'"));
	s->warnings++;
}

static void sink_progress(void *ctx, const struct task_progress *p)
{
	struct sink *s = ctx;

	assert_true(p->done >= s->done);
	assert_int_equal(p->total, 65536);
	s->done = p->done;
	s->reports++;
	if (s->stop != NULL && p->done >= p->total / 2)
		s->stop->stop = 15;
}

static const struct task_ops sink_ops = { sink_message, sink_progress };

/*
 * 65,536 directories take half a minute on a busy disk (torture_init makes
 * them): here all but those of 00xx are only said to be made and removed.
 */
#define REAL 256

struct prefixes {
	size_t made;
	size_t removed;
	unsigned next; /* they come in order, each once */
};

static bool is_prefix(const char *name)
{
	return name != NULL && strlen(name) == 4 &&
	    strspn(name, "0123456789abcdef") == 4;
}

static void fake_prefixes(void *ctx, struct fault_event *ev)
{
	struct prefixes *p = ctx;
	bool fake = false;

	if (!is_prefix(ev->name))
		return;
	fake = strncmp(ev->name, "00", 2) != 0;
	if (ev->call == FAULT_MKDIRAT) {
		assert_int_equal(strtoul(ev->name, NULL, 16), p->next);
		p->next++;
		p->made++;
		ev->result = 0;
	} else if (ev->call == FAULT_UNLINKAT) {
		p->removed++;
		ev->result = 0;
	} else if (ev->call == FAULT_OPENAT && fake) {
		ev->result = openat(ev->fd, ".", O_RDONLY | O_CLOEXEC);
	} else {
		return;
	}
	ev->skip = fake;
}

static void test_pbs_layout(void **state)
{
	struct dsfix *f = *state;
	const struct passwd *backup = getpwnam("backup");
	bool for_backup =
	    backup != NULL && (geteuid() == 0 || geteuid() == backup->pw_uid);
	struct sink sink = { .done = 0 };
	struct prefixes prefixes = { .made = 0 };
	struct fault_hooks hooks = { .before = fake_prefixes,
		.ctx = &prefixes };
	struct stat st;

	dsfix_mkdir(f, "lost+found");
	assert_int_equal(fchmodat(f->dir.fd, "store", 0700, 0), 0);
	f->task.ops = &sink_ops;
	f->task.ctx = &sink;
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(init(f, true), &f->e);
	assert_int_equal(prefixes.made, 65536);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_SYNCFS)), 1);
	fault_uninstall();
	assert_int_equal(sink.done, 65536);
	assert_true(sink.reports >= 64);
	assert_int_equal(sink.warnings, for_backup ? 0 : 1);
	assert_file(f, ".", S_IFDIR | 0755, 0);
	assert_made(f, true);
	assert_int_equal(count(f, ".chunks"), REAL);
	assert_file(f, ".chunks/0000", S_IFDIR | 0750, 0);
	assert_int_equal(fstatat(f->dir.fd, "store/.chunks/00ff", &st, 0), 0);
	if (for_backup)
		assert_int_equal(st.st_uid, backup->pw_uid);
	assert_int_equal(fstatat(f->dir.fd, "store", &st, 0), 0);
	if (for_backup)
		assert_int_equal(st.st_uid, backup->pw_uid);
}

/* Nothing stays, and the directory is as it was. */
static void assert_undone(struct dsfix *f)
{
	struct stat st;

	fault_uninstall();
	assert_int_equal(count(f, ""), 1);
	assert_file(f, ".", S_IFDIR | 0700, 0);
	assert_int_equal(fstatat(f->dir.fd, "store", &st, 0), 0);
	assert_int_equal(st.st_uid, geteuid());
}

static void test_pbs_layout_fails(void **state)
{
	struct dsfix *f = *state;
	struct sink sink = { .stop = &f->task };
	struct prefixes prefixes = { .made = 0 };
	struct fault_hooks hooks = { .before = fake_prefixes,
		.ctx = &prefixes };
	struct fault_rule rule = {
		.calls = FAULT_BIT(FAULT_MKDIRAT),
		.name = "0080",
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EMLINK,
	};

	dsfix_mkdir(f, "lost+found");
	assert_int_equal(fchmodat(f->dir.fd, "store", 0700, 0), 0);
	fault_install();
	fault_add(&rule);
	assert_err(init(f, true), &f->e, ERR_UNSUPPORTED, "");
	dsfix_assert_message(f,
	    "the file system allows 128 directories in '$', Proxmox Backup "
	    "Server needs 65536");
	assert_undone(f);

	/* At the very end, when the directory was given away. */
	rule.calls = FAULT_BIT(FAULT_SYNCFS);
	rule.name = NULL;
	rule.error = EIO;
	fault_install();
	fault_add(&rule);
	fault_set_hooks(&hooks);
	assert_err(init(f, true), &f->e, ERR_SYS, "sync the file system of '");
	assert_int_equal(prefixes.made, 65536);
	assert_int_equal(prefixes.removed, 65536);
	assert_undone(f);

	/* Told to stop half way. */
	memset(&prefixes, 0, sizeof(prefixes));
	f->task.ops = &sink_ops;
	f->task.ctx = &sink;
	fault_install();
	fault_set_hooks(&hooks);
	assert_err(init(f, true), &f->e, ERR_CANCELLED, "");
	assert_true(prefixes.made < 65536);
	assert_undone(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, dsfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_new),
		TEST(test_existing),
		TEST(test_refused),
		TEST(test_unwritable),
		TEST(test_probes),
		TEST(test_interrupted),
		TEST(test_not_interrupted),
		TEST(test_two_at_once),
		TEST(test_rename_twice),
		TEST(test_owner),
		TEST(test_pbs_layout),
		TEST(test_pbs_layout_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
