/* SPDX-License-Identifier: MIT */
/*
 * The store of files, with every system call and every allocation failing in
 * turn, or the process dying at it.  Under a chunk's name is then what was
 * there before, or the whole new chunk, and nothing else; the lock is free,
 * nothing leaks, and the next try works.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/failmalloc.h"
#include "tests/support/foreign.h"
#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LOCK_BYTE (16 + PREFIX)
#define LONG_AGO 1000000000

static const char new_blob[] = "the new blob, of some length";
static const char old_blob[] = "an old blob, of another";

/* What an operation finds. */
enum before {
	NO_PREFIX,
	NO_CHUNK,
	EMPTY_CHUNK,
	OLD_CHUNK,
};

/* What is under the chunk's name. */
enum content {
	NOTHING,
	EMPTY,
	OLD,
	NEW,
	WRONG,
};

struct scene {
	const char *name;
	int (*run)(
	    struct storefix *f, const struct scene *scene, struct err *e);
	enum before before;
	enum content after; /* when all goes well */
	struct store_insert_opts opts;
	int refused; /* errno of RENAME_NOREPLACE, 0: it works */
	bool changes;
};

static struct digest chunk(void)
{
	return storefix_digest(PREFIX, 1);
}

static filetime soon(void)
{
	return ((filetime)time(NULL) + 3600) * CLOCK_NS_PER_S;
}

static int run_insert(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d = chunk();
	enum store_inserted got = STORE_NEW;

	return store_insert(
	    f->store, &d, new_blob, sizeof(new_blob), &scene->opts, &got, e);
}

static int run_reuse(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d = chunk();
	bool hit = false;
	int rc = store_reuse(f->store, &d, &hit, e);

	if (rc == 0)
		assert_int_equal(hit, scene->after == OLD);
	return rc;
}

static int run_touch(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	enum store_touched what = STORE_MISSING;
	struct digest d = chunk();
	int rc = store_touch(f->store, &d, &what, e);

	if (rc == 0)
		assert_int_equal(what == STORE_TOUCHED, scene->after == OLD);
	return rc;
}

static int told(
    void *ctx, const struct digest *d, enum store_touched what, struct err *e)
{
	(void)d;
	(void)e;
	*(unsigned *)ctx += what == STORE_TOUCHED;
	return 0;
}

static int run_batch(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d[2] = { chunk(), storefix_digest(PREFIX, 2) };
	struct task silent = TASK_SILENT;
	unsigned n = 0;
	uint64_t keys[2];
	struct store_batch b = { .d = d, .n = 2, .keys = keys };
	int rc = store_plan(f->store, &b, &silent, e);

	if (rc == 0)
		rc = store_touch_batch(f->store, &b, 0, told, &n, &silent, e);
	if (rc == 0)
		assert_int_equal(n, scene->after == OLD);
	return rc;
}

static int run_sweep(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d = chunk();
	struct store_victim v = { .kind = STORE_CHUNK };
	bool busy = true;
	int rc = 0;

	(void)scene;
	digest_hex(&d, v.name);
	rc = store_sweep(f->store, PREFIX, soon(), &v, 1, &busy, e);
	if (rc == 0) {
		assert_false(busy);
		assert_int_equal(v.outcome, STORE_VICTIM_REMOVED);
	} else {
		assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	}
	return rc;
}

static int seen(void *ctx, const struct store_entry *entry, struct err *e)
{
	(void)e;
	*(unsigned *)ctx += entry->kind == STORE_CHUNK;
	return 0;
}

static int run_scan(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	unsigned n = 0;
	int rc = store_scan(f->store, PREFIX, seen, &n, e);

	(void)scene;
	if (rc == 0)
		assert_int_equal(n, 1);
	return rc;
}

static int run_look(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d = chunk();
	struct store_entry entry;
	struct buf raw = BUF_INIT;
	bool found = false;
	int rc = store_stat(f->store, &d, &entry, &found, e);

	(void)scene;
	assert_int_equal(found, rc == 0);
	if (rc == 0)
		rc = store_load(f->store, &d, &raw, e);
	if (rc == 0)
		assert_int_equal(raw.len, entry.bytes);
	buf_release(&raw);
	return rc;
}

static int run_quarantine(
    struct storefix *f, const struct scene *scene, struct err *e)
{
	struct digest d = chunk();
	bool done = false;
	int fd = -1;
	int rc = store_open_chunk(f->store, &d, &fd, e);

	(void)scene;
	if (rc < 0)
		return rc;
	rc = store_quarantine(f->store, &d, fd, &done, e);
	(void)close(fd);
	assert_int_equal(done, rc == 0);
	return rc;
}

static const struct scene scenes[] = {
	{ .name = "insert, no prefix",
	    .run = run_insert,
	    .before = NO_PREFIX,
	    .after = NEW,
	    .changes = true },
	{ .name = "insert, no prefix, sync",
	    .run = run_insert,
	    .before = NO_PREFIX,
	    .after = NEW,
	    .opts = { .sync = true },
	    .changes = true },
	{ .name = "insert, new",
	    .run = run_insert,
	    .before = NO_CHUNK,
	    .after = NEW,
	    .changes = true },
	{ .name = "insert, new, sync",
	    .run = run_insert,
	    .before = NO_CHUNK,
	    .after = NEW,
	    .opts = { .sync = true },
	    .changes = true },
	{ .name = "insert, empty",
	    .run = run_insert,
	    .before = EMPTY_CHUNK,
	    .after = NEW,
	    .changes = true },
	{ .name = "insert, hit",
	    .run = run_insert,
	    .before = OLD_CHUNK,
	    .after = OLD,
	    .changes = true },
	{ .name = "insert, damaged",
	    .run = run_insert,
	    .before = OLD_CHUNK,
	    .after = NEW,
	    .opts = { .known_bad = true },
	    .changes = true },
	{ .name = "insert, new, by link",
	    .run = run_insert,
	    .before = NO_CHUNK,
	    .after = NEW,
	    .opts = { .sync = true },
	    .refused = EINVAL,
	    .changes = true },
	{ .name = "insert, hit, by link",
	    .run = run_insert,
	    .before = OLD_CHUNK,
	    .after = OLD,
	    .refused = EINVAL,
	    .changes = true },
	{ .name = "insert, damaged, by link",
	    .run = run_insert,
	    .before = OLD_CHUNK,
	    .after = NEW,
	    .opts = { .known_bad = true },
	    .refused = EINVAL,
	    .changes = true },
	{ .name = "reuse, none",
	    .run = run_reuse,
	    .before = NO_CHUNK,
	    .after = NOTHING },
	{ .name = "reuse, empty",
	    .run = run_reuse,
	    .before = EMPTY_CHUNK,
	    .after = EMPTY },
	{ .name = "reuse, hit",
	    .run = run_reuse,
	    .before = OLD_CHUNK,
	    .after = OLD },
	{ .name = "touch, none",
	    .run = run_touch,
	    .before = NO_CHUNK,
	    .after = NOTHING },
	{ .name = "touch",
	    .run = run_touch,
	    .before = OLD_CHUNK,
	    .after = OLD },
	{ .name = "batch",
	    .run = run_batch,
	    .before = OLD_CHUNK,
	    .after = OLD },
	{ .name = "sweep",
	    .run = run_sweep,
	    .before = OLD_CHUNK,
	    .after = NOTHING,
	    .changes = true },
	{ .name = "scan", .run = run_scan, .before = OLD_CHUNK, .after = OLD },
	{ .name = "look", .run = run_look, .before = OLD_CHUNK, .after = OLD },
	{ .name = "quarantine",
	    .run = run_quarantine,
	    .before = OLD_CHUNK,
	    .after = NOTHING,
	    .changes = true },
};

static enum content content_of(struct storefix *f, const char *suffix)
{
	struct digest d = chunk();
	enum content what = WRONG;
	size_t n = 0;
	char *p = NULL;

	if (!storefix_has(f, &d, suffix))
		return NOTHING;
	p = tmpdir_get(f->chunks_fd, storefix_path(&d, suffix), &n);
	if (n == 0)
		what = EMPTY;
	else if (n == sizeof(old_blob) && memcmp(p, old_blob, n) == 0)
		what = OLD;
	else if (n == sizeof(new_blob) && memcmp(p, new_blob, n) == 0)
		what = NEW;
	free(p);
	return what;
}

/* Everything anew: a store, and what the scene finds in it. */
static enum content prepare(struct storefix *f, const struct scene *scene)
{
	struct digest d = chunk();

	fault_reset();
	storefix_close(f);
	tmpdir_remove(&f->dir);
	storefix_make(f);
	if (scene->before == NO_PREFIX)
		return NOTHING;
	assert_int_equal(mkdirat(f->chunks_fd, "0a1b", 0750), 0);
	if (scene->before == NO_CHUNK)
		return NOTHING;
	if (scene->before == EMPTY_CHUNK) {
		storefix_put(f, &d, "", "", 0);
		return EMPTY;
	}
	storefix_put(f, &d, "", old_blob, sizeof(old_blob));
	storefix_age(f, &d, "", LONG_AGO, LONG_AGO);
	return OLD;
}

/* What this round is about. */
struct round {
	int refused;
	uint64_t at; /* the first call that is struck */
};

static void before_call(void *ctx, struct fault_event *ev)
{
	const struct round *round = ctx;

	/* Nobody pulls the plug here: a sync that works need not be done. */
	if (ev->call == FAULT_FSYNC && ev->nth < round->at) {
		ev->skip = true;
		ev->result = 0;
	}
	if (ev->call == FAULT_RENAMEAT2 && ev->flags != 0 &&
	    round->refused != 0) {
		ev->skip = true;
		ev->result = -1;
		ev->error = round->refused;
	}
}

static void arm(const struct scene *scene, const struct fault_rule *rule)
{
	static struct round round;

	round.refused = scene->refused;
	round.at = rule != NULL ? rule->at : UINT64_MAX;
	fault_reset();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = before_call, .ctx = &round });
	if (rule != NULL)
		fault_add(rule);
}

static void assert_whole(struct storefix *f, const struct scene *scene,
    enum content before, bool must_be_after)
{
	enum content now = content_of(f, "");

	if (now != scene->after && (must_be_after || now != before)) {
		fail_msg("%s: found %d, before %d, wanted %d", scene->name,
		    (int)now, (int)before, (int)scene->after);
	}
	/* Quarantine: the content is under one of both names. */
	if (scene->run == run_quarantine)
		assert_int_equal(
		    content_of(f, ".0.bad"), now == OLD ? NOTHING : OLD);
}

/* How many temporary files there are. */
static size_t count_tmp(struct storefix *f)
{
	int fd = openat(f->chunks_fd, "0a1b", O_RDONLY | O_DIRECTORY);
	size_t n = fd >= 0 ? tmpdir_count(fd, ".tmp_") : 0;

	if (fd >= 0)
		(void)close(fd);
	return n;
}

/*
 * All is as it was or as it should be: the same again has to work.  An unlock
 * that failed is made good by the next use of the lock.
 */
static void assert_works_now(
    struct storefix *f, const struct scene *scene, enum content before)
{
	struct digest another = storefix_digest(PREFIX, 9);
	struct err e = ERR_INIT;
	bool hit = true;

	arm(scene, NULL);
	if (content_of(f, "") == before)
		assert_ok(scene->run(f, scene, &e), &e);
	assert_whole(f, scene, before, true);
	assert_ok(store_reuse(f->store, &another, &hit, &e), &e);
	assert_false(hit);
	assert_true(foreign_can_byte(f->dir.fd, ".lock", LOCK_BYTE, F_WRLCK));
}

static void fail_each(struct storefix *f, const struct scene *scene,
    const struct fault_rule *kind)
{
	struct fault_rule rule = *kind;

	for (rule.at = 1;; rule.at++) {
		enum content before = prepare(f, scene);
		struct err e = ERR_INIT;
		size_t fds = tmpdir_open_fds();
		uint64_t unlinks = 0;
		uint64_t hits = 0;
		int rc = 0;

		arm(scene, &rule);
		rc = scene->run(f, scene, &e);
		hits = fault_hits();
		unlinks = fault_count(FAULT_BIT(FAULT_UNLINKAT));
		assert_int_equal(rc < 0, e.code < 0);
		assert_whole(f, scene, before, rc == 0);
		assert_int_equal(tmpdir_open_fds(), fds);
		/*
		 * One stays only if it is its removal that failed, or if it
		 * was made without our knowing.
		 */
		if (unlinks == 0 && kind->what != FAULT_FAIL_AFTER)
			assert_int_equal(count_tmp(f), 0);
		assert_true(count_tmp(f) <= 1);
		if (hits == 0) {
			assert_ok(rc, &e);
			assert_int_equal(count_tmp(f), 0);
			assert_true(rule.at > 1 || kind->calls != FAULT_ANY);
			return;
		}
		assert_works_now(f, scene, before);
	}
}

static void test_failing_calls(void **state)
{
	static const struct fault_rule kinds[] = {
		{ .calls = FAULT_ANY,
		    .what = FAULT_FAIL,
		    .times = 1,
		    .error = EIO },
		{ .calls = FAULT_ANY,
		    .what = FAULT_FAIL,
		    .times = FAULT_FOREVER,
		    .error = ENOSPC },
		{ .calls = FAULT_ANY,
		    .what = FAULT_FAIL_AFTER,
		    .times = 1,
		    .error = EIO },
		{ .calls = FAULT_BIT(FAULT_WRITE),
		    .what = FAULT_SHORT,
		    .times = 1,
		    .bytes = 3 },
	};

	fault_install();
	for (size_t i = 0; i < TEST_COUNT(scenes); i++) {
		for (size_t k = 0; k < TEST_COUNT(kinds); k++)
			fail_each(*state, &scenes[i], &kinds[k]);
	}
}

/* True if it died at the n-th call, false if there was none. */
static bool dies_at(struct storefix *f, const struct scene *scene, uint64_t n)
{
	struct fault_rule rule = {
		.calls = FAULT_ANY, .what = FAULT_KILL, .at = n, .times = 1
	};
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct err e = ERR_INIT;

		/* Its own description of .lock, so that its locks die. */
		storefix_open(f);
		arm(scene, &rule);
		_exit(scene->run(f, scene, &e) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
	} else {
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	return WIFSIGNALED(status);
}

/* To die behind a call is to die before the next one. */
static void kill_each(struct storefix *f, const struct scene *scene)
{
	bool died = true;

	for (uint64_t n = 1; died; n++) {
		enum content before = prepare(f, scene);

		died = dies_at(f, scene, n);
		assert_whole(f, scene, before, !died);
		assert_true(count_tmp(f) <= (died ? 1 : 0));
		assert_works_now(f, scene, before);
	}
}

static void test_dying(void **state)
{
	fault_install();
	for (size_t i = 0; i < TEST_COUNT(scenes); i++) {
		if (scenes[i].changes)
			kill_each(*state, &scenes[i]);
	}
}

static void test_no_memory(void **state)
{
	struct storefix *f = *state;

	fault_install();
	for (size_t i = 0; i < TEST_COUNT(scenes); i++) {
		for (uint64_t n = 1;; n++) {
			enum content before = prepare(f, &scenes[i]);
			struct err e = ERR_INIT;
			int rc = 0;

			arm(&scenes[i], NULL);
			failmalloc_at(n);
			rc = scenes[i].run(f, &scenes[i], &e);
			if (failmalloc_off() == 0) {
				assert_ok(rc, &e);
				break;
			}
			assert_err(rc, &e, ERR_NOMEM, "memory");
			assert_whole(f, &scenes[i], before, false);
			assert_int_equal(count_tmp(f), 0);
			assert_works_now(f, &scenes[i], before);
		}
	}
}

static void test_open_without_memory(void **state)
{
	struct storefix *f = *state;
	struct file_owner owner = { .change = false };

	for (uint64_t n = 1;; n++) {
		struct err e = ERR_INIT;
		struct store *s = NULL;
		int rc = 0;

		failmalloc_at(n);
		rc = store_fs_open(f->chunks_fd, f->locks, &owner, "x", &s, &e);
		if (failmalloc_off() == 0) {
			assert_ok(rc, &e);
			store_close(s);
			assert_int_equal(n, 3);
			return;
		}
		assert_err(rc, &e, ERR_NOMEM, "memory");
		assert_null(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_failing_calls),
		storefix_test(test_dying),
		storefix_test(test_no_memory),
		storefix_test(test_open_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
