/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/sysio.h"
#include "datastore/blob.h"
#include "datastore/locks.h"
#include "datastore/store_fs_internal.h"

/* Touches, or directories that are looked through, at once, at most. */
#define IN_FLIGHT 32U
#define IN_FLIGHT_NETWORK 64U

void store_fs_prefix_name(unsigned prefix, char out[STORE_PREFIX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned i = 0; i < STORE_PREFIX_SIZE - 1; i++)
		out[i] = digits[prefix >> (12 - 4 * i) & 15];
	out[STORE_PREFIX_SIZE - 1] = '\0';
}

const char *store_fs_shown(
    const struct store_fs *s, const char *rel, char out[STORE_SHOWN_SIZE])
{
	size_t rel_len = strlen(rel);
	size_t len = strlen(s->shown);

	/* The name of the file is what matters; it is of known length. */
	if (len > STORE_SHOWN_SIZE - 2 - rel_len)
		len = STORE_SHOWN_SIZE - 2 - rel_len;
	memcpy(out, s->shown, len);
	out[len] = '/';
	memcpy(out + len + 1, rel, rel_len);
	out[len + 1 + rel_len] = '\0';
	return out;
}

bool store_fs_looks_sound(const struct statx *st)
{
	return S_ISREG(st->stx_mode) && st->stx_size > BLOB_HEADER_SIZE;
}

bool store_fs_is_denied(const struct err *e)
{
	return err_is_sys(e, EACCES) || err_is_sys(e, EPERM);
}

/* What stands in a prefix directory's place has to be ours. */
static int check_prefix_stat(const struct store_fs *s, const struct statx *st,
    const char *name, struct err *e)
{
	char shown[STORE_SHOWN_SIZE];

	if (!S_ISDIR(st->stx_mode)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a symbolic link or a file, want a directory",
		    store_fs_shown(s, name, shown));
	}
	if (st->stx_dev_major != s->chunks_st.stx_dev_major ||
	    st->stx_dev_minor != s->chunks_st.stx_dev_minor) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is on another device than '%s', want it on the same",
		    store_fs_shown(s, name, shown), s->shown);
	}
	return 0;
}

static bool is_known_sound(struct store_fs *s, unsigned prefix)
{
	uint64_t bits =
	    atomic_load_explicit(&s->sound[prefix / 64], memory_order_relaxed);

	return (bits >> prefix % 64 & 1) != 0;
}

static void set_known_sound(struct store_fs *s, unsigned prefix)
{
	atomic_fetch_or_explicit(&s->sound[prefix / 64],
	    UINT64_C(1) << prefix % 64, memory_order_relaxed);
}

int store_fs_check_prefix(
    struct store_fs *s, unsigned prefix, bool *ret_found, struct err *e)
{
	char name[STORE_PREFIX_SIZE];
	char shown[STORE_SHOWN_SIZE];
	struct statx st;
	bool found = true;
	int rc = 0;

	if (!is_known_sound(s, prefix)) {
		store_fs_prefix_name(prefix, name);
		rc = file_stat_at(s->chunks_fd, name, &st, &found,
		    store_fs_shown(s, name, shown), e);
		if (rc == 0 && found)
			rc = check_prefix_stat(s, &st, name, e);
		if (rc < 0)
			return rc;
		if (found)
			set_known_sound(s, prefix);
	}
	*ret_found = found;
	return 0;
}

int store_fs_make_prefix(
    struct store_fs *s, unsigned prefix, bool *ret_made, struct err *e)
{
	char name[STORE_PREFIX_SIZE];
	char shown[STORE_SHOWN_SIZE];
	struct err taken = ERR_INIT;
	bool found = false;
	int rc = 0;

	store_fs_prefix_name(prefix, name);
	rc = file_make_dir(s->chunks_fd, name, STORE_DIR_MODE, &s->owner,
	    store_fs_shown(s, name, shown), &taken);
	if (rc < 0 && rc != ERR_EXISTS) {
		*e = taken;
		return rc;
	}
	*ret_made = rc == 0;
	/* Another one was faster, or something else is in its place. */
	return store_fs_check_prefix(s, prefix, &found, e);
}

int store_fs_open_unchecked(
    struct store_fs *s, unsigned prefix, int *ret_fd, struct err *e)
{
	char name[STORE_PREFIX_SIZE];
	char shown[STORE_SHOWN_SIZE];
	int fd = -1;

	store_fs_prefix_name(prefix, name);
	do {
		fd = sysio_openat(s->chunks_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a symbolic link or a file, want a directory",
		    store_fs_shown(s, name, shown));
	}
	if (fd < 0 && errno != ENOENT) {
		return err_sys(
		    e, "open directory '%s'", store_fs_shown(s, name, shown));
	}
	*ret_fd = fd;
	return 0;
}

int store_fs_check_dir(
    struct store_fs *s, unsigned prefix, int fd, struct err *e)
{
	char name[STORE_PREFIX_SIZE];
	char shown[STORE_SHOWN_SIZE];
	struct statx st;
	int rc = 0;

	store_fs_prefix_name(prefix, name);
	rc = file_stat_fd(fd, &st, store_fs_shown(s, name, shown), e);
	return rc < 0 ? rc : check_prefix_stat(s, &st, name, e);
}

int store_fs_open_prefix(
    struct store_fs *s, unsigned prefix, bool anew, int *ret_fd, struct err *e)
{
	int fd = -1;
	int rc = store_fs_open_unchecked(s, prefix, &fd, e);

	if (rc < 0)
		return rc;
	if (fd >= 0 && (anew || !is_known_sound(s, prefix))) {
		rc = store_fs_check_dir(s, prefix, fd, e);
		if (rc < 0) {
			file_close(&fd);
			return rc;
		}
		set_known_sound(s, prefix);
	}
	*ret_fd = fd;
	return 0;
}

static void block_stop_key(struct store_fs_hold *hold)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)pthread_sigmask(SIG_BLOCK, &set, &hold->signals);
}

/* Locks are for those who write; a store without them is only read. */
static int check_has_locks(const struct store_fs *s, struct err *e)
{
	if (s->locks != NULL)
		return 0;
	return err_set(
	    e, ERR_INVALID, "'%s' is open for reading only", s->shown);
}

int store_fs_lock(struct store_fs *s, unsigned prefix, enum lock_mode mode,
    struct store_fs_hold *ret, struct err *e)
{
	struct store_fs_hold hold = { .prefix = prefix, .mode = mode };
	struct task silent = TASK_SILENT;
	int rc = check_has_locks(s, e);

	if (rc < 0)
		return rc;
	if (mode == LOCK_EXCLUSIVE)
		block_stop_key(&hold);
	rc = lockfile_wait(s->locks, LOCK_BYTE_PREFIX + prefix, mode,
	    UINT64_MAX, s->waiting_task != NULL ? s->waiting_task : &silent,
	    s->waiting, s->waiting_ctx, e);
	if (rc < 0) {
		if (mode == LOCK_EXCLUSIVE)
			(void)pthread_sigmask(SIG_SETMASK, &hold.signals, NULL);
		return rc;
	}
	*ret = hold;
	return 0;
}

int store_fs_try_lock(struct store_fs *s, unsigned prefix,
    struct store_fs_hold *ret, bool *ret_taken, struct err *e)
{
	struct store_fs_hold hold = { .prefix = prefix,
		.mode = LOCK_EXCLUSIVE };
	bool taken = false;
	int rc = check_has_locks(s, e);

	if (rc < 0)
		return rc;
	block_stop_key(&hold);
	rc = lockfile_try(
	    s->locks, LOCK_BYTE_PREFIX + prefix, LOCK_EXCLUSIVE, &taken, e);
	if (rc < 0 || !taken)
		(void)pthread_sigmask(SIG_SETMASK, &hold.signals, NULL);
	if (rc < 0)
		return rc;
	*ret = hold;
	*ret_taken = taken;
	return 0;
}

void store_fs_unlock(struct store_fs *s, const struct store_fs_hold *hold)
{
	lockfile_unlock(s->locks, LOCK_BYTE_PREFIX + hold->prefix, hold->mode);
	if (hold->mode == LOCK_EXCLUSIVE)
		(void)pthread_sigmask(SIG_SETMASK, &hold->signals, NULL);
}

int store_fs_touch_hit(struct store_fs *s, const char *rel, const char *shown,
    enum store_fs_hit *ret, struct err *e)
{
	struct err failure = ERR_INIT;
	bool found = false;
	int rc = file_touch_at(s->chunks_fd, rel, &found, shown, &failure);

	if (rc < 0 && !store_fs_is_denied(&failure)) {
		*e = failure;
		return rc;
	}
	if (rc < 0) {
		*ret = STORE_FS_DENIED;
	} else {
		*ret = found ? STORE_FS_TOUCHED : STORE_FS_GONE;
	}
	return 0;
}

/* A chunk's path below .chunks, and as messages show it. */
struct place {
	char rel[STORE_CHUNK_PATH_SIZE];
	char shown[STORE_SHOWN_SIZE];
};

static int find_place(struct store_fs *s, const struct digest *d,
    struct place *ret, bool *ret_has_prefix, struct err *e)
{
	store_chunk_path(d, ret->rel);
	store_fs_shown(s, ret->rel, ret->shown);
	return store_fs_check_prefix(s, digest_prefix(d), ret_has_prefix, e);
}

static int store_fs_reuse(
    struct store *base, const struct digest *d, bool *ret_hit, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	enum store_fs_hit hit = STORE_FS_GONE;
	struct store_fs_hold hold;
	struct place at;
	struct statx st;
	bool found = false;
	int rc = find_place(s, d, &at, &found, e);

	if (rc < 0)
		return rc;
	if (!found) {
		*ret_hit = false;
		return 0;
	}
	rc = store_fs_lock(s, digest_prefix(d), LOCK_SHARED, &hold, e);
	if (rc < 0)
		return rc;
	rc = file_stat_at(s->chunks_fd, at.rel, &st, &found, at.shown, e);
	if (rc == 0 && found && store_fs_looks_sound(&st))
		rc = store_fs_touch_hit(s, at.rel, at.shown, &hit, e);
	store_fs_unlock(s, &hold);
	if (rc < 0)
		return rc;
	*ret_hit = hit == STORE_FS_TOUCHED;
	return 0;
}

static int store_fs_load(
    struct store *base, const struct digest *d, struct buf *raw, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	struct place at;
	bool found = false;
	int rc = find_place(s, d, &at, &found, e);

	if (rc < 0)
		return rc;
	rc = file_read_at(
	    s->chunks_fd, at.rel, CHUNK_MAX_FILE, raw, at.shown, e);
	if (rc == ERR_LIMIT) {
		/* No rule of the format allows a chunk that long. */
		e->code = ERR_CORRUPT;
		return ERR_CORRUPT;
	}
	if (rc == 0 && raw->len == 0) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is empty, want at least %d bytes", at.shown,
		    BLOB_HEADER_SIZE);
	}
	return rc;
}

static int store_fs_stat(struct store *base, const struct digest *d,
    struct store_entry *ret, bool *ret_found, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	struct place at;
	struct statx st;
	bool found = false;
	int rc = find_place(s, d, &at, &found, e);

	if (rc == 0 && found) {
		rc = store_fs_stat_afresh(
		    s->chunks_fd, at.rel, &st, &found, at.shown, e);
	}
	if (rc < 0)
		return rc;
	if (found)
		*ret = store_fs_entry(STORE_CHUNK, d, "", &st);
	*ret_found = found;
	return 0;
}

static int store_fs_open_chunk(
    struct store *base, const struct digest *d, int *ret_fd, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	struct place at;
	bool found = false;
	int rc = find_place(s, d, &at, &found, e);

	if (rc < 0)
		return rc;
	return file_open_regular(
	    s->chunks_fd, at.rel, ret_fd, NULL, at.shown, e);
}

struct store_entry store_fs_entry(enum store_kind kind, const struct digest *d,
    const char *name, const struct statx *st)
{
	return (struct store_entry){
		.kind = kind,
		.digest = *d,
		.name = name,
		.regular = S_ISREG(st->stx_mode),
		.bytes = st->stx_size,
		.atime = clock_from_statx(&st->stx_atime),
		.mtime = clock_from_statx(&st->stx_mtime),
		.ctime = clock_from_statx(&st->stx_ctime),
	};
}

static void store_fs_close(struct store *base)
{
	struct store_fs *s = store_fs_of(base);

	free(s->shown);
	free(s);
}

static const struct store_ops store_fs_ops = {
	.reuse = store_fs_reuse,
	.insert = store_fs_insert,
	.load = store_fs_load,
	.stat = store_fs_stat,
	.touch = store_fs_touch,
	.plan = store_fs_plan,
	.touch_batch = store_fs_touch_batch,
	.pace = store_fs_pace,
	.prefixes = store_fs_prefixes,
	.scan = store_fs_scan,
	.scan_all = store_fs_scan_all,
	.sweep = store_fs_sweep,
	.quarantine = store_fs_quarantine,
	.open = store_fs_open_chunk,
	.close = store_fs_close,
};

int store_fs_open(int chunks_fd, struct lockfile *locks,
    const struct file_owner *owner, const char *shown, struct store **ret,
    struct err *e)
{
	struct store_fs *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (s == NULL)
		return err_nomem(e);
	s->base.ops = &store_fs_ops;
	s->chunks_fd = chunks_fd;
	s->locks = locks;
	s->owner = *owner;
	s->rank_from = STORE_RANK_FROM;
	pace_init(&s->pace, IN_FLIGHT);
	pace_init(&s->scan_pace, IN_FLIGHT);
	s->shown = strdup(shown);
	if (s->shown == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	rc = file_stat_fd(chunks_fd, &s->chunks_st, shown, e);
	if (rc < 0)
		goto out;
	if (!S_ISDIR(s->chunks_st.stx_mode)) {
		rc = err_set(e, ERR_CORRUPT, "'%s' is not a directory", shown);
		goto out;
	}
	*ret = &s->base;
	s = NULL;
out:
	if (s != NULL)
		store_fs_close(&s->base);
	return rc;
}

void store_fs_note_prefix(struct store *s, unsigned prefix)
{
	set_known_sound(store_fs_of(s), prefix);
}

void store_fs_set_kind(struct store *s, bool network, bool by_inode)
{
	unsigned most = network ? IN_FLIGHT_NETWORK : IN_FLIGHT;

	pace_init(&store_fs_of(s)->pace, most);
	pace_init(&store_fs_of(s)->scan_pace, most);
	store_fs_of(s)->by_inode = by_inode;
}

void store_fs_set_waiting(struct store *s, struct task *task,
    void (*waiting)(void *ctx, struct task *task), void *ctx)
{
	store_fs_of(s)->waiting_task = task;
	store_fs_of(s)->waiting = waiting;
	store_fs_of(s)->waiting_ctx = ctx;
}
