/* SPDX-License-Identifier: MIT */
#include "datastore/base/dirreader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

/* Names so long that a piece has room for some of them. */
#define FILES 500U
#define NAME_LEN 250

static int open_again(const struct tmpdir *t)
{
	int fd = openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void name_of(unsigned i, char out[NAME_LEN + 1])
{
	(void)snprintf(out, NAME_LEN + 1, "%0*u", NAME_LEN, i);
}

static void put_files(const struct tmpdir *t)
{
	char name[NAME_LEN + 1];

	for (unsigned i = 0; i < FILES; i++) {
		name_of(i, name);
		tmpdir_put_str(t->fd, name, "");
	}
}

/* Each of the files once, with its inode; returns how many. */
static unsigned read_all(
    struct dirreader *r, const struct tmpdir *t, int fd, struct err *e)
{
	bool seen[FILES] = { false };
	struct dirreader_entry entry;
	unsigned n = 0;

	dirreader_begin(r, fd);
	for (;;) {
		unsigned i = 0;
		struct stat st;

		assert_ok(dirreader_next(r, &entry, "d", e), e);
		if (entry.name == NULL)
			break;
		assert_int_equal(strlen(entry.name), NAME_LEN);
		assert_int_equal(sscanf(entry.name, "%u", &i), 1);
		assert_true(i < FILES);
		assert_false(seen[i]);
		seen[i] = true;
		assert_int_equal(fstatat(t->fd, entry.name, &st, 0), 0);
		assert_true(entry.inode == st.st_ino);
		n++;
	}
	/* And stays at the end. */
	assert_ok(dirreader_next(r, &entry, "d", e), e);
	assert_null(entry.name);
	return n;
}

static void each_name_once(void **state)
{
	const struct tmpdir *t = *state;
	struct dirreader r = DIRREADER_INIT;
	struct err e = ERR_INIT;
	int fd = open_again(t);
	int empty = -1;

	put_files(t);
	fault_install();
	assert_int_equal(read_all(&r, t, fd, &e), FILES);
	/* More than one piece, or the test is of no use. */
	assert_true(fault_count(FAULT_BIT(FAULT_GETDENTS64)) > 3);
	/* The same reader in another directory, and in the first again. */
	assert_int_equal(mkdirat(t->fd, "sub", 0755), 0);
	empty = openat(t->fd, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(read_all(&r, t, empty, &e), 0);
	assert_int_equal(unlinkat(t->fd, "sub", AT_REMOVEDIR), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(read_all(&r, t, fd, &e), FILES);
	fault_uninstall();
	dirreader_release(&r);
	assert_int_equal(close(empty), 0);
	assert_int_equal(close(fd), 0);
}

/* In the middle of a piece another directory is begun: nothing is left. */
static void begun_anew(void **state)
{
	const struct tmpdir *t = *state;
	struct dirreader r = DIRREADER_INIT;
	struct dirreader_entry entry;
	struct err e = ERR_INIT;
	int fd = open_again(t);
	int again = open_again(t);

	put_files(t);
	dirreader_begin(&r, fd);
	assert_ok(dirreader_next(&r, &entry, "d", &e), &e);
	assert_non_null(entry.name);
	assert_int_equal(read_all(&r, t, again, &e), FILES);
	dirreader_release(&r);
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(again), 0);
}

static void what_fails(void **state)
{
	const struct tmpdir *t = *state;
	struct dirreader r = DIRREADER_INIT;
	struct dirreader_entry entry;
	struct err e = ERR_INIT;
	int fd = open_again(t);
	int rc = 0;

	put_files(t);
	fault_install();
	fault_once(FAULT_BIT(FAULT_GETDENTS64), 2, EIO);
	dirreader_begin(&r, fd);
	do {
		rc = dirreader_next(&r, &entry, "p/d", &e);
	} while (rc == 0 && entry.name != NULL);
	assert_err(rc, &e, ERR_SYS, "read directory 'p/d': Input/output error");
	fault_reset();
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	fault_once(FAULT_BIT(FAULT_GETDENTS64), 2, EINTR);
	assert_int_equal(read_all(&r, t, fd, &e), FILES);
	fault_uninstall();
	dirreader_release(&r);
	assert_int_equal(close(fd), 0);
}

/* Removed while it was open: there is nothing in it. */
static void a_removed_one(void **state)
{
	const struct tmpdir *t = *state;
	struct dirreader r = DIRREADER_INIT;
	struct err e = ERR_INIT;
	int fd = -1;

	assert_int_equal(mkdirat(t->fd, "sub", 0755), 0);
	fd = openat(t->fd, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(unlinkat(t->fd, "sub", AT_REMOVEDIR), 0);
	assert_int_equal(read_all(&r, t, fd, &e), 0);
	dirreader_release(&r);
	assert_int_equal(close(fd), 0);
}

#define TEST(f) \
	cmocka_unit_test_setup_teardown(f, tmpdir_setup, tmpdir_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_name_once),
		TEST(begun_anew),
		TEST(what_fails),
		TEST(a_removed_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
