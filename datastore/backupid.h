/* SPDX-License-Identifier: MIT */
/*
 * backupid: names of namespaces, groups and snapshots, and their places.
 *
 *     namespace   "prod/db"                       ns/prod/ns/db
 *     group       TYPE/ID, TYPE ct | host | vm    .../vm/100
 *     snapshot    TYPE/ID/TIME .../vm/100/2026-07-15T08:30:00Z
 *
 * A safe name begins with [A-Za-z0-9_] and goes on with [A-Za-z0-9._-]; that
 * excludes "..", names with a leading dot and anything with a slash.  Plain
 * values: copied by assignment, nothing to free.  Pure.
 */
#ifndef CAIRN_DATASTORE_BACKUPID_H
#define CAIRN_DATASTORE_BACKUPID_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"

#define BACKUP_NS_MAX 256     /* characters of the printed form */
#define BACKUP_NS_DEPTH_MAX 7 /* levels below the root */
#define BACKUP_ID_MAX 255     /* a file name */
#define BACKUP_NAME_MAX 200   /* of an archive, so that temporaries fit */
#define BACKUP_TIME_SIZE 21   /* "2026-07-15T08:30:00Z" and NUL */
/* ns/ before each level, then type, id, time, file name. */
#define BACKUP_PATH_SIZE 1024

enum backup_type {
	BACKUP_CT,
	BACKUP_HOST,
	BACKUP_VM,
};

struct backup_ns {
	char name[BACKUP_NS_MAX + 1]; /* "" is the root */
};

struct backup_group {
	struct backup_ns ns;
	enum backup_type type;
	char id[BACKUP_ID_MAX + 1];
};

struct backup_snapshot {
	struct backup_group group;
	int64_t time; /* epoch seconds, at least 1, at most year 9999 */
};

bool backupid_is_safe(const char *name);
const char *backup_type_name(enum backup_type t);
bool backup_type_parse(const char *s, enum backup_type *ret);

/* ERR_INVALID says what is wrong with the text. */
int backup_ns_parse(const char *s, struct backup_ns *ret, struct err *e);
int backup_group_parse(const struct backup_ns *ns, const char *s,
    struct backup_group *ret, struct err *e);
/* TYPE/ID/TIME; "latest" is tree.h's affair. */
int backup_snapshot_parse(const struct backup_ns *ns, const char *s,
    struct backup_snapshot *ret, struct err *e);

/* The directory below the datastore's root; "" for the root namespace. */
void backup_ns_path(const struct backup_ns *ns, char out[BACKUP_PATH_SIZE]);
void backup_group_path(
    const struct backup_group *g, char out[BACKUP_PATH_SIZE]);
void backup_snapshot_path(
    const struct backup_snapshot *s, char out[BACKUP_PATH_SIZE]);

/*
 * And back, of paths from files that may say anything: false if it is not
 * exactly what these functions give.
 */
bool backup_group_from_path(const char *path, struct backup_group *ret);
bool backup_snapshot_from_path(const char *path, struct backup_snapshot *ret);

/*
 * What people see: "vm/100/2026-07-15T08:30:00Z", with "[prod/db] " before it
 * outside the root namespace.
 */
void backup_group_text(
    const struct backup_group *g, char out[BACKUP_PATH_SIZE]);
void backup_snapshot_text(
    const struct backup_snapshot *s, char out[BACKUP_PATH_SIZE]);

/* ct < host < vm; ids that are numbers by value and before all others, which
 * go by bytes; namespaces by bytes before all of that. */
int backup_group_compare(
    const struct backup_group *a, const struct backup_group *b);

/* The three suffixes of a snapshot's files, and what a name is. */
enum backup_file_kind {
	BACKUP_FILE_FIDX,
	BACKUP_FILE_DIDX,
	BACKUP_FILE_BLOB,
	BACKUP_FILE_NONE, /* no archive: a temporary, .protected, ... */
};
enum backup_file_kind backup_file_kind(const char *filename);

#define BACKUP_MANIFEST "index.json.blob"
#define BACKUP_CLIENT_LOG "client.log.blob"
#define BACKUP_PROTECTED ".protected"

#endif
