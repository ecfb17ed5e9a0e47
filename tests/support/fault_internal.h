/* SPDX-License-Identifier: MIT */
/*
 * fault_internal: how a call passes the rules and the hooks, for the wrappers
 * of all calls.
 */
#ifndef CAIRN_TESTS_SUPPORT_FAULT_INTERNAL_H
#define CAIRN_TESTS_SUPPORT_FAULT_INTERNAL_H

#include "datastore/base/sysio.h"
#include "tests/support/fault.h"

/* A call on its way through. */
struct fault_passage {
	struct fault_event ev;
	struct fault_hooks hooks;
	struct fault_rule strike; /* .times is 0: none */
	bool bypass;
};

/* clang-format off */
#define FAULT_CALL(kind, ...) { .ev = { .call = (kind), __VA_ARGS__ } }
/* clang-format on */

/* True if the real call is to be made; errno is as the caller left it. */
bool fault_call_begin(struct fault_passage *c);

/* What it gave; errno is the call's. */
void fault_call_done(struct fault_passage *c, int64_t result);
void fault_call_done_p(struct fault_passage *c, void *result);

/* What the caller gets; sets errno. */
int64_t fault_call_end(struct fault_passage *c);

/* Every call by its wrapper. */
extern const struct sysio_table fault_table;

#endif
