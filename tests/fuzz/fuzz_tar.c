/* SPDX-License-Identifier: MIT */
/*
 * fuzz_tar: any bytes as a tar that is kept, or as an archive that becomes a
 * tree.
 *
 * A tar is stored whatever it is, and never fails; an archive is imported or is
 * none.  Rows that break the catalog's rules are refused by its writer, which
 * is a failure here.  The first byte says what is done with the others:
 *   z   a tar, read on behind its end
 *   i   an archive
 *   p   the same, through a pipe, as far as it takes it
 *   else   a tar, the first byte too
 * Checksums of what looks like a tar's header are put right, since nothing is
 * looked at otherwise.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datastore/datastore.h"
#include "datastore/session.h"
#include "index/idx.h"
#include "index/tar_push.h"
#include "index/tree_import.h"
#include "tests/support/tmpdir.h"

#define PIPE_MAX 65536U
#define BLOCK ((size_t)512)

#define MUST(cond)                                            \
	do {                                                  \
		if (!(cond)) {                                \
			(void)fprintf(stderr, "%s\n", #cond); \
			abort();                              \
		}                                             \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tmpdir dir;
static struct datastore *ds;

static void close_all(void)
{
	datastore_close(ds);
	tmpdir_remove(&dir);
}

/* One store for all inputs: nothing is put into it. */
static void open_once(void)
{
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;
	char path[PATH_MAX + 8];

	if (ds != NULL)
		return;
	tmpdir_make(&dir);
	MUST(snprintf(path, sizeof(path), "%s/store", dir.path) > 0);
	MUST(datastore_init(path, NULL, &task, &e) == 0);
	MUST(datastore_open(path, DATASTORE_READ, NULL, &ds, &e) == 0);
	MUST(atexit(close_all) == 0);
}

static void mend(uint8_t *p, size_t size)
{
	for (; size >= BLOCK; p += BLOCK, size -= BLOCK) {
		unsigned sum = 0;
		char text[8];

		if (memcmp(p + 257, "ustar", 5) != 0)
			continue;
		memset(p + 148, ' ', 8);
		for (size_t i = 0; i < BLOCK; i++)
			sum += p[i];
		MUST(snprintf(text, sizeof(text), "%06o", sum) == 6);
		memcpy(p + 148, text, 7);
	}
}

static int make_source(const uint8_t *data, size_t size, bool piped)
{
	int fds[2];

	if (piped && size <= PIPE_MAX) {
		MUST(pipe2(fds, O_CLOEXEC) == 0);
		MUST(write(fds[1], data, size) == (ssize_t)size);
		MUST(close(fds[1]) == 0);
		return fds[0];
	}
	fds[0] = memfd_create("fuzz", MFD_CLOEXEC);
	MUST(fds[0] >= 0);
	MUST(write(fds[0], data, size) == (ssize_t)size);
	MUST(lseek(fds[0], 0, SEEK_SET) == 0);
	return fds[0];
}

static void push(struct session *s, const struct ingest_source *src,
    size_t size, bool ignore_zeros, struct task *task)
{
	const struct tar_push_opts opts = { .ingest = { .chunk_size = 65536,
						.threads = 1 },
		.ignore_zeros = ignore_zeros };
	struct tar_push_result r;
	struct err e = ERR_INIT;
	int rc = tar_push(s, "a.tar", src, &opts, task, &r, &e);

	if (size == 0) {
		MUST(rc == ERR_REFUSED);
		return;
	}
	if (rc < 0)
		(void)fprintf(stderr, "%s\n", e.msg);
	MUST(rc == 0);
	MUST(r.content.size == size);
	MUST(r.catalog.size > 0 || (!r.whole && r.members == 0));
}

static void import(
    struct session *s, const struct ingest_source *src, struct task *task)
{
	const struct tree_import_opts opts = { .ingest = { .chunk_size = 65536,
						   .threads = 1 } };
	struct tree_import_result r;
	struct err e = ERR_INIT;
	int rc = tree_import(s, "a.tree", src, &opts, task, &r, &e);

	if (rc < 0 && rc != ERR_INVALID)
		(void)fprintf(stderr, "%s\n", e.msg);
	MUST(rc == 0 || rc == ERR_INVALID);
	MUST(rc < 0 || r.written.catalog.size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct task task = TASK_SILENT;
	const struct session_opts opts = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.command = "push",
		.level = 1,
		.dry_run = true,
		.references = idx_references,
	};
	struct ingest_source src = { .shown = "fuzz" };
	struct session *s = NULL;
	struct err e = ERR_INIT;
	uint8_t how = size > 0 ? data[0] : 0;
	uint8_t *copy = malloc(size + 1);
	size_t skip = how == 'z' || how == 'i' || how == 'p' ? 1 : 0;

	MUST(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	mend(copy + skip, size - skip);
	open_once();
	MUST(session_open(ds, &opts, &task, &s, &e) == 0);
	src.fd = make_source(copy + skip, size - skip, how == 'p');
	free(copy);
	if (how == 'i' || how == 'p')
		import(s, &src, &task);
	else
		push(s, &src, size - skip, how == 'z', &task);
	MUST(close(src.fd) == 0);
	session_abort(s);
	return 0;
}
