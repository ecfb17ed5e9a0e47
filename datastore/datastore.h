/* SPDX-License-Identifier: MIT */
/*
 * datastore: a directory with chunks and snapshots, opened.
 *
 *     <path>/.lock        locks (locks.h); never replaced
 *     <path>/.chunks/     the chunk store
 *     <path>/{ct,host,vm,ns}/   groups and namespaces (tree.h)
 *     <path>/.cairn/      everything of cairn's own: format, sessions/,
 *                         gc.running, damaged, roots, removed, ...
 *
 * A directory without `.cairn/format` is a store of Proxmox Backup Server and
 * is used as one; `init`, `push` and `verify` make `.cairn/` where it is
 * missing, every other command works without it.
 */
#ifndef CAIRN_DATASTORE_DATASTORE_H
#define CAIRN_DATASTORE_DATASTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/file.h"
#include "datastore/base/lockfile.h"
#include "datastore/base/task.h"
#include "datastore/config.h"
#include "datastore/store.h"

#define DATASTORE_FORMAT 1
#define DATASTORE_ID_SIZE 37 /* UUID text and NUL */

enum datastore_access {
	/* No lock is taken on `.lock`, nothing is written. */
	DATASTORE_READ,
	/*
	 * For every command that writes, other than GC.  Refuses, saying which
	 * user to be, unless root or the owner of `.chunks`.  Excludes
	 * programs that lock the whole of `.lock` (PBS) by an exclusive lock
	 * on a byte of its own, as long as the datastore is open (I9).
	 */
	DATASTORE_WRITE,
	/* GC: as WRITE, without that byte: it locks LOCK_BYTE_GC itself. */
	DATASTORE_GC,
};

/* Everyone may read the fields; only datastore.c changes them. */
struct datastore {
	char *path; /* absolute or as given; what messages show */
	int root_fd;
	int chunks_fd;
	int cairn_fd; /* -1 while there is no .cairn */
	enum datastore_access access;
	bool has_format;              /* .cairn/format exists */
	char id[DATASTORE_ID_SIZE];   /* "" without .cairn/format */
	char host[DATASTORE_ID_SIZE]; /* machine-id that made .cairn */
	struct file_owner owner;
	struct settings settings;
	struct lockfile *locks; /* NULL for DATASTORE_READ */
	uint64_t own_byte;      /* 0: none */
	struct store *store;
};

struct datastore_init_opts {
	bool pbs_layout; /* all 65,536 prefix directories at once */
};

/*
 * Make a datastore in `path` (made if missing, but not its parents).  Refuses
 * a directory that holds anything but `lost+found` and names with a leading
 * dot, and one that has a `.chunks` or `.lock` already (ERR_EXISTS); one that
 * lies within another datastore; a file system whose access times or locks do
 * not work (probe.h).  A failed init removes what it made.
 *
 * `.chunks` gets its name last, when all else is on stable storage: until
 * then the directory is no datastore, and an init that was interrupted is
 * simply run again.
 *
 * Run by root, it belongs to whom the directory belongs; with pbs_layout, to
 * the user `backup`, with the modes that Proxmox Backup Server wants.  Where
 * that can not be had, a warning says so.
 */
int datastore_init(const char *path, const struct datastore_init_opts *opts,
    struct task *task, struct err *e);

/*
 * settings may be NULL: defaults.  Checks that `.chunks` is a directory on
 * the same device, no symbolic link, that `.lock` is a regular file, that no
 * directory above is a datastore (nested stores are refused), and that
 * `.cairn/format` asks for nothing we do not know.
 * ERR_NOTFOUND names what is missing; ERR_BUSY if another program (PBS) has
 * the whole store locked.
 */
int datastore_open(const char *path, enum datastore_access access,
    const struct settings *settings, struct datastore **ret, struct err *e);
void datastore_close(struct datastore *ds); /* NULL is allowed */

/* Make .cairn, .cairn/sessions and .cairn/format where they are missing. */
int datastore_ensure_cairn(struct datastore *ds, struct err *e);

/*
 * The machine-id of this machine, what `host` is compared with; "" where it
 * has none.
 */
void datastore_machine_id(char out[DATASTORE_ID_SIZE]);

/* "<path>/<rel>" for messages; returns out. */
const char *datastore_shown(
    const struct datastore *ds, const char *rel, char *out, size_t size);
/* "<path>/<dir>/<name>"; without a name "<path>/<dir>". */
const char *datastore_shown_in(const struct datastore *ds, const char *dir,
    const char *name, char *out, size_t size);

struct datastore_space {
	uint64_t total;
	uint64_t used;
	uint64_t available;    /* to this user */
	uint64_t inodes_total; /* 0 where the file system does not count */
	uint64_t inodes_free;
};
int datastore_space(
    const struct datastore *ds, struct datastore_space *ret, struct err *e);

/* ERR_REFUSED with the figures if less than min-free is available. */
int datastore_check_min_free(
    const struct datastore *ds, const struct min_free *want, struct err *e);

/* True on NFS, SMB, FUSE and other file systems with another's clock. */
bool datastore_is_network(const struct datastore *ds);

/* True where many changed inodes are best changed in order of their numbers. */
bool datastore_is_by_inode(const struct datastore *ds);

/* Type of the file system in words, or its magic in hex. */
const char *datastore_fs_name(const struct datastore *ds, char out[32]);

#endif
