/* SPDX-License-Identifier: MIT */
/*
 * ingestfix: a datastore in a scratch directory with a session open in it,
 * and archives read back from it chunk by chunk.
 *
 * Only for programs that link cairn_index.  The teardown fails the test if it
 * left a descriptor open.
 */
#ifndef CAIRN_TESTS_SUPPORT_INGESTFIX_H
#define CAIRN_TESTS_SUPPORT_INGESTFIX_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/blob.h"
#include "datastore/datastore.h"
#include "datastore/session.h"
#include "index/idx.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define INGESTFIX_PATH_SIZE (PATH_MAX + 64)

struct ingestfix {
	struct tmpdir dir;
	char path[INGESTFIX_PATH_SIZE]; /* of the store: dir's "store" */
	struct datastore *ds;
	struct session *s; /* NULL, or open */
	struct backup_snapshot id;
	struct task task;
	struct err e;
	int fd;       /* -1, or the test's to use */
	uint8_t *own; /* NULL, or the test's to use, freed */
	struct buf got;
	size_t fds; /* open before the test */
};

static inline int ingestfix_open(struct ingestfix *f, bool dry_run)
{
	struct session_opts opts = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.command = "push",
		.sync_level = SYNC_NONE,
		.level = 1,
		.dry_run = dry_run,
		.references = idx_references,
	};
	int rc = session_open(f->ds, &opts, &f->task, &f->s, &f->e);

	if (rc == 0)
		f->id = *session_id(f->s);
	return rc;
}

/* Both end the session. */
static inline int ingestfix_commit(struct ingestfix *f)
{
	struct session *s = f->s;

	f->s = NULL;
	return session_commit(s, &f->e);
}

static inline void ingestfix_abort(struct ingestfix *f)
{
	session_abort(f->s);
	f->s = NULL;
}

/* *state is a struct ingestfix with an open datastore and session. */
static inline int ingestfix_setup(void **state)
{
	struct ingestfix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->fd = -1;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->task = (struct task)TASK_SILENT;
	if (datastore_init(f->path, NULL, &f->task, &f->e) < 0 ||
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->ds, &f->e) < 0 ||
	    ingestfix_open(f, false) < 0) {
		print_error("%s\n", f->e.msg);
		return -1;
	}
	return 0;
}

static inline int ingestfix_teardown(void **state)
{
	struct ingestfix *f = *state;
	size_t before = f->fds;
	size_t after = 0;

	fault_uninstall();
	session_abort(f->s);
	datastore_close(f->ds);
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->own);
	buf_release(&f->got);
	tmpdir_remove(&f->dir);
	free(f);
	after = tmpdir_open_fds();
	if (after != before)
		print_error(
		    "%zu descriptors open, %zu before\n", after, before);
	return after == before ? 0 : -1;
}

#define INGESTFIX_TEST(f) \
	cmocka_unit_test_setup_teardown(f, ingestfix_setup, ingestfix_teardown)

/* f->fd is the file `name` of the scratch directory, for reading. */
static inline void ingestfix_open_file(struct ingestfix *f, const char *name)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	f->fd = openat(f->dir.fd, name, O_RDONLY | O_CLOEXEC);
	assert_true(f->fd >= 0);
}

/* ... with these bytes. */
static inline void ingestfix_source(
    struct ingestfix *f, const void *p, size_t n)
{
	tmpdir_put(f->dir.fd, "source", p, n);
	ingestfix_open_file(f, "source");
}

/* One chunk behind what f->got has; checked against its digest. */
static inline int ingestfix_load(struct ingestfix *f, struct codec *codec,
    const struct digest *d, uint64_t want)
{
	struct buf raw = BUF_INIT;
	struct buf plain = BUF_INIT;
	struct digest is;
	int rc = store_load(f->ds->store, d, &raw, &f->e);

	if (rc == 0)
		rc = blob_decode(
		    codec, raw.data, raw.len, CHUNK_MAX_PLAIN, &plain, &f->e);
	if (rc == 0)
		rc = digest_of(plain.data, plain.len, &is, &f->e);
	if (rc == 0 && (plain.len != want || !digest_equal(&is, d)))
		rc = err_set(
		    &f->e, ERR_CORRUPT, "chunk of %zu bytes", plain.len);
	if (rc == 0)
		rc = buf_append(&f->got, plain.data, plain.len, &f->e);
	buf_release(&raw);
	buf_release(&plain);
	return rc;
}

/*
 * An archive, all of it, into f->got: `name` is its index's, of the session
 * under its temporary name or of the snapshot.
 */
static inline int ingestfix_read(
    struct ingestfix *f, int dirfd, const char *name)
{
	struct codec *codec = NULL;
	struct idx *ix = NULL;
	struct idx_entry entry;
	uint64_t end = 0;
	size_t n = 1;
	int rc = 0;

	buf_reset(&f->got);
	rc = codec_new(&codec, &f->e);
	if (rc == 0)
		rc = idx_open(dirfd, name, name, &ix, &f->e);
	while (rc == 0) {
		rc = idx_next(ix, &entry, 1, &n, &f->e);
		if (rc < 0 || n == 0)
			break;
		rc = ingestfix_load(f, codec, &entry.digest, entry.end - end);
		end = entry.end;
	}
	idx_close(ix);
	codec_free(codec);
	return rc;
}

static inline void ingestfix_assert_got(
    struct ingestfix *f, int rc, const void *p, size_t n)
{
	assert_ok(rc, &f->e);
	assert_int_equal(f->got.len, n);
	if (n > 0)
		assert_true(memcmp(f->got.data, p, n) == 0);
}

#endif
