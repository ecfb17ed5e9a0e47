/* SPDX-License-Identifier: MIT */
/*
 * manifest: index.json.blob, the file whose presence makes a snapshot.
 *
 * A blob around JSON: backup-type, backup-id, backup-time, files, unprotected
 * and, where a key was used, signature.  Everything that is not changed is
 * kept as it was read, unknown keys included: a signature goes over all but
 * `unprotected` and `signature`.
 */
#ifndef CAIRN_DATASTORE_MANIFEST_H
#define CAIRN_DATASTORE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"

#define MANIFEST_MAX_FILE (16U << 20)
#define MANIFEST_MAX_FILES 65536U

enum crypt_mode {
	CRYPT_NONE,
	CRYPT_ENCRYPT,
	CRYPT_SIGN_ONLY,
};

const char *crypt_mode_name(enum crypt_mode m); /* as in the JSON */

/*
 * One file.  .blob: csum is the SHA-256 of the raw file and size its length;
 * .fidx, .didx: csum is the index checksum, size the archive's length.
 */
struct manifest_file {
	char *filename; /* "root.img.fidx": safe, one of the three suffixes */
	enum crypt_mode crypt_mode;
	uint64_t size;
	struct digest csum;
};

enum verify_outcome {
	VERIFY_NONE, /* never verified */
	VERIFY_OK,
	VERIFY_FAILED,
};

struct manifest {
	enum backup_type type;
	char id[BACKUP_ID_MAX + 1];
	int64_t time;
	struct manifest_file *files;
	size_t files_n;
	bool is_signed;
	char *notes; /* NULL: none */
	enum verify_outcome verified;
	int64_t verified_at; /* epoch of the verification, 0 unknown */
	struct js *json;     /* the whole document */
};

#define MANIFEST_INIT                                                    \
	{                                                                \
		.files = NULL, .files_n = 0, .notes = NULL, .json = NULL \
	}

void manifest_release(struct manifest *m);

/*
 * Decode a whole file.  Checks the blob, the JSON, every field's type, that
 * file names are safe, have a known suffix and are listed once, and that it
 * is the manifest of `want` (type, id and time equal the path).  `m` must be
 * initialised; it is filled on success only.
 */
int manifest_decode(const void *raw, size_t n,
    const struct backup_snapshot *want, struct manifest *m, struct err *e);

/* A new manifest of no files. */
int manifest_new(
    const struct backup_snapshot *of, struct manifest *m, struct err *e);
int manifest_add(struct manifest *m, const char *filename, uint64_t size,
    const struct digest *csum, struct err *e);

/* Change `unprotected`. notes NULL or "" removes them. */
int manifest_set_notes(struct manifest *m, const char *notes, struct err *e);
/* verify_state {state, upid}; the upid's start time is `at`. */
int manifest_set_verified(
    struct manifest *m, enum verify_outcome outcome, int64_t at, struct err *e);
/* chunk_upload_stats, as PBS writes them. */
int manifest_set_upload_stats(struct manifest *m, uint64_t count,
    uint64_t bytes, uint64_t stored, uint64_t duplicates, struct err *e);

/* The blob (zstd where smaller); out is replaced. */
int manifest_encode(const struct manifest *m, struct buf *out, struct err *e);

const struct manifest_file *manifest_find(const struct manifest *m,
    const char *filename); /* NULL if not listed; borrowed */

#endif
