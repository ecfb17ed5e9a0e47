/* SPDX-License-Identifier: MIT */
#include "datastore/base/lockfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

#define BUCKETS 64
#define NS_PER_MS 1000000LL
#define POLL_FIRST_MS 1U
#define POLL_LAST_MS 50U
#define SAY_AFTER_NS (5 * CLOCK_NS_PER_S)

/* One thread inside lockfile_wait; lives on its stack, in its byte's queue. */
struct waiter {
	enum lock_mode mode;
	struct waiter *next;
};

/*
 * A byte that is held, waited for, or on its way into or out of the kernel.
 * The kernel's lock is held exactly while readers > 0 or writer, except while
 * changing: then one thread is in the kernel with the mutex released, nobody
 * holds the byte, and all others leave it alone.  refs counts the threads
 * that are inside a function with a pointer to it.
 */
struct lock_byte {
	uint64_t byte;
	unsigned readers;
	bool writer;
	bool changing;
	unsigned refs;
	struct waiter *queue; /* first come, first served */
	struct lock_byte *next;
};

/*
 * `mutex` guards the table; `changed` tells of every change of a byte that
 * more than one thread looks at.  A child made by fork has a copy of the
 * table, but shares the kernel's locks: it may only exec or exit.
 */
struct lockfile {
	int fd;
	char *shown;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct lock_byte *buckets[BUCKETS];
};

enum answer {
	ANSWER_TAKEN,
	ANSWER_HELD_HERE, /* by this process: its unlock will tell */
	ANSWER_HELD_AWAY, /* by another one: has to be asked again */
};

/* Find the byte, or add it; counts a reference.  NULL: no memory. */
static struct lock_byte *byte_ref(struct lockfile *lf, uint64_t byte)
{
	struct lock_byte **bucket = &lf->buckets[byte % BUCKETS];
	struct lock_byte *b = NULL;

	for (b = *bucket; b != NULL; b = b->next) {
		if (b->byte == byte)
			break;
	}
	if (b == NULL) {
		b = calloc(1, sizeof(*b));
		if (b == NULL)
			return NULL;
		b->byte = byte;
		b->next = *bucket;
		*bucket = b;
	}
	b->refs++;
	return b;
}

/* Give the reference back; a byte that nobody holds or wants is forgotten. */
static void byte_unref(struct lockfile *lf, struct lock_byte *b)
{
	struct lock_byte **at = &lf->buckets[b->byte % BUCKETS];

	b->refs--;
	if (b->refs > 0 || b->readers > 0 || b->writer)
		return;
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	free(b);
}

static void queue_append(struct lock_byte *b, struct waiter *w)
{
	struct waiter **at = &b->queue;

	while (*at != NULL)
		at = &(*at)->next;
	*at = w;
}

static void queue_remove(struct lock_byte *b, const struct waiter *w)
{
	struct waiter **at = &b->queue;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

/*
 * Is it this waiter's turn?  Shared ones go together; nobody overtakes an
 * exclusive one, so that a stream of readers can not starve it.
 */
static bool queue_turn(const struct lock_byte *b, const struct waiter *w)
{
	for (const struct waiter *p = b->queue; p != w; p = p->next) {
		if (p->mode == LOCK_EXCLUSIVE || w->mode == LOCK_EXCLUSIVE)
			return false;
	}
	return true;
}

/* One F_OFD_* call for one byte. */
static int kernel_call(
    int fd, int cmd, short type, uint64_t byte, struct flock *ret)
{
	int rc = 0;

	do {
		/* l_pid must be 0, and is written by the kernel. */
		*ret = (struct flock){
			.l_type = type,
			.l_whence = SEEK_SET,
			.l_start = (off_t)byte,
			.l_len = 1,
		};
		rc = sysio_ofd_lock(fd, cmd, ret);
	} while (rc < 0 && errno == EINTR);
	return rc;
}

static short kernel_type(enum lock_mode mode)
{
	return mode == LOCK_EXCLUSIVE ? F_WRLCK : F_RDLCK;
}

/* Can mode be had as far as this process is concerned? */
static bool byte_fits(const struct lock_byte *b, enum lock_mode mode)
{
	if (b->changing || b->writer)
		return false;
	return mode == LOCK_SHARED || b->readers == 0;
}

/*
 * Go into the kernel for a byte that nobody here holds.  The mutex is free
 * meanwhile: on a network file system this takes a while, and other bytes
 * are not to wait for it.
 */
static int byte_enter(struct lockfile *lf, struct lock_byte *b,
    enum lock_mode mode, enum answer *ret, struct err *e)
{
	struct flock l;
	int rc = 0;
	int error = 0;

	b->changing = true;
	pthread_mutex_unlock(&lf->mutex);
	rc = kernel_call(lf->fd, F_OFD_SETLK, kernel_type(mode), b->byte, &l);
	error = rc < 0 ? errno : 0;
	pthread_mutex_lock(&lf->mutex);
	b->changing = false;
	if (b->refs > 1)
		pthread_cond_broadcast(&lf->changed);
	if (error == EAGAIN || error == EACCES) {
		*ret = ANSWER_HELD_AWAY;
		return 0;
	}
	if (error != 0) {
		errno = error;
		return err_sys(
		    e, "lock byte %" PRIu64 " of '%s'", b->byte, lf->shown);
	}
	*ret = ANSWER_TAKEN;
	return 0;
}

/* Take the byte now, or say who is in the way. */
static int byte_take(struct lockfile *lf, struct lock_byte *b,
    enum lock_mode mode, enum answer *ret, struct err *e)
{
	enum answer answer = ANSWER_TAKEN;

	if (!byte_fits(b, mode)) {
		*ret = ANSWER_HELD_HERE;
		return 0;
	}
	if (b->readers == 0) {
		int rc = byte_enter(lf, b, mode, &answer, e);

		if (rc < 0)
			return rc;
	}
	if (answer == ANSWER_TAKEN) {
		if (mode == LOCK_EXCLUSIVE) {
			b->writer = true;
		} else {
			b->readers++;
		}
	}
	*ret = answer;
	return 0;
}

static int byte_check(const struct lockfile *lf, uint64_t byte, struct err *e)
{
	/* The last byte that a file offset can name. */
	if (byte <= INT64_MAX)
		return 0;
	return err_set(e, ERR_INVALID,
	    "lock byte %" PRIu64 " of '%s', want at most %" PRIu64, byte,
	    lf->shown, (uint64_t)INT64_MAX);
}

static int lockfile_init(struct lockfile *lf, struct err *e)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc != 0)
		goto fail;
	/* Cannot fail for this clock. */
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(&lf->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (rc != 0)
		goto fail;
	rc = pthread_mutex_init(&lf->mutex, NULL);
	if (rc != 0) {
		pthread_cond_destroy(&lf->changed);
		goto fail;
	}
	return 0;
fail:
	errno = rc;
	return err_sys(e, "locks of '%s'", lf->shown);
}

static int open_lock_file(
    int dirfd, const char *name, int *ret_fd, const char *shown, struct err *e)
{
	struct statx st;
	int rc = 0;
	int fd = -1;

	do {
		fd = sysio_openat(dirfd, name,
		    O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", shown);
	if (fd < 0 && (errno == ELOOP || errno == EISDIR)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is not a regular file, which is wanted", shown);
	}
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	rc = file_stat_fd(fd, &st, shown, e);
	if (rc == 0 && !S_ISREG(st.stx_mode)) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s' is not a regular file, which is wanted", shown);
	}
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int lockfile_open(int dirfd, const char *name, struct lockfile **ret,
    const char *shown, struct err *e)
{
	struct lockfile *lf = calloc(1, sizeof(*lf));
	int rc = 0;

	if (lf == NULL)
		return err_nomem(e);
	lf->fd = -1;
	lf->shown = strdup(shown);
	if (lf->shown == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	rc = open_lock_file(dirfd, name, &lf->fd, shown, e);
	if (rc < 0)
		goto out;
	rc = lockfile_init(lf, e);
	if (rc < 0)
		goto out;
	*ret = lf;
	lf = NULL;
out:
	if (lf != NULL) {
		file_close(&lf->fd);
		free(lf->shown);
		free(lf);
	}
	return rc;
}

void lockfile_close(struct lockfile *lf)
{
	if (lf == NULL)
		return;
	/* The description goes, and with it what the kernel holds for it. */
	file_close(&lf->fd);
	for (size_t i = 0; i < BUCKETS; i++) {
		struct lock_byte *b = lf->buckets[i];

		while (b != NULL) {
			struct lock_byte *next = b->next;

			free(b);
			b = next;
		}
	}
	pthread_mutex_destroy(&lf->mutex);
	pthread_cond_destroy(&lf->changed);
	free(lf->shown);
	free(lf);
}

int lockfile_try(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    bool *ret_taken, struct err *e)
{
	struct lock_byte *b = NULL;
	enum answer answer = ANSWER_TAKEN;
	int rc = byte_check(lf, byte, e);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lf->mutex);
	b = byte_ref(lf, byte);
	if (b == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	/*
	 * Another thread is giving the byte back, or asks for it, at this
	 * moment: "held" would be a wrong answer, and the right one is as
	 * near as the end of its system call.
	 */
	while (b->changing)
		pthread_cond_wait(&lf->changed, &lf->mutex);
	rc = byte_take(lf, b, mode, &answer, e);
	byte_unref(lf, b);
	if (rc < 0)
		goto out;
	*ret_taken = answer == ANSWER_TAKEN;
out:
	pthread_mutex_unlock(&lf->mutex);
	return rc;
}

/* Sleep on the condition variable, releasing the mutex. */
static void wait_changed(struct lockfile *lf, int64_t ns)
{
	struct timespec ts;

	/*
	 * Not through sysio: a test that lies about the time must not change
	 * for how long a thread sleeps.
	 */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	ns += ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / CLOCK_NS_PER_S);
	ts.tv_nsec = (long)(ns % CLOCK_NS_PER_S);
	(void)pthread_cond_timedwait(&lf->changed, &lf->mutex, &ts);
}

/* How a call of lockfile_wait is doing. */
struct wait_state {
	uint64_t timeout_ms;
	int64_t start; /* clock_boot_ns */
	unsigned poll_ms;
	struct task *task;
	void (*waiting)(void *ctx, struct task *task);
	void *ctx;
};

/*
 * The lock could not be had: end with an error if it is time to, else sleep
 * until it is worth asking again.  Another process's unlock tells nobody, so
 * the kernel is asked again and again; task->stop is looked at as often.
 */
static int wait_more(struct lockfile *lf, const struct lock_byte *b,
    struct wait_state *ws, enum answer answer, struct err *e)
{
	int64_t waited = clock_boot_ns() - ws->start;
	uint64_t waited_ms = waited < 0 ? 0 : (uint64_t)(waited / NS_PER_MS);
	unsigned ms = POLL_LAST_MS;
	int rc = task_check(ws->task, e);

	if (rc < 0)
		return rc;
	if (ws->timeout_ms != UINT64_MAX && waited_ms >= ws->timeout_ms) {
		return err_set(e, ERR_BUSY,
		    "lock byte %" PRIu64 " of '%s' is held", b->byte,
		    lf->shown);
	}
	if (ws->waiting != NULL && waited >= SAY_AFTER_NS) {
		void (*waiting)(void *, struct task *) = ws->waiting;

		ws->waiting = NULL;
		pthread_mutex_unlock(&lf->mutex);
		waiting(ws->ctx, ws->task);
		pthread_mutex_lock(&lf->mutex);
		return 0;
	}
	if (answer == ANSWER_HELD_AWAY) {
		ms = ws->poll_ms;
		if (ws->poll_ms < POLL_LAST_MS)
			ws->poll_ms *= 2;
		if (ws->poll_ms > POLL_LAST_MS)
			ws->poll_ms = POLL_LAST_MS;
	}
	if (ws->timeout_ms != UINT64_MAX && ms > ws->timeout_ms - waited_ms)
		ms = (unsigned)(ws->timeout_ms - waited_ms);
	wait_changed(lf, ms * NS_PER_MS);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): timeout, task and callback */
int lockfile_wait(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    uint64_t timeout_ms, struct task *task,
    void (*waiting)(void *ctx, struct task *task), void *ctx, struct err *e)
{
	struct wait_state ws = {
		.timeout_ms = timeout_ms,
		.start = clock_boot_ns(),
		.poll_ms = POLL_FIRST_MS,
		.task = task,
		.waiting = waiting,
		.ctx = ctx,
	};
	struct waiter w = { .mode = mode, .next = NULL };
	struct lock_byte *b = NULL;
	int rc = byte_check(lf, byte, e);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lf->mutex);
	b = byte_ref(lf, byte);
	if (b == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	queue_append(b, &w);
	for (;;) {
		enum answer answer = ANSWER_HELD_HERE;

		if (queue_turn(b, &w))
			rc = byte_take(lf, b, mode, &answer, e);
		if (rc < 0 || answer == ANSWER_TAKEN)
			break;
		rc = wait_more(lf, b, &ws, answer, e);
		if (rc < 0)
			break;
	}
	queue_remove(b, &w);
	/* Those behind in the queue may have their turn now. */
	if (b->refs > 1)
		pthread_cond_broadcast(&lf->changed);
	byte_unref(lf, b);
out:
	pthread_mutex_unlock(&lf->mutex);
	return rc;
}

void lockfile_unlock(struct lockfile *lf, uint64_t byte, enum lock_mode mode)
{
	struct lock_byte *b = NULL;
	struct flock l;

	pthread_mutex_lock(&lf->mutex);
	for (b = lf->buckets[byte % BUCKETS]; b != NULL; b = b->next) {
		if (b->byte == byte)
			break;
	}
	/* Whoever unlocks what it does not hold drops somebody else's lock. */
	assert(b != NULL && !b->changing);
	assert(mode == LOCK_EXCLUSIVE ? b->writer : b->readers > 0);
	b->refs++;
	if (mode == LOCK_EXCLUSIVE) {
		b->writer = false;
	} else {
		b->readers--;
	}
	if (b->readers == 0) {
		b->changing = true;
		pthread_mutex_unlock(&lf->mutex);
		/*
		 * There is no answer to a failure: the kernel then keeps the
		 * lock until the next unlock or the close, which is safe.
		 */
		(void)kernel_call(lf->fd, F_OFD_SETLK, F_UNLCK, byte, &l);
		pthread_mutex_lock(&lf->mutex);
		b->changing = false;
		if (b->refs > 1)
			pthread_cond_broadcast(&lf->changed);
	}
	byte_unref(lf, b);
	pthread_mutex_unlock(&lf->mutex);
}

int lockfile_is_held(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    bool *ret_held, struct err *e)
{
	struct flock l;
	int rc = byte_check(lf, byte, e);

	if (rc < 0)
		return rc;
	rc = kernel_call(lf->fd, F_OFD_GETLK, kernel_type(mode), byte, &l);
	if (rc < 0) {
		return err_sys(e,
		    "ask for the lock of byte %" PRIu64 " of '%s'", byte,
		    lf->shown);
	}
	*ret_held = l.l_type != F_UNLCK;
	return 0;
}
