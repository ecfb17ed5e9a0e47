/* SPDX-License-Identifier: MIT */
/*
 * The part of datastore.h about the file system that a datastore lies on.
 */
#include "datastore/datastore.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

#define FS_NAME_SIZE 32
#define MAKE_ROOM \
	"; 'cairn forget' or 'prune', then 'cairn gc --cutoff 0' make room"

#define PERCENT_X100 10000U

int datastore_space(
    const struct datastore *ds, struct datastore_space *ret, struct err *e)
{
	struct statvfs st;
	struct datastore_space s = { .total = 0 };
	int rc = -1;

	do {
		rc = sysio_fstatvfs(ds->root_fd, &st);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return err_sys(e, "free space of '%s'", ds->path);
	s.total = (uint64_t)st.f_blocks * st.f_frsize;
	s.used = (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize;
	s.available = (uint64_t)st.f_bavail * st.f_frsize;
	s.inodes_total = st.f_files;
	s.inodes_free = st.f_ffree;
	*ret = s;
	return 0;
}

/* A share of the whole, rounded down to the hundredth of a percent. */
static unsigned share_x100(uint64_t part, uint64_t whole)
{
	uint64_t unit = whole / PERCENT_X100;

	if (unit == 0)
		return 0;
	part /= unit;
	return part > PERCENT_X100 ? PERCENT_X100 : (unsigned)part;
}

int datastore_check_min_free(
    const struct datastore *ds, const struct min_free *want, struct err *e)
{
	struct datastore_space s = { .total = 0 };
	uint64_t bytes = want->bytes;
	unsigned share = 0;
	char has_text[TEXT_SIZE_SIZE];
	char want_text[TEXT_SIZE_SIZE];
	int rc = 0;

	if (want->bytes == 0 && want->percent_x100 == 0)
		return 0;
	rc = datastore_space(ds, &s, e);
	if (rc < 0)
		return rc;
	if (want->percent_x100 != 0) {
		/* In two parts, since the product may not fit. */
		bytes = s.total / PERCENT_X100 * want->percent_x100 +
		    s.total % PERCENT_X100 * want->percent_x100 / PERCENT_X100;
	}
	if (s.available >= bytes)
		return 0;
	share = share_x100(s.available, s.total);
	(void)text_size(has_text, s.available);
	(void)text_size(want_text, bytes);
	if (want->percent_x100 == 0) {
		return err_set(e, ERR_REFUSED,
		    "datastore '%s': %s free, min-free wants %s" MAKE_ROOM,
		    ds->path, has_text, want_text);
	}
	return err_set(e, ERR_REFUSED,
	    "datastore '%s': %s (%u.%02u%%) free, min-free wants %s "
	    "(%u.%02u%%)" MAKE_ROOM,
	    ds->path, has_text, share / 100, share % 100, want_text,
	    want->percent_x100 / 100, want->percent_x100 % 100);
}

struct fs_kind {
	uint64_t magic;
	const char *name;
	bool network; /* or of a program: its clock and cache are not ours */
	/* Inodes lie in one tree, in order, and what changes is copied: to
	 * change them in another order writes each leaf again and again. */
	bool by_inode;
};

/* From the kernel's and the file systems' documents. */
static const struct fs_kind fs_kinds[] = {
	{ 0xef53, "ext4", false, false },
	{ 0x58465342, "xfs", false, false },
	{ 0x9123683e, "btrfs", false, true },
	{ 0x2fc12fc1, "zfs", false, false },
	{ 0xf2f52010, "f2fs", false, false },
	{ 0xca451a4e, "bcachefs", false, false },
	{ 0x01021994, "tmpfs", false, false },
	{ 0x794c7630, "overlay", false, false },
	{ 0x4d44, "vfat", false, false },
	{ 0x2011bab0, "exfat", false, false },
	{ 0x7366746e, "ntfs", false, false },
	{ 0x52654973, "reiserfs", false, false },
	{ 0x3153464a, "jfs", false, false },
	{ 0x6969, "nfs", true, false },
	{ 0x517b, "smb", true, false },
	{ 0xff534d42, "cifs", true, false },
	{ 0xfe534d42, "smb2", true, false },
	{ 0x65735546, "fuse", true, false },
	{ 0x01021997, "9p", true, false },
	{ 0x00c36400, "ceph", true, false },
	{ 0x73757245, "coda", true, false },
	{ 0x5346414f, "afs", true, false },
	{ 0x6b414653, "afs", true, false },
	{ 0x01161970, "gfs2", true, false },
	{ 0x7461636f, "ocfs2", true, false },
	{ 0x0bd00bd0, "lustre", true, false },
	{ 0x19830326, "beegfs", true, false },
	{ 0x47504653, "gpfs", true, false },
	{ 0x786f4256, "vboxsf", true, false },
};

static const struct fs_kind *find_kind(uint64_t magic)
{
	for (size_t i = 0; i < sizeof(fs_kinds) / sizeof(fs_kinds[0]); i++) {
		if (fs_kinds[i].magic == magic)
			return &fs_kinds[i];
	}
	return NULL;
}

static bool get_magic(const struct datastore *ds, uint64_t *ret)
{
	struct statfs st;
	int rc = -1;

	do {
		rc = sysio_fstatfs(ds->root_fd, &st);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return false;
	/* A word that may have come with its sign. */
	*ret = (uint64_t)st.f_type & 0xffffffffU;
	return true;
}

bool datastore_is_network(const struct datastore *ds)
{
	uint64_t magic = 0;
	const struct fs_kind *kind = NULL;

	/* Distrust costs a wait, trust could cost chunks. */
	if (!get_magic(ds, &magic))
		return true;
	kind = find_kind(magic);
	return kind != NULL && kind->network;
}

bool datastore_is_by_inode(const struct datastore *ds)
{
	uint64_t magic = 0;
	const struct fs_kind *kind = NULL;

	if (!get_magic(ds, &magic))
		return false;
	kind = find_kind(magic);
	return kind != NULL && kind->by_inode;
}

const char *datastore_fs_name(
    const struct datastore *ds, char out[FS_NAME_SIZE])
{
	uint64_t magic = 0;
	const struct fs_kind *kind = NULL;

	if (!get_magic(ds, &magic)) {
		(void)snprintf(out, FS_NAME_SIZE, "unknown");
		return out;
	}
	kind = find_kind(magic);
	if (kind != NULL) {
		(void)snprintf(out, FS_NAME_SIZE, "%s", kind->name);
	} else {
		(void)snprintf(out, FS_NAME_SIZE, "0x%" PRIx64, magic);
	}
	return out;
}
