/* SPDX-License-Identifier: MIT */
/*
 * Manifests and config files with every allocation, and for files every
 * system call, failing in turn: it is said, and what was there before stands.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/config.h"
#include "datastore/tree.h"
#include "tests/support/dsfix.h"
#include "tests/support/failmalloc.h"

#define CSUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_OF(name) \
	"{\"filename\":\"" name "\",\"size\":5,\"csum\":\"" CSUM "\"}"

static const char json[] =
    "{\"backup-type\":\"vm\",\"backup-id\":\"100\",\"backup-time\":1784104200,"
    "\"files\":[" FILE_OF("a.fidx") "," FILE_OF(
	"b.didx") "],"
		  "\"unprotected\":{\"notes\":\"n\",\"x\":1}}";

static const struct backup_snapshot snapshot = {
	.group = { .type = BACKUP_VM, .id = "100" },
	.time = 1784104200,
};

struct fixture {
	struct manifest m;
	struct buf raw; /* of the manifest above */
	struct buf out;
	struct digest csum;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct codec *codec = NULL;
	struct err e = ERR_INIT;
	int rc = 0;

	if (f == NULL)
		return -1;
	*state = f;
	rc = codec_new(&codec, &e);
	if (rc == 0) {
		rc = blob_encode(codec, 3, json, sizeof(json) - 1, &f->raw, &e);
	}
	codec_free(codec);
	f->m = (struct manifest)MANIFEST_INIT;
	return rc;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)failmalloc_off();
	manifest_release(&f->m);
	buf_release(&f->raw);
	buf_release(&f->out);
	free(f);
	return 0;
}

static int op_decode(struct fixture *f, struct err *e)
{
	return manifest_decode(f->raw.data, f->raw.len, &snapshot, &f->m, e);
}

static int op_new(struct fixture *f, struct err *e)
{
	return manifest_new(&snapshot, &f->m, e);
}

static int op_add(struct fixture *f, struct err *e)
{
	return manifest_add(&f->m, "c.blob", 1, &f->csum, e);
}

static int op_notes(struct fixture *f, struct err *e)
{
	return manifest_set_notes(&f->m, "other", e);
}

static int op_verified(struct fixture *f, struct err *e)
{
	return manifest_set_verified(&f->m, VERIFY_OK, 1, e);
}

static int op_encode(struct fixture *f, struct err *e)
{
	buf_release(&f->out);
	return manifest_encode(&f->m, &f->out, e);
}

/* m is still the manifest above, in its fields and in its JSON. */
static void assert_unchanged(struct fixture *f)
{
	struct buf encoded = BUF_INIT;
	struct manifest again = MANIFEST_INIT;
	struct err e = ERR_INIT;

	assert_int_equal(f->m.files_n, 2);
	assert_string_equal(f->m.notes, "n");
	assert_int_equal(f->m.verified, VERIFY_NONE);
	assert_ok(manifest_encode(&f->m, &encoded, &e), &e);
	assert_ok(
	    manifest_decode(encoded.data, encoded.len, &snapshot, &again, &e),
	    &e);
	assert_int_equal(again.files_n, 2);
	assert_string_equal(again.notes, "n");
	assert_int_equal(again.verified, VERIFY_NONE);
	manifest_release(&again);
	buf_release(&encoded);
}

static void test_manifest(void **state)
{
	static const struct {
		int (*op)(struct fixture *f, struct err *e);
		uint64_t least; /* allocations of ours */
	} rows[] = {
		{ op_decode, 6 },
		{ op_new, 0 },
		{ op_add, 2 },
		{ op_notes, 1 },
		{ op_verified, 0 },
		{ op_encode, 2 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		uint64_t failed = 1;
		uint64_t n = 0;

		while (failed > 0) {
			struct err e = ERR_INIT;
			int rc = op_decode(f, &e);

			assert_ok(rc, &e);
			failmalloc_at(++n);
			rc = rows[i].op(f, &e);
			failed = failmalloc_off();
			if (failed == 0) {
				assert_ok(rc, &e);
				break;
			}
			assert_err(rc, &e, ERR_NOMEM, "memory");
			assert_unchanged(f);
		}
		assert_true(n > rows[i].least);
	}
}

/* Operations on files: their own result is looked at by their own tests. */
static int op_config(struct dsfix *f, struct err *e)
{
	struct config c = CONFIG_INIT;
	char path[DSFIX_PATH_SIZE];
	int rc = 0;

	(void)snprintf(path, sizeof(path), "%s/conf", f->dir.path);
	rc = config_read(path, &c, e);
	if (rc < 0)
		assert_int_equal(c.stores_n, 0);
	config_release(&c);
	return rc;
}

static int op_open(struct dsfix *f, struct err *e)
{
	return datastore_open(f->path, DATASTORE_WRITE, NULL, &f->second, e);
}

static int op_ensure(struct dsfix *f, struct err *e)
{
	return datastore_ensure_cairn(f->ds, e);
}

static int op_list(struct dsfix *f, struct err *e)
{
	struct tree_namespaces namespaces = { .items = NULL };
	struct tree_groups groups = { .items = NULL };
	struct tree_snapshots snapshots = { .items = NULL };
	int rc = tree_namespaces(f->ds, &namespaces, e);

	if (rc == 0)
		rc = tree_groups(f->ds, &namespaces.items[1], &groups, e);
	if (rc == 0)
		rc = tree_snapshots(f->ds, &groups.items[0], &snapshots, e);
	if (rc == 0)
		assert_int_equal(snapshots.n, 1);
	tree_snapshots_release(&snapshots);
	tree_groups_release(&groups);
	tree_namespaces_release(&namespaces);
	return rc;
}

static int op_find(struct dsfix *f, struct err *e)
{
	struct backup_ns ns = { .name = "a" };
	struct backup_snapshot s;

	return tree_find_snapshot(f->ds, &ns, "vm/100/latest", &s, e);
}

static int op_make_group(struct dsfix *f, struct err *e)
{
	struct backup_group g = { .type = BACKUP_HOST, .id = "new" };
	char owner[64] = "none";
	int fd = -1;
	int rc = tree_make_group(f->ds, &g, &fd, e);

	if (rc == 0) {
		(void)close(fd);
		rc = tree_group_owner(f->ds, &g, owner, sizeof(owner), e);
	}
	if (rc == 0)
		assert_string_equal(owner, "root@pam");
	return rc;
}

static int op_manifest(struct dsfix *f, struct err *e)
{
	struct backup_snapshot s = snapshot;
	struct manifest m = MANIFEST_INIT;
	int fd = -1;
	int rc = 0;

	s.group.ns = (struct backup_ns){ .name = "a" };
	rc = tree_open_snapshot(f->ds, &s, &fd, e);
	if (rc == 0)
		rc = tree_read_manifest(f->ds, &s, fd, &m, e);
	if (rc == 0)
		assert_int_equal(m.files_n, 2);
	manifest_release(&m);
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

typedef int (*operation)(struct dsfix *f, struct err *e);

static const operation operations[] = { op_config, op_open, op_ensure, op_list,
	op_find, op_make_group, op_manifest };

/* What the operations find, anew for each try. */
static void prepare(struct dsfix *f, const struct fixture *m)
{
	char name[DSFIX_NAME_SIZE];

	datastore_close(f->second);
	f->second = NULL;
	/* A failed try may have left a part; the next goes on from there. */
	(void)unlinkat(f->dir.fd, "store/host/new/owner", 0);
	(void)unlinkat(f->dir.fd, "store/host/new", AT_REMOVEDIR);
	(void)unlinkat(f->dir.fd, "store/host", AT_REMOVEDIR);
	(void)unlinkat(f->dir.fd, "store/.cairn/gc.running", 0);
	tmpdir_put_str(
	    f->dir.fd, "conf", "[datastore \"a\"]\npath = /a\nowner = a@b\n");
	dsfix_mkdir(f, "ns/a/vm/100/2026-07-15T08:30:00Z");
	tmpdir_put(f->dir.fd,
	    dsfix_name(
		"ns/a/vm/100/2026-07-15T08:30:00Z/index.json.blob", name),
	    m->raw.data, m->raw.len);
}

/* A file of the store that is there is whole. */
static void assert_whole(struct dsfix *f)
{
	char *owner = tmpdir_get(f->dir.fd, "store/host/new/owner", NULL);

	if (owner != NULL)
		assert_string_equal(owner, "root@pam\n");
	free(owner);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_true(f->ds->has_format);
}

static void one_fault(
    struct dsfix *f, operation op, uint64_t n, uint64_t *ret_hits)
{
	const struct fault_rule rule = {
		.calls = FAULT_ANY & ~FAULT_BIT(FAULT_CLOSE) &
		    ~FAULT_BIT(FAULT_CLOSEDIR),
		.what = FAULT_FAIL,
		.at = n,
		.times = 1,
		.error = EIO,
	};
	struct err e = ERR_INIT;
	int rc = 0;

	fault_install();
	fault_add(&rule);
	rc = op(f, &e);
	*ret_hits = fault_hits();
	fault_uninstall();
	if (*ret_hits == 0)
		assert_ok(rc, &e);
	else if (rc < 0)
		assert_err(rc, &e, ERR_SYS, "Input/output error");
	/* A failure that was expected is forgotten. */
	if (rc == 0)
		assert_int_equal(e.code, ERR_OK);
	else
		assert_null(f->second);
}

static void test_calls(void **state)
{
	struct dsfix *f = *state;
	void *m = NULL;

	assert_int_equal(setup(&m), 0);
	for (size_t i = 0; i < TEST_COUNT(operations); i++) {
		uint64_t hits = 1;
		uint64_t n = 0;

		while (hits > 0) {
			prepare(f, m);
			assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
			one_fault(f, operations[i], ++n, &hits);
			assert_whole(f);
		}
		assert_true(n > 2);
	}
	assert_int_equal(teardown(&m), 0);
}

static void test_memory(void **state)
{
	struct dsfix *f = *state;
	void *m = NULL;

	assert_int_equal(setup(&m), 0);
	for (size_t i = 0; i < TEST_COUNT(operations); i++) {
		uint64_t failed = 1;

		for (uint64_t n = 1; failed > 0; n++) {
			struct err e = ERR_INIT;
			int rc = 0;

			prepare(f, m);
			assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
			failmalloc_at(n);
			rc = operations[i](f, &e);
			failed = failmalloc_off();
			if (failed == 0)
				assert_ok(rc, &e);
			else
				assert_err(rc, &e, ERR_NOMEM, "memory");
			assert_whole(f);
		}
	}
	assert_int_equal(teardown(&m), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_manifest, setup, teardown),
		DSFIX_TEST(test_calls),
		DSFIX_TEST(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
