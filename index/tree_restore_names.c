/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_names.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "index/catalog_salvage.h"

/* Kept by number, the newer one in its place. */
#define ACCOUNTS 1024U
#define ATTRS 64U
/* An attr of more than this is not kept: 64 of them would be too much. */
#define ATTR_KEPT_MAX ((size_t)256 << 10)

#define LINE_FIRST ((size_t)4 << 10)
#define LINE_MAX_SIZE ((size_t)1 << 20) /* of a line of /etc/group */

/* An ACL as the kernel has it in an attribute. */
#define ACL_HEADER_SIZE 4U
#define ACL_ENTRY_SIZE 8U
#define ACL_ENTRY_ID 4U
#define ACL_TAG_USER 0x02U
#define ACL_TAG_GROUP 0x08U

struct account {
	bool known;
	enum catalog_account kind;
	uint32_t id;
	uint32_t here;
	bool lost; /* its name can not be read */
};

struct restore_names {
	struct catalog *c;
	bool numeric;
	bool told; /* of names that are lost */
	struct task *task;
	struct buf name;
	struct buf line;
	struct account accounts[ACCOUNTS];
	struct restore_attr *attrs[ATTRS];
};

int restore_names_new(struct catalog *c, bool numeric, struct task *task,
    struct restore_names **ret, struct err *e)
{
	struct restore_names *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return err_nomem(e);
	n->c = c;
	n->numeric = numeric;
	n->task = task;
	*ret = n;
	return 0;
}

void restore_names_free(struct restore_names *n)
{
	if (n == NULL)
		return;
	for (size_t i = 0; i < ATTRS; i++)
		restore_attr_put(n->attrs[i]);
	buf_release(&n->name);
	buf_release(&n->line);
	free(n);
}

/* One look with a line of this room; ERANGE: it is too small. */
static int ask(struct restore_names *n, enum catalog_account kind,
    const char *name, uint32_t *ret, bool *ret_found)
{
	char *line = (char *)n->line.data;
	int rc = 0;

	*ret_found = false;
	if (kind == CATALOG_USER) {
		struct passwd pw;
		struct passwd *found = NULL;

		rc = getpwnam_r(name, &pw, line, n->line.cap, &found);
		*ret_found = rc == 0 && found != NULL;
		if (*ret_found)
			*ret = pw.pw_uid;
	} else {
		struct group gr;
		struct group *found = NULL;

		rc = getgrnam_r(name, &gr, line, n->line.cap, &found);
		*ret_found = rc == 0 && found != NULL;
		if (*ret_found)
			*ret = gr.gr_gid;
	}
	return rc;
}

/* A directory service that does not answer is like one that knows nothing:
 * the number stands. */
static int ask_machine(struct restore_names *n, enum catalog_account kind,
    const char *name, uint32_t *ret, struct err *e)
{
	size_t room = LINE_FIRST;
	bool found = false;

	for (; room <= LINE_MAX_SIZE; room *= 4) {
		int rc = 0;

		buf_reset(&n->line);
		rc = buf_reserve(&n->line, room, e);
		if (rc < 0)
			return rc;
		if (ask(n, kind, name, ret, &found) != ERANGE)
			break;
	}
	return 0;
}

/* The catalog's name for it, into n->name. */
static int look_up(struct restore_names *n, enum catalog_account kind,
    uint32_t id, bool *ret_found, bool *ret_lost, struct err *e)
{
	int rc = 0;

	*ret_lost = false;
	buf_reset(&n->name);
	rc = catalog_account(n->c, kind, id, &n->name, ret_found, e);
	if (rc == 0 || !catalog_can_salvage(e))
		return rc;
	if (!n->told)
		task_message(n->task, TASK_WARNING,
		    "%s; owners whose names can not be read go by their "
		    "numbers (said once; others are counted)",
		    e->msg);
	n->told = *ret_lost = true;
	*ret_found = false;
	return err_forget(e);
}

int restore_names_id(struct restore_names *n, enum catalog_account kind,
    uint32_t id, uint32_t *ret, bool *lost, struct err *e)
{
	struct account *a = &n->accounts[(2 * id + (unsigned)kind) % ACCOUNTS];
	const char *name = NULL;
	uint32_t here = id;
	bool found = false;
	bool nameless = false;
	int rc = 0;

	if (n->numeric) {
		*ret = id;
		return 0;
	}
	if (a->known && a->kind == kind && a->id == id) {
		*ret = a->here;
		*lost = *lost || a->lost;
		return 0;
	}
	rc = look_up(n, kind, id, &found, &nameless, e);
	if (rc < 0)
		return rc;
	if (found) {
		name = buf_cstr(&n->name, e);
		if (name == NULL)
			return e->code;
		rc = ask_machine(n, kind, name, &here, e);
		if (rc < 0)
			return rc;
	}
	*a = (struct account){ true, kind, id, here, nameless };
	*ret = here;
	*lost = *lost || nameless;
	return 0;
}

/* The ids of an ACL, in place. */
static int map_acl(
    struct restore_names *n, uint8_t *p, size_t size, bool *lost, struct err *e)
{
	for (size_t at = ACL_HEADER_SIZE; at + ACL_ENTRY_SIZE <= size;
	     at += ACL_ENTRY_SIZE) {
		unsigned tag = p[at] | (unsigned)p[at + 1] << 8;
		uint32_t here = 0;
		int rc = 0;

		if (tag != ACL_TAG_USER && tag != ACL_TAG_GROUP)
			continue;
		rc = restore_names_id(n,
		    tag == ACL_TAG_USER ? CATALOG_USER : CATALOG_GROUP,
		    bytes_get_le32(p + at + ACL_ENTRY_ID), &here, lost, e);
		if (rc < 0)
			return rc;
		bytes_put_le32(p + at + ACL_ENTRY_ID, here);
	}
	return 0;
}

static int prepare(
    struct restore_names *n, struct restore_attr *a, struct err *e)
{
	struct catalog_xattr x;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && catalog_attr_next(&a->data, &at, &x)) {
		bool acl = false;

		if (strcmp(x.name_z, RESTORE_ACL_ACCESS) == 0)
			acl = a->has_access = true;
		else if (strcmp(x.name_z, RESTORE_ACL_DEFAULT) == 0)
			acl = a->has_default = true;
		else if (strcmp(x.name_z, RESTORE_CAPABILITY) == 0)
			a->has_capability = true;
		/* The value lies in the data, which is ours. */
		if (acl && x.value.n > 0)
			rc = map_acl(n,
			    a->data.data + (x.value.p - a->data.data),
			    x.value.n, &a->nameless, e);
	}
	return rc;
}

int restore_names_attr(struct restore_names *n, int64_t id,
    struct restore_attr **ret, struct err *e)
{
	struct restore_attr **place = &n->attrs[(uint64_t)id % ATTRS];
	struct restore_attr *a = *place;
	int rc = 0;

	if (a == NULL || a->id != id) {
		a = calloc(1, sizeof(*a));
		if (a == NULL)
			return err_nomem(e);
		a->id = id;
		atomic_init(&a->refs, 1);
		rc = catalog_attr(n->c, id, &a->data, e);
		if (rc == 0)
			rc = prepare(n, a, e);
		if (rc < 0 || a->data.len > ATTR_KEPT_MAX) {
			if (rc < 0)
				restore_attr_put(a);
			else
				*ret = a;
			return rc;
		}
		restore_attr_put(*place);
		*place = a;
	}
	(void)atomic_fetch_add(&a->refs, 1);
	*ret = a;
	return 0;
}

void restore_attr_put(struct restore_attr *a)
{
	if (a == NULL || atomic_fetch_sub(&a->refs, 1) > 1)
		return;
	buf_release(&a->data);
	free(a);
}
