/* SPDX-License-Identifier: MIT */
#include "cli/gaps.h"

#include <inttypes.h>
#include <string.h>

#include "cli/output.h"
#include "datastore/base/text.h"

#define TOLD_MAX 20U /* a line each; more would hide all others */

static void tell_last(struct gaps *g)
{
	if (g->ranges == 0 || g->ranges > TOLD_MAX)
		return;
	task_message(g->task, TASK_WARNING,
	    "'%s': bytes %" PRIu64 " to %" PRIu64 " are damaged, and %s: %s",
	    g->shown, g->kept[g->ranges - 1].start, g->end - 1,
	    g->in_place ? "not restored" : "zeros now", g->why.msg);
}

/* Chunks come in order; those that touch are one range. */
static void on_gap(
    void *ctx, uint64_t start, uint64_t end, const struct err *why)
{
	struct gaps *g = ctx;

	g->bytes += end - start;
	if (g->ranges == 0 || start != g->end) {
		tell_last(g);
		if (g->ranges < GAPS_KEPT)
			g->kept[g->ranges].start = start;
		g->ranges++;
		g->why = *why;
	}
	g->end = end;
	if (g->ranges <= GAPS_KEPT)
		g->kept[g->ranges - 1].end = end;
}

void gaps_init(
    struct gaps *g, struct task *task, const char *shown, bool in_place)
{
	memset(g, 0, sizeof(*g));
	g->task = task;
	g->shown = shown;
	g->in_place = in_place;
	g->hook = (struct archive_gaps){ .fn = on_gap, .ctx = g };
}

void gaps_end(struct gaps *g)
{
	tell_last(g);
	if (g->ranges > TOLD_MAX)
		task_message(g->task, TASK_WARNING,
		    "and %" PRIu64 " more damaged range%s",
		    g->ranges - TOLD_MAX,
		    text_plural(g->ranges - TOLD_MAX, "", "s"));
}

void gaps_json(const struct gaps *g, struct js *doc, struct err *e)
{
	struct js *list = js_array();

	js_set_u64(doc, "damaged-bytes", g->bytes, e);
	js_set_u64(doc, "damaged-ranges", g->ranges, e);
	for (uint64_t i = 0; i < g->ranges && i < GAPS_KEPT; i++) {
		struct js *o = js_object();

		js_set_u64(o, "start", g->kept[i].start, e);
		js_set_u64(o, "end", g->kept[i].end, e);
		js_append(list, o, e);
	}
	js_set(doc, "damaged-at", list, e);
}

int gaps_print(const struct gaps *g, struct err *e)
{
	char size[TEXT_SIZE_SIZE];

	if (g->ranges == 0)
		return 0;
	return output_text(e, "  damaged: %s in %" PRIu64 " range%s, %s\n",
	    text_size(size, g->bytes), g->ranges,
	    text_plural(g->ranges, "", "s"),
	    g->in_place ? "not restored: the target keeps what it had there"
			: "zeros in the target");
}
