/* SPDX-License-Identifier: MIT */
/*
 * The part of session.h that puts chunks (step 7).
 */
#include "datastore/base/clock.h"
#include "datastore/blob.h"
#include "datastore/session_internal.h"
#include "datastore/store.h"

/* min-free is looked at while chunks are put, but not for each. */
#define SPACE_EVERY_NS CLOCK_NS_PER_S

bool session_may_reference(const struct session *s, const struct digest *d)
{
	return !damage_contains(s->damage, d);
}

void session_stats(const struct session *s, struct session_stats *ret)
{
	*ret = (struct session_stats){
		.chunks = atomic_load(&s->chunks),
		.new_chunks = atomic_load(&s->new_chunks),
		.bytes = atomic_load(&s->bytes),
		.new_bytes = atomic_load(&s->new_bytes),
		.stored_bytes = atomic_load(&s->stored_bytes),
	};
}

int session_beat(struct session *s, struct err *e)
{
	int rc = task_check(s->task, e);

	if (rc < 0 || s->opts.dry_run)
		return rc;
	rc = registration_beat(s->registration, e);
	if (rc < 0)
		return rc;
	return datastore_check_min_free(s->ds, &s->opts.min_free, e);
}

/* min-free, now and then. */
static int look_at_space(struct session *s, struct err *e)
{
	int64_t now = clock_boot_ns();
	bool due = false;

	pthread_mutex_lock(&s->mutex);
	due = now - s->space_looked >= SPACE_EVERY_NS;
	if (due)
		s->space_looked = now;
	pthread_mutex_unlock(&s->mutex);
	if (!due)
		return 0;
	return datastore_check_min_free(s->ds, &s->opts.min_free, e);
}

static bool is_known_bad(struct session *s, const struct digest *d)
{
	bool healed = false;

	if (!damage_contains(s->damage, d))
		return false;
	pthread_mutex_lock(&s->mutex);
	healed = digestset_contains(&s->healed, d);
	pthread_mutex_unlock(&s->mutex);
	return !healed;
}

/* After the fsync of the chunk, and only then, the list may say so (I2). */
static int note_healed(struct session *s, const struct digest *d, struct err *e)
{
	bool added = false;
	int rc = damage_append(s->ds, d, DAMAGE_HEALED, e);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&s->mutex);
	rc = digestset_add(&s->healed, d, &added, e);
	pthread_mutex_unlock(&s->mutex);
	return rc;
}

/* raw: the chunk's file.  *ret_new: it is ours now, or would be. */
static int insert(struct session *s, const struct digest *d,
    const struct buf *raw, bool known_bad, bool *ret_new, struct err *e)
{
	const struct store_insert_opts opts = {
		.sync = s->opts.sync_level == SYNC_FILE || known_bad,
		.known_bad = known_bad,
	};
	bool is_new = s->opts.dry_run;
	int64_t ahead = 0;
	int rc = 0;

	*ret_new = is_new;
	if (s->opts.dry_run)
		return 0;
	rc = look_at_space(s, e);
	do {
		enum store_inserted what = STORE_HIT;

		/* Compressing takes its time; the clock is looked at again. */
		ahead = registration_ahead();
		if (rc == 0)
			rc = registration_beat(s->registration, e);
		if (rc == 0) {
			rc = store_insert(s->ds->store, d, raw->data, raw->len,
			    &opts, &what, e);
		}
		is_new = is_new || what != STORE_HIT;
	} while (rc == 0 && registration_has_lost(ahead));
	if (rc == 0 && known_bad)
		rc = note_healed(s, d, e);
	*ret_new = is_new;
	return rc;
}

/* Is it there?  Before each touch, first the file clock (I3), and behind it a
 * look if that was set back meanwhile. */
static int look_up_touch(
    struct session *s, const struct digest *d, bool *ret_hit, struct err *e)
{
	int64_t ahead = 0;
	int rc = 0;

	do {
		ahead = registration_ahead();
		rc = registration_beat(s->registration, e);
		if (rc == 0)
			rc = store_reuse(s->ds->store, d, ret_hit, e);
	} while (rc == 0 && registration_has_lost(ahead));
	return rc;
}

/* The same in a dry run: a look, and memory of what would be there by now. */
static int look_up_dry(struct session *s, const struct digest *d,
    bool known_bad, bool *ret_hit, struct err *e)
{
	struct store_entry entry = { .kind = STORE_OTHER };
	bool found = false;
	bool added = false;
	int rc = store_stat(s->ds->store, d, &entry, &found, e);

	if (rc < 0)
		return rc;
	*ret_hit = found && !known_bad && entry.regular &&
	    entry.bytes > BLOB_HEADER_SIZE;
	if (*ret_hit)
		return 0;
	pthread_mutex_lock(&s->mutex);
	rc = digestset_add(&s->seen, d, &added, e);
	pthread_mutex_unlock(&s->mutex);
	if (rc == 0)
		*ret_hit = !added;
	return rc;
}

/* A digest on the damage list is not there, whatever there is (I2). */
static int look_up(struct session *s, const struct digest *d,
    bool *ret_known_bad, bool *ret_hit, struct err *e)
{
	*ret_known_bad = is_known_bad(s, d);
	*ret_hit = false;
	if (s->opts.dry_run)
		return look_up_dry(s, d, *ret_known_bad, ret_hit, e);
	return *ret_known_bad ? 0 : look_up_touch(s, d, ret_hit, e);
}

/* NOLINTNEXTLINE(readability-function-size): one call per chunk */
int session_put(struct session *s, struct codec *codec, struct buf *scratch,
    const void *plain, size_t n, struct digest *ret_digest,
    enum session_put *ret, struct err *e)
{
	struct digest d = { .b = { 0 } };
	bool known_bad = false;
	bool hit = false;
	bool is_new = false;
	int rc = task_check(s->task, e);

	if (rc == 0 && (n < 1 || n > CHUNK_MAX_PLAIN)) {
		rc = err_set(e, ERR_INVALID, "chunk of %zu bytes, want 1 to %u",
		    n, CHUNK_MAX_PLAIN);
	}
	if (rc == 0)
		rc = digest_of(plain, n, &d, e);
	if (rc == 0)
		rc = look_up(s, &d, &known_bad, &hit, e);
	if (rc == 0 && !hit)
		rc = blob_encode(codec, s->opts.level, plain, n, scratch, e);
	if (rc == 0 && !hit)
		rc = insert(s, &d, scratch, known_bad, &is_new, e);
	if (rc < 0)
		return rc;
	atomic_fetch_add(&s->chunks, 1);
	atomic_fetch_add(&s->bytes, n);
	if (is_new) {
		atomic_fetch_add(&s->new_chunks, 1);
		atomic_fetch_add(&s->new_bytes, n);
		atomic_fetch_add(&s->stored_bytes, scratch->len);
	}
	if (is_new && s->opts.stored != NULL && !s->opts.dry_run)
		s->opts.stored(s->opts.stored_ctx, &d, scratch->len);
	*ret_digest = d;
	*ret = is_new ? SESSION_NEW : SESSION_REUSED;
	return 0;
}
