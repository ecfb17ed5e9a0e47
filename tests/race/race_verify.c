/* SPDX-License-Identifier: MIT */
/*
 * I7, I2: verify beside others.  No good chunk is ever renamed, and none is
 * called healed that is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "index/verify.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"

#define CHUNKS 8U
#define HURT 5U /* which one is damaged */

static void push_image(struct restorefix *f)
{
	size_t n = CHUNKS * CHUNK;

	restorefix_push(f, IMG, restorefix_bytes(f, GEN_RANDOM, n), n);
}

static int verify(struct restorefix *f, struct verify_result *ret)
{
	f->e = (struct err)ERR_INIT;
	buf_reset(&f->messages);
	return verify_run(f->ds, &f->id, 1, &f->task, ret, &f->e);
}

/*
 * What others do when verify has read a bad chunk, has put it on the list,
 * and is about to take the lock for the rename.
 */
struct meddler {
	struct restorefix *f;
	struct digest d;
	void (*act)(struct meddler *m);
	atomic_uint times; /* left */
	atomic_uint said_healed;
	char *good; /* the raw chunk as it was */
	size_t good_n;
	struct datastore *ds; /* a second one, as another process has it */
	struct verify_result other;
	int forgot;
};

static void meddle(void *ctx, struct fault_event *ev)
{
	struct meddler *m = ctx;
	const struct flock *l = ev->p;

	if (ev->call == FAULT_WRITE &&
	    memmem(ev->in, ev->n, " healed ", 8) != NULL)
		m->said_healed++;
	if (ev->call != FAULT_OFD_LOCK || l->l_type != F_WRLCK ||
	    l->l_start != (off_t)(LOCK_BYTE_PREFIX + digest_prefix(&m->d)) ||
	    m->times == 0)
		return;
	m->times--;
	m->act(m);
}

static void put_beside(struct meddler *m, const char *p, size_t n)
{
	char path[PATH_MAX];
	char tmp[PATH_MAX];

	restorefix_chunk_path(&m->d, "", path);
	restorefix_chunk_path(&m->d, ".tmp_AbCdEf", tmp);
	tmpdir_put(m->f->dir.fd, tmp, p, n);
	if (renameat(m->f->dir.fd, tmp, m->f->dir.fd, path) < 0)
		abort();
}

static void replace_by_good(struct meddler *m)
{
	put_beside(m, m->good, m->good_n);
}

static void replace_by_bad(struct meddler *m)
{
	put_beside(m, "bad again, and long enough", 26);
}

static void take_away(struct meddler *m)
{
	char path[PATH_MAX];

	restorefix_chunk_path(&m->d, "", path);
	if (unlinkat(m->f->dir.fd, path, 0) < 0)
		abort();
}

/* The other one goes first. */
static void verify_too(struct meddler *m)
{
	struct task silent = TASK_SILENT;
	struct err e = ERR_INIT;

	if (verify_run(m->ds, &m->f->id, 1, &silent, &m->other, &e) < 0)
		abort();
}

/* ... and a push of the same data follows before the first goes on. */
static void verify_and_push_too(struct meddler *m)
{
	struct datastore *mine = m->f->ds;
	struct backup_snapshot id = m->f->id;

	verify_too(m);
	m->f->ds = m->ds;
	push_image(m->f);
	m->f->ds = mine;
	m->f->id = id;
}

static struct verify_result run_meddled(struct restorefix *f, struct meddler *m,
    void (*act)(struct meddler *m), unsigned times)
{
	struct fault_hooks hooks = { .before = meddle, .ctx = m };
	char path[PATH_MAX];
	struct verify_result r;
	int rc = 0;

	push_image(f);
	*m = (struct meddler){ .f = f, .act = act, .times = times };
	m->d = restorefix_entry(f, IMG, HURT).digest;
	restorefix_chunk_path(&m->d, "", path);
	m->good = tmpdir_get(f->dir.fd, path, &m->good_n);
	restorefix_spoil(f, &m->d, SPOIL_CRC);
	assert_ok(datastore_open(f->path, DATASTORE_WRITE, NULL, &m->ds, &f->e),
	    &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	rc = verify(f, &r);
	fault_uninstall();
	datastore_close(m->ds);
	free(m->good);
	verify_result_release(&m->other);
	assert_ok(rc, &f->e);
	assert_int_equal(m->times, 0);
	return r;
}

static void does_not_rename_a_good_one_in_its_place(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, replace_by_good, 1);

	assert_int_equal(r.hurt_n, 0);
	assert_int_equal(r.bad_chunks, 0);
	assert_true(restorefix_has_chunk(f, &m.d, ""));
	assert_false(restorefix_has_chunk(f, &m.d, ".0.bad"));
	assert_int_equal(m.said_healed, 1);
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void judges_what_is_in_its_place(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, replace_by_bad, 1);
	char path[PATH_MAX];
	struct stat st;

	assert_int_equal(r.bad_chunks, 1);
	assert_false(restorefix_has_chunk(f, &m.d, ""));
	restorefix_chunk_path(&m.d, ".0.bad", path);
	assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
	assert_int_equal(st.st_size, 26);
	assert_int_equal(m.said_healed, 0);
	assert_int_equal(restorefix_listed(f, &m.d, "bad"), 1);
	verify_result_release(&r);
}

static void gives_up_on_what_is_never_the_same(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, replace_by_bad, 3);

	assert_int_equal(r.unreadable_chunks, 1);
	assert_int_equal(r.hurt_n, 1);
	assert_int_equal(restorefix_said(f, "replaced 3 times"), 1);
	assert_true(restorefix_has_chunk(f, &m.d, ""));
	assert_int_equal(m.said_healed, 0);
	verify_result_release(&r);
}

static void does_not_call_healed_what_is_gone(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, take_away, 1);

	assert_int_equal(r.missing_chunks, 1);
	assert_int_equal(m.said_healed, 0);
	assert_int_equal(restorefix_listed(f, &m.d, "missing"), 1);
	verify_result_release(&r);
}

/* I7, two at once: the other one renamed it. */
static void two_at_once_leave_it_on_the_list(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, verify_too, 1);

	assert_int_equal(r.missing_chunks, 1);
	assert_int_equal(r.bad_chunks, 0);
	assert_false(restorefix_has_chunk(f, &m.d, ""));
	assert_true(restorefix_has_chunk(f, &m.d, ".0.bad"));
	assert_false(restorefix_has_chunk(f, &m.d, ".1.bad"));
	assert_int_equal(m.said_healed, 0);
	assert_int_equal(restorefix_listed(f, &m.d, "missing"), 1);
	verify_result_release(&r);
}

/* I7: the good copy that a push put in its place stays. */
static void two_at_once_do_not_rename_what_was_pushed(void **state)
{
	struct restorefix *f = *state;
	struct meddler m;
	struct verify_result r = run_meddled(f, &m, verify_and_push_too, 1);

	assert_int_equal(r.hurt_n, 0);
	assert_true(restorefix_has_chunk(f, &m.d, ""));
	assert_true(restorefix_has_chunk(f, &m.d, ".0.bad"));
	assert_false(restorefix_has_chunk(f, &m.d, ".1.bad"));
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.hurt_n, 0);
	verify_result_release(&r);
}

/* Not by stop points but by luck: many of them over many bad chunks. */
struct runner {
	pthread_t thread;
	struct restorefix *f;
	struct datastore *ds;
	int rc;
	struct err e;
};

static void *verify_thrice(void *arg)
{
	struct runner *r = arg;
	struct task silent = TASK_SILENT;

	for (int i = 0; i < 3 && r->rc == 0; i++) {
		struct verify_result result = { .hurt = NULL };

		r->rc =
		    verify_run(r->ds, &r->f->id, 1, &silent, &result, &r->e);
		verify_result_release(&result);
	}
	return NULL;
}

static void races_with_pushes(void **state)
{
	struct restorefix *f = *state;
	struct runner runners[2];
	struct verify_result r;
	size_t n = CHUNKS * CHUNK;
	struct backup_snapshot old;

	push_image(f);
	old = f->id;
	for (size_t i = 0; i < CHUNKS; i++) {
		struct digest d = restorefix_entry(f, IMG, i).digest;

		restorefix_spoil(f, &d, SPOIL_CRC);
	}
	for (size_t i = 0; i < TEST_COUNT(runners); i++) {
		runners[i] = (struct runner){ .f = f };
		assert_ok(datastore_open(f->path, DATASTORE_WRITE, NULL,
			      &runners[i].ds, &f->e),
		    &f->e);
	}
	for (size_t i = 0; i < TEST_COUNT(runners); i++)
		assert_int_equal(pthread_create(&runners[i].thread, NULL,
				     verify_thrice, &runners[i]),
		    0);
	/* f->id, which the others read, stays the first one's. */
	for (int i = 0; i < 4; i++) {
		struct restorefix mine = *f;
		struct session *s = NULL;

		restorefix_begin(&mine);
		restorefix_add(&mine, IMG, f->own, n);
		s = mine.session;
		/* Refused while chunks of it are found bad meanwhile. */
		if (session_commit(s, &mine.e) < 0)
			assert_int_equal(mine.e.code, ERR_BUSY);
	}
	for (size_t i = 0; i < TEST_COUNT(runners); i++) {
		(void)pthread_join(runners[i].thread, NULL);
		datastore_close(runners[i].ds);
		assert_ok(runners[i].rc, &runners[i].e);
	}
	/* When all is quiet: one push makes all of it whole. */
	push_image(f);
	f->id = old;
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.hurt_n, 0);
	assert_int_equal(restorefix_list_lines(f), 0);
	for (size_t i = 0; i < CHUNKS; i++) {
		struct digest d = restorefix_entry(f, IMG, i).digest;

		/* Only the one that was bad was ever renamed. */
		assert_false(restorefix_has_chunk(f, &d, ".1.bad"));
	}
}

/* Somebody forgets the snapshot when its index is about to be read. */
static void forget_too(void *ctx, struct fault_event *ev)
{
	struct meddler *m = ctx;
	struct task silent = TASK_SILENT;
	struct err e = ERR_INIT;

	if (ev->call != FAULT_OPENAT || m->times == 0 ||
	    strstr(ev->name, "index.json") != NULL ||
	    strstr(ev->name, IMG) == NULL)
		return;
	m->times--;
	m->forgot = snapshot_forget(m->ds, &m->f->id, &silent, &e);
}

/* Who reads a snapshot holds it: a forget is refused (case 6). */
static void what_is_read_stays(void **state)
{
	struct restorefix *f = *state;
	struct meddler m = { .f = f, .times = 1 };
	const struct fault_hooks hooks = { .before = forget_too, .ctx = &m };
	struct verify_result r;

	push_image(f);
	assert_ok(datastore_open(f->path, DATASTORE_WRITE, NULL, &m.ds, &f->e),
	    &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(verify(f, &r), &f->e);
	fault_uninstall();
	assert_int_equal(m.times, 0);
	assert_int_equal(m.forgot, ERR_BUSY);
	assert_int_equal(r.hurt_n + r.busy, 0);
	assert_int_equal(r.snapshots, 1);
	verify_result_release(&r);
	/* And only as long as it is read. */
	assert_ok(snapshot_forget(m.ds, &f->id, &f->task, &f->e), &f->e);
	datastore_close(m.ds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(does_not_rename_a_good_one_in_its_place),
		RESTOREFIX_TEST(judges_what_is_in_its_place),
		RESTOREFIX_TEST(gives_up_on_what_is_never_the_same),
		RESTOREFIX_TEST(does_not_call_healed_what_is_gone),
		RESTOREFIX_TEST(two_at_once_leave_it_on_the_list),
		RESTOREFIX_TEST(two_at_once_do_not_rename_what_was_pushed),
		RESTOREFIX_TEST(what_is_read_stays),
		RESTOREFIX_TEST(races_with_pushes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
