/* SPDX-License-Identifier: MIT */
/*
 * What an open datastore is for: locks, `.cairn`, the file system.
 */
#include "datastore/datastore.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "datastore/gcrunning.h"
#include "datastore/locks.h"
#include "tests/support/dsfix.h"
#include "tests/support/foreign.h"

/* The locks of PBS: classic, of the whole file. */
static bool foreign_whole(struct dsfix *f, short type)
{
	const struct foreign_lock lock = { .classic = true, .type = type };

	return foreign_can(f->dir.fd, "store/.lock", &lock);
}

static void test_own_byte(void **state)
{
	struct dsfix *f = *state;

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_true(foreign_whole(f, F_WRLCK));
	assert_ok(dsfix_open(f, DATASTORE_GC), &f->e);
	assert_true(foreign_whole(f, F_WRLCK));
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_true(f->ds->own_byte >= LOCK_BYTE_OWN);
	assert_true(f->ds->own_byte < LOCK_BYTE_OWN + (UINT64_C(1) << 31));
	/* Neither its GC nor its backups. */
	assert_false(foreign_whole(f, F_WRLCK));
	assert_false(foreign_whole(f, F_RDLCK));
	assert_false(foreign_can_byte(
	    f->dir.fd, "store/.lock", f->ds->own_byte, F_RDLCK));
	/* Two writers of cairn go together. */
	assert_ok(
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->second, &f->e),
	    &f->e);
	assert_true(f->second->own_byte != f->ds->own_byte);
	datastore_close(f->second);
	f->second = NULL;
	assert_false(foreign_whole(f, F_RDLCK));
	datastore_close(f->ds);
	f->ds = NULL;
	assert_true(foreign_whole(f, F_WRLCK));
}

static void test_busy(void **state)
{
	struct dsfix *f = *state;
	const struct foreign_lock lock = { .classic = true, .type = F_RDLCK };
	struct foreign_holder holder;

	foreign_start(f->dir.fd, "store/.lock", &lock, &holder);
	assert_err(dsfix_open(f, DATASTORE_WRITE), &f->e, ERR_BUSY, "");
	dsfix_assert_message(f,
	    "datastore '$' is in use by another program that locks "
	    "all of it, as PBS does; try again when that has ended");
	assert_ok(dsfix_open(f, DATASTORE_GC), &f->e);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	foreign_end(&holder);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
}

/* One byte that is taken, not the file: the next one does. */
static void test_own_byte_taken(void **state)
{
	struct dsfix *f = *state;
	const struct fault_rule taken = {
		.calls = FAULT_BIT(FAULT_OFD_LOCK),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 2,
		.error = EAGAIN,
	};
	struct fault_rule thrice = taken;

	fault_install();
	fault_add(&taken);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_int_equal(fault_hits(), 2);
	datastore_close(f->ds);
	f->ds = NULL;
	fault_reset();
	thrice.times = 3;
	fault_add(&thrice);
	assert_err(
	    dsfix_open(f, DATASTORE_WRITE), &f->e, ERR_BUSY, "locks all of it");
}

/* A store of PBS: without .cairn. */
static void make_foreign(struct dsfix *f)
{
	dsfix_unlink(f, ".cairn/format");
	dsfix_unlink(f, ".cairn/gc.running");
	if (dsfix_has(f, ".cairn/added"))
		dsfix_unlink(f, ".cairn/added");
	assert_int_equal(
	    unlinkat(f->dir.fd, "store/.cairn/sessions", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(f->dir.fd, "store/.cairn", AT_REMOVEDIR), 0);
}

static void test_ensure_cairn(void **state)
{
	struct dsfix *f = *state;
	char id[DATASTORE_ID_SIZE];
	struct stat st;

	make_foreign(f);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_false(f->ds->has_format);
	assert_int_equal(f->ds->cairn_fd, -1);
	assert_string_equal(f->ds->id, "");
	assert_ok(
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->second, &f->e),
	    &f->e);
	assert_ok(datastore_ensure_cairn(f->ds, &f->e), &f->e);
	assert_true(f->ds->has_format);
	assert_true(f->ds->cairn_fd >= 0);
	assert_int_equal(strlen(f->ds->id), 36);
	memcpy(id, f->ds->id, sizeof(id));
	assert_ok(datastore_ensure_cairn(f->ds, &f->e), &f->e);
	assert_string_equal(f->ds->id, id);
	/* Who finds it made has the same. */
	assert_ok(datastore_ensure_cairn(f->second, &f->e), &f->e);
	assert_string_equal(f->second->id, id);
	assert_int_equal(tmpdir_count(f->ds->cairn_fd, ""), 3);
	assert_int_equal(fstatat(f->ds->cairn_fd, "sessions", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(fstatat(f->ds->cairn_fd, "gc.running", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_size, GCRUNNING_BYTES);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_string_equal(f->ds->id, id);
}

/* Another process makes the format between our look and our name. */
static void make_format_first(void *ctx, struct fault_event *ev)
{
	struct dsfix *f = ctx;

	if (ev->call == FAULT_RENAMEAT2 && strcmp(ev->to_name, "format") == 0)
		dsfix_put(
		    f, ".cairn/format", "{\"format\":1,\"store\":\"abc\"}");
}

static void test_ensure_race(void **state)
{
	struct dsfix *f = *state;
	struct fault_hooks hooks = { .before = make_format_first, .ctx = f };

	make_foreign(f);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(datastore_ensure_cairn(f->ds, &f->e), &f->e);
	assert_string_equal(f->ds->id, "abc");
	assert_int_equal(tmpdir_count(f->ds->cairn_fd, "tmp"), 0);
}

/* File systems that know only one, or none, of the calls. */
static void test_ensure_old_fs(void **state)
{
	struct dsfix *f = *state;
	struct fault_rule no_flags = {
		.calls = FAULT_BIT(FAULT_RENAMEAT2),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EINVAL,
	};
	const struct fault_rule no_links = {
		.calls = FAULT_BIT(FAULT_LINKAT),
		.what = FAULT_FAIL,
		.at = 1,
		.times = FAULT_FOREVER,
		.error = EPERM,
	};

	for (int links = 1; links >= 0; links--) {
		make_foreign(f);
		assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
		fault_install();
		fault_add(&no_flags);
		/* Of the second file; the renames without flags work. */
		no_flags.at = links ? 2 : 3;
		fault_add(&no_flags);
		no_flags.at = 1;
		if (!links)
			fault_add(&no_links);
		assert_ok(datastore_ensure_cairn(f->ds, &f->e), &f->e);
		assert_int_equal(fault_hits(), links ? 2 : 4);
		fault_uninstall();
		assert_int_equal(tmpdir_count(f->ds->cairn_fd, ""), 3);
	}
}

/* What statvfs and statfs are to say. */
struct figures {
	uint64_t blocks;
	uint64_t free;
	uint64_t available;
	uint64_t magic;
};

static void falsify(void *ctx, struct fault_event *ev)
{
	const struct figures *want = ctx;

	if (ev->call == FAULT_FSTATVFS) {
		struct statvfs *st = ev->p;

		st->f_frsize = 4096;
		st->f_blocks = want->blocks;
		st->f_bfree = want->free;
		st->f_bavail = want->available;
		st->f_files = 1000;
		st->f_ffree = 10;
	} else if (ev->call == FAULT_FSTATFS) {
		struct statfs *st = ev->p;

		st->f_type = (__fsword_t)want->magic;
	}
}

#define MAKE_ROOM \
	"; 'cairn forget' or 'prune', then 'cairn gc --cutoff 0' make room"

static void test_space(void **state)
{
	static const struct {
		struct min_free want;
		const char *message; /* NULL: enough */
	} rows[] = {
		{ { .bytes = 0 }, NULL },
		{ { .bytes = 40960 }, NULL },
		{ { .bytes = 40961 },
		    "datastore '$': 40 KiB free, min-free wants 40 KiB" MAKE_ROOM },
		{ { .bytes = 1 << 20 },
		    "datastore '$': 40 KiB free, min-free wants 1 MiB" MAKE_ROOM },
		{ { .percent_x100 = 1 }, NULL },
		{ { .percent_x100 = 100 }, NULL },
		{ { .percent_x100 = 101 },
		    "datastore '$': 40 KiB (1.00%) free, min-free wants "
		    "40.4 KiB (1.01%)" MAKE_ROOM },
	};
	struct dsfix *f = *state;
	struct figures figures = {
		.blocks = 1000, .free = 50, .available = 10
	};
	struct fault_hooks hooks = { .after = falsify, .ctx = &figures };
	struct datastore_space s = { .total = 0 };

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(datastore_space(f->ds, &s, &f->e), &f->e);
	assert_int_equal(s.total, 1000 * 4096);
	assert_int_equal(s.used, 950 * 4096);
	assert_int_equal(s.available, 10 * 4096);
	assert_int_equal(s.inodes_total, 1000);
	assert_int_equal(s.inodes_free, 10);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		int rc = datastore_check_min_free(f->ds, &rows[i].want, &f->e);

		if (rows[i].message == NULL) {
			assert_ok(rc, &f->e);
			continue;
		}
		assert_err(rc, &f->e, ERR_REFUSED, "");
		dsfix_assert_message(f, rows[i].message);
	}
}

static void test_space_big(void **state)
{
	struct dsfix *f = *state;
	struct figures figures = {
		.blocks = UINT64_MAX / 4096,
		.free = UINT64_MAX / 4096,
		.available = UINT64_MAX / 4096,
	};
	struct fault_hooks hooks = { .after = falsify, .ctx = &figures };
	const struct min_free all = { .percent_x100 = 10000 };
	const struct fault_rule fail = {
		.calls = FAULT_BIT(FAULT_FSTATVFS),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EIO,
	};

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(datastore_check_min_free(f->ds, &all, &f->e), &f->e);
	figures.available /= 2;
	assert_err(datastore_check_min_free(f->ds, &all, &f->e), &f->e,
	    ERR_REFUSED, "(50.00%) free");
	fault_reset();
	fault_add(&fail);
	assert_err(datastore_check_min_free(f->ds, &all, &f->e), &f->e, ERR_SYS,
	    "free space of '");
}

static void test_fs(void **state)
{
	static const struct {
		uint64_t magic;
		const char *name;
		bool network;
	} rows[] = {
		{ 0xef53, "ext4", false },
		{ 0x58465342, "xfs", false },
		{ 0x9123683e, "btrfs", false },
		{ 0x6969, "nfs", true },
		{ 0x65735546, "fuse", true },
		{ 0xff534d42, "cifs", true },
		/* As a kernel may hand it over in a signed word. */
		{ 0xfffffffffe534d42, "smb2", true },
		{ 0x12345678, "0x12345678", false },
	};
	struct dsfix *f = *state;
	struct figures figures = { .magic = 0 };
	struct fault_hooks hooks = { .after = falsify, .ctx = &figures };
	const struct fault_rule fail = {
		.calls = FAULT_BIT(FAULT_FSTATFS),
		.what = FAULT_FAIL,
		.at = 1,
		.times = FAULT_FOREVER,
		.error = EIO,
	};
	char name[32];

	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	fault_install();
	fault_set_hooks(&hooks);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		figures.magic = rows[i].magic;
		assert_string_equal(
		    datastore_fs_name(f->ds, name), rows[i].name);
		assert_int_equal(datastore_is_network(f->ds), rows[i].network);
	}
	fault_reset();
	fault_add(&fail);
	assert_string_equal(datastore_fs_name(f->ds, name), "unknown");
	assert_true(datastore_is_network(f->ds));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DSFIX_TEST(test_own_byte),
		DSFIX_TEST(test_busy),
		DSFIX_TEST(test_own_byte_taken),
		DSFIX_TEST(test_ensure_cairn),
		DSFIX_TEST(test_ensure_race),
		DSFIX_TEST(test_ensure_old_fs),
		DSFIX_TEST(test_space),
		DSFIX_TEST(test_space_big),
		DSFIX_TEST(test_fs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
