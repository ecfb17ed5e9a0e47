/* SPDX-License-Identifier: MIT */
#include "cli/hint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/buf.h"

/* What no shell reads as anything but itself. */
static bool is_plain(const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./:@%+=,";

	return s[0] != '\0' && s[strspn(s, plain)] == '\0';
}

static bool is_printable(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static int append_word(struct buf *out, const char *s, struct err *e)
{
	int rc = 0;

	if (is_plain(s))
		return buf_append_str(out, s, e);
	rc = buf_append_str(out, "'", e);
	for (; *s != '\0' && rc == 0; s++)
		rc = *s == '\'' ? buf_append_str(out, "'\\''", e)
				: buf_append(out, s, 1, e);
	return rc < 0 ? rc : buf_append_str(out, "'", e);
}

static int append_options(const struct app *app, enum hint_scope scope,
    struct buf *out, struct err *e)
{
	static const struct {
		const char *option;
		const char *text;
		enum hint_scope from;
	} options[] = {
		{ "datastore", " -d ", HINT_STORE },
		{ "config", " --config ", HINT_STORE },
		{ "ns", " --ns ", HINT_NAMESPACE },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const char *v = invocation_value(app->inv, options[i].option);

		/* Control characters can not be shown so that they can be
		 * copied. */
		if (v == NULL || options[i].from > scope || !is_printable(v))
			continue;
		rc = buf_append_str(out, options[i].text, e);
		if (rc == 0)
			rc = append_word(out, v, e);
		if (rc < 0)
			break;
	}
	return rc;
}

const char *hint_command(const struct app *app, enum hint_scope scope,
    const char *rest, char out[HINT_SIZE])
{
	struct err ignored = ERR_INIT; /* it is a hint */
	struct buf text = BUF_INIT;
	const char *options = NULL;
	int n = 0;

	if (append_options(app, scope, &text, &ignored) == 0)
		options = buf_cstr(&text, &ignored);
	n = snprintf(
	    out, HINT_SIZE, "cairn%s %s", options != NULL ? options : "", rest);
	if (n < 0 || n >= HINT_SIZE)
		(void)snprintf(out, HINT_SIZE, "cairn %s", rest);
	buf_release(&text);
	return out;
}

void hint_no_space(const struct app *app, struct err *e)
{
	char forget[HINT_SIZE];
	char gc[HINT_SIZE];

	if (!err_is_sys(e, ENOSPC) && !err_is_sys(e, EDQUOT))
		return;
	err_suffix(e,
	    "; to make room: '%s' (or 'prune') what is not needed, then '%s'",
	    hint_command(app, HINT_NAMESPACE, "forget SNAPSHOT", forget),
	    hint_command(app, HINT_STORE, "gc --cutoff 0", gc));
}

/* As it is typed: --ns says the namespace. */
const char *hint_snapshot(const struct app *app, const char *command,
    const struct backup_snapshot *id, char out[HINT_SIZE])
{
	struct backup_snapshot here = *id;
	char name[BACKUP_PATH_SIZE];
	char rest[BACKUP_PATH_SIZE + 32];

	here.group.ns.name[0] = '\0';
	backup_snapshot_text(&here, name);
	(void)snprintf(rest, sizeof(rest), "%s %s", command, name);
	return hint_command(app, HINT_NAMESPACE, rest, out);
}

const char *hint_group(const struct app *app, const char *command,
    const struct backup_group *g, char out[HINT_SIZE])
{
	struct backup_group here = *g;
	char name[BACKUP_PATH_SIZE];
	char rest[BACKUP_PATH_SIZE + 32];

	here.ns.name[0] = '\0';
	backup_group_text(&here, name);
	(void)snprintf(rest, sizeof(rest), "%s %s", command, name);
	return hint_command(app, HINT_NAMESPACE, rest, out);
}

void hint_damaged_file(
    const struct app *app, const struct backup_snapshot *id, struct err *e)
{
	char verify[HINT_SIZE];
	char list[HINT_SIZE];

	if (e->code != ERR_CORRUPT && !err_is_sys(e, EIO))
		return;
	err_suffix(e,
	    "; '%s' names all that is damaged, '%s' the snapshots that may "
	    "have it whole",
	    hint_snapshot(app, "verify", id, verify),
	    hint_group(app, "list", &id->group, list));
}

void hint_tell_damage(
    const struct app *app, const struct backup_snapshot *id, struct task *task)
{
	char verify[HINT_SIZE];
	char list[HINT_SIZE];

	task_message(task, TASK_NOTE,
	    "'%s' names all that is damaged, and a push of the same data mends "
	    "its chunks; '%s' names the snapshots that may have it whole",
	    hint_snapshot(app, "verify", id, verify),
	    hint_group(app, "list", &id->group, list));
}

void hint_unfinished(
    const struct app *app, const struct backup_snapshot *id, struct err *e)
{
	char list[HINT_SIZE];

	if (e->code != ERR_NOTFOUND)
		return;
	err_suffix(e,
	    ": its push has not ended, never did, or the manifest was removed; "
	    "'%s' names the snapshots that are finished",
	    hint_group(app, "list", &id->group, list));
}

void hint_damage(const struct app *app, const struct backup_snapshot *id,
    const char *rest, struct err *e)
{
	char command[HINT_SIZE];

	if (e->code != ERR_CORRUPT && !err_is_sys(e, EIO))
		return;
	err_suffix(e,
	    "; '%s' names all that is damaged%s%s, and a push of the same "
	    "data mends it",
	    hint_snapshot(app, "verify", id, command), rest != NULL ? ", " : "",
	    rest != NULL ? rest : "");
}
