/* SPDX-License-Identifier: MIT */
/*
 * A datastore that cairn did not write: what opening, listing and reading of
 * manifests find in it is what its description says.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "datastore/tree.h"
#include "tests/golden/golden.h"

#define STORE "pbs-store"
#define SNAPSHOTS 8
#define BAD_STORES 27

/* Read whole, below the store. */
static char *get(struct golden *g, const char *rel, size_t *ret_n)
{
	char path[GOLDEN_NAME_SIZE + sizeof(STORE)];

	(void)snprintf(path, sizeof(path), STORE "/%s", rel);
	return tmpdir_get(g->dir.fd, path, ret_n);
}

static void test_open(void **state)
{
	struct golden *g = *state;
	char path[GOLDEN_NAME_SIZE];

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_false(g->ds->has_format);
	assert_string_equal(g->ds->id, "");
	assert_ok(golden_open(g, STORE, DATASTORE_GC), &g->e);
	assert_ok(golden_open(g, STORE, DATASTORE_WRITE), &g->e);
	/* Opening has made nothing. */
	(void)snprintf(path, sizeof(path), "%s", STORE "/.cairn");
	assert_int_equal(faccessat(g->dir.fd, path, F_OK, 0), -1);
	assert_ok(datastore_ensure_cairn(g->ds, &g->e), &g->e);
	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_true(g->ds->has_format);
}

static void test_namespaces(void **state)
{
	struct golden *g = *state;
	struct tree_namespaces found = { .items = NULL };
	size_t n = 0;
	struct js *want = golden_list(g->json, "namespaces", &n);

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_ok(tree_namespaces(g->ds, &found, &g->e), &g->e);
	assert_int_equal(found.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(
		    found.items[i].name, js_str(js_at(want, i)));
	}
	tree_namespaces_release(&found);
}

/* Groups of this namespace: as many as described. */
static size_t count_groups(struct golden *g, const char *ns_text)
{
	struct tree_groups groups = { .items = NULL };
	struct backup_ns ns;
	size_t n = 0;

	assert_ok(backup_ns_parse(ns_text, &ns, &g->e), &g->e);
	assert_ok(tree_groups(g->ds, &ns, &groups, &g->e), &g->e);
	n = groups.n;
	for (size_t i = 1; i < n; i++) {
		assert_true(backup_group_compare(
				&groups.items[i - 1], &groups.items[i]) < 0);
	}
	tree_groups_release(&groups);
	return n;
}

static void check_group(struct golden *g, const struct js *want)
{
	struct backup_ns ns;
	struct backup_group group;
	char text[BACKUP_PATH_SIZE];
	char owner[128];
	int fd = -1;

	(void)snprintf(text, sizeof(text), "%s/%s", golden_str(want, "type"),
	    golden_str(want, "id"));
	assert_ok(backup_ns_parse(golden_str(want, "ns"), &ns, &g->e), &g->e);
	assert_ok(backup_group_parse(&ns, text, &group, &g->e), &g->e);
	backup_group_path(&group, text);
	assert_string_equal(text, golden_str(want, "path"));
	assert_ok(tree_open_group(g->ds, &group, &fd, &g->e), &g->e);
	(void)close(fd);
	assert_ok(tree_group_owner(g->ds, &group, owner, sizeof(owner), &g->e),
	    &g->e);
	assert_string_equal(owner, golden_str(want, "owner"));
}

static void test_groups(void **state)
{
	struct golden *g = *state;
	size_t groups_n = 0;
	size_t n = 0;
	size_t found = 0;
	struct js *groups = golden_list(g->json, "groups", &groups_n);
	struct js *namespaces = golden_list(g->json, "namespaces", &n);

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	for (size_t i = 0; i < n; i++)
		found += count_groups(g, js_str(js_at(namespaces, i)));
	assert_int_equal(found, groups_n);
	for (size_t i = 0; i < groups_n; i++)
		check_group(g, js_at(groups, i));
}

static void check_listed(
    struct golden *g, const struct backup_snapshot *s, const struct js *want)
{
	struct tree_snapshots list = { .items = NULL };
	char path[BACKUP_PATH_SIZE];
	size_t found = 0;

	backup_snapshot_path(s, path);
	assert_string_equal(path, golden_str(want, "path"));
	assert_int_equal(s->time, golden_u64(want, "epoch"));
	assert_ok(tree_snapshots(g->ds, &s->group, &list, &g->e), &g->e);
	for (size_t i = 0; i < list.n; i++) {
		const struct tree_snapshot *t = &list.items[i];

		if (t->id.time != s->time)
			continue;
		found++;
		assert_int_equal(t->finished, golden_bool(want, "finished"));
		assert_int_equal(
		    t->is_protected, golden_bool(want, "protected"));
	}
	assert_int_equal(found, 1);
	tree_snapshots_release(&list);
}

static void test_snapshots(void **state)
{
	struct golden *g = *state;
	struct backup_ns root = { .name = "" };
	struct backup_snapshot s;

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_int_equal(golden_each_snapshot(g, check_listed), SNAPSHOTS);
	assert_ok(tree_find_snapshot(g->ds, &root, "vm/100/latest", &s, &g->e),
	    &g->e);
	assert_int_equal(s.time, 1784104200);
	assert_err(tree_find_snapshot(g->ds, &root, "vm/101/latest", &s, &g->e),
	    &g->e, ERR_NOTFOUND, "has no finished snapshot");
}

static void read_manifest(
    struct golden *g, const struct backup_snapshot *s, struct manifest *m)
{
	int fd = -1;

	assert_ok(tree_open_snapshot(g->ds, s, &fd, &g->e), &g->e);
	assert_ok(tree_read_manifest(g->ds, s, fd, m, &g->e), &g->e);
	(void)close(fd);
}

static void check_file(struct golden *g, const char *snapshot,
    const struct manifest *m, const struct js *want)
{
	const struct manifest_file *f =
	    manifest_find(m, golden_str(want, "filename"));
	char text[DIGEST_HEX_SIZE];
	char path[GOLDEN_NAME_SIZE];
	struct digest digest;
	char *raw = NULL;
	size_t n = 0;

	assert_non_null(f);
	assert_string_equal(
	    crypt_mode_name(f->crypt_mode), golden_str(want, "crypt-mode"));
	assert_int_equal(f->size, golden_u64(want, "manifest-size"));
	digest_hex(&f->csum, text);
	assert_string_equal(text, golden_str(want, "csum"));
	if (backup_file_kind(f->filename) != BACKUP_FILE_BLOB)
		return;
	/* What size and csum of a blob mean. */
	(void)snprintf(path, sizeof(path), "%s/%s", snapshot, f->filename);
	raw = get(g, path, &n);
	assert_non_null(raw);
	assert_int_equal(n, f->size);
	assert_ok(digest_of(raw, n, &digest, &g->e), &g->e);
	assert_true(digest_equal(&digest, &f->csum));
	free(raw);
}

/* `unprotected` as described, in its canonical form. */
static void check_unprotected(
    struct golden *g, const struct manifest *m, const struct js *want)
{
	struct js *a = NULL;
	struct js *b = NULL;
	struct buf a_text = BUF_INIT;
	struct buf b_text = BUF_INIT;

	assert_ok(js_get(m->json, "unprotected", &a, NULL, &g->e), &g->e);
	assert_ok(js_get(want, "unprotected", &b, NULL, &g->e), &g->e);
	assert_ok(js_dump(a, JS_CANONICAL, &a_text, &g->e), &g->e);
	assert_ok(js_dump(b, JS_CANONICAL, &b_text, &g->e), &g->e);
	assert_int_equal(a_text.len, b_text.len);
	assert_memory_equal(a_text.data, b_text.data, a_text.len);
	buf_release(&a_text);
	buf_release(&b_text);
}

static void check_manifest(
    struct golden *g, const struct backup_snapshot *s, const struct js *want)
{
	struct manifest m = MANIFEST_INIT;
	size_t n = 0;
	struct js *archives = golden_list(want, "archives", &n);

	if (!golden_bool(want, "finished"))
		return;
	read_manifest(g, s, &m);
	assert_int_equal(m.time, s->time);
	assert_int_equal(m.is_signed, golden_bool(want, "signed"));
	assert_int_equal(m.files_n, n);
	for (size_t i = 0; i < n; i++) {
		check_file(g, golden_str(want, "path"), &m, js_at(archives, i));
	}
	check_unprotected(g, &m, want);
	manifest_release(&m);
}

static void test_manifests(void **state)
{
	struct golden *g = *state;

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_int_equal(golden_each_snapshot(g, check_manifest), SNAPSHOTS);
}

/* Notes and the outcome of a verification, taken out of `unprotected`. */
static void test_unprotected(void **state)
{
	static const struct {
		const char *ns;
		const char *snapshot;
		const char *notes;
		enum verify_outcome verified;
		int64_t at;
	} rows[] = {
		{ "", "vm/100/2026-07-14T08:30:00Z", "first full backup\n",
		    VERIFY_OK, 0x6a56db90 },
		{ "", "vm/100/2026-07-15T08:30:00Z", NULL, VERIFY_FAILED,
		    0x6a582d10 },
		{ "", "host/elsa/2026-07-15T08:31:00Z", NULL, VERIFY_NONE, 0 },
		{ "prod/db", "host/db1/2026-07-16T10:00:00Z",
		    "Gr\xc3\xb6\xc3\x9f"
		    "e: 1 \xe2\x80\x9eMiB\xe2\x80\x9c",
		    VERIFY_NONE, 0 },
	};
	struct golden *g = *state;

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct manifest m = MANIFEST_INIT;
		struct backup_ns ns;
		struct backup_snapshot s;

		assert_ok(backup_ns_parse(rows[i].ns, &ns, &g->e), &g->e);
		assert_ok(
		    tree_find_snapshot(g->ds, &ns, rows[i].snapshot, &s, &g->e),
		    &g->e);
		read_manifest(g, &s, &m);
		if (rows[i].notes == NULL)
			assert_null(m.notes);
		else
			assert_string_equal(m.notes, rows[i].notes);
		assert_int_equal(m.verified, rows[i].verified);
		assert_int_equal(m.verified_at, rows[i].at);
		manifest_release(&m);
	}
}

/* The text that a signature covers: all but `unprotected` and itself. */
static void signed_text(
    struct golden *g, const struct manifest *m, struct buf *out)
{
	struct js *copy = NULL;

	assert_ok(js_dump(m->json, JS_COMPACT, out, &g->e), &g->e);
	assert_ok(js_parse(out->data, out->len, &copy, &g->e), &g->e);
	buf_reset(out);
	js_remove(copy, "unprotected");
	js_remove(copy, "signature");
	assert_ok(js_dump(copy, JS_CANONICAL, out, &g->e), &g->e);
	js_free(copy);
}

/* Written anew with other notes, what was signed is the same. */
static void check_rewritten(
    struct golden *g, const struct backup_snapshot *s, const struct js *want)
{
	struct manifest m = MANIFEST_INIT;
	struct manifest again = MANIFEST_INIT;
	struct buf raw = BUF_INIT;
	struct buf before = BUF_INIT;
	struct buf after = BUF_INIT;

	if (!golden_bool(want, "finished"))
		return;
	read_manifest(g, s, &m);
	signed_text(g, &m, &before);
	assert_ok(manifest_set_notes(&m, "other", &g->e), &g->e);
	assert_ok(manifest_encode(&m, &raw, &g->e), &g->e);
	assert_ok(manifest_decode(raw.data, raw.len, s, &again, &g->e), &g->e);
	signed_text(g, &again, &after);
	assert_int_equal(before.len, after.len);
	assert_memory_equal(before.data, after.data, before.len);
	assert_int_equal(again.is_signed, m.is_signed);
	assert_string_equal(again.notes, "other");
	manifest_release(&m);
	manifest_release(&again);
	buf_release(&raw);
	buf_release(&before);
	buf_release(&after);
}

static void test_rewritten(void **state)
{
	struct golden *g = *state;

	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_int_equal(golden_each_snapshot(g, check_rewritten), SNAPSHOTS);
}

/* What of the bad stores is seen here: the rest is seen in other layers. */
static const struct {
	const char *store;
	const char *group; /* what the listing of groups says */
	const char *manifest;
} bad[] = {
	{ "fidx-size-2p63", NULL,
	    "'vm/100/2026-07-15T08:30:00Z/index.json.blob': no JSON: line 9" },
	{ "group-symlink", "'vm/100' is a symbolic link, want a directory",
	    NULL },
	{ "manifest-not-json", NULL,
	    "'vm/100/2026-07-15T08:30:00Z/index.json.blob': no JSON: line 1" },
	{ "manifest-other-snapshot", NULL,
	    "'vm/100/2026-07-15T08:30:00Z/index.json.blob': manifest of "
	    "'vm/101/2026-07-15T08:30:00Z', want that of "
	    "'vm/100/2026-07-15T08:30:00Z'" },
	{ "manifest-dotdot", NULL,
	    "'vm/100/2026-07-15T08:30:00Z/index.json.blob': 'files'[3]: "
	    "'../../101/2026-07-15T08:30:00Z/drive-scsi0.img.fidx' is no file "
	    "name" },
};

static void check_bad(
    struct golden *g, const char *store, const char *path, const char *what)
{
	struct backup_ns root = { .name = "" };
	struct tree_groups groups = { .items = NULL };
	struct manifest m = MANIFEST_INIT;
	struct backup_snapshot s;
	char name[GOLDEN_NAME_SIZE];
	size_t i = 0;
	int fd = -1;
	int rc = 0;

	(void)path;
	(void)what;
	while (i < TEST_COUNT(bad) && strcmp(bad[i].store, store) != 0)
		i++;
	(void)snprintf(name, sizeof(name), "pbs-bad/%s", store);
	assert_ok(golden_open(g, name, DATASTORE_READ), &g->e);
	rc = tree_groups(g->ds, &root, &groups, &g->e);
	if (i < TEST_COUNT(bad) && bad[i].group != NULL) {
		assert_err(rc, &g->e, ERR_CORRUPT, bad[i].group);
		return;
	}
	assert_ok(rc, &g->e);
	tree_groups_release(&groups);
	assert_ok(tree_find_snapshot(
		      g->ds, &root, "vm/100/2026-07-15T08:30:00Z", &s, &g->e),
	    &g->e);
	assert_ok(tree_open_snapshot(g->ds, &s, &fd, &g->e), &g->e);
	rc = tree_read_manifest(g->ds, &s, fd, &m, &g->e);
	(void)close(fd);
	if (i < TEST_COUNT(bad))
		assert_err(rc, &g->e, ERR_CORRUPT, bad[i].manifest);
	else
		assert_ok(rc, &g->e);
	manifest_release(&m);
}

static void test_bad(void **state)
{
	struct golden *g = *state;

	assert_int_equal(golden_each_bad(g, check_bad), BAD_STORES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GOLDEN_TEST(test_open),
		GOLDEN_TEST(test_namespaces),
		GOLDEN_TEST(test_groups),
		GOLDEN_TEST(test_snapshots),
		GOLDEN_TEST(test_manifests),
		GOLDEN_TEST(test_unprotected),
		GOLDEN_TEST(test_rewritten),
		GOLDEN_BAD_TEST(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
