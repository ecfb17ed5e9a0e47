/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/base/log.h"
#include "tests/support/fault.h"

/* What is written to stderr, instead of writing it. */
struct capture {
	char text[20000];
	size_t len;
	unsigned writes;
	int error;
};

static void capture_write(void *ctx, struct fault_event *ev)
{
	struct capture *c = ctx;

	if (ev->call != FAULT_WRITE)
		return;
	assert_int_equal(ev->fd, STDERR_FILENO);
	ev->skip = true;
	ev->result = c->error == 0 ? (int64_t)ev->n : -1;
	ev->error = c->error;
	c->writes++;
	if (c->error != 0 || ev->n >= sizeof(c->text) - c->len)
		return;
	memcpy(c->text + c->len, ev->in, ev->n);
	c->len += ev->n;
}

static int setup(void **state)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -1;
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = capture_write, .ctx = c });
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	fault_uninstall();
	log_set_level(LOG_LEVEL_INFO);
	log_set_color(false);
	free(*state);
	return 0;
}

/* The head only: what is quoted can not bring colours of its own. */
static void colors_the_head(void **state)
{
	struct capture *c = *state;

	log_set_color(true);
	log_line(LOG_LEVEL_ERROR, "'a\033[1mb' is gone");
	log_line(LOG_LEVEL_WARNING, "odd");
	log_line(LOG_LEVEL_INFO, "plain");
	assert_string_equal(c->text,
	    "\033[1;31mcairn:\033[0m 'a?[1mb' is gone\n"
	    "cairn: \033[33mwarning:\033[0m odd\n"
	    "cairn: plain\n");
}

static void writes_a_line_at_once(void **state)
{
	struct capture *c = *state;

	log_line(LOG_LEVEL_INFO, "hello %d", 5);
	assert_string_equal(c->text, "cairn: hello 5\n");
	assert_int_equal(c->writes, 1);
	log_line(LOG_LEVEL_WARNING, "old");
	log_line(LOG_LEVEL_ERROR, "gone");
	assert_string_equal(
	    c->text, "cairn: hello 5\ncairn: warning: old\ncairn: gone\n");
	assert_int_equal(c->writes, 3);
}

static void level_decides(void **state)
{
	static const char *const want[] = {
		[LOG_LEVEL_ERROR] = "cairn: e\n",
		[LOG_LEVEL_WARNING] = "cairn: e\ncairn: warning: w\n",
		[LOG_LEVEL_INFO] = "cairn: e\ncairn: warning: w\ncairn: i\n",
		[LOG_LEVEL_DEBUG] =
		    "cairn: e\ncairn: warning: w\ncairn: i\ncairn: d\n",
	};
	struct capture *c = *state;

	for (int level = LOG_LEVEL_DEBUG; level >= LOG_LEVEL_ERROR; level--) {
		memset(c, 0, sizeof(*c));
		log_set_level((enum log_level)level);
		log_line(LOG_LEVEL_ERROR, "e");
		log_line(LOG_LEVEL_WARNING, "w");
		log_line(LOG_LEVEL_INFO, "i");
		log_line(LOG_LEVEL_DEBUG, "d");
		assert_string_equal(c->text, want[level]);
	}
}

static void stays_one_line(void **state)
{
	struct capture *c = *state;

	log_line(LOG_LEVEL_INFO, "%s", "a\nb\rc\td\033[0me\177");
	assert_string_equal(c->text, "cairn: a b c d?[0me?\n");
}

/* Sound UTF-8 stays; what is none, or a control character of it, does not. */
static void bytes_drive_no_terminal(void **state)
{
	struct capture *c = *state;

	log_line(LOG_LEVEL_INFO, "%s",
	    "Gr\xc3\xb6\xc3\x9f"
	    "e \xe2\x82\xac \xf0\x9f\x8c\x8d");
	assert_string_equal(c->text,
	    "cairn: Gr\xc3\xb6\xc3\x9f"
	    "e \xe2\x82\xac "
	    "\xf0\x9f\x8c\x8d\n");
	memset(c, 0, sizeof(*c));
	log_line(LOG_LEVEL_INFO, "%s",
	    "\xff \xc2\x9b"
	    "31m \xc2\xa0 \x9b \xe2\x82 \xc0\x80 \xc3");
	assert_string_equal(c->text, "cairn: ? ??31m \xc2\xa0 ? ?? ?? ?\n");
}

static void cuts_what_is_too_long(void **state)
{
	struct capture *c = *state;
	char text[12000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_line(LOG_LEVEL_INFO, "%s", text);
	assert_int_equal(c->writes, 1);
	assert_true(c->len > 8192);
	assert_true(c->len < sizeof(text));
	assert_memory_equal(c->text, "cairn: xxx", 10);
	assert_string_equal(c->text + c->len - 5, "x...\n");
	/* Around the limit: a line is whole or it says that it is cut. */
	for (size_t n = c->len - 20; n < c->len + 3; n++) {
		size_t whole = strlen("cairn: ") + n + 1;

		memset(c, 0, sizeof(*c));
		log_line(LOG_LEVEL_INFO, "%.*s", (int)n, text);
		assert_int_equal(c->text[c->len - 1], '\n');
		if (c->len != whole) {
			assert_string_equal(c->text + c->len - 5, "x...\n");
		} else {
			assert_int_equal(c->text[c->len - 2], 'x');
		}
	}
}

static void survives_a_dead_stderr(void **state)
{
	struct capture *c = *state;

	c->error = EPIPE;
	log_line(LOG_LEVEL_ERROR, "nobody listens");
	assert_int_equal(c->writes, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_a_line_at_once),
		TEST(colors_the_head),
		TEST(level_decides),
		TEST(stays_one_line),
		TEST(bytes_drive_no_terminal),
		TEST(cuts_what_is_too_long),
		TEST(survives_a_dead_stderr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
