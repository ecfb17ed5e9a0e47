/* SPDX-License-Identifier: MIT */
/*
 * fuzz_conf: any bytes as a config file.  A refusal names the file and, but
 * for its length, a line; what is accepted is within its limits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datastore/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static void check(const struct config *c)
{
	for (size_t i = 0; i < c->stores_n; i++) {
		const struct config_datastore *d = &c->stores[i];
		const struct settings *s = &d->settings;

		MUST(d->path[0] == '/' && d->name[0] != '\0' && d->line > 0);
		MUST(config_find_name(c, d->name) == d);
		MUST(s->gc_touch_batch == GC_TOUCH_BATCH_OFF ||
		    (s->gc_touch_batch >= GC_TOUCH_BATCH_MIN &&
			s->gc_touch_batch <= GC_TOUCH_BATCH_MAX));
		MUST(s->compression >= 1 && s->compression <= 19);
		MUST(s->min_free.percent_x100 <= 10000);
		MUST(strchr(s->owner, '@') != NULL);
		MUST(strpbrk(s->owner, "\n\r/ ") == NULL);
		MUST(s->time_zone[0] != '\0' && s->time_zone[0] != '/');
		for (size_t k = 0; k < RETENTION_RULES; k++)
			MUST(s->retention.given[k] ||
			    s->retention.value[k] == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c = CONFIG_INIT;
	struct err e = ERR_INIT;
	char path[64];
	int fd = memfd_create("conf", MFD_CLOEXEC);
	int rc = 0;

	MUST(fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = config_read(path, &c, &e);
	if (rc < 0) {
		MUST(e.code == rc && c.stores_n == 0);
		MUST(rc == ERR_LIMIT || rc == ERR_INVALID);
		MUST(strstr(e.msg, path) != NULL);
	} else {
		check(&c);
	}
	config_release(&c);
	(void)close(fd);
	return 0;
}
