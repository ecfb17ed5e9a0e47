/* SPDX-License-Identifier: MIT */
/*
 * damage_odd: to tell of lines of the damage list that say nothing.
 */
#include "datastore/damage_internal.h"

#include "datastore/base/text.h"
#include "datastore/cairndir.h"

size_t damage_odd(
    const struct damage *d, const struct datastore *ds, struct task *task)
{
	char shown[CAIRNDIR_SHOWN];

	if (d->odd > 0)
		task_message(task, TASK_WARNING,
		    "'%s': %zu line%s can not be read: a chunk that was "
		    "recorded there as damaged may be reused until 'cairn "
		    "verify' of all snapshots has found it again",
		    datastore_shown(
			ds, CAIRNDIR "/" DAMAGED_NAME, shown, sizeof(shown)),
		    d->odd, text_plural(d->odd, "", "s"));
	return d->odd;
}
