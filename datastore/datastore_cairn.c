/* SPDX-License-Identifier: MIT */
/*
 * The part of a datastore that is cairn's own: `.cairn/` and its `format`.
 */
#include "datastore/datastore_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/json.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/base/uuid.h"
#include "datastore/gcrunning.h"
#include "datastore/newfile.h"

#define FORMAT_MAX_FILE 65536U
#define QUOTE_SIZE 64

#define KEY_FORMAT "format"
#define KEY_STORE "store"
#define KEY_REQUIRES "requires"
#define KEY_HOST "host"

#define MACHINE_ID_LEN 32

const char *datastore_join(const char *path, const char *rel, struct shown *s)
{
	/* What is too long for a path is too long for a message, too. */
	if (snprintf(s->text, sizeof(s->text), "%s/%s", path, rel) < 0)
		s->text[0] = '\0';
	return s->text;
}

/* Read the first bytes of a file that may be a link; "" if it can not be. */
static void read_line(const char *path, char *out, size_t size)
{
	struct err ignored = ERR_INIT;
	size_t n = 0;
	int fd = sysio_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0 ||
	    file_read_fully(fd, out, size - 1, &n, path, &ignored) < 0)
		n = 0;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	file_close(&fd);
}

void datastore_machine_id(char out[DATASTORE_ID_SIZE])
{
	static const char *const files[] = { "/etc/machine-id",
		"/var/lib/dbus/machine-id" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		read_line(files[i], out, DATASTORE_ID_SIZE);
		if (strlen(out) == MACHINE_ID_LEN &&
		    strspn(out, "0123456789abcdef") == MACHINE_ID_LEN)
			return;
	}
	out[0] = '\0';
}

/* An id that is shown and compared: of what UUIDs and machine-ids are. */
static int get_id(const struct js *doc, const char *key, bool *ret_found,
    char out[DATASTORE_ID_SIZE], struct err *e)
{
	const char *s = NULL;
	char quote[QUOTE_SIZE];
	int rc = js_get_str(doc, key, &s, ret_found, e);

	if (rc < 0 || s == NULL)
		return rc;
	if (strlen(s) >= DATASTORE_ID_SIZE || s[0] == '\0' ||
	    s[strspn(s, "0123456789abcdefABCDEF-")] != '\0') {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is '%s', want hex digits and -", key,
		    text_name(quote, sizeof(quote), s));
	}
	memcpy(out, s, strlen(s) + 1);
	return 0;
}

/* No version so far requires anything of its readers. */
static int check_requires(const struct js *doc, struct err *e)
{
	struct js *list = NULL;
	size_t n = 0;
	bool found = false;
	char quote[QUOTE_SIZE];
	int rc = js_get_array(doc, KEY_REQUIRES, &list, &n, &found, e);

	if (rc < 0 || !found || n == 0)
		return rc;
	if (js_str(js_at(list, 0)) == NULL) {
		return err_set(
		    e, ERR_CORRUPT, "'%s' is no list of words", KEY_REQUIRES);
	}
	return err_set(e, ERR_UNSUPPORTED,
	    "the datastore needs a cairn that knows '%s', which this version "
	    "does not",
	    text_name(quote, sizeof(quote), js_str(js_at(list, 0))));
}

static int decode_format(
    const struct js *doc, struct datastore_format *ret, struct err *e)
{
	struct datastore_format f = { .id = { 0 }, .host = { 0 } };
	uint64_t number = 0;
	bool found = false;
	int rc = js_get_u64(doc, KEY_FORMAT, &number, NULL, e);

	if (rc < 0)
		return rc;
	/* Before anything else: a later format may have other keys. */
	if (number > DATASTORE_FORMAT) {
		return err_set(e, ERR_UNSUPPORTED,
		    "the datastore needs a cairn of format %" PRIu64
		    ", this version knows formats up to %d",
		    number, DATASTORE_FORMAT);
	}
	if (number == 0) {
		return err_set(
		    e, ERR_CORRUPT, "'%s' is 0, want at least 1", KEY_FORMAT);
	}
	rc = check_requires(doc, e);
	if (rc == 0)
		rc = get_id(doc, KEY_STORE, NULL, f.id, e);
	if (rc == 0)
		rc = get_id(doc, KEY_HOST, &found, f.host, e);
	if (rc == 0)
		*ret = f;
	return rc;
}

int datastore_format_read(int cairn_fd, const char *path,
    struct datastore_format *ret, bool *ret_found, struct err *e)
{
	struct shown shown;
	struct buf text = BUF_INIT;
	struct js *doc = NULL;
	int rc = 0;

	(void)datastore_join(path, CAIRN_NAME "/" FORMAT_NAME, &shown);
	rc = file_read_at(
	    cairn_fd, FORMAT_NAME, FORMAT_MAX_FILE, &text, shown.text, e);
	if (rc == ERR_NOTFOUND) {
		rc = err_forget(e);
		*ret_found = false;
		goto out;
	}
	/* A file of another size is a file of another kind. */
	if (rc == ERR_LIMIT)
		rc = e->code = ERR_CORRUPT;
	if (rc < 0)
		goto out;
	rc = js_parse(text.data, text.len, &doc, e);
	if (rc == 0)
		rc = decode_format(doc, ret, e);
	if (rc < 0)
		err_prefix(e, "'%s'", shown.text);
	else
		*ret_found = true;
out:
	/* Nobody but the user knows whether there is a copy of it. */
	if (rc == ERR_CORRUPT)
		err_suffix(e,
		    "; put a copy of it back, or remove it: the next push "
		    "makes a new one");
	js_free(doc);
	buf_release(&text);
	return rc;
}

static int format_text(struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	char id[DATASTORE_ID_SIZE] = "";
	char host[DATASTORE_ID_SIZE] = "";
	struct js *doc = NULL;
	int rc = uuid_make(id, e);

	if (rc < 0)
		return rc;
	datastore_machine_id(host);
	doc = js_object();
	js_set_u64(doc, KEY_FORMAT, DATASTORE_FORMAT, &failure);
	js_set_str(doc, KEY_STORE, id, &failure);
	js_set(doc, KEY_REQUIRES, js_array(), &failure);
	js_set_str(doc, KEY_HOST, host[0] == '\0' ? NULL : host, &failure);
	rc = js_dump(doc, JS_COMPACT, out, &failure);
	js_free(doc);
	if (rc < 0) {
		*e = failure;
		return rc;
	}
	return buf_append_str(out, "\n", e);
}

/* Someone else may make it at the same time: then it is as good as ours. */
static int make_format(int cairn_fd, const char *shown,
    const struct file_owner *owner, struct err *e)
{
	struct buf text = BUF_INIT;
	const char *s = NULL;
	int rc = format_text(&text, e);

	if (rc < 0)
		goto out;
	s = buf_cstr(&text, e);
	rc = s == NULL
	    ? ERR_NOMEM
	    : newfile_make(cairn_fd, FORMAT_NAME, s, owner, shown, e);
	if (rc == ERR_EXISTS)
		rc = err_forget(e);
out:
	buf_release(&text);
	return rc;
}

/* A directory, if it is missing, on stable storage. */
static int ensure_dir(int dirfd, const char *name, const char *shown,
    const struct file_owner *owner, struct err *e)
{
	int rc = file_make_dir(dirfd, name, FILE_DIR_MODE, owner, shown, e);

	if (rc == ERR_EXISTS)
		return err_forget(e);
	return rc < 0 ? rc : file_sync(dirfd, shown, e);
}

static int ensure_running(int cairn_fd, const char *shown,
    const struct file_owner *owner, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	char blank[GCRUNNING_BYTES + 1];
	bool found = false;
	int rc = file_stat_at(cairn_fd, GCRUNNING_NAME, &st, &found, shown, e);

	if (rc < 0 || found)
		return rc;
	/* It has its size from the beginning: a full disk can still take what
	 * is written over it. */
	gcrunning_blank(blank);
	rc = newfile_make(cairn_fd, GCRUNNING_NAME, blank, owner, shown, e);
	return rc == ERR_EXISTS ? err_forget(e) : rc;
}

static int ensure_format(int cairn_fd, const char *path,
    const struct file_owner *owner, struct datastore_format *ret, struct err *e)
{
	struct shown shown;
	bool found = false;
	int rc = datastore_format_read(cairn_fd, path, ret, &found, e);

	if (rc < 0 || found)
		return rc;
	(void)datastore_join(path, CAIRN_NAME "/" FORMAT_NAME, &shown);
	rc = make_format(cairn_fd, shown.text, owner, e);
	if (rc == 0)
		rc = datastore_format_read(cairn_fd, path, ret, &found, e);
	if (rc == 0 && !found) {
		rc = err_set(e, ERR_BUSY,
		    "'%s' was made, and removed by another program; try again",
		    shown.text);
	}
	return rc;
}

int datastore_cairn_make(int root_fd, const char *path,
    const struct file_owner *owner, int *ret_fd, struct datastore_format *ret,
    struct err *e)
{
	struct datastore_format format = { .id = { 0 }, .host = { 0 } };
	struct shown shown;
	int fd = -1;
	int rc = 0;

	(void)datastore_join(path, CAIRN_NAME, &shown);
	rc = ensure_dir(root_fd, CAIRN_NAME, shown.text, owner, e);
	if (rc == 0)
		rc = file_open_dir(root_fd, CAIRN_NAME, &fd, shown.text, e);
	if (rc < 0)
		goto out;
	(void)datastore_join(path, CAIRN_NAME "/" SESSIONS_NAME, &shown);
	rc = ensure_dir(fd, SESSIONS_NAME, shown.text, owner, e);
	if (rc < 0)
		goto out;
	(void)datastore_join(path, CAIRN_NAME "/" GCRUNNING_NAME, &shown);
	rc = ensure_running(fd, shown.text, owner, e);
	/* Last: where it is, everything is. */
	if (rc == 0)
		rc = ensure_format(fd, path, owner, &format, e);
	if (rc < 0)
		goto out;
	*ret = format;
	*ret_fd = fd;
	fd = -1;
out:
	file_close(&fd);
	return rc;
}
