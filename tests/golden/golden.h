/* SPDX-License-Identifier: MIT */
/*
 * golden: the ready-made datastores of this directory, unpacked, and what
 * their descriptions say of them.
 *
 * Programs that use this get CAIRN_GOLDEN_DIR from the build.  What a test
 * checks of each snapshot it does in a function for golden_each_snapshot.
 */
#ifndef CAIRN_TESTS_GOLDEN_GOLDEN_H
#define CAIRN_TESTS_GOLDEN_GOLDEN_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/backupid.h"
#include "datastore/base/json.h"
#include "datastore/datastore.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define GOLDEN_NAME_SIZE 512
#define GOLDEN_PATH_SIZE (PATH_MAX + GOLDEN_NAME_SIZE + 8)

struct golden {
	struct tmpdir dir;
	struct js *json; /* pbs-store.json; NULL for pbs-bad */
	struct datastore *ds;
	struct err e;
};

static inline int golden_unpack(void **state, const char *tar)
{
	struct golden *g = calloc(1, sizeof(*g));
	char path[GOLDEN_PATH_SIZE];

	if (g == NULL)
		return -1;
	*state = g;
	tmpdir_make(&g->dir);
	(void)snprintf(path, sizeof(path), "%s/%s", CAIRN_GOLDEN_DIR, tar);
	fixture_unpack(path, g->dir.path);
	return 0;
}

/* Open the store of this name below the scratch directory as g->ds. */
static inline int golden_open(
    struct golden *g, const char *name, enum datastore_access access)
{
	char path[GOLDEN_PATH_SIZE];

	datastore_close(g->ds);
	g->ds = NULL;
	g->e = (struct err)ERR_INIT;
	(void)snprintf(path, sizeof(path), "%s/%s", g->dir.path, name);
	return datastore_open(path, access, NULL, &g->ds, &g->e);
}

/* pbs-store, not yet opened, with its description. */
static inline int golden_setup(void **state)
{
	struct golden *g = NULL;
	char *text = NULL;
	size_t n = 0;
	int rc = golden_unpack(state, "pbs-store.tar.gz");

	if (rc < 0)
		return rc;
	g = *state;
	text = tmpdir_get(g->dir.fd, "pbs-store.json", &n);
	if (text == NULL)
		return -1;
	rc = js_parse(text, n, &g->json, &g->e);
	free(text);
	return rc;
}

/* pbs-bad: a store in each directory of "pbs-bad". */
static inline int golden_bad_setup(void **state)
{
	return golden_unpack(state, "pbs-bad.tar.gz");
}

static inline int golden_teardown(void **state)
{
	struct golden *g = *state;

	datastore_close(g->ds);
	js_free(g->json);
	tmpdir_remove(&g->dir);
	free(g);
	return 0;
}

/* Values of the description, which must be there. */
static inline const char *golden_str(const struct js *v, const char *key)
{
	const char *s = NULL;
	struct err e = ERR_INIT;

	assert_ok(js_get_str(v, key, &s, NULL, &e), &e);
	return s;
}

static inline uint64_t golden_u64(const struct js *v, const char *key)
{
	uint64_t n = 0;
	struct err e = ERR_INIT;

	assert_ok(js_get_u64(v, key, &n, NULL, &e), &e);
	return n;
}

/* true or false: all that is neither a string nor a number nor a list. */
static inline bool golden_bool(const struct js *v, const char *key)
{
	struct js *b = NULL;
	struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	bool value = false;

	assert_ok(js_get(v, key, &b, NULL, &e), &e);
	assert_ok(js_dump(b, JS_COMPACT, &text, &e), &e);
	value = text.len == 4 && memcmp(text.data, "true", 4) == 0;
	assert_true(
	    value || (text.len == 5 && memcmp(text.data, "false", 5) == 0));
	buf_release(&text);
	return value;
}

static inline struct js *golden_list(
    const struct js *v, const char *key, size_t *ret_n)
{
	struct js *list = NULL;
	struct err e = ERR_INIT;

	assert_ok(js_get_array(v, key, &list, ret_n, NULL, &e), &e);
	return list;
}

/* The snapshot that an entry of "snapshots" describes. */
static inline struct backup_snapshot golden_snapshot(const struct js *v)
{
	struct backup_ns ns;
	struct backup_snapshot s;
	struct err e = ERR_INIT;
	char text[BACKUP_PATH_SIZE];

	(void)snprintf(text, sizeof(text), "%s/%s/%s", golden_str(v, "type"),
	    golden_str(v, "id"), golden_str(v, "time"));
	assert_ok(backup_ns_parse(golden_str(v, "ns"), &ns, &e), &e);
	assert_ok(backup_snapshot_parse(&ns, text, &s, &e), &e);
	return s;
}

/* fn for each entry of "snapshots"; returns how many there are. */
static inline size_t golden_each_snapshot(struct golden *g,
    void (*fn)(struct golden *g, const struct backup_snapshot *s,
	const struct js *described))
{
	size_t n = 0;
	struct js *list = golden_list(g->json, "snapshots", &n);

	for (size_t i = 0; i < n; i++) {
		struct js *v = js_at(list, i);
		struct backup_snapshot s = golden_snapshot(v);

		fn(g, &s, v);
	}
	return n;
}

/*
 * fn for each line of EXPECT.tsv: a store's name, the path of what is wrong,
 * and what that is.  Returns how many there are.
 */
static inline size_t golden_each_bad(struct golden *g,
    void (*fn)(struct golden *g, const char *store, const char *path,
	const char *what))
{
	char *text = tmpdir_get(g->dir.fd, "pbs-bad/EXPECT.tsv", NULL);
	size_t n = 0;

	assert_non_null(text);
	for (char *line = text; *line != '\0'; n++) {
		char *end = strchr(line, '\n');
		char *path = strchr(line, '\t');
		char *what = path == NULL ? NULL : strchr(path + 1, '\t');

		if (end == NULL || path == NULL || what == NULL)
			abort();
		*end = '\0';
		*path++ = '\0';
		*what++ = '\0';
		fn(g, line, path, what);
		line = end + 1;
	}
	free(text);
	return n;
}

#define GOLDEN_TEST(f) \
	cmocka_unit_test_setup_teardown(f, golden_setup, golden_teardown)
#define GOLDEN_BAD_TEST(f) \
	cmocka_unit_test_setup_teardown(f, golden_bad_setup, golden_teardown)

#endif
