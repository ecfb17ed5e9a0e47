/* SPDX-License-Identifier: MIT */
/*
 * tree_push on trees that change, vanish, or can not be read while they are
 * pushed.  Nothing here waits for luck: what happens, happens at a chosen call.
 */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/sysmacros.h>

#include "tests/support/dirfix.h"

#define MIB ((size_t)1 << 20)

/*
 * What happens around the calls on one entry: `act` before each call of the
 * kind `call` on it, at most `times`.
 */
struct happening {
	struct dirfix *t;
	const char *name;
	enum fault_call call;
	int times;
	void (*act)(struct happening *h, struct fault_event *ev);
	int error; /* for act_fail */
	bool after;
	atomic_int fd; /* of the entry, while it is open for reading */
	atomic_int count;
};

static bool is_it(struct happening *h, const struct fault_event *ev)
{
	if (ev->call != h->call)
		return false;
	if (ev->name != NULL && ev->name[0] != '\0')
		return strcmp(ev->name, h->name) == 0;
	return ev->fd == atomic_load(&h->fd);
}

static void happen(struct happening *h, struct fault_event *ev)
{
	if (is_it(h, ev) && atomic_fetch_add(&h->count, 1) < h->times)
		h->act(h, ev);
}

static void before(void *ctx, struct fault_event *ev)
{
	struct happening *h = ctx;

	if (!h->after)
		happen(h, ev);
	if (ev->call == FAULT_CLOSE && ev->fd == atomic_load(&h->fd))
		atomic_store(&h->fd, -1);
}

static void after(void *ctx, struct fault_event *ev)
{
	struct happening *h = ctx;

	if (ev->call == FAULT_OPENAT && ev->name != NULL &&
	    strcmp(ev->name, h->name) == 0 && (ev->flags & O_PATH) == 0 &&
	    ev->result >= 0)
		atomic_store(&h->fd, (int)ev->result);
	if (h->after)
		happen(h, ev);
}

static void expect_it(struct happening *h)
{
	atomic_store(&h->fd, -1);
	atomic_store(&h->count, 0);
	h->t->opts.ingest.threads = 1;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){
	    .before = before, .after = after, .ctx = h });
}

static void act_fail(struct happening *h, struct fault_event *ev)
{
	ev->skip = true;
	ev->result = -1;
	ev->result_p = NULL;
	ev->error = h->error;
}

/* Among the messages, once. */
static bool said(struct dirfix *t, const char *text)
{
	const char *all = buf_cstr(&t->f->messages, &t->f->e);
	const char *at = strstr(all, text);

	return at != NULL && strstr(at + 1, text) == NULL;
}

static void assert_counts(
    struct dirfix *t, uint64_t unreadable, uint64_t changed, uint64_t vanished)
{
	assert_int_equal(t->result.unreadable, unreadable);
	assert_int_equal(t->result.changed, changed);
	assert_int_equal(t->result.vanished, vanished);
}

/* ---- what can not be read ---- */

static void file_not_opened(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "bad",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = act_fail,
		.error = EACCES };
	struct catalog_entry row;

	dirfix_put(t, "bad", "content");
	dirfix_put(t, "good", "content");
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 1, 0, 0);
	assert_true(said(t,
	    "W 'src/bad' can not be read; its content is missing: open it: "
	    "Permission denied\n"));
	row = dirfix_row(t, "bad");
	assert_int_equal(row.state, CATALOG_STATE_UNREADABLE);
	assert_int_equal(row.has & (CATALOG_HAS_POS | CATALOG_HAS_SHA256), 0);
	assert_int_equal(row.size, 7);
	assert_true((row.has & CATALOG_HAS_MODE) != 0);
	dirfix_assert_file(t, "good");
}

static void read_fails(struct dirfix *t, size_t size)
{
	struct happening h = { .t = t,
		.name = "bad",
		.call = FAULT_PREAD,
		.times = 1000,
		.act = act_fail,
		.error = EIO };
	struct catalog_entry row;

	dirfix_random(t, "bad", size, 1);
	dirfix_random(t, "good", size, 2);
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 1, 0, 0);
	assert_true(said(t,
	    "W 'src/bad' can not be read; its content is missing: read it: "
	    "Input/output error\n"));
	row = dirfix_row(t, "bad");
	assert_int_equal(row.state, CATALOG_STATE_UNREADABLE);
	assert_int_equal(row.has & CATALOG_HAS_POS, 0);
	dirfix_assert_file(t, "good");
}

static void small_file_not_read(void **state)
{
	read_fails(*state, 5000);
}

static void large_file_not_read(void **state)
{
	read_fails(*state, 3 * MIB);
}

static void entry_hidden(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "bad",
		.call = FAULT_OPENAT,
		.times = 2,
		.act = act_fail,
		.error = ESTALE };

	dirfix_put(t, "bad", "content");
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 1, 0, 0);
	assert_true(said(t, "W 'src/bad' is left out: open it: "));
	assert_false(dirfix_has(t, "bad"));
}

static void directory_not_opened(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "bad",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = act_fail,
		.error = EACCES };
	struct catalog_entry row;

	dirfix_dir(t, "bad");
	dirfix_put(t, "bad/x", "1");
	dirfix_put(t, "z", "2");
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 1, 0, 0);
	assert_true(said(t,
	    "W 'src/bad' can not be read; what is in it is missing: open the "
	    "directory: Permission denied\n"));
	row = dirfix_row(t, "bad");
	assert_int_equal(row.kind, CATALOG_DIR);
	assert_int_equal(row.state, CATALOG_STATE_UNREADABLE);
	assert_false(dirfix_has(t, "bad/x"));
	assert_true(dirfix_has(t, "z"));
}

/*
 * Reading names fails: at the n-th call of all.  The names are read from "."
 * of a directory, the root's first.
 */
static void fail_readdir(struct dirfix *t, uint64_t at)
{
	dirfix_dir(t, "bad");
	dirfix_put(t, "bad/x", "1");
	dirfix_put(t, "bad/y", "1");
	dirfix_put(t, "z", "2");
	t->opts.ingest.threads = 1;
	t->rule = (struct fault_rule){ .calls = FAULT_BIT(FAULT_READDIR),
		.what = FAULT_FAIL,
		.at = at,
		.times = 1,
		.error = EIO };
}

static void root_not_listed(void **state)
{
	struct dirfix *t = *state;

	fail_readdir(t, 2);
	assert_err(dirfix_try(t), &t->f->e, ERR_SYS,
	    "'src': list the directory: Input/output error");
	fault_uninstall();
	session_abort(t->f->session);
	t->f->session = NULL;
}

/* In the middle: none of its names is taken. */
static void directory_not_listed(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry row;

	/* The root's: ".", "..", two names, the end. */
	fail_readdir(t, 5 + 4);
	dirfix_push(t);
	assert_counts(t, 1, 0, 0);
	assert_true(said(t,
	    "W 'src/bad' can not be read; what is in it is missing: list the "
	    "directory: Input/output error\n"));
	row = dirfix_row(t, "bad");
	assert_int_equal(row.state, CATALOG_STATE_UNREADABLE);
	assert_false(dirfix_has(t, "bad/x"));
	assert_false(dirfix_has(t, "bad/y"));
	assert_true(dirfix_has(t, "z"));
}

/* ---- what changes ---- */

static void touch_it(struct happening *h, struct fault_event *ev)
{
	int fd = openat(h->t->src, h->name, O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)ev;
	if (fd < 0 || write(fd, "+", 1) != 1)
		abort();
	(void)close(fd);
}

/* Once: the second try finds it steady. */
static void change_once(struct dirfix *t, size_t size)
{
	struct happening h = { .t = t,
		.name = "hot",
		.call = FAULT_PREAD,
		.times = 1,
		.after = true,
		.act = touch_it };

	dirfix_random(t, "hot", size, 1);
	dirfix_random(t, "next", size, 2);
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 0, 0);
	assert_int_equal(dirfix_row(t, "hot").size, size + 1);
	assert_int_equal(dirfix_row(t, "hot").has & CATALOG_HAS_STATE, 0);
	dirfix_assert_file(t, "hot");
	dirfix_assert_file(t, "next");
}

static void small_file_changes_once(void **state)
{
	change_once(*state, 1000);
}

static void large_file_changes_once(void **state)
{
	change_once(*state, 2 * MIB);
}

/* Again and again: what was read last is stored. */
static void change_always(struct dirfix *t, size_t size)
{
	struct happening h = { .t = t,
		.name = "hot",
		.call = FAULT_PREAD,
		.times = 1000,
		.after = true,
		.act = touch_it };
	struct catalog_entry row;

	dirfix_random(t, "hot", size, 1);
	dirfix_random(t, "next", size, 2);
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 1, 0);
	assert_true(said(t,
	    "W 'src/hot' changed while it was read; what was read is stored\n"));
	row = dirfix_row(t, "hot");
	assert_int_equal(row.state, CATALOG_STATE_CHANGED);
	assert_in_range(row.size, size + 2, size + 100);
	dirfix_read(t, "hot");
	assert_int_equal(t->x->buf.len, row.size);
	dirfix_assert_file(t, "next");
}

static void small_file_changes_always(void **state)
{
	change_always(*state, 1000);
}

static void large_file_changes_always(void **state)
{
	change_always(*state, 2 * MIB);
}

static void cut_it(struct happening *h, struct fault_event *ev)
{
	int fd = openat(h->t->src, h->name, O_WRONLY | O_CLOEXEC);
	struct stat st;

	(void)ev;
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    ftruncate(fd, st.st_size > 600 ? st.st_size - 300 : 0) < 0)
		abort();
	(void)close(fd);
}

/* Never more bytes than there are, and the row says how many. */
static void shrink(struct dirfix *t, size_t size)
{
	struct happening h = { .t = t,
		.name = "hot",
		.call = FAULT_PREAD,
		.times = 1000,
		.act = cut_it };
	struct catalog_entry row;

	dirfix_random(t, "hot", size, 1);
	dirfix_random(t, "next", size, 2);
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 1, 0);
	row = dirfix_row(t, "hot");
	assert_int_equal(
	    row.state, CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT);
	assert_in_range(row.size, 0, size - 300);
	dirfix_read(t, "hot");
	assert_int_equal(t->x->buf.len, row.size);
	dirfix_assert_file(t, "next");
}

static void small_file_shrinks(void **state)
{
	shrink(*state, 10000);
}

static void large_file_shrinks(void **state)
{
	shrink(*state, 2 * MIB);
}

/* A file that always has fewer bytes than it says, as some of /sys do. */
static void end_early(struct happening *h, struct fault_event *ev)
{
	(void)h;
	if (ev->at + (int64_t)ev->n > 100)
		ev->n = ev->at < 100 ? (size_t)(100 - ev->at) : 0;
	if (ev->n == 0) {
		ev->skip = true;
		ev->result = 0;
	}
}

static void short_file(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "odd",
		.call = FAULT_PREAD,
		.times = 1000,
		.act = end_early };
	struct catalog_entry row;

	dirfix_random(t, "odd", 4096, 1);
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 1, 0);
	assert_true(
	    said(t, "W 'src/odd' has 100 bytes, want 4096; they are stored\n"));
	row = dirfix_row(t, "odd");
	assert_int_equal(row.state, CATALOG_STATE_SHORT);
	assert_int_equal(row.size, 100);
	dirfix_read(t, "odd");
	assert_int_equal(t->x->buf.len, 100);
}

/* ---- what is not there any more, or something else ---- */

static void unlink_it(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (unlinkat(h->t->src, h->name, 0) < 0 &&
	    unlinkat(h->t->src, h->name, AT_REMOVEDIR) < 0)
		abort();
}

static void vanish(struct dirfix *t, bool dir)
{
	struct happening h = { .t = t,
		.name = "gone",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = unlink_it };

	if (dir)
		dirfix_dir(t, "gone");
	else
		dirfix_put(t, "gone", "x");
	dirfix_put(t, "here", "y");
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 0, 1);
	assert_false(dirfix_has(t, "gone"));
	dirfix_assert_file(t, "here");
	assert_int_equal(restorefix_said(t->f, "W "), 0);
}

static void file_vanishes(void **state)
{
	vanish(*state, false);
}

static void directory_vanishes(void **state)
{
	vanish(*state, true);
}

/* A file goes while it is read the second time. */
static void large_file_vanishes(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "gone",
		.call = FAULT_CLOSE,
		.times = 1,
		.act = unlink_it };

	dirfix_random(t, "gone", 2 * MIB, 1);
	dirfix_put(t, "here", "y");
	expect_it(&h);
	dirfix_push(t);
	assert_counts(t, 0, 0, 1);
	assert_false(dirfix_has(t, "gone"));
	dirfix_assert_file(t, "here");
}

static void swap_for_link(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (renameat(h->t->src, h->name, h->t->src, "aside") < 0 ||
	    symlinkat("/etc", h->t->src, h->name) < 0)
		abort();
}

/* A directory that has become a link is not gone into. */
static void directory_becomes_a_link(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "d",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = swap_for_link };
	struct catalog_entry row;

	dirfix_dir(t, "d");
	dirfix_put(t, "d/x", "1");
	expect_it(&h);
	dirfix_push(t);
	row = dirfix_row(t, "d");
	assert_int_equal(row.kind, CATALOG_SYMLINK);
	assert_int_equal(row.target.n, 4);
	assert_false(dirfix_has(t, "aside"));
	assert_int_equal(t->result.written.entries, 2);
}

static void file_becomes_a_link(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "f",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = swap_for_link };

	dirfix_put(t, "f", "1");
	expect_it(&h);
	dirfix_push(t);
	assert_int_equal(dirfix_row(t, "f").kind, CATALOG_SYMLINK);
	assert_counts(t, 0, 0, 0);
}

static void swap_for_fifo(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (unlinkat(h->t->src, h->name, 0) < 0 ||
	    mkfifoat(h->t->src, h->name, 0600) < 0)
		abort();
}

/* Nobody waits for a writer. */
static void file_becomes_a_fifo(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "f",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = swap_for_fifo };

	dirfix_put(t, "f", "1");
	expect_it(&h);
	dirfix_push(t);
	assert_int_equal(dirfix_row(t, "f").kind, CATALOG_FIFO);
}

static void swap_for_directory(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (unlinkat(h->t->src, h->name, 0) < 0 ||
	    mkdirat(h->t->src, h->name, 0700) < 0)
		abort();
}

static void file_becomes_a_directory(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "f",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = swap_for_directory };
	struct catalog_entry row;

	dirfix_put(t, "f", "1");
	expect_it(&h);
	dirfix_push(t);
	row = dirfix_row(t, "f");
	assert_int_equal(row.kind, CATALOG_DIR);
	assert_int_equal(row.state, CATALOG_STATE_UNREADABLE);
	assert_counts(t, 1, 0, 0);
}

/* File systems that do not say what an entry is. */
static void forget_type(struct happening *h, struct fault_event *ev)
{
	(void)h;
	if (ev->result_p != NULL)
		((struct dirent *)ev->result_p)->d_type = DT_UNKNOWN;
}

static void types_unknown(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = ".",
		.call = FAULT_READDIR,
		.times = 1000,
		.after = true,
		.act = forget_type };
	struct exclude *x = NULL;

	dirfix_dir(t, "d");
	dirfix_put(t, "d/f", "1");
	dirfix_dir(t, "out");
	dirfix_put(t, "d/out", "2");
	assert_int_equal(symlinkat("d", t->src, "l"), 0);
	assert_int_equal(mkfifoat(t->src, "p", 0600), 0);
	assert_ok(exclude_new(&x, &t->f->e), &t->f->e);
	assert_ok(exclude_add(x, "out/", 4, &t->f->e), &t->f->e);
	t->opts.exclude = x;
	expect_it(&h);
	dirfix_push(t);
	exclude_free(x);
	assert_true(atomic_load(&h.count) > 5);
	dirfix_assert_file(t, "d/f");
	dirfix_assert_file(t, "d/out");
	assert_false(dirfix_has(t, "out"));
	assert_int_equal(dirfix_row(t, "l").kind, CATALOG_SYMLINK);
	assert_int_equal(dirfix_row(t, "p").kind, CATALOG_FIFO);
}

/* A deep directory is moved away while the walk is below it. */
static void move_it(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (renameat(h->t->src, "a/0/1/2", h->t->src, "moved") < 0)
		abort();
}

static void directory_is_moved(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "99",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = move_it };
	char path[400] = "a";
	size_t n = 1;

	dirfix_dir(t, "a");
	for (unsigned i = 0; i < 100; i++) {
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/%u", i);
		dirfix_dir(t, path);
	}
	dirfix_put(t, "a/0/1/z", "1");
	dirfix_put(t, "a/z", "2");
	expect_it(&h);
	dirfix_push(t);
	/* Below: all was there.  Above: found again by its names. */
	assert_true(dirfix_has(t, path));
	assert_true(dirfix_has(t, "a/0/1/z"));
	assert_true(dirfix_has(t, "a/z"));
	assert_counts(t, 0, 0, 0);
}

static void remove_it(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	if (renameat(h->t->src, "a/0/1", h->t->src, "moved") < 0 ||
	    renameat(h->t->src, "a/0", h->t->src, "moved/0") < 0)
		abort();
}

/* ... and the one that comes next is not where it was, either. */
static void directory_is_lost(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "99",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = remove_it };
	char path[400] = "a";
	size_t n = 1;

	dirfix_dir(t, "a");
	for (unsigned i = 0; i < 100; i++) {
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/%u", i);
		dirfix_dir(t, path);
	}
	dirfix_put(t, "a/0/z", "1");
	dirfix_put(t, "a/z", "2");
	dirfix_put(t, "z", "3");
	expect_it(&h);
	dirfix_push(t);
	assert_true(dirfix_has(t, path));
	assert_false(dirfix_has(t, "a/0/z"));
	assert_true(dirfix_has(t, "a/z"));
	assert_true(dirfix_has(t, "z"));
	assert_counts(t, 0, 1, 0);
	assert_true(said(t,
	    "W 'src/a/0' was moved while it was read; not all that is in it "
	    "is stored\n"));
}

static void xattrs_not_read(void **state)
{
	struct dirfix *t = *state;

	dirfix_put(t, "f", "content");
	t->opts.ingest.threads = 1;
	fault_install();
	/* The root's, the file's, and the file's again, for certain. */
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_FLISTXATTR),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	dirfix_push(t);
	assert_counts(t, 2, 0, 0);
	assert_true(said(t,
	    "W 'src/f' is stored, but not all of it: list extended "
	    "attributes: Input/output error\n"));
	assert_true(said(t, "W 'src' is stored, but not all of it: "));
	dirfix_assert_file(t, "f");
}

static void stop_it(struct happening *h, struct fault_event *ev)
{
	(void)ev;
	atomic_store(&h->t->f->task.stop, 2);
}

static void stops(void **state)
{
	struct dirfix *t = *state;
	struct happening h = { .t = t,
		.name = "f50",
		.call = FAULT_OPENAT,
		.times = 1,
		.act = stop_it };

	for (unsigned i = 0; i < 100; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "f%02u", i);
		dirfix_put(t, name, name);
	}
	expect_it(&h);
	assert_err(dirfix_try(t), &t->f->e, ERR_CANCELLED, "stopped by SIGINT");
	fault_uninstall();
	session_abort(t->f->session);
	t->f->session = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIRFIX_TEST(file_not_opened),
		DIRFIX_TEST(small_file_not_read),
		DIRFIX_TEST(large_file_not_read),
		DIRFIX_TEST(entry_hidden),
		DIRFIX_TEST(directory_not_opened),
		DIRFIX_TEST(root_not_listed),
		DIRFIX_TEST(directory_not_listed),
		DIRFIX_TEST(small_file_changes_once),
		DIRFIX_TEST(large_file_changes_once),
		DIRFIX_TEST(small_file_changes_always),
		DIRFIX_TEST(large_file_changes_always),
		DIRFIX_TEST(small_file_shrinks),
		DIRFIX_TEST(large_file_shrinks),
		DIRFIX_TEST(short_file),
		DIRFIX_TEST(file_vanishes),
		DIRFIX_TEST(directory_vanishes),
		DIRFIX_TEST(large_file_vanishes),
		DIRFIX_TEST(directory_becomes_a_link),
		DIRFIX_TEST(file_becomes_a_link),
		DIRFIX_TEST(file_becomes_a_fifo),
		DIRFIX_TEST(file_becomes_a_directory),
		DIRFIX_TEST(types_unknown),
		DIRFIX_TEST(directory_is_moved),
		DIRFIX_TEST(directory_is_lost),
		DIRFIX_TEST(xattrs_not_read),
		DIRFIX_TEST(stops),
	};

	return cmocka_run_group_tests_name(
	    "tree_push_edges", tests, NULL, NULL);
}
