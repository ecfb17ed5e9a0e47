/* SPDX-License-Identifier: MIT */
/* What others registered: listing and burying. */
#include <errno.h>
#include <stdio.h>

#include "tests/support/regfix.h"

static void test_damaged(void **state)
{
	static const char *const texts[] = { "", "{", "{}", "[]",
		"{\"host\":\"h\",\"machine-id\":\"m\",\"boot-id\":\"b\","
		"\"pid\":1,\"command\":\"c\",\"group\":\"g\","
		"\"snapshot\":\"\",\"start\":\"1700000000000000000\"}",
		"{\"host\":\"h\",\"machine-id\":\"m\",\"boot-id\":\"b\","
		"\"pid\":1,\"command\":\"c\",\"group\":\"g\","
		"\"snapshot\":\"\",\"start\":\"0170000000000000000x\"}",
		"{\"host\":\"h\",\"machine-id\":\"m\",\"boot-id\":\"b\","
		"\"pid\":1,\"command\":\"c\",\"group\":\"g\","
		"\"snapshot\":\"\",\"start\":\"99999999999999999999\"}" };
	struct regfix *x = *state;
	char text[REGISTRATION_TEXT_SIZE];

	for (size_t i = 0; i < TEST_COUNT(texts); i++) {
		const struct registration_info *info = NULL;

		dsfix_put(x->f, SESSIONS UUID1, texts[i]);
		info = regfix_only(x);
		assert_true(info->damaged);
		assert_true(info->live);
		assert_true(info->start == INT64_MIN);
		assert_string_equal(info->group, "");
		assert_non_null(strstr(registration_text(info, text), UUID1));
	}
}

static void test_other_names(void **state)
{
	struct regfix *x = *state;

	dsfix_put(x->f, SESSIONS "note", "x");
	dsfix_put(x->f, SESSIONS "." UUID1 ".tmp", "x");
	dsfix_put(x->f, SESSIONS "11111111-2222-4333-8444-55555555555G", "x");
	dsfix_mkdir(x->f, SESSIONS UUID1);
	assert_int_equal(regfix_list(x), 0);
	dsfix_rmdir(x->f, SESSIONS UUID1);
	dsfix_symlink(x->f, "note", SESSIONS UUID1);
	assert_int_equal(regfix_list(x), 0);
	dsfix_move(x->f, "store/.cairn", "cairn");
	assert_int_equal(regfix_list(x), 0);
	assert_err(
	    registration_new(x->f->ds, "push", &x->id.group, &x->r, &x->f->e),
	    &x->f->e, ERR_NOTFOUND, ".cairn/sessions' does not exist");
	x->r = NULL;
}

/* A list that can not be read whole is none: GC would take all for dead. */
static void test_list_errors(void **state)
{
	struct regfix *x = *state;

	regfix_make(x);
	for (uint64_t n = 1;; n++) {
		struct registration_list l = { .n = 0 };
		int rc = 0;

		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY &
			~FAULT_BIT(FAULT_CLOSE) & ~FAULT_BIT(FAULT_CLOSEDIR),
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EACCES });
		rc = registration_list(x->f->ds, &l, &x->f->e);
		if (rc == 0) {
			assert_int_equal(l.n, 1);
			assert_true(l.items[0].live);
		}
		registration_list_release(&l);
		if (fault_hits() == 0)
			break;
		/* The machine's id alone has something to fall back to. */
		if (rc < 0)
			assert_int_equal(x->f->e.sys_errno, EACCES);
		fault_uninstall();
	}
}

struct grave {
	unsigned calls;
	int rc;
	struct regfix *x;
	char snapshot[BACKUP_PATH_SIZE];
};

static int look_into(
    void *ctx, const struct registration_info *info, struct err *e)
{
	struct grave *g = ctx;

	g->calls++;
	(void)snprintf(g->snapshot, sizeof(g->snapshot), "%s", info->snapshot);
	/* It is locked while it is buried: nobody else buries it, too. */
	assert_true(regfix_only(g->x)->live);
	if (g->rc < 0)
		return err_set(e, g->rc, "not now");
	return 0;
}

static void test_bury(void **state)
{
	struct regfix *x = *state;
	struct grave g = { .x = x };
	char uuid[DATASTORE_ID_SIZE];
	bool done = true;

	regfix_make(x);
	assert_ok(registration_set_snapshot(x->r, &x->id, &x->f->e), &x->f->e);
	(void)snprintf(uuid, sizeof(uuid), "%s", regfix_only(x)->uuid);
	assert_ok(
	    registration_bury(x->f->ds, uuid, look_into, &g, &done, &x->f->e),
	    &x->f->e);
	assert_false(done);
	assert_int_equal(g.calls, 0);
	registration_abandon(x->r);
	x->r = NULL;
	assert_false(regfix_only(x)->live);
	g.rc = ERR_BUSY;
	assert_err(
	    registration_bury(x->f->ds, uuid, look_into, &g, &done, &x->f->e),
	    &x->f->e, ERR_BUSY, "not now");
	assert_int_equal(g.calls, 1);
	assert_string_equal(
	    g.snapshot, "ns/prod/ns/db/vm/100/2027-01-15T08:00:00Z");
	g.rc = 0;
	assert_ok(
	    registration_bury(x->f->ds, uuid, look_into, &g, &done, &x->f->e),
	    &x->f->e);
	assert_true(done);
	assert_int_equal(regfix_list(x), 0);
	assert_ok(
	    registration_bury(x->f->ds, uuid, look_into, &g, &done, &x->f->e),
	    &x->f->e);
	assert_false(done);
	assert_int_equal(g.calls, 2);
	registration_free(NULL);
	registration_abandon(NULL);
}

/*
 * The name leads to another one by the time that the dead one is locked: it
 * may be a session that lives.
 */
struct change {
	struct regfix *x;
	const char *uuid;
};

static void replace_it(void *ctx, struct fault_event *ev)
{
	struct change *c = ctx;
	char path[PATH_MAX];

	if (ev->call != FAULT_OFD_LOCK || ev->flags != F_OFD_SETLK ||
	    c->uuid == NULL)
		return;
	(void)snprintf(path, sizeof(path), "store/" SESSIONS "%s", c->uuid);
	c->uuid = NULL;
	dsfix_put(c->x->f, SESSIONS "other", "{}");
	dsfix_move(c->x->f, "store/" SESSIONS "other", path);
}

static void test_bury_another(void **state)
{
	struct regfix *x = *state;
	struct change c = { .x = x };
	char uuid[DATASTORE_ID_SIZE];
	char path[PATH_MAX];
	bool done = true;

	regfix_make(x);
	(void)snprintf(uuid, sizeof(uuid), "%s", regfix_only(x)->uuid);
	registration_abandon(x->r);
	x->r = NULL;
	c.uuid = uuid;
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = replace_it, .ctx = &c });
	assert_ok(
	    registration_bury(x->f->ds, uuid, NULL, NULL, &done, &x->f->e),
	    &x->f->e);
	fault_uninstall();
	assert_null(c.uuid);
	assert_false(done);
	(void)snprintf(path, sizeof(path), SESSIONS "%s", uuid);
	assert_true(dsfix_has(x->f, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REG_TEST(test_damaged),
		REG_TEST(test_other_names),
		REG_TEST(test_list_errors),
		REG_TEST(test_bury),
		REG_TEST(test_bury_another),
	};

	return cmocka_run_group_tests_name(
	    "registration_list", tests, NULL, NULL);
}
