/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/ingest_internal.h"

/* Registrations must be renewed once a minute. */
#define BEAT_NS (10 * CLOCK_NS_PER_S)

/* How long a signal to stop may go unseen that came just before the wait. */
#define WAIT_MS 500

void ingest_pulse_init(
    struct ingest_pulse *p, struct session *s, struct task *task)
{
	p->session = s;
	p->task = task;
	p->last_ns = clock_boot_ns();
}

int ingest_pulse_check(struct ingest_pulse *p, struct err *e)
{
	int64_t now = clock_boot_ns();
	int rc = task_check(p->task, e);

	if (rc < 0 || now - p->last_ns < BEAT_NS)
		return rc;
	rc = session_beat(p->session, e);
	if (rc == 0)
		p->last_ns = now;
	return rc;
}

int ingest_reader_init(
    struct ingest_reader *r, const struct ingest_source *src, struct err *e)
{
	memset(r, 0, sizeof(*r));
	r->src = src;
	return file_stat_fd(src->fd, &r->stat, src->shown, e);
}

/* *ret_ready false: nothing to read yet. */
static int wait_for_data(
    const struct ingest_reader *r, bool *ret_ready, struct err *e)
{
	struct pollfd fds = { .fd = r->src->fd, .events = POLLIN };
	int rc = 0;

	if (S_ISREG(r->stat.stx_mode) || S_ISBLK(r->stat.stx_mode)) {
		*ret_ready = true;
		return 0;
	}
	rc = sysio_poll(&fds, 1, WAIT_MS);
	if (rc < 0 && errno != EINTR)
		return err_sys(e, "wait for '%s'", r->src->shown);
	/* The other end's close, or an error, is for read to tell. */
	*ret_ready = rc > 0;
	return 0;
}

int ingest_reader_read(
    struct ingest_reader *r, void *p, size_t n, size_t *ret_got, struct err *e)
{
	for (;;) {
		bool ready = false;
		ssize_t got = -1;
		int rc = wait_for_data(r, &ready, e);

		if (rc < 0)
			return rc;
		if (ready)
			got = sysio_read(r->src->fd, p, n);
		if (got >= 0) {
			r->at += (uint64_t)got;
			*ret_got = (size_t)got;
			return 0;
		}
		if (ready && errno != EINTR && errno != EAGAIN) {
			return err_sys(e, "read '%s' at offset %" PRIu64,
			    r->src->shown, r->at);
		}
		rc = r->idle(r->ctx, e);
		if (rc < 0)
			return rc;
	}
}

int ingest_reader_changed(
    const struct ingest_reader *r, bool *ret, struct err *e)
{
	struct statx now = { .stx_mask = 0 };
	int rc = 0;

	if (!S_ISREG(r->stat.stx_mode)) {
		*ret = false;
		return 0;
	}
	rc = file_stat_fd(r->src->fd, &now, r->src->shown, e);
	if (rc < 0)
		return rc;
	*ret = now.stx_size != r->stat.stx_size ||
	    clock_from_statx(&now.stx_mtime) !=
		clock_from_statx(&r->stat.stx_mtime);
	return 0;
}
