/* SPDX-License-Identifier: MIT */
/*
 * I7: a touch or insert of a chunk, and a look at it followed by its removal
 * or rename, exclude each other, across threads and processes.
 *
 * Stop points hold one side in the middle of it; the other side is another
 * process.  Whoever is told that a chunk is there must find it afterwards.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LONG_AGO 1000000000
#define CUTOFF ((LONG_AGO + 1000) * CLOCK_NS_PER_S)
#define LIMIT_S 60

static const char blob[] = "a blob of more than a header";
static const struct store_insert_opts usual = { .sync = false };

/* What the other process does, and says. */
enum word {
	DO_SWEEP = 'S',
	DO_QUARANTINE = 'Q',
	DO_STOP = 's', /* the next one stops before it removes */
	DO_GO_ON = 'g',
	SAYS_STOPPED = 'x',
	SAYS_BUSY = 'b',
	SAYS_REMOVED = 'r',
	SAYS_KEPT = 'k',
	SAYS_GONE = 'n',
};

/* The other process, which removes. */
struct other {
	pid_t pid;
	int fd;
	bool stop;
};

struct fixture {
	struct storefix s;
	struct other other;
	struct digest c; /* the chunk in question: there, and old */
};

static void say(int fd, enum word w)
{
	char c = (char)w;

	if (write(fd, &c, 1) != 1)
		abort();
}

static enum word hear(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c = 0;

	if (poll(&p, 1, LIMIT_S * 1000) != 1 || read(fd, &c, 1) != 1)
		abort();
	return (enum word)c;
}

static void stop_before_removal(void *ctx, struct fault_event *ev)
{
	struct other *o = ctx;

	if (!o->stop ||
	    (ev->call != FAULT_UNLINKAT && ev->call != FAULT_RENAMEAT2))
		return;
	o->stop = false;
	say(o->fd, SAYS_STOPPED);
	if (hear(o->fd) != DO_GO_ON)
		abort();
}

static enum word do_sweep(struct fixture *f)
{
	struct store_victim v = { .kind = STORE_CHUNK };
	bool busy = false;

	digest_hex(&f->c, v.name);
	if (store_sweep(f->s.store, PREFIX, CUTOFF, &v, 1, &busy, &f->s.e) < 0)
		abort();
	if (busy)
		return SAYS_BUSY;
	if (v.outcome == STORE_VICTIM_REMOVED)
		return SAYS_REMOVED;
	return v.outcome == STORE_VICTIM_KEPT ? SAYS_KEPT : SAYS_GONE;
}

static enum word do_quarantine(struct fixture *f)
{
	bool done = false;
	int fd = -1;

	if (store_open_chunk(f->s.store, &f->c, &fd, &f->s.e) < 0 ||
	    store_quarantine(f->s.store, &f->c, fd, &done, &f->s.e) < 0)
		abort();
	(void)close(fd);
	return done ? SAYS_REMOVED : SAYS_KEPT;
}

_Noreturn static void be_other(struct fixture *f, int fd)
{
	char c = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	storefix_open(&f->s);
	f->other = (struct other){ .fd = fd };
	fault_install();
	fault_set_hooks(&(struct fault_hooks){
	    .before = stop_before_removal, .ctx = &f->other });
	while (read(fd, &c, 1) == 1) {
		if (c == DO_STOP)
			f->other.stop = true;
		else if (c == DO_SWEEP)
			say(fd, do_sweep(f));
		else if (c == DO_QUARANTINE)
			say(fd, do_quarantine(f));
	}
	_exit(0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fds[2];

	if (f == NULL)
		return -1;
	storefix_make(&f->s);
	f->c = storefix_digest(PREFIX, 1);
	storefix_put(&f->s, &f->c, "", blob, sizeof(blob));
	storefix_age(&f->s, &f->c, "", LONG_AGO, LONG_AGO);
	/* Each process opens for itself: a shared description shares locks. */
	storefix_close(&f->s);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	f->other.pid = fork();
	if (f->other.pid < 0)
		return -1;
	if (f->other.pid == 0) {
		(void)close(fds[0]);
		be_other(f, fds[1]);
	}
	(void)close(fds[1]);
	f->other.fd = fds[0];
	storefix_open(&f->s);
	fault_install();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)close(f->other.fd);
	(void)kill(f->other.pid, SIGKILL);
	(void)waitpid(f->other.pid, NULL, 0);
	fault_uninstall();
	storefix_remove(&f->s);
	free(f);
	return 0;
}

static enum word ask(struct fixture *f, enum word w)
{
	say(f->other.fd, w);
	return hear(f->other.fd);
}

/* A stop point of our own threads, and what they met at a lock. */
struct gate {
	pthread_mutex_t m;
	pthread_cond_t changed;
	bool armed; /* the next touch of the chunk stops */
	bool reached;
	bool open;
	bool refused; /* another process has the lock */
	bool done;    /* the job has returned */
};

#define GATE_INIT                                   \
	{                                           \
		.m = PTHREAD_MUTEX_INITIALIZER,     \
		.changed = PTHREAD_COND_INITIALIZER \
	}

static void gate_set(struct gate *g, bool *flag)
{
	(void)pthread_mutex_lock(&g->m);
	*flag = true;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->m);
}

/* Until one of the two is set. */
static void gate_wait(struct gate *g, const bool *flag, const bool *or_flag)
{
	struct timespec limit;

	(void)clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += LIMIT_S;
	(void)pthread_mutex_lock(&g->m);
	while (!*flag && !*or_flag) {
		if (pthread_cond_timedwait(&g->changed, &g->m, &limit) != 0)
			abort();
	}
	(void)pthread_mutex_unlock(&g->m);
}

static bool gate_get(struct gate *g, const bool *flag)
{
	bool value = false;

	(void)pthread_mutex_lock(&g->m);
	value = *flag;
	(void)pthread_mutex_unlock(&g->m);
	return value;
}

/* Names of the chunk in question end in 01s. */
static bool is_chunk(const char *name)
{
	size_t n = strlen(name);

	return n >= 64 && strcmp(name + n - 4, "0101") == 0;
}

static void gate_before(void *ctx, struct fault_event *ev)
{
	struct gate *g = ctx;
	bool stop = false;

	if (ev->call != FAULT_UTIMENSAT || !is_chunk(ev->name))
		return;
	(void)pthread_mutex_lock(&g->m);
	stop = g->armed;
	g->armed = false;
	(void)pthread_mutex_unlock(&g->m);
	if (!stop)
		return;
	gate_set(g, &g->reached);
	gate_wait(g, &g->open, &g->open);
}

static void gate_after(void *ctx, struct fault_event *ev)
{
	struct gate *g = ctx;

	if (ev->call == FAULT_OFD_LOCK && ev->result < 0)
		gate_set(g, &g->refused);
}

static void gate_install(struct gate *g)
{
	fault_set_hooks(&(struct fault_hooks){
	    .before = gate_before, .after = gate_after, .ctx = g });
}

/* A reuse, or an insert, in a thread of its own. */
struct job {
	pthread_t thread;
	struct store *store;
	struct digest d;
	struct gate *gate;
	bool insert;
	enum store_inserted inserted;
	bool hit;
	int rc;
	struct err e;
};

static void *job_run(void *arg)
{
	struct job *j = arg;

	if (j->insert)
		j->rc = store_insert(j->store, &j->d, blob, sizeof(blob),
		    &usual, &j->inserted, &j->e);
	else
		j->rc = store_reuse(j->store, &j->d, &j->hit, &j->e);
	gate_set(j->gate, &j->gate->done);
	return NULL;
}

static void job_start(
    struct job *j, struct fixture *f, struct gate *g, bool insert)
{
	*j = (struct job){
		.store = f->s.store, .d = f->c, .gate = g, .insert = insert
	};
	if (pthread_create(&j->thread, NULL, job_run, j) != 0)
		abort();
}

static void job_join(struct job *j)
{
	(void)pthread_join(j->thread, NULL);
	assert_ok(j->rc, &j->e);
}

static bool is_there(struct fixture *f)
{
	return storefix_has(&f->s, &f->c, "");
}

/*
 * Two threads of a session in one prefix.  The second has looked at the chunk
 * and is about to touch it; the first comes and goes, and its unlock must not
 * take the second's lock away.
 */
static void touch_against_sweep(struct fixture *f, bool insert)
{
	struct gate g = GATE_INIT;
	struct digest neighbour = storefix_digest(PREFIX, 2);
	enum word first_sweep = SAYS_GONE;
	struct job second;
	bool hit = false;
	int rc = 0;

	storefix_put(&f->s, &neighbour, "", blob, sizeof(blob));
	g.armed = true;
	gate_install(&g);
	job_start(&second, f, &g, insert);
	gate_wait(&g, &g.reached, &g.reached);
	rc = store_reuse(f->s.store, &neighbour, &hit, &f->s.e);
	/* The old time is still there for the sweep to see. */
	first_sweep = ask(f, DO_SWEEP);
	gate_set(&g, &g.open);
	job_join(&second);
	assert_ok(rc, &f->s.e);
	assert_true(hit);
	assert_int_equal(first_sweep, SAYS_BUSY);
	if (insert)
		assert_int_equal(second.inserted, STORE_HIT);
	else
		assert_true(second.hit);
	assert_true(is_there(f));
	assert_int_equal(ask(f, DO_SWEEP), SAYS_KEPT);
	assert_true(is_there(f));
}

static void test_reuse_against_sweep(void **state)
{
	touch_against_sweep(*state, false);
}

static void test_insert_against_sweep(void **state)
{
	touch_against_sweep(*state, true);
}

/*
 * The other process has looked and is about to remove: the job must wait, and
 * then not be told that the chunk is there.
 */
static void removal_against(
    struct fixture *f, enum word removal, struct job *j, bool insert)
{
	struct gate g = GATE_INIT;
	enum word said = SAYS_GONE;
	bool early = false;

	gate_install(&g);
	say(f->other.fd, DO_STOP);
	assert_int_equal(ask(f, removal), SAYS_STOPPED);
	job_start(j, f, &g, insert);
	/* It has asked for the lock in vain, or got through without it. */
	gate_wait(&g, &g.refused, &g.done);
	early = gate_get(&g, &g.done);
	said = ask(f, DO_GO_ON);
	job_join(j);
	assert_int_equal(said, SAYS_REMOVED);
	assert_false(early);
	if (insert) {
		assert_int_equal(j->inserted, STORE_NEW);
		assert_true(is_there(f));
	} else {
		assert_false(j->hit);
		assert_false(is_there(f));
	}
}

static void test_sweep_against_reuse(void **state)
{
	struct job j;

	removal_against(*state, DO_SWEEP, &j, false);
}

static void test_sweep_against_insert(void **state)
{
	struct job j;

	removal_against(*state, DO_SWEEP, &j, true);
}

static void test_quarantine_against_reuse(void **state)
{
	struct job j;

	removal_against(*state, DO_QUARANTINE, &j, false);
}

static void test_quarantine_against_insert(void **state)
{
	struct job j;

	removal_against(*state, DO_QUARANTINE, &j, true);
}

#define ROUNDS 100
#define PUSHERS 2 /* processes, of two threads each */

/* Between all processes of the last test. */
struct shared {
	pthread_barrier_t barrier;
	bool there[PUSHERS * 2]; /* what each was told */
	unsigned removed;
};

struct pusher {
	struct fixture *f;
	struct shared *shared;
	size_t n;
};

static void *push(void *arg)
{
	struct pusher *p = arg;
	struct timespec jitter = { .tv_sec = 0 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		enum store_inserted got = STORE_NEW;
		struct err e = ERR_INIT;
		bool hit = false;

		(void)pthread_barrier_wait(&p->shared->barrier);
		/* Else a sweep, the last to leave the barrier, never wins. */
		jitter.tv_nsec = (long)((round + p->n) % 8) * 20000;
		if (round % 2 == 0)
			(void)nanosleep(&jitter, NULL);
		if (store_reuse(p->f->s.store, &p->f->c, &hit, &e) < 0)
			abort();
		/* Every other thread has the content as well. */
		if (!hit && p->n % 2 == 0) {
			if (store_insert(p->f->s.store, &p->f->c, blob,
				sizeof(blob), &usual, &got, &e) < 0)
				abort();
			hit = true;
		}
		p->shared->there[p->n] = hit;
		(void)pthread_barrier_wait(&p->shared->barrier);
	}
	return NULL;
}

_Noreturn static void be_pusher(
    struct fixture *f, struct shared *shared, size_t n)
{
	struct pusher p[2] = { { f, shared, 2 * n }, { f, shared, 2 * n + 1 } };
	pthread_t thread;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	storefix_open(&f->s);
	if (pthread_create(&thread, NULL, push, &p[0]) != 0)
		abort();
	(void)push(&p[1]);
	(void)pthread_join(thread, NULL);
	_exit(0);
}

static void make_old(struct fixture *f)
{
	storefix_put(&f->s, &f->c, "", blob, sizeof(blob));
	storefix_age(&f->s, &f->c, "", LONG_AGO, LONG_AGO);
}

/* Two sessions and a sweep, all at once, again and again. */
static void test_many_rounds(void **state)
{
	struct fixture *f = *state;
	struct shared *shared = mmap(NULL, sizeof(*shared),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	pid_t pids[PUSHERS];

	assert_true(shared != MAP_FAILED);
	(void)pthread_barrierattr_init(&attr);
	(void)pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	assert_int_equal(
	    pthread_barrier_init(&shared->barrier, &attr, PUSHERS * 2 + 1), 0);
	/* Whoever aborts leaves the others at the barrier. */
	(void)alarm(4 * LIMIT_S);
	storefix_close(&f->s);
	for (size_t i = 0; i < PUSHERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			be_pusher(f, shared, i);
	}
	storefix_open(&f->s);
	for (unsigned round = 0; round < ROUNDS; round++) {
		enum word said = SAYS_BUSY;

		make_old(f);
		(void)pthread_barrier_wait(&shared->barrier);
		for (unsigned i = 0; i < 50 && said == SAYS_BUSY; i++)
			said = do_sweep(f);
		(void)pthread_barrier_wait(&shared->barrier);
		shared->removed += said == SAYS_REMOVED;
		for (size_t i = 0; i < TEST_COUNT(shared->there); i++)
			assert_true(!shared->there[i] || is_there(f));
	}
	for (size_t i = 0; i < PUSHERS; i++) {
		int status = 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	(void)alarm(0);
	print_message("%u of %d chunks removed\n", shared->removed, ROUNDS);
	(void)munmap(shared, sizeof(*shared));
}

#define RACE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RACE_TEST(test_reuse_against_sweep),
		RACE_TEST(test_insert_against_sweep),
		RACE_TEST(test_sweep_against_reuse),
		RACE_TEST(test_sweep_against_insert),
		RACE_TEST(test_quarantine_against_reuse),
		RACE_TEST(test_quarantine_against_insert),
		RACE_TEST(test_many_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
