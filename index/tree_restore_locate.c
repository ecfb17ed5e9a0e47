/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_locate: where the content of a file lies in the stream.
 */
#include <inttypes.h>

#include "datastore/base/bytes.h"
#include "index/tree_restore_internal.h"

/* The extent that begins at pos, from the last answer if it has it. */
static int locate_first(struct restore *r, uint64_t pos, uint64_t length,
    struct catalog_extent *ret, struct err *e)
{
	uint64_t in = pos - r->run_pos;
	int rc = 0;

	if (pos < r->run_pos || in >= r->run.length) {
		/* As long as it is, for those that come after it. */
		rc = catalog_extent(r->c, pos, INT64_MAX - pos, &r->run, e);
		if (rc < 0)
			return rc;
		r->run_pos = pos;
		in = 0;
	}
	ret->start = r->run.start + in;
	ret->length = r->run.length - in;
	if (ret->length > length)
		ret->length = length;
	return 0;
}

/* Where its content lies; several pieces that follow each other are one. */
static int locate(struct restore *r, const struct catalog_entry *entry,
    struct restore_record *rec, struct err *e)
{
	struct catalog_extent x = { .length = 0 };
	uint64_t end = 0;
	uint64_t done = 0;

	if ((entry->has & CATALOG_HAS_POS) == 0 || entry->pos >= INT64_MAX ||
	    rec->stored > INT64_MAX - entry->pos)
		return err_set(e, ERR_CORRUPT, "the catalog has no content");
	while (done < rec->stored) {
		int rc = task_check(r->task, e);

		if (rc == 0)
			rc = locate_first(
			    r, entry->pos + done, rec->stored - done, &x, e);
		if (rc < 0)
			return rc;
		if (done == 0)
			rec->start = end = x.start;
		if (x.start != end)
			rec->scattered = true;
		if (!bytes_add_u64(x.start, x.length, &end) ||
		    end > archive_size(r->content))
			return err_set(e, ERR_CORRUPT,
			    "its content ends at offset %" PRIu64
			    " of '%s', which has %" PRIu64 " bytes",
			    end, archive_shown(r->content),
			    archive_size(r->content));
		done += x.length;
	}
	if (rec->scattered)
		rec->start = entry->pos;
	return 0;
}

int restore_locate(struct restore *r, const struct catalog_entry *entry,
    struct restore_record *rec, struct err *e)
{
	if ((entry->has & CATALOG_HAS_STATE) != 0 &&
	    (entry->state & CATALOG_STATE_UNREADABLE) != 0)
		return err_set(
		    e, ERR_CORRUPT, "could not be read when it was pushed");
	rec->size = entry->size;
	rec->stored = catalog_stored_size(entry);
	rec->has_sha256 = (entry->has & CATALOG_HAS_SHA256) != 0;
	rec->sha256 = entry->sha256;
	rec->has_holes = catalog_holes_count(entry) > 0;
	if (rec->stored == 0)
		return 0;
	return locate(r, entry, rec, e);
}
