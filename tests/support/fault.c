/* SPDX-License-Identifier: MIT */
#include "tests/support/fault.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fault_internal.h"

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

static bool matches(const struct fault_rule *rule, const struct fault_event *ev)
{
	if ((rule->calls & FAULT_BIT(ev->call)) == 0)
		return false;
	if (rule->name == NULL)
		return true;
	return (ev->name != NULL && strstr(ev->name, rule->name) != NULL) ||
	    (ev->to_name != NULL && strstr(ev->to_name, rule->name) != NULL);
}

static void count(struct fault_passage *c)
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
    void (*hook)(void *ctx, struct fault_event *ev), struct fault_passage *c)
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
static void settle(struct fault_passage *c, int64_t result, int error)
{
	c->ev.result = result;
	c->ev.result_p = NULL;
	c->ev.error = error;
	c->ev.skip = true;
}

/* A strike before the call.  Those that come after it are left to end(). */
static void strike_before(struct fault_passage *c)
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

bool fault_call_begin(struct fault_passage *c)
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

void fault_call_done(struct fault_passage *c, int64_t result)
{
	c->ev.result = result;
	c->ev.error = errno;
}

void fault_call_done_p(struct fault_passage *c, void *result)
{
	c->ev.result_p = result;
	c->ev.error = errno;
}

static void strike_after(struct fault_passage *c)
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

int64_t fault_call_end(struct fault_passage *c)
{
	if (!c->bypass) {
		if (!c->ev.skip && c->strike.times > 0)
			strike_after(c);
		run_hook(c->hooks.after, c);
	}
	errno = c->ev.error;
	return c->ev.result;
}

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
		"fdopendir", "readdir", "closedir", "getdents64", "ofd_lock",
		"flock", "fstatvfs", "fstatfs", "ioctl", "clock_gettime",
		"nanosleep", "getrandom" };

	_Static_assert(sizeof(names) / sizeof(names[0]) == FAULT_CALLS,
	    "a name for each call");

	return names[call];
}
