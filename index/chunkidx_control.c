/* SPDX-License-Identifier: MIT */
/*
 * The part of chunkidx.h that is `control.json`: which base is the current one,
 * and what it knows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "index/chunkidx_internal.h"

#define FORMAT 1
#define SIZE_MAX_FILE 65536U

#define KEY_FORMAT "format"
#define KEY_STORE "store"
#define KEY_GENERATION "generation"
#define KEY_MERGED "merged"
#define KEY_KNOWN "known"
#define KEY_UPID "upid"
#define KEY_NEXT_UPID "next-upid"
#define KEY_SCANNED "scanned"

#define KNOWN_DIGITS (2 * sizeof(((struct cix_shards *)NULL)->b))

static void known_hex(
    const struct cix_shards *known, char out[KNOWN_DIGITS + 1])
{
	for (size_t i = 0; i < sizeof(known->b); i++)
		(void)snprintf(out + 2 * i, 3, "%02x", known->b[i]);
}

static bool known_parse(const char *s, struct cix_shards *ret)
{
	struct digest d;

	/* As long as a digest, and written like one. */
	if (!digest_parse(s, strlen(s), &d))
		return false;
	memcpy(ret->b, d.b, sizeof(ret->b));
	return true;
}

_Static_assert(sizeof(((struct cix_shards *)NULL)->b) == DIGEST_SIZE,
    "a set of shards is written as a digest is");

static int get_upid(const struct js *doc, const char *key,
    char out[CHUNKIDX_UPID_SIZE], struct err *e)
{
	const char *s = NULL;
	bool found = false;
	int rc = js_get_str(doc, key, &s, &found, e);

	out[0] = '\0';
	if (rc == 0 && found)
		(void)snprintf(out, CHUNKIDX_UPID_SIZE, "%s", s);
	return rc;
}

static int decode(const struct datastore *ds, const struct js *doc,
    struct chunkidx_control *ret, struct err *e)
{
	struct chunkidx_control c = { .generation = 0 };
	const char *store = NULL;
	const char *known = NULL;
	uint64_t format = 0;
	int rc = js_get_u64(doc, KEY_FORMAT, &format, NULL, e);

	if (rc == 0 && format != FORMAT)
		return err_set(e, ERR_UNSUPPORTED,
		    "format %" PRIu64 " of the chunk index, want %d", format,
		    FORMAT);
	if (rc == 0)
		rc = js_get_str(doc, KEY_STORE, &store, NULL, e);
	if (rc == 0 && strcmp(store, ds->id) != 0)
		return err_set(e, ERR_REFUSED,
		    "it is the chunk index of another datastore");
	if (rc == 0)
		rc = js_get_u64(doc, KEY_GENERATION, &c.generation, NULL, e);
	if (rc == 0)
		rc = js_get_u64(doc, KEY_MERGED, &c.merged, NULL, e);
	if (rc == 0)
		rc = js_get_i64(doc, KEY_SCANNED, &c.scanned, NULL, e);
	if (rc == 0)
		rc = js_get_str(doc, KEY_KNOWN, &known, NULL, e);
	if (rc == 0 && !known_parse(known, &c.known))
		rc = err_set(
		    e, ERR_CORRUPT, "'" KEY_KNOWN "' is no set of shards");
	if (rc == 0)
		rc = get_upid(doc, KEY_UPID, c.upid, e);
	if (rc == 0)
		rc = get_upid(doc, KEY_NEXT_UPID, c.next_upid, e);
	if (rc == 0)
		*ret = c;
	return rc;
}

int chunkidx_control_read(const struct datastore *ds,
    const struct chunkidx_place *p, struct chunkidx_control *ret, struct err *e)
{
	char shown[CAIRNDIR_SHOWN + 16];
	struct buf text = BUF_INIT;
	struct js *doc = NULL;
	int rc = 0;

	(void)snprintf(shown, sizeof(shown), "%s/" CHUNKIDX_CONTROL, p->shown);
	rc = file_read_at(
	    p->fd, CHUNKIDX_CONTROL, SIZE_MAX_FILE, &text, shown, e);
	if (rc < 0)
		goto out;
	rc = js_parse(text.data, text.len, &doc, e);
	if (rc == 0)
		rc = decode(ds, doc, ret, e);
	if (rc < 0)
		err_prefix(e, "'%s'", shown);
out:
	js_free(doc);
	buf_release(&text);
	return rc;
}

int chunkidx_control_write(const struct datastore *ds,
    const struct chunkidx_place *p, const struct chunkidx_control *c,
    struct err *e)
{
	char shown[CAIRNDIR_SHOWN + 16];
	char known[KNOWN_DIGITS + 1];
	struct buf text = BUF_INIT;
	struct js *doc = js_object();
	int rc = 0;

	(void)snprintf(shown, sizeof(shown), "%s/" CHUNKIDX_CONTROL, p->shown);
	known_hex(&c->known, known);
	js_set_u64(doc, KEY_FORMAT, FORMAT, e);
	js_set_str(doc, KEY_STORE, ds->id, e);
	js_set_u64(doc, KEY_GENERATION, c->generation, e);
	js_set_u64(doc, KEY_MERGED, c->merged, e);
	js_set_str(doc, KEY_KNOWN, known, e);
	js_set_str(doc, KEY_UPID, c->upid[0] == '\0' ? NULL : c->upid, e);
	js_set_str(doc, KEY_NEXT_UPID,
	    c->next_upid[0] == '\0' ? NULL : c->next_upid, e);
	js_set_i64(doc, KEY_SCANNED, c->scanned, e);
	rc = js_dump(doc, JS_PRETTY, &text, e);
	if (rc == 0)
		rc = file_replace_at(p->fd, CHUNKIDX_CONTROL, text.data,
		    text.len, &ds->owner, shown, e);
	js_free(doc);
	buf_release(&text);
	return rc;
}

void chunkidx_apply_note(
    struct chunkidx_control *c, const struct chunkidx_note *note)
{
	if (note == NULL)
		return;
	/* Until `.gc-status` has the new one, the old one stays good. */
	if (note->upid != NULL) {
		(void)snprintf(
		    c->next_upid, sizeof(c->next_upid), "%s", note->upid);
		if (note->settled)
			(void)snprintf(
			    c->upid, sizeof(c->upid), "%s", note->upid);
	}
	if (note->scanned)
		c->scanned = clock_now_s();
	for (size_t i = 0; note->unknown != NULL && i < sizeof(c->known.b); i++)
		c->known.b[i] = (uint8_t)(c->known.b[i] & ~note->unknown->b[i]);
}
