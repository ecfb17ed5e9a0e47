/* SPDX-License-Identifier: MIT */
/*
 * A sound datastore that cairn did not write: verify finds nothing, and its
 * archives come back as they were.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>

#include "datastore/base/digest.h"
#include "datastore/base/file.h"
#include "datastore/snapshot.h"
#include "index/archive.h"
#include "tests/golden/golden_verify.h"

#define STORE "pbs-store"

/* Encrypted, but referenced by nothing: verify does not look at it. */
#define GARBAGE \
	"22d39777086d24d3a4359848c47ee453b5337a812a306a770cf8297068f97ee5"

static void check_state(
    struct golden *g, const struct backup_snapshot *s, const struct js *want)
{
	struct manifest m = MANIFEST_INIT;
	int fd = -1;
	int rc = tree_open_snapshot(g->ds, s, &fd, &g->e);

	assert_ok(rc, &g->e);
	rc = tree_read_manifest(g->ds, s, fd, &m, &g->e);
	(void)close(fd);
	if (!golden_bool(want, "finished")) {
		assert_int_equal(rc, ERR_NOTFOUND);
		return;
	}
	assert_ok(rc, &g->e);
	assert_int_equal(m.verified, VERIFY_OK);
	assert_int_equal(m.is_signed, golden_bool(want, "signed"));
	manifest_release(&m);
}

static void test_sound_store(void **state)
{
	struct golden *g = *state;
	struct verify_result r;
	struct golden_ids ids;
	char *list = NULL;

	assert_ok(golden_open(g, STORE, DATASTORE_WRITE), &g->e);
	golden_verify(g, &ids, &r);
	assert_string_equal(golden_said_text(), "");
	assert_int_equal(ids.n, 8);
	assert_int_equal(ids.obstacles, 0);
	assert_int_equal(r.snapshots, 7);
	assert_int_equal(r.unfinished, 1);
	assert_int_equal(r.busy, 0);
	assert_int_equal(r.hurt_n, 0);
	assert_int_equal(
	    r.missing_chunks + r.bad_chunks + r.unreadable_chunks, 0);
	/* 31, less 3 that nothing references and 1 of the unfinished one. */
	assert_int_equal(r.chunks, 27);
	verify_result_release(&r);
	list = tmpdir_get(g->dir.fd, STORE "/.cairn/damaged", NULL);
	assert_null(list);
	(void)golden_each_snapshot(g, check_state);
}

/* A bit of an encrypted chunk: seen without the key. */
static void test_encrypted_chunks_are_checked(void **state)
{
	static const uint8_t magics[2][8] = {
		{ 0x7b, 0x67, 0x85, 0xbe, 0x22, 0x2d, 0x4c, 0xf0 },
		{ 0xe6, 0x59, 0x1b, 0xbf, 0x0b, 0xbf, 0xd8, 0x0b },
	};
	struct golden *g = *state;
	struct verify_result r;
	struct golden_ids ids;
	unsigned hurt = 0;

	assert_ok(golden_open(g, STORE, DATASTORE_WRITE), &g->e);
	for (unsigned prefix = 0; prefix < STORE_PREFIXES; prefix++) {
		char name[64];
		char **names = NULL;
		size_t n = 0;
		int fd = -1;

		(void)snprintf(
		    name, sizeof(name), STORE "/.chunks/%04x", prefix);
		fd =
		    openat(g->dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		assert_ok(file_list(fd, &names, &n, name, &g->e), &g->e);
		for (size_t i = 0; i < n; i++) {
			size_t size = 0;
			char *p = tmpdir_get(fd, names[i], &size);

			if (strlen(names[i]) == 64 && size > 44 &&
			    strcmp(names[i], GARBAGE) != 0 &&
			    (memcmp(p, magics[0], 8) == 0 ||
				memcmp(p, magics[1], 8) == 0)) {
				p[size - 1] = (char)(p[size - 1] ^ 1);
				tmpdir_put(fd, names[i], p, size);
				hurt++;
			}
			free(p);
		}
		file_list_free(names);
		(void)close(fd);
	}
	assert_true(hurt > 2);
	golden_verify(g, &ids, &r);
	assert_int_equal(r.bad_chunks, hurt);
	assert_int_equal(r.missing_chunks + r.unreadable_chunks, 0);
	assert_int_equal(r.hurt_n, 2);
	assert_non_null(strstr(golden_said_text(), "encrypted blob of"));
	verify_result_release(&r);
}

/* What is restored of one archive: its size and digest. */
static void check_content(
    struct golden *g, const char *name, const struct js *want)
{
	char hex[DIGEST_HEX_SIZE];
	struct digest d;
	size_t n = 0;
	char *p = tmpdir_get(g->dir.fd, name, &n);

	assert_non_null(p);
	assert_int_equal(n, golden_u64(want, "size"));
	assert_ok(digest_of(p, n, &d, &g->e), &g->e);
	digest_hex(&d, hex);
	assert_string_equal(hex, golden_str(want, "sha256"));
	free(p);
}

static unsigned restored;
static unsigned encrypted;

static void restore(struct golden *g, struct archive *a, const struct js *want)
{
	static const enum archive_output modes[] = { ARCHIVE_APPEND,
		ARCHIVE_SPARSE_FILE, ARCHIVE_OVERWRITE,
		ARCHIVE_OVERWRITE_CHANGED };
	struct task task = TASK_SILENT;

	assert_int_equal(archive_size(a), golden_u64(want, "size"));
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		struct archive_result r;
		int fd = openat(g->dir.fd, "out",
		    O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		assert_true(fd >= 0);
		assert_ok(
		    archive_extract(a, fd, modes[i], "out", &task, &r, &g->e),
		    &g->e);
		(void)close(fd);
		check_content(g, "out", want);
	}
	restored++;
}

static void restore_all(
    struct golden *g, const struct backup_snapshot *s, const struct js *want)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct manifest m = MANIFEST_INIT;
	size_t n = 0;
	struct js *archives = golden_list(want, "archives", &n);

	if (!golden_bool(want, "finished"))
		return;
	assert_ok(snapshot_hold(g->ds, s, LOCK_SHARED, &hold, &g->e), &g->e);
	assert_ok(tree_read_manifest(g->ds, s, hold.fd, &m, &g->e), &g->e);
	for (size_t i = 0; i < n; i++) {
		struct js *v = js_at(archives, i);
		struct archive *a = NULL;
		int rc = archive_open(
		    g->ds, s, &hold, &m, golden_str(v, "filename"), &a, &g->e);

		if (strcmp(golden_str(v, "crypt-mode"), "encrypt") == 0) {
			assert_err(rc, &g->e, ERR_UNSUPPORTED, "is encrypted");
			encrypted++;
			continue;
		}
		assert_ok(rc, &g->e);
		restore(g, a, v);
		archive_close(a);
	}
	manifest_release(&m);
	snapshot_release(&hold);
}

static void test_restore(void **state)
{
	struct golden *g = *state;

	restored = 0;
	encrypted = 0;
	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	(void)golden_each_snapshot(g, restore_all);
	assert_int_equal(restored, 13);
	assert_int_equal(encrypted, 5);
}

#define SOUND_TEST(f) \
	cmocka_unit_test_setup_teardown(f, golden_setup, golden_verify_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOUND_TEST(test_sound_store),
		SOUND_TEST(test_encrypted_chunks_are_checked),
		SOUND_TEST(test_restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
