/* SPDX-License-Identifier: MIT */
/* Putting chunks: step 7. */
#include <errno.h>
#include <pthread.h>

#include "datastore/base/clock.h"
#include "datastore/damage.h"
#include "datastore/registration.h"
#include "datastore/session.h"
#include "tests/support/sessionfix.h"

/* I2: what is there is touched; only what the base references is not. */
static void test_reuse(void **state)
{
	struct dsfix *f = *state;
	struct session_stats stats;
	struct backup_snapshot first;
	struct session *s = NULL;
	const struct pushfix again = { .group = "host/a",
		.base = &first,
		.reuse = { .first = 0, .n = 5 },
		.put = { .first = 5, .n = 6 } };

	sessionfix_run(f, &sessionfix_ten, &first);
	for (unsigned i = 0; i < 10; i++)
		sessionfix_set_old(f, i);
	s = sessionfix_open(f, &again);
	assert_true(session_base_fd(s) >= 0);
	assert_ok(pushfix_fill(s, &again, &f->e), &f->e);
	session_stats(s, &stats);
	assert_int_equal(stats.chunks, 6);
	assert_int_equal(stats.new_chunks, 1);
	assert_int_equal(stats.new_bytes, PUSHFIX_CHUNK);
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_int_equal(sessionfix_atime(f, 4), 1000);
	for (unsigned i = 5; i < 11; i++)
		assert_true(sessionfix_atime(f, i) > 1000);
	sessionfix_census(f, 2, 0, 1, 0);
}

static void test_put_bounds(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);
	struct codec *codec = NULL;
	struct buf scratch = BUF_INIT;
	enum session_put what;
	struct digest d;

	assert_ok(codec_new(&codec, &f->e), &f->e);
	assert_err(session_put(s, codec, &scratch, "", 0, &d, &what, &f->e),
	    &f->e, ERR_INVALID, "chunk of 0 bytes, want 1 to 16777216");
	assert_ok(
	    session_put(s, codec, &scratch, "x", 1, &d, &what, &f->e), &f->e);
	assert_int_equal(what, SESSION_NEW);
	assert_ok(
	    session_put(s, codec, &scratch, "x", 1, &d, &what, &f->e), &f->e);
	assert_int_equal(what, SESSION_REUSED);
	codec_free(codec);
	buf_release(&scratch);
	session_abort(s);
	sessionfix_census(f, 0, 0, 0, 0);
}

static size_t damaged_count(struct dsfix *f)
{
	struct damage *d = NULL;
	size_t n = 0;

	assert_ok(damage_read(f->ds, &d, &f->e), &f->e);
	n = damage_count(d);
	damage_free(d);
	return n;
}

/*
 * I2: a digest on the list is never reused, from the base or by touch; its
 * content is stored anew, synced, and only then the list says so.
 */
static void test_heal(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot first;
	char path[STORE_CHUNK_PATH_SIZE];
	struct digest d;
	struct session *s = NULL;
	struct session_stats stats;
	const struct pushfix again = { .group = "host/a",
		.base = &first,
		.reuse = { .first = 0, .n = 10 },
		.put = { .first = 3, .n = 1 } };

	sessionfix_run(f, &sessionfix_ten, &first);
	pushfix_digest(3, &d);
	store_chunk_path(&d, path);
	tmpdir_put_str(f->ds->chunks_fd, path, "rubbish of some length");
	assert_ok(damage_append(f->ds, &d, DAMAGE_BAD, &f->e), &f->e);
	fault_install();
	s = sessionfix_open(f, &again);
	assert_false(session_may_reference(s, &d));
	assert_ok(pushfix_fill(s, &again, &f->e), &f->e);
	session_stats(s, &stats);
	/* Put twice: for the base's entry, then again; stored once. */
	assert_int_equal(stats.chunks, 2);
	assert_int_equal(stats.new_chunks, 1);
	assert_int_equal(damaged_count(f), 0);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 2, 0, 1, 0);
}

struct heal_order {
	uint64_t chunk_synced;
	uint64_t healed;
};

static void see_heal(void *ctx, struct fault_event *ev)
{
	struct heal_order *o = ctx;

	if (ev->call == FAULT_WRITE && ev->n > 70 &&
	    memmem(ev->in, ev->n, " healed ", 8) != NULL)
		o->healed = ev->nth;
	if (ev->call == FAULT_FSYNC && o->healed == 0)
		o->chunk_synced = ev->nth;
}

static void test_heal_order(void **state)
{
	struct dsfix *f = *state;
	struct heal_order o = { .healed = 0 };
	const struct pushfix one = { .group = "host/a",
		.put = { .first = 3, .n = 1 } };
	struct digest d;
	struct session *s = NULL;

	pushfix_digest(3, &d);
	assert_ok(damage_append(f->ds, &d, DAMAGE_MISSING, &f->e), &f->e);
	s = sessionfix_open(f, &one);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = see_heal, .ctx = &o });
	assert_ok(pushfix_fill(s, &one, &f->e), &f->e);
	assert_true(o.healed > 0);
	assert_in_range(o.chunk_synced, 1, o.healed - 1);
	session_abort(s);
}

/* If that can not be said, the put fails: the base may not be trusted then. */
static void test_heal_fails(void **state)
{
	struct dsfix *f = *state;
	const struct pushfix one = { .group = "host/a",
		.put = { .first = 3, .n = 1 } };
	struct digest d;
	struct session *s = NULL;

	pushfix_digest(3, &d);
	assert_ok(damage_append(f->ds, &d, DAMAGE_MISSING, &f->e), &f->e);
	s = sessionfix_open(f, &one);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .name = "damaged",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EACCES });
	assert_err(pushfix_fill(s, &one, &f->e), &f->e, ERR_SYS, "damaged");
	session_abort(s);
	assert_int_equal(damaged_count(f), 1);
}

static void test_dry_run(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;
	struct session_stats stats;
	struct backup_snapshot first;
	struct pushfix p = { .group = "host/new",
		.put = { .first = 8, .n = 4 } };
	struct pushfix_range twice = { .first = 8, .n = 4 };

	sessionfix_run(f, &sessionfix_ten, &first);
	sessionfix_set_old(f, 8);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_ok(pushfix_opts(&p, &opts, &f->e), &f->e);
	opts.dry_run = true;
	opts.base = &first;
	fault_install();
	assert_ok(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e);
	assert_int_equal(session_dir_fd(s), -1);
	assert_true(session_base_fd(s) >= 0);
	assert_ok(pushfix_fill(s, &p, &f->e), &f->e);
	p.put = twice;
	assert_ok(session_add_blob(s, "c.conf.blob", "x", 1, &f->e), &f->e);
	assert_ok(session_beat(s, &f->e), &f->e);
	session_stats(s, &stats);
	assert_int_equal(stats.chunks, 4);
	assert_int_equal(stats.new_chunks, 2);
	assert_ok(session_commit(s, &f->e), &f->e);
	assert_int_equal(fault_count(FAULT_CHANGES), 0);
	assert_int_equal(
	    fault_count(FAULT_BIT(FAULT_FLOCK) | FAULT_BIT(FAULT_OFD_LOCK)), 0);
	assert_int_equal(sessionfix_atime(f, 8), 1000);
	assert_false(dsfix_has(f, "host/new"));
}

/* What would have been stored once counts as there the second time. */
static void test_dry_run_repeats(void **state)
{
	struct dsfix *f = *state;
	struct session_opts opts;
	struct session *s = NULL;
	struct codec *codec = NULL;
	struct buf scratch = BUF_INIT;
	enum session_put what = SESSION_NEW;
	struct digest d;

	assert_ok(pushfix_opts(&sessionfix_ten, &opts, &f->e), &f->e);
	opts.dry_run = true;
	assert_ok(session_open(f->ds, &opts, &f->task, &s, &f->e), &f->e);
	assert_ok(codec_new(&codec, &f->e), &f->e);
	for (int i = 0; i < 2; i++) {
		for (int c = 0; c < 200; c++) {
			assert_ok(session_put(s, codec, &scratch, &c, sizeof(c),
				      &d, &what, &f->e),
			    &f->e);
			assert_int_equal(
			    what, i == 0 ? SESSION_NEW : SESSION_REUSED);
		}
	}
	codec_free(codec);
	buf_release(&scratch);
	session_abort(s);
}

enum { THREADS = 4, EACH = 60 };

struct putter {
	struct session *s;
	unsigned first;
	unsigned new_chunks;
	int rc;
};

static void *put_many(void *arg)
{
	struct putter *p = arg;
	struct codec *codec = NULL;
	struct buf scratch = BUF_INIT;
	struct err e = ERR_INIT;
	uint8_t bytes[PUSHFIX_CHUNK];

	p->rc = codec_new(&codec, &e);
	for (unsigned i = 0; p->rc == 0 && i < EACH; i++) {
		enum session_put what = SESSION_REUSED;
		struct digest d;

		/* Half of its chunks are the next thread's, too. */
		pushfix_chunk(p->first + i, bytes);
		p->rc = session_put(
		    p->s, codec, &scratch, bytes, sizeof(bytes), &d, &what, &e);
		p->new_chunks += what == SESSION_NEW;
		if (p->rc == 0)
			p->rc = session_beat(p->s, &e);
	}
	buf_release(&scratch);
	codec_free(codec);
	return NULL;
}

/* Each chunk is new once, whoever comes first; damaged ones among them. */
static void test_threads(void **state)
{
	struct dsfix *f = *state;
	struct putter p[THREADS] = { { .rc = 0 } };
	pthread_t threads[THREADS];
	struct session_stats stats;
	struct session *s = NULL;
	struct digest d;
	unsigned new_chunks = 0;

	for (unsigned i = 0; i < 5; i++) {
		pushfix_digest(i * 40, &d);
		assert_ok(damage_append(f->ds, &d, DAMAGE_BAD, &f->e), &f->e);
	}
	s = sessionfix_open(f, &sessionfix_ten);
	for (unsigned i = 0; i < THREADS; i++) {
		p[i].s = s;
		p[i].first = i * EACH / 2;
		assert_int_equal(
		    pthread_create(&threads[i], NULL, put_many, &p[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(p[i].rc, 0);
		new_chunks += p[i].new_chunks;
	}
	session_stats(s, &stats);
	assert_int_equal(stats.chunks, THREADS * EACH);
	assert_int_equal(stats.bytes, THREADS * EACH * PUSHFIX_CHUNK);
	assert_int_equal(stats.new_chunks, new_chunks);
	/* Two that heal one chunk at once both store it: at most 4 more. */
	assert_in_range(
	    new_chunks, (THREADS + 1) * EACH / 2, (THREADS + 1) * EACH / 2 + 4);
	session_abort(s);
	assert_int_equal(damaged_count(f), 1);
}

/*
 * I3 (schedule 12): the clock steps back under a session.  Whatever it touches
 * or inserts has a time behind the start that others can read, at that moment.
 */
struct steps {
	struct dsfix *f;
	int64_t shift_s; /* of the file clock and ours */
	bool missed;     /* it has looked for the new chunk in vain */
	unsigned looks;
	unsigned too_late;
};

static bool is_chunk_name(const char *name)
{
	return name != NULL && strlen(name) >= DIGEST_HEX_SIZE - 1;
}

static void tell_shifted(void *ctx, struct fault_event *ev)
{
	struct steps *s = ctx;
	struct statx *st = ev->p;
	struct timespec *ts = ev->p;

	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_REALTIME) {
		ts->tv_sec += s->shift_s;
		/* Once more, behind the look at the clock that follows the one
		 * for the chunk: while it is compressed. */
		if (s->missed)
			s->shift_s = -7200;
	}
	if (ev->call == FAULT_STATX && ev->result < 0)
		s->missed = true;
	/* The registration's times, unless they come from a cache. */
	if (ev->call != FAULT_STATX || ev->result < 0 || ev->name[0] != '\0' ||
	    (ev->flags & AT_STATX_FORCE_SYNC) == 0)
		return;
	st->stx_atime.tv_sec += s->shift_s;
	st->stx_mtime.tv_sec += s->shift_s;
}

static void look_at_start(void *ctx, struct fault_event *ev)
{
	struct steps *s = ctx;
	struct registration_list l = { .n = 0 };
	struct err e = ERR_INIT;

	if (!(ev->call == FAULT_UTIMENSAT && is_chunk_name(ev->name)) &&
	    !(ev->call == FAULT_RENAMEAT2 && is_chunk_name(ev->to_name)))
		return;
	assert_ok(registration_list(s->f->ds, &l, &e), &e);
	assert_int_equal(l.n, 1);
	s->looks++;
	s->too_late +=
	    clock_filetime_s(l.items[0].start) > clock_now_s() + s->shift_s;
	registration_list_release(&l);
}

static void test_clock_steps(void **state)
{
	struct dsfix *f = *state;
	struct steps steps = { .f = f };
	struct backup_snapshot first;
	struct session *s = NULL;
	/* One that is there, one that is not. */
	const struct pushfix again = { .group = "host/b",
		.put = { .first = 9, .n = 2 } };

	sessionfix_run(f, &sessionfix_ten, &first);
	s = sessionfix_open(f, &again);
	steps.shift_s = -3600;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){
	    .before = look_at_start, .after = tell_shifted, .ctx = &steps });
	assert_ok(pushfix_fill(s, &again, &f->e), &f->e);
	fault_uninstall();
	assert_int_equal(steps.looks, 2);
	assert_int_equal(steps.too_late, 0);
	session_abort(s);
}

/*
 * The same between the look at the clock and the touch: a collection that
 * begins then has read a start that is too late, and removes what was touched.
 */
struct behind {
	struct dsfix *f;
	int64_t shift_s;
	unsigned touches;
	unsigned removed;
};

static void step_before_touch(void *ctx, struct fault_event *ev)
{
	struct behind *b = ctx;

	if (ev->call == FAULT_UTIMENSAT && is_chunk_name(ev->name) &&
	    b->touches++ == 0)
		b->shift_s = -3600;
}

static void remove_behind_touch(void *ctx, struct fault_event *ev)
{
	struct behind *b = ctx;
	struct timespec *ts = ev->p;

	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_REALTIME)
		ts->tv_sec += b->shift_s;
	if (ev->call == FAULT_UTIMENSAT && is_chunk_name(ev->name) &&
	    ev->result == 0 && b->removed++ == 0)
		assert_int_equal(unlinkat(ev->fd, ev->name, 0), 0);
}

static void test_clock_steps_behind_the_beat(void **state)
{
	struct dsfix *f = *state;
	struct behind b = { .f = f };
	char path[STORE_CHUNK_PATH_SIZE];
	struct backup_snapshot first;
	struct session_stats stats;
	struct digest d;
	struct stat st;
	struct session *s = NULL;
	const struct pushfix again = { .group = "host/b",
		.put = { .first = 9, .n = 1 } };

	sessionfix_run(f, &sessionfix_ten, &first);
	s = sessionfix_open(f, &again);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = step_before_touch,
	    .after = remove_behind_touch,
	    .ctx = &b });
	assert_ok(pushfix_fill(s, &again, &f->e), &f->e);
	fault_uninstall();
	assert_int_equal(b.removed, 1);
	/* It has looked again, found nothing, and stored it. */
	session_stats(s, &stats);
	assert_int_equal(stats.new_chunks, 1);
	pushfix_digest(9, &d);
	store_chunk_path(&d, path);
	assert_int_equal(fstatat(f->ds->chunks_fd, path, &st, 0), 0);
	session_abort(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_reuse),
		SESSION_TEST(test_put_bounds),
		SESSION_TEST(test_heal),
		SESSION_TEST(test_heal_order),
		SESSION_TEST(test_heal_fails),
		SESSION_TEST(test_dry_run),
		SESSION_TEST(test_dry_run_repeats),
		SESSION_TEST(test_threads),
		SESSION_TEST(test_clock_steps),
		SESSION_TEST(test_clock_steps_behind_the_beat),
	};

	return cmocka_run_group_tests_name("session_put", tests, NULL, NULL);
}
