/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/support/tarfix.h"

/* Writes t->tar into a pipe. */
static void *feed(void *arg)
{
	struct tarfix *t = arg;
	size_t at = 0;

	while (at < t->tar.len) {
		size_t n = t->tar.len - at;
		ssize_t r =
		    write(t->pipe, t->tar.data + at, n < 1000 ? n : 1000);

		if (r <= 0)
			break;
		at += (size_t)r;
	}
	(void)close(t->pipe);
	return NULL;
}

int tarfix_import(struct tarfix *t, bool pipe)
{
	static const struct tree_import_opts small = {
		.ingest = { .chunk_size = RESTOREFIX_CHUNK, .threads = 2 }
	};
	struct restorefix *f = t->x->f;
	struct ingest_source src = { .shown = "source" };
	pthread_t thread = { 0 };
	int fds[2];
	int rc = 0;

	t->tree = true;
	tmpdir_put(f->dir.fd, "source", t->tar.data, t->tar.len);
	restorefix_begin(f);
	restorefix_target(f, "source", O_RDONLY);
	src.fd = f->out;
	if (pipe) {
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		t->pipe = fds[1];
		src.fd = fds[0];
		assert_int_equal(pthread_create(&thread, NULL, feed, t), 0);
	}
	f->e = (struct err)ERR_INIT;
	rc = tree_import(f->session, "root.tree", &src, &small, &f->task,
	    &t->imported, &f->e);
	if (pipe) {
		(void)close(fds[0]);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	if (rc < 0) {
		session_abort(f->session);
		f->session = NULL;
		return rc;
	}
	restorefix_commit(f);
	assert_ok(catalogfix_try_open(t->x, "root.tree"), &f->e);
	return 0;
}
