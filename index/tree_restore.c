/* SPDX-License-Identifier: MIT */
#include "index/tree_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "index/catalog_salvage.h"
#include "index/tree_restore_internal.h"

#define DIRS_OPEN_MAX 256U
#define DIRS_OPEN_MIN 8U
#define FDS_OTHERS 64U /* the datastore, workers, files in the making */

#define SHOWN 400 /* of a path in a message: both its ends */

/* -- What is said. -- */

bool restore_is_fatal(const struct err *e)
{
	static const int errors[] = { ENOSPC, EDQUOT, EMFILE, ENFILE };

	if (e->code == ERR_NOMEM || e->code == ERR_CANCELLED)
		return true;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (err_is_sys(e, errors[i]))
			return true;
	}
	return false;
}

/* As a person would type it, but one line, and not longer than a message. */
static int show(struct restore *r, uint64_t dir, const char *name,
    struct buf *out, struct err *e)
{
	struct buf raw = BUF_INIT;
	int rc = restore_dirs_path(r->dirs, dir, name, &raw, e);

	if (rc == 0)
		rc = buf_append_str(out, r->shown, e);
	if (rc == 0 && raw.len > 0 &&
	    (out->len == 0 || out->data[out->len - 1] != '/'))
		rc = buf_append_str(out, "/", e);
	if (rc == 0)
		rc = text_append_name(out, raw.data, raw.len, e);
	if (rc == 0 && out->len > SHOWN) {
		size_t half = (SHOWN - 3) / 2;

		memcpy(out->data + half, "...", 3);
		memmove(
		    out->data + half + 3, out->data + out->len - half, half);
		out->len = 2 * half + 3;
	}
	buf_release(&raw);
	return rc;
}

static int warn(struct restore *r, uint64_t dir, const char *name,
    const char *text, struct err *e)
{
	struct buf path = BUF_INIT;
	const char *shown = NULL;
	int rc = show(r, dir, name, &path, e);

	if (rc == 0) {
		shown = buf_cstr(&path, e);
		rc = shown == NULL ? e->code : 0;
	}
	if (rc == 0)
		task_message(r->task, TASK_WARNING, "'%s': %s", shown, text);
	buf_release(&path);
	return rc;
}

int restore_tell(struct restore *r, enum restore_told kind, uint64_t dir,
    const char *name, const char *text, struct err *e)
{
	uint64_t n = r->told[kind]++;

	switch (kind) {
	case RESTORE_TOLD_SKIPPED:
		r->result.skipped++;
		break;
	case RESTORE_TOLD_FAILED:
		r->result.failed++;
		break;
	case RESTORE_TOLD_SHORT:
		return warn(r, dir, name, text, e);
	case RESTORE_TOLD_DAMAGED:
	case RESTORE_TOLD_KINDS:
		r->result.damaged++;
		return warn(r, dir, name, text, e);
	}
	if (n == RESTORE_TOLD_MAX)
		task_message(r->task, TASK_WARNING,
		    "more that %s: they are only counted",
		    kind == RESTORE_TOLD_SKIPPED ? "exist"
						 : "could not be made");
	return n < RESTORE_TOLD_MAX ? warn(r, dir, name, text, e) : 0;
}

void restore_name_error(
    struct restore *r, uint64_t dir, const char *name, struct err *e)
{
	struct buf path = BUF_INIT;
	struct err ignored = ERR_INIT; /* without its name, then */

	if (e->code == ERR_CANCELLED || e->code == ERR_NOMEM)
		return;
	if (show(r, dir, name, &path, &ignored) == 0)
		err_prefix(e, "'%.*s'", (int)path.len, (const char *)path.data);
	buf_release(&path);
}

int restore_failed(
    struct restore *r, uint64_t dir, const char *name, int rc, struct err *e)
{
	struct err why = *e;

	if (restore_is_fatal(e)) {
		restore_name_error(r, dir, name, e);
		return rc;
	}
	(void)err_forget(e);
	return restore_tell(r,
	    rc == ERR_CORRUPT ? RESTORE_TOLD_DAMAGED : RESTORE_TOLD_FAILED, dir,
	    name, why.msg, e);
}

int restore_tell_missed(struct restore *r, uint64_t dir, const char *name,
    const struct restore_missed *missed, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = 0;

	if (missed->bits == 0)
		return 0;
	r->result.metadata_failed++;
	for (unsigned i = 0; i < RESTORE_MISS_KINDS && rc == 0; i++) {
		unsigned bit = missed->bits & 1U << i;

		if (bit == 0)
			continue;
		r->result.missed[i]++;
		if ((r->missed_named & bit) != 0)
			continue;
		r->missed_named |= bit;
		errno = missed->error[i];
		(void)err_sys(&why,
		    "%s not restored (said once; others are counted)",
		    restore_miss_word((enum restore_miss)i));
		rc = warn(r, dir, name, why.msg, e);
	}
	return rc;
}

/* -- What is remembered. -- */

enum restore_taken restore_taken(const struct restore *r)
{
	return r->opts->overwrite == TREE_OVERWRITE_NEVER ? RESTORE_KEEP
							  : RESTORE_REPLACE;
}

/* An entry without them is better than none. */
static int lose_attr(struct restore *r, struct err *e)
{
	r->result.metadata_failed++;
	if (r->result.missed[RESTORE_MISS_XATTR]++ == 0)
		task_message(r->task, TASK_WARNING,
		    "%s; what has these attributes is restored without them "
		    "(said once; others are counted)",
		    e->msg);
	return err_forget(e);
}

static void lose_name(struct restore *r)
{
	r->result.metadata_failed++;
	r->result.missed[RESTORE_MISS_OWNER]++;
}

int restore_meta_of(struct restore *r, const struct catalog_entry *entry,
    struct restore_meta *ret, struct err *e)
{
	bool lost = false;
	int rc = 0;

	*ret = (struct restore_meta){ .has = entry->has,
		.mode = entry->mode,
		.mtime_s = entry->mtime_s,
		.mtime_ns = entry->mtime_ns,
		.attr = entry->attr,
		.flags = entry->flags };
	if ((entry->has & CATALOG_HAS_UID) != 0)
		rc = restore_names_id(
		    r->names, CATALOG_USER, entry->uid, &ret->uid, &lost, e);
	if (rc == 0 && (entry->has & CATALOG_HAS_GID) != 0)
		rc = restore_names_id(
		    r->names, CATALOG_GROUP, entry->gid, &ret->gid, &lost, e);
	if (rc == 0 && lost)
		lose_name(r);
	return rc;
}

int restore_attr_of(struct restore *r, const struct restore_meta *m,
    struct restore_attr **ret, struct err *e)
{
	struct restore_attr *attr = NULL;
	int rc = 0;

	*ret = NULL;
	if ((m->has & CATALOG_HAS_ATTR) == 0)
		return 0;
	rc = restore_names_attr(r->names, m->attr, &attr, e);
	if (rc < 0)
		return catalog_can_salvage(e) ? lose_attr(r, e) : rc;
	if (attr->nameless)
		lose_name(r);
	*ret = attr;
	return 0;
}

int restore_record_add(struct restore *r, const struct restore_record *rec,
    uint64_t *ret_at, struct err *e)
{
	return restore_spool_append(r->spool, rec,
	    offsetof(struct restore_record, name) + rec->name_n + 1, ret_at, e);
}

int restore_record_read(
    struct restore *r, uint64_t at, struct restore_record *ret, struct err *e)
{
	size_t fixed = offsetof(struct restore_record, name);
	int rc = restore_spool_read(r->spool, at, ret, fixed, e);

	if (rc == 0)
		rc = restore_spool_read(
		    r->spool, at + fixed, ret->name, ret->name_n + 1, e);
	return rc;
}

int restore_record_mark(
    struct restore *r, uint64_t at, size_t offset, struct err *e)
{
	const bool yes = true;

	return restore_spool_overwrite(
	    r->spool, at + offset, &yes, sizeof(yes), e);
}

int restore_record_fail(struct restore *r, uint64_t at, int rc, struct err *e)
{
	int done = restore_record_mark(
	    r, at, offsetof(struct restore_record, failed), e);

	if (done == 0 && rc == ERR_CORRUPT)
		done = restore_record_mark(
		    r, at, offsetof(struct restore_record, damaged), e);
	return done;
}

int restore_schedule(struct restore *r, const struct restore_record *rec,
    uint64_t at, struct err *e)
{
	struct restore_pair pair = { .key = rec->start, .at = at };

	r->total += rec->stored;
	if (rec->scattered)
		return restore_sort_add(r->scattered, pair, e);
	if (rec->stored == 0)
		pair.key = RESTORE_NO_CONTENT;
	return restore_sort_add(r->files, pair, e);
}

/* -- What comes last. -- */

static int set_late(
    struct restore *r, const struct restore_record *rec, struct err *e)
{
	struct restore_missed missed = { 0 };
	struct restore_dirfd dir = { .open = false };
	struct restore_node n = { .kind = CATALOG_FILE, .fd = -1 };
	int rc = restore_dirs_open(r->dirs, rec->dir, &dir, e);

	if (rc == 0)
		rc = file_open_regular(
		    dir.fd, rec->name, &n.fd, NULL, rec->name, e);
	restore_dirs_put(r->dirs, &dir);
	if (rc < 0)
		return restore_failed(r, rec->dir, rec->name, rc, e);
	restore_meta_late(&n, &rec->meta, &missed);
	file_close(&n.fd);
	return restore_tell_missed(r, rec->dir, rec->name, &missed, e);
}

static int finish_files(struct restore *r, struct err *e)
{
	int rc = restore_sort_rewind(r->late, e);

	while (rc == 0) {
		struct restore_record rec;
		struct restore_pair next;
		bool more = false;

		rc = restore_sort_next(r->late, &next, &more, e);
		if (rc < 0 || !more)
			break;
		rc = restore_record_read(r, next.key, &rec, e);
		if (rc == 0)
			rc = set_late(r, &rec, e);
	}
	return rc;
}

static int finish_dir(
    struct restore *r, const struct restore_dir *d, struct err *e)
{
	struct restore_missed missed = { 0 };
	struct restore_dirfd fd = { .open = false };
	struct restore_attr *attr = NULL;
	struct restore_node n = { .kind = CATALOG_DIR,
		.inherited = d->inherited };
	struct statx st;
	int rc = restore_attr_of(r, &d->meta, &attr, e);

	if (rc == 0)
		rc = restore_dirs_open(r->dirs, d->number, &fd, e);
	if (rc == 0)
		rc = restore_stat_fd(fd.fd, &st, e);
	if (rc == 0 && !restore_meta_is_set(&d->meta, &st)) {
		n.fd = fd.fd;
		restore_meta_apply(&n, &d->meta, attr, &missed);
		restore_meta_late(&n, &d->meta, &missed);
	}
	restore_dirs_put(r->dirs, &fd);
	restore_attr_put(attr);
	if (rc < 0)
		return restore_failed(r, d->number, "", rc, e);
	return restore_tell_missed(r, d->number, "", &missed, e);
}

/* Backwards: those below come before it, and do not change its times. */
static int finish_dirs(struct restore *r, struct err *e)
{
	uint64_t number = restore_dirs_last(r->dirs);
	int rc = 0;

	while (rc == 0 && number != RESTORE_DIR_NONE) {
		struct restore_dir d = { .previous = RESTORE_DIR_NONE };

		rc = task_check(r->task, e);
		if (rc == 0)
			rc = restore_dirs_read(r->dirs, number, &d, e);
		if (rc == 0 && d.set)
			rc = finish_dir(r, &d, e);
		if (rc == 0)
			r->unfinished = number;
		number = d.previous;
	}
	return rc;
}

/* It came to no end: directories have the flags again that they had. */
static void refreeze_dirs(struct restore *r)
{
	struct err ignored = ERR_INIT; /* why it ended is what is told */
	struct restore_pair next;
	bool more = false;

	if (r->thawed == NULL || restore_sort_rewind(r->thawed, &ignored) < 0)
		return;
	while (restore_sort_next(r->thawed, &next, &more, &ignored) == 0 &&
	    more && next.key < r->unfinished) {
		struct restore_dirfd fd = { .open = false };

		if (restore_dirs_open(r->dirs, next.key, &fd, &ignored) == 0)
			restore_meta_freeze(fd.fd, (unsigned)next.at);
		restore_dirs_put(r->dirs, &fd);
	}
}

/* -- The run. -- */

static size_t open_dirs(void)
{
	struct rlimit limit;
	size_t n = DIRS_OPEN_MAX;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return DIRS_OPEN_MIN;
	if (limit.rlim_cur < n + FDS_OTHERS)
		n = limit.rlim_cur > FDS_OTHERS + DIRS_OPEN_MIN
		    ? (size_t)limit.rlim_cur - FDS_OTHERS
		    : DIRS_OPEN_MIN;
	return n;
}

static int begin(struct restore *r, int targetfd, struct err *e)
{
	const char *file = archive_filename(r->content);
	int stem = (int)(strrchr(file, '.') - file);
	int rc = restore_place_init(&r->place, e);

	(void)snprintf(r->phase, sizeof(r->phase), "restore %.*s", stem, file);
	(void)snprintf(r->phase_walk, sizeof(r->phase_walk),
	    "restore %.*s: entries", stem, file);
	if (rc == 0)
		rc = restore_dirs_new(targetfd, open_dirs(), &r->dirs, e);
	if (rc == 0)
		rc = restore_names_new(
		    r->c, r->opts->numeric_owner, r->task, &r->names, e);
	if (rc == 0)
		rc = restore_spool_new(&r->spool, e);
	if (rc == 0)
		rc = restore_sort_new(RESTORE_SORT_RUN, &r->files, e);
	if (rc == 0)
		rc = restore_sort_new(RESTORE_SORT_RUN, &r->scattered, e);
	if (rc == 0)
		rc = restore_sort_new(RESTORE_SORT_RUN, &r->links, e);
	if (rc == 0)
		rc = restore_sort_new(RESTORE_SORT_RUN, &r->late, e);
	if (rc == 0)
		rc = restore_sort_new(RESTORE_SORT_RUN, &r->thawed, e);
	return rc;
}

static void end(struct restore *r)
{
	restore_sort_free(r->thawed);
	restore_sort_free(r->late);
	restore_sort_free(r->links);
	restore_sort_free(r->scattered);
	restore_sort_free(r->files);
	restore_spool_free(r->spool);
	restore_names_free(r->names);
	restore_dirs_free(r->dirs);
}

/* Links, and the files that are made in the place of some. */
static int make_links(struct restore *r, struct err *e)
{
	bool again = true;
	int rc = 0;

	while (rc == 0 && again) {
		rc = restore_links_make(r, &again, e);
		if (rc == 0 &&
		    restore_sort_count(r->files) +
			    restore_sort_count(r->scattered) >
			0)
			rc = restore_contents(r, e);
	}
	return rc;
}

/* Contents, links and metadata of what was found. */
static int make(struct restore *r, struct err *e)
{
	int rc = restore_links_plan(r, e);

	if (rc == 0)
		rc = restore_contents(r, e);
	if (rc == 0)
		rc = make_links(r, e);
	if (rc == 0)
		rc = finish_files(r, e);
	if (rc == 0)
		rc = finish_dirs(r, e);
	return rc;
}

/* A file whose digest is right is right, whatever else the index says. */
static int check_index(struct restore *r, struct err *e)
{
	int rc = archive_check(r->content, r->task, e);

	if (rc != ERR_CORRUPT)
		return rc;
	task_message(r->task, TASK_WARNING,
	    "%s; each file is compared with its own digest", e->msg);
	r->result.damaged++;
	return err_forget(e);
}

static int run(struct restore *r, int targetfd, struct err *e)
{
	struct err found = ERR_INIT;
	int rc = begin(r, targetfd, e);
	int walked = 0;

	if (rc == 0 && archive_idx(r->content) == NULL)
		rc = err_set(e, ERR_INVALID, "'%s' has no chunks",
		    archive_shown(r->content));
	if (rc == 0)
		rc = check_index(r, e);
	if (rc < 0)
		return rc;
	walked = restore_walk(r, &found);
	/* A catalog that breaks off: what it had said by then is restored. */
	if (walked < 0 && (walked != ERR_CORRUPT || r->entries_seen == 0)) {
		*e = found;
		return walked;
	}
	rc = make(r, e);
	if (rc == 0 && sysio_syncfs(targetfd) < 0)
		rc = err_sys(e, "sync '%s'", r->shown);
	if (rc == 0 && walked < 0) {
		*e = found;
		err_suffix(e, "; what could be found was restored");
		rc = walked;
	}
	return rc;
}

int tree_restore(struct catalog *c, struct archive *content, int targetfd,
    const char *shown, const struct tree_restore_opts *opts, struct task *task,
    struct tree_restore_result *ret, struct err *e)
{
	struct restore *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (r == NULL)
		return err_nomem(e);
	r->c = c;
	r->content = content;
	r->shown = shown;
	r->opts = opts;
	r->task = task;
	r->unfinished = RESTORE_DIR_NONE;
	rc = run(r, targetfd, e);
	*ret = r->result;
	if (rc < 0)
		refreeze_dirs(r);
	end(r);
	free(r);
	return rc;
}
