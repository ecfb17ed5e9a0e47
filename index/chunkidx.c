/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/chunkidx_internal.h"
#include "index/cixwriter.h"

#define LOCK_BYTE 0

const char *chunkidx_state_name(enum chunkidx_state s)
{
	static const char *const names[] = {
		[CHUNKIDX_OFF] = "off",
		[CHUNKIDX_NONE] = "none",
		[CHUNKIDX_PARTIAL] = "partial",
		[CHUNKIDX_READY] = "ready",
	};

	return names[s];
}

/* A state with its reason; the reason of an error is forgotten with it. */
static void settle(
    struct chunkidx *ix, enum chunkidx_state state, struct err *e)
{
	ix->state = state;
	(void)snprintf(ix->why, sizeof(ix->why), "%s", e->msg);
	(void)err_forget(e);
}

static int compare_runs(const void *a, const void *b)
{
	const struct chunkidx_run *x = a;
	const struct chunkidx_run *y = b;

	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

bool chunkidx_is_lost(const struct chunkidx *ix, const char *name)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = -1;
	bool lost = false;

	if (strncmp(name, CIXWRITER_TMP, sizeof(CIXWRITER_TMP) - 1) != 0)
		return false;
	fd = sysio_openat(ix->place.runs_fd, name,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	lost = fd >= 0 && sysio_ofd_lock(fd, F_OFD_GETLK, &l) == 0 &&
	    l.l_type == F_UNLCK;
	file_close(&fd);
	return lost;
}

static int add_run(void *ctx, const char *name, struct err *e)
{
	struct chunkidx *ix = ctx;
	char shown[CAIRNDIR_SHOWN + CHUNKIDX_NAME_SIZE];
	struct chunkidx_run run = { .c = NULL };
	struct chunkidx_run *p = NULL;
	int rc = 0;

	ix->lost_runs += chunkidx_is_lost(ix, name) ? 1 : 0;
	if (!chunkidx_is_run_name(name, &run.sequence) ||
	    run.sequence <= ix->control.merged ||
	    ix->runs_n == CHUNKIDX_RUNS_MAX)
		return 0;
	(void)snprintf(shown, sizeof(shown), "%s/" CHUNKIDX_RUNS "/%s",
	    ix->place.shown, name);
	rc = cix_open(ix->place.runs_fd, name, shown, &run.c, e);
	if (rc == 0 &&
	    (cix_info(run.c)->kind != CIX_RUN ||
		cix_info(run.c)->number != run.sequence ||
		strcmp(cix_info(run.c)->store, ix->ds->id) != 0)) {
		cix_close(run.c);
		rc = err_set(e, ERR_CORRUPT, "'%s' is of another index", shown);
	}
	if (rc == ERR_NOMEM)
		return rc;
	/* A run that is lost costs touches. */
	if (rc < 0) {
		ix->bad_runs++;
		return err_forget(e);
	}
	p = reallocarray(ix->runs, ix->runs_n + 1, sizeof(*p));
	if (p == NULL) {
		cix_close(run.c);
		return err_nomem(e);
	}
	ix->runs = p;
	ix->runs[ix->runs_n] = run;
	ix->runs_n++;
	return 0;
}

static int load_runs(struct chunkidx *ix, struct err *e)
{
	int rc = 0;

	if (ix->place.runs_fd < 0)
		return 0;
	rc = file_each_name(ix->place.runs_fd, add_run, ix, ix->place.shown, e);
	if (rc == ERR_NOMEM)
		return rc;
	if (rc < 0)
		(void)err_forget(e);
	if (ix->runs_n > 1)
		qsort(ix->runs, ix->runs_n, sizeof(*ix->runs), compare_runs);
	return 0;
}

static int load_base(struct chunkidx *ix, struct err *e)
{
	char name[CHUNKIDX_NAME_SIZE];
	char shown[CAIRNDIR_SHOWN + CHUNKIDX_NAME_SIZE];
	const struct cix_info *info = NULL;
	int rc = 0;

	if (ix->control.generation == 0)
		return err_set(e, ERR_NOTFOUND,
		    "it was not made yet: 'cairn index rebuild', or the next "
		    "garbage collection, does");
	chunkidx_base_name(ix->control.generation, name);
	(void)snprintf(shown, sizeof(shown), "%s/%s", ix->place.shown, name);
	rc = cix_open(ix->place.fd, name, shown, &ix->base, e);
	if (rc < 0)
		return rc;
	info = cix_info(ix->base);
	if (info->kind != CIX_BASE || info->number != ix->control.generation ||
	    strcmp(info->store, ix->ds->id) != 0)
		rc = err_set(e, ERR_CORRUPT, "'%s' is of another index", shown);
	else if (info->trust == CIX_TRUST_NONE)
		rc = err_set(e, ERR_REFUSED,
		    "removals could not be recorded in it, for lack of room");
	if (rc == 0)
		rc = chunkidx_gone_open(ix, e);
	if (rc < 0) {
		cix_close(ix->base);
		ix->base = NULL;
	}
	return rc;
}

static bool is_other_upid(const struct chunkidx *ix)
{
	return ix->has_upid && strcmp(ix->upid, ix->control.upid) != 0 &&
	    strcmp(ix->upid, ix->control.next_upid) != 0;
}

void chunkidx_unload(struct chunkidx *ix)
{
	for (size_t i = 0; i < ix->runs_n; i++)
		cix_close(ix->runs[i].c);
	free(ix->runs);
	ix->runs = NULL;
	ix->runs_n = 0;
	ix->bad_runs = 0;
	ix->lost_runs = 0;
	cix_close(ix->base);
	ix->base = NULL;
	file_close(&ix->gone_fd);
	ix->gone_at = UINT64_MAX;
	memset(&ix->known, 0, sizeof(ix->known));
	memset(&ix->control, 0, sizeof(ix->control));
	ix->why[0] = '\0';
}

int chunkidx_load(struct chunkidx *ix, struct err *e)
{
	int rc = chunkidx_control_read(ix->ds, &ix->place, &ix->control, e);

	if (rc == ERR_NOTFOUND)
		rc = err_forget(e);
	if (rc == 0)
		rc = load_base(ix, e);
	if (rc == ERR_NOMEM)
		return rc;
	if (rc < 0) {
		settle(ix, CHUNKIDX_NONE, e);
		return load_runs(ix, e);
	}
	ix->known = ix->control.known;
	ix->state = cix_shards_count(&ix->known) == CIX_SHARDS
	    ? CHUNKIDX_READY
	    : CHUNKIDX_PARTIAL;
	if (ix->state == CHUNKIDX_PARTIAL)
		(void)snprintf(ix->why, sizeof(ix->why),
		    "%u of %u parts are not known: 'cairn index rebuild', or "
		    "the next garbage collection, finds them",
		    CIX_SHARDS - cix_shards_count(&ix->known), CIX_SHARDS);
	if (is_other_upid(ix)) {
		(void)snprintf(ix->why, sizeof(ix->why),
		    "garbage was collected without it, by another program");
		memset(&ix->known, 0, sizeof(ix->known));
		ix->state = CHUNKIDX_PARTIAL;
	}
	return load_runs(ix, e);
}

int chunkidx_open(struct datastore *ds, const char *upid, struct chunkidx **ret,
    struct err *e)
{
	struct chunkidx *ix = calloc(1, sizeof(*ix));
	int rc = 0;

	if (ix == NULL)
		return err_nomem(e);
	ix->ds = ds;
	ix->gone_fd = -1;
	ix->gone_at = UINT64_MAX;
	ix->has_upid = upid != NULL;
	(void)snprintf(
	    ix->upid, sizeof(ix->upid), "%s", upid == NULL ? "" : upid);
	rc = chunkidx_place_open(ds, false, &ix->place, e);
	if (rc == 0 && ix->place.off[0] != '\0') {
		ix->state = CHUNKIDX_OFF;
		(void)snprintf(ix->why, sizeof(ix->why), "%s", ix->place.off);
	} else if (rc == 0 && ix->place.fd < 0) {
		ix->state = CHUNKIDX_NONE;
		(void)snprintf(ix->why, sizeof(ix->why),
		    "it was not made yet: 'cairn index rebuild', or the next "
		    "garbage collection, does");
	} else if (rc == 0) {
		rc = chunkidx_load(ix, e);
	}
	if (rc < 0) {
		chunkidx_close(ix);
		return rc;
	}
	*ret = ix;
	return 0;
}

void chunkidx_close(struct chunkidx *ix)
{
	if (ix == NULL)
		return;
	chunkidx_unlock(ix);
	chunkidx_unload(ix);
	lockfile_close(ix->locks);
	chunkidx_place_close(&ix->place);
	free(ix->gone);
	free(ix);
}

static bool is_busy(struct chunkidx *ix)
{
	struct err ignored = ERR_INIT;
	struct lockfile *lf = NULL;
	bool held = false;

	if (ix->place.fd < 0 || ix->locked ||
	    lockfile_open(ix->place.fd, CHUNKIDX_LOCK, &lf, ix->place.shown,
		&ignored) < 0)
		return false;
	if (lockfile_is_held(lf, LOCK_BYTE, LOCK_EXCLUSIVE, &held, &ignored) <
	    0)
		held = false;
	lockfile_close(lf);
	return held;
}

static void add_stats(struct cix_stats *sum, struct cix *c)
{
	struct cix_stats s;

	cix_stats(c, &s);
	sum->pages_read += s.pages_read;
	sum->lookups += s.lookups;
	sum->bad_pages += s.bad_pages;
	if (sum->first_bad[0] == '\0')
		memcpy(sum->first_bad, s.first_bad, sizeof(s.first_bad));
}

void chunkidx_get_info(struct chunkidx *ix, struct chunkidx_info *ret)
{
	struct chunkidx_info r = {
		.state = ix->state,
		.generation = ix->control.generation,
		.known = ix->known,
		.runs = (unsigned)ix->runs_n,
		.scanned = ix->control.scanned,
		.busy = is_busy(ix),
		.lacking = ix->lost_runs > 0,
	};

	(void)snprintf(r.why, sizeof(r.why), "%s", ix->why);
	(void)snprintf(r.dir, sizeof(r.dir), "%.*s", (int)sizeof(r.dir) - 1,
	    ix->place.shown);
	if (ix->base != NULL) {
		r.base_entries = cix_info(ix->base)->entries;
		r.chunks = cix_info(ix->base)->present;
		r.bytes = cix_info(ix->base)->bytes;
		r.merged = cix_info(ix->base)->made;
		r.lacking =
		    r.lacking || cix_info(ix->base)->trust != CIX_TRUST_ALL;
		add_stats(&r.stats, ix->base);
	}
	/* They were not checked; more than all can not be gone. */
	if (ix->base != NULL && ix->gone_n <= r.chunks &&
	    ix->gone_bytes <= r.bytes) {
		r.gone = ix->gone_n;
		r.chunks -= ix->gone_n;
		r.bytes -= ix->gone_bytes;
	}
	for (size_t i = 0; i < ix->runs_n; i++) {
		const struct cix_info *info = cix_info(ix->runs[i].c);

		r.run_entries += info->entries;
		r.chunks += info->present;
		r.bytes += info->bytes;
		add_stats(&r.stats, ix->runs[i].c);
	}
	*ret = r;
}

bool chunkidx_knows(const struct chunkidx *ix, const struct digest *d)
{
	return cix_shards_has(&ix->known, d->b[0]);
}

enum chunkidx_found chunkidx_find(
    struct chunkidx *ix, const struct digest *d, struct chunkidx_hit *ret)
{
	bool unreadable = ix->bad_runs > 0;

	*ret = (struct chunkidx_hit){ .in_base = false };
	for (size_t i = ix->runs_n; i-- > 0;) {
		enum cix_found f =
		    cix_find(ix->runs[i].c, d, &ret->entry, NULL);

		ret->run = ix->runs[i].sequence;
		if (f == CIX_FOUND)
			return (ret->entry.flags & CIX_REMOVED) != 0
			    ? CHUNKIDX_REMOVED
			    : CHUNKIDX_PRESENT;
		unreadable = unreadable || f == CIX_UNREADABLE;
	}
	ret->in_base = true;
	if (ix->base == NULL)
		return CHUNKIDX_UNKNOWN;
	switch (cix_find(ix->base, d, &ret->entry, &ret->rank)) {
	case CIX_FOUND:
		return chunkidx_is_gone(ix, ret->rank) ? CHUNKIDX_REMOVED
						       : CHUNKIDX_PRESENT;
	case CIX_UNREADABLE:
		return CHUNKIDX_UNKNOWN;
	case CIX_ABSENT:
		break;
	}
	return unreadable || !chunkidx_knows(ix, d) ? CHUNKIDX_UNKNOWN
						    : CHUNKIDX_ABSENT;
}

struct cix *chunkidx_base(struct chunkidx *ix)
{
	return ix->base;
}

/* The file of the lock is made once, and never replaced. */
static int make_lock(
    struct datastore *ds, const struct chunkidx_place *p, struct err *e)
{
	int fd = sysio_openat(p->fd, CHUNKIDX_LOCK,
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
	int rc = 0;

	if (fd < 0)
		return err_sys(e, "make the lock of '%s'", p->shown);
	rc = file_set_owner(fd, &ds->owner, FILE_MODE, p->shown, e);
	file_close(&fd);
	return rc;
}

int chunkidx_make(struct datastore *ds, struct err *e)
{
	struct chunkidx_place p = CHUNKIDX_PLACE_INIT;
	int rc = chunkidx_place_open(ds, true, &p, e);

	if (rc == 0 && p.off[0] != '\0')
		rc = err_set(
		    e, ERR_UNSUPPORTED, "there is no chunk index: %s", p.off);
	if (rc == 0)
		rc = make_lock(ds, &p, e);
	chunkidx_place_close(&p);
	return rc;
}

int chunkidx_lock(struct chunkidx *ix, bool *ret_taken, struct err *e)
{
	int rc = 0;

	*ret_taken = false;
	if (ix->place.fd < 0)
		return err_set(
		    e, ERR_UNSUPPORTED, "there is no chunk index: %s", ix->why);
	if (ix->locks == NULL)
		rc = lockfile_open(ix->place.fd, CHUNKIDX_LOCK, &ix->locks,
		    ix->place.shown, e);
	if (rc == 0)
		rc = lockfile_try(
		    ix->locks, LOCK_BYTE, LOCK_EXCLUSIVE, ret_taken, e);
	if (rc < 0 || !*ret_taken)
		return rc;
	/* What was there when it was opened may be merged by now. */
	ix->locked = true;
	chunkidx_unload(ix);
	rc = chunkidx_load(ix, e);
	if (rc < 0)
		chunkidx_unlock(ix);
	return rc;
}

void chunkidx_unlock(struct chunkidx *ix)
{
	if (ix->locked)
		lockfile_unlock(ix->locks, LOCK_BYTE, LOCK_EXCLUSIVE);
	ix->locked = false;
}

int chunkidx_set_trust(const struct chunkidx_place *p, uint64_t generation,
    enum cix_trust trust, struct err *e)
{
	const uint8_t byte = (uint8_t)trust;
	char name[CHUNKIDX_NAME_SIZE];
	int fd = -1;
	int rc = 0;

	chunkidx_base_name(generation, name);
	fd = sysio_openat(p->fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return err_sys(e, "open '%s/%s'", p->shown, name);
	rc = file_pwrite_fully(
	    fd, &byte, sizeof(byte), CIX_TRUST_AT, p->shown, e);
	if (rc == 0)
		rc = file_sync(fd, p->shown, e);
	file_close(&fd);
	return rc;
}

void chunkidx_note_lacking(const struct chunkidx_place *p, uint64_t generation)
{
	char name[CHUNKIDX_NAME_SIZE];
	struct err ignored = ERR_INIT;
	struct cix *c = NULL;

	chunkidx_base_name(generation, name);
	if (cix_open(p->fd, name, p->shown, &c, &ignored) == 0 &&
	    cix_info(c)->trust != CIX_TRUST_NONE)
		(void)chunkidx_set_trust(
		    p, generation, CIX_TRUST_LACKING, &ignored);
	cix_close(c);
}

int chunkidx_distrust(struct chunkidx *ix, struct err *e)
{
	int rc = 0;

	if (ix->base == NULL)
		return 0;
	rc = chunkidx_set_trust(
	    &ix->place, ix->control.generation, CIX_TRUST_NONE, e);
	/* Where nothing is written in place that needs room; to remove the
	 * control file gives some. */
	if (rc < 0)
		rc = file_unlink_at(
		    ix->place.fd, CHUNKIDX_CONTROL, ix->place.shown, e);
	if (rc == 0)
		(void)err_forget(e);
	memset(&ix->known, 0, sizeof(ix->known));
	ix->state = CHUNKIDX_NONE;
	return rc;
}

int chunkidx_removing(struct chunkidx *ix, bool begins, struct err *e)
{
	char name[CHUNKIDX_NAME_SIZE];
	struct cix *c = NULL;
	enum cix_trust trust = CIX_TRUST_NONE;
	int rc = 0;

	/* A push may have noted meanwhile that something is lacking. */
	chunkidx_base_name(ix->control.generation, name);
	rc = cix_open(ix->place.fd, name, ix->place.shown, &c, e);
	if (rc < 0)
		return rc;
	trust = cix_info(c)->trust;
	cix_close(c);
	if (trust != (begins ? CIX_TRUST_ALL : CIX_TRUST_REMOVING))
		return 0;
	return chunkidx_set_trust(&ix->place, ix->control.generation,
	    begins ? CIX_TRUST_REMOVING : CIX_TRUST_ALL, e);
}

int chunkidx_note(
    struct chunkidx *ix, const struct chunkidx_note *note, struct err *e)
{
	struct chunkidx_control c = ix->control;
	int rc = 0;

	chunkidx_apply_note(&c, note);
	rc = chunkidx_control_write(ix->ds, &ix->place, &c, e);
	if (rc == 0)
		ix->control = c;
	return rc;
}
