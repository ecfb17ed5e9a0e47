/* SPDX-License-Identifier: MIT */
#include "cli/restore_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/output.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "index/catalog.h"

#define SHOWN 512 /* of the target, in messages */
#define FIRST_PATH 3
#define PRIVATE_MODE 0700
#define USUAL_MODE 0777
#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

struct target {
	const char *word; /* as typed */
	char shown[SHOWN];
	int fd;
	bool made;
};

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name);
	size_t k = strlen(suffix);

	return n > k && strcmp(name + n - k, suffix) == 0;
}

bool restore_tree_is_meant(const struct invocation *inv)
{
	char name[BACKUP_ID_MAX + 1];

	cmd_archive_name(inv->args[1], name);
	return inv->args_n > FIRST_PATH || has_suffix(name, ".tree");
}

int restore_tree_refuse_store(
    const struct datastore *ds, int dirfd, const char *shown, struct err *e)
{
	struct statx root;
	struct statx at;
	struct statx above = { .stx_mask = 0 };
	int fd = -1;
	int rc = file_stat_fd(ds->root_fd, &root, shown, e);

	if (rc == 0)
		rc = file_stat_fd(dirfd, &at, shown, e);
	while (rc == 0 && !file_same(&at, &root)) {
		int up = sysio_openat(fd < 0 ? dirfd : fd, "..",
		    O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

		if (up < 0)
			rc = err_sys(e, "directory above '%s'", shown);
		file_close(&fd);
		fd = up;
		if (rc == 0)
			rc = file_stat_fd(fd, &above, shown, e);
		if (rc < 0 || file_same(&above, &at))
			break;
		at = above;
	}
	file_close(&fd);
	if (rc < 0 || !file_same(&at, &root))
		return rc;
	return err_set(e, ERR_REFUSED,
	    "'%s' lies in the datastore; want a place outside", shown);
}

int restore_tree_no_parent(const char *shown, struct err *e)
{
	if (errno == ENOENT)
		return err_set(e, ERR_INVALID,
		    "'%s': the directory above it does not exist; make it "
		    "first",
		    shown);
	return err_sys(e, "directory of '%s'", shown);
}

/* Its parent is opened, so that nothing is made where nothing may be. */
static int make_target(
    struct target *t, const struct datastore *ds, mode_t mode, struct err *e)
{
	char *path = strdup(t->word);
	char *name = NULL;
	const char *above = ".";
	int fd = -1;
	int rc = 0;

	if (path == NULL)
		return err_nomem(e);
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	name = strrchr(path, '/');
	if (name == path)
		above = "/";
	else if (name != NULL)
		above = path;
	if (name != NULL)
		*name = '\0';
	name = name != NULL ? name + 1 : path;
	fd = sysio_openat(AT_FDCWD, above, OPEN_FLAGS, 0);
	if (fd < 0)
		rc = restore_tree_no_parent(t->shown, e);
	if (rc == 0)
		rc = restore_tree_refuse_store(ds, fd, t->shown, e);
	if (rc == 0 && sysio_mkdirat(fd, name, mode) < 0)
		rc = err_sys(e, "make the directory '%s'", t->shown);
	t->made = rc == 0;
	file_close(&fd);
	free(path);
	return rc;
}

/* One that is missing is made: for its owner only, if it will get the
 * metadata of the tree's root, else as any other. */
static int target_open(
    struct target *t, const struct datastore *ds, bool whole, struct err *e)
{
	int rc = 0;

	t->fd = sysio_openat(AT_FDCWD, t->word, OPEN_FLAGS, 0);
	if (t->fd < 0 && errno == ENOENT) {
		rc = make_target(t, ds, whole ? PRIVATE_MODE : USUAL_MODE, e);
		if (rc < 0)
			return rc;
		t->fd = sysio_openat(AT_FDCWD, t->word, OPEN_FLAGS, 0);
	}
	if (t->fd < 0 && errno == ENOTDIR)
		return err_set(
		    e, ERR_INVALID, "'%s' is no directory, want one", t->shown);
	if (t->fd < 0)
		return err_sys(e, "'%s'", t->shown);
	return restore_tree_refuse_store(ds, t->fd, t->shown, e);
}

/* One that was made in vain goes again, if nothing is in it. */
static void target_release(struct target *t, bool failed)
{
	if (t->made && failed)
		(void)sysio_unlinkat(AT_FDCWD, t->word, AT_REMOVEDIR);
	file_close(&t->fd);
}

static int open_content(struct opened *o, const struct invocation *inv,
    struct catalog **ret, struct err *e)
{
	char name[BACKUP_ID_MAX + 1];
	int rc = opened_archive(o, inv->args[1], e);

	cmd_archive_name(inv->args[1], name);
	if (rc == 0 && !has_suffix(name, ".tree") && !has_suffix(name, ".tar"))
		rc = err_set(e, ERR_INVALID,
		    "'%s' is one piece: there is no PATH in it; trees and tars "
		    "have them",
		    name);
	if (rc == 0)
		rc = catalog_open(
		    o->ds, &o->id, &o->hold, &o->manifest, name, ret, e);
	if (rc == 0)
		rc = opened_check(o, *ret, e);
	return rc;
}

static bool is_whole(const struct tree_restore_result *r)
{
	return r->skipped == 0 && r->failed == 0 && r->damaged == 0 &&
	    r->metadata_failed == 0 && !catalog_gaps_any(&r->gaps);
}

static int print_json(const struct opened *o, const struct target *t,
    const struct tree_restore_result *r, struct err *e)
{
	struct js *doc = js_object();
	struct js *missed = js_object();

	output_json_begin(e);
	cmd_json_snapshot(doc, &o->id, e);
	js_set_name(doc, "target", t->word, e);
	js_set_u64(doc, "entries", r->entries, e);
	js_set_u64(doc, "bytes", r->bytes, e);
	js_set_u64(doc, "skipped", r->skipped, e);
	js_set_u64(doc, "equal", r->equal, e);
	js_set_u64(doc, "failed", r->failed, e);
	js_set_u64(doc, "damaged", r->damaged, e);
	js_set_u64(doc, "metadata-failed", r->metadata_failed, e);
	for (unsigned i = 0; i < RESTORE_MISS_KINDS; i++)
		js_set_u64(missed, restore_miss_key((enum restore_miss)i),
		    r->missed[i], e);
	js_set(doc, "metadata-missed", missed, e);
	js_set_u64(doc, "unlisted", r->gaps.places, e);
	js_set_u64(doc, "unreached", r->gaps.unreached, e);
	return output_json(doc, e);
}

/* "  damaged: 3", if there are any. */
static int print_count(const char *what, uint64_t n, struct err *e)
{
	return n == 0 ? 0 : output_text(e, "  %s: %" PRIu64 "\n", what, n);
}

static int print_missed(const struct tree_restore_result *r, struct err *e)
{
	const char *before = " (";
	int rc = 0;

	if (r->metadata_failed == 0)
		return 0;
	rc = output_text(
	    e, "  without all metadata: %" PRIu64, r->metadata_failed);
	for (unsigned i = 0; i < RESTORE_MISS_KINDS && rc == 0; i++) {
		if (r->missed[i] == 0)
			continue;
		rc = output_text(e, "%s%s %" PRIu64, before,
		    restore_miss_word((enum restore_miss)i), r->missed[i]);
		before = ", ";
	}
	return rc < 0 ? rc : output_text(e, ")\n");
}

static int print_text(
    const struct target *t, const struct tree_restore_result *r, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	int rc = output_text(e, "'%s': %" PRIu64 " %s restored, %s\n", t->shown,
	    r->entries, text_plural(r->entries, "entry", "entries"),
	    text_size(size, r->bytes));

	if (rc == 0)
		rc = print_count("as they should be", r->equal, e);
	if (rc == 0)
		rc = print_count(
		    "existed, left alone (see --overwrite)", r->skipped, e);
	if (rc == 0)
		rc = print_count("damaged", r->damaged, e);
	if (rc == 0)
		rc = print_count("could not be made", r->failed, e);
	if (rc == 0)
		rc = print_count("places of the catalog that can not be read",
		    r->gaps.places, e);
	if (rc == 0)
		rc = print_count(
		    "entries in no directory", r->gaps.unreached, e);
	return rc < 0 ? rc : print_missed(r, e);
}

static int paths_of(
    const struct invocation *inv, struct catalog_bytes **ret, struct err *e)
{
	size_t n = inv->args_n - FIRST_PATH;
	struct catalog_bytes *paths = calloc(n + 1, sizeof(*paths));

	if (paths == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		paths[i].p = (const uint8_t *)inv->args[FIRST_PATH + i];
		paths[i].n = strlen(inv->args[FIRST_PATH + i]);
	}
	*ret = paths;
	return 0;
}

/* The first of them that is not there is the one the error is about. */
static void meant_paths(
    struct catalog *c, const struct tree_restore_opts *opts, struct err *e)
{
	for (size_t i = 0; i < opts->paths_n; i++) {
		struct err why = ERR_INIT;
		struct catalog_entry entry;

		if (catalog_resolve(c, opts->paths[i], &entry, &why) == 0)
			continue;
		meant_path(c, opts->paths[i], e);
		break;
	}
}

/* Of which nothing is left when it is damaged, as of a stream. */
static bool is_one_file(struct catalog *c, const struct tree_restore_opts *opts)
{
	struct err why = ERR_INIT;
	struct catalog_entry entry;

	return opts->paths_n == 1 &&
	    catalog_resolve(c, opts->paths[0], &entry, &why) == 0 &&
	    entry.kind != CATALOG_DIR;
}

int restore_tree(struct app *app, const struct invocation *inv,
    struct opened *o, enum tree_overwrite overwrite, struct err *e)
{
	struct tree_restore_opts opts = { .overwrite = overwrite,
		.numeric_owner = invocation_has(inv, "numeric-owner"),
		.paths_n = inv->args_n - FIRST_PATH };
	struct tree_restore_result result = { .entries = 0 };
	struct target t = { .word = inv->args[2], .fd = -1 };
	struct catalog_bytes *paths = NULL;
	struct catalog *c = NULL;
	bool one_file = false;
	int rc = paths_of(inv, &paths, e);

	opts.paths = paths;
	(void)text_name(t.shown, sizeof(t.shown), t.word);
	if (rc == 0)
		rc = open_content(o, inv, &c, e);
	if (rc == 0)
		rc = target_open(&t, o->ds, opts.paths_n == 0, e);
	if (rc == 0) {
		opts.root_metadata = t.made && opts.paths_n == 0;
		rc = tree_restore(c, o->archive, t.fd, t.shown, &opts,
		    &app->task, &result, e);
		if (rc == ERR_NOTFOUND)
			meant_paths(c, &opts, e);
		one_file = rc == 0 && is_one_file(c, &opts);
	}
	if (rc == ERR_CANCELLED && t.fd >= 0)
		err_suffix(e,
		    "; %" PRIu64 " %s restored until then: repeat it with "
		    "--overwrite=changed, which leaves those as they are",
		    result.entries,
		    text_plural(result.entries, "entry was", "entries were"));
	target_release(&t, rc < 0);
	if (rc == 0)
		rc = app->json ? print_json(o, &t, &result, e)
			       : print_text(&t, &result, e);
	if (rc == 0 && (result.damaged > 0 || catalog_gaps_any(&result.gaps)))
		hint_tell_damage(app, &o->id, o->task);
	if (rc < 0 && o->archive == NULL)
		hint_damaged_file(app, &o->id, e);
	else if (rc < 0)
		hint_damage(app, &o->id, NULL, e);
	catalog_close(c);
	free(paths);
	if (rc < 0)
		return rc;
	if (one_file && result.damaged > 0)
		return EXIT_DAMAGE;
	return is_whole(&result) && !o->incomplete ? EXIT_DONE
						   : EXIT_INCOMPLETE;
}
