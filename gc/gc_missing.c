/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/damage.h"
#include "gc/gc_internal.h"

/* Messages about missing chunks; more would hide all others. */
#define REPORTS_MAX 100U

#define DAMAGED_NAME "damaged"

/* The same of the snapshots that they hurt. */
#define HURT_MAX 100U

struct hurt {
	char *path;
	uint64_t lacks;
};

struct report {
	struct gc_run *run;
	uint64_t references;
	/* Roots come by their paths: those of a snapshot in a row. */
	struct hurt hurt[HURT_MAX];
	size_t hurt_n;
	char last[GC_SHOWN_SIZE];
};

static void count_hurt(struct report *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash == NULL ? 0 : (size_t)(slash - path);
	struct gc_result *result = &r->run->r;

	if (n == 0 || n >= sizeof(r->last))
		return;
	if (strncmp(r->last, path, n) != 0 || r->last[n] != '\0') {
		memcpy(r->last, path, n);
		r->last[n] = '\0';
		result->hurt_snapshots++;
		if (r->hurt_n < HURT_MAX) {
			/* Without memory it is only counted. */
			r->hurt[r->hurt_n].path = strdup(r->last);
			r->hurt_n++;
		}
	}
	if (result->hurt_snapshots <= HURT_MAX)
		r->hurt[r->hurt_n - 1].lacks++;
}

static void on_reference(void *ctx, const struct digest *d, const char *path)
{
	struct report *r = ctx;
	char hex[DIGEST_HEX_SIZE];
	char shown[GC_SHOWN_SIZE];

	count_hurt(r, path);
	r->references++;
	if (r->references > REPORTS_MAX)
		return;
	r->run->r.warnings++;
	digest_hex(d, hex);
	task_message(r->run->task, TASK_WARNING,
	    "chunk %s is missing; '%s' references it", hex,
	    text_name(shown, sizeof(shown), path));
}

static void tell_hurt(struct report *r)
{
	uint64_t all = r->run->r.hurt_snapshots;
	char shown[GC_SHOWN_SIZE];

	for (size_t i = 0; i < r->hurt_n; i++) {
		const struct hurt *h = &r->hurt[i];

		if (h->path == NULL)
			continue;
		r->run->r.warnings++;
		task_message(r->run->task, TASK_WARNING,
		    "'%s' is hurt: it lacks %" PRIu64 " chunk%s",
		    text_name(shown, sizeof(shown), h->path), h->lacks,
		    text_plural(h->lacks, "", "s"));
	}
	if (all > r->hurt_n)
		task_message(r->run->task, TASK_WARNING,
		    "and %" PRIu64 " more snapshot%s hurt", all - r->hurt_n,
		    text_plural(all - r->hurt_n, " is", "s are"));
}

int gc_missing_report(struct gc_run *run, struct err *e)
{
	struct report *r = NULL;
	struct mark_search search = {
		.digests = run->missing,
		.n = run->missing_n,
		.fn = on_reference,
	};
	int rc = 0;

	if (run->missing_n == 0)
		return 0;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return err_nomem(e);
	r->run = run;
	search.ctx = r;
	rc = mark_find_references(run->ds, &run->mark, &search, run->task, e);
	if (rc == 0 && r->references > REPORTS_MAX) {
		task_message(run->task, TASK_WARNING,
		    "and %" PRIu64 " more reference%s to missing chunks",
		    r->references - REPORTS_MAX,
		    text_plural(r->references - REPORTS_MAX, "", "s"));
	}
	if (rc == 0)
		tell_hurt(r);
	for (size_t i = 0; i < r->hurt_n; i++)
		free(r->hurt[i].path);
	free(r);
	return rc;
}

/* Is there a list, or at least a place for one? */
static bool has_damage_list(const struct gc_run *run, bool may_create)
{
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;
	int fd = -1;

	if (cairndir_open(run->ds, CAIRNDIR, &fd, &found, &ignored) < 0 ||
	    !found)
		return false;
	if (!may_create &&
	    file_stat_at(
		fd, DAMAGED_NAME, &st, &found, DAMAGED_NAME, &ignored) < 0)
		found = false;
	file_close(&fd);
	return found;
}

/* What is on the list already, or was stored again meanwhile, is not new. */
static int pick_new(struct gc_run *run, const struct damage *known,
    struct digest *out, size_t *ret_n, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < run->missing_n; i++) {
		const struct digest *d = &run->missing[i];
		struct store_entry entry;
		bool found = false;

		if (damage_contains(known, d))
			continue;
		if (store_stat(run->ds->store, d, &entry, &found, e) < 0)
			return e->code;
		if (!found) {
			out[n] = *d;
			n++;
		}
	}
	*ret_n = n;
	return 0;
}

void gc_missing_record(struct gc_run *run, bool may_create)
{
	struct damage *known = NULL;
	struct digest *fresh = NULL;
	struct err why = ERR_INIT;
	size_t n = 0;
	int rc = 0;

	if (run->missing_n == 0 || run->opts->dry_run ||
	    !has_damage_list(run, may_create))
		return;
	fresh = calloc(run->missing_n, sizeof(*fresh));
	if (fresh == NULL) {
		rc = err_nomem(&why);
	} else {
		rc = damage_read(run->ds, &known, &why);
	}
	if (rc == 0 && fresh != NULL)
		rc = pick_new(run, known, fresh, &n, &why);
	if (rc == 0 && n > 0)
		rc = damage_append_all(run->ds, fresh, n, DAMAGE_MISSING, &why);
	if (rc < 0) {
		findings_warn(&run->findings,
		    "the missing chunks can not be recorded, and the next "
		    "backups may refer to them: %s",
		    why.msg);
	}
	damage_free(known);
	free(fresh);
}
