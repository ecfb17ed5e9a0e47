/* SPDX-License-Identifier: MIT */
#include "datastore/store.h"

#include <assert.h>
#include <string.h>

#include "datastore/blob.h"

#define HEX_LEN (DIGEST_HEX_SIZE - 1)
#define PREFIX_LEN 4
#define TMP_LETTERS 6

int store_reuse(
    struct store *s, const struct digest *d, bool *ret_hit, struct err *e)
{
	return s->ops->reuse(s, d, ret_hit, e);
}

int store_insert(struct store *s, const struct digest *d, const void *raw,
    size_t n, const struct store_insert_opts *opts, enum store_inserted *ret,
    struct err *e)
{
	/* One that is only a header would never be a hit. */
	if (n <= BLOB_HEADER_SIZE || n > CHUNK_MAX_FILE) {
		return err_set(e, ERR_INVALID,
		    "chunk of %zu bytes, want more than %d and at most %u", n,
		    BLOB_HEADER_SIZE, CHUNK_MAX_FILE);
	}
	return s->ops->insert(s, d, raw, n, opts, ret, e);
}

int store_load(
    struct store *s, const struct digest *d, struct buf *raw, struct err *e)
{
	return s->ops->load(s, d, raw, e);
}

int store_stat(struct store *s, const struct digest *d, struct store_entry *ret,
    bool *ret_found, struct err *e)
{
	return s->ops->stat(s, d, ret, ret_found, e);
}

int store_touch(struct store *s, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	return s->ops->touch(s, d, ret, e);
}

int store_plan(
    struct store *s, struct store_batch *b, struct task *task, struct err *e)
{
	assert(b->n <= TOUCHORDER_MAX);
	if (s->ops->plan != NULL)
		return s->ops->plan(s, b, task, e);
	b->todo = touchorder_by_prefix(b->d, b->n, b->keys);
	return 0;
}

static int touch_one_by_one(struct store *s, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e)
{
	enum store_touched what = STORE_MISSING;
	int rc = 0;

	for (size_t i = first; i < b->todo; i++) {
		const struct digest *d = store_batch_at(b, i);

		rc = task_check(task, e);
		if (rc < 0)
			return rc;
		rc = s->ops->touch(s, d, &what, e);
		if (rc < 0)
			return rc;
		rc = fn(ctx, d, what, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int store_touch_batch(struct store *s, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e)
{
	if (s->ops->touch_batch == NULL)
		return touch_one_by_one(s, b, first, fn, ctx, task, e);
	return s->ops->touch_batch(s, b, first, fn, ctx, task, e);
}

void store_pace(struct store *s, struct store_pace *ret)
{
	*ret = (struct store_pace){ .calls = 0, .threads = 1 };
	if (s->ops->pace != NULL)
		s->ops->pace(s, ret);
}

int store_list_prefixes(
    struct store *s, struct store_prefixes *ret, struct err *e)
{
	return s->ops->prefixes(s, ret, e);
}

int store_scan(struct store *s, unsigned prefix, store_scan_fn fn, void *ctx,
    struct err *e)
{
	assert(prefix < STORE_PREFIXES);
	return s->ops->scan(s, prefix, fn, ctx, e);
}

static int scan_one_by_one(
    struct store *s, const struct store_scan_plan *plan, struct err *e)
{
	int rc = 0;

	for (unsigned p = plan->first; rc == 0 && p <= plan->last; p++) {
		rc = plan->begin(plan->ctx, p, e);
		if (rc < 0 || !store_prefixes_has(plan->there, p))
			continue;
		rc = s->ops->scan(s, p, plan->entry, plan->ctx, e);
		if (rc == 0)
			rc = plan->end(plan->ctx, p, e);
	}
	return rc;
}

int store_scan_all(struct store *s, const struct store_scan_plan *plan,
    struct task *task, struct err *e)
{
	assert(plan->last < STORE_PREFIXES);
	if (s->ops->scan_all == NULL)
		return scan_one_by_one(s, plan, e);
	return s->ops->scan_all(s, plan, task, e);
}

int store_sweep(struct store *s, unsigned prefix, filetime cutoff,
    struct store_victim *v, size_t n, bool *ret_busy, struct err *e)
{
	assert(prefix < STORE_PREFIXES && n <= STORE_SWEEP_MAX);
	return s->ops->sweep(s, prefix, cutoff, v, n, ret_busy, e);
}

int store_quarantine(struct store *s, const struct digest *d, int fd,
    bool *ret_done, struct err *e)
{
	return s->ops->quarantine(s, d, fd, ret_done, e);
}

int store_open_chunk(
    struct store *s, const struct digest *d, int *ret_fd, struct err *e)
{
	return s->ops->open(s, d, ret_fd, e);
}

void store_close(struct store *s)
{
	if (s != NULL)
		s->ops->close(s);
}

void store_chunk_path(const struct digest *d, char out[STORE_CHUNK_PATH_SIZE])
{
	digest_hex(d, out + PREFIX_LEN + 1);
	memcpy(out, out + PREFIX_LEN + 1, PREFIX_LEN);
	out[PREFIX_LEN] = '/';
}

bool store_prefix_of(const char *name, unsigned *ret)
{
	unsigned prefix = 0;

	if (strnlen(name, PREFIX_LEN + 1) != PREFIX_LEN ||
	    strspn(name, "0123456789abcdef") != PREFIX_LEN)
		return false;
	for (size_t i = 0; i < PREFIX_LEN; i++) {
		unsigned digit = (unsigned)(name[i] - '0');

		if (name[i] >= 'a')
			digit = (unsigned)(name[i] - 'a') + 10;
		prefix = prefix << 4 | digit;
	}
	*ret = prefix;
	return true;
}

/* Six letters or digits, as mkostemp makes them, and nothing else. */
static bool is_tmp_letters(const char *s)
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return strlen(s) == TMP_LETTERS && strspn(s, letters) == TMP_LETTERS;
}

/* What stands behind the 64 digits. */
static enum store_kind suffix_kind(const char *s)
{
	if (s[0] == '\0')
		return STORE_CHUNK;
	if (s[0] == '.' && s[1] >= '0' && s[1] <= '9' &&
	    strcmp(s + 2, ".bad") == 0)
		return STORE_BAD;
	if (strcmp(s, ".tmp") == 0)
		return STORE_TMP;
	if (strncmp(s, ".tmp_", 5) == 0 && is_tmp_letters(s + 5))
		return STORE_TMP;
	return STORE_OTHER;
}

enum store_kind store_name_kind(
    const char *name, unsigned prefix, struct digest *ret)
{
	enum store_kind kind = STORE_OTHER;
	struct digest d;

	/* In another prefix's directory it is nothing that anyone reads. */
	if (strnlen(name, HEX_LEN) < HEX_LEN ||
	    !digest_parse(name, HEX_LEN, &d) || digest_prefix(&d) != prefix)
		return STORE_OTHER;
	kind = suffix_kind(name + HEX_LEN);
	if (kind != STORE_OTHER)
		*ret = d;
	return kind;
}
