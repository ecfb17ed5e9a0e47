/* SPDX-License-Identifier: MIT */
/*
 * config: the config file's datastores and their settings.
 *
 *     [datastore "main"]
 *     path = /srv/backup
 *     gc-touch-batch = 1048576
 *
 * Unknown keys, bad values, duplicate sections and keys are errors with
 * file:line.  A store that no section names has the defaults.
 */
#ifndef CAIRN_DATASTORE_CONFIG_H
#define CAIRN_DATASTORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/zone.h"
#include "datastore/retention.h"

enum sync_level {
	SYNC_NONE,       /* chunks are not synced */
	SYNC_FILESYSTEM, /* one syncfs before the snapshot is published */
	SYNC_FILE,       /* each chunk and its directory, then syncfs */
};

bool sync_level_parse(const char *s, enum sync_level *ret);

#define GC_TOUCH_BATCH_OFF 0U
#define GC_TOUCH_BATCH_DEFAULT 1048576U
#define GC_TOUCH_BATCH_MIN 1024U
#define GC_TOUCH_BATCH_MAX 16777216U
#define GC_CUTOFF_DEFAULT_S 86700U /* 24h5m, as PBS */

/* min-free: a share of the file system, or bytes. */
struct min_free {
	uint64_t bytes;        /* used if percent_x100 is 0 */
	unsigned percent_x100; /* 500 = 5 % */
};

/* Longest directory, and its NUL. */
#define CONFIG_DIR_SIZE 1024

struct settings {
	uint32_t gc_touch_batch; /* GC_TOUCH_BATCH_OFF or MIN..MAX */
	uint64_t gc_cutoff_s;
	enum sync_level sync_level;
	int compression; /* zstd level of new chunks */
	struct min_free min_free;
	char owner[128]; /* content of PBS's owner file of new groups */
	struct retention_policy retention; /* of prune, if none is given */
	char time_zone[ZONE_NAME_SIZE];    /* of its days and weeks */
	/* Where the chunk index lies; "": in `.cairn`. */
	char index_dir[CONFIG_DIR_SIZE];
};

struct settings settings_default(void);

int settings_parse_touch_batch(const char *s, uint32_t *ret, struct err *e);
int settings_parse_compression(const char *s, int *ret, struct err *e);
int settings_parse_min_free(const char *s, struct min_free *ret, struct err *e);

struct config_datastore {
	char *name;
	char *path;
	struct settings settings;
	unsigned line; /* of its heading */
};

struct config {
	struct config_datastore *stores;
	size_t stores_n;
};

#define CONFIG_INIT                           \
	{                                     \
		.stores = NULL, .stores_n = 0 \
	}
#define CONFIG_PATH_DEFAULT "/etc/cairn/cairn.conf"

/* ERR_NOTFOUND if the file is not there; ERR_INVALID with file:line. */
int config_read(const char *path, struct config *ret, struct err *e);
void config_release(struct config *c);

/* NULL if there is none; borrowed.  By path: compares device and inode. */
const struct config_datastore *config_find_name(
    const struct config *c, const char *name);
const struct config_datastore *config_find_path(
    const struct config *c, const char *path);

#endif
