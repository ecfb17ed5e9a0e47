/* SPDX-License-Identifier: MIT */
/*
 * file: whole transfers, safe opening, atomic replacement.
 *
 * Everything works relative to an open directory and retries EINTR and short
 * transfers.  `shown` is the path that error messages name: what the user
 * would call the file.  Descriptors are O_CLOEXEC; symbolic links are not
 * followed in the last component (O_NOFOLLOW).
 */
#ifndef CAIRN_DATASTORE_BASE_FILE_H
#define CAIRN_DATASTORE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

/*
 * Who owns what is made inside a store, and with which mode: root gives each
 * new file and directory to the owner of `.chunks`; anyone else makes it as
 * himself (change == false).
 */
struct file_owner {
	bool change;
	uid_t uid;
	gid_t gid;
};

#define FILE_MODE 0644
#define FILE_DIR_MODE 0755

/* Close a descriptor whose data does not matter; fd -1 is allowed. *fd = -1 */
void file_close(int *fd);

int file_read_fully(int fd, void *p, size_t n, size_t *ret_got,
    const char *shown, struct err *e); /* *ret_got < n only at the end */
int file_pread_exact(int fd, void *p, size_t n, uint64_t at, const char *shown,
    struct err *e); /* too short: ERR_CORRUPT */
int file_write_fully(
    int fd, const void *p, size_t n, const char *shown, struct err *e);
int file_pwrite_fully(int fd, const void *p, size_t n, uint64_t at,
    const char *shown, struct err *e);

/*
 * Open a regular file for reading (O_NOFOLLOW, O_NONBLOCK so that a FIFO in
 * its place blocks nobody); ERR_NOTFOUND if there is none, ERR_CORRUPT if it
 * is not a regular file.  *ret_st may be NULL; it is filled by statx with
 * STATX_BASIC_STATS.
 */
int file_open_regular(int dirfd, const char *name, int *ret_fd,
    struct statx *ret_st, const char *shown, struct err *e);

/*
 * Read a whole regular file into out (replaced).  A file larger than limit is
 * ERR_LIMIT before any memory is taken; ERR_NOTFOUND if there is none.
 */
int file_read_at(int dirfd, const char *name, size_t limit, struct buf *out,
    const char *shown, struct err *e);

/*
 * Open a directory, one component after the other, following no symbolic
 * link.  path is relative ("." or "" is dirfd itself again).  ERR_NOTFOUND if
 * a component is missing; ERR_CORRUPT if one is a link or no directory.
 */
int file_open_dir(
    int dirfd, const char *path, int *ret_fd, const char *shown, struct err *e);

/*
 * Owner and mode of what was just made: umask may have taken bits away, and
 * root makes things for others.  owner may be NULL.
 */
int file_set_owner(int fd, const struct file_owner *owner, mode_t mode,
    const char *shown, struct err *e);

/* mkdir with owner and mode; ERR_EXISTS if the name is taken. */
int file_make_dir(int dirfd, const char *name, mode_t mode,
    const struct file_owner *owner, const char *shown, struct err *e);

/*
 * Make a new file "<stem><six random letters>" (O_EXCL, O_RDWR) with owner
 * and FILE_MODE.  ret_name has room for strlen(stem) + 7 bytes.
 */
int file_make_tmp(int dirfd, const char *stem, const struct file_owner *owner,
    int *ret_fd, char *ret_name, const char *shown, struct err *e);

int file_sync(int fd, const char *shown, struct err *e);

/*
 * Replace name by a file of these bytes: temporary file beside it, fsync,
 * rename, fsync of the directory.  Readers see the old or the new file, whole,
 * also after a power cut.  On failure the old one stands and the temporary
 * one is gone; only if the last step fails, the fsync of the directory, the
 * new one stands already and may be lost by a power cut.
 */
int file_replace_at(int dirfd, const char *name, const void *p, size_t n,
    const struct file_owner *owner, const char *shown, struct err *e);

/*
 * Rename within a directory, never over something: ERR_EXISTS if the name is
 * taken.  Where a rename can not be told so (NFS and others) a link is made
 * and the old name removed: for a moment the file has both.  Where there are
 * no links, either, what is left is a look before the rename: there a lock of
 * the caller's has to keep others out.  `shown` is what it is called then;
 * nothing is synced.
 */
int file_rename_new(int dirfd, const char *from, const char *to,
    const char *shown, struct err *e);

/* The same file?  Compares device and inode. */
bool file_same(const struct statx *a, const struct statx *b);

/* statx of an open descriptor / of a name, not followed. */
int file_stat_fd(
    int fd, struct statx *ret_st, const char *shown, struct err *e);
/* *ret_found says if it is there; ENOENT is no error. */
int file_stat_at(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, const char *shown, struct err *e);

/* atime = now, mtime kept, link not followed; ENOENT: *ret_found = false. */
int file_touch_at(int dirfd, const char *name, bool *ret_found,
    const char *shown, struct err *e);

/* unlink; ENOENT is no error. */
int file_unlink_at(
    int dirfd, const char *name, const char *shown, struct err *e);

/*
 * Call fn for each name of the directory but "." and "..", in readdir order.
 * fn's failure ends the walk and is returned.  dirfd stays open and need not
 * be at its start: a new description is opened.
 */
int file_each_name(int dirfd,
    int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
    const char *shown, struct err *e);

/* Names of a directory, sorted by bytes, into a NULL-terminated list. */
int file_list(int dirfd, char ***ret_names, size_t *ret_n, const char *shown,
    struct err *e);
void file_list_free(char **names);

/* n random bytes from the kernel. */
int file_random(void *p, size_t n, struct err *e);

#endif
