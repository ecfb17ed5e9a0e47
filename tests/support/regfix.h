/* SPDX-License-Identifier: MIT */
/*
 * regfix: sessionfix, and a registration of a session to come.
 */
#ifndef CAIRN_TESTS_SUPPORT_REGFIX_H
#define CAIRN_TESTS_SUPPORT_REGFIX_H

#include "datastore/registration.h"
#include "tests/support/sessionfix.h"

#define SESSIONS ".cairn/sessions/"
#define UUID1 "11111111-2222-4333-8444-555555555555"

struct regfix {
	struct dsfix *f;
	struct registration *r;
	struct registration_list list;
	struct backup_snapshot id;
};

static inline int regfix_setup(void **state)
{
	struct regfix *x = calloc(1, sizeof(*x));
	void *one = NULL;

	*state = x;
	if (x == NULL || sessionfix_setup(&one) < 0)
		return -1;
	x->f = one;
	return backup_snapshot_parse(&(struct backup_ns){ .name = "prod/db" },
	    "vm/100/2027-01-15T08:00:00Z", &x->id, &x->f->e);
}

static inline int regfix_teardown(void **state)
{
	struct regfix *x = *state;
	void *one = x->f;

	fault_uninstall();
	registration_free(x->r);
	registration_list_release(&x->list);
	free(x);
	return dsfix_teardown(&one);
}

#define REG_TEST(t) \
	cmocka_unit_test_setup_teardown(t, regfix_setup, regfix_teardown)

static inline void regfix_make(struct regfix *x)
{
	assert_ok(
	    registration_new(x->f->ds, "push", &x->id.group, &x->r, &x->f->e),
	    &x->f->e);
}

/* The list anew; its length. */
static inline size_t regfix_list(struct regfix *x)
{
	registration_list_release(&x->list);
	assert_ok(registration_list(x->f->ds, &x->list, &x->f->e), &x->f->e);
	return x->list.n;
}

static inline const struct registration_info *regfix_only(struct regfix *x)
{
	assert_int_equal(regfix_list(x), 1);
	return &x->list.items[0];
}

#endif
