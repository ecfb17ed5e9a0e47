/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_paths.h"

#include <stdlib.h>
#include <string.h>

/* The components of a path, without empty ones and ".". */
static int split(
    struct catalog_bytes path, struct restore_path *ret, struct err *e)
{
	size_t at = 0;
	size_t end = 0;

	ret->memory = malloc(path.n + 1);
	ret->names = calloc(path.n / 2 + 1, sizeof(*ret->names));
	if (ret->memory == NULL || ret->names == NULL)
		return err_nomem(e);
	while (at < path.n) {
		const uint8_t *p = path.p + at;
		const uint8_t *slash = memchr(p, '/', path.n - at);
		size_t n = slash != NULL ? (size_t)(slash - p) : path.n - at;

		at += n + (slash != NULL ? 1 : 0);
		if (n == 0 || (n == 1 && p[0] == '.'))
			continue;
		if (end > 0)
			ret->memory[end++] = '/';
		memcpy(ret->memory + end, p, n);
		ret->names[ret->n].p = ret->memory + end;
		ret->names[ret->n++].n = n;
		end += n;
	}
	ret->text.p = ret->memory;
	ret->text.n = end;
	return 0;
}

static int compare_names(
    const struct catalog_bytes *a, const struct catalog_bytes *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int order = memcmp(a->p, b->p, n);

	if (order != 0)
		return order;
	return (a->n > b->n) - (a->n < b->n);
}

/* As a walk comes by: parents first, then by name. */
static int compare(const void *x, const void *y)
{
	const struct restore_path *a = x;
	const struct restore_path *b = y;

	for (size_t i = 0; i < a->n && i < b->n; i++) {
		int order = compare_names(&a->names[i], &b->names[i]);

		if (order != 0)
			return order;
	}
	return (a->n > b->n) - (a->n < b->n);
}

size_t restore_path_common(
    const struct restore_path *a, const struct restore_path *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n &&
	    compare_names(&a->names[i], &b->names[i]) == 0)
		i++;
	return i;
}

static void release(struct restore_path *p)
{
	free(p->names);
	free(p->memory);
}

void restore_paths_free(struct restore_path *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		release(&paths[i]);
	free(paths);
}

/* Sorted: whatever covers one stands before it. */
static size_t drop_covered(struct restore_path *paths, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept > 0 &&
		    restore_path_common(&paths[kept - 1], &paths[i]) ==
			paths[kept - 1].n)
			release(&paths[i]);
		else
			paths[kept++] = paths[i];
	}
	return kept;
}

int restore_paths_new(struct catalog *c, const struct catalog_bytes *paths,
    size_t n, struct restore_path **ret, size_t *ret_n, struct err *e)
{
	struct restore_path *list = calloc(n + 1, sizeof(*list));
	struct catalog_entry entry;
	size_t made = 0;
	int rc = list == NULL ? err_nomem(e) : 0;

	while (rc == 0 && made < n) {
		rc = catalog_resolve(c, paths[made], &entry, e);
		if (rc == 0)
			rc = split(paths[made], &list[made], e);
		made++;
	}
	if (rc < 0) {
		restore_paths_free(list, list == NULL ? 0 : made);
		return rc;
	}
	qsort(list, n, sizeof(*list), compare);
	n = drop_covered(list, n);
	if (n > 0 && list[0].n == 0) { /* the root, which covers all */
		restore_paths_free(list, n);
		list = NULL;
		n = 0;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
