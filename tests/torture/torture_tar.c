/* SPDX-License-Identifier: MIT */
/*
 * A tar pushed, imported and exported with every system call and every
 * allocation of ours failing in turn: it is done and right, or it says why
 * not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/failmalloc.h"
#include "tests/support/tarfix.h"

#define LARGE (TAR_CUT_SIZE + 1000)

static void make(struct tarfix *t)
{
	static const char *const meta[] = { "uname=j\xc3\xb6rg",
		"SCHILY.xattr.user.a=1",
		"SCHILY.acl.access=user::rw-,user:x:r--:77,group::---,"
		"mask::rw-,other::---",
		NULL };
	static const char *const ends[] = { "GNU.sparse.size=300000",
		"GNU.sparse.name=ends", "GNU.sparse.map=0,2,100000,2,299999,1",
		NULL };

	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_pax(t, meta);
	tarfix_file(t, "d/meta", "content");
	tarfix_file(t, "d/meta", "again");
	tarfix_pax(t, ends);
	tarfix_file(t, "x", "abcde");
	tarfix_member(t, '1', "l/one", "d/meta", NULL, 0);
	tarfix_member(t, '1', "l/two", "d/meta", NULL, 0);
	tarfix_member(t, '2', "s", "target", NULL, 0);
	tarfix_member(t, '0', "large", NULL,
	    restorefix_bytes(t->x->f, GEN_RANDOM, LARGE), LARGE);
	tarfix_end(t);
	tmpdir_put(t->x->f->dir.fd, "source", t->tar.data, t->tar.len);
}

typedef int scene(struct tarfix *t);

static const struct ingest_opts small = { .chunk_size = RESTOREFIX_CHUNK,
	.threads = 1 };

static int push_one(struct tarfix *t)
{
	struct restorefix *f = t->x->f;
	const struct tar_push_opts opts = { .ingest = small };
	const struct ingest_source src = { .fd = f->out, .shown = "source" };
	int rc = tar_push(
	    f->session, "root.tar", &src, &opts, &f->task, &t->result, &f->e);

	if (rc == 0 && t->result.whole) {
		assert_int_equal(t->result.content.size, t->tar.len);
		assert_int_equal(t->result.members, 8);
		assert_true(t->result.catalog.chunks > 0);
	}
	return rc;
}

static int import_one(struct tarfix *t)
{
	struct restorefix *f = t->x->f;
	const struct tree_import_opts opts = { .ingest = small };
	const struct ingest_source src = { .fd = f->out, .shown = "source" };
	int rc = tree_import(f->session, "root.tree", &src, &opts, &f->task,
	    &t->imported, &f->e);

	if (rc == 0 && t->imported.whole) {
		assert_int_equal(t->imported.members, 8);
		assert_int_equal(t->imported.written.entries, 9);
	}
	return rc;
}

static int export_one(struct tarfix *t)
{
	struct restorefix *f = t->x->f;
	const struct tree_export_opts opts = { .shown = "out" };
	struct tree_export_result r = { .entries = 0 };
	int rc = tree_export(
	    t->x->c, f->archive, f->out, &opts, &f->task, &r, &f->e);

	if (rc == 0) {
		assert_int_equal(r.entries, 7);
		assert_int_equal(r.damaged, 0);
	}
	return rc;
}

static void before(struct tarfix *t, scene *run)
{
	struct restorefix *f = t->x->f;

	f->e = (struct err)ERR_INIT;
	if (run == export_one) {
		restorefix_target(f, "out", O_RDWR | O_CREAT | O_TRUNC);
		return;
	}
	restorefix_begin(f);
	restorefix_target(f, "source", O_RDONLY);
}

static void after(struct tarfix *t, scene *run, int rc)
{
	struct restorefix *f = t->x->f;

	assert_int_equal(f->e.code, rc);
	assert_int_equal(f->e.msg[0] == '\0', rc == 0);
	if (run != export_one) {
		session_abort(f->session);
		f->session = NULL;
	}
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void every_call_fails(
    struct tarfix *t, scene *run, const struct fault_rule *like)
{
	struct fault_rule rule = *like;
	uint64_t hits = 1;

	rule.times = 1;
	for (uint64_t n = 1; hits > 0; n++) {
		int rc = 0;

		before(t, run);
		fault_install();
		rule.at = n;
		fault_add(&rule);
		rc = run(t);
		hits = fault_hits();
		fault_uninstall();
		if (hits == 0)
			assert_ok(rc, &t->x->f->e);
		/* A source that ends early is none that failed. */
		if (rc < 0 && rule.what != FAULT_SHORT)
			assert_int_equal(rc, ERR_SYS);
		after(t, run, rc);
	}
}

static void every_allocation_fails(struct tarfix *t, scene *run)
{
	uint64_t failed = 1;

	for (uint64_t n = 1; failed > 0; n++) {
		int rc = 0;

		before(t, run);
		failmalloc_at(n);
		rc = run(t);
		failed = failmalloc_off();
		if (failed == 0)
			assert_ok(rc, &t->x->f->e);
		if (rc < 0)
			assert_int_equal(rc, ERR_NOMEM);
		after(t, run, rc);
	}
}

static void torture(struct tarfix *t, scene *run)
{
	static const struct fault_rule fail = {
		.calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO
	};
	static const struct fault_rule pieces = {
		.calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |
		    FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE),
		.what = FAULT_SHORT,
		.bytes = 7
	};
	static const struct fault_rule end = { .calls = FAULT_BIT(FAULT_READ),
		.what = FAULT_SHORT };

	every_call_fails(t, run, &fail);
	every_call_fails(t, run, &pieces);
	if (run != export_one)
		every_call_fails(t, run, &end);
	every_allocation_fails(t, run);
	before(t, run);
	assert_ok(run(t), &t->x->f->e);
	after(t, run, 0);
}

static void pushes(void **state)
{
	make(*state);
	torture(*state, push_one);
}

static void imports(void **state)
{
	make(*state);
	torture(*state, import_one);
}

static void exports(void **state)
{
	make(*state);
	tarfix_push(*state);
	torture(*state, export_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TARFIX_TEST(pushes),
		TARFIX_TEST(imports),
		TARFIX_TEST(exports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
