/* SPDX-License-Identifier: MIT */
/*
 * scratch: the fixture of tests that work on files: a scratch directory, the
 * fault table in front, and things that have to be released though a failed
 * assertion jumps over it.
 *
 * The teardown fails the test if it left a descriptor open.
 */
#ifndef CAIRN_TESTS_SUPPORT_SCRATCH_H
#define CAIRN_TESTS_SUPPORT_SCRATCH_H

#include "datastore/base/buf.h"
#include "tests/support/tmpdir.h"

struct scratch {
	struct tmpdir t;
	int dir; /* of t, borrowed */
	int fd;  /* -1, or the test's to use */
	struct buf buf;
	char **names; /* of file_list */
	size_t fds;   /* open before the test */
};

/* For cmocka_unit_test_setup_teardown: *state is a struct scratch. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* The file's bytes are this string's. */
void scratch_assert_content(
    const struct scratch *s, const char *name, const char *want);

#define SCRATCH_TEST(f) \
	cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

#endif
