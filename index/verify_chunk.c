/* SPDX-License-Identifier: MIT */
/*
 * verify_chunk: chunks are read, and judged, by the workers.
 *
 * Only content that two separate reads prove wrong is bad.  It goes onto the
 * damage list before its rename, so that no session reuses the digest in
 * between (I2), and the rename happens only if the name still leads to the
 * very file that was read (I7): a session may have replaced it meanwhile.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "datastore/blob.h"
#include "index/verify_internal.h"

/* Damaged chunks that get a line each. */
#define CHUNKS_TOLD 100U

#define ENTRIES 1024 /* read from the index at a time */

/* A chunk that is replaced each time we look is not ours to judge. */
#define TRIES 3U

/* Missing ones are put on the damage list so many, or so often, at a time. */
#define MISSING_MAX 1024U
#define MISSING_NS CLOCK_NS_PER_S

/* Chunks in hand may have 16 MiB, plain and raw. */
#define THREADS_MAX 4U

struct local {
	struct codec *codec;
	struct buf raw;
	struct buf plain;
};

/*
 * A chunk is sound for a length and as encrypted or not: one index may lie
 * about them while another does not.  So what is remembered is the digest with
 * both mixed in; two pairs that mix to the same 32 bytes would be two digests
 * that differ in 8 bytes only, by just that.
 */
static struct digest remembered_as(
    const struct digest *d, uint64_t length, bool encrypted)
{
	uint64_t mixed = length << 1 | (encrypted ? 1 : 0);
	struct digest r = *d;

	bytes_put_le64(r.b + DIGEST_SIZE - 8,
	    bytes_get_le64(r.b + DIGEST_SIZE - 8) ^ mixed);
	return r;
}

static bool is_known_good(const struct verify *v, const struct digest *d,
    uint64_t length, enum verify_crypt crypt)
{
	struct digest plain = remembered_as(d, length, false);
	struct digest encrypted = remembered_as(d, length, true);

	return (crypt != VERIFY_CRYPT_YES &&
		   seenset_contains(v->good, &plain)) ||
	    (crypt != VERIFY_CRYPT_NO && seenset_contains(v->good, &encrypted));
}

static void local_release(void *ctx, void *arg)
{
	struct local *l = arg;

	(void)ctx;
	if (l == NULL)
		return;
	codec_free(l->codec);
	buf_release(&l->raw);
	buf_release(&l->plain);
	free(l);
}

static int local_init(void *ctx, void **ret, struct err *e)
{
	struct local *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (l == NULL)
		return err_nomem(e);
	rc = codec_new(&l->codec, e);
	if (rc < 0) {
		local_release(ctx, l);
		return rc;
	}
	*ret = l;
	return 0;
}

/* The raw file, whole, from the start of fd. */
static int read_raw(int fd, struct buf *raw, struct err *e)
{
	struct statx st;
	int rc = file_stat_fd(fd, &st, "chunk", e);

	if (rc < 0)
		return rc;
	if (st.stx_size > CHUNK_MAX_FILE) {
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " bytes, want at most %u", (uint64_t)st.stx_size,
		    CHUNK_MAX_FILE);
	}
	buf_reset(raw);
	rc = buf_reserve(raw, (size_t)st.stx_size, e);
	if (rc == 0) {
		rc = file_pread_exact(
		    fd, raw->data, (size_t)st.stx_size, 0, "chunk", e);
	}
	if (rc == 0)
		raw->len = (size_t)st.stx_size;
	return rc;
}

/* What the content proves, whatever an index says of it. */
static int judge(struct local *l, const struct verify_slot *s,
    enum blob_kind *ret_kind, struct err *e)
{
	struct digest found;
	int rc = blob_check(l->raw.data, l->raw.len, ret_kind, e);

	buf_reset(&l->plain);
	if (rc < 0 || blob_is_encrypted(*ret_kind))
		return rc;
	rc = blob_decode(
	    l->codec, l->raw.data, l->raw.len, CHUNK_MAX_PLAIN, &l->plain, e);
	if (rc == ERR_LIMIT)
		e->code = rc = ERR_CORRUPT;
	if (rc == 0)
		rc = digest_of(l->plain.data, l->plain.len, &found, e);
	if (rc == 0 && !digest_equal(&found, &s->entry.digest)) {
		rc = err_set(e, ERR_CORRUPT,
		    "the content has another digest than the name");
	}
	return rc;
}

static int read_and_judge(int fd, struct local *l, struct verify_slot *s,
    enum blob_kind *ret_kind, struct err *e)
{
	int rc = read_raw(fd, &l->raw, e);

	if (rc < 0)
		return rc;
	s->bytes += l->raw.len;
	return judge(l, s, ret_kind, e);
}

/* The second look is not from the cache: memory may be what errs. */
static int read_twice(int fd, struct local *l, struct verify_slot *s,
    enum blob_kind *ret_kind, struct err *e)
{
	struct err first = ERR_INIT;
	int rc = read_and_judge(fd, l, s, ret_kind, &first);

	if (rc != ERR_CORRUPT) {
		*e = first;
		return rc;
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	rc = read_and_judge(fd, l, s, ret_kind, e);
	s->flaky = rc == 0;
	return rc;
}

/* Sound content that the index lies about is no bad chunk. */
static void check_fit(const struct verify *v, const struct local *l,
    struct verify_slot *s, enum blob_kind kind)
{
	uint64_t want = s->entry.end - s->start;

	s->encrypted = blob_is_encrypted(kind);
	s->outcome = VERIFY_CHUNK_MISFIT;
	if (s->crypt == VERIFY_CRYPT_NO && s->encrypted) {
		(void)err_set(&s->why, ERR_CORRUPT,
		    "encrypted, '%s' says that it is not", v->manifest_shown);
	} else if (s->crypt == VERIFY_CRYPT_YES && !s->encrypted) {
		(void)err_set(&s->why, ERR_CORRUPT,
		    "not encrypted, '%s' says that it is", v->manifest_shown);
	} else if (!s->encrypted && l->plain.len != want) {
		(void)err_set(&s->why, ERR_CORRUPT,
		    "%zu bytes of content, the index says %" PRIu64,
		    l->plain.len, want);
	} else {
		s->outcome = VERIFY_CHUNK_GOOD;
	}
}

/* On the list first, then renamed (I2).  *ret_done false: look again. */
static int condemn(struct verify *v, struct verify_slot *s, int fd,
    bool *ret_done, struct err *e)
{
	struct err bad = s->why;
	struct err why = ERR_INIT;
	int rc = 0;

	if (!verify_records(v)) {
		s->outcome = VERIFY_CHUNK_KEPT;
		*ret_done = true;
		return 0;
	}
	rc = damage_append(v->ds, &s->entry.digest, DAMAGE_BAD, &why);
	if (rc == 0) {
		s->listed = true;
		rc = store_quarantine(
		    v->ds->store, &s->entry.digest, fd, ret_done, &why);
	}
	if (rc == ERR_NOMEM || rc == ERR_CANCELLED) {
		*e = why;
		return rc;
	}
	s->outcome = VERIFY_CHUNK_BAD;
	if (rc < 0) {
		s->outcome = VERIFY_CHUNK_KEPT;
		(void)err_set(&s->why, ERR_CORRUPT, "%s; not renamed: %s",
		    bad.msg, why.msg);
		*ret_done = true;
	}
	return 0;
}

/*
 * Present and sound although the list says otherwise: somebody put it back.
 * A session may reuse it unread from now on, so it must outlive a power cut.
 */
static void heal(struct verify *v, const struct digest *d, int fd)
{
	char path[STORE_CHUNK_PATH_SIZE];
	struct err why = ERR_INIT;
	int dirfd = -1;
	int rc = 0;

	if (!verify_records(v))
		return;
	store_chunk_path(d, path);
	rc = file_sync(fd, path, &why);
	*strchr(path, '/') = '\0';
	if (rc == 0)
		rc = file_open_dir(v->ds->chunks_fd, path, &dirfd, path, &why);
	if (rc == 0)
		rc = file_sync(dirfd, path, &why);
	if (rc == 0)
		rc = file_sync(v->ds->chunks_fd, ".chunks", &why);
	file_close(&dirfd);
	if (rc == 0)
		rc = damage_append(v->ds, d, DAMAGE_HEALED, &why);
	if (rc < 0) {
		task_message(v->task, TASK_WARNING,
		    "a chunk that is sound again could not be taken off the "
		    "damage list: %s",
		    why.msg);
	}
}

/* What reading it gave: rc, and s->why of it.  *ret_done false: look again. */
static int conclude(struct verify *v, struct verify_slot *s, int fd, int rc,
    bool *ret_done, struct err *e)
{
	if (rc == ERR_NOMEM || rc == ERR_CANCELLED) {
		*e = s->why;
		return rc;
	}
	if (rc == ERR_CORRUPT && fd >= 0)
		return condemn(v, s, fd, ret_done, e);
	if (rc == ERR_NOTFOUND) {
		s->outcome = VERIFY_CHUNK_MISSING;
	} else if (rc < 0) { /* or something that is no file has its name */
		s->outcome = VERIFY_CHUNK_UNREADABLE;
	} else if (s->listed || damage_contains(v->damage, &s->entry.digest)) {
		heal(v, &s->entry.digest, fd);
	}
	return 0;
}

static int look_once(struct verify *v, struct local *l, struct verify_slot *s,
    bool *ret_done, struct err *e)
{
	enum blob_kind kind = BLOB_PLAIN;
	int fd = -1;
	int rc = store_open_chunk(v->ds->store, &s->entry.digest, &fd, &s->why);

	*ret_done = true;
	if (rc == 0)
		rc = read_twice(fd, l, s, &kind, &s->why);
	if (rc == 0)
		check_fit(v, l, s, kind);
	rc = conclude(v, s, fd, rc, ret_done, e);
	file_close(&fd);
	return rc;
}

static int work(void *ctx, void *local, void *arg, struct err *e)
{
	struct verify *v = ctx;
	struct verify_slot *s = arg;
	bool done = false;
	int rc = task_check(v->task, e);

	s->bytes = 0;
	s->listed = false;
	s->flaky = false;
	for (unsigned i = 0; i < TRIES && rc == 0 && !done; i++)
		rc = look_once(v, local, s, &done, e);
	if (rc == 0 && !done) {
		s->outcome = VERIFY_CHUNK_UNREADABLE;
		(void)err_set(&s->why, ERR_CORRUPT,
		    "bad, and replaced %u times while it was looked at", TRIES);
	}
	return rc;
}

/* Many at a time: each append is synced.  Only a rename must not be done
 * without the list (I2), so failing is a warning. */
static void flush_missing(struct verify *v)
{
	const struct digest *d = (const struct digest *)v->missing.data;
	size_t n = v->missing.len / sizeof(*d);
	struct err why = ERR_INIT;

	if (n > 0 && verify_records(v) &&
	    damage_append_all(v->ds, d, n, DAMAGE_MISSING, &why) < 0) {
		task_message(v->task, TASK_WARNING,
		    "the damage could not be recorded: %s", why.msg);
	}
	buf_reset(&v->missing);
}

static int count_hurt(
    struct verify *v, const struct verify_slot *s, struct err *e)
{
	struct verify_result *r = &v->result;
	const struct digest *d = &s->entry.digest;
	bool added = false;
	int rc = digestset_add(&v->hurt, d, &added, e);

	if (s->outcome == VERIFY_CHUNK_MISSING) {
		r->missing_chunks++;
		if (v->missing.len == 0)
			v->missing_since = clock_boot_ns();
		if (rc == 0)
			rc = buf_append(&v->missing, d, sizeof(*d), e);
	} else if (s->outcome == VERIFY_CHUNK_UNREADABLE) {
		r->unreadable_chunks++;
	} else {
		r->bad_chunks++;
		r->kept_chunks += s->outcome == VERIFY_CHUNK_KEPT;
	}
	return rc;
}

/* Each chunk is told once, and not more of them than somebody reads; all are
 * kept with the snapshot. */
static bool is_untold(struct verify *v, bool again)
{
	if (again) {
		v->repeats_untold++;
		return true;
	}
	if (v->chunks_told < CHUNKS_TOLD) {
		v->chunks_told++;
		return false;
	}
	v->chunks_untold++;
	return true;
}

static int reason_of(struct verify *v, const struct idx_entry *entry,
    uint64_t start, const char *what, bool again, struct err *e)
{
	char path[STORE_CHUNK_PATH_SIZE];
	int rc = verify_range_add(v, start, entry->end, e);

	if (rc < 0)
		return rc;
	store_chunk_path(&entry->digest, path);
	v->untold = is_untold(v, again);
	rc = verify_reason(v, e,
	    "'%s': chunk '.chunks/%s' at offset %" PRIu64 ": %s", v->file_shown,
	    path, start, what);
	v->untold = false;
	return rc;
}

void verify_tell_rest(struct verify *v)
{
	if (v->chunks_untold > 0)
		task_message(v->task, TASK_WARNING,
		    "and %" PRIu64 " more chunk%s missing, bad or unreadable",
		    v->chunks_untold, text_plural(v->chunks_untold, "", "s"));
	if (v->repeats_untold > 0)
		task_message(v->task, TASK_WARNING,
		    "and %" PRIu64 " more reference%s to the damaged chunks",
		    v->repeats_untold, text_plural(v->repeats_untold, "", "s"));
}

static void warn_flaky(struct verify *v, const struct verify_slot *s)
{
	char path[STORE_CHUNK_PATH_SIZE];

	store_chunk_path(&s->entry.digest, path);
	task_message(v->task, TASK_WARNING,
	    "chunk '.chunks/%s' was read wrong once and right the second time: "
	    "memory, cable or disk may be failing",
	    path);
}

static int retire(void *ctx, void *arg, struct err *e)
{
	struct verify *v = ctx;
	struct verify_slot *s = arg;
	struct digest key = remembered_as(
	    &s->entry.digest, s->entry.end - s->start, s->encrypted);
	int rc = 0;

	s->in_flight = false;
	v->entries_done++;
	v->result.chunks++;
	v->result.bytes += s->bytes;
	if (s->flaky)
		warn_flaky(v, s);
	switch (s->outcome) {
	case VERIFY_CHUNK_GOOD:
		seenset_add(v->good, &key);
		break;
	case VERIFY_CHUNK_MISFIT:
		rc = reason_of(v, &s->entry, s->start, s->why.msg, false, e);
		break;
	case VERIFY_CHUNK_MISSING:
	case VERIFY_CHUNK_BAD:
	case VERIFY_CHUNK_KEPT:
	case VERIFY_CHUNK_UNREADABLE:
		rc = count_hurt(v, s, e);
		if (rc == 0) {
			rc = reason_of(v, &s->entry, s->start,
			    s->outcome == VERIFY_CHUNK_MISSING ? "missing"
							       : s->why.msg,
			    false, e);
		}
		break;
	}
	if (v->missing.len >= (size_t)MISSING_MAX * DIGEST_SIZE ||
	    (v->missing.len > 0 &&
		clock_boot_ns() - v->missing_since > MISSING_NS))
		flush_missing(v);
	verify_report(v);
	return rc;
}

int verify_chunks_begin(struct verify *v, struct err *e)
{
	static const struct workers_ops ops = {
		.thread_init = local_init,
		.thread_release = local_release,
		.work = work,
		.retire = retire,
	};
	unsigned threads = workers_default_threads();

	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	v->slots_n = 2 * (size_t)threads + 1;
	v->slots = calloc(v->slots_n, sizeof(*v->slots));
	v->slot_pointers = calloc(v->slots_n, sizeof(*v->slot_pointers));
	if (v->slots == NULL || v->slot_pointers == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < v->slots_n; i++)
		v->slot_pointers[i] = &v->slots[i];
	return workers_new(
	    &ops, v, threads, v->slot_pointers, v->slots_n, &v->workers, e);
}

void verify_chunks_end(struct verify *v)
{
	workers_free(v->workers);
	free(v->slots);
	free(v->slot_pointers);
	v->workers = NULL;
	v->slots = NULL;
	v->slot_pointers = NULL;
}

/* The same digest, on its way: its result is worth waiting for. */
static bool is_in_flight(const struct verify *v, const struct digest *d)
{
	for (size_t i = 0; i < v->slots_n; i++) {
		if (v->slots[i].in_flight &&
		    digest_equal(&v->slots[i].entry.digest, d))
			return true;
	}
	return false;
}

static int submit(struct verify *v, const struct idx_entry *entry,
    uint64_t start, enum verify_crypt crypt, struct err *e)
{
	struct verify_slot *s = NULL;
	void *slot = NULL;
	int rc = 0;

	if (is_in_flight(v, &entry->digest))
		rc = workers_finish(v->workers, e);
	if (rc < 0)
		return rc;
	if (is_known_good(v, &entry->digest, entry->end - start, crypt)) {
		v->entries_done++;
		return 0;
	}
	if (digestset_contains(&v->hurt, &entry->digest)) {
		v->entries_done++;
		return reason_of(v, entry, start,
		    "missing, bad or unreadable, as said before", true, e);
	}
	rc = workers_get(v->workers, &slot, e);
	if (rc < 0)
		return rc;
	s = slot;
	s->entry = *entry;
	s->start = start;
	s->crypt = crypt;
	s->in_flight = true;
	workers_submit(v->workers);
	return 0;
}

int verify_chunks(
    struct verify *v, struct idx *ix, enum verify_crypt crypt, struct err *e)
{
	struct idx_entry *entries = calloc(ENTRIES, sizeof(*entries));
	struct err why = ERR_INIT;
	uint64_t start = 0;
	size_t n = 0;
	int rc = 0;

	if (entries == NULL)
		return err_nomem(e);
	while (rc == 0) {
		if (idx_next(ix, entries, ENTRIES, &n, &why) < 0 || n == 0)
			break;
		for (size_t i = 0; i < n && rc == 0; i++) {
			rc = submit(v, &entries[i], start, crypt, e);
			start = entries[i].end;
		}
		if (rc == 0)
			rc = task_check(v->task, e);
	}
	/* Also when the index could not be read on: what was submitted is of
	 * this file. */
	if (rc == 0)
		rc = workers_finish(v->workers, e);
	if (rc == 0 && why.code < 0)
		rc = verify_finding(v, why.code, &why, e);
	flush_missing(v);
	free(entries);
	return rc;
}
