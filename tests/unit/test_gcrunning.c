/* SPDX-License-Identifier: MIT */
#include "datastore/gcrunning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/dsfix.h"
#include "tests/support/fault.h"

#define RUNNING ".cairn/gc.running"

static struct dsfix *open_fixture(void **state)
{
	struct dsfix *f = *state;

	assert_ok(dsfix_open(f, DATASTORE_GC), &f->e);
	return f;
}

static void write_record(struct dsfix *f, const struct gcrunning *g)
{
	int fd = -1;

	assert_ok(gcrunning_open(f->ds, &fd, &f->e), &f->e);
	assert_true(fd >= 0);
	assert_ok(gcrunning_write(f->ds, fd, g, &f->e), &f->e);
	assert_int_equal(close(fd), 0);
}

static bool read_record(struct dsfix *f, struct gcrunning *g)
{
	bool found = true;

	assert_ok(gcrunning_read(f->ds, g, &found, &f->e), &f->e);
	return found;
}

static void comes_back(void **state)
{
	struct dsfix *f = open_fixture(state);
	struct gcrunning g;
	struct gcrunning h;

	/* As init has left it. */
	assert_false(read_record(f, &h));
	gcrunning_init(&g);
	write_record(f, &g);
	assert_true(read_record(f, &h));
	assert_memory_equal(&g, &h, sizeof(g));
	assert_int_equal(h.pid, getpid());
	assert_string_equal(h.state, GCRUNNING_RUNNING);
	g = (struct gcrunning){
		.host = "a\"\\b",
		.machine_id = "0123456789abcdef0123456789abcdef",
		.pid = INT64_MAX,
		.start = 1,
		.state = "refused",
		.phase = "gc: sweep",
		.percent = 100,
		.updated = 2,
		.ended = 4102444800,
		.removed_chunks = INT64_MAX,
		.removed_bytes = INT64_MAX,
		.why = "'a\tb' is broken",
	};
	write_record(f, &g);
	assert_true(read_record(f, &h));
	assert_string_equal(h.why, "'a\\tb' is broken");
	memcpy(h.why, g.why, sizeof(h.why));
	assert_memory_equal(&g, &h, sizeof(g));
}

/* The longest of everything has room. */
static void has_room(void **state)
{
	struct dsfix *f = open_fixture(state);
	struct gcrunning g;
	struct gcrunning h;

	gcrunning_init(&g);
	memset(g.why, '\001', sizeof(g.why) - 1);
	memset(g.host, '"', sizeof(g.host) - 1);
	memset(g.phase, '\\', sizeof(g.phase) - 1);
	g.removed_bytes = INT64_MAX;
	g.removed_chunks = INT64_MAX;
	write_record(f, &g);
	assert_true(read_record(f, &h));
	assert_string_equal(g.host, h.host);
	assert_string_equal(g.phase, h.phase);
	assert_memory_equal(h.why, "\\x01\\x01", 8);
}

/* Written in place (I11): nothing is made, and the file keeps its size. */
static void is_written_in_place(void **state)
{
	struct dsfix *f = open_fixture(state);
	struct gcrunning g;
	struct stat before;
	struct stat after;
	char *text = NULL;
	int fd = -1;

	assert_int_equal(fstatat(f->ds->root_fd, RUNNING, &before, 0), 0);
	assert_int_equal(before.st_size, GCRUNNING_BYTES);
	gcrunning_init(&g);
	memset(g.why, 'w', 300);
	write_record(f, &g);
	g.why[0] = '\0';
	fault_install();
	write_record(f, &g);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_CREATE)), 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_FTRUNCATE)), 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_PWRITE)), 1);
	fault_uninstall();
	assert_int_equal(fstatat(f->ds->root_fd, RUNNING, &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_int_equal(after.st_size, GCRUNNING_BYTES);
	text = tmpdir_get(f->dir.fd, "store/" RUNNING, NULL);
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_null(strstr(text, "ww"));
	free(text);
	/* Where it is not, it is not made. */
	dsfix_unlink(f, RUNNING);
	assert_ok(gcrunning_open(f->ds, &fd, &f->e), &f->e);
	assert_int_equal(fd, -1);
	assert_false(read_record(f, &g));
	assert_false(dsfix_has(f, RUNNING));
}

static void what_is_no_record_is_none(void **state)
{
	static const char *const odd[] = { "", " ", "{", "[]", "{\"host\":1}",
		"{\"host\":\"h\",\"pid\":\"x\"}",
		"{\"host\":\"h\",\"pid\":1,\"start\":\"s\"}",
		"{\"host\":\"h\",\"pid\":1,\"percent\":\"s\"}" };
	struct dsfix *f = open_fixture(state);
	struct gcrunning g;

	for (size_t i = 0; i < TEST_COUNT(odd); i++) {
		dsfix_put(f, RUNNING, odd[i]);
		assert_false(read_record(f, &g));
	}
	/* An older version wrote no more than this. */
	dsfix_put(f, RUNNING,
	    "{\"host\":\"h\",\"machine-id\":\"m\",\"pid\":7,"
	    "\"start\":\"2026-11-30T12:00:00Z\"}\n");
	assert_true(read_record(f, &g));
	assert_string_equal(g.state, GCRUNNING_RUNNING);
	assert_int_equal(g.pid, 7);
	/* A newer one may know more. */
	dsfix_put(f, RUNNING,
	    "{\"host\":\"h\",\"pid\":7,\"state\":\"a-word-that-is-too-long\","
	    "\"percent\":1000,\"new\":[1]}\n");
	assert_true(read_record(f, &g));
	assert_int_equal(g.percent, 100);
	assert_string_equal(g.state, "a-word-that-is-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DSFIX_TEST(comes_back),
		DSFIX_TEST(has_room),
		DSFIX_TEST(is_written_in_place),
		DSFIX_TEST(what_is_no_record_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
