/* SPDX-License-Identifier: MIT */
/*
 * `.gc-status` is PBS's: what it holds, under the names that it has there,
 * is for PBS as well.  `.cairn/gc.last` has everything else of the same run;
 * it belongs to it if the upid is the same.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/registration.h"
#include "gc/gc_index.h"
#include "gc/gc_internal.h"
#include "gc/roots.h"
#include "gc/running.h"

#define STATUS_NAME ".gc-status"
#define LAST_NAME "gc.last"
#define STATUS_MAX 65536U

#define KEY_UPID "upid"
#define KEY_CACHE "cache-stats"
#define KEY_HITS "hits"
#define KEY_MISSES "misses"
#define KEY_SESSION "pending-session"

/* A field of the result and its name in a file. */
struct field {
	const char *key;
	size_t at;
};

#define FIELD(name, member)                              \
	{                                                \
		name, offsetof(struct gc_result, member) \
	}

/* uint64_t; these are PBS's names. */
static const struct field pbs_fields[] = {
	FIELD("index-file-count", index_file_count),
	FIELD("index-data-bytes", index_data_bytes),
	FIELD("disk-bytes", disk_bytes),
	FIELD("disk-chunks", disk_chunks),
	FIELD("removed-bytes", removed_bytes),
	FIELD("removed-chunks", removed_chunks),
	FIELD("pending-bytes", pending_bytes),
	FIELD("pending-chunks", pending_chunks),
	FIELD("removed-bad", removed_bad),
	FIELD("still-bad", still_bad),
};

/* uint64_t */
static const struct field own_fields[] = {
	FIELD("references", references),
	FIELD("touched", touched),
	FIELD("seen-hits", seen_hits),
	FIELD("missing-chunks", missing_chunks),
	FIELD("hurt-snapshots", hurt_snapshots),
	FIELD("forgotten-snapshots", forgotten_snapshots),
	FIELD("vanished-files", vanished_files),
	FIELD("removed-temporary", removed_tmp),
	FIELD("free-before", free_before),
	FIELD("free-after", free_after),
};

/* uint32_t */
static const struct field small_fields[] = {
	FIELD("unswept-prefixes", unswept_prefixes),
	FIELD("warnings", warnings),
	FIELD("left-overs", left_overs),
};

/* int64_t; times of files in nanoseconds */
static const struct field time_fields[] = {
	FIELD("pending-until", pending_until),
	FIELD("newest-pending-ns", newest_pending),
	FIELD("started", started),
	FIELD("ended", ended),
	FIELD("start-of-mark-ns", start_of_mark),
	FIELD("cutoff-ns", cutoff),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void *field_at(struct gc_result *r, const struct field *f)
{
	return (char *)r + f->at;
}

static void set_u64s(struct js *doc, struct gc_result *r, const struct field *f,
    size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		js_set_u64(doc, f[i].key, *(uint64_t *)field_at(r, &f[i]), e);
}

static size_t add_counts(const struct gc_result *r, const struct field *f,
    size_t n, struct history_count *out)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value = 0;

		memcpy(&value, (const char *)r + f[i].at, sizeof(value));
		out[i] = (struct history_count){ .key = f[i].key, .n = value };
	}
	return n;
}

size_t gc_status_counts(
    const struct gc_result *r, struct history_count out[GC_STATUS_COUNTS])
{
	size_t n = add_counts(r, pbs_fields, COUNT(pbs_fields), out);

	n += add_counts(r, own_fields, COUNT(own_fields), out + n);
	for (size_t i = 0; i < COUNT(small_fields); i++, n++) {
		uint32_t value = 0;

		memcpy(&value, (const char *)r + small_fields[i].at,
		    sizeof(value));
		out[n] = (struct history_count){ .key = small_fields[i].key,
			.n = value };
	}
	return n;
}

_Static_assert(COUNT(pbs_fields) + COUNT(own_fields) + COUNT(small_fields) <=
	GC_STATUS_COUNTS,
    "they have no room");

/* What PBS parses: names of nodes are letters, digits and '-'. */
static void make_upid(const struct gc_run *run, char out[GC_UPID_SIZE])
{
	char host[REGISTRATION_HOST_SIZE];
	char machine[DATASTORE_ID_SIZE];

	registration_this_machine(host, machine);
	for (char *c = host; *c != '\0'; c++) {
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
			   "YZ0123456789-",
			*c) == NULL)
			*c = '-';
	}
	(void)snprintf(out, GC_UPID_SIZE,
	    "UPID:%s:%08X:%08X:%08X:%08" PRIX64
	    ":garbage_collection:cairn:root@pam:",
	    host, (unsigned)getpid(), 0U, 0U, (uint64_t)run->r.started);
}

static int status_text(
    struct gc_run *run, const char *upid, struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *doc = js_object();
	struct js *cache = js_object();
	int rc = 0;

	js_set_str(doc, KEY_UPID, upid, &failure);
	set_u64s(doc, &run->r, pbs_fields, COUNT(pbs_fields), &failure);
	js_set_u64(cache, KEY_HITS, run->r.seen_hits, &failure);
	js_set_u64(cache, KEY_MISSES,
	    run->r.references > run->r.seen_hits
		? run->r.references - run->r.seen_hits
		: 0,
	    &failure);
	js_set(doc, KEY_CACHE, cache, &failure);
	rc = js_dump(doc, JS_COMPACT, out, &failure);
	js_free(doc);
	if (rc < 0)
		*e = failure;
	return rc;
}

static int last_text(
    struct gc_run *run, const char *upid, struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *doc = js_object();
	struct gc_result *r = &run->r;
	int rc = 0;

	js_set_str(doc, KEY_UPID, upid, &failure);
	set_u64s(doc, r, pbs_fields, COUNT(pbs_fields), &failure);
	set_u64s(doc, r, own_fields, COUNT(own_fields), &failure);
	for (size_t i = 0; i < COUNT(small_fields); i++)
		js_set_u64(doc, small_fields[i].key,
		    *(uint32_t *)field_at(r, &small_fields[i]), &failure);
	for (size_t i = 0; i < COUNT(time_fields); i++)
		js_set_i64(doc, time_fields[i].key,
		    *(int64_t *)field_at(r, &time_fields[i]), &failure);
	js_set_u64(doc, "pending-cause", r->pending_cause, &failure);
	js_set_u64(doc, "set-based", r->set_based, &failure);
	js_set_u64(doc, "by-index", r->by_index, &failure);
	js_set_name(doc, KEY_SESSION, r->pending_session, &failure);
	rc = js_dump(doc, JS_PRETTY, out, &failure);
	js_free(doc);
	if (rc == 0)
		rc = buf_append(out, "\n", 1, &failure);
	if (rc < 0)
		*e = failure;
	return rc;
}

static int write_last(struct gc_run *run, const char *upid, struct err *e)
{
	struct buf text = BUF_INIT;
	char shown[GC_SHOWN_SIZE];
	bool found = false;
	int dirfd = -1;
	int rc = datastore_ensure_cairn(run->ds, e);

	if (rc == 0)
		rc = cairndir_open(run->ds, CAIRNDIR, &dirfd, &found, e);
	if (rc == 0 && found)
		rc = last_text(run, upid, &text, e);
	if (rc == 0 && found)
		rc = file_replace_at(dirfd, LAST_NAME, text.data, text.len,
		    &run->ds->owner,
		    datastore_shown(
			run->ds, CAIRNDIR "/" LAST_NAME, shown, sizeof(shown)),
		    e);
	file_close(&dirfd);
	buf_release(&text);
	return rc;
}

static int write_status(struct gc_run *run, const char *upid, struct err *e)
{
	struct buf text = BUF_INIT;
	char shown[GC_SHOWN_SIZE];
	int rc = status_text(run, upid, &text, e);

	if (rc == 0)
		rc = file_replace_at(run->ds->root_fd, STATUS_NAME, text.data,
		    text.len, &run->ds->owner,
		    datastore_shown(run->ds, STATUS_NAME, shown, sizeof(shown)),
		    e);
	buf_release(&text);
	return rc;
}

static void warn(struct gc_run *run, const struct err *why)
{
	run->r.warnings++;
	task_message(run->task, TASK_WARNING,
	    "garbage collection is done, but can not be recorded: %s",
	    why->msg);
}

void gc_status_write(struct gc_run *run)
{
	char upid[GC_UPID_SIZE];
	struct err why = ERR_INIT;

	make_upid(run, upid);
	gc_index_note(run, upid, false);
	/* Each on its own: one may be possible where the other is not.  PBS's
	 * comes last: it says that there is one of ours. */
	if (write_last(run, upid, &why) < 0)
		warn(run, &why);
	why = (struct err)ERR_INIT;
	if (roots_write(run->ds, &run->mark, &why) < 0)
		warn(run, &why);
	why = (struct err)ERR_INIT;
	if (write_status(run, upid, &why) < 0)
		warn(run, &why);
	else
		gc_index_note(run, upid, true);
}

static int get_u64s(const struct js *doc, struct gc_result *r,
    const struct field *f, size_t n, struct err *e)
{
	bool found = false;
	int rc = 0;

	/* What an older version did not write stays 0. */
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = js_get_u64(doc, f[i].key, field_at(r, &f[i]), &found, e);
	return rc;
}

static int get_small(const struct js *doc, const char *key, uint32_t max,
    uint32_t *ret, struct err *e)
{
	uint64_t v = 0;
	bool found = false;
	int rc = js_get_u64(doc, key, &v, &found, e);

	if (rc == 0 && found && v > max)
		rc = err_set(e, ERR_CORRUPT, "'%s' is %" PRIu64, key, v);
	if (rc == 0 && found)
		*ret = (uint32_t)v;
	return rc;
}

static int get_others(const struct js *doc, struct gc_result *r, struct err *e)
{
	const char *session = NULL;
	uint32_t cause = GC_PENDING_NONE;
	uint32_t set_based = 0;
	uint32_t by_index = 0;
	bool found = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < COUNT(small_fields); i++)
		rc = get_small(doc, small_fields[i].key, UINT32_MAX,
		    field_at(r, &small_fields[i]), e);
	for (size_t i = 0; rc == 0 && i < COUNT(time_fields); i++)
		rc = js_get_i64(doc, time_fields[i].key,
		    field_at(r, &time_fields[i]), &found, e);
	if (rc == 0)
		rc = get_small(
		    doc, "pending-cause", GC_PENDING_SESSION, &cause, e);
	if (rc == 0)
		rc = get_small(doc, "set-based", 1, &set_based, e);
	if (rc == 0)
		rc = get_small(doc, "by-index", 1, &by_index, e);
	if (rc == 0)
		rc = js_get_str(doc, KEY_SESSION, &session, &found, e);
	if (rc < 0)
		return rc;
	r->pending_cause = (enum gc_pending_cause)cause;
	r->set_based = set_based != 0;
	r->by_index = by_index != 0;
	if (session != NULL)
		(void)snprintf(r->pending_session, sizeof(r->pending_session),
		    "%s", session);
	return 0;
}

/* *ret NULL: there is no such file. */
static int read_json(int dirfd, const char *name, struct js **ret,
    const char *shown, struct err *e)
{
	struct buf text = BUF_INIT;
	struct err why = ERR_INIT;
	int rc = file_read_at(dirfd, name, STATUS_MAX, &text, shown, &why);

	*ret = NULL;
	if (rc == ERR_NOTFOUND) {
		rc = 0;
	} else if (rc == 0) {
		rc = js_parse(text.data, text.len, ret, &why);
		if (rc < 0)
			err_prefix(&why, "'%s'", shown);
	}
	buf_release(&text);
	if (rc < 0)
		*e = why;
	return rc;
}

/* Times are in the upid; NULL where there was no run yet. */
static int64_t upid_start(const char *upid)
{
	static const char digits[] = "0123456789ABCDEF";
	int64_t v = 0;

	for (unsigned i = 0; i < 5; i++) {
		upid = strchr(upid, ':');
		if (upid == NULL)
			return 0;
		upid++;
	}
	for (; *upid != ':' && *upid != '\0'; upid++) {
		const char *digit = strchr(digits, *upid);

		if (digit == NULL || v > (INT64_MAX >> 4))
			return 0;
		v = v * 16 + (digit - digits);
	}
	return v;
}

/* gc.last, if it is of the run of this upid; a damaged one is none. */
static void read_last(
    struct datastore *ds, const char *upid, struct gc_last *last)
{
	struct gc_result r = last->result;
	struct err ignored = ERR_INIT;
	const char *other = NULL;
	struct js *doc = NULL;
	bool found = false;
	int dirfd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, &ignored);

	if (rc == 0 && found)
		rc = read_json(dirfd, LAST_NAME, &doc, LAST_NAME, &ignored);
	if (rc == 0 && doc != NULL)
		rc = js_get_str(doc, KEY_UPID, &other, &found, &ignored);
	if (rc == 0 && other != NULL && strcmp(other, upid) == 0) {
		rc = get_u64s(doc, &r, own_fields, COUNT(own_fields), &ignored);
		if (rc == 0)
			rc = get_others(doc, &r, &ignored);
		if (rc == 0) {
			last->result = r;
			last->by_cairn = true;
		}
	}
	js_free(doc);
	file_close(&dirfd);
}

int gc_last_read(struct datastore *ds, struct gc_last *ret, struct err *e)
{
	struct gc_last last = { .found = false };
	char shown[GC_SHOWN_SIZE];
	const char *upid = NULL;
	struct js *doc = NULL;
	bool found = false;
	int rc = 0;

	(void)datastore_shown(ds, STATUS_NAME, shown, sizeof(shown));
	rc = read_json(ds->root_fd, STATUS_NAME, &doc, shown, e);
	if (rc == 0 && doc != NULL)
		rc = js_get_str(doc, KEY_UPID, &upid, &found, e);
	if (rc == 0 && upid != NULL)
		rc = get_u64s(
		    doc, &last.result, pbs_fields, COUNT(pbs_fields), e);
	if (rc < 0) {
		if (doc != NULL)
			err_prefix(e, "'%s'", shown);
		js_free(doc);
		return rc;
	}
	if (upid != NULL) {
		last.found = true;
		last.result.started = upid_start(upid);
		read_last(ds, upid, &last);
	}
	js_free(doc);
	*ret = last;
	return 0;
}

int gc_is_running(
    struct datastore *ds, bool *ret, char *who, size_t size, struct err *e)
{
	return running_who(ds, ret, who, size, e);
}

void gc_last_upid(struct datastore *ds, char out[GC_UPID_SIZE])
{
	char shown[GC_SHOWN_SIZE];
	struct err ignored = ERR_INIT;
	const char *upid = NULL;
	struct js *doc = NULL;
	bool found = false;
	int rc = 0;

	(void)datastore_shown(ds, STATUS_NAME, shown, sizeof(shown));
	rc = read_json(ds->root_fd, STATUS_NAME, &doc, shown, &ignored);
	if (rc == 0 && doc != NULL)
		rc = js_get_str(doc, KEY_UPID, &upid, &found, &ignored);
	(void)snprintf(out, GC_UPID_SIZE, "%s",
	    rc < 0             ? "?"
		: upid == NULL ? ""
			       : upid);
	js_free(doc);
}
