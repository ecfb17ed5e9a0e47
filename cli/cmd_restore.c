/* SPDX-License-Identifier: MIT */
/*
 * cmd_restore: give archives back.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/gaps.h"
#include "cli/hint.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "cli/restore_tree.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "index/archive.h"

/* What a backup holds is nobody else's business until its owner says so. */
#define RESTORED_MODE 0600

#define SHOWN 512 /* of the target, in messages */
#define TMP_NAME_SIZE 40

/* Where it goes. */
struct target {
	int dir_fd;       /* of the file; -1 for a device */
	const char *name; /* within it */
	const char *word; /* as typed */
	char shown[SHOWN];
	char *path_memory;
	bool exists;
	bool device;
	enum tree_overwrite overwrite;
};

static int parse_overwrite(
    const struct invocation *inv, enum tree_overwrite *ret, struct err *e)
{
	const char *s = invocation_value(inv, "overwrite");

	if (s == NULL || strcmp(s, "never") == 0)
		*ret = TREE_OVERWRITE_NEVER;
	else if (strcmp(s, "changed") == 0)
		*ret = TREE_OVERWRITE_CHANGED;
	else if (strcmp(s, "always") == 0)
		*ret = TREE_OVERWRITE_ALWAYS;
	else
		return cmd_bad_value(
		    "overwrite", s, "never, changed or always", e);
	return 0;
}

/* A directory as target means a file of the archive's name in it. */
static int resolve_path(struct target *t, const char *archive, struct err *e)
{
	char name[BACKUP_ID_MAX + 1];
	struct statx st;
	bool slash = t->word[0] != '\0' && t->word[strlen(t->word) - 1] == '/';
	mode_t type = 0;

	/* Followed: /dev/vg/lv is a link to a device. */
	if (sysio_statx(AT_FDCWD, t->word, 0, STATX_BASIC_STATS, &st) == 0)
		type = st.stx_mode & S_IFMT;
	else if (errno != ENOENT)
		return err_sys(e, "'%s'", t->shown);
	/* To replace /dev/null by a file would break the machine. */
	if (type == S_IFCHR || type == S_IFIFO || type == S_IFSOCK)
		return err_set(e, ERR_INVALID,
		    "'%s' is neither a file, a directory nor a block device; "
		    "'cairn cat' writes to a pipe or terminal",
		    t->shown);
	t->device = type == S_IFBLK;
	cmd_archive_name(archive, name);
	if (asprintf(&t->path_memory, "%s%s%s", t->word,
		type == S_IFDIR && !slash ? "/" : "",
		type == S_IFDIR ? name : "") < 0) {
		t->path_memory = NULL;
		return err_nomem(e);
	}
	if (type == S_IFDIR)
		(void)text_name(t->shown, sizeof(t->shown), t->path_memory);
	return 0;
}

/* Open the directory of the file, so that what follows is relative to it. */
static int open_parent(struct target *t, struct err *e)
{
	char *slash = NULL;
	struct statx st;
	const char *dir = ".";
	int rc = 0;

	assert(t->path_memory != NULL);
	slash = strrchr(t->path_memory, '/');
	t->name = slash != NULL ? slash + 1 : t->path_memory;
	if (t->name[0] == '\0')
		return err_set(e, ERR_INVALID,
		    "'%s' does not exist; make it first, or name a file",
		    t->shown);
	if (slash == t->path_memory)
		dir = "/";
	else if (slash != NULL)
		dir = t->path_memory;
	if (slash != NULL && slash != t->path_memory)
		*slash = '\0';
	t->dir_fd =
	    sysio_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (t->dir_fd < 0)
		return restore_tree_no_parent(t->shown, e);
	rc = file_stat_at(t->dir_fd, t->name, &st, &t->exists, t->shown, e);
	if (rc < 0 || !t->exists)
		return rc;
	if ((st.stx_mode & S_IFMT) == S_IFDIR)
		return err_set(e, ERR_INVALID,
		    "'%s' is a directory, want a file's name", t->shown);
	/* A link, FIFO or socket is replaced, never written through. */
	if ((st.stx_mode & S_IFMT) != S_IFREG &&
	    t->overwrite == TREE_OVERWRITE_CHANGED)
		t->overwrite = TREE_OVERWRITE_ALWAYS;
	return 0;
}

static int target_open(struct target *t, const struct invocation *inv,
    const struct datastore *ds, struct err *e)
{
	const char *archive = inv->args[1];
	int rc = 0;

	t->dir_fd = -1;
	t->word = inv->args[2];
	(void)text_name(t->shown, sizeof(t->shown), t->word);
	rc = resolve_path(t, archive, e);
	if (rc < 0 || t->device)
		return rc;
	rc = open_parent(t, e);
	return rc < 0 ? rc
		      : restore_tree_refuse_store(ds, t->dir_fd, t->shown, e);
}

static void target_release(struct target *t)
{
	file_close(&t->dir_fd);
	free(t->path_memory);
}

static int device_size(int fd, const char *shown, uint64_t *ret, struct err *e)
{
	off_t end = sysio_lseek(fd, 0, SEEK_END);

	if (end < 0)
		return err_sys(e, "'%s'", shown);
	*ret = (uint64_t)end;
	return 0;
}

static int to_device(struct app *app, struct opened *o, struct target *t,
    struct archive_result *ret, struct err *e)
{
	uint64_t size = 0;
	int fd = -1;
	int rc = 0;

	if (t->overwrite != TREE_OVERWRITE_ALWAYS)
		return err_set(e, ERR_INVALID,
		    "'%s' is a block device; it is written only with "
		    "--overwrite=always",
		    t->shown);
	fd = sysio_openat(
	    AT_FDCWD, t->path_memory, O_RDWR | O_CLOEXEC | O_EXCL, 0);
	if (fd < 0 && errno == EBUSY)
		return err_set(e, ERR_BUSY,
		    "'%s' is in use: unmount it, or stop what uses it",
		    t->shown);
	if (fd < 0)
		return err_sys(e, "'%s'", t->shown);
	rc = device_size(fd, t->shown, &size, e);
	if (rc == 0 && size < archive_size(o->archive))
		rc = err_set(e, ERR_REFUSED,
		    "'%s' has %" PRIu64 " bytes, the archive needs %" PRIu64,
		    t->shown, size, archive_size(o->archive));
	if (rc == 0)
		rc = archive_extract(o->archive, fd, ARCHIVE_OVERWRITE,
		    t->shown, &app->task, ret, e);
	if (rc == 0)
		rc = file_sync(fd, t->shown, e);
	file_close(&fd);
	return rc;
}

/* Only what differs is written, in place. */
static int to_existing(struct app *app, struct opened *o, struct target *t,
    struct archive_result *ret, struct err *e)
{
	uint64_t size = archive_size(o->archive);
	int fd = -1;
	/* What is there loses its end only to an archive that has one. */
	int rc = archive_check(o->archive, &app->task, e);

	if (rc < 0)
		return rc;
	fd = sysio_openat(
	    t->dir_fd, t->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return err_sys(e, "'%s'", t->shown);
	/* A broken index is told before anything is changed. */
	rc = archive_check(o->archive, &app->task, e);
	if (rc == 0 && sysio_ftruncate(fd, (off_t)size) < 0)
		rc = err_sys(e, "'%s'", t->shown);
	if (rc == 0)
		rc = archive_extract(o->archive, fd, ARCHIVE_OVERWRITE_CHANGED,
		    t->shown, &app->task, ret, e);
	if (rc == 0)
		rc = file_sync(fd, t->shown, e);
	/* In place is in place: say so, and what mends it. */
	if (rc < 0)
		err_prefix(e,
		    "'%s' may be partly overwritten; repeat, or restore "
		    "another snapshot",
		    t->shown);
	file_close(&fd);
	return rc;
}

/* Not file_make_tmp: its file is for everybody to read, from the start. */
static int make_private(const struct target *t, char name[TMP_NAME_SIZE],
    int *ret_fd, struct err *e)
{
	uint64_t r = 0;
	int rc = file_random(&r, sizeof(r), e);

	if (rc < 0)
		return rc;
	(void)snprintf(name, TMP_NAME_SIZE, ".cairn-restore.%016" PRIx64, r);
	*ret_fd = sysio_openat(t->dir_fd, name,
	    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, RESTORED_MODE);
	return *ret_fd < 0
	    ? err_sys(e, "make a temporary file for '%s'", t->shown)
	    : 0;
}

/*
 * Over what is there only if that was asked for.  Where a rename can not be
 * told so (NFS and others), a hard link can: it never replaces.
 */
static int give_name(const struct target *t, const char *tmp, struct err *e)
{
	unsigned flags =
	    t->overwrite == TREE_OVERWRITE_ALWAYS ? 0 : RENAME_NOREPLACE;
	struct err ignored = ERR_INIT; /* a second name does no harm */

	if (sysio_renameat2(t->dir_fd, tmp, t->dir_fd, t->name, flags) == 0)
		return 0;
	if (flags == 0 || (errno != EINVAL && errno != ENOSYS))
		return err_sys(e, "'%s'", t->shown);
	if (sysio_linkat(t->dir_fd, tmp, t->dir_fd, t->name, 0) < 0)
		return err_sys(e, "'%s'", t->shown);
	(void)file_unlink_at(t->dir_fd, tmp, t->shown, &ignored);
	return 0;
}

/* Under a temporary name, so that a file of this name is a whole one. */
static int to_new(struct app *app, struct opened *o, struct target *t,
    struct archive_result *ret, struct err *e)
{
	char name[TMP_NAME_SIZE];
	struct err ignored = ERR_INIT; /* the first error is told */
	int fd = -1;
	int rc = make_private(t, name, &fd, e);

	if (rc < 0)
		return rc;
	rc = archive_extract(
	    o->archive, fd, ARCHIVE_SPARSE_FILE, t->shown, &app->task, ret, e);
	if (rc == 0)
		rc = file_sync(fd, t->shown, e);
	if (rc == 0)
		rc = give_name(t, name, e);
	if (rc == 0)
		rc = file_sync(t->dir_fd, t->shown, e);
	if (rc < 0)
		(void)file_unlink_at(t->dir_fd, name, t->shown, &ignored);
	if (rc == ERR_CANCELLED)
		err_suffix(e, "; '%s' was not made", t->shown);
	file_close(&fd);
	return rc;
}

static int print_result(const struct app *app, const struct opened *o,
    const struct target *t, const struct archive_result *r,
    const struct gaps *gaps, struct err *e)
{
	int rc = 0;

	char size[TEXT_SIZE_SIZE];
	char written[TEXT_SIZE_SIZE];

	if (app->json) {
		struct js *doc = js_object();

		output_json_begin(e);
		cmd_json_snapshot(doc, &o->id, e);
		js_set_name(doc, "target", t->word, e);
		js_set_u64(doc, "size", r->bytes, e);
		js_set_u64(doc, "written", r->bytes_written, e);
		gaps_json(gaps, doc, e);
		return output_json(doc, e);
	}
	rc = output_text(e, "'%s': %s restored, %s written\n", t->shown,
	    text_size(size, r->bytes), text_size(written, r->bytes_written));
	return rc < 0 ? rc : gaps_print(gaps, e);
}

static bool is_left_alone(const struct target *t)
{
	return !t->device && t->exists && t->overwrite == TREE_OVERWRITE_NEVER;
}

static int restore_stream(struct app *app, const struct invocation *inv,
    struct opened *o, enum tree_overwrite overwrite, struct err *e)
{
	struct target t = { .dir_fd = -1, .overwrite = overwrite };
	struct archive_result result = { .bytes = 0 };
	struct gaps *gaps = calloc(1, sizeof(*gaps));
	bool in_place = false;
	bool skipped = false;
	bool damage = false;
	int rc =
	    gaps == NULL ? err_nomem(e) : opened_archive(o, inv->args[1], e);

	if (rc < 0 && gaps != NULL)
		hint_damaged_file(app, &o->id, e);
	else if (rc == 0)
		rc = target_open(&t, inv, o->ds, e);
	if (rc == 0 && !is_left_alone(&t))
		rc = opened_check_stream(o, inv->args[1], e);
	if (rc < 0 || gaps == NULL)
		goto out;
	in_place =
	    t.device || (t.exists && t.overwrite == TREE_OVERWRITE_CHANGED);
	gaps_init(gaps, &app->task, t.shown, in_place);
	if (invocation_has(inv, "skip-damaged"))
		archive_skip_damage(o->archive, &gaps->hook);
	skipped = is_left_alone(&t);
	if (skipped)
		task_message(&app->task, TASK_WARNING,
		    "'%s' exists and was left alone; --overwrite=changed or "
		    "always writes it",
		    t.shown);
	else if (t.device)
		rc = to_device(app, o, &t, &result, e);
	else if (in_place)
		rc = to_existing(app, o, &t, &result, e);
	else
		rc = to_new(app, o, &t, &result, e);
	if (rc < 0)
		hint_damage(
		    app, &o->id, "'restore --skip-damaged' gives the rest", e);
	gaps_end(gaps);
	damage = gaps->ranges > 0;
	if (rc == 0 && !skipped)
		rc = print_result(app, o, &t, &result, gaps, e);
out:
	free(gaps);
	target_release(&t);
	if (rc < 0)
		return rc;
	if (damage)
		return EXIT_DAMAGE;
	return skipped || o->incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}

int cmd_restore(struct app *app, const struct invocation *inv, struct err *e)
{
	enum tree_overwrite overwrite = TREE_OVERWRITE_NEVER;
	struct opened o = OPENED_INIT;
	int rc = parse_overwrite(inv, &overwrite, e);

	if (rc == 0)
		rc = opened_snapshot(app, inv->args[0], &o, e);
	if (rc == 0 && restore_tree_is_meant(inv))
		rc = restore_tree(app, inv, &o, overwrite, e);
	else if (rc == 0)
		rc = restore_stream(app, inv, &o, overwrite, e);
	opened_release(&o);
	return rc;
}
