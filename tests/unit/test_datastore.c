/* SPDX-License-Identifier: MIT */
#include "datastore/datastore.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/dsfix.h"

#define SOME_USER 12345

static void test_open(void **state)
{
	static const enum datastore_access all[] = { DATASTORE_READ,
		DATASTORE_WRITE, DATASTORE_GC };
	struct dsfix *f = *state;
	char machine[DATASTORE_ID_SIZE];
	char shown[DSFIX_PATH_SIZE];

	datastore_machine_id(machine);
	for (size_t i = 0; i < TEST_COUNT(all); i++) {
		assert_ok(dsfix_open(f, all[i]), &f->e);
		assert_string_equal(f->ds->path, f->path);
		assert_int_equal(f->ds->access, all[i]);
		assert_true(f->ds->has_format);
		assert_int_equal(strlen(f->ds->id), 36);
		assert_string_equal(f->ds->host, machine);
		assert_int_equal(f->ds->owner.uid, geteuid());
		assert_int_equal(f->ds->owner.gid, getegid());
		assert_int_equal(f->ds->owner.change, geteuid() == 0);
		assert_true(f->ds->cairn_fd >= 0);
		assert_non_null(f->ds->store);
		assert_int_equal(
		    f->ds->locks == NULL, all[i] == DATASTORE_READ);
		assert_int_equal(
		    f->ds->own_byte == 0, all[i] != DATASTORE_WRITE);
		assert_int_equal(f->ds->settings.compression, 3);
	}
	assert_ptr_equal(
	    datastore_shown(f->ds, "a/b", shown, sizeof(shown)), shown);
	assert_string_equal(shown + strlen(f->path), "/a/b");
	assert_memory_equal(shown, f->path, strlen(f->path));
	datastore_close(NULL);
}

static void test_settings(void **state)
{
	struct dsfix *f = *state;
	struct settings s = settings_default();

	s.compression = 7;
	assert_ok(
	    datastore_open(f->path, DATASTORE_READ, &s, &f->ds, &f->e), &f->e);
	assert_int_equal(f->ds->settings.compression, 7);
}

static void test_missing(void **state)
{
	struct dsfix *f = *state;

	dsfix_move(f, "store/.lock", "lock");
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, ".lock");
	dsfix_assert_message(f, "'$' is no datastore: it has no '.lock'");
	dsfix_mkdir(f, ".lock");
	assert_err(dsfix_open(f, DATASTORE_WRITE), &f->e, ERR_CORRUPT, ".lock");
	dsfix_assert_message(f, "'$/.lock' is no regular file");
	dsfix_move(f, "store/.chunks", "chunks");
	assert_err(
	    dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, ".chunks");
	dsfix_assert_message(f,
	    "'$' is no datastore: it has '.cairn' but no '.chunks', as an "
	    "interrupted init leaves it: run init again");
}

static void test_missing_all(void **state)
{
	struct dsfix *f = *state;

	dsfix_move(f, "store", "moved");
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, "");
	dsfix_assert_message(f, "datastore '$' does not exist");
	assert_int_equal(mkdir(f->path, 0755), 0);
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, "");
	dsfix_assert_message(f, "'$' is no datastore: it has no '.chunks'");
	assert_int_equal(rmdir(f->path), 0);
	tmpdir_put_str(f->dir.fd, "store", "");
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_NOTFOUND, "");
	dsfix_assert_message(f, "'$' is no datastore: it is no directory");
}

/* Links inside a store lead out of it; one that leads to it is fine. */
static void test_links(void **state)
{
	static const char *const names[] = { ".chunks", ".lock", ".cairn" };
	struct dsfix *f = *state;
	char link[DSFIX_PATH_SIZE];

	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char name[DSFIX_NAME_SIZE];
		char moved[DSFIX_PATH_SIZE + 16];

		(void)snprintf(moved, sizeof(moved), "%s/moved", f->dir.path);
		dsfix_move(f, dsfix_name(names[i], name), "moved");
		dsfix_symlink(f, moved, names[i]);
		assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_CORRUPT,
		    names[i]);
		assert_err(dsfix_open(f, DATASTORE_WRITE), &f->e, ERR_CORRUPT,
		    f->path);
		dsfix_unlink(f, names[i]);
		dsfix_move(f, "moved", name);
	}
	(void)snprintf(link, sizeof(link), "%s/link", f->dir.path);
	assert_int_equal(symlink("store", link), 0);
	assert_ok(
	    datastore_open(link, DATASTORE_WRITE, NULL, &f->ds, &f->e), &f->e);
}

/* As if `.chunks` were a mount point. */
static void other_device(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;
	struct stat *chunks = ctx;

	if (ev->call == FAULT_STATX && ev->result == 0 &&
	    st->stx_ino == chunks->st_ino)
		st->stx_dev_minor++;
}

static void test_other_device(void **state)
{
	struct dsfix *f = *state;
	struct stat chunks;
	struct fault_hooks hooks = { .after = other_device, .ctx = &chunks };

	assert_int_equal(fstatat(f->dir.fd, "store/.chunks", &chunks, 0), 0);
	fault_install();
	fault_set_hooks(&hooks);
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_REFUSED, "");
	dsfix_assert_message(
	    f, "'$/.chunks' is on another file system than '$'");
}

static void test_nested(void **state)
{
	struct dsfix *f = *state;
	char outer[DSFIX_PATH_SIZE];

	dsfix_mkdir(f, "host");
	(void)snprintf(outer, sizeof(outer), "%s", f->path);
	(void)snprintf(f->path, sizeof(f->path), "%s/host/in", outer);
	assert_err(datastore_init(f->path, NULL, &f->task, &f->e), &f->e,
	    ERR_REFUSED, "");
	dsfix_assert_message(f,
	    "'$' lies within the datastore '$/../..': datastores may not be "
	    "nested");
	assert_int_equal(access(f->path, F_OK), -1);
	/* One that was there before the outer one. */
	(void)snprintf(f->path, sizeof(f->path), "%s/in", f->dir.path);
	assert_ok(datastore_init(f->path, NULL, &f->task, &f->e), &f->e);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_int_equal(
	    renameat(f->dir.fd, "in", f->dir.fd, "store/host/in"), 0);
	(void)snprintf(f->path, sizeof(f->path), "%s/host/in", outer);
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_REFUSED,
	    "datastores may not be nested");
	/* Half a datastore is none. */
	assert_int_equal(unlinkat(f->dir.fd, "store/.lock", 0), 0);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
}

static void test_format(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *message;
	} rows[] = {
		{ "", ERR_CORRUPT, "no JSON" },
		{ "{\"format\":1", ERR_CORRUPT, "no JSON" },
		{ "hello\n", ERR_CORRUPT, "no JSON" },
		{ "[]", ERR_CORRUPT, "want an object with 'format'" },
		{ "{}", ERR_CORRUPT, "'format' is missing" },
		{ "{\"format\":0}", ERR_CORRUPT,
		    "'format' is 0, want at least 1" },
		{ "{\"format\":1}", ERR_CORRUPT, "'store' is missing" },
		{ "{\"format\":1,\"store\":\"../x\"}", ERR_CORRUPT,
		    "'store' is '../x', want hex digits and -" },
		{ "{\"format\":1,\"store\":\"\"}", ERR_CORRUPT,
		    "'store' is ''" },
		{ "{\"format\":1,\"store\":\"a\",\"host\":7}", ERR_CORRUPT,
		    "'host' is an integer" },
		{ "{\"format\":1,\"store\":\"a\",\"requires\":{}}", ERR_CORRUPT,
		    "'requires' is an object" },
		{ "{\"format\":1,\"store\":\"a\",\"requires\":[1]}",
		    ERR_CORRUPT, "'requires' is no list of words" },
		{ "{\"format\":1,\"store\":\"a\",\"requires\":[\"s3\"]}",
		    ERR_UNSUPPORTED,
		    "the datastore needs a cairn that knows 's3', which this "
		    "version does not" },
		{ "{\"format\":2}", ERR_UNSUPPORTED,
		    "the datastore needs a cairn of format 2, this version "
		    "knows formats up to 1" },
	};
	struct dsfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		dsfix_put(f, ".cairn/format", rows[i].text);
		assert_err(dsfix_open(f, DATASTORE_READ), &f->e, rows[i].code,
		    rows[i].message);
		/* Which file it is. */
		assert_int_equal(f->e.msg[0], '\'');
		assert_memory_equal(f->e.msg + 1, f->path, strlen(f->path));
		assert_memory_equal(
		    f->e.msg + 1 + strlen(f->path), "/.cairn/format': ", 17);
		assert_int_equal(dsfix_open(f, DATASTORE_WRITE), rows[i].code);
	}
	dsfix_put(f, ".cairn/format",
	    "{\"format\":1,\"store\":\"0a-F\",\"host\":null,\"requires\":[],"
	    "\"x\":{}}");
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_string_equal(f->ds->id, "0a-F");
	assert_string_equal(f->ds->host, "");
}

static void test_format_size(void **state)
{
	struct dsfix *f = *state;
	char *big = malloc(65538);

	assert_non_null(big);
	memset(big, ' ', 65537);
	big[65537] = '\0';
	dsfix_put(f, ".cairn/format", big);
	free(big);
	assert_err(dsfix_open(f, DATASTORE_READ), &f->e, ERR_CORRUPT,
	    "65537 bytes, want at most 65536");
}

static void test_owner(void **state)
{
	struct dsfix *f = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(f->dir.path, 0755), 0);
	assert_int_equal(seteuid(SOME_USER), 0);
	assert_int_equal(dsfix_open(f, DATASTORE_WRITE), ERR_REFUSED);
	dsfix_assert_message(
	    f, "datastore '$' belongs to another user: run as 'root'");
	assert_int_equal(dsfix_open(f, DATASTORE_GC), ERR_REFUSED);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(
	    fchownat(f->dir.fd, "store/.chunks", SOME_USER, 54321, 0), 0);
	assert_int_equal(
	    fchownat(f->dir.fd, "store/.lock", SOME_USER, 54321, 0), 0);
	/* root may, and gives what it makes to the owner. */
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_true(f->ds->owner.change);
	assert_int_equal(f->ds->owner.uid, SOME_USER);
	assert_int_equal(f->ds->owner.gid, 54321);
	assert_int_equal(seteuid(SOME_USER), 0);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_false(f->ds->owner.change);
	assert_int_equal(seteuid(SOME_USER + 1) < 0, 1);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(seteuid(SOME_USER + 1), 0);
	assert_int_equal(dsfix_open(f, DATASTORE_WRITE), ERR_REFUSED);
	dsfix_assert_message(
	    f, "datastore '$' belongs to another user: run as uid 12345");
	assert_int_equal(seteuid(0), 0);
}

/* Not one attempt to change anything. */
static void test_read_only(void **state)
{
	struct dsfix *f = *state;
	const struct fault_rule rule = {
		.calls = FAULT_CHANGES | FAULT_BIT(FAULT_OFD_LOCK) |
		    FAULT_BIT(FAULT_FLOCK),
		.what = FAULT_FAIL,
		.at = 1,
		.times = FAULT_FOREVER,
		.error = EROFS,
	};

	fault_install();
	fault_add(&rule);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
	assert_int_equal(fault_hits(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DSFIX_TEST(test_open),
		DSFIX_TEST(test_settings),
		DSFIX_TEST(test_missing),
		DSFIX_TEST(test_missing_all),
		DSFIX_TEST(test_links),
		DSFIX_TEST(test_other_device),
		DSFIX_TEST(test_nested),
		DSFIX_TEST(test_format),
		DSFIX_TEST(test_format_size),
		DSFIX_TEST(test_owner),
		DSFIX_TEST(test_read_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
