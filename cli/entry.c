/* SPDX-License-Identifier: MIT */
#include "cli/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "datastore/base/text.h"

#define NUMBER_SIZE 24
#define MODE_SIZE 11
#define DEVICE_SIZE 32

int entry_form_parse(
    const struct invocation *inv, enum entry_form *ret, struct err *e)
{
	bool json = invocation_has(inv, "json");
	bool zeros = invocation_has(inv, "null");

	*ret = json ? ENTRY_JSON : zeros ? ENTRY_ZEROS : ENTRY_LINES;
	if (json && zeros)
		return err_set(e, ERR_INVALID,
		    "--null and --json exclude each other: JSON has names "
		    "that are no text in hex");
	return 0;
}

int entry_printer_init(
    struct entry_printer *p, const struct invocation *inv, struct err *e)
{
	memset(p, 0, sizeof(*p));
	p->details = invocation_has(inv, "long");
	return entry_form_parse(inv, &p->form, e);
}

void entry_printer_forget(struct entry_printer *p)
{
	for (size_t kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < ENTRY_ACCOUNTS; i++) {
			buf_release(&p->accounts[kind][i].name);
			p->accounts[kind][i].used = false;
		}
	}
}

void entry_printer_release(struct entry_printer *p)
{
	entry_printer_forget(p);
	buf_release(&p->line);
}

int entry_begin(struct entry_printer *p, struct err *e)
{
	return p->form == ENTRY_JSON ? output_array_begin(&p->array, e) : 0;
}

int entry_end(struct entry_printer *p, struct err *e)
{
	return p->form == ENTRY_JSON ? output_array_end(&p->array, e) : 0;
}

/* NULL: the id has no name, or *e is set. */
static const struct buf *account_name(struct entry_printer *p,
    struct catalog *c, enum catalog_account kind, uint32_t id, struct err *e)
{
	struct entry_account *a =
	    &p->accounts[kind == CATALOG_GROUP][id % ENTRY_ACCOUNTS];

	if (!a->used || a->id != id) {
		a->used = false;
		buf_reset(&a->name);
		if (catalog_account(c, kind, id, &a->name, &a->found, e) < 0)
			return NULL;
		a->used = true;
		a->id = id;
	}
	return a->found ? &a->name : NULL;
}

/* "drwxr-xr-x": as ls has it. */
static void mode_text(const struct catalog_entry *entry, char out[MODE_SIZE])
{
	static const char kinds[] = "-dlpscb";
	static const char bits[] = "rwxrwxrwx";
	unsigned mode = entry->mode;

	out[0] = kinds[entry->kind];
	out[MODE_SIZE - 1] = '\0';
	if (!(entry->has & CATALOG_HAS_MODE)) {
		memset(out + 1, '?', MODE_SIZE - 2);
		return;
	}
	for (unsigned i = 0; i < 9; i++)
		out[1 + i] = (mode >> (8 - i) & 1) ? bits[i] : '-';
	if (mode & S_ISUID)
		out[3] = mode & S_IXUSR ? 's' : 'S';
	if (mode & S_ISGID)
		out[6] = mode & S_IXGRP ? 's' : 'S';
	if (mode & S_ISVTX)
		out[9] = mode & S_IXOTH ? 't' : 'T';
}

/* A name, else the number, else a dash; a blank behind it. */
static int append_owner(struct entry_printer *p, struct catalog *c,
    enum catalog_account kind, const struct catalog_entry *entry, struct err *e)
{
	bool user = kind == CATALOG_USER;
	bool known = entry->has & (user ? CATALOG_HAS_UID : CATALOG_HAS_GID);
	uint32_t id = user ? entry->uid : entry->gid;
	const struct buf *name = NULL;
	size_t before = p->line.len;
	int rc = 0;

	if (known)
		name = account_name(p, c, kind, id, e);
	if (e->code < 0)
		return e->code;
	if (name != NULL && name->len > 0)
		rc = text_append_name(&p->line, name->data, name->len, e);
	else if (known)
		rc = buf_append_fmt(&p->line, e, "%" PRIu32, id);
	else
		rc = buf_append_str(&p->line, "-", e);
	while (rc == 0 && p->line.len < before + 8)
		rc = buf_append(&p->line, " ", 1, e);
	return rc < 0 ? rc : buf_append(&p->line, " ", 1, e);
}

static void number_text(bool known, uint64_t n, char out[NUMBER_SIZE])
{
	if (known)
		(void)snprintf(out, NUMBER_SIZE, "%" PRIu64, n);
	else
		(void)snprintf(out, NUMBER_SIZE, "-");
}

static void size_text(const struct catalog_entry *entry, char out[DEVICE_SIZE])
{
	if (entry->has & CATALOG_HAS_RDEV)
		(void)snprintf(out, DEVICE_SIZE, "%" PRIu64 ", %" PRIu64,
		    entry->rdev >> 32, entry->rdev & UINT32_MAX);
	else
		number_text(entry->has & CATALOG_HAS_SIZE, entry->size, out);
}

static int append_details(struct entry_printer *p, struct catalog *c,
    const struct catalog_entry *entry, struct err *e)
{
	char mode[MODE_SIZE];
	char links[NUMBER_SIZE];
	char size[DEVICE_SIZE];
	char time[TEXT_TIME_SIZE] = "-";
	int rc = 0;

	mode_text(entry, mode);
	number_text(entry->has & CATALOG_HAS_NLINK, entry->nlink, links);
	size_text(entry, size);
	if (entry->has & CATALOG_HAS_MTIME)
		(void)text_time(time, entry->mtime_s);
	rc = buf_append_fmt(&p->line, e, "%s %3s ", mode, links);
	if (rc == 0)
		rc = append_owner(p, c, CATALOG_USER, entry, e);
	if (rc == 0)
		rc = append_owner(p, c, CATALOG_GROUP, entry, e);
	if (rc == 0)
		rc = buf_append_fmt(&p->line, e, "%10s %-20s ", size, time);
	return rc;
}

static int append_name(
    struct entry_printer *p, struct catalog_bytes name, struct err *e)
{
	return p->form == ENTRY_ZEROS
	    ? buf_append(&p->line, name.p, name.n, e)
	    : text_append_name(&p->line, name.p, name.n, e);
}

/* What is not as it should be, or not what a name leads to. */
static int append_remarks(struct entry_printer *p,
    const struct catalog_entry *entry, bool earlier, struct err *e)
{
	const struct {
		bool is;
		const char *text;
	} remarks[] = {
		{ earlier, "earlier member" },
		{ entry->state & CATALOG_STATE_UNREADABLE, "not stored" },
		{ entry->state & CATALOG_STATE_CHANGED, "changed while read" },
		{ entry->state & CATALOG_STATE_SHORT, "shorter than it was" },
	};
	const char *before = " (";
	int rc = 0;

	for (size_t i = 0; i < sizeof(remarks) / sizeof(*remarks); i++) {
		if (!remarks[i].is || rc < 0)
			continue;
		rc = buf_append_fmt(
		    &p->line, e, "%s%s", before, remarks[i].text);
		before = ", ";
	}
	if (rc == 0 && before[0] == ',')
		rc = buf_append(&p->line, ")", 1, e);
	return rc;
}

static int print_line(struct entry_printer *p, struct catalog *c,
    const struct entry_shown *s, const struct catalog_entry *entry,
    struct err *e)
{
	bool zeros = p->form == ENTRY_ZEROS;
	int rc = 0;

	buf_reset(&p->line);
	if (p->details)
		rc = append_details(p, c, entry, e);
	if (rc == 0 && s->archive != NULL)
		rc = buf_append_fmt(&p->line, e, "%s:", s->archive);
	if (rc == 0)
		rc = append_name(p, s->label, e);
	if (rc == 0 && p->details && (entry->has & CATALOG_HAS_TARGET)) {
		rc = buf_append_str(&p->line, " -> ", e);
		if (rc == 0)
			rc = append_name(p, entry->target, e);
	}
	if (rc == 0 && (p->details || s->earlier) && !zeros)
		rc = append_remarks(p, entry, s->earlier, e);
	if (rc == 0)
		rc = buf_append(&p->line, zeros ? "" : "\n", 1, e);
	return rc < 0 ? rc : output_bytes(p->line.data, p->line.len, e);
}

static void set_account(struct js *o, const char *id_key, const char *key,
    uint32_t id, const struct buf *name, struct err *e)
{
	js_set_u64(o, id_key, id, e);
	if (name != NULL)
		js_set_bytes(o, key, name->data, name->len, e);
}

static void set_owner(struct entry_printer *p, struct catalog *c, struct js *o,
    const struct catalog_entry *entry, struct err *e)
{
	if (entry->has & CATALOG_HAS_UID)
		set_account(o, "uid", "user", entry->uid,
		    account_name(p, c, CATALOG_USER, entry->uid, e), e);
	if (entry->has & CATALOG_HAS_GID)
		set_account(o, "gid", "group", entry->gid,
		    account_name(p, c, CATALOG_GROUP, entry->gid, e), e);
}

static void set_content(
    struct js *o, const struct catalog_entry *entry, struct err *e)
{
	char text[TEXT_TIME_SIZE];
	char hex[DIGEST_HEX_SIZE];

	if (entry->has & CATALOG_HAS_NLINK)
		js_set_u64(o, "nlink", entry->nlink, e);
	if (entry->has & CATALOG_HAS_SIZE)
		js_set_u64(o, "size", entry->size, e);
	if (entry->has & CATALOG_HAS_MTIME) {
		js_set_str(o, "mtime", text_time(text, entry->mtime_s), e);
		js_set_i64(o, "mtime-s", entry->mtime_s, e);
		js_set_u64(o, "mtime-ns", entry->mtime_ns, e);
	}
	if (entry->has & CATALOG_HAS_SHA256) {
		digest_hex(&entry->sha256, hex);
		js_set_str(o, "sha256", hex, e);
	}
	if (entry->has & CATALOG_HAS_TARGET)
		js_set_bytes(o, "target", entry->target.p, entry->target.n, e);
	if (entry->has & CATALOG_HAS_LINK)
		js_set_i64(o, "link", entry->link, e);
	if (entry->has & CATALOG_HAS_FLAGS)
		js_set_u64(o, "flags", entry->flags, e);
}

static void set_state(struct js *o, unsigned state, struct err *e)
{
	static const char *const words[] = { "changed", "short", "unreadable" };
	struct js *list = js_array();

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (state >> i & 1)
			js_append(list, js_new_str(words[i], e), e);
	}
	js_set(o, "state", list, e);
}

static int print_json(struct entry_printer *p, struct catalog *c,
    const struct entry_shown *s, const struct catalog_entry *entry,
    struct err *e)
{
	char text[DEVICE_SIZE];
	struct js *o = js_object();

	output_json_begin(e);
	if (s->archive != NULL)
		js_set_str(o, "archive", s->archive, e);
	js_set_bytes(o, "path", s->path.p, s->path.n, e);
	js_set_str(o, "kind", catalog_kind_word(entry->kind), e);
	if (entry->has & CATALOG_HAS_MODE) {
		(void)snprintf(text, sizeof(text), "%04o", entry->mode);
		js_set_str(o, "mode", text, e);
	}
	set_owner(p, c, o, entry, e);
	set_content(o, entry, e);
	if (entry->has & CATALOG_HAS_RDEV) {
		(void)snprintf(text, sizeof(text), "%" PRIu64 ":%" PRIu64,
		    entry->rdev >> 32, entry->rdev & UINT32_MAX);
		js_set_str(o, "rdev", text, e);
	}
	if (entry->state != 0)
		set_state(o, entry->state, e);
	if (s->earlier)
		js_set_bool(o, "earlier", true, e);
	return output_array_add(&p->array, o, e);
}

int entry_print(struct entry_printer *p, struct catalog *c,
    const struct entry_shown *shown, const struct catalog_entry *entry,
    struct err *e)
{
	return p->form == ENTRY_JSON ? print_json(p, c, shown, entry, e)
				     : print_line(p, c, shown, entry, e);
}

struct catalog_bytes entry_typed(const char *s)
{
	return (struct catalog_bytes){
		.p = (const uint8_t *)s,
		.n = strlen(s),
	};
}

struct catalog_bytes entry_bytes(const struct buf *b)
{
	return (struct catalog_bytes){ .p = b->data, .n = b->len };
}

int entry_clean_path(const char *typed, struct buf *out, struct err *e)
{
	int rc = 0;

	buf_reset(out);
	while (*typed != '\0' && rc == 0) {
		size_t n = strcspn(typed, "/");

		if (n > 1 || (n == 1 && typed[0] != '.')) {
			if (out->len > 0)
				rc = buf_append(out, "/", 1, e);
			if (rc == 0)
				rc = buf_append(out, typed, n, e);
		}
		typed += n;
		typed += typed[0] == '/';
	}
	return rc;
}

int entry_join(struct buf *out, struct catalog_bytes dir,
    struct catalog_bytes name, struct err *e)
{
	int rc = 0;

	buf_reset(out);
	if (dir.n > 0) {
		rc = buf_append(out, dir.p, dir.n, e);
		if (rc == 0)
			rc = buf_append(out, "/", 1, e);
	}
	return rc < 0 ? rc : buf_append(out, name.p, name.n, e);
}
