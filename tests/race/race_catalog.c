/* SPDX-License-Identifier: MIT */
/*
 * Catalogs opened, read and made in several threads at once: SQLite is told of
 * each one's files, and forgets them, while others look for theirs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog_build.h"
#include "tests/support/catalogmem.h"
#include "tests/support/test.h"

#define THREADS 4
#define ROUNDS 40
#define ROWS 300

/* A database of ROWS rows. */
static int make(int64_t first, struct catalog_build *b, struct err *e)
{
	char sql[512];
	int rc = catalog_build_begin(b, false, e);

	(void)snprintf(sql, sizeof(sql),
	    "insert into spool.entry(parent, name, id, kind) values "
	    "(0, x'', 1, 'dir'); with recursive c(i) as (select 2 union all "
	    "select i + 1 from c where i < %d) "
	    "insert into spool.entry(parent, name, id, kind) select 1, "
	    "cast(i + %lld as blob), i, 'fifo' from c",
	    ROWS, (long long)first);
	if (rc == 0)
		rc = catalog_build_exec(b, sql, e);
	if (rc == 0)
		rc = catalog_build_copy(b, false, e);
	if (rc == 0)
		rc = catalog_build_meta(b, ROWS + 1, 0, e);
	return rc == 0 ? catalog_build_end(b, e) : rc;
}

static int count_rows(struct catalog *c, unsigned *ret_n, struct err *e)
{
	struct catalog_cursor *cur = NULL;
	struct catalog_entry x;
	bool more = true;
	int rc = catalog_all(c, &cur, e);

	*ret_n = 0;
	while (rc == 0) {
		rc = catalog_cursor_next(cur, &x, &more, e);
		if (rc < 0 || !more)
			break;
		++*ret_n;
	}
	catalog_cursor_free(cur);
	return rc;
}

static int read_back(int fd, struct err *e)
{
	off_t n = lseek(fd, 0, SEEK_END);
	uint8_t *p = malloc((size_t)n + 1);
	struct catalog_part part = catalogmem_part(p, (size_t)n, "made");
	struct catalog *c = NULL;
	unsigned rows = 0;
	int rc = 0;

	if (p == NULL || pread(fd, p, (size_t)n, 0) != n) {
		free(p);
		return err_set(e, ERR_SYS, "read back");
	}
	rc = catalog_open_parts(&part, NULL, "", &c, e);
	if (rc == 0)
		rc = count_rows(c, &rows, e);
	if (rc == 0 && rows != ROWS)
		rc = err_set(e, ERR_CORRUPT, "%u rows", rows);
	catalog_close(c);
	free(p);
	return rc;
}

static void *work(void *arg)
{
	struct err *e = arg;
	int rc = 0;

	for (int i = 0; i < ROUNDS && rc == 0; i++) {
		struct catalog_build b;

		catalog_build_init(&b, "made");
		rc = make(i, &b, e);
		if (rc == 0)
			rc = read_back(b.fd, e);
		catalog_build_release(&b);
	}
	return NULL;
}

static void share_nothing(void **state)
{
	pthread_t threads[THREADS];
	struct err errors[THREADS] = { ERR_INIT };

	(void)state;
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(
		    pthread_create(&threads[i], NULL, work, &errors[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	}
	for (size_t i = 0; i < THREADS; i++)
		assert_ok(errors[i].code, &errors[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
