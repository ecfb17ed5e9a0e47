/* SPDX-License-Identifier: MIT */
#include "gc/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "index/idxformat.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"

#define S0 "host/a/" GCFIX_T0_NAME
#define S1 "host/a/" GCFIX_T1_NAME
#define S2 "host/a/" GCFIX_T2_NAME

enum { CHUNKS = 200 };

/* A mark, and what its sink was given. */
struct marked {
	struct gcfix *f;
	struct mark m;
	struct findings findings;
	struct mark_opts opts;
	unsigned times[CHUNKS]; /* how often each chunk came */
	unsigned others;
	unsigned flushes;
	bool fell;
	uint64_t last_read;
	/* Called behind the n-th listing. */
	void (*listed)(struct marked *k, unsigned nth);
	unsigned seen; /* rounds */
	int fail;
};

static int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct marked *k = ctx;

	if (k->fail != 0)
		return err_set(e, k->fail, "the sink is full");
	for (unsigned i = 0; i < CHUNKS; i++) {
		struct digest want;

		pushfix_digest(i, &want);
		if (digest_equal(d, &want)) {
			k->times[i]++;
			return 0;
		}
	}
	k->others++;
	return 0;
}

static int on_flush(void *ctx, struct err *e)
{
	struct marked *k = ctx;

	(void)e;
	k->flushes++;
	return 0;
}

static void on_progress(void *ctx, const struct mark_counts *c)
{
	struct marked *k = ctx;

	k->fell |= c->references_read < k->last_read ||
	    c->references_total < c->references_read ||
	    c->files_total < c->files_read;
	k->last_read = c->references_read;
	/* The first one of a round comes right behind its listing. */
	if (c->rounds > k->seen) {
		k->seen = c->rounds;
		if (k->listed != NULL)
			k->listed(k, c->rounds);
	}
}

static int run(struct gcfix *f, struct marked *k)
{
	const struct mark_sink sink = {
		.add = on_add,
		.flush = on_flush,
		.progress = on_progress,
		.ctx = k,
	};

	k->f = f;
	mark_release(&k->m);
	memset(k->times, 0, sizeof(k->times));
	k->others = 0;
	k->flushes = 0;
	k->last_read = 0;
	k->seen = 0;
	k->findings = (struct findings){ .task = &f->task,
		.ignore = f->opts.ignore,
		.ignore_n = f->opts.ignore_n };
	buf_reset(&f->messages);
	return mark_run(
	    f->gc, &k->opts, &sink, &k->findings, &f->task, &k->m, &f->e);
}

/* Chunks first .. first + n - 1 were all marked. */
static bool has(const struct marked *k, unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (k->times[first + i] == 0)
			return false;
	}
	return true;
}

static bool has_root(const struct marked *k, const char *path)
{
	for (size_t i = 0; i < k->m.roots_n; i++) {
		if (strcmp(k->m.roots[i].path, path) == 0)
			return true;
	}
	return false;
}

static void put(
    struct gcfix *f, const char *dir, const char *name, unsigned first)
{
	char path[PATH_MAX];

	gcfix_mkdir(f, dir);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	gcfix_put_index(f, path, first, 10);
}

/* A dynamic index of two chunks. */
static void put_dynamic(struct gcfix *f, const char *path, unsigned first)
{
	uint8_t bytes[IDX_HEADER_SIZE + 2 * IDX_DYNAMIC_ENTRY_SIZE] = { 0 };
	struct idx_info info = { .kind = IDX_DYNAMIC, .count = 2 };
	char full[PATH_MAX];

	for (unsigned i = 0; i < 2; i++) {
		struct idx_entry entry = { .end = UINT64_C(100) * (i + 1) };

		pushfix_digest(first + i, &entry.digest);
		idx_entry_encode(IDX_DYNAMIC, &entry,
		    bytes + IDX_HEADER_SIZE +
			(size_t)i * IDX_DYNAMIC_ENTRY_SIZE);
	}
	assert_ok(digest_of(bytes + IDX_HEADER_SIZE,
		      sizeof(bytes) - IDX_HEADER_SIZE, &info.csum, &f->e),
	    &f->e);
	idx_header_encode(&info, bytes);
	(void)snprintf(full, sizeof(full), "store/%s", path);
	tmpdir_put(f->dir.fd, full, bytes, sizeof(bytes));
}

static void everything_listed_is_read(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	uint64_t references = 0;

	put(f, S0, "a.fidx", 0);
	put(f, S0, "b.fidx", 5);
	put(f, "ns/x/vm/7/" GCFIX_T0_NAME, "a.fidx", 30);
	put_dynamic(f, S0 "/c.didx", 50);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 15));
	assert_true(has(&k, 30, 10));
	assert_true(has(&k, 50, 2));
	references = 32;
	assert_int_equal(k.m.roots_n, 4);
	assert_int_equal(k.m.counts.files_read, 4);
	assert_int_equal(k.m.counts.files_total, 4);
	assert_int_equal(k.m.counts.references_read, references);
	assert_int_equal(k.m.counts.references_total, references);
	assert_int_equal(mark_data_bytes(&k.m), 30 * PUSHFIX_CHUNK + 200);
	assert_true(has_root(&k, S0 "/c.didx"));
	assert_false(has_root(&k, S0 "/d.didx"));
	assert_false(k.fell);
	/* Nothing is read twice, and yet it is listed twice. */
	assert_int_equal(k.m.counts.rounds, 2);
	assert_int_equal(k.flushes, 2);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(k.times[i], 1);
	assert_int_equal(k.findings.fatal, 0);
	mark_release(&k.m);
}

static void an_odd_place_is_told_once(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, "copies/of", "a.fidx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	assert_int_equal(k.findings.warnings, 1);
	assert_int_equal(gcfix_said(f, "copies/of/a.fidx"), 1);
	mark_release(&k.m);
}

/* Another file under the same name is read, too. */
static void replace(struct marked *k, unsigned nth)
{
	if (nth != 2)
		return;
	gcfix_unlink(k->f, S0 "/a.fidx");
	put(k->f, S0, "a.fidx", 20);
}

static void appear(struct marked *k, unsigned nth)
{
	if (nth == 1)
		put(k->f, S1, "a.fidx", 20);
}

static void what_appears_is_read(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = appear;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	assert_int_equal(k.m.counts.rounds, 2);
	assert_int_equal(k.m.roots_n, 2);
	mark_release(&k.m);
}

/* Between the listing and the look at it: what was listed is gone. */
static void what_is_replaced_is_read_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = replace;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	assert_int_equal(k.m.counts.rounds, 3);
	assert_int_equal(k.m.roots_n, 1);
	mark_release(&k.m);
}

/*
 * Same path, same inode, and as far as the file system's times tell the same
 * file: the uuid in its header says that it is another.
 */
static void no_ctime(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0) {
		st->stx_ctime.tv_sec = 1;
		st->stx_ctime.tv_nsec = 0;
	}
}

static void overwrite(struct marked *k, unsigned nth)
{
	if (nth == 2)
		put(k->f, S0, "a.fidx", 20);
}

static void the_uuid_tells_files_apart(void **state)
{
	const struct fault_hooks hooks = { .after = no_ctime };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	gcfix_fast(&hooks);
	k.listed = overwrite;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	mark_release(&k.m);
}

/* rm -r of what was listed, and a newer one in its place, each time. */
static void rm_and_put(struct marked *k, unsigned nth)
{
	char dir[64];
	bool held = !foreign_can_byte(
	    k->f->dir.fd, "store/.lock", LOCK_BYTE_PRUNE, F_RDLCK);

	/* From the 4th on nobody may remove, of those who ask. */
	assert_int_equal(held, nth >= 4);
	assert_true(foreign_can_byte(
	    k->f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_RDLCK));
	if (nth > 5)
		return;
	(void)snprintf(dir, sizeof(dir), "host/a/2027-01-15T08:00:%02uZ", nth);
	gcfix_remove_tree(k->f, dir);
	(void)snprintf(
	    dir, sizeof(dir), "host/a/2027-01-15T08:00:%02uZ", nth + 1);
	put(k->f, dir, "a.fidx", 10 * nth);
}

static void what_vanishes_is_listed_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "a.fidx", 0);
	k.listed = rm_and_put;
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.m.counts.rounds, 6);
	assert_true(has(&k, 50, 10));
	assert_int_equal(k.m.roots_n, 1);
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_PRUNE, F_WRLCK));
	mark_release(&k.m);
}

/*
 * Moved by hand from a place that the walk has not reached to one that it has
 * passed: the first listing shows neither, and nothing vanished.
 */
static void move_by_hand(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;

	if (ev->call == FAULT_OPENAT && ev->name != NULL &&
	    strcmp(ev->name, "vm") == 0)
		(void)renameat(
		    f->dir.fd, "store/vm/1", f->dir.fd, "store/ct/1");
}

static void one_move_by_hand_is_caught(void **state)
{
	struct gcfix *f = *state;
	const struct fault_hooks hooks = { .before = move_by_hand, .ctx = f };
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, "vm/1/" GCFIX_T0_NAME, "a.fidx", 0);
	gcfix_mkdir(f, "ct");
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	assert_true(has_root(&k, "ct/1/" GCFIX_T0_NAME "/a.fidx"));
	mark_release(&k.m);
}

/* Who never stops must not keep GC for ever. */
static void rm_for_ever(struct marked *k, unsigned nth)
{
	gcfix_remove_tree(k->f, nth % 2 == 1 ? S1 : S2);
	put(k->f, nth % 2 == 1 ? S2 : S1, "a.fidx", 0);
}

static void it_gives_up(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "a.fidx", 0);
	k.listed = rm_for_ever;
	assert_err(run(f, &k), &f->e, ERR_BUSY, "vanished in each");
	mark_release(&k.m);
}

/* The tree lock is held while it lists, and only then. */
static struct {
	unsigned held;
	unsigned free;
	struct gcfix *f;
} lock;

static void look_at_lock(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_READDIR)
		return;
	if (foreign_can_byte(
		lock.f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_RDLCK)) {
		lock.free++;
	} else {
		lock.held++;
	}
}

static void the_tree_is_locked_while_it_lists(void **state)
{
	const struct fault_hooks hooks = { .before = look_at_lock };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	lock.f = f;
	lock.held = 0;
	lock.free = 0;
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(run(f, &k), &f->e);
	assert_true(lock.held > 0);
	assert_int_equal(lock.free, 0);
	lock.held = 0;
	k.opts.locks = false;
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(lock.held, 0);
	assert_true(lock.free > 0);
	mark_release(&k.m);
}

/* Each look at the clock finds it 2 s later. */
static void hurry(void *ctx, struct fault_event *ev)
{
	static int64_t ahead;
	struct timespec *ts = ev->p;

	(void)ctx;
	if (ev->call != FAULT_CLOCK_GETTIME || ev->flags != CLOCK_BOOTTIME)
		return;
	ahead += 2;
	ts->tv_sec += ahead;
}

/* A lock that is not to be had ends it, and says what it waited for. */
static void it_does_not_wait_for_ever(void **state)
{
	const struct foreign_lock tree = {
		.type = F_RDLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	const struct fault_hooks hooks = { .after = hurry };
	struct foreign_holder holder;
	int rc = 0;

	foreign_start(f->dir.fd, "store/.lock", &tree, &holder);
	fault_install();
	fault_set_hooks(&hooks);
	rc = run(f, &k);
	foreign_end(&holder);
	assert_err(rc, &f->e, ERR_BUSY, "waited 30 s for the tree lock");
	mark_release(&k.m);
}

static void corrupt(struct gcfix *f, const char *path, int how)
{
	char full[PATH_MAX];
	size_t n = 0;
	char *p = NULL;

	(void)snprintf(full, sizeof(full), "store/%s", path);
	p = tmpdir_get(f->dir.fd, full, &n);
	assert_non_null(p);
	if (how == 0)
		n = 0; /* empty */
	if (how == 1)
		n = 10; /* cut within the header */
	if (how == 2)
		n -= 5; /* cut behind it */
	if (how == 3)
		p[0] = 'x'; /* another magic */
	if (how == 4)
		p[n - 1] = (char)(p[n - 1] + 1); /* checksum */
	tmpdir_put(f->dir.fd, full, p, n);
	free(p);
}

enum { WAYS_TO_CORRUPT = 5 };

/* Every one of them is told, and all others are read. */
static void broken_indexes_are_all_found(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "good.fidx", 50);
	put(f, S1, "index.json.blob", 0);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		char path[64];

		(void)snprintf(path, sizeof(path), S1 "/b%d.fidx", how);
		gcfix_put_index(f, path, 0, 10);
		corrupt(f, path, how);
	}
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, WAYS_TO_CORRUPT);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/b%d.fidx'", how);
		assert_int_equal(gcfix_said(f, path), 1);
	}
	assert_true(has(&k, 50, 10));
	assert_int_equal(k.m.roots_n, 1);
	assert_int_equal(k.m.counts.left_overs, 0);
	mark_release(&k.m);
}

static void unreadable_indexes_are_found(void **state)
{
	static const struct {
		uint64_t call;
		const char *name;
		uint64_t at;
	} cases[] = {
		{ FAULT_BIT(FAULT_OPENAT), "bad.fidx", 1 },
		{ FAULT_BIT(FAULT_PREAD), NULL, 1 }, /* header */
		{ FAULT_BIT(FAULT_PREAD), NULL, 2 }, /* entries */
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	/* Without manifest and old, but the disk's fault is no left-over. */
	k.opts.left_over_cutoff = INT64_MAX;
	put(f, S0, "bad.fidx", 0);
	put(f, S1, "good.fidx", 50);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		fault_install();
		fault_add(&(struct fault_rule){ .calls = cases[i].call,
		    .name = cases[i].name,
		    .what = FAULT_FAIL,
		    .at = cases[i].at,
		    .times = 1,
		    .error = i == 0 ? EACCES : EIO });
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 1);
		assert_int_equal(gcfix_said(f, "bad.fidx'"), 1);
		assert_true(has(&k, 50, 10));
		fault_uninstall();
	}
	mark_release(&k.m);
}

/* Memory that is out is not a finding about a file. */
static void a_sink_that_fails_ends_it(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.fail = ERR_NOMEM;
	assert_err(run(f, &k), &f->e, ERR_NOMEM, "sink");
	assert_int_equal(k.findings.fatal, 0);
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_WRLCK));
	mark_release(&k.m);
}

/* What a dead backup left: told, counted, not fatal. */
static void left_overs_are_not_fatal(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	char path[PATH_MAX];
	int fd = -1;

	put(f, S1, "good.fidx", 50);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		put(f, S0, "bad.fidx", 0);
		corrupt(f, S0 "/bad.fidx", how);
		/* Not old enough: it may be somebody's. */
		k.opts.left_over_cutoff = 0;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 1);
		k.opts.left_over_cutoff = INT64_MAX;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 0);
		assert_int_equal(k.m.counts.left_overs, 1);
		assert_int_equal(gcfix_said(f, "left over by a backup"), 1);
		assert_true(has(&k, 50, 10));
		/* Without locks, as in a dry run, the same. */
		k.opts.locks = false;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.m.counts.left_overs, 1);
		k.opts.locks = true;
	}
	/* Somebody is at work there. */
	(void)snprintf(path, sizeof(path), "store/%s", S0);
	fd = openat(f->dir.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	(void)close(fd);
	/* It has a manifest: a snapshot that is hurt. */
	put(f, S0, "index.json.blob", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	assert_int_equal(k.m.counts.left_overs, 0);
	/* In an odd place nobody can tell. */
	gcfix_remove_tree(f, S0);
	put(f, "copies", "bad.fidx", 0);
	corrupt(f, "copies/bad.fidx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	mark_release(&k.m);
}

/* A snapshot set aside: whatever can be read of it is marked. */
static void what_is_readable_of_an_ignored_one_is_marked(void **state)
{
	const struct backup_snapshot ignore = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	f->opts.ignore = &ignore;
	f->opts.ignore_n = 1;
	put(f, S0, "index.json.blob", 0);
	put(f, S0, "whole.fidx", 0);
	for (int how = 2; how < WAYS_TO_CORRUPT; how++) {
		put(f, S0, "bad.fidx", 20);
		corrupt(f, S0 "/bad.fidx", how);
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 0);
		assert_int_equal(k.findings.warnings, 1);
		assert_true(has(&k, 0, 10));
		/* Cut or changed, the last one is lost. */
		assert_true(has(&k, 20, 9));
		assert_int_equal(k.times[29] > 0, how == 3);
	}
	gcfix_unlink(f, S0 "/bad.fidx");
	put_dynamic(f, S0 "/bad.didx", 40);
	corrupt(f, S0 "/bad.didx", 3);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 40, 2));
	assert_int_equal(k.findings.fatal, 0);
	/* An empty one, too. */
	corrupt(f, S0 "/bad.didx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 0);
	mark_release(&k.m);
}

/* What a run would have removed before it listed (dry run). */
static void skipped_directories_are_no_roots(void **state)
{
	char s0[] = S0;
	char *skip[] = { s0 };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT };

	put(f, S0, "a.fidx", 0);
	put(f, S1, "a.fidx", 20);
	k.opts.skip = skip;
	k.opts.skip_n = 1;
	assert_ok(run(f, &k), &f->e);
	assert_false(has(&k, 0, 1));
	assert_true(has(&k, 20, 10));
	/* Finished: nobody removes that. */
	put(f, S0, "index.json.blob", 0);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	mark_release(&k.m);
}

struct found {
	unsigned n;
	struct digest d[8];
	char path[8][64];
};

static void on_reference(void *ctx, const struct digest *d, const char *path)
{
	struct found *found = ctx;

	assert_in_range(found->n, 0, 7);
	found->d[found->n] = *d;
	(void)snprintf(found->path[found->n], 64, "%s", path);
	found->n++;
}

static void references_are_found_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	struct found found = { .n = 0 };
	struct digest d[2];
	struct digest swap;
	const struct mark_search search = {
		.digests = d, .n = 2, .fn = on_reference, .ctx = &found
	};

	put(f, S0, "a.fidx", 0);
	put(f, S1, "a.fidx", 5);
	put(f, S1, "b.fidx", 30);
	assert_ok(run(f, &k), &f->e);
	pushfix_digest(3, &d[0]);
	pushfix_digest(7, &d[1]);
	if (digest_compare(&d[0], &d[1]) > 0) {
		swap = d[0];
		d[0] = d[1];
		d[1] = swap;
	}
	assert_ok(
	    mark_find_references(f->gc, &k.m, &search, &f->task, &f->e), &f->e);
	assert_int_equal(found.n, 3);
	assert_string_equal(found.path[0], S0 "/a.fidx");
	assert_string_equal(found.path[1], S0 "/a.fidx");
	assert_string_equal(found.path[2], S1 "/a.fidx");
	/* One that is gone by now is passed over. */
	gcfix_remove_tree(f, S0);
	found.n = 0;
	assert_ok(
	    mark_find_references(f->gc, &k.m, &search, &f->task, &f->e), &f->e);
	assert_int_equal(found.n, 1);
	mark_release(&k.m);
}

static void stop(struct marked *k, unsigned nth)
{
	(void)nth;
	k->f->task.stop = 2;
}

static void it_stops_when_told(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = stop;
	assert_err(run(f, &k), &f->e, ERR_CANCELLED, "signal 2");
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_WRLCK));
	f->task.stop = 0;
	mark_release(&k.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(everything_listed_is_read),
		GCFIX_TEST(an_odd_place_is_told_once),
		GCFIX_TEST(what_appears_is_read),
		GCFIX_TEST(what_is_replaced_is_read_again),
		GCFIX_TEST(the_uuid_tells_files_apart),
		GCFIX_TEST(what_vanishes_is_listed_again),
		GCFIX_TEST(one_move_by_hand_is_caught),
		GCFIX_TEST(it_gives_up),
		GCFIX_TEST(the_tree_is_locked_while_it_lists),
		GCFIX_TEST(it_does_not_wait_for_ever),
		GCFIX_TEST(broken_indexes_are_all_found),
		GCFIX_TEST(unreadable_indexes_are_found),
		GCFIX_TEST(a_sink_that_fails_ends_it),
		GCFIX_TEST(left_overs_are_not_fatal),
		GCFIX_TEST(what_is_readable_of_an_ignored_one_is_marked),
		GCFIX_TEST(skipped_directories_are_no_roots),
		GCFIX_TEST(references_are_found_again),
		GCFIX_TEST(it_stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
