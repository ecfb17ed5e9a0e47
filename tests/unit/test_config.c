/* SPDX-License-Identifier: MIT */
#include "datastore/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define PATH_SIZE (PATH_MAX + 64)

struct fixture {
	struct tmpdir dir;
	char path[PATH_SIZE];
	struct config config;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/c", f->dir.path);
	f->config = (struct config)CONFIG_INIT;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	config_release(&f->config);
	tmpdir_remove(&f->dir);
	free(f);
	return 0;
}

static int read_text(struct fixture *f, const char *text)
{
	tmpdir_put_str(f->dir.fd, "c", text);
	config_release(&f->config);
	f->e = (struct err)ERR_INIT;
	return config_read(f->path, &f->config, &f->e);
}

static void test_defaults(void **state)
{
	struct fixture *f = *state;
	const struct settings *s = NULL;

	assert_ok(read_text(f, "\n[datastore \"a\"]\npath = /x\n"), &f->e);
	assert_int_equal(f->config.stores_n, 1);
	assert_string_equal(f->config.stores[0].name, "a");
	assert_string_equal(f->config.stores[0].path, "/x");
	assert_int_equal(f->config.stores[0].line, 2);
	s = &f->config.stores[0].settings;
	assert_int_equal(s->gc_touch_batch, 1048576);
	assert_int_equal(s->gc_cutoff_s, 86700);
	assert_int_equal(s->sync_level, SYNC_FILESYSTEM);
	assert_int_equal(s->compression, 3);
	assert_int_equal(s->min_free.percent_x100, 500);
	assert_int_equal(s->min_free.bytes, 0);
	assert_string_equal(s->owner, "root@pam");
	assert_string_equal(s->time_zone, "UTC");
	assert_false(retention_is_given(&s->retention));
	assert_ok(read_text(f, ""), &f->e);
	assert_int_equal(f->config.stores_n, 0);
}

static void test_everything(void **state)
{
	struct fixture *f = *state;
	const struct settings *s = NULL;

	assert_ok(read_text(f,
		      "[datastore \"a\"]\n"
		      "path = //srv/./backup//x/ ; where\n"
		      "gc-touch-batch = off\n"
		      "gc-cutoff = 1d\n"
		      "sync-level = file\n"
		      "compression = 19\n"
		      "owner = backup@pbs!client-1\n"
		      "min-free = 10G\n"
		      "keep-daily = 14\n"
		      "keep-within = 2d\n"
		      "keep-yearly = 0\n"
		      "[datastore \"b\"]\n"
		      "time-zone = UTC\n"
		      "path = /\n"
		      "gc-touch-batch = 16777216\n"
		      "sync-level = none\n"),
	    &f->e);
	assert_int_equal(f->config.stores_n, 2);
	s = &f->config.stores[0].settings;
	assert_string_equal(f->config.stores[0].path, "/srv/backup/x");
	assert_int_equal(s->gc_touch_batch, GC_TOUCH_BATCH_OFF);
	assert_int_equal(s->gc_cutoff_s, 86400);
	assert_int_equal(s->sync_level, SYNC_FILE);
	assert_int_equal(s->compression, 19);
	assert_string_equal(s->owner, "backup@pbs!client-1");
	assert_int_equal(s->min_free.bytes, 10ULL << 30);
	assert_int_equal(s->min_free.percent_x100, 0);
	assert_int_equal(s->retention.value[RETENTION_DAILY], 14);
	assert_int_equal(s->retention.value[RETENTION_WITHIN], 172800);
	assert_true(s->retention.given[RETENTION_YEARLY]);
	assert_false(s->retention.given[RETENTION_LAST]);
	s = &f->config.stores[1].settings;
	assert_string_equal(f->config.stores[1].path, "/");
	assert_int_equal(f->config.stores[1].line, 12);
	assert_false(retention_is_given(&s->retention));
	assert_int_equal(s->gc_touch_batch, 16777216);
	assert_int_equal(s->sync_level, SYNC_NONE);
	/* Nothing of the section before. */
	assert_int_equal(s->gc_cutoff_s, GC_CUTOFF_DEFAULT_S);
	assert_int_equal(s->compression, 3);
}

#define A "[datastore \"a\"]\n"
#define AP A "path = /a\n"

/* Whole messages, behind the path of the file. */
static void test_bad(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} rows[] = {
		{ "[service]\n",
		    ":1: section 'service' is not supported by this version" },
		{ "\n[gc]\n",
		    ":2: unknown section 'gc', want 'datastore \"NAME\"'" },
		{ "[datastore]\n",
		    ":1: section 'datastore' has no name, want "
		    "'datastore \"NAME\"'" },
		{ "[datastore \"a/b\"]\n",
		    ":1: 'a/b' is no name of a datastore, want at most 64 "
		    "letters, digits and ._- beginning with a letter, a digit "
		    "or _" },
		{ AP AP, ":3: section 'datastore \"a\"' is already at line 1" },
		{ AP "path = /b\n", ":3: key 'path' is already at line 2" },
		{ "\n" A, ":2: section 'datastore \"a\"' has no key 'path'" },
		{ A "[datastore \"b\"]\npath = /b\n",
		    ":1: section 'datastore \"a\"' has no key 'path'" },
		{ AP "\n[datastore \"b\"]\npath = //a/.\n",
		    ":4: section 'datastore \"b\"' has the path of section "
		    "'datastore \"a\"' at line 1" },
		{ A "path = a\n", ":2: key 'path': 'a' is no absolute path" },
		{ A "path =\n", ":2: key 'path': '' is no absolute path" },
		{ AP "gc-schedule = daily\n",
		    ":3: key 'gc-schedule' is not supported by this version" },
		{ AP "keep-daily = -1\n",
		    ":3: key 'keep-daily': '-1' is no whole number between 0 "
		    "and 4294967295" },
		{ AP "keep-weekly = 3d\n",
		    ":3: key 'keep-weekly': '3d' is no whole number between 0 "
		    "and 4294967295" },
		{ AP "keep-within = 3y\n",
		    ":3: key 'keep-within': '3y' is no duration, want seconds "
		    "or a sum like 1w2d3h4m5s" },
		{ AP "keep-week = 1\n",
		    ":3: unknown key 'keep-week', did you mean 'keep-weekly'?" },
		{ AP "keep-last = 1\nkeep-last = 2\n",
		    ":4: key 'keep-last' is already at line 3" },
		{ AP "time-zone = CET/\n",
		    ":3: key 'time-zone': 'CET/' is no time zone, want a name "
		    "like 'Europe/Berlin' or 'UTC'" },
		{ AP "time-zone = Europe/Atlantis\n",
		    ":3: key 'time-zone': time zone 'Europe/Atlantis': there "
		    "is no '/usr/share/zoneinfo/Europe/Atlantis'; want a name "
		    "as below '/usr/share/zoneinfo', which the package tzdata "
		    "fills, or UTC" },
		{ AP "time-zone = localtime\n",
		    ":3: key 'time-zone': 'localtime' is whatever zone a "
		    "machine is in, want a name like 'Europe/Berlin' or "
		    "'UTC'" },
		{ AP "verify-outdated = 30d\n",
		    ":3: key 'verify-outdated' is not supported by this "
		    "version" },
		{ AP "index-dir = x\n",
		    ":3: key 'index-dir': 'x': want a path that begins with "
		    "'/', of at most 1023 bytes" },
		{ AP "compresion = 3\n",
		    ":3: unknown key 'compresion', did you mean "
		    "'compression'?" },
		{ AP "gc_touch_batch = 3\n",
		    ":3: unknown key 'gc_touch_batch', did you mean "
		    "'gc-touch-batch'?" },
		{ AP "Path = 3\n",
		    ":3: unknown key 'Path', did you mean 'path'?" },
		{ AP "colour = 3\n",
		    ":3: unknown key 'colour'; cairn.conf(5) lists them" },
		{ AP "zz = 3\n",
		    ":3: unknown key 'zz'; cairn.conf(5) lists them" },
		{ AP "gc-touch-batch = 1023\n",
		    ":3: key 'gc-touch-batch': '1023' is no batch, want 'off' "
		    "or a number between 1024 and 16777216" },
		{ AP "gc-touch-batch = 16777217\n",
		    ":3: key 'gc-touch-batch': '16777217' is no batch, want "
		    "'off' or a number between 1024 and 16777216" },
		{ AP "compression = 0\n",
		    ":3: key 'compression': '0' is no whole number between 1 "
		    "and 19" },
		{ AP "compression = 20\n",
		    ":3: key 'compression': '20' is no whole number between 1 "
		    "and 19" },
		{ AP "sync-level = all\n",
		    ":3: key 'sync-level': 'all' is no sync level, want none, "
		    "filesystem or file" },
		{ AP "gc-cutoff = 24x\n",
		    ":3: key 'gc-cutoff': '24x' is no duration, want seconds "
		    "or a sum like 1w2d3h4m5s" },
		{ AP "gc-cutoff = 3651d\n",
		    ":3: key 'gc-cutoff': '3651d' is more than 3650d" },
		{ AP "min-free = 5 %\n",
		    ":3: key 'min-free': '5 %' is no free space, want a share "
		    "like '5%', a size like '10G', or 0" },
		{ AP "owner = root\n",
		    ":3: key 'owner': 'root' is no owner, want USER@REALM or "
		    "USER@REALM!TOKEN of at most 127 characters" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		char want[PATH_SIZE + 256];
		int rc = read_text(f, rows[i].text);

		(void)snprintf(
		    want, sizeof(want), "%s%s", f->path, rows[i].message);
		assert_err(rc, &f->e, ERR_INVALID, "");
		assert_string_equal(f->e.msg, want);
		assert_int_equal(f->config.stores_n, 0);
	}
}

static void test_absent(void **state)
{
	struct fixture *f = *state;

	assert_err(config_read(f->path, &f->config, &f->e), &f->e, ERR_NOTFOUND,
	    "does not exist");
}

static void test_min_free(void **state)
{
	static const struct {
		const char *text;
		int good;
		uint64_t bytes;
		unsigned percent_x100;
	} rows[] = {
		{ "0", 1, 0, 0 },
		{ "5%", 1, 0, 500 },
		{ "0%", 1, 0, 0 },
		{ "100%", 1, 0, 10000 },
		{ "2.5%", 1, 0, 250 },
		{ "0.05%", 1, 0, 5 },
		{ "1024", 1, 1024, 0 },
		{ "3M", 1, 3 << 20, 0 },
		{ "", 0, 0, 0 },
		{ "%", 0, 0, 0 },
		{ ".5%", 0, 0, 0 },
		{ "5.%", 0, 0, 0 },
		{ "5.125%", 0, 0, 0 },
		{ "100.01%", 0, 0, 0 },
		{ "1000%", 0, 0, 0 },
		{ "-5%", 0, 0, 0 },
		{ "5%%", 0, 0, 0 },
		{ "5%x", 0, 0, 0 },
		{ "five", 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct min_free v = { .bytes = 77, .percent_x100 = 77 };
		struct err e = ERR_INIT;
		int rc = settings_parse_min_free(rows[i].text, &v, &e);

		if (!rows[i].good) {
			assert_err(rc, &e, ERR_INVALID, "is no free space");
			assert_int_equal(v.bytes, 77);
			continue;
		}
		assert_ok(rc, &e);
		assert_int_equal(v.bytes, rows[i].bytes);
		assert_int_equal(v.percent_x100, rows[i].percent_x100);
	}
}

static void test_owner(void **state)
{
	static const struct {
		const char *text;
		int good;
	} rows[] = {
		{ "root@pam", 1 },
		{ "a.b+c@x-y", 1 },
		{ "a@b@pam", 1 },
		{ "root@pam!t", 1 },
		{ "@pam", 0 },
		{ "root@", 0 },
		{ "root@pam!", 0 },
		{ "root@pam!a!b", 0 },
		{ "root@!t", 0 },
		{ "ro ot@pam", 0 },
		{ "ro:ot@pam", 0 },
		{ "ro/ot@pam", 0 },
		{ "root@p am", 0 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		char text[128];
		int rc = 0;

		(void)snprintf(
		    text, sizeof(text), AP "owner = %s\n", rows[i].text);
		rc = read_text(f, text);
		if (rows[i].good) {
			assert_ok(rc, &f->e);
			assert_string_equal(
			    f->config.stores[0].settings.owner, rows[i].text);
		} else {
			assert_err(rc, &f->e, ERR_INVALID, "is no owner");
		}
	}
}

static void test_owner_length(void **state)
{
	struct fixture *f = *state;
	char text[256];
	char user[200];

	memset(user, 'u', sizeof(user));
	(void)snprintf(text, sizeof(text), AP "owner = %.*s@pam\n", 123, user);
	assert_ok(read_text(f, text), &f->e);
	assert_int_equal(strlen(f->config.stores[0].settings.owner), 127);
	(void)snprintf(text, sizeof(text), AP "owner = %.*s@pam\n", 124, user);
	assert_err(
	    read_text(f, text), &f->e, ERR_INVALID, "at most 127 characters");
}

static void test_find(void **state)
{
	struct fixture *f = *state;
	const struct config_datastore *found = NULL;
	char text[3 * PATH_SIZE];
	char path[PATH_SIZE];

	(void)snprintf(text, sizeof(text),
	    "[datastore \"one\"]\npath = %s/missing\n"
	    "[datastore \"two\"]\npath = %s/real\n",
	    f->dir.path, f->dir.path);
	assert_ok(read_text(f, text), &f->e);
	assert_int_equal(mkdirat(f->dir.fd, "real", 0755), 0);
	assert_int_equal(mkdirat(f->dir.fd, "other", 0755), 0);
	assert_int_equal(symlinkat("real", f->dir.fd, "link"), 0);
	found = config_find_name(&f->config, "one");
	assert_ptr_equal(found, &f->config.stores[0]);
	assert_null(config_find_name(&f->config, "three"));
	/* What counts is where a path leads, not how it is written. */
	(void)snprintf(path, sizeof(path), "%s/other/../link", f->dir.path);
	found = config_find_path(&f->config, path);
	assert_ptr_equal(found, &f->config.stores[1]);
	(void)snprintf(path, sizeof(path), "%s/other", f->dir.path);
	assert_null(config_find_path(&f->config, path));
	(void)snprintf(path, sizeof(path), "%s/missing", f->dir.path);
	assert_null(config_find_path(&f->config, path));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),
		TEST(test_everything),
		TEST(test_bad),
		TEST(test_absent),
		cmocka_unit_test(test_min_free),
		TEST(test_owner),
		TEST(test_owner_length),
		TEST(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
