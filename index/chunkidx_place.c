/* SPDX-License-Identifier: MIT */
/*
 * The part of chunkidx.h that knows where an index lies, and what its files are
 * called.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "index/chunkidx_internal.h"

#define INDEX_DIR CAIRNDIR "/index"
#define RUN_DIGITS 16
#define RUN_SUFFIX ".cix"

void chunkidx_base_name(uint64_t generation, char out[CHUNKIDX_NAME_SIZE])
{
	(void)snprintf(out, CHUNKIDX_NAME_SIZE, "base-%llu.cix",
	    (unsigned long long)generation);
}

void chunkidx_gone_name(uint64_t generation, char out[CHUNKIDX_NAME_SIZE])
{
	(void)snprintf(out, CHUNKIDX_NAME_SIZE, "base-%llu.gone",
	    (unsigned long long)generation);
}

void chunkidx_run_name(uint64_t sequence, char out[CHUNKIDX_NAME_SIZE])
{
	(void)snprintf(out, CHUNKIDX_NAME_SIZE, "%016llx" RUN_SUFFIX,
	    (unsigned long long)sequence);
}

bool chunkidx_is_run_name(const char *name, uint64_t *ret_sequence)
{
	uint64_t n = 0;

	if (strlen(name) != RUN_DIGITS + sizeof(RUN_SUFFIX) - 1 ||
	    strcmp(name + RUN_DIGITS, RUN_SUFFIX) != 0)
		return false;
	for (unsigned i = 0; i < RUN_DIGITS; i++) {
		const char *digits = "0123456789abcdef";
		const char *at = strchr(digits, name[i]);

		if (at == NULL)
			return false;
		n = n << 4 | (uint64_t)(at - digits);
	}
	*ret_sequence = n;
	return true;
}

/* One directory of it, made if it may be. */
static int open_dir(const struct datastore *ds, int at, const char *name,
    bool make, int *ret_fd, const char *shown, struct err *e)
{
	int rc = file_open_dir(at, name, ret_fd, shown, e);

	if (rc != ERR_NOTFOUND || !make)
		return rc;
	(void)err_forget(e);
	rc = file_make_dir(at, name, FILE_DIR_MODE, &ds->owner, shown, e);
	if (rc == ERR_EXISTS)
		rc = err_forget(e);
	if (rc == 0)
		rc = file_sync(at, shown, e);
	return rc < 0 ? rc : file_open_dir(at, name, ret_fd, shown, e);
}

/* The directory in which ours is, and what ours is called there. */
static int open_parent(const struct datastore *ds, int *ret_fd,
    const char **ret_name, struct chunkidx_place *p, struct err *e)
{
	const char *dir = ds->settings.index_dir;
	bool found = false;
	int rc = 0;

	if (dir[0] == '\0') {
		*ret_name = "index";
		(void)datastore_shown(
		    ds, INDEX_DIR, p->shown, sizeof(p->shown));
		rc = cairndir_open(ds, CAIRNDIR, ret_fd, &found, e);
		return rc < 0 || found
		    ? rc
		    : err_set(e, ERR_NOTFOUND, "'%s' is not there", p->shown);
	}
	*ret_name = ds->id;
	(void)snprintf(p->shown, sizeof(p->shown), "%s/%s", dir, ds->id);
	*ret_fd =
	    sysio_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return *ret_fd < 0 ? err_sys(e, "open 'index-dir' '%s'", dir) : 0;
}

static void say_off(struct datastore *ds, struct chunkidx_place *p)
{
	char name[32];

	if (ds->id[0] == '\0')
		(void)snprintf(p->off, sizeof(p->off),
		    "the datastore has no '.cairn/format' yet: a push or a "
		    "garbage collection makes it");
	else if (ds->settings.index_dir[0] == '\0' && datastore_is_network(ds))
		(void)snprintf(p->off, sizeof(p->off),
		    "the datastore lies on %s: name a directory of a local "
		    "disk as 'index-dir' in the config file",
		    datastore_fs_name(ds, name));
}

int chunkidx_place_open(
    struct datastore *ds, bool make, struct chunkidx_place *ret, struct err *e)
{
	struct chunkidx_place p = CHUNKIDX_PLACE_INIT;
	const char *name = NULL;
	int parent = -1;
	int rc = 0;

	say_off(ds, &p);
	if (p.off[0] != '\0') {
		*ret = p;
		return 0;
	}
	rc = open_parent(ds, &parent, &name, &p, e);
	if (rc == 0)
		rc = open_dir(ds, parent, name, make, &p.fd, p.shown, e);
	if (rc == 0)
		rc = open_dir(
		    ds, p.fd, CHUNKIDX_RUNS, make, &p.runs_fd, p.shown, e);
	file_close(&parent);
	if (rc < 0 && rc != ERR_NOTFOUND && rc != ERR_NOMEM) {
		(void)snprintf(p.off, sizeof(p.off), "%s", e->msg);
		rc = err_forget(e);
	} else if (rc == ERR_NOTFOUND && !make) {
		rc = err_forget(e);
	}
	if (rc < 0 || p.off[0] != '\0')
		chunkidx_place_close(&p);
	*ret = p;
	return rc;
}

void chunkidx_place_close(struct chunkidx_place *p)
{
	file_close(&p->fd);
	file_close(&p->runs_fd);
}
