/* SPDX-License-Identifier: MIT */
#include "datastore/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "datastore/locks.h"
#include "datastore/tree.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

#define REMOVED ".cairn/removed"
#define PROTECTED T0_DIR "/.protected"

static struct backup_snapshot pushed(struct dsfix *f, int64_t time)
{
	struct pushfix p = sessionfix_ten;
	struct backup_snapshot id;

	p.time = time;
	sessionfix_run(f, &p, &id);
	return id;
}

static int forget(struct dsfix *f, const struct backup_snapshot *s)
{
	return snapshot_forget(f->ds, s, &f->task, &f->e);
}

static void assert_removed(struct dsfix *f, const char *want)
{
	char *text = tmpdir_get(f->dir.fd, "store/" REMOVED, NULL);

	assert_string_equal(text == NULL ? "" : text, want);
	free(text);
}

static void test_hold(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct backup_snapshot none = s;
	struct snapshot_hold a = SNAPSHOT_HOLD_INIT;
	struct snapshot_hold b = SNAPSHOT_HOLD_INIT;

	assert_ok(snapshot_hold(f->ds, &s, LOCK_SHARED, &a, &f->e), &f->e);
	assert_ok(snapshot_hold(f->ds, &s, LOCK_SHARED, &b, &f->e), &f->e);
	snapshot_release(&b);
	assert_int_equal(b.fd, -1);
	assert_err(snapshot_hold(f->ds, &s, LOCK_EXCLUSIVE, &b, &f->e), &f->e,
	    ERR_BUSY, "'" T0_DIR "' is in use");
	snapshot_release(&a);
	assert_ok(snapshot_hold(f->ds, &s, LOCK_EXCLUSIVE, &b, &f->e), &f->e);
	assert_err(snapshot_hold(f->ds, &s, LOCK_SHARED, &a, &f->e), &f->e,
	    ERR_BUSY, "is being written or removed");
	snapshot_release(&b);
	none.time++;
	assert_err(snapshot_hold(f->ds, &none, LOCK_SHARED, &a, &f->e), &f->e,
	    ERR_NOTFOUND, "'host/a/2027-01-15T08:00:01Z' does not exist");
	memcpy(none.group.id, "z", 2);
	assert_err(snapshot_hold(f->ds, &none, LOCK_SHARED, &a, &f->e), &f->e,
	    ERR_NOTFOUND, "'host/z/2027-01-15T08:00:01Z' does not exist");
	snapshot_release(&a);
}

/* Removed between the opening and the lock: a lock on nothing is none. */
static void remove_it(void *ctx, struct fault_event *ev)
{
	struct dsfix *f = ctx;

	if (ev->call == FAULT_FLOCK)
		dsfix_move(f, "store/" T0_DIR, "gone");
}

static void test_hold_recheck(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = remove_it, .ctx = f });
	assert_err(snapshot_hold(f->ds, &s, LOCK_SHARED, &hold, &f->e), &f->e,
	    ERR_NOTFOUND, "does not exist");
	assert_int_equal(hold.fd, -1);
}

static void read_only(void *ctx, struct fault_event *ev)
{
	struct statvfs *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_FSTATVFS)
		st->f_flag |= ST_RDONLY;
}

/* A store that can not be written is read without locks; another is not. */
static void test_hold_read_only(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	const struct fault_rule no_locks = { .calls = FAULT_BIT(FAULT_FLOCK),
		.what = FAULT_FAIL,
		.at = 1,
		.times = FAULT_FOREVER,
		.error = EROFS };

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	fault_install();
	fault_add(&no_locks);
	assert_err(snapshot_hold(f->ds, &s, LOCK_SHARED, &hold, &f->e), &f->e,
	    ERR_SYS, "lock");
	fault_set_hooks(&(struct fault_hooks){ .after = read_only });
	assert_ok(snapshot_hold(f->ds, &s, LOCK_SHARED, &hold, &f->e), &f->e);
	assert_true(hold.fd >= 0);
	snapshot_release(&hold);
	assert_err(snapshot_hold(f->ds, &s, LOCK_EXCLUSIVE, &hold, &f->e),
	    &f->e, ERR_SYS, "lock");
}

static void test_forget(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot a = pushed(f, T0);
	struct backup_snapshot b = pushed(f, T0 + 1);

	assert_ok(forget(f, &a), &f->e);
	assert_false(dsfix_has(f, T0_DIR));
	assert_removed(f, T0_DIR "\n");
	sessionfix_census(f, 1, 0, 1, 0);
	assert_err(forget(f, &a), &f->e, ERR_NOTFOUND, "does not exist");
	assert_ok(forget(f, &b), &f->e);
	assert_removed(f, T0_DIR "\nhost/a/2027-01-15T08:00:01Z\n");
	/* The last of a group takes it along. */
	assert_false(dsfix_has(f, "host/a"));
	assert_true(dsfix_has(f, "host"));
	assert_true(foreign_can(f->ds->root_fd, ".lock",
	    &(struct foreign_lock){
		.type = F_WRLCK, .start = 0, .len = 1 << 20 }));
}

/* Unfinished ones, and what was left in a killed session's, go, too. */
static void test_forget_unfinished(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	dsfix_unlink(f, T0_DIR "/index.json.blob");
	dsfix_put(f, T0_DIR "/x.tmp_didx", "x");
	dsfix_put(f, T0_DIR "/.hidden", "x");
	assert_ok(forget(f, &s), &f->e);
	assert_false(dsfix_has(f, "host/a"));
}

/* Notes of a group go with it; anything else keeps it. */
static void test_group_stays(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	dsfix_put(f, "host/a/notes", "x");
	dsfix_put(f, "host/a/other", "x");
	assert_ok(forget(f, &s), &f->e);
	assert_true(dsfix_has(f, "host/a/owner"));
	assert_true(dsfix_has(f, "host/a/notes"));
	dsfix_unlink(f, "host/a/other");
	s = pushed(f, T0);
	assert_ok(forget(f, &s), &f->e);
	assert_false(dsfix_has(f, "host/a"));
}

/* The group is a session's: the snapshot goes, the group stays. */
static void test_group_in_use(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot a = pushed(f, T0);
	struct pushfix p = sessionfix_ten;
	struct session *s = NULL;

	p.time = T0 + 1;
	s = sessionfix_open(f, &p);
	assert_ok(forget(f, &a), &f->e);
	assert_err(forget(f, session_id(s)), &f->e, ERR_BUSY, "is in use");
	assert_true(dsfix_has(f, "host/a/owner"));
	assert_ok(pushfix_fill(s, &p, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* A group without a snapshot in it that is locked is left alone. */
static void test_empty_group_locked(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	bool removed = true;
	int fd = -1;

	assert_ok(snapshot_lock_group(f->ds, &s.group, &fd, &f->e), &f->e);
	assert_ok(forget(f, &s), &f->e);
	assert_true(dsfix_has(f, "host/a/owner"));
	assert_ok(
	    snapshot_try_remove_group(f->ds, &s.group, &removed, &f->e), &f->e);
	assert_false(removed);
	(void)close(fd);
	assert_ok(
	    snapshot_try_remove_group(f->ds, &s.group, &removed, &f->e), &f->e);
	assert_true(removed);
	assert_ok(
	    snapshot_try_remove_group(f->ds, &s.group, &removed, &f->e), &f->e);
	assert_false(removed);
}

static void test_protected(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct stat st;
	char path[PATH_MAX];

	assert_ok(snapshot_set_protected(f->ds, &s, true, &f->e), &f->e);
	assert_int_equal(
	    fstatat(f->dir.fd, dsfix_name(PROTECTED, path), &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_size, 0);
	assert_ok(snapshot_set_protected(f->ds, &s, true, &f->e), &f->e);
	assert_err(forget(f, &s), &f->e, ERR_REFUSED,
	    "snapshot '" T0_DIR "' is protected");
	assert_removed(f, "");
	sessionfix_census(f, 1, 0, 1, 0);
	assert_ok(snapshot_set_protected(f->ds, &s, false, &f->e), &f->e);
	assert_ok(snapshot_set_protected(f->ds, &s, false, &f->e), &f->e);
	assert_ok(forget(f, &s), &f->e);
}

/* It is looked at when nobody can change it any more. */
static void protect_late(void *ctx, struct fault_event *ev)
{
	if (ev->call == FAULT_FLOCK)
		dsfix_put(ctx, PROTECTED, "");
}

static void test_protected_late(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = protect_late, .ctx = f });
	assert_err(forget(f, &s), &f->e, ERR_REFUSED, "is protected");
	fault_uninstall();
	sessionfix_census(f, 1, 0, 1, 0);
}

/*
 * The order: prune lock, snapshot's lock, tree lock, record, manifest, rest,
 * directory; P p T t the locks, L a flock, w the record, m the manifest, u
 * other files, r a directory.
 */
struct trace {
	char steps[64];
	size_t n;
};

static char step_of(const struct fault_event *ev)
{
	const struct flock *l = ev->p;

	if (ev->call == FAULT_OFD_LOCK && l->l_start == LOCK_BYTE_PRUNE)
		return l->l_type == F_UNLCK ? 'p' : 'P';
	if (ev->call == FAULT_OFD_LOCK && l->l_start == LOCK_BYTE_TREE)
		return l->l_type == F_UNLCK ? 't' : 'T';
	if (ev->call == FAULT_FLOCK)
		return 'L';
	if (ev->call == FAULT_WRITE)
		return 'w';
	if (ev->call != FAULT_UNLINKAT)
		return 0;
	if (ev->flags != 0)
		return 'r';
	return strcmp(ev->name, "index.json.blob") == 0 ? 'm' : 'u';
}

static void see_step(void *ctx, struct fault_event *ev)
{
	struct trace *t = ctx;
	char c = step_of(ev);

	if (c != 0 && t->n + 1 < sizeof(t->steps))
		t->steps[t->n++] = c;
}

static void test_order(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct trace t = { .n = 0 };

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = see_step, .ctx = &t });
	assert_ok(forget(f, &s), &f->e);
	/* Snapshot; record; manifest (once more as one of all); group. */
	assert_string_equal(t.steps, "PLTLwmuumrLuurtp");
}

/* Whatever interrupts a removal, what is left is no snapshot with holes. */
static void test_interrupted(void **state)
{
	struct dsfix *f = *state;

	for (uint64_t n = 1;; n++) {
		struct backup_snapshot s = pushed(f, T0);
		int rc = 0;

		fault_install();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_UNLINKAT),
			.what = FAULT_FAIL,
			.at = n,
			.times = 1,
			.error = EIO });
		rc = forget(f, &s);
		if (fault_hits() == 0)
			break;
		fault_uninstall();
		if (dsfix_has(f, T0_DIR))
			assert_true(rc < 0);
		if (rc < 0 && n > 1)
			sessionfix_census(f, 0, 1, 1, 0);
		if (rc < 0)
			assert_ok(forget(f, &s), &f->e);
	}
	fault_uninstall();
	sessionfix_census(f, 0, 0, 0, 0);
}

/* What a watch is told of a removal. */
struct watched {
	struct dsfix *f;
	unsigned removing;
	unsigned kept;
};

static void on_removing(void *ctx, const struct backup_snapshot *s)
{
	struct watched *w = ctx;

	(void)s;
	w->removing++;
	/* Nothing is gone, and all of its locks are held. */
	assert_true(dsfix_has(w->f, T0_DIR "/index.json.blob"));
	assert_false(sessionfix_can_flock(w->f, T0_DIR, LOCK_SH));
	assert_false(foreign_can_byte(
	    w->f->ds->root_fd, ".lock", LOCK_BYTE_TREE, F_WRLCK));
	assert_false(foreign_can_byte(
	    w->f->ds->root_fd, ".lock", LOCK_BYTE_PRUNE, F_WRLCK));
}

static void on_kept(void *ctx, const struct backup_snapshot *s)
{
	struct watched *w = ctx;

	(void)s;
	w->kept++;
	assert_false(sessionfix_can_flock(w->f, T0_DIR, LOCK_SH));
}

static int forget_watched(struct dsfix *f, const struct backup_snapshot *s,
    struct watched *w, uint64_t failing_unlink)
{
	const struct snapshot_watch watch = {
		.removing = on_removing, .kept = on_kept, .ctx = w
	};
	int rc = 0;

	*w = (struct watched){ .f = f };
	fault_install();
	if (failing_unlink != 0)
		fault_once(FAULT_BIT(FAULT_UNLINKAT), failing_unlink, EIO);
	rc = snapshot_forget_watched(f->ds, s, &watch, &f->task, &f->e);
	fault_uninstall();
	return rc;
}

/* Told behind all that speaks against it; kept is only what is whole. */
static void test_watched(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct watched w;

	assert_ok(snapshot_hold(f->ds, &s, LOCK_SHARED, &hold, &f->e), &f->e);
	assert_err(forget_watched(f, &s, &w, 0), &f->e, ERR_BUSY, "in use");
	assert_int_equal(w.removing + w.kept, 0);
	snapshot_release(&hold);
	assert_ok(snapshot_set_protected(f->ds, &s, true, &f->e), &f->e);
	assert_err(
	    forget_watched(f, &s, &w, 0), &f->e, ERR_REFUSED, "is protected");
	assert_int_equal(w.removing + w.kept, 0);
	assert_ok(snapshot_set_protected(f->ds, &s, false, &f->e), &f->e);
	/* The manifest is the first to go. */
	assert_err(forget_watched(f, &s, &w, 1), &f->e, ERR_SYS, "remove");
	assert_int_equal(w.removing, 1);
	assert_int_equal(w.kept, 1);
	assert_err(forget_watched(f, &s, &w, 2), &f->e, ERR_SYS, "remove");
	assert_int_equal(w.removing, 1);
	assert_int_equal(w.kept, 0);
	assert_false(dsfix_has(f, T0_DIR "/index.json.blob"));
	assert_true(dsfix_has(f, T0_DIR));
}

/* A directory where files should be: nothing of it is touched. */
static void test_directory_inside(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	dsfix_mkdir(f, T0_DIR "/sub");
	assert_err(forget(f, &s), &f->e, ERR_REFUSED, "contains a directory");
	sessionfix_census(f, 1, 0, 1, 0);
}

/* PBS adds a log meanwhile. */
static void add_file(void *ctx, struct fault_event *ev)
{
	if (ev->call == FAULT_UNLINKAT && ev->flags == 0 &&
	    strcmp(ev->name, PUSHFIX_NAME) == 0)
		dsfix_put(ctx, T0_DIR "/client.log.blob", "x");
}

static void test_added_meanwhile(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = add_file, .ctx = f });
	assert_ok(forget(f, &s), &f->e);
	fault_uninstall();
	assert_false(dsfix_has(f, "host/a"));
}

/* A full disk is when snapshots are removed; other failures do count. */
static void test_record_fails(void **state)
{
	static const struct {
		int error;
		int want;
	} cases[] = { { ENOSPC, 0 }, { EDQUOT, 0 }, { EIO, ERR_SYS } };
	struct dsfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct backup_snapshot s = pushed(f, T0);

		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
		    .what = FAULT_FAIL,
		    .at = 1,
		    .times = 1,
		    .error = cases[i].error });
		assert_int_equal(forget(f, &s), cases[i].want);
		fault_uninstall();
		assert_int_equal(dsfix_has(f, T0_DIR), cases[i].want < 0);
	}
	sessionfix_census(f, 1, 0, 1, 0);
}

/* A store without .cairn: nothing to record in, and none is made. */
static void test_foreign_store(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	dsfix_move(f, "store/.cairn", "cairn");
	assert_ok(forget(f, &s), &f->e);
	assert_false(dsfix_has(f, ".cairn"));
}

static char *notes_of(struct dsfix *f, const struct backup_snapshot *s)
{
	struct manifest m = MANIFEST_INIT;
	char *notes = NULL;
	int fd = -1;

	assert_ok(tree_open_snapshot(f->ds, s, &fd, &f->e), &f->e);
	assert_ok(tree_read_manifest(f->ds, s, fd, &m, &f->e), &f->e);
	assert_int_equal(m.files_n, 2);
	notes = m.notes == NULL ? NULL : strdup(m.notes);
	manifest_release(&m);
	(void)close(fd);
	return notes;
}

static void assert_notes(
    struct dsfix *f, const struct backup_snapshot *s, const char *want)
{
	char *notes = notes_of(f, s);

	if (want == NULL) {
		assert_null(notes);
	} else {
		assert_string_equal(notes, want);
	}
	free(notes);
}

static void test_notes(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	assert_notes(f, &s, NULL);
	assert_ok(snapshot_set_notes(f->ds, &s, "one\ntwo", &f->e), &f->e);
	assert_notes(f, &s, "one\ntwo");
	assert_ok(snapshot_set_notes(f->ds, &s, NULL, &f->e), &f->e);
	assert_notes(f, &s, NULL);
	sessionfix_census(f, 1, 0, 1, 0);
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	assert_err(snapshot_set_notes(f->ds, &s, "x", &f->e), &f->e,
	    ERR_NOTFOUND, "the snapshot is unfinished");
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_err(snapshot_set_notes(f->ds, &s, "x", &f->e), &f->e,
	    ERR_REFUSED, "open for reading");
	assert_err(snapshot_set_protected(f->ds, &s, true, &f->e), &f->e,
	    ERR_REFUSED, "open for reading");
}

/* The manifest is locked by another: 5 s, then 75. */
static void test_manifest_busy(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);
	char path[PATH_MAX];
	int fd = openat(f->dir.fd, dsfix_name(T0_DIR "/index.json.blob", path),
	    O_RDONLY | O_CLOEXEC);
	int64_t start = clock_boot_ns();

	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_err(snapshot_set_notes(f->ds, &s, "x", &f->e), &f->e, ERR_BUSY,
	    "index.json.blob");
	assert_in_range(
	    clock_boot_ns() - start, 4 * CLOCK_NS_PER_S, 20 * CLOCK_NS_PER_S);
	(void)close(fd);
	assert_notes(f, &s, NULL);
}

struct other {
	struct dsfix *f;
	struct backup_snapshot s;
	bool done;
};

/* Another changes it between our opening and our lock. */
static void change_first(void *ctx, struct fault_event *ev)
{
	struct other *o = ctx;
	struct err e = ERR_INIT;

	if (ev->call != FAULT_FLOCK || ev->flags == (LOCK_SH | LOCK_NB) ||
	    o->done)
		return;
	o->done = true;
	assert_ok(snapshot_set_notes(o->f->ds, &o->s, "theirs", &e), &e);
}

static int add_word(void *ctx, struct manifest *m, struct err *e)
{
	char text[64];

	(void)ctx;
	(void)snprintf(text, sizeof(text), "%s and ours",
	    m->notes == NULL ? "" : m->notes);
	return manifest_set_notes(m, text, e);
}

static void test_manifest_replaced(void **state)
{
	struct dsfix *f = *state;
	struct other o = { .f = f, .s = pushed(f, T0) };
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;

	assert_ok(snapshot_hold(f->ds, &o.s, LOCK_SHARED, &hold, &f->e), &f->e);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = change_first, .ctx = &o });
	assert_ok(snapshot_update_manifest(
		      f->ds, &o.s, hold.fd, add_word, NULL, &f->e),
	    &f->e);
	fault_uninstall();
	assert_true(o.done);
	assert_notes(f, &o.s, "theirs and ours");
	snapshot_release(&hold);
}

/* The directory that has the name by now is another's. */
static void replace_dir(void *ctx, struct fault_event *ev)
{
	struct dsfix *f = ctx;

	if (ev->call != FAULT_UNLINKAT ||
	    strcmp(ev->name, "index.json.blob") != 0)
		return;
	dsfix_move(f, "store/" T0_DIR, "moved");
	dsfix_mkdir(f, T0_DIR);
}

static void test_replaced_late(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = pushed(f, T0);

	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = replace_dir, .ctx = f });
	assert_ok(forget(f, &s), &f->e);
	fault_uninstall();
	assert_true(dsfix_has(f, T0_DIR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_hold),
		SESSION_TEST(test_hold_recheck),
		SESSION_TEST(test_hold_read_only),
		SESSION_TEST(test_forget),
		SESSION_TEST(test_forget_unfinished),
		SESSION_TEST(test_group_stays),
		SESSION_TEST(test_group_in_use),
		SESSION_TEST(test_empty_group_locked),
		SESSION_TEST(test_protected),
		SESSION_TEST(test_protected_late),
		SESSION_TEST(test_replaced_late),
		SESSION_TEST(test_order),
		SESSION_TEST(test_interrupted),
		SESSION_TEST(test_watched),
		SESSION_TEST(test_directory_inside),
		SESSION_TEST(test_added_meanwhile),
		SESSION_TEST(test_record_fails),
		SESSION_TEST(test_foreign_store),
		SESSION_TEST(test_notes),
		SESSION_TEST(test_manifest_busy),
		SESSION_TEST(test_manifest_replaced),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
