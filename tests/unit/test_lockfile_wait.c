/* SPDX-License-Identifier: MIT */
#include "datastore/base/lockfile.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "tests/support/foreign.h"
#include "tests/support/lockfix.h"

#define NS_PER_MS 1000000LL

/* Could another process have it? */
static bool foreign_gets(const struct fixture *f, uint64_t byte, short type)
{
	return foreign_can_byte(f->dir.fd, LOCK_NAME, byte, type);
}

static const struct foreign_lock exclusive_7 = {
	.type = F_WRLCK,
	.start = 7,
	.len = 1,
};

static void test_wait_timeout(void **state)
{
	static const uint64_t timeouts[] = { 0, 120 };
	struct fixture *f = *state;
	struct foreign_holder h;

	foreign_start(f->dir.fd, LOCK_NAME, &exclusive_7, &h);
	assert_true(try_lock(f, 8, LOCK_SHARED));
	for (size_t i = 0; i < 2 * TEST_COUNT(timeouts); i++) {
		/* One held by another process, one by this one. */
		uint64_t byte = i % 2 == 0 ? 7 : 8;
		uint64_t timeout_ms = timeouts[i / 2];
		int64_t start = clock_boot_ns();

		assert_err(wait_lock(f, byte, LOCK_EXCLUSIVE, timeout_ms),
		    &f->e, ERR_BUSY,
		    byte == 7 ? "lock byte 7 of 'store/.lock' is held"
			      : "lock byte 8 of 'store/.lock' is held");
		assert_true(
		    clock_boot_ns() - start >= (int64_t)timeout_ms * NS_PER_MS);
	}
	/* Whoever gave up is no longer in the way. */
	assert_true(try_lock(f, 8, LOCK_SHARED));
	assert_ok(wait_lock(f, 8, LOCK_SHARED, 0), &f->e);
	foreign_end(&h);
	assert_ok(wait_lock(f, 7, LOCK_EXCLUSIVE, 0), &f->e);
}

static void *stop_soon(void *arg)
{
	struct fixture *f = arg;

	clock_sleep_ms(50);
	atomic_store(&f->task.stop, SIGTERM);
	return NULL;
}

static void test_wait_cancel(void **state)
{
	struct fixture *f = *state;
	struct foreign_holder h;

	foreign_start(f->dir.fd, LOCK_NAME, &exclusive_7, &h);
	assert_true(try_lock(f, 8, LOCK_EXCLUSIVE));
	for (uint64_t byte = 7; byte <= 8; byte++) {
		pthread_t t;
		int rc = 0;

		atomic_store(&f->task.stop, 0);
		assert_int_equal(pthread_create(&t, NULL, stop_soon, f), 0);
		rc = wait_lock(f, byte, LOCK_SHARED, UINT64_MAX);
		(void)pthread_join(t, NULL);
		assert_err(rc, &f->e, ERR_CANCELLED, "stopped by SIGTERM");
	}
	foreign_end(&h);
}

static void *kill_soon(void *arg)
{
	const struct foreign_holder *h = arg;

	clock_sleep_ms(50);
	(void)kill(h->pid, SIGKILL);
	return NULL;
}

static void test_killed_holder(void **state)
{
	struct fixture *f = *state;
	struct foreign_holder h;
	pthread_t t;

	foreign_start(f->dir.fd, LOCK_NAME, &exclusive_7, &h);
	assert_false(try_lock(f, 7, LOCK_SHARED));
	assert_int_equal(pthread_create(&t, NULL, kill_soon, &h), 0);
	assert_ok(wait_lock(f, 7, LOCK_EXCLUSIVE, LONG_MS), &f->e);
	(void)pthread_join(t, NULL);
	foreign_end(&h);
}

/* Makes each second look at the clock a second later. */
static void run_fast(void *ctx, struct fault_event *ev)
{
	atomic_llong *ahead = ctx;

	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_BOOTTIME) {
		struct timespec *ts = ev->p;

		ts->tv_sec += (time_t)atomic_fetch_add(ahead, 1);
	}
}

struct said {
	struct fixture *f;
	unsigned times;
	struct task *task;
	bool usable;
};

static void say(void *ctx, struct task *task)
{
	struct said *said = ctx;
	bool taken = false;

	said->times++;
	said->task = task;
	/* The lockfile is not locked meanwhile. */
	said->usable = lockfile_try(said->f->lf, 1, LOCK_SHARED, &taken,
			   &said->f->e) == 0 &&
	    taken;
}

static void test_wait_says(void **state)
{
	struct fixture *f = *state;
	struct said said = { .f = f };
	struct foreign_holder h;
	atomic_llong ahead = 0;
	struct fault_hooks hooks = { .after = run_fast, .ctx = &ahead };
	int rc = 0;

	foreign_start(f->dir.fd, LOCK_NAME, &exclusive_7, &h);
	fault_install();
	fault_set_hooks(&hooks);
	/* Said at 5 s: not in a wait of 4, once in one of 7. */
	rc = lockfile_wait(
	    f->lf, 7, LOCK_SHARED, 4000, &f->task, say, &said, &f->e);
	assert_err(rc, &f->e, ERR_BUSY, "is held");
	assert_int_equal(said.times, 0);
	rc = lockfile_wait(
	    f->lf, 7, LOCK_SHARED, 7000, &f->task, say, &said, &f->e);
	assert_err(rc, &f->e, ERR_BUSY, "is held");
	assert_int_equal(said.times, 1);
	assert_ptr_equal(said.task, &f->task);
	assert_true(said.usable);
	foreign_end(&h);
}

/* Threads that queue up for byte 7, and the order in which they get it. */
struct queue {
	struct fixture *f;
	atomic_uint got;
};

struct queued {
	struct queue *queue;
	enum lock_mode mode;
	pthread_t thread;
	sem_t go_on;
	int rc;
	atomic_uint place; /* 0: not yet */
};

static void *queue_up(void *arg)
{
	struct queued *q = arg;
	struct fixture *f = q->queue->f;
	struct err e = ERR_INIT;

	q->rc = lockfile_wait(
	    f->lf, 7, q->mode, UINT64_MAX, &f->task, NULL, NULL, &e);
	if (q->rc < 0)
		return NULL;
	atomic_store(&q->place, atomic_fetch_add(&q->queue->got, 1) + 1);
	(void)sem_wait(&q->go_on);
	lockfile_unlock(f->lf, 7, q->mode);
	return NULL;
}

static void queued_start(
    struct queue *queue, enum lock_mode mode, struct queued *q)
{
	q->queue = queue;
	q->mode = mode;
	assert_int_equal(sem_init(&q->go_on, 0, 0), 0);
	assert_int_equal(pthread_create(&q->thread, NULL, queue_up, q), 0);
}

static void queued_end(struct queued *q)
{
	(void)sem_post(&q->go_on);
	(void)pthread_join(q->thread, NULL);
	(void)sem_destroy(&q->go_on);
	assert_int_equal(q->rc, 0);
}

static void await_place(struct queued *q, unsigned place)
{
	for (unsigned ms = 0; atomic_load(&q->place) == 0; ms++) {
		assert_true(ms < LONG_MS);
		clock_sleep_ms(1);
	}
	assert_int_equal(atomic_load(&q->place), place);
}

/*
 * Readers hold the byte, one after the other without a gap, and a writer gets
 * it all the same: who comes after the writer waits behind it.
 */
static void test_writer_not_starved(void **state)
{
	struct fixture *f = *state;
	struct queue queue = { .f = f };
	struct queued writer = { .place = 0 };
	struct queued reader = { .place = 0 };

	assert_ok(wait_lock(f, 7, LOCK_SHARED, 0), &f->e);
	queued_start(&queue, LOCK_EXCLUSIVE, &writer);
	/* Once the writer is in the queue, no reader gets past it. */
	while (wait_lock(f, 7, LOCK_SHARED, 0) == 0) {
		lockfile_unlock(f->lf, 7, LOCK_SHARED);
		clock_sleep_ms(1);
	}
	assert_int_equal(f->e.code, ERR_BUSY);
	queued_start(&queue, LOCK_SHARED, &reader);
	/* But a try waits for nobody, so it need not queue. */
	assert_true(try_lock(f, 7, LOCK_SHARED));
	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	clock_sleep_ms(120);
	assert_int_equal(atomic_load(&queue.got), 0);

	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	await_place(&writer, 1);
	assert_false(foreign_gets(f, 7, F_RDLCK));
	assert_int_equal(atomic_load(&queue.got), 1);
	queued_end(&writer);
	await_place(&reader, 2);
	assert_true(foreign_gets(f, 7, F_RDLCK));
	queued_end(&reader);
	assert_true(foreign_gets(f, 7, F_WRLCK));
}

/* Holds up the kernel's answer for one byte. */
struct slow_kernel {
	off_t byte;
	short type;
	sem_t asked;
	sem_t answer;
};

static void hold_up(void *ctx, struct fault_event *ev)
{
	struct slow_kernel *k = ctx;
	const struct flock *l = ev->p;

	if (ev->call != FAULT_OFD_LOCK || l->l_start != k->byte ||
	    l->l_type != k->type)
		return;
	(void)sem_post(&k->asked);
	(void)sem_wait(&k->answer);
}

static void *answer_soon(void *arg)
{
	struct slow_kernel *k = arg;

	clock_sleep_ms(50);
	(void)sem_post(&k->answer);
	return NULL;
}

static void *unlock_7(void *arg)
{
	struct fixture *f = arg;

	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	return NULL;
}

/*
 * While the kernel takes its time over one byte, as NFS does, others are not
 * held up, and nobody is told that this one is held.
 */
static void test_slow_kernel(void **state)
{
	struct fixture *f = *state;
	struct slow_kernel k = { .byte = 7, .type = F_UNLCK };
	struct fault_hooks hooks = { .before = hold_up, .ctx = &k };
	pthread_t unlocker;
	pthread_t answerer;

	assert_int_equal(sem_init(&k.asked, 0, 0), 0);
	assert_int_equal(sem_init(&k.answer, 0, 0), 0);
	fault_install();
	assert_true(try_lock(f, 7, LOCK_SHARED));
	fault_set_hooks(&hooks);
	assert_int_equal(pthread_create(&unlocker, NULL, unlock_7, f), 0);
	(void)sem_wait(&k.asked);
	assert_true(try_lock(f, 8, LOCK_EXCLUSIVE));
	lockfile_unlock(f->lf, 8, LOCK_EXCLUSIVE);
	assert_int_equal(pthread_create(&answerer, NULL, answer_soon, &k), 0);
	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	(void)pthread_join(unlocker, NULL);
	(void)pthread_join(answerer, NULL);
	assert_false(foreign_gets(f, 7, F_RDLCK));
	(void)sem_destroy(&k.asked);
	(void)sem_destroy(&k.answer);
}

#define STRESS_THREADS 4
#define STRESS_ROUNDS 150

struct stress {
	struct fixture *f;
	unsigned a; /* equal, but while somebody has the byte exclusively */
	unsigned b;
	atomic_uint failures;
};

static void *stress(void *arg)
{
	struct stress *s = arg;
	struct lockfile *lf = s->f->lf;
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < STRESS_ROUNDS; i++) {
		enum lock_mode mode = i % 3 == 0 ? LOCK_EXCLUSIVE : LOCK_SHARED;

		if (lockfile_wait(lf, 7, mode, LONG_MS, &s->f->task, NULL, NULL,
			&e) < 0) {
			atomic_fetch_add(&s->failures, 1);
			return NULL;
		}
		if (mode == LOCK_EXCLUSIVE) {
			s->a++;
			(void)sched_yield();
			s->b++;
		} else if (s->a != s->b) {
			atomic_fetch_add(&s->failures, 1);
		}
		lockfile_unlock(lf, 7, mode);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct stress s = { .f = f };
	pthread_t threads[STRESS_THREADS];

	for (size_t i = 0; i < STRESS_THREADS; i++) {
		assert_int_equal(
		    pthread_create(&threads[i], NULL, stress, &s), 0);
	}
	for (size_t i = 0; i < STRESS_THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&s.failures), 0);
	assert_int_equal(s.a, STRESS_THREADS * STRESS_ROUNDS / 3);
	assert_int_equal(s.b, s.a);
	assert_true(foreign_gets(f, 7, F_WRLCK));
}

/* Count up under the lock, slowly, so that a missing lock loses counts. */
static int count_up(struct lockfile *lf, volatile unsigned *counter,
    struct task *task, struct err *e)
{
	for (unsigned i = 0; i < 40; i++) {
		unsigned seen = 0;
		int rc = lockfile_wait(
		    lf, 7, LOCK_EXCLUSIVE, LONG_MS, task, NULL, NULL, e);

		if (rc < 0)
			return rc;
		seen = *counter;
		(void)sched_yield();
		*counter = seen + 1;
		lockfile_unlock(lf, 7, LOCK_EXCLUSIVE);
	}
	return 0;
}

static void test_processes(void **state)
{
	struct fixture *f = *state;
	volatile unsigned *counter = mmap(NULL, sizeof(*counter),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t pid = 0;

	assert_true(counter != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct lockfile *lf = NULL;

		if (lockfile_open(f->dir.fd, LOCK_NAME, &lf, SHOWN, &f->e) < 0)
			_exit(1);
		_exit(count_up(lf, counter, &f->task, &f->e) < 0 ? 2 : 0);
	}
	assert_ok(count_up(f->lf, counter, &f->task, &f->e), &f->e);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(*counter, 80);
	(void)munmap((void *)(uintptr_t)counter, sizeof(*counter));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_wait_timeout),
		TEST(test_wait_cancel),
		TEST(test_killed_holder),
		TEST(test_wait_says),
		TEST(test_writer_not_starved),
		TEST(test_slow_kernel),
		TEST(test_threads),
		TEST(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
