/* SPDX-License-Identifier: MIT */
#include "datastore/damage.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/damage_internal.h"

/* Ten million lines: a store so damaged needs another remedy. */
#define MAX_FILE (1ULL << 30)

#define HEX_LEN (DIGEST_HEX_SIZE - 1)
#define LINE_MAX_LEN 128
#define READ_STEP 65536U
/* Events that are sorted and put into the list at a time. */
#define EVENTS_MAX 65536U
#define APPEND_MAX 1024U

#define COMPACT_WAIT_MS 30000U
#define COMPACT_TRIES 16

static const char *const words[] = {
	[DAMAGE_MISSING] = "missing",
	[DAMAGE_BAD] = "bad",
	[DAMAGE_HEALED] = "healed",
};

static const char *damaged_shown(
    const struct datastore *ds, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown(
	    ds, CAIRNDIR "/" DAMAGED_NAME, out, CAIRNDIR_SHOWN);
}

/* False for what is not of the form: a torn line, a word of a later cairn. */
static bool parse_line(const char *line, size_t n, struct event *ret)
{
	char text[LINE_MAX_LEN];
	char *word = text + HEX_LEN + 1;
	char *time = NULL;

	if (n >= sizeof(text) || n <= HEX_LEN + 1)
		return false;
	memcpy(text, line, n);
	text[n] = '\0';
	time = strchr(word, ' ');
	if (strlen(text) != n || text[HEX_LEN] != ' ' || time == NULL ||
	    !digest_parse(text, HEX_LEN, &ret->digest))
		return false;
	*time++ = '\0';
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i]) == 0) {
			ret->state = (enum damage_state)i;
			return text_parse_time(time, &ret->time);
		}
	}
	return false;
}

/* An event with its place in the file. */
struct numbered {
	struct event event;
	size_t nth;
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a;
	const struct numbered *y = b;
	int c = digest_compare(&x->event.digest, &y->event.digest);

	if (c != 0)
		return c;
	return (x->nth > y->nth) - (x->nth < y->nth);
}

/* Sort, and leave the last event of each digest; returns how many. */
static size_t keep_last(struct numbered *v, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), compare_numbered);
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n &&
		    digest_equal(&v[i].event.digest, &v[i + 1].event.digest))
			continue;
		v[kept++] = v[i];
	}
	return kept;
}

static void put_event(struct events *to, const struct event *e, bool healed_too)
{
	if (healed_too || e->state != DAMAGE_HEALED)
		to->items[to->n++] = *e;
}

/*
 * list becomes list overruled by the n newer events, which are sorted and
 * single.  Unless healed_too, healed ones leave the list.
 */
static int merge(struct events *list, const struct numbered *v, size_t n,
    bool healed_too, struct err *e)
{
	struct events merged = { .items = NULL, .n = 0 };
	size_t i = 0;
	size_t j = 0;

	if (n == 0)
		return 0;
	merged.items = reallocarray(NULL, list->n + n, sizeof(*merged.items));
	if (merged.items == NULL)
		return err_nomem(e);
	while (i < list->n || j < n) {
		int c = 0;

		if (i == list->n) {
			c = 1;
		} else if (j == n) {
			c = -1;
		} else {
			c = digest_compare(
			    &list->items[i].digest, &v[j].event.digest);
		}
		if (c < 0) {
			put_event(&merged, &list->items[i], healed_too);
		} else {
			put_event(&merged, &v[j].event, healed_too);
		}
		i += c <= 0;
		j += c >= 0;
	}
	free(list->items);
	*list = merged;
	return 0;
}

/* Reads a file line by line, from an offset to its end. */
struct reader {
	int fd;
	uint64_t at; /* behind the last whole line */
	uint8_t *bytes;
	size_t len;      /* bytes held: the file's from `at` on */
	bool skip;       /* in a line that is too long to be ours */
	size_t odd;      /* lines that are not ours */
	uint64_t end_at; /* where there was no more to read, plus one */
	struct numbered *v;
	size_t n;
	struct events list; /* the last event of each digest, healed too */
};

static int flush_events(struct reader *r, struct err *e)
{
	int rc = merge(&r->list, r->v, keep_last(r->v, r->n), true, e);

	r->n = 0;
	return rc;
}

/* Take the whole lines out of what is held. */
static int take_lines(struct reader *r, struct err *e)
{
	size_t from = 0;
	int rc = 0;

	while (rc == 0) {
		const uint8_t *start = r->bytes + from;
		const uint8_t *end = memchr(start, '\n', r->len - from);
		struct numbered *next = &r->v[r->n];

		if (end == NULL)
			break;
		if (!r->skip &&
		    parse_line((const char *)start, (size_t)(end - start),
			&next->event)) {
			next->nth = r->n;
			r->n++;
		} else {
			/* Empty ones end what was torn. */
			r->odd += !r->skip && end > start;
		}
		r->skip = false;
		from += (size_t)(end - start) + 1;
		if (r->n == EVENTS_MAX)
			rc = flush_events(r, e);
	}
	memmove(r->bytes, r->bytes + from, r->len - from);
	r->len -= from;
	r->at += from;
	/* No line of ours is as long as what is left. */
	if (r->len >= LINE_MAX_LEN) {
		r->odd += !r->skip;
		r->skip = true;
		r->at += r->len;
		r->len = 0;
	}
	return rc;
}

/* An end that comes too early would make compaction forget what is behind it.
 * *ret false: it was appended to just now. */
static int check_end(
    struct reader *r, bool *ret, const char *shown, struct err *e)
{
	uint64_t at = r->at + r->len;
	struct statx st;
	int rc = file_stat_fd(r->fd, &st, shown, e);

	if (rc < 0)
		return rc;
	*ret = st.stx_size <= at;
	if (!*ret && r->end_at == at + 1) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' ends at offset %" PRIu64 " of %" PRIu64, shown, at,
		    (uint64_t)st.stx_size);
	}
	r->end_at = at + 1;
	return 0;
}

static int read_lines(struct reader *r, const char *shown, struct err *e)
{
	ssize_t got = 0;
	bool ended = false;
	int rc = 0;

	r->bytes = malloc(READ_STEP + LINE_MAX_LEN);
	r->v = reallocarray(NULL, EVENTS_MAX, sizeof(*r->v));
	if (r->bytes == NULL || r->v == NULL)
		return err_nomem(e);
	while (rc == 0 && !ended) {
		got = sysio_pread(r->fd, r->bytes + r->len, READ_STEP,
		    (off_t)(r->at + r->len));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, "read '%s'", shown);
		if (got == 0)
			rc = check_end(r, &ended, shown, e);
		r->len += (size_t)got;
		if (rc == 0)
			rc = take_lines(r, e);
		if (rc == 0 && r->at > MAX_FILE) {
			rc = err_set(e, ERR_LIMIT, "'%s': more than %llu bytes",
			    shown, MAX_FILE);
		}
	}
	return rc < 0 ? rc : flush_events(r, e);
}

/*
 * The events of the file from *at on, which moves behind the last whole line;
 * *ret is the caller's to free.  A last line without its end is left for the
 * next time: it is being written, or torn.
 */
static int read_events(int fd, uint64_t *at, struct events *ret,
    size_t *ret_odd, const char *shown, struct err *e)
{
	struct reader r = { .fd = fd, .at = *at };
	int rc = read_lines(&r, shown, e);

	free(r.bytes);
	free(r.v);
	if (rc < 0) {
		free(r.list.items);
		return rc;
	}
	*at = r.at;
	*ret = r.list;
	*ret_odd = r.odd;
	return 0;
}

/* list overruled by what was read; healed ones leave it. */
static int apply(struct events *list, const struct events *news, struct err *e)
{
	struct numbered *v = NULL;
	int rc = 0;

	if (news->n == 0)
		return 0;
	v = reallocarray(NULL, news->n, sizeof(*v));
	if (v == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < news->n; i++) {
		v[i].event = news->items[i];
		v[i].nth = i;
	}
	rc = merge(list, v, news->n, false, e);
	free(v);
	return rc;
}

/* *ret_fd is -1 where there is no such file. */
static int open_damaged(const struct datastore *ds, int *ret_fd,
    struct statx *ret_st, const char *shown, struct err *e)
{
	struct err why = ERR_INIT;
	bool found = false;
	int dirfd = -1;
	int fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc < 0)
		return rc;
	if (found) {
		rc = file_open_regular(
		    dirfd, DAMAGED_NAME, &fd, ret_st, shown, &why);
	}
	file_close(&dirfd);
	if (rc < 0 && rc != ERR_NOTFOUND) {
		*e = why;
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int damage_read(struct datastore *ds, struct damage **ret, struct err *e)
{
	struct damage *d = calloc(1, sizeof(*d));
	struct events news = { .items = NULL, .n = 0 };
	struct statx st;
	char shown[CAIRNDIR_SHOWN];
	int rc = 0;

	if (d == NULL)
		return err_nomem(e);
	d->fd = -1;
	rc = open_damaged(ds, &d->fd, &st, damaged_shown(ds, shown), e);
	if (rc == 0 && d->fd >= 0)
		rc = read_events(d->fd, &d->at, &news, &d->odd, shown, e);
	if (rc == 0)
		rc = apply(&d->list, &news, e);
	free(news.items);
	if (rc < 0) {
		damage_free(d);
		return rc;
	}
	*ret = d;
	return 0;
}

void damage_free(struct damage *d)
{
	if (d == NULL)
		return;
	file_close(&d->fd);
	free(d->list.items);
	free(d);
}

/* Is what was read the beginning of what is there now? */
static int is_continued(const struct damage *d, int fd, const struct statx *st,
    bool *ret, const char *shown, struct err *e)
{
	struct statx old;
	int rc = 0;

	*ret = false;
	if (d->fd < 0 || fd < 0)
		return 0;
	rc = file_stat_fd(d->fd, &old, shown, e);
	if (rc == 0)
		*ret = file_same(&old, st) && st->stx_size >= d->at;
	return rc;
}

static int each_damaged(const struct events *news,
    int (*fn)(void *ctx, const struct digest *digest, struct err *e), void *ctx,
    struct err *e)
{
	for (size_t i = 0; i < news->n; i++) {
		int rc = 0;

		if (news->items[i].state != DAMAGE_HEALED)
			rc = fn(ctx, &news->items[i].digest, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int damage_refresh(struct datastore *ds, struct damage *d,
    int (*fn)(void *ctx, const struct digest *digest, struct err *e), void *ctx,
    struct err *e)
{
	struct events news = { .items = NULL, .n = 0 };
	struct events list = { .items = NULL, .n = 0 };
	struct statx st = { .stx_size = 0 };
	char shown[CAIRNDIR_SHOWN];
	bool continued = false;
	uint64_t at = 0;
	size_t odd = 0;
	int fd = -1;
	int rc = open_damaged(ds, &fd, &st, damaged_shown(ds, shown), e);

	if (rc == 0)
		rc = is_continued(d, fd, &st, &continued, shown, e);
	if (rc < 0)
		goto out;
	at = continued ? d->at : 0;
	if (fd >= 0)
		rc = read_events(fd, &at, &news, &odd, shown, e);
	if (rc == 0)
		rc = apply(continued ? &d->list : &list, &news, e);
	if (rc < 0)
		goto out;
	if (!continued) {
		free(d->list.items);
		d->list = list;
		list.items = NULL;
	}
	file_close(&d->fd);
	d->fd = fd;
	d->at = at;
	d->odd = continued ? d->odd + odd : odd;
	fd = -1;
	rc = each_damaged(&news, fn, ctx, e);
out:
	file_close(&fd);
	free(list.items);
	free(news.items);
	return rc;
}

static int compare_event(const void *key, const void *item)
{
	const struct event *event = item;

	return digest_compare(key, &event->digest);
}

bool damage_contains(const struct damage *d, const struct digest *digest)
{
	return d->list.n > 0 &&
	    bsearch(digest, d->list.items, d->list.n, sizeof(*d->list.items),
		compare_event) != NULL;
}

size_t damage_count(const struct damage *d)
{
	return d->list.n;
}

const struct digest *damage_at(
    const struct damage *d, size_t i, enum damage_state *ret_state)
{
	assert(i < d->list.n && d->list.items != NULL);
	*ret_state = d->list.items[i].state;
	return &d->list.items[i].digest;
}

static int add_line(struct buf *out, const struct digest *digest,
    enum damage_state state, int64_t at, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];
	char time[TEXT_TIME_SIZE];

	digest_hex(digest, hex);
	return buf_append_fmt(
	    out, e, "%s %s %s\n", hex, words[state], text_time(time, at));
}

int damage_append_all(struct datastore *ds, const struct digest *digests,
    size_t n, enum damage_state state, struct err *e)
{
	struct buf text = BUF_INIT;
	int64_t now = clock_now_s();
	int rc = 0;

	/* Before 1970-01-01T00:00:01Z there is no time that is read back. */
	if (now < 1)
		now = 1;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = add_line(&text, &digests[i], state, now, e);
		if (rc == 0 && ((i + 1) % APPEND_MAX == 0 || i + 1 == n)) {
			/*
			 * Durable: verify renames the chunk when this has
			 * returned, and after a power cut a base would be
			 * taken for whole.
			 */
			rc = cairndir_append(
			    ds, DAMAGED_NAME, text.data, text.len, true, e);
			buf_reset(&text);
		}
	}
	buf_release(&text);
	return rc;
}

int damage_append(struct datastore *ds, const struct digest *digest,
    enum damage_state state, struct err *e)
{
	return damage_append_all(ds, digest, 1, state, e);
}

static int list_text(const struct damage *d, struct buf *out, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < d->list.n; i++) {
		const struct event *event = &d->list.items[i];

		rc =
		    add_line(out, &event->digest, event->state, event->time, e);
	}
	return rc;
}

/* Under the lock of the file: nobody appends between reading and replacing. */
static int compact_locked(
    struct datastore *ds, int dirfd, const char *shown, struct err *e)
{
	struct damage *d = NULL;
	struct buf text = BUF_INIT;
	int rc = damage_read(ds, &d, e);

	if (rc < 0)
		return rc;
	assert(d != NULL);
	rc = list_text(d, &text, e);
	if (rc == 0) {
		rc = file_replace_at(dirfd, DAMAGED_NAME, text.data, text.len,
		    &ds->owner, shown, e);
	}
	buf_release(&text);
	damage_free(d);
	return rc;
}

int damage_compact(struct datastore *ds, struct err *e)
{
	struct err why = ERR_INIT;
	struct statx st;
	char shown[CAIRNDIR_SHOWN];
	bool found = false;
	int dirfd = -1;
	int lock_fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, &why);

	(void)damaged_shown(ds, shown);
	for (int tries = 0; rc == 0 && found && tries < COMPACT_TRIES;
	     tries++) {
		rc =
		    file_stat_at(dirfd, DAMAGED_NAME, &st, &found, shown, &why);
		if (rc < 0 || !found)
			break;
		rc = pathlock_take(dirfd, DAMAGED_NAME, LOCK_EXCLUSIVE,
		    COMPACT_WAIT_MS, &lock_fd, shown, &why);
		if (rc == 0) {
			rc = compact_locked(ds, dirfd, shown, &why);
			break;
		}
		/* Replaced meanwhile: the next one. */
		if (rc == ERR_NOTFOUND)
			rc = 0;
	}
	file_close(&lock_fd);
	file_close(&dirfd);
	if (rc < 0)
		*e = why;
	return rc;
}
