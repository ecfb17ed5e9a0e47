/* SPDX-License-Identifier: MIT */
#include "tests/support/gcfix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/snapshot.h"
#include "index/idxformat.h"
#include "tests/support/fault.h"

#define HEADER 4096U
#define WHOLE_PREFIXES 65536U

static void on_message(void *ctx, enum task_level level, const char *text)
{
	static const char letters[] = "DNW";
	struct gcfix *f = ctx;
	struct err ignored = ERR_INIT;

	(void)buf_append_fmt(
	    &f->messages, &ignored, "%c %s\n", letters[level], text);
}

static void note_progress(struct gcfix *f, const struct task_progress *p)
{
	bool same =
	    f->last.phase != NULL && strcmp(f->last.phase, p->phase) == 0;
	unsigned percent =
	    p->total == 0 ? 0 : (unsigned)(p->done * 100 / p->total);

	if (!same && strcmp(p->phase, "gc: mark") == 0)
		f->marks++;
	if (!same && strcmp(p->phase, "gc: sweep") == 0)
		f->sweeps++;
	if (same && (percent < f->last_percent || p->done < f->last.done))
		f->fell = true;
	f->last_percent = percent;
	f->last = *p;
	f->last.counts = NULL;
	f->last.counts_n = 0;
}

static void on_progress(void *ctx, const struct task_progress *p)
{
	struct gcfix *f = ctx;
	enum gcfix_point point = GCFIX_READING;
	bool unread = p->counts[0].of > p->counts[0].done;

	note_progress(f, p);
	if (strcmp(p->phase, "gc: sweep") == 0) {
		point = GCFIX_SWEEP;
		f->prefix = p->done;
		if (p->done == WHOLE_PREFIXES)
			return;
	} else if (p->done == p->total) {
		point = GCFIX_MARKED;
	} else if (unread && !f->unread) {
		point = GCFIX_LISTED;
		f->listings++;
	}
	f->unread = unread && point != GCFIX_SWEEP;
	if (f->at != NULL)
		f->at(f, point);
}

static const struct task_ops ops = {
	.message = on_message,
	.progress = on_progress,
};

int gcfix_setup(void **state)
{
	struct gcfix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->task = (struct task){ .ops = &ops, .ctx = f };
	f->other = (struct task)TASK_SILENT;
	f->opts = (struct gc_opts){
		.touch_batch = GC_TOUCH_BATCH_MIN,
		.cutoff_s = GCFIX_CUTOFF,
	};
	if (datastore_init(f->path, NULL, &f->other, &f->e) < 0 ||
	    datastore_open(f->path, DATASTORE_GC, NULL, &f->gc, &f->e) < 0 ||
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->ds, &f->e) < 0) {
		print_error("%s\n", f->e.msg);
		return -1;
	}
	return 0;
}

int gcfix_teardown(void **state)
{
	struct gcfix *f = *state;
	size_t before = f->fds;
	size_t after = 0;

	fault_uninstall();
	session_abort(f->session);
	datastore_close(f->gc);
	datastore_close(f->ds);
	buf_release(&f->messages);
	tmpdir_remove(&f->dir);
	free(f->own);
	free(f);
	after = tmpdir_open_fds();
	if (after != before)
		print_error(
		    "%zu descriptors open, %zu before\n", after, before);
	return after == before ? 0 : -1;
}

int gcfix_run(struct gcfix *f)
{
	buf_reset(&f->messages);
	f->e = (struct err)ERR_INIT;
	f->r = (struct gc_result){ .dry_run = false };
	f->last = (struct task_progress){ .phase = NULL };
	f->listings = 0;
	f->unread = false;
	f->fell = false;
	f->marks = 0;
	f->sweeps = 0;
	return gc_run(f->gc, &f->opts, &f->task, &f->r, &f->e);
}

struct backup_snapshot gcfix_push(struct gcfix *f, const struct pushfix *p)
{
	struct backup_snapshot id = { .time = 0 };
	struct err e = ERR_INIT;

	assert_ok(pushfix_run(f->ds, p, &f->other, &id, &e), &e);
	return id;
}

struct backup_snapshot gcfix_push_new(struct gcfix *f, const char *group,
    int64_t time, unsigned first, unsigned n)
{
	struct pushfix p = {
		.group = group,
		.time = time,
		.put = { .first = first, .n = n },
	};

	return gcfix_push(f, &p);
}

void gcfix_forget(struct gcfix *f, const struct backup_snapshot *s)
{
	struct err e = ERR_INIT;

	assert_ok(snapshot_forget(f->ds, s, &f->other, &e), &e);
}

static void set_age(int dirfd, const char *name, int64_t seconds)
{
	struct timespec times[2];

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
	times[0].tv_sec -= seconds;
	times[1] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	assert_int_equal(utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

void gcfix_age(struct gcfix *f, int64_t seconds)
{
	int fd =
	    openat(f->ds->chunks_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	const struct dirent *entry = NULL;

	assert_non_null(d);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
	while ((entry = readdir(d)) != NULL) {
		const struct dirent *chunk = NULL;
		DIR *sub = NULL;

		if (strlen(entry->d_name) != 4)
			continue;
		sub = fdopendir(openat(
		    fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		assert_non_null(sub);
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): as above */
		while ((chunk = readdir(sub)) != NULL) {
			if (chunk->d_name[0] != '.')
				set_age(dirfd(sub), chunk->d_name, seconds);
		}
		(void)closedir(sub);
	}
	(void)closedir(d);
}

void gcfix_chunk_path(unsigned number, const char *suffix, char out[PATH_MAX])
{
	char path[STORE_CHUNK_PATH_SIZE];
	struct digest d;

	pushfix_digest(number, &d);
	store_chunk_path(&d, path);
	(void)snprintf(out, PATH_MAX, "store/.chunks/%s%s", path, suffix);
}

void gcfix_age_chunk(struct gcfix *f, unsigned number, int64_t seconds)
{
	char path[PATH_MAX];

	gcfix_chunk_path(number, "", path);
	set_age(f->dir.fd, path, seconds);
}

unsigned gcfix_have(struct gcfix *f, unsigned first, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		char path[PATH_MAX];
		struct stat st;

		gcfix_chunk_path(first + i, "", path);
		if (fstatat(f->dir.fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			count++;
	}
	return count;
}

void gcfix_remove_chunk(struct gcfix *f, unsigned number)
{
	char path[PATH_MAX];

	gcfix_chunk_path(number, "", path);
	assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
}

size_t gcfix_check(struct gcfix *f)
{
	struct pushfix_census c = { .finished = 0 };
	struct err e = ERR_INIT;

	assert_ok(pushfix_check(f->ds, &c, &e), &e);
	return c.finished;
}

static void describe_name(int dirfd, const char *path, struct buf *out)
{
	struct err e = ERR_INIT;
	struct statx st;

	assert_int_equal(
	    statx(dirfd, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st), 0);
	assert_ok(buf_append_fmt(out, &e,
		      "%s mode %o owner %u:%u size %" PRIu64 " links %u inode "
		      "%" PRIu64 " a %" PRId64 ".%09u m %" PRId64
		      ".%09u c %" PRId64 ".%09u\n",
		      path, st.stx_mode, st.stx_uid, st.stx_gid,
		      (uint64_t)st.stx_size, st.stx_nlink, (uint64_t)st.stx_ino,
		      (int64_t)st.stx_atime.tv_sec, st.stx_atime.tv_nsec,
		      (int64_t)st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec,
		      (int64_t)st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec),
	    &e);
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static void describe_dir(int fd, const char *path, struct buf *out)
{
	int sub = openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names = NULL;
	int n = 0;

	assert_true(sub >= 0);
	(void)close(sub);
	n = scandirat(fd, path, &names, NULL, alphasort);
	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		char below[PATH_MAX];

		(void)snprintf(
		    below, sizeof(below), "%s/%s", path, names[i]->d_name);
		if (strcmp(names[i]->d_name, ".") != 0 &&
		    strcmp(names[i]->d_name, "..") != 0) {
			describe_name(fd, below, out);
			if (names[i]->d_type == DT_DIR)
				describe_dir(fd, below, out);
		}
		free(names[i]);
	}
	free(names);
}

char *gcfix_describe(struct gcfix *f)
{
	const struct timespec tick = { .tv_nsec = 20000000 };
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	char *text = NULL;

	/*
	 * Twice: what the kernel notes of reading directories is noted by the
	 * first time (relatime: not again, once it is behind the last change).
	 */
	for (unsigned i = 0; i < 2; i++) {
		(void)nanosleep(&tick, NULL);
		buf_reset(&out);
		describe_name(f->dir.fd, "store", &out);
		describe_dir(f->dir.fd, "store", &out);
	}
	text = buf_detach_str(&out, &e);
	assert_non_null(text);
	return text;
}

void gcfix_assert_same(char *before, char *after)
{
	bool same = strcmp(before, after) == 0;
	const char *a = before;
	const char *b = after;

	while (!same && *a != '\0' && *b != '\0') {
		int n = (int)strcspn(a, "\n");
		int m = (int)strcspn(b, "\n");

		if (n != m || memcmp(a, b, (size_t)n) != 0) {
			print_error("before: %.*s\nafter:  %.*s\n", n, a, m, b);
			break;
		}
		a += n + 1;
		b += m + 1;
	}
	free(before);
	free(after);
	assert_true(same);
}

static void path_of(const char *name, char out[PATH_MAX])
{
	(void)snprintf(out, PATH_MAX, "store/%s", name);
}

void gcfix_unlink(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];

	path_of(name, path);
	assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
}

void gcfix_rmdir(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];

	path_of(name, path);
	assert_int_equal(unlinkat(f->dir.fd, path, AT_REMOVEDIR), 0);
}

void gcfix_mkdir(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];

	path_of(name, path);
	for (char *p = strchr(path, '/'); p != NULL; p = strchr(p, '/')) {
		*p = '\0';
		(void)mkdirat(f->dir.fd, path, 0755);
		*p++ = '/';
	}
	assert_true(mkdirat(f->dir.fd, path, 0755) == 0 || errno == EEXIST);
}

bool gcfix_exists(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	path_of(name, path);
	return fstatat(f->dir.fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static void remove_tree(int fd, const char *path)
{
	DIR *d = fdopendir(openat(fd, path, O_RDONLY | O_DIRECTORY));
	const struct dirent *entry = NULL;

	assert_non_null(d);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
	while ((entry = readdir(d)) != NULL) {
		char below[PATH_MAX];

		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		(void)snprintf(
		    below, sizeof(below), "%s/%s", path, entry->d_name);
		if (entry->d_type == DT_DIR) {
			remove_tree(fd, below);
		} else {
			assert_int_equal(unlinkat(fd, below, 0), 0);
		}
	}
	(void)closedir(d);
	assert_int_equal(unlinkat(fd, path, AT_REMOVEDIR), 0);
}

void gcfix_remove_tree(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];

	path_of(name, path);
	remove_tree(f->dir.fd, path);
}

void gcfix_put_index(
    struct gcfix *f, const char *name, unsigned first, unsigned n)
{
	static const uint8_t magic[8] = { 0x2f, 0x7f, 0x41, 0xed, 0x91, 0xfd,
		0x0f, 0xcd };
	size_t size = HEADER + (size_t)n * DIGEST_SIZE;
	uint8_t *p = calloc(1, size);
	struct digest csum;
	struct err e = ERR_INIT;
	char path[PATH_MAX];

	assert_non_null(p);
	for (unsigned i = 0; i < n; i++) {
		struct digest d;

		pushfix_digest(first + i, &d);
		memcpy(p + HEADER + i * (size_t)DIGEST_SIZE, d.b, DIGEST_SIZE);
	}
	assert_ok(digest_of(p + HEADER, size - HEADER, &csum, &e), &e);
	memcpy(p, magic, sizeof(magic));
	memcpy(p + 8, csum.b, IDX_UUID_SIZE); /* some uuid */
	memcpy(p + 32, csum.b, DIGEST_SIZE);
	bytes_put_le64(p + 64, (uint64_t)n * PUSHFIX_CHUNK);
	bytes_put_le64(p + 72, PUSHFIX_CHUNK);
	path_of(name, path);
	tmpdir_put(f->dir.fd, path, p, size);
	free(p);
}

unsigned gcfix_said(const struct gcfix *f, const char *text)
{
	unsigned count = 0;
	size_t n = strlen(text);

	for (size_t i = 0; i + n <= f->messages.len; i++)
		count += memcmp(f->messages.data + i, text, n) == 0;
	return count;
}

static struct {
	_Atomic int64_t slept_ns;
	struct fault_hooks also;
} fast;

static void before_call(void *ctx, struct fault_event *ev)
{
	const struct timespec *ts = ev->in;

	(void)ctx;
	if (ev->call == FAULT_NANOSLEEP) {
		atomic_fetch_add(&fast.slept_ns,
		    ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec);
		ev->skip = true;
		ev->result = 0;
	}
	if (fast.also.before != NULL)
		fast.also.before(fast.also.ctx, ev);
}

static void after_call(void *ctx, struct fault_event *ev)
{
	struct timespec *ts = ev->p;
	int64_t ns = 0;

	(void)ctx;
	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_BOOTTIME) {
		ns = ts->tv_nsec + atomic_load(&fast.slept_ns);
		ts->tv_sec += ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	if (fast.also.after != NULL)
		fast.also.after(fast.also.ctx, ev);
}

void gcfix_fast(const struct fault_hooks *also)
{
	const struct fault_hooks hooks = {
		.before = before_call,
		.after = after_call,
	};

	fast.also = (struct fault_hooks){ .before = NULL };
	if (also != NULL)
		fast.also = *also;
	fault_install();
	fault_set_hooks(&hooks);
}
