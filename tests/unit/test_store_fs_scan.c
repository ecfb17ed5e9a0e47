/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "datastore/blob.h"
#include "tests/support/foreign.h"
#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LOCK_BYTE (16 + PREFIX)
#define LONG_AGO 1000000000
#define CUTOFF ((LONG_AGO + 1000) * CLOCK_NS_PER_S)

static const char blob[] = "a blob of more than a header";

static void put_aged(struct storefix *f, const struct digest *d,
    const char *suffix, time_t atime, time_t mtime)
{
	storefix_put(f, d, suffix, blob, sizeof(blob));
	storefix_age(f, d, suffix, atime, mtime);
}

/* A time after every ctime of this test. */
static filetime soon(void)
{
	return ((filetime)time(NULL) + 3600) * CLOCK_NS_PER_S;
}

static struct store_victim victim(
    const struct digest *d, const char *suffix, enum store_kind kind)
{
	struct store_victim v = { .kind = kind };

	(void)snprintf(v.name, sizeof(v.name), "%s",
	    storefix_path(d, suffix) + sizeof("0a1b"));
	return v;
}

static void sweep(
    struct storefix *f, filetime cutoff, struct store_victim *v, size_t n)
{
	bool busy = true;

	assert_ok(
	    store_sweep(f->store, PREFIX, cutoff, v, n, &busy, &f->e), &f->e);
	assert_false(busy);
	assert_true(foreign_can_byte(f->dir.fd, ".lock", LOCK_BYTE, F_WRLCK));
}

/* What a sweep of one does. */
static int outcome(struct storefix *f, const struct digest *d,
    const char *suffix, enum store_kind kind, filetime cutoff)
{
	struct store_victim v = victim(d, suffix, kind);

	sweep(f, cutoff, &v, 1);
	assert_int_equal(
	    storefix_has(f, d, suffix), v.outcome == STORE_VICTIM_KEPT);
	assert_int_equal(
	    v.bytes, v.outcome == STORE_VICTIM_REMOVED ? sizeof(blob) : 0);
	return (int)v.outcome;
}

/* What a scan has seen. */
struct seen {
	struct store_entry entries[16];
	size_t n;
	struct storefix *f;
	int rc;
};

static int see(void *ctx, const struct store_entry *entry, struct err *e)
{
	struct seen *s = ctx;

	assert_true(s->n < TEST_COUNT(s->entries));
	assert_non_null(entry->name);
	s->entries[s->n++] = *entry;
	if (s->rc < 0)
		return err_set(e, s->rc, "seen enough");
	return 0;
}

static const struct store_entry *find(
    const struct seen *s, enum store_kind kind, unsigned nth)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->entries[i].kind == kind && nth-- == 0)
			return &s->entries[i];
	}
	fail_msg("no such entry");
	return NULL;
}

/* All that are there, whatever stands there, and no others. */
static void test_list_prefixes(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_prefixes set = { .bits = { 1 } };
	unsigned n = 0;

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	assert_int_equal(mkdirat(f->chunks_fd, "ffff", 0755), 0);
	assert_int_equal(symlinkat("/", f->chunks_fd, "0040"), 0);
	assert_int_equal(mkdirat(f->chunks_fd, "FFFE", 0755), 0);
	assert_int_equal(mkdirat(f->chunks_fd, "00000", 0755), 0);
	fault_install();
	fault_once(FAULT_BIT(FAULT_READDIR), 2, EIO);
	assert_err(store_list_prefixes(f->store, &set, &f->e), &f->e, ERR_SYS,
	    "/store/.chunks");
	fault_uninstall();
	assert_int_equal(set.bits[0], 1);
	assert_ok(store_list_prefixes(f->store, &set, &f->e), &f->e);
	for (unsigned i = 0; i < STORE_PREFIXES; i++)
		n += store_prefixes_has(&set, i);
	assert_int_equal(n, 3);
	assert_true(store_prefixes_has(&set, PREFIX));
	assert_true(store_prefixes_has(&set, 0x0040));
	assert_true(store_prefixes_has(&set, 0xffff));
}

static void test_scan(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct seen s = { .n = 0 };
	const struct store_entry *entry = NULL;

	assert_ok(store_scan(f->store, PREFIX, see, &s, &f->e), &f->e);
	assert_int_equal(s.n, 0);
	assert_int_equal(tmpdir_count(f->chunks_fd, ""), 0);
	put_aged(f, &d, "", LONG_AGO, LONG_AGO + 1);
	put_aged(f, &d, ".2.bad", LONG_AGO, LONG_AGO);
	put_aged(f, &d, ".tmp_abcdef", LONG_AGO, LONG_AGO);
	put_aged(f, &d, ".using", LONG_AGO, LONG_AGO);
	tmpdir_put_str(f->chunks_fd, "0a1b/README", "?");
	d = storefix_digest(PREFIX, 2);
	assert_int_equal(mkdirat(f->chunks_fd, storefix_path(&d, ""), 0), 0);

	assert_ok(store_scan(f->store, PREFIX, see, &s, &f->e), &f->e);
	assert_int_equal(s.n, 6);
	entry = find(&s, STORE_CHUNK, 0);
	if (!entry->regular)
		entry = find(&s, STORE_CHUNK, 1);
	assert_true(entry->regular);
	d = storefix_digest(PREFIX, 1);
	assert_true(digest_equal(&entry->digest, &d));
	assert_int_equal(entry->bytes, sizeof(blob));
	assert_true(entry->atime == LONG_AGO * CLOCK_NS_PER_S);
	assert_true(entry->mtime == (LONG_AGO + 1) * CLOCK_NS_PER_S);
	assert_true(entry->ctime > entry->mtime);
	assert_true(digest_equal(&find(&s, STORE_BAD, 0)->digest, &d));
	assert_true(digest_equal(&find(&s, STORE_TMP, 0)->digest, &d));
	(void)find(&s, STORE_OTHER, 1);
	s = (struct seen){ .rc = ERR_REFUSED };
	assert_err(store_scan(f->store, PREFIX, see, &s, &f->e), &f->e,
	    ERR_REFUSED, "seen enough");
	assert_int_equal(s.n, 1);
}

/* The entry that is about to be looked at goes away. */
static void take_away(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_STATX && strlen(ev->name) >= 64)
		(void)unlinkat(ev->fd, ev->name, 0);
}

static void test_scan_of_what_vanishes(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct seen s = { .n = 0 };

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	tmpdir_put_str(f->chunks_fd, "0a1b/README", "?");
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = take_away });
	assert_ok(store_scan(f->store, PREFIX, see, &s, &f->e), &f->e);
	assert_int_equal(s.n, 1);
}

static void test_scan_that_fails(void **state)
{
	static const struct {
		enum fault_call call;
		const char *text;
	} calls[] = {
		{ FAULT_OPENAT, "open directory '/store/.chunks/0a1b" },
		{ FAULT_GETDENTS64, "read directory '/store/.chunks/0a1b" },
		{ FAULT_STATX, "stat '/store/.chunks/0a1b" },
	};
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct seen s = { .n = 0 };
	size_t fds = 0;

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	fds = tmpdir_open_fds();
	fault_install();
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		fault_reset();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(calls[i].call),
			.what = FAULT_FAIL,
			.at = 1,
			.times = 1,
			.error = EIO });
		assert_err(store_scan(f->store, PREFIX, see, &s, &f->e), &f->e,
		    ERR_SYS, calls[i].text);
		assert_int_equal(tmpdir_open_fds(), fds);
	}
	assert_int_equal(s.n, 0);
}

static void test_sweep_by_atime(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	assert_int_equal(
	    outcome(f, &d, "", STORE_CHUNK, CUTOFF), STORE_VICTIM_GONE);
	/* As old as the cutoff is not before it; mtime does not count. */
	put_aged(f, &d, "", LONG_AGO + 1000, LONG_AGO);
	assert_int_equal(
	    outcome(f, &d, "", STORE_CHUNK, CUTOFF), STORE_VICTIM_KEPT);
	assert_int_equal(
	    outcome(f, &d, "", STORE_CHUNK, CUTOFF + 1), STORE_VICTIM_REMOVED);
	assert_int_equal(
	    outcome(f, &d, "", STORE_CHUNK, CUTOFF), STORE_VICTIM_GONE);
	put_aged(f, &d, ".1.bad", LONG_AGO + 1000, LONG_AGO);
	assert_int_equal(
	    outcome(f, &d, ".1.bad", STORE_BAD, CUTOFF), STORE_VICTIM_KEPT);
	assert_int_equal(outcome(f, &d, ".1.bad", STORE_BAD, CUTOFF + 1),
	    STORE_VICTIM_REMOVED);
}

static void test_sweep_by_ctime(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_victim v = victim(&d, "", STORE_CHUNK);

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	v.by_ctime = true;
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	sweep(f, soon(), &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_REMOVED);
}

/* mtime and ctime; the atime of a file that somebody reads does not count. */
static void test_sweep_of_temporary_files(void **state)
{
	static const char *const suffixes[] = { ".tmp", ".tmp_abcdef" };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	time_t future = time(NULL) + 7200;

	for (size_t i = 0; i < TEST_COUNT(suffixes); i++) {
		put_aged(f, &d, suffixes[i], LONG_AGO, LONG_AGO);
		assert_int_equal(outcome(f, &d, suffixes[i], STORE_TMP, CUTOFF),
		    STORE_VICTIM_KEPT);
		put_aged(f, &d, suffixes[i], LONG_AGO, future);
		assert_int_equal(outcome(f, &d, suffixes[i], STORE_TMP, soon()),
		    STORE_VICTIM_KEPT);
		put_aged(f, &d, suffixes[i], future, LONG_AGO);
		assert_int_equal(outcome(f, &d, suffixes[i], STORE_TMP, soon()),
		    STORE_VICTIM_REMOVED);
	}
}

static void test_sweep_of_bad_copies(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_victim v = victim(&d, ".0.bad", STORE_BAD);

	v.if_good_exists = true;
	put_aged(f, &d, ".0.bad", LONG_AGO, LONG_AGO);
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	/* One that no insert takes for a chunk does not count as one. */
	storefix_put(f, &d, "", blob, BLOB_HEADER_SIZE);
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	assert_int_equal(unlinkat(f->chunks_fd, storefix_path(&d, ""), 0), 0);
	assert_int_equal(mkdirat(f->chunks_fd, storefix_path(&d, ""), 0), 0);
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	assert_int_equal(
	    unlinkat(f->chunks_fd, storefix_path(&d, ""), AT_REMOVEDIR), 0);
	storefix_put(f, &d, "", blob, BLOB_HEADER_SIZE + 1);
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_REMOVED);
	assert_true(storefix_has(f, &d, ""));
}

static void test_sweep_removes_files_only(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_victim v = victim(&d, "", STORE_CHUNK);

	assert_int_equal(mkdirat(f->chunks_fd, "0a1b", 0750), 0);
	assert_int_equal(
	    symlinkat("x", f->chunks_fd, storefix_path(&d, "")), 0);
	storefix_age(f, &d, "", LONG_AGO, LONG_AGO);
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	assert_true(storefix_has(f, &d, ""));
}

static void test_sweep_of_wrong_names(void **state)
{
	static const struct {
		const char *name;
		enum store_kind kind;
	} wrong[] = {
		{ "README", STORE_OTHER },
		{ "README", STORE_CHUNK },
		{ "../../.lock", STORE_CHUNK },
		{ "", STORE_TMP },
		{ NULL, STORE_BAD },
		{ NULL, STORE_TMP },
		{ NULL, STORE_OTHER },
	};
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	bool busy = false;

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		struct store_victim v = victim(&d, "", wrong[i].kind);

		if (wrong[i].name != NULL)
			(void)snprintf(
			    v.name, sizeof(v.name), "%s", wrong[i].name);
		assert_err(
		    store_sweep(f->store, PREFIX, CUTOFF, &v, 1, &busy, &f->e),
		    &f->e, ERR_INVALID, "can not be swept");
	}
	assert_true(storefix_has(f, &d, ""));
}

static void test_sweep_of_many(void **state)
{
	struct storefix *f = *state;
	struct store_victim v[STORE_SWEEP_MAX];

	for (uint8_t i = 0; i < STORE_SWEEP_MAX; i++) {
		struct digest d = storefix_digest(PREFIX, i);

		put_aged(f, &d, "", LONG_AGO + (i % 2) * 2000, LONG_AGO);
		v[i] = victim(&d, "", STORE_CHUNK);
	}
	fault_install();
	sweep(f, CUTOFF, v, STORE_SWEEP_MAX);
	/* One taking of the lock for all of them. */
	assert_int_equal(fault_count(FAULT_BIT(FAULT_OFD_LOCK)), 2);
	for (uint8_t i = 0; i < STORE_SWEEP_MAX; i++) {
		struct digest d = storefix_digest(PREFIX, i);

		assert_int_equal(v[i].outcome,
		    i % 2 == 0 ? STORE_VICTIM_REMOVED : STORE_VICTIM_KEPT);
		assert_int_equal(storefix_has(f, &d, ""), i % 2);
	}
}

static void test_sweep_is_busy(void **state)
{
	struct foreign_lock lock = {
		.type = F_RDLCK, .len = 1, .start = LOCK_BYTE
	};
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_victim v = victim(&d, "", STORE_CHUNK);
	struct foreign_holder holder;
	bool busy = false;

	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	v.outcome = STORE_VICTIM_GONE;
	foreign_start(f->dir.fd, ".lock", &lock, &holder);
	assert_ok(
	    store_sweep(f->store, PREFIX, CUTOFF, &v, 1, &busy, &f->e), &f->e);
	foreign_end(&holder);
	assert_true(busy);
	assert_int_equal(v.outcome, STORE_VICTIM_KEPT);
	assert_true(storefix_has(f, &d, ""));
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_REMOVED);
}

/* What is looked at during a sweep, from inside its calls. */
struct inside {
	bool stop_key_blocked;
	bool locked;
	unsigned stats;
	unsigned fresh_stats;
	struct storefix *f;
};

static void look_inside(void *ctx, struct fault_event *ev)
{
	struct inside *in = ctx;
	sigset_t set;

	if (ev->call == FAULT_STATX && strlen(ev->name) >= 64) {
		in->stats++;
		if ((ev->flags & AT_STATX_FORCE_SYNC) != 0 &&
		    (ev->flags & AT_SYMLINK_NOFOLLOW) != 0)
			in->fresh_stats++;
	}
	if (ev->call != FAULT_UNLINKAT)
		return;
	(void)pthread_sigmask(SIG_BLOCK, NULL, &set);
	in->stop_key_blocked = sigismember(&set, SIGTSTP) == 1;
	in->locked =
	    !foreign_can_byte(in->f->dir.fd, ".lock", LOCK_BYTE, F_RDLCK);
}

static void test_sweep_from_inside(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_victim v = victim(&d, ".0.bad", STORE_BAD);
	struct inside in = { .f = f };
	sigset_t set;

	v.if_good_exists = true;
	put_aged(f, &d, "", LONG_AGO, LONG_AGO);
	put_aged(f, &d, ".0.bad", LONG_AGO, LONG_AGO);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = look_inside, .ctx = &in });
	sweep(f, CUTOFF, &v, 1);
	assert_int_equal(v.outcome, STORE_VICTIM_REMOVED);
	assert_true(in.stop_key_blocked);
	assert_true(in.locked);
	assert_int_equal(in.stats, 2);
	assert_int_equal(in.fresh_stats, 2);
	(void)pthread_sigmask(SIG_BLOCK, NULL, &set);
	assert_int_equal(sigismember(&set, SIGTSTP), 0);
}

static void test_sweep_that_fails(void **state)
{
	struct fault_rule rule = { .calls = FAULT_BIT(FAULT_UNLINKAT),
		.what = FAULT_FAIL,
		.at = 2,
		.times = 1 };
	struct storefix *f = *state;
	struct store_victim v[3];
	bool busy = false;

	for (uint8_t i = 0; i < 3; i++) {
		struct digest d = storefix_digest(PREFIX, i);

		put_aged(f, &d, "", LONG_AGO, LONG_AGO);
		v[i] = victim(&d, "", STORE_CHUNK);
	}
	fault_install();
	rule.error = EACCES;
	fault_add(&rule);
	assert_err(store_sweep(f->store, PREFIX, CUTOFF, v, 3, &busy, &f->e),
	    &f->e, ERR_SYS, "remove '/store/.chunks/0a1b/0a1b0101");
	assert_int_equal(v[0].outcome, STORE_VICTIM_REMOVED);
	assert_int_equal(v[1].outcome, STORE_VICTIM_KEPT);
	assert_int_equal(v[2].outcome, STORE_VICTIM_KEPT);
	/* Removed by another at the last moment. */
	fault_reset();
	rule.error = ENOENT;
	fault_add(&rule);
	sweep(f, CUTOFF, v, 3);
	assert_int_equal(v[0].outcome, STORE_VICTIM_GONE);
	assert_int_equal(v[1].outcome, STORE_VICTIM_REMOVED);
	assert_int_equal(v[2].outcome, STORE_VICTIM_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_list_prefixes),
		storefix_test(test_scan),
		storefix_test(test_scan_of_what_vanishes),
		storefix_test(test_scan_that_fails),
		storefix_test(test_sweep_by_atime),
		storefix_test(test_sweep_by_ctime),
		storefix_test(test_sweep_of_temporary_files),
		storefix_test(test_sweep_of_bad_copies),
		storefix_test(test_sweep_removes_files_only),
		storefix_test(test_sweep_of_wrong_names),
		storefix_test(test_sweep_of_many),
		storefix_test(test_sweep_is_busy),
		storefix_test(test_sweep_from_inside),
		storefix_test(test_sweep_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
