/* SPDX-License-Identifier: MIT */
#include "cli/push_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/output.h"
#include "datastore/base/text.h"

/* ---- JSON ---- */

static void set_csum(struct js *o, const struct ingest_result *r, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(&r->csum, hex);
	js_set_str(o, "csum", hex, e);
}

static void set_catalog(struct js *o, const struct push_source *src,
    const struct ingest_result *r, bool dry_run, struct err *e)
{
	char name[sizeof(src->filename) + sizeof(".catalog.fidx")];
	struct js *c = js_object();

	(void)snprintf(name, sizeof(name), "%s.catalog.fidx", src->archive);
	js_set_str(c, "filename", name, e);
	js_set_u64(c, "size", r->size, e);
	js_set_u64(c, "chunks", r->chunks, e);
	if (!dry_run)
		set_csum(c, r, e);
	js_set(o, "catalog", c, e);
}

static void set_tree(
    struct js *o, const struct tree_push_result *t, struct err *e)
{
	js_set_u64(o, "entries", t->written.entries, e);
	js_set_u64(o, "files", t->files, e);
	js_set_u64(o, "directories", t->directories, e);
	js_set_u64(o, "same-files", t->written.same_files, e);
	js_set_u64(o, "same-bytes", t->written.same_bytes, e);
	js_set_u64(o, "excluded", t->excluded, e);
	js_set_u64(o, "unreadable", t->unreadable, e);
	js_set_u64(o, "changed-files", t->changed, e);
	js_set_u64(o, "vanished", t->vanished, e);
}

static void add_archive(
    struct js *archives, const struct push_report *r, size_t i, struct err *e)
{
	const struct push_source *src = &r->sources[i];
	const struct push_result *one = &r->results[i];
	struct js *o = js_object();

	js_set_str(o, "archive", src->archive, e);
	js_set_str(o, "filename", src->filename, e);
	js_set_u64(o, "size", one->content.size, e);
	js_set_u64(o, "hole-bytes", one->content.hole_bytes, e);
	js_set_u64(o, "chunks", one->content.chunks, e);
	/* A blob's is of its file, which is the session's affair. */
	if (!r->dry_run && src->kind != PUSH_CONF)
		set_csum(o, &one->content, e);
	js_set_bool(o, "changed", one->content.changed, e);
	if (one->is_tree)
		set_tree(o, &one->tree, e);
	else if (one->catalog.chunks > 0)
		js_set_u64(o, "members", one->members, e);
	if (one->catalog.chunks > 0)
		set_catalog(o, src, &one->catalog, r->dry_run, e);
	js_append(archives, o, e);
}

int push_report_json(const struct push_report *r, struct err *e)
{
	struct js *doc = js_object();
	struct js *archives = js_array();

	output_json_begin(e);
	cmd_json_snapshot(doc, &r->id, e);
	js_set_bool(doc, "dry-run", r->dry_run, e);
	js_set_bool(doc, "changed", r->changed, e);
	js_set_bool(doc, "incomplete", r->incomplete, e);
	for (size_t i = 0; i < r->n; i++)
		add_archive(archives, r, i, e);
	js_set(doc, "archives", archives, e);
	js_set_u64(doc, "chunks", r->stats.chunks, e);
	js_set_u64(doc, "new-chunks", r->stats.new_chunks, e);
	js_set_u64(doc, "bytes", r->stats.bytes, e);
	js_set_u64(doc, "new-bytes", r->stats.new_bytes, e);
	js_set_u64(doc, "stored-bytes", r->stats.stored_bytes, e);
	return output_json(doc, e);
}

/* ---- text ---- */

/* ", 3 files": nothing for none of them, unless `always`. */
static int print_count(
    uint64_t n, const char *one, const char *many, bool always, struct err *e)
{
	if (n == 0 && !always)
		return 0;
	return output_text(e, ", %" PRIu64 " %s", n, text_plural(n, one, many));
}

static int print_tree(const struct tree_push_result *t, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	int rc = print_count(t->files, "file", "files", true, e);

	if (rc == 0)
		rc = print_count(
		    t->directories, "directory", "directories", true, e);
	if (rc == 0)
		rc = print_count(t->written.entries - t->files - t->directories,
		    "other entry", "other entries", false, e);
	if (rc == 0 && t->written.same_files > 0)
		rc = output_text(e, "\n    %" PRIu64 " file%s, %s, like others",
		    t->written.same_files,
		    text_plural(t->written.same_files, "", "s"),
		    text_size(size, t->written.same_bytes));
	return rc;
}

/* What is not there as it was, or not at all. */
static int print_missing(const struct tree_push_result *t, struct err *e)
{
	static const char *const words[] = { "left out", "unreadable",
		"changed while read", "vanished" };
	uint64_t n[] = { t->excluded, t->unreadable, t->changed, t->vanished };
	const char *before = "    ";
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(n) / sizeof(n[0]); i++) {
		if (n[i] == 0)
			continue;
		rc = output_text(e, "%s%" PRIu64 " %s", before, n[i], words[i]);
		before = ", ";
	}
	if (rc == 0 && before[0] == ',')
		rc = output_text(e, "\n");
	return rc;
}

static int print_stream(const struct ingest_result *r, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	int rc = output_text(e, "%s", text_size(size, r->size));

	if (rc == 0 && r->chunks > 0)
		rc = output_text(e, " in %" PRIu64 " chunk%s", r->chunks,
		    text_plural(r->chunks, "", "s"));
	if (rc == 0 && r->hole_bytes > 0)
		rc = output_text(
		    e, ", %s of it holes", text_size(size, r->hole_bytes));
	return rc;
}

static int print_archive(
    const struct push_source *src, const struct push_result *r, struct err *e)
{
	int rc = output_text(e, "  %s: ", src->archive);

	if (rc == 0)
		rc = print_stream(&r->content, e);
	if (rc == 0 && r->is_tree)
		rc = print_tree(&r->tree, e);
	else if (rc == 0 && r->catalog.chunks > 0)
		rc = print_count(r->members, "member", "members", true, e);
	if (rc == 0)
		rc = output_text(e, "\n");
	if (rc == 0 && r->is_tree)
		rc = print_missing(&r->tree, e);
	if (rc < 0 || r->catalog.chunks == 0)
		return rc;
	rc = output_text(e, "  %s.catalog: ", src->archive);
	if (rc == 0)
		rc = print_stream(&r->catalog, e);
	return rc < 0 ? rc : output_text(e, "\n");
}

int push_report_text(const struct push_report *r, struct err *e)
{
	char name[BACKUP_PATH_SIZE];
	char a[TEXT_SIZE_SIZE];
	char b[TEXT_SIZE_SIZE];
	/* Those of the archives: of a hole only its first one was put. */
	uint64_t chunks = 0;
	int rc = 0;

	backup_snapshot_text(&r->id, name);
	rc = output_text(e, "%s%s\n", name,
	    r->dry_run ? " (dry run: nothing was stored)" : "");
	for (size_t i = 0; i < r->n && rc == 0; i++) {
		const struct push_result *one = &r->results[i];

		chunks += one->content.chunks + one->catalog.chunks;
		rc = print_archive(&r->sources[i], one, e);
	}
	if (rc == 0 && chunks > 0)
		rc = output_text(e,
		    "  %s: %" PRIu64 " of %" PRIu64 " chunk%s, %s%s%s\n",
		    r->dry_run ? "would be new" : "new", r->stats.new_chunks,
		    chunks, text_plural(chunks, "", "s"),
		    text_size(a, r->stats.new_bytes),
		    r->dry_run ? "" : ", stored as ",
		    r->dry_run ? "" : text_size(b, r->stats.stored_bytes));
	return rc;
}
