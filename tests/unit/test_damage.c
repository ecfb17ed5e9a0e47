/* SPDX-License-Identifier: MIT */
#include "datastore/damage.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/support/sessionfix.h"

#define LIST ".cairn/damaged"
#define TIME " 2026-11-30T12:00:00Z\n"

struct fixture {
	struct dsfix *f;
	struct damage *d;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *one = NULL;

	*state = x;
	if (x == NULL || sessionfix_setup(&one) < 0)
		return -1;
	x->f = one;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *one = x->f;

	fault_uninstall();
	damage_free(x->d);
	free(x);
	return dsfix_teardown(&one);
}

#define DAMAGE_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

/* Digest number n is n in each byte. */
static const struct digest *digest(uint8_t n)
{
	static struct digest d;

	memset(d.b, n, sizeof(d.b));
	return &d;
}

static void read_list(struct fixture *x)
{
	damage_free(x->d);
	x->d = NULL;
	assert_ok(damage_read(x->f->ds, &x->d, &x->f->e), &x->f->e);
}

static void append(struct fixture *x, uint8_t n, enum damage_state what)
{
	assert_ok(damage_append(x->f->ds, digest(n), what, &x->f->e), &x->f->e);
}

static char *content(struct fixture *x)
{
	return tmpdir_get(x->f->dir.fd, "store/" LIST, NULL);
}

/* The line of digest n, without a time. */
static const char *line(uint8_t n, const char *word)
{
	static char text[128];
	char hex[DIGEST_HEX_SIZE];

	digest_hex(digest(n), hex);
	(void)snprintf(text, sizeof(text), "%s %s", hex, word);
	return text;
}

static void put_line(struct fixture *x, const char *text)
{
	int fd = openat(
	    x->f->ds->root_fd, LIST, O_WRONLY | O_APPEND | O_CREAT, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void test_last_counts(void **state)
{
	struct fixture *x = *state;
	enum damage_state what;

	read_list(x);
	assert_int_equal(damage_count(x->d), 0);
	assert_false(damage_contains(x->d, digest(1)));
	append(x, 3, DAMAGE_BAD);
	append(x, 1, DAMAGE_MISSING);
	append(x, 2, DAMAGE_MISSING);
	append(x, 2, DAMAGE_HEALED);
	append(x, 4, DAMAGE_HEALED);
	append(x, 4, DAMAGE_BAD);
	append(x, 1, DAMAGE_BAD);
	read_list(x);
	assert_int_equal(damage_count(x->d), 3);
	assert_true(digest_equal(damage_at(x->d, 0, &what), digest(1)));
	assert_int_equal(what, DAMAGE_BAD);
	assert_true(digest_equal(damage_at(x->d, 1, &what), digest(3)));
	assert_true(digest_equal(damage_at(x->d, 2, &what), digest(4)));
	for (uint8_t n = 0; n < 6; n++) {
		assert_int_equal(damage_contains(x->d, digest(n)),
		    n == 1 || n == 3 || n == 4);
	}
}

/* The form of a line; what is not of it is passed over. */
static void test_format(void **state)
{
	struct fixture *x = *state;
	const char *text = NULL;
	char *all = NULL;
	char odd[4096];

	append(x, 1, DAMAGE_MISSING);
	all = content(x);
	text = line(1, "missing 20");
	assert_memory_equal(all, text, strlen(text));
	assert_int_equal(strlen(all), 64 + 1 + 7 + 1 + 20 + 1);
	free(all);
	memset(odd, 'x', sizeof(odd));
	odd[sizeof(odd) - 1] = '\0';
	odd[sizeof(odd) - 2] = '\n';
	put_line(x, odd);
	put_line(x, "\n\n");
	put_line(x, line(2, "missing\n"));
	put_line(x, line(2, "repaired" TIME));
	put_line(x, line(2, "missing 2026-11-30\n"));
	put_line(x, line(2, "missing  2026-11-30T12:00:00Z\n"));
	put_line(x, line(2, "missing 2026-11-30T12:00:00Z \n"));
	put_line(x, line(1, "heale"));
	put_line(x, "\n");
	put_line(x, line(3, "bad" TIME));
	put_line(x, line(4, "missing"));
	read_list(x);
	assert_int_equal(damage_count(x->d), 2);
	assert_int_equal(damage_odd(x->d, x->f->ds, &x->f->task), 7);
	assert_true(damage_contains(x->d, digest(1)));
	assert_true(damage_contains(x->d, digest(3)));
}

/* A torn last line does not swallow the next one. */
static void test_torn(void **state)
{
	struct fixture *x = *state;

	append(x, 1, DAMAGE_BAD);
	put_line(x, line(2, "mis"));
	read_list(x);
	assert_int_equal(damage_count(x->d), 1);
	assert_int_equal(damage_odd(x->d, x->f->ds, &x->f->task), 0);
	append(x, 3, DAMAGE_BAD);
	read_list(x);
	assert_int_equal(damage_count(x->d), 2);
	assert_int_equal(damage_odd(x->d, x->f->ds, &x->f->task), 1);
	assert_true(damage_contains(x->d, digest(3)));
}

struct news {
	uint8_t seen[16];
	size_t n;
	int rc;
};

static int take_news(void *ctx, const struct digest *d, struct err *e)
{
	struct news *n = ctx;

	assert_true(n->n < sizeof(n->seen));
	n->seen[n->n++] = d->b[0];
	return n->rc < 0 ? err_set(e, n->rc, "enough") : 0;
}

static struct news refresh(struct fixture *x)
{
	struct news n = { .n = 0 };

	assert_ok(
	    damage_refresh(x->f->ds, x->d, take_news, &n, &x->f->e), &x->f->e);
	return n;
}

static void assert_news(struct fixture *x, const char *want)
{
	struct news n = refresh(x);

	assert_int_equal(n.n, strlen(want));
	for (size_t i = 0; i < n.n; i++)
		assert_int_equal(n.seen[i], want[i] - '0');
}

/* What was added since, whatever was known before. */
static void test_refresh(void **state)
{
	struct fixture *x = *state;

	read_list(x);
	assert_news(x, "");
	append(x, 2, DAMAGE_MISSING);
	append(x, 1, DAMAGE_BAD);
	assert_news(x, "12");
	assert_news(x, "");
	append(x, 3, DAMAGE_BAD);
	append(x, 3, DAMAGE_HEALED);
	append(x, 1, DAMAGE_HEALED);
	assert_news(x, "");
	assert_false(damage_contains(x->d, digest(1)));
	assert_true(damage_contains(x->d, digest(2)));
	append(x, 1, DAMAGE_BAD);
	append(x, 2, DAMAGE_BAD);
	assert_news(x, "12");
	assert_int_equal(damage_count(x->d), 2);
	/* A line that is being written is read when it is whole. */
	put_line(x, line(5, "bad"));
	assert_news(x, "");
	put_line(x, TIME);
	assert_news(x, "5");
}

/* A file that was replaced is read anew, whatever its size. */
static void test_refresh_replaced(void **state)
{
	struct fixture *x = *state;

	append(x, 1, DAMAGE_BAD);
	append(x, 2, DAMAGE_BAD);
	read_list(x);
	append(x, 1, DAMAGE_HEALED);
	append(x, 3, DAMAGE_MISSING);
	assert_ok(damage_compact(x->f->ds, &x->f->e), &x->f->e);
	assert_news(x, "23");
	assert_false(damage_contains(x->d, digest(1)));
	/* Twice between two looks: the first inode number may be back. */
	for (int i = 0; i < 3; i++)
		assert_ok(damage_compact(x->f->ds, &x->f->e), &x->f->e);
	append(x, 4, DAMAGE_BAD);
	assert_news(x, "234");
	dsfix_unlink(x->f, LIST);
	assert_news(x, "");
	assert_int_equal(damage_count(x->d), 0);
	append(x, 5, DAMAGE_BAD);
	assert_news(x, "5");
	dsfix_put(x->f, LIST, "");
	assert_news(x, "");
	assert_int_equal(damage_count(x->d), 0);
}

static void test_refresh_ends(void **state)
{
	struct fixture *x = *state;
	struct news n = { .rc = ERR_BUSY };

	read_list(x);
	append(x, 1, DAMAGE_BAD);
	append(x, 2, DAMAGE_BAD);
	assert_err(damage_refresh(x->f->ds, x->d, take_news, &n, &x->f->e),
	    &x->f->e, ERR_BUSY, "enough");
	assert_int_equal(n.n, 1);
}

static void test_compact(void **state)
{
	struct fixture *x = *state;
	char *text = NULL;

	assert_ok(damage_compact(x->f->ds, &x->f->e), &x->f->e);
	assert_false(dsfix_has(x->f, LIST));
	for (int i = 0; i < 3; i++) {
		append(x, 1, DAMAGE_BAD);
		append(x, 2, DAMAGE_BAD);
		append(x, 2, DAMAGE_HEALED);
	}
	put_line(x, line(3, "missing" TIME));
	assert_ok(damage_compact(x->f->ds, &x->f->e), &x->f->e);
	text = content(x);
	assert_int_equal(strlen(text),
	    64 + 1 + 3 + 1 + 21 + strlen(line(3, "missing" TIME)));
	assert_non_null(strstr(text, line(3, "missing" TIME)));
	free(text);
	read_list(x);
	assert_int_equal(damage_count(x->d), 2);
}

/* Many, in any order, with several events each. */
static void test_many(void **state)
{
	enum { N = 20000 };
	struct fixture *x = *state;
	struct digest *d = calloc(N, sizeof(*d));
	enum damage_state what;

	for (size_t i = 0; i < N; i++) {
		assert_ok(digest_of(&i, sizeof(i), &d[i], &x->f->e), &x->f->e);
	}
	assert_ok(damage_append_all(x->f->ds, d, N, DAMAGE_MISSING, &x->f->e),
	    &x->f->e);
	for (int i = 0; i < 4; i++) {
		assert_ok(damage_append_all(
			      x->f->ds, d, N / 2, DAMAGE_HEALED, &x->f->e),
		    &x->f->e);
	}
	assert_ok(
	    damage_append_all(x->f->ds, d, 10, DAMAGE_BAD, &x->f->e), &x->f->e);
	read_list(x);
	assert_int_equal(damage_count(x->d), N / 2 + 10);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(
		    damage_contains(x->d, &d[i]), i < 10 || i >= N / 2);
	}
	for (size_t i = 1; i < damage_count(x->d); i++) {
		struct digest before = *damage_at(x->d, i - 1, &what);

		assert_true(
		    digest_compare(&before, damage_at(x->d, i, &what)) < 0);
	}
	free(d);
}

/* One write and an fsync, under a lock of the file. */
static void test_append_calls(void **state)
{
	struct fixture *x = *state;
	const struct digest two[2] = { { .b = { 1 } }, { .b = { 2 } } };

	append(x, 1, DAMAGE_BAD);
	fault_install();
	assert_ok(damage_append_all(x->f->ds, two, 2, DAMAGE_BAD, &x->f->e),
	    &x->f->e);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_WRITE)), 1);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_FSYNC)), 1);
	assert_true(fault_count(FAULT_BIT(FAULT_FLOCK)) > 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_CREATE)), 0);
}

static void test_append_fails(void **state)
{
	struct fixture *x = *state;

	append(x, 1, DAMAGE_BAD);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = 1,
	    .bytes = 30 });
	assert_err(damage_append(x->f->ds, digest(2), DAMAGE_BAD, &x->f->e),
	    &x->f->e, ERR_SYS, LIST);
	assert_int_equal(x->f->e.sys_errno, ENOSPC);
	fault_uninstall();
	append(x, 3, DAMAGE_BAD);
	read_list(x);
	assert_int_equal(damage_count(x->d), 2);
	dsfix_move(x->f, "store/.cairn", "cairn");
	assert_err(damage_append(x->f->ds, digest(2), DAMAGE_BAD, &x->f->e),
	    &x->f->e, ERR_NOTFOUND, LIST);
	read_list(x);
	assert_int_equal(damage_count(x->d), 0);
}

/* The file is replaced between the opening and the lock: the new one gets it.
 */
static void replace_it(void *ctx, struct fault_event *ev)
{
	struct fixture *x = ctx;

	if (ev->call != FAULT_FLOCK || x->d != NULL)
		return;
	read_list(x);
	dsfix_put(x->f, ".cairn/new", "");
	dsfix_move(x->f, "store/.cairn/new", "store/" LIST);
}

static void test_append_replaced(void **state)
{
	struct fixture *x = *state;

	append(x, 1, DAMAGE_BAD);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = replace_it, .ctx = x });
	append(x, 2, DAMAGE_BAD);
	fault_uninstall();
	read_list(x);
	assert_int_equal(damage_count(x->d), 1);
	assert_true(damage_contains(x->d, digest(2)));
}

/* ... or between the opening and the opening for the lock. */
static void replace_it_earlier(void *ctx, struct fault_event *ev)
{
	struct fixture *x = ctx;

	if (ev->call != FAULT_OPENAT || ev->name == NULL ||
	    strcmp(ev->name, "damaged") != 0 || (ev->flags & O_ACCMODE) != 0 ||
	    x->d != NULL)
		return;
	read_list(x);
	dsfix_put(x->f, ".cairn/new", "");
	dsfix_move(x->f, "store/.cairn/new", "store/" LIST);
}

static void test_append_replaced_earlier(void **state)
{
	struct fixture *x = *state;

	append(x, 1, DAMAGE_BAD);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = replace_it_earlier, .ctx = x });
	append(x, 2, DAMAGE_BAD);
	fault_uninstall();
	assert_non_null(x->d);
	read_list(x);
	assert_int_equal(damage_count(x->d), 1);
	assert_true(damage_contains(x->d, digest(2)));
}

/* Two processes that append and one that compacts: no event is lost. */
static void test_together(void **state)
{
	enum { EACH = 60 };
	struct fixture *x = *state;
	pid_t pids[2];
	int status = 0;

	append(x, 255, DAMAGE_BAD);
	for (size_t p = 0; p < 2; p++) {
		pids[p] = fork();
		if (pids[p] != 0)
			continue;
		for (unsigned n = 0; n < EACH; n++) {
			struct err e = ERR_INIT;

			if (damage_append(x->f->ds,
				digest((uint8_t)(p * EACH + n)), DAMAGE_BAD,
				&e) < 0) {
				print_error("%s\n", e.msg);
				_exit(1);
			}
		}
		_exit(0);
	}
	for (int i = 0; i < 20; i++)
		assert_ok(damage_compact(x->f->ds, &x->f->e), &x->f->e);
	for (size_t p = 0; p < 2; p++) {
		assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
		assert_int_equal(status, 0);
	}
	read_list(x);
	assert_int_equal(damage_count(x->d), 2 * EACH + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAMAGE_TEST(test_last_counts),
		DAMAGE_TEST(test_format),
		DAMAGE_TEST(test_torn),
		DAMAGE_TEST(test_refresh),
		DAMAGE_TEST(test_refresh_replaced),
		DAMAGE_TEST(test_refresh_ends),
		DAMAGE_TEST(test_compact),
		DAMAGE_TEST(test_many),
		DAMAGE_TEST(test_append_calls),
		DAMAGE_TEST(test_append_fails),
		DAMAGE_TEST(test_append_replaced),
		DAMAGE_TEST(test_append_replaced_earlier),
		DAMAGE_TEST(test_together),
	};

	return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
