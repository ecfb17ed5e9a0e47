/* SPDX-License-Identifier: MIT */
#include "tests/support/fault.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/sysio.h"

#define RULES_MAX 8

/* All under lock. */
static struct {
	pthread_mutex_t lock;
	struct fault_rule rules[RULES_MAX];
	uint64_t seen[RULES_MAX]; /* calls a rule has counted */
	size_t rules_n;
	struct fault_hooks hooks;
	uint64_t counts[FAULT_CALLS];
	uint64_t total;
	uint64_t hits;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What a hook calls is neither counted nor struck. */
static _Thread_local bool in_hook;

/* A call on its way through. */
struct call {
	struct fault_event ev;
	struct fault_hooks hooks;
	struct fault_rule strike; /* .times is 0: none */
	bool bypass;
};

static bool matches(const struct fault_rule *rule, const struct fault_event *ev)
{
	if ((rule->calls & FAULT_BIT(ev->call)) == 0)
		return false;
	if (rule->name == NULL)
		return true;
	return (ev->name != NULL && strstr(ev->name, rule->name) != NULL) ||
	    (ev->to_name != NULL && strstr(ev->to_name, rule->name) != NULL);
}

static void count(struct call *c)
{
	(void)pthread_mutex_lock(&state.lock);
	state.counts[c->ev.call]++;
	c->ev.nth = ++state.total;
	c->hooks = state.hooks;
	for (size_t i = 0; i < state.rules_n; i++) {
		const struct fault_rule *rule = &state.rules[i];
		uint64_t seen = 0;

		if (!matches(rule, &c->ev))
			continue;
		seen = ++state.seen[i];
		if (c->strike.times == 0 && seen >= rule->at &&
		    seen - rule->at < rule->times) {
			c->strike = *rule;
			state.hits++;
		}
	}
	(void)pthread_mutex_unlock(&state.lock);
}

static void run_hook(
    void (*hook)(void *ctx, struct fault_event *ev), struct call *c)
{
	if (hook == NULL)
		return;
	in_hook = true;
	hook(c->hooks.ctx, &c->ev);
	in_hook = false;
}

_Noreturn static void die(void)
{
	(void)kill(getpid(), SIGKILL);
	for (;;)
		(void)pause();
}

/* Settle the result without a call. */
static void settle(struct call *c, int64_t result, int error)
{
	c->ev.result = result;
	c->ev.result_p = NULL;
	c->ev.error = error;
	c->ev.skip = true;
}

/* A strike before the call.  Those that come after it are left to end(). */
static void strike_before(struct call *c)
{
	bool closes = c->ev.call == FAULT_CLOSE || c->ev.call == FAULT_CLOSEDIR;
	bool opens_stream = c->ev.call == FAULT_FDOPENDIR;

	switch (c->strike.what) {
	case FAULT_FAIL:
		if (closes) {
			c->strike.what = FAULT_FAIL_AFTER;
		} else {
			settle(c, -1, c->strike.error);
		}
		break;
	case FAULT_FAIL_AFTER:
		/* A stream that nobody gets would leak. */
		if (opens_stream)
			settle(c, -1, c->strike.error);
		break;
	case FAULT_SHORT:
		if (c->strike.bytes < c->ev.n)
			c->ev.n = c->strike.bytes;
		if (c->ev.n == 0)
			settle(c, 0, 0);
		break;
	case FAULT_KILL:
		die();
	case FAULT_KILL_AFTER:
		break;
	}
}

/* True if the real call is to be made; errno is as the caller left it. */
static bool begin(struct call *c)
{
	int saved = errno;

	c->bypass = in_hook;
	if (c->bypass)
		return true;
	count(c);
	run_hook(c->hooks.before, c);
	if (!c->ev.skip && c->strike.times > 0)
		strike_before(c);
	errno = saved;
	return !c->ev.skip;
}

static void done(struct call *c, int64_t result)
{
	c->ev.result = result;
	c->ev.error = errno;
}

static void done_p(struct call *c, void *result)
{
	c->ev.result_p = result;
	c->ev.error = errno;
}

static void strike_after(struct call *c)
{
	bool opens = c->ev.call == FAULT_OPENAT || c->ev.call == FAULT_CREATE;

	if (c->strike.what == FAULT_KILL_AFTER)
		die();
	if (c->strike.what != FAULT_FAIL_AFTER)
		return;
	/* The caller can not close what he does not get. */
	if (opens && c->ev.result >= 0)
		(void)close((int)c->ev.result);
	settle(c, -1, c->strike.error);
}

static int64_t end(struct call *c)
{
	if (!c->bypass) {
		if (!c->ev.skip && c->strike.times > 0)
			strike_after(c);
		run_hook(c->hooks.after, c);
	}
	errno = c->ev.error;
	return c->ev.result;
}

/* clang-format off */
#define CALL(kind, ...) { .ev = { .call = (kind), __VA_ARGS__ } }
/* clang-format on */

static int fault_openat(int dirfd, const char *name, int flags, mode_t mode)
{
	struct call c =
	    CALL((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE
		    ? FAULT_CREATE
		    : FAULT_OPENAT,
		.fd = dirfd, .name = name, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.openat(dirfd, name, flags, mode));
	return (int)end(&c);
}

static int fault_close(int fd)
{
	struct call c = CALL(FAULT_CLOSE, .fd = fd);

	if (begin(&c))
		done(&c, sysio_real.close(fd));
	return (int)end(&c);
}

static int fault_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct call c = CALL(FAULT_POLL, .p = fds, .n = n, .at = timeout_ms);

	if (begin(&c))
		done(&c, sysio_real.poll(fds, n, timeout_ms));
	return (int)end(&c);
}

static ssize_t fault_read(int fd, void *p, size_t n)
{
	struct call c = CALL(FAULT_READ, .fd = fd, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.read(fd, p, c.ev.n));
	return end(&c);
}

static ssize_t fault_pread(int fd, void *p, size_t n, off_t at)
{
	struct call c = CALL(FAULT_PREAD, .fd = fd, .p = p, .n = n, .at = at);

	if (begin(&c))
		done(&c, sysio_real.pread(fd, p, c.ev.n, at));
	return end(&c);
}

static ssize_t fault_write(int fd, const void *p, size_t n)
{
	struct call c = CALL(FAULT_WRITE, .fd = fd, .in = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.write(fd, p, c.ev.n));
	return end(&c);
}

static ssize_t fault_pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct call c = CALL(FAULT_PWRITE, .fd = fd, .in = p, .n = n, .at = at);

	if (begin(&c))
		done(&c, sysio_real.pwrite(fd, p, c.ev.n, at));
	return end(&c);
}

static off_t fault_lseek(int fd, off_t at, int whence)
{
	struct call c = CALL(FAULT_LSEEK, .fd = fd, .at = at, .flags = whence);

	if (begin(&c))
		done(&c, sysio_real.lseek(fd, at, whence));
	return end(&c);
}

static int fault_ftruncate(int fd, off_t size)
{
	struct call c = CALL(FAULT_FTRUNCATE, .fd = fd, .at = size);

	if (begin(&c))
		done(&c, sysio_real.ftruncate(fd, size));
	return (int)end(&c);
}

static int fault_fsync(int fd)
{
	struct call c = CALL(FAULT_FSYNC, .fd = fd);

	if (begin(&c))
		done(&c, sysio_real.fsync(fd));
	return (int)end(&c);
}

static int fault_syncfs(int fd)
{
	struct call c = CALL(FAULT_SYNCFS, .fd = fd);

	if (begin(&c))
		done(&c, sysio_real.syncfs(fd));
	return (int)end(&c);
}

static int fault_fallocate(int fd, int mode, off_t at, off_t n)
{
	struct call c = CALL(
	    FAULT_FALLOCATE, .fd = fd, .flags = mode, .at = at, .n = (size_t)n);

	if (begin(&c))
		done(&c, sysio_real.fallocate(fd, mode, at, n));
	return (int)end(&c);
}

static int fault_fchown(int fd, uid_t uid, gid_t gid)
{
	struct call c = CALL(FAULT_FCHOWN, .fd = fd);

	if (begin(&c))
		done(&c, sysio_real.fchown(fd, uid, gid));
	return (int)end(&c);
}

static int fault_fchownat(
    int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
	struct call c =
	    CALL(FAULT_FCHOWNAT, .fd = dirfd, .name = name, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.fchownat(dirfd, name, uid, gid, flags));
	return (int)end(&c);
}

static int fault_fchmod(int fd, mode_t mode)
{
	struct call c = CALL(FAULT_FCHMOD, .fd = fd);

	if (begin(&c))
		done(&c, sysio_real.fchmod(fd, mode));
	return (int)end(&c);
}

static int fault_fchmodat(int dirfd, const char *name, mode_t mode, int flags)
{
	struct call c =
	    CALL(FAULT_FCHMODAT, .fd = dirfd, .name = name, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.fchmodat(dirfd, name, mode, flags));
	return (int)end(&c);
}

static int fault_statx(
    int dirfd, const char *name, int flags, unsigned mask, struct statx *st)
{
	struct call c = CALL(
	    FAULT_STATX, .fd = dirfd, .name = name, .flags = flags, .p = st);

	if (begin(&c))
		done(&c, sysio_real.statx(dirfd, name, flags, mask, st));
	return (int)end(&c);
}

static int fault_utimensat(
    int dirfd, const char *name, const struct timespec times[2], int flags)
{
	struct call c = CALL(FAULT_UTIMENSAT, .fd = dirfd, .name = name,
	    .flags = flags, .in = times);

	if (begin(&c))
		done(&c, sysio_real.utimensat(dirfd, name, times, flags));
	return (int)end(&c);
}

static int fault_futimens(int fd, const struct timespec times[2])
{
	struct call c = CALL(FAULT_FUTIMENS, .fd = fd, .in = times);

	if (begin(&c))
		done(&c, sysio_real.futimens(fd, times));
	return (int)end(&c);
}

static int fault_setxattr(
    const char *path, const char *name, const void *p, size_t n, int flags)
{
	struct call c = CALL(FAULT_SETXATTR, .name = path, .to_name = name,
	    .in = p, .n = n, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.setxattr(path, name, p, n, flags));
	return (int)end(&c);
}

static int fault_fsetxattr(
    int fd, const char *name, const void *p, size_t n, int flags)
{
	struct call c = CALL(FAULT_FSETXATTR, .fd = fd, .name = name, .in = p,
	    .n = n, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.fsetxattr(fd, name, p, n, flags));
	return (int)end(&c);
}

static ssize_t fault_fgetxattr(int fd, const char *name, void *p, size_t n)
{
	struct call c =
	    CALL(FAULT_FGETXATTR, .fd = fd, .name = name, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.fgetxattr(fd, name, p, n));
	return end(&c);
}

static ssize_t fault_flistxattr(int fd, char *p, size_t n)
{
	struct call c = CALL(FAULT_FLISTXATTR, .fd = fd, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.flistxattr(fd, p, n));
	return end(&c);
}

static ssize_t fault_getxattr(
    const char *path, const char *name, void *p, size_t n)
{
	struct call c =
	    CALL(FAULT_GETXATTR, .name = path, .to_name = name, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.getxattr(path, name, p, n));
	return end(&c);
}

static ssize_t fault_listxattr(const char *path, char *p, size_t n)
{
	struct call c = CALL(FAULT_LISTXATTR, .name = path, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.listxattr(path, p, n));
	return end(&c);
}

static int fault_fremovexattr(int fd, const char *name)
{
	struct call c = CALL(FAULT_FREMOVEXATTR, .fd = fd, .name = name);

	if (begin(&c))
		done(&c, sysio_real.fremovexattr(fd, name));
	return (int)end(&c);
}

static int fault_renameat2(
    int fromfd, const char *from, int tofd, const char *to, unsigned flags)
{
	struct call c = CALL(FAULT_RENAMEAT2, .fd = fromfd, .name = from,
	    .to_fd = tofd, .to_name = to, .flags = (int)flags);

	if (begin(&c))
		done(&c, sysio_real.renameat2(fromfd, from, tofd, to, flags));
	return (int)end(&c);
}

static int fault_linkat(
    int fromfd, const char *from, int tofd, const char *to, int flags)
{
	struct call c = CALL(FAULT_LINKAT, .fd = fromfd, .name = from,
	    .to_fd = tofd, .to_name = to, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.linkat(fromfd, from, tofd, to, flags));
	return (int)end(&c);
}

static int fault_symlinkat(const char *target, int dirfd, const char *name)
{
	struct call c =
	    CALL(FAULT_SYMLINKAT, .fd = dirfd, .name = name, .in = target);

	if (begin(&c))
		done(&c, sysio_real.symlinkat(target, dirfd, name));
	return (int)end(&c);
}

static int fault_mknodat(int dirfd, const char *name, mode_t mode, dev_t dev)
{
	struct call c =
	    CALL(FAULT_MKNODAT, .fd = dirfd, .name = name, .flags = (int)mode);

	if (begin(&c))
		done(&c, sysio_real.mknodat(dirfd, name, mode, dev));
	return (int)end(&c);
}

static int fault_unlinkat(int dirfd, const char *name, int flags)
{
	struct call c =
	    CALL(FAULT_UNLINKAT, .fd = dirfd, .name = name, .flags = flags);

	if (begin(&c))
		done(&c, sysio_real.unlinkat(dirfd, name, flags));
	return (int)end(&c);
}

static int fault_mkdirat(int dirfd, const char *name, mode_t mode)
{
	struct call c = CALL(FAULT_MKDIRAT, .fd = dirfd, .name = name);

	if (begin(&c))
		done(&c, sysio_real.mkdirat(dirfd, name, mode));
	return (int)end(&c);
}

static ssize_t fault_readlinkat(int dirfd, const char *name, char *p, size_t n)
{
	struct call c =
	    CALL(FAULT_READLINKAT, .fd = dirfd, .name = name, .p = p, .n = n);

	if (begin(&c))
		done(&c, sysio_real.readlinkat(dirfd, name, p, c.ev.n));
	return end(&c);
}

static DIR *fault_fdopendir(int fd)
{
	struct call c = CALL(FAULT_FDOPENDIR, .fd = fd);

	if (begin(&c))
		done_p(&c, sysio_real.fdopendir(fd));
	(void)end(&c);
	return c.ev.result_p;
}

static struct dirent *fault_readdir(DIR *d)
{
	struct call c = CALL(FAULT_READDIR, .fd = dirfd(d));

	if (begin(&c))
		done_p(&c, sysio_real.readdir(d));
	(void)end(&c);
	return c.ev.result_p;
}

static int fault_closedir(DIR *d)
{
	struct call c = CALL(FAULT_CLOSEDIR, .fd = dirfd(d));

	if (begin(&c))
		done(&c, sysio_real.closedir(d));
	return (int)end(&c);
}

static int fault_ofd_lock(int fd, int cmd, struct flock *l)
{
	struct call c = CALL(FAULT_OFD_LOCK, .fd = fd, .p = l, .flags = cmd);

	if (begin(&c))
		done(&c, sysio_real.ofd_lock(fd, cmd, l));
	return (int)end(&c);
}

static int fault_flock(int fd, int operation)
{
	struct call c = CALL(FAULT_FLOCK, .fd = fd, .flags = operation);

	if (begin(&c))
		done(&c, sysio_real.flock(fd, operation));
	return (int)end(&c);
}

static int fault_fstatvfs(int fd, struct statvfs *st)
{
	struct call c = CALL(FAULT_FSTATVFS, .fd = fd, .p = st);

	if (begin(&c))
		done(&c, sysio_real.fstatvfs(fd, st));
	return (int)end(&c);
}

static int fault_fstatfs(int fd, struct statfs *st)
{
	struct call c = CALL(FAULT_FSTATFS, .fd = fd, .p = st);

	if (begin(&c))
		done(&c, sysio_real.fstatfs(fd, st));
	return (int)end(&c);
}

static int fault_ioctl(int fd, unsigned long request, void *arg)
{
	struct call c =
	    CALL(FAULT_IOCTL, .fd = fd, .p = arg, .at = (int64_t)request);

	if (begin(&c))
		done(&c, sysio_real.ioctl(fd, request, arg));
	return (int)end(&c);
}

static int fault_clock_gettime(clockid_t clock, struct timespec *ts)
{
	struct call c = CALL(FAULT_CLOCK_GETTIME, .p = ts, .flags = clock);

	if (begin(&c))
		done(&c, sysio_real.clock_gettime(clock, ts));
	return (int)end(&c);
}

static int fault_nanosleep(const struct timespec *ts, struct timespec *left)
{
	struct call c = CALL(FAULT_NANOSLEEP, .p = left, .in = ts);

	if (begin(&c))
		done(&c, sysio_real.nanosleep(ts, left));
	return (int)end(&c);
}

static ssize_t fault_getrandom(void *p, size_t n, unsigned flags)
{
	struct call c =
	    CALL(FAULT_GETRANDOM, .p = p, .n = n, .flags = (int)flags);

	if (begin(&c))
		done(&c, sysio_real.getrandom(p, c.ev.n, flags));
	return end(&c);
}

static const struct sysio_table fault_table = {
	.openat = fault_openat,
	.close = fault_close,
	.poll = fault_poll,
	.read = fault_read,
	.pread = fault_pread,
	.write = fault_write,
	.pwrite = fault_pwrite,
	.lseek = fault_lseek,
	.ftruncate = fault_ftruncate,
	.fsync = fault_fsync,
	.syncfs = fault_syncfs,
	.fallocate = fault_fallocate,
	.fchown = fault_fchown,
	.fchownat = fault_fchownat,
	.fchmod = fault_fchmod,
	.fchmodat = fault_fchmodat,
	.statx = fault_statx,
	.utimensat = fault_utimensat,
	.futimens = fault_futimens,
	.setxattr = fault_setxattr,
	.fsetxattr = fault_fsetxattr,
	.fgetxattr = fault_fgetxattr,
	.flistxattr = fault_flistxattr,
	.getxattr = fault_getxattr,
	.listxattr = fault_listxattr,
	.fremovexattr = fault_fremovexattr,
	.renameat2 = fault_renameat2,
	.linkat = fault_linkat,
	.symlinkat = fault_symlinkat,
	.mknodat = fault_mknodat,
	.unlinkat = fault_unlinkat,
	.mkdirat = fault_mkdirat,
	.readlinkat = fault_readlinkat,
	.fdopendir = fault_fdopendir,
	.readdir = fault_readdir,
	.closedir = fault_closedir,
	.ofd_lock = fault_ofd_lock,
	.flock = fault_flock,
	.fstatvfs = fault_fstatvfs,
	.fstatfs = fault_fstatfs,
	.ioctl = fault_ioctl,
	.clock_gettime = fault_clock_gettime,
	.nanosleep = fault_nanosleep,
	.getrandom = fault_getrandom,
};

void fault_reset(void)
{
	(void)pthread_mutex_lock(&state.lock);
	memset(state.seen, 0, sizeof(state.seen));
	memset(state.counts, 0, sizeof(state.counts));
	memset(&state.hooks, 0, sizeof(state.hooks));
	state.rules_n = 0;
	state.total = 0;
	state.hits = 0;
	(void)pthread_mutex_unlock(&state.lock);
}

void fault_install(void)
{
	fault_reset();
	sysio_table = &fault_table;
}

void fault_uninstall(void)
{
	sysio_table = &sysio_real;
	fault_reset();
}

void fault_add(const struct fault_rule *rule)
{
	assert(rule->at >= 1 && rule->times >= 1);
	(void)pthread_mutex_lock(&state.lock);
	assert(state.rules_n < RULES_MAX);
	state.seen[state.rules_n] = 0;
	state.rules[state.rules_n++] = *rule;
	(void)pthread_mutex_unlock(&state.lock);
}

void fault_set_hooks(const struct fault_hooks *hooks)
{
	static const struct fault_hooks none;

	(void)pthread_mutex_lock(&state.lock);
	state.hooks = hooks == NULL ? none : *hooks;
	(void)pthread_mutex_unlock(&state.lock);
}

uint64_t fault_count(uint64_t calls)
{
	uint64_t sum = 0;

	(void)pthread_mutex_lock(&state.lock);
	for (unsigned i = 0; i < FAULT_CALLS; i++) {
		if ((calls & FAULT_BIT(i)) != 0)
			sum += state.counts[i];
	}
	(void)pthread_mutex_unlock(&state.lock);
	return sum;
}

uint64_t fault_hits(void)
{
	uint64_t hits = 0;

	(void)pthread_mutex_lock(&state.lock);
	hits = state.hits;
	(void)pthread_mutex_unlock(&state.lock);
	return hits;
}

const char *fault_call_name(enum fault_call call)
{
	/* In the order of the enum. */
	static const char *const names[] = { "openat", "openat+O_CREAT",
		"close", "poll", "read", "pread", "write", "pwrite", "lseek",
		"ftruncate", "fsync", "syncfs", "fallocate", "fchown",
		"fchownat", "fchmod", "fchmodat", "statx", "utimensat",
		"futimens", "setxattr", "fsetxattr", "fgetxattr", "flistxattr",
		"getxattr", "listxattr", "fremovexattr", "renameat2", "linkat",
		"symlinkat", "mknodat", "unlinkat", "mkdirat", "readlinkat",
		"fdopendir", "readdir", "closedir", "ofd_lock", "flock",
		"fstatvfs", "fstatfs", "ioctl", "clock_gettime", "nanosleep",
		"getrandom" };

	_Static_assert(sizeof(names) / sizeof(names[0]) == FAULT_CALLS,
	    "a name for each call");

	return names[call];
}
