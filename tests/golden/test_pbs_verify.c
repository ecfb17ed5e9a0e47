/* SPDX-License-Identifier: MIT */
/*
 * Datastores with one defect each: the very defect is named, nothing sound is
 * blamed, and no wrong byte is restored.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "datastore/snapshot.h"
#include "index/archive.h"
#include "tests/golden/golden_verify.h"

#define BAD_SNAPSHOT "vm/100/2026-07-15T08:30:00Z"

/*
 * The defects of pbs-bad: a piece of what is said, with $ for the path
 * that EXPECT.tsv has; how many chunks are missing and bad; how restoring
 * fails, of the image where `data` is false.
 */
static const struct defect {
	const char *store;
	const char *text;
	unsigned missing, bad;
	bool data;
	const char *restore; /* NULL: the bytes come back */
} defects[] = {
	{ "fidx-10-bytes", "'$': 10 bytes, want at least 4096\n", 0, 0, false,
	    "$': 10 bytes, want at least 4096" },
	{ "fidx-header-only",
	    "'$': nothing behind the header, want at least one entry\n", 0, 0,
	    false, "$': nothing behind the header" },
	{ "fidx-byte-short",
	    "'$': 127 bytes behind the header, want a multiple of 32\n", 0, 0,
	    false, "$': 127 bytes behind the header" },
	{ "fidx-byte-long",
	    "'$': 129 bytes behind the header, want a multiple of 32\n", 0, 0,
	    false, "$': 129 bytes behind the header" },
	{ "fidx-magic", "'$': magic 2e7f41ed91fd0fcd, want 2f7f41ed91fd0fcd", 0,
	    0, false, "$': magic 2e7f41ed91fd0fcd" },
	{ "fidx-csum",
	    "'$': checksum 3fe57d7c0d1bca3730afe4689b798964df0bae272914cb6b585f"
	    "dfa2b08e4c92, want 3ee57d7c0d1bca37",
	    0, 0, false, "$': checksum 3ee57d7c" },
	{ "didx-partial-entry",
	    "'$': 113 bytes behind the header, want a multiple of 40\n", 0, 0,
	    true, "$': 113 bytes behind the header" },
	{ "didx-csum",
	    "'$': checksum 76f39f714cf9a0170ded4493d6ed5e1d2fadea9e0a04f5cb8b46"
	    "18db20a59272, want 76f39f714cf9a017",
	    0, 0, true, "$': checksum 76f39f71" },
	{ "fidx-size-mismatch",
	    "'$': 4 entries, want 5 for 263344 bytes in chunks of 65536\n", 0,
	    0, false, "$': 4 entries, want 5" },
	{ "fidx-size-zero",
	    "'$': nothing behind the header, want at least one entry\n", 0, 0,
	    false, "$': nothing behind the header" },
	{ "fidx-chunk-size",
	    "'$': chunk size 65537, want a power of two up to 16777216\n", 0, 0,
	    false, "$': chunk size 65537" },
	/* The manifest says it, too. */
	{ "fidx-size-2p63",
	    "'$': 4 entries, want 140737488355328 for 9223372036854775808 bytes "
	    "in chunks of 65536\n",
	    0, 0, false, "too big integer" },
	{ "didx-decreasing",
	    "'$': entry 1 ends at 2000, want more than 32000, where it begins\n",
	    0, 0, true, "$': entry 1 ends at 2000" },
	{ "blob-crc",
	    "'$': plain blob of 23 bytes has CRC 7f856797, its header says "
	    "7f856796\n",
	    0, 0, false, NULL },
	{ "chunk-crc",
	    "drive-scsi0.img.fidx': chunk '$' at offset 65536: zstd blob of 92 "
	    "bytes has CRC 8df3f8c7, its header says 8df3f9c7\n",
	    0, 1, false, "at offset 65536: zstd blob of 92 bytes has CRC" },
	{ "chunk-content",
	    "'$' at offset 65536: the content has another digest than the "
	    "name\n",
	    0, 1, false, "at offset 65536: the content has another digest" },
	{ "chunk-empty",
	    "'$' at offset 65536: blob of 0 bytes, want at least 12\n", 0, 1,
	    false, "is empty, want at least 12 bytes" },
	{ "chunk-bomb",
	    "'$' at offset 0: zstd data expands to more than 16777216 bytes\n",
	    0, 1, false, "at offset 0: zstd data expands to more than" },
	{ "chunk-missing", "'$' at offset 65536: missing\n", 1, 0, false,
	    "at offset 65536: '" },
	{ "manifest-not-json", "'$': no JSON: line 1 column 33: ", 0, 0, false,
	    "'$': no JSON: line 1 column 33: " },
	{ "manifest-missing-file",
	    "'$' lists 'extra.img.fidx', which does not exist\n", 0, 0, false,
	    NULL },
	{ "manifest-other-snapshot",
	    "'$': manifest of 'vm/101/2026-07-15T08:30:00Z', want that of "
	    "'vm/100/2026-07-15T08:30:00Z'\n",
	    0, 0, false, "'$': manifest of 'vm/101/2026-07-15T08:30:00Z'" },
	{ "manifest-dotdot",
	    "'$': 'files'[3]: '../../101/2026-07-15T08:30:00Z/drive-scsi0.img."
	    "fidx' is no file name",
	    0, 0, false, "'$': 'files'[3]: '../../101/" },
	{ "manifest-csum", "b08e4c92, '$' lists 000000000000", 0, 0, false,
	    "index.json.blob lists 0000000000000000" },
	{ "manifest-crypt-mode", "not encrypted, '$' says that it is\n", 0, 0,
	    false, "drive-scsi0.img.fidx' is encrypted" },
	{ "index-unlisted",
	    "'$' is not listed in the manifest: it was "
	    "renamed or added by hand; rename it back, or remove it\n",
	    0, 0, false, NULL },
	{ "group-symlink", "'$' is a symbolic link, want a directory\n", 0, 0,
	    false, "directory '$': '100' is a symbolic link" },
};

static const struct defect *find_defect(const char *store)
{
	for (size_t i = 0; i < TEST_COUNT(defects); i++)
		if (strcmp(defects[i].store, store) == 0)
			return &defects[i];
	print_error("nothing is known of '%s'\n", store);
	abort();
}

/* text with path for each $. */
static void expand(const char *text, const char *path, char *out, size_t size)
{
	size_t n = 0;

	for (; *text != '\0'; text++) {
		if (*text == '$')
			n += (size_t)snprintf(out + n, size - n, "%s", path);
		else
			out[n++] = *text;
		assert_true(n < size - 1);
	}
	out[n] = '\0';
}

static void open_bad(
    struct golden *g, const char *store, enum datastore_access access)
{
	char name[96];

	(void)snprintf(name, sizeof(name), "pbs-bad/%s", store);
	assert_ok(golden_open(g, name, access), &g->e);
}

static void verify_bad(
    struct golden *g, const char *store, const char *path, const char *what)
{
	const struct defect *d = find_defect(store);
	bool no_snapshot = strcmp(store, "group-symlink") == 0;
	char want[1024];
	struct verify_result r;
	struct golden_ids ids;

	(void)what;
	open_bad(g, store, DATASTORE_WRITE);
	golden_verify(g, &ids, &r);
	expand(d->text, path, want, sizeof(want));
	if (strstr(golden_said_text(), want) == NULL)
		print_error(
		    "%s: '%s', want '%s'\n", store, golden_said_text(), want);
	assert_non_null(strstr(golden_said_text(), want));
	assert_int_equal(r.missing_chunks, d->missing);
	assert_int_equal(r.bad_chunks, d->bad);
	assert_int_equal(r.unreadable_chunks + r.kept_chunks, 0);
	assert_int_equal(ids.obstacles, no_snapshot);
	assert_int_equal(r.hurt_n, !no_snapshot);
	verify_result_release(&r);
}

static void test_bad_stores_are_found_bad(void **state)
{
	assert_int_equal(
	    golden_each_bad(*state, verify_bad), TEST_COUNT(defects));
}

/* What comes of one archive is it, or a beginning of it and an error. */
static int restore_bad_archive(
    struct golden *g, const struct backup_snapshot *s, const char *name)
{
	struct task task = TASK_SILENT;
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct manifest m = MANIFEST_INIT;
	struct archive *a = NULL;
	struct archive_result r;
	int fd = openat(
	    g->dir.fd, "out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int rc = snapshot_hold(g->ds, s, LOCK_SHARED, &hold, &g->e);

	assert_true(fd >= 0);
	if (rc == 0)
		rc = tree_read_manifest(g->ds, s, hold.fd, &m, &g->e);
	if (rc == 0)
		rc = archive_open(g->ds, s, &hold, &m, name, &a, &g->e);
	if (rc == 0)
		rc = archive_extract(
		    a, fd, ARCHIVE_APPEND, "out", &task, &r, &g->e);
	archive_close(a);
	manifest_release(&m);
	snapshot_release(&hold);
	(void)close(fd);
	return rc;
}

/* The sound archive of that name, as a store whose defect is elsewhere has
 * it, in the file "sound". */
static void make_sound(struct golden *g, const char *name)
{
	struct backup_ns root = { .name = "" };
	struct backup_snapshot s;

	assert_ok(backup_snapshot_parse(&root, BAD_SNAPSHOT, &s, &g->e), &g->e);
	open_bad(g, "index-unlisted", DATASTORE_READ);
	assert_ok(restore_bad_archive(g, &s, name), &g->e);
	assert_int_equal(renameat(g->dir.fd, "out", g->dir.fd, name), 0);
}

static void restore_bad(
    struct golden *g, const char *store, const char *path, const char *what)
{
	const struct defect *d = find_defect(store);
	const char *name = d->data ? "data.raw" : "drive-scsi0.img";
	struct backup_ns root = { .name = "" };
	struct backup_snapshot s;
	char want[1024];
	char *got = NULL;
	char *sound = NULL;
	size_t got_n = 0;
	size_t sound_n = 0;
	int rc = 0;

	(void)what;
	assert_ok(backup_snapshot_parse(&root, BAD_SNAPSHOT, &s, &g->e), &g->e);
	open_bad(g, store, DATASTORE_READ);
	rc = restore_bad_archive(g, &s, name);
	if (d->restore == NULL) {
		assert_ok(rc, &g->e);
	} else {
		expand(d->restore, path, want, sizeof(want));
		assert_true(rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
		assert_err(rc, &g->e, rc, want);
	}
	got = tmpdir_get(g->dir.fd, "out", &got_n);
	sound = tmpdir_get(g->dir.fd, name, &sound_n);
	assert_true(rc == 0 ? got_n == sound_n : got_n < sound_n);
	assert_true(memcmp(got, sound, got_n) == 0);
	free(got);
	free(sound);
}

static void test_bad_stores_give_no_wrong_byte(void **state)
{
	struct golden *g = *state;

	make_sound(g, "data.raw");
	make_sound(g, "drive-scsi0.img");
	assert_int_equal(golden_each_bad(g, restore_bad), TEST_COUNT(defects));
}

/* Programs under a sanitizer take terabytes of addresses. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

/* 4 GiB in 128 KiB: neither verify nor restore takes them. */
static void test_bomb_in_little_memory(void **state)
{
	const struct rlimit little = { .rlim_cur = (rlim_t)1 << 30,
		.rlim_max = (rlim_t)1 << 30 };
	struct golden *g = *state;
	struct rusage usage;
	int status = 0;
	pid_t pid = 0;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct task task = TASK_SILENT;
		struct backup_ns root = { .name = "" };
		struct backup_snapshot s;
		struct verify_result r = { .hurt = NULL };

		if (__sanitizer_get_current_allocated_bytes == NULL &&
		    setrlimit(RLIMIT_AS, &little) < 0)
			_exit(10);
		if (golden_open(g, "pbs-bad/chunk-bomb", DATASTORE_WRITE) < 0 ||
		    backup_snapshot_parse(&root, BAD_SNAPSHOT, &s, &g->e) < 0)
			_exit(11);
		if (restore_bad_archive(g, &s, "drive-scsi0.img") !=
		    ERR_CORRUPT)
			_exit(12);
		if (verify_run(g->ds, &s, 1, &task, &r, &g->e) < 0 ||
		    r.bad_chunks != 1)
			_exit(13);
		if (getrusage(RUSAGE_SELF, &usage) < 0 ||
		    usage.ru_maxrss > 1L << 20)
			_exit(14);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define BAD_TEST(f)                      \
	cmocka_unit_test_setup_teardown( \
	    f, golden_bad_setup, golden_verify_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BAD_TEST(test_bad_stores_are_found_bad),
		BAD_TEST(test_bad_stores_give_no_wrong_byte),
		BAD_TEST(test_bomb_in_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
