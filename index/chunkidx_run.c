/* SPDX-License-Identifier: MIT */
#include "index/chunkidx_run.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/chunkidx_internal.h"
#include "index/cixwriter.h"

/* Names that may be taken by others meanwhile. */
#define NAME_TRIES 100
#define CAP_FIRST 1024U

struct chunkrun {
	struct datastore *ds;
	struct chunkidx_place place;
	pthread_mutex_t mutex;
	struct cixwriter *w; /* NULL: to be made */
	struct cix_entry *x;
	size_t n;
	size_t cap;
	struct err why; /* the first reason that something was dropped */
};

/*
 * The file of the next run, empty and locked: who finds one that nobody has
 * locked knows that chunks were stored which no run tells of.
 */
static int make_file(struct chunkrun *r, struct err *e)
{
	struct cix_info info = { .kind = CIX_RUN };
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int rc = 0;

	if (r->w != NULL)
		return 0;
	memcpy(info.store, r->ds->id, sizeof(info.store));
	rc = cixwriter_new(r->place.runs_fd, r->place.shown, &info,
	    &r->ds->owner, false, &r->w, e);
	if (rc == 0 && sysio_ofd_lock(cixwriter_fd(r->w), F_OFD_SETLK, &l) != 0)
		rc = err_sys(e, "lock a file in '%s'", r->place.shown);
	if (rc < 0) {
		cixwriter_free(r->w);
		r->w = NULL;
	}
	return rc;
}

/* Something is dropped: the next garbage collection has to look for it. */
static void lose(struct chunkrun *r, const struct err *why)
{
	struct chunkidx_control c = { .generation = 0 };
	struct err ignored = ERR_INIT;

	if (r->why.code != ERR_OK)
		return;
	r->why = *why;
	if (chunkidx_control_read(r->ds, &r->place, &c, &ignored) == 0 &&
	    c.generation != 0)
		chunkidx_note_lacking(&r->place, c.generation);
}

int chunkrun_new(struct datastore *ds, struct chunkrun **ret, struct err *e)
{
	struct chunkrun *r = calloc(1, sizeof(*r));
	struct err why = ERR_INIT;
	int rc = 0;

	if (r == NULL)
		return err_nomem(e);
	r->ds = ds;
	r->place = (struct chunkidx_place)CHUNKIDX_PLACE_INIT;
	(void)pthread_mutex_init(&r->mutex, NULL);
	rc = chunkidx_place_open(ds, false, &r->place, e);
	if (rc < 0) {
		chunkrun_free(r);
		return rc;
	}
	if (r->place.runs_fd >= 0 && make_file(r, &why) < 0)
		lose(r, &why);
	*ret = r;
	return 0;
}

void chunkrun_free(struct chunkrun *r)
{
	if (r == NULL)
		return;
	cixwriter_free(r->w);
	chunkidx_place_close(&r->place);
	(void)pthread_mutex_destroy(&r->mutex);
	free(r->x);
	free(r);
}

static int compare(const void *a, const void *b)
{
	const struct cix_entry *x = a;
	const struct cix_entry *y = b;

	return digest_compare(&x->digest, &y->digest);
}

/* Of equal ones any: one command says one thing of a chunk. */
static size_t unique(struct cix_entry *x, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && digest_equal(&x[kept - 1].digest, &x[i].digest))
			continue;
		x[kept] = x[i];
		kept++;
	}
	return kept;
}

struct last_run {
	uint64_t sequence;
};

static int see_name(void *ctx, const char *name, struct err *e)
{
	struct last_run *last = ctx;
	uint64_t sequence = 0;

	(void)e;
	if (chunkidx_is_run_name(name, &sequence) && sequence > last->sequence)
		last->sequence = sequence;
	return 0;
}

/* A sequence behind all that there is and was. */
static int find_sequence(struct chunkrun *r, uint64_t *ret, struct err *e)
{
	struct chunkidx_control c = { .merged = 0 };
	struct last_run last = { .sequence = 0 };
	int rc = file_each_name(
	    r->place.runs_fd, see_name, &last, r->place.shown, e);

	if (rc < 0)
		return rc;
	rc = chunkidx_control_read(r->ds, &r->place, &c, e);
	if (rc == ERR_NOTFOUND)
		rc = err_forget(e);
	*ret = 1 + (c.merged > last.sequence ? c.merged : last.sequence);
	return rc;
}

/*
 * A merge that ended between the look and the naming has merged all up to a
 * sequence that ours may be below: then nobody would read it.
 */
static int name_it(struct chunkrun *r, struct err *e)
{
	struct chunkidx_control c = { .merged = 0 };
	char name[CHUNKIDX_NAME_SIZE];
	uint64_t sequence = 0;
	int rc = find_sequence(r, &sequence, e);

	for (unsigned i = 0; rc == 0 && i < NAME_TRIES; i++) {
		rc = cixwriter_renumber(r->w, sequence, e);
		chunkidx_run_name(sequence, name);
		if (rc == 0)
			rc = cixwriter_name(r->w, name, e);
		if (rc == ERR_EXISTS) {
			sequence++;
			rc = err_forget(e);
			continue;
		}
		if (rc < 0)
			return rc;
		rc = chunkidx_control_read(r->ds, &r->place, &c, e);
		if (rc == ERR_NOTFOUND)
			return err_forget(e);
		if (rc == 0 && c.merged >= sequence)
			rc = err_set(e, ERR_BUSY,
			    "the chunk index in '%s' was merged meanwhile",
			    r->place.shown);
		return rc;
	}
	return rc < 0
	    ? rc
	    : err_set(e, ERR_BUSY, "no free name in '%s'", r->place.shown);
}

static int write_run(struct chunkrun *r, struct err *e)
{
	size_t n = 0;
	int rc = make_file(r, e);

	if (rc < 0)
		return rc;
	qsort(r->x, r->n, sizeof(*r->x), compare);
	n = unique(r->x, r->n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = cixwriter_append(r->w, &r->x[i], e);
	if (rc == 0)
		rc = cixwriter_finish(r->w, e);
	if (rc == 0)
		rc = name_it(r, e);
	cixwriter_free(r->w);
	r->w = NULL;
	return rc;
}

/* The mutex is held. */
static void flush(struct chunkrun *r)
{
	struct err e = ERR_INIT;

	if (r->n > 0 && write_run(r, &e) < 0)
		lose(r, &e);
	r->n = 0;
}

static bool grow(struct chunkrun *r)
{
	size_t cap = r->cap == 0 ? CAP_FIRST : r->cap * 2;
	struct cix_entry *p = reallocarray(r->x, cap, sizeof(*p));

	if (p == NULL)
		return false;
	r->x = p;
	r->cap = cap;
	return true;
}

void chunkrun_add(struct chunkrun *r, const struct cix_entry *x)
{
	struct err why = ERR_INIT;

	if (r->place.runs_fd < 0)
		return;
	pthread_mutex_lock(&r->mutex);
	if (r->n == CHUNKRUN_MAX)
		flush(r);
	if (r->n < r->cap || grow(r)) {
		r->x[r->n] = *x;
		r->n++;
	} else {
		(void)err_nomem(&why);
		lose(r, &why);
	}
	pthread_mutex_unlock(&r->mutex);
}

void chunkrun_stored(void *ctx, const struct digest *d, uint64_t bytes)
{
	const struct cix_entry x = {
		.digest = *d,
		.size = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes,
	};

	chunkrun_add(ctx, &x);
}

const char *chunkrun_commit(struct chunkrun *r)
{
	pthread_mutex_lock(&r->mutex);
	flush(r);
	pthread_mutex_unlock(&r->mutex);
	return r->why.code == ERR_OK ? "" : r->why.msg;
}
