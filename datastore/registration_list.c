/* SPDX-License-Identifier: MIT */
/*
 * The part of registration.h that reads and buries what others registered.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/base/uuid.h"
#include "datastore/cairndir.h"
#include "datastore/probe.h"
#include "datastore/registration.h"
#include "datastore/registration_internal.h"

/* A registration of another machine is dead when it was not touched for: */
#define FOREIGN_DEAD_NS (24LL * 3600 * CLOCK_NS_PER_S)

#define READ_TRIES 16
#define UUID_LEN (DATASTORE_ID_SIZE - 1)
#define FIELD_SIZE 160

/* `.cairn/sessions`, open, and what is asked of it more than once. */
struct sessions {
	struct datastore *ds;
	int fd; /* -1: there is none */
	char machine[DATASTORE_ID_SIZE];
	bool has_now;
	filetime now; /* the file clock */
};

static int sessions_open(
    struct datastore *ds, struct sessions *ret, struct err *e)
{
	char host[REGISTRATION_HOST_SIZE];
	struct sessions s = { .ds = ds, .fd = -1, .machine = "" };
	bool found = false;

	registration_this_machine(host, s.machine);
	*ret = s;
	return cairndir_open(ds, CAIRNDIR_SESSIONS, &ret->fd, &found, e);
}

static void sessions_close(struct sessions *s)
{
	file_close(&s->fd);
}

static const char *entry_shown(
    const struct sessions *s, const char *name, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown_in(
	    s->ds, CAIRNDIR_SESSIONS, name, out, CAIRNDIR_SHOWN);
}

/* ".UUID.tmp" */
static bool is_unborn(const char *name)
{
	const size_t before = sizeof(REGISTRATION_TMP_PREFIX) - 1;
	const size_t behind = sizeof(REGISTRATION_TMP_SUFFIX) - 1;
	size_t n = strlen(name);

	return n == before + UUID_LEN + behind &&
	    strncmp(name, REGISTRATION_TMP_PREFIX, before) == 0 &&
	    uuid_is_text(name + before, UUID_LEN) &&
	    strcmp(name + before + UUID_LEN, REGISTRATION_TMP_SUFFIX) == 0;
}

/* What the file holds now, as much of it as there may be. */
static int read_once(int fd, struct buf *out, const char *shown, struct err *e)
{
	int rc = 0;

	buf_reset(out);
	rc = buf_reserve(out, REGISTRATION_MAX_FILE, e);
	while (rc == 0 && out->len < REGISTRATION_MAX_FILE) {
		ssize_t r = sysio_pread(fd, out->data + out->len,
		    REGISTRATION_MAX_FILE - out->len, (off_t)out->len);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read '%s'", shown);
		if (r == 0)
			break;
		out->len += (size_t)r;
	}
	return rc;
}

/*
 * Two fields are rewritten in place while we read, without a lock that we
 * could take; a mixture of old and new digits could say a later start than
 * either.  So it is read until two readings agree.
 */
static int read_stable(
    int fd, struct buf *out, const char *shown, struct err *e)
{
	struct buf again = BUF_INIT;
	bool same = false;
	int rc = read_once(fd, out, shown, e);

	for (int tries = 0; rc == 0 && !same && tries < READ_TRIES; tries++) {
		struct buf swap = *out;

		rc = read_once(fd, &again, shown, e);
		if (rc < 0)
			break;
		same = again.len == out->len &&
		    memcmp(again.data, out->data, out->len) == 0;
		*out = again;
		again = swap;
	}
	/* One that never holds still is read as a broken one: start unknown. */
	if (rc == 0 && !same)
		buf_reset(out);
	buf_release(&again);
	return rc;
}

static int get_field(const struct js *doc, const char *key, char *out,
    size_t size, struct err *e)
{
	const char *s = NULL;
	int rc = js_get_str(doc, key, &s, NULL, e);

	if (rc < 0)
		return rc;
	if (strlen(s) >= size) {
		return err_set(e, ERR_CORRUPT,
		    "'%s': %zu bytes, want less "
		    "than %zu",
		    key, strlen(s), size);
	}
	memcpy(out, s, strlen(s) + 1);
	return 0;
}

/* Exactly the digits that registration.c writes. */
static int get_start(const struct js *doc, filetime *ret, struct err *e)
{
	char text[REGISTRATION_START_WIDTH + 1];
	char *end = NULL;
	long long v = 0;
	int rc = get_field(doc, REGISTRATION_KEY_START, text, sizeof(text), e);

	if (rc < 0)
		return rc;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (strlen(text) != REGISTRATION_START_WIDTH || *end != '\0' ||
	    errno != 0) {
		return err_set(e, ERR_CORRUPT, "'%s': want %d digits",
		    REGISTRATION_KEY_START, REGISTRATION_START_WIDTH);
	}
	*ret = v;
	return 0;
}

static int decode(
    const struct buf *text, struct registration_info *info, struct err *e)
{
	struct js *doc = NULL;
	int rc = js_parse(text->data, text->len, &doc, e);

	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_MACHINE, info->machine_id,
		    sizeof(info->machine_id), e);
	}
	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_HOST, info->host,
		    sizeof(info->host), e);
	}
	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_BOOT, info->boot_id,
		    sizeof(info->boot_id), e);
	}
	if (rc == 0)
		rc = js_get_i64(doc, REGISTRATION_KEY_PID, &info->pid, NULL, e);
	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_COMMAND, info->command,
		    sizeof(info->command), e);
	}
	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_GROUP, info->group,
		    sizeof(info->group), e);
	}
	if (rc == 0) {
		rc = get_field(doc, REGISTRATION_KEY_SNAPSHOT, info->snapshot,
		    sizeof(info->snapshot), e);
	}
	if (rc == 0)
		rc = get_start(doc, &info->start, e);
	js_free(doc);
	return rc;
}

/* Fills info; what can not be decoded is `damaged`, and no error. */
static int read_info(
    int fd, struct registration_info *info, const char *shown, struct err *e)
{
	struct registration_info decoded = *info;
	struct err why = ERR_INIT;
	struct buf text = BUF_INIT;
	int rc = read_stable(fd, &text, shown, e);

	if (rc < 0)
		goto out;
	rc = decode(&text, &decoded, &why);
	if (rc == ERR_NOMEM) {
		*e = why;
		goto out;
	}
	if (rc == 0) {
		*info = decoded;
	} else {
		/* Nothing of it is believed; it holds back everything. */
		info->damaged = true;
		info->start = INT64_MIN;
		rc = 0;
	}
out:
	buf_release(&text);
	return rc;
}

/* The file clock: touching the directory of registrations harms nobody. */
static int sessions_now(struct sessions *s, filetime *ret, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int rc = 0;

	if (!s->has_now && s->ds->access == DATASTORE_READ) {
		/* Nothing may be written, and nothing is decided by it. */
		s->now = clock_now_s() * CLOCK_NS_PER_S;
	} else if (!s->has_now) {
		(void)datastore_shown(
		    s->ds, CAIRNDIR_SESSIONS, shown, sizeof(shown));
		rc = probe_clock(s->fd, ".", &s->now, shown, e);
	}
	if (rc < 0)
		return rc;
	s->has_now = true;
	*ret = s->now;
	return 0;
}

/*
 * The rule of I3 for one whose lock is free: dead if it is of this machine,
 * whose locks we see; else its holder may be where our locks do not reach, so
 * only if its time has stood still for a day.
 */
static int is_dead(struct sessions *s, const struct registration_info *info,
    const struct statx *st, bool *ret, struct err *e)
{
	filetime now = 0;
	filetime mtime = clock_from_statx(&st->stx_mtime);
	int rc = 0;

	if (!info->damaged && strcmp(info->machine_id, s->machine) == 0) {
		*ret = true;
		return 0;
	}
	rc = sessions_now(s, &now, e);
	if (rc < 0)
		return rc;
	*ret = mtime <= now && now - mtime >= FOREIGN_DEAD_NS;
	return 0;
}

static int is_locked(int fd, bool *ret, const char *shown, struct err *e)
{
	struct flock l = REGISTRATION_LOCK(F_WRLCK);
	int rc = -1;

	do {
		rc = sysio_ofd_lock(fd, F_OFD_GETLK, &l);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return err_sys(e, "ask for the lock of '%s'", shown);
	*ret = l.l_type != F_UNLCK;
	return 0;
}

/* *ret_gone: its session ended meanwhile. */
static int look_at(struct sessions *s, int fd, struct registration_info *info,
    bool *ret_gone, const char *shown, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	bool locked = false;
	bool dead = false;
	int rc = is_locked(fd, &locked, shown, e);

	if (rc == 0)
		rc = read_info(fd, info, shown, e);
	if (rc == 0)
		rc = file_stat_fd(fd, &st, shown, e);
	if (rc < 0)
		return rc;
	/* It unlinks before it unlocks: free and without a name is its end. */
	*ret_gone = !locked && st.stx_nlink == 0;
	if (!locked && !*ret_gone)
		rc = is_dead(s, info, &st, &dead, e);
	if (rc == 0)
		info->live = locked || !dead;
	return rc;
}

/* What file_each_name's callback needs. */
struct listing {
	struct sessions *sessions;
	struct registration_list list;
	size_t cap;
};

static int list_grow(struct listing *l, struct err *e)
{
	size_t cap = l->cap == 0 ? 8 : l->cap * 2;
	struct registration_info *items =
	    reallocarray(l->list.items, cap, sizeof(*items));

	if (items == NULL)
		return err_nomem(e);
	l->list.items = items;
	l->cap = cap;
	return 0;
}

static int list_one(void *ctx, const char *name, struct err *e)
{
	struct listing *l = ctx;
	struct registration_info *info = NULL;
	char shown[CAIRNDIR_SHOWN];
	bool gone = false;
	int fd = -1;
	int rc = 0;

	if (!uuid_is_text(name, strlen(name)))
		return 0;
	if (l->list.n == l->cap)
		rc = list_grow(l, e);
	if (rc < 0)
		return rc;
	info = &l->list.items[l->list.n];
	memset(info, 0, sizeof(*info));
	memcpy(info->uuid, name, UUID_LEN + 1);
	rc = file_open_regular(l->sessions->fd, name, &fd, NULL,
	    entry_shown(l->sessions, name, shown), e);
	/* Ended meanwhile; or a directory, a link: nobody's registration. */
	if (rc == ERR_NOTFOUND || rc == ERR_CORRUPT)
		return 0;
	if (rc == 0)
		rc = look_at(l->sessions, fd, info, &gone, shown, e);
	file_close(&fd);
	if (rc == 0 && !gone)
		l->list.n++;
	return rc;
}

int registration_list(
    struct datastore *ds, struct registration_list *ret, struct err *e)
{
	struct sessions s;
	struct listing l = { .sessions = &s };
	struct err why = ERR_INIT;
	char shown[CAIRNDIR_SHOWN];
	int rc = sessions_open(ds, &s, &why);

	if (rc == 0 && s.fd >= 0) {
		rc = file_each_name(s.fd, list_one, &l,
		    datastore_shown(
			ds, CAIRNDIR_SESSIONS, shown, sizeof(shown)),
		    &why);
	}
	sessions_close(&s);
	if (rc < 0) {
		registration_list_release(&l.list);
		*e = why;
		return rc;
	}
	*ret = l.list;
	return 0;
}

void registration_list_release(struct registration_list *l)
{
	free(l->items);
	l->items = NULL;
	l->n = 0;
}

const char *registration_text(
    const struct registration_info *info, char out[REGISTRATION_TEXT_SIZE])
{
	char command[FIELD_SIZE];
	char group[FIELD_SIZE];
	char host[FIELD_SIZE];
	char start[TEXT_TIME_SIZE];

	if (info->damaged) {
		(void)snprintf(out, REGISTRATION_TEXT_SIZE,
		    "a session with the unreadable registration '%s'",
		    info->uuid);
		return out;
	}
	(void)snprintf(out, REGISTRATION_TEXT_SIZE,
	    "%s of %s (host %s, pid %" PRId64 ", %s %s)",
	    text_name(command, sizeof(command), info->command),
	    text_name(group, sizeof(group), info->group),
	    text_name(host, sizeof(host), info->host), info->pid,
	    info->live ? "since" : "begun",
	    text_time(start, clock_filetime_s(info->start)));
	return out;
}

bool registration_of_group(
    struct datastore *ds, const char *group, char out[REGISTRATION_TEXT_SIZE])
{
	struct registration_list list = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	bool found = false;

	/* It is for a message that is an error already. */
	(void)registration_list(ds, &list, &ignored);
	for (size_t i = 0; i < list.n && !found; i++) {
		found = list.items[i].live &&
		    strcmp(list.items[i].group, group) == 0;
		if (found)
			(void)registration_text(&list.items[i], out);
	}
	registration_list_release(&list);
	return found;
}

/*
 * Open and lock an entry, if its lock is free, it still stands under its name
 * (else it is another's by now) and is dead.  *ret_fd is -1 where it is not.
 */
static int take_dead(struct sessions *s, const char *name,
    struct registration_info *info, int *ret_fd, struct err *e)
{
	struct flock l = REGISTRATION_LOCK(F_WRLCK);
	struct statx st = { .stx_mask = 0 };
	char shown[CAIRNDIR_SHOWN];
	bool dead = false;
	int fd = sysio_openat(s->fd, name,
	    O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	int rc = 0;

	*ret_fd = -1;
	(void)entry_shown(s, name, shown);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	if (sysio_ofd_lock(fd, F_OFD_SETLK, &l) < 0) {
		if (errno != EAGAIN && errno != EACCES)
			rc = err_sys(e, "lock '%s'", shown);
		goto out;
	}
	rc = pathlock_recheck(fd, s->fd, name, shown, e);
	if (rc == ERR_NOTFOUND) {
		rc = 0;
		goto out;
	}
	if (rc == 0)
		rc = read_info(fd, info, shown, e);
	if (rc == 0)
		rc = file_stat_fd(fd, &st, shown, e);
	if (rc == 0)
		rc = is_dead(s, info, &st, &dead, e);
	if (rc == 0 && dead) {
		*ret_fd = fd;
		fd = -1;
	}
out:
	file_close(&fd);
	return rc;
}

/* Unlinks it, while it is locked, after fn (may be NULL) has had its say. */
static int bury(struct sessions *s, const char *name,
    int (*fn)(void *ctx, const struct registration_info *info, struct err *e),
    void *ctx, bool *ret_done, struct err *e)
{
	struct registration_info info = { .uuid = "" };
	struct err why = ERR_INIT;
	char shown[CAIRNDIR_SHOWN];
	bool done = false;
	int fd = -1;
	int rc = 0;

	if (uuid_is_text(name, strlen(name)))
		memcpy(info.uuid, name, UUID_LEN + 1);
	rc = take_dead(s, name, &info, &fd, &why);
	if (rc == 0 && fd >= 0 && fn != NULL)
		rc = fn(ctx, &info, &why);
	if (rc == 0 && fd >= 0) {
		rc = file_unlink_at(
		    s->fd, name, entry_shown(s, name, shown), &why);
		done = rc == 0;
	}
	file_close(&fd);
	if (rc < 0) {
		*e = why;
	} else {
		*ret_done = done;
	}
	return rc;
}

int registration_bury(struct datastore *ds, const char *uuid,
    int (*fn)(void *ctx, const struct registration_info *info, struct err *e),
    void *ctx, bool *ret_done, struct err *e)
{
	struct sessions s;
	int rc = 0;

	assert(uuid_is_text(uuid, strlen(uuid)));
	rc = sessions_open(ds, &s, e);
	if (rc < 0)
		return rc;
	if (s.fd < 0) {
		*ret_done = false;
	} else {
		rc = bury(&s, uuid, fn, ctx, ret_done, e);
	}
	sessions_close(&s);
	return rc;
}

struct unborn {
	struct sessions *sessions;
	size_t n;
};

static int bury_unborn(void *ctx, const char *name, struct err *e)
{
	struct unborn *u = ctx;
	bool done = false;
	int rc = 0;

	if (!is_unborn(name))
		return 0;
	rc = bury(u->sessions, name, NULL, NULL, &done, e);
	if (rc == 0 && done)
		u->n++;
	return rc;
}

int registration_bury_unborn(struct datastore *ds, size_t *ret_n, struct err *e)
{
	struct sessions s;
	struct unborn u = { .sessions = &s, .n = 0 };
	char shown[CAIRNDIR_SHOWN];
	int rc = sessions_open(ds, &s, e);

	if (rc == 0 && s.fd >= 0) {
		rc = file_each_name(s.fd, bury_unborn, &u,
		    datastore_shown(
			ds, CAIRNDIR_SESSIONS, shown, sizeof(shown)),
		    e);
	}
	sessions_close(&s);
	if (rc == 0)
		*ret_n = u.n;
	return rc;
}
