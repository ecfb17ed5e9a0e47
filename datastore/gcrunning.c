/* SPDX-License-Identifier: MIT */
#include "datastore/gcrunning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"

/* Others' versions may write more. */
#define READ_MAX 16384U

#define KEY_HOST "host"
#define KEY_MACHINE "machine-id"
#define KEY_PID "pid"
#define KEY_START "start"
#define KEY_STATE "state"
#define KEY_PHASE "phase"
#define KEY_PERCENT "percent"
#define KEY_UPDATED "updated"
#define KEY_ENDED "ended"
#define KEY_CHUNKS "removed-chunks"
#define KEY_BYTES "removed-bytes"
#define KEY_WHY "why"

void gcrunning_init(struct gcrunning *g)
{
	memset(g, 0, sizeof(*g));
	registration_this_machine(g->host, g->machine_id);
	g->pid = getpid();
	g->start = clock_now_s();
	g->updated = g->start;
	(void)snprintf(g->state, sizeof(g->state), GCRUNNING_RUNNING);
}

static const char *shown_file(
    const struct datastore *ds, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown(
	    ds, CAIRNDIR "/" GCRUNNING_NAME, out, CAIRNDIR_SHOWN);
}

static void set_time(
    struct js *doc, const char *key, int64_t epoch, struct err *e)
{
	char text[TEXT_TIME_SIZE];

	if (epoch != 0)
		js_set_str(doc, key, text_time(text, epoch), e);
}

static int encode(const struct gcrunning *g, struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *doc = js_object();
	char why[sizeof(g->why)];
	int rc = 0;

	js_set_str(doc, KEY_HOST, g->host, &failure);
	js_set_str(doc, KEY_MACHINE, g->machine_id, &failure);
	js_set_i64(doc, KEY_PID, g->pid, &failure);
	set_time(doc, KEY_START, g->start, &failure);
	js_set_str(doc, KEY_STATE, g->state, &failure);
	js_set_str(doc, KEY_PHASE, g->phase, &failure);
	js_set_u64(doc, KEY_PERCENT, g->percent, &failure);
	set_time(doc, KEY_UPDATED, g->updated, &failure);
	set_time(doc, KEY_ENDED, g->ended, &failure);
	js_set_u64(doc, KEY_CHUNKS, g->removed_chunks, &failure);
	js_set_u64(doc, KEY_BYTES, g->removed_bytes, &failure);
	/* Readable, whatever bytes it names. */
	js_set_str(doc, KEY_WHY, text_name(why, sizeof(why), g->why), &failure);
	rc = js_dump(doc, JS_COMPACT, out, &failure);
	js_free(doc);
	if (rc < 0)
		*e = failure;
	return rc;
}

/* One of these fields, cut where it is too long; absent: as it was. */
static int get_text(const struct js *doc, const char *key, char *out,
    size_t size, struct err *e)
{
	const char *s = NULL;
	bool found = false;
	int rc = js_get_str(doc, key, &s, &found, e);

	if (rc == 0 && found)
		(void)snprintf(out, size, "%s", s);
	return rc;
}

static int get_time(
    const struct js *doc, const char *key, int64_t *ret, struct err *e)
{
	const char *s = NULL;
	bool found = false;
	int rc = js_get_str(doc, key, &s, &found, e);

	if (rc == 0 && found && !text_parse_time(s, ret))
		rc = err_set(e, ERR_CORRUPT, "'%s' is no time", key);
	return rc;
}

static int get_numbers(const struct js *doc, struct gcrunning *g, struct err *e)
{
	uint64_t percent = 0;
	bool found = false;
	int rc = js_get_u64(doc, KEY_PERCENT, &percent, &found, e);

	if (rc == 0)
		rc = js_get_u64(doc, KEY_CHUNKS, &g->removed_chunks, &found, e);
	if (rc == 0)
		rc = js_get_u64(doc, KEY_BYTES, &g->removed_bytes, &found, e);
	if (rc == 0)
		g->percent = percent > 100 ? 100 : (uint32_t)percent;
	return rc;
}

static int decode(const struct buf *text, struct gcrunning *g, struct err *e)
{
	const char *host = NULL;
	struct js *doc = NULL;
	int rc = js_parse(text->data, text->len, &doc, e);

	if (rc == 0)
		rc = js_get_str(doc, KEY_HOST, &host, NULL, e);
	if (rc == 0)
		(void)snprintf(g->host, sizeof(g->host), "%s", host);
	if (rc == 0)
		rc = get_text(
		    doc, KEY_MACHINE, g->machine_id, sizeof(g->machine_id), e);
	if (rc == 0)
		rc = js_get_i64(doc, KEY_PID, &g->pid, NULL, e);
	if (rc == 0)
		rc = get_time(doc, KEY_START, &g->start, e);
	if (rc == 0)
		rc = get_text(doc, KEY_STATE, g->state, sizeof(g->state), e);
	if (rc == 0)
		rc = get_text(doc, KEY_PHASE, g->phase, sizeof(g->phase), e);
	if (rc == 0)
		rc = get_text(doc, KEY_WHY, g->why, sizeof(g->why), e);
	if (rc == 0)
		rc = get_time(doc, KEY_UPDATED, &g->updated, e);
	if (rc == 0)
		rc = get_time(doc, KEY_ENDED, &g->ended, e);
	if (rc == 0)
		rc = get_numbers(doc, g, e);
	js_free(doc);
	return rc;
}

int gcrunning_read(const struct datastore *ds, struct gcrunning *ret,
    bool *ret_found, struct err *e)
{
	/* Who wrote it before there was a state was running. */
	struct gcrunning g = { .state = GCRUNNING_RUNNING };
	struct err odd = ERR_INIT;
	char shown[CAIRNDIR_SHOWN];
	struct buf text = BUF_INIT;
	bool found = false;
	int dirfd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc == 0 && found)
		rc = file_read_at(dirfd, GCRUNNING_NAME, READ_MAX, &text,
		    shown_file(ds, shown), e);
	if (rc == ERR_NOTFOUND || rc == ERR_LIMIT || rc == ERR_CORRUPT) {
		rc = err_forget(e);
		found = false;
	}
	if (rc == 0 && found)
		found = decode(&text, &g, &odd) == 0;
	file_close(&dirfd);
	buf_release(&text);
	if (rc < 0)
		return rc;
	if (found)
		*ret = g;
	*ret_found = found;
	return 0;
}

int gcrunning_open(const struct datastore *ds, int *ret_fd, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	bool found = false;
	int dirfd = -1;
	int fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc == 0 && found) {
		fd = sysio_openat(dirfd, GCRUNNING_NAME,
		    O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
		    0);
		if (fd < 0 && errno != ENOENT)
			rc = err_sys(e, "open '%s'", shown_file(ds, shown));
	}
	file_close(&dirfd);
	if (rc == 0)
		*ret_fd = fd;
	return rc;
}

int gcrunning_write(const struct datastore *ds, int fd,
    const struct gcrunning *g, struct err *e)
{
	char record[GCRUNNING_BYTES + 1];
	struct statx st = { .stx_mask = 0 };
	char shown[CAIRNDIR_SHOWN];
	struct buf text = BUF_INIT;
	int rc = encode(g, &text, e);

	if (rc == 0 && text.len >= GCRUNNING_BYTES)
		rc = err_set(e, ERR_LIMIT, "'%s': a record of %zu bytes",
		    shown_file(ds, shown), text.len);
	if (rc == 0) {
		gcrunning_blank(record);
		memcpy(record, text.data, text.len);
		rc = file_pwrite_fully(
		    fd, record, GCRUNNING_BYTES, 0, shown_file(ds, shown), e);
	}
	/* What another version wrote behind it would spoil it. */
	if (rc == 0)
		rc = file_stat_fd(fd, &st, shown_file(ds, shown), e);
	if (rc == 0 && st.stx_size > GCRUNNING_BYTES &&
	    sysio_ftruncate(fd, GCRUNNING_BYTES) < 0)
		rc = err_sys(e, "set the size of '%s'", shown_file(ds, shown));
	buf_release(&text);
	return rc;
}

void gcrunning_blank(char out[GCRUNNING_BYTES + 1])
{
	memset(out, ' ', GCRUNNING_BYTES);
	out[GCRUNNING_BYTES - 1] = '\n';
	out[GCRUNNING_BYTES] = '\0';
}
