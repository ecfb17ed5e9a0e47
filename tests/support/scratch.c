/* SPDX-License-Identifier: MIT */
#include "tests/support/scratch.h"

#include <stdlib.h>

#include "datastore/base/file.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"

int scratch_setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -1;
	s->fds = tmpdir_open_fds();
	tmpdir_make(&s->t);
	s->dir = s->t.fd;
	s->fd = -1;
	fault_install();
	*state = s;
	return 0;
}

int scratch_teardown(void **state)
{
	struct scratch *s = *state;
	size_t before = s->fds;
	size_t after = 0;

	fault_uninstall();
	file_close(&s->fd);
	buf_release(&s->buf);
	file_list_free(s->names);
	tmpdir_remove(&s->t);
	free(s);
	after = tmpdir_open_fds();
	if (after != before) {
		print_error(
		    "%zu descriptors before, %zu after\n", before, after);
	}
	return after == before ? 0 : -1;
}

void scratch_assert_content(
    const struct scratch *s, const char *name, const char *want)
{
	size_t n = 0;
	char *got = tmpdir_get(s->dir, name, &n);

	if (got == NULL) {
		fail_msg("'%s' is not there", name);
		return; /* never; analyzers do not know */
	}
	if (n != strlen(want) || memcmp(got, want, n) != 0)
		print_error("'%s': '%s', want '%s'\n", name, got, want);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(got, want, n);
	free(got);
}
