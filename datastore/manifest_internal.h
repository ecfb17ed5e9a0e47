/* SPDX-License-Identifier: MIT */
/*
 * manifest_internal: what the reading and the changing of manifests share.
 */
#ifndef CAIRN_DATASTORE_MANIFEST_INTERNAL_H
#define CAIRN_DATASTORE_MANIFEST_INTERNAL_H

#include "datastore/base/err.h"

#define KEY_TYPE "backup-type"
#define KEY_ID "backup-id"
#define KEY_TIME "backup-time"
#define KEY_FILES "files"
#define KEY_SIGNATURE "signature"
#define KEY_UNPROTECTED "unprotected"
#define KEY_FILENAME "filename"
#define KEY_CRYPT_MODE "crypt-mode"
#define KEY_SIZE "size"
#define KEY_CSUM "csum"
#define KEY_NOTES "notes"
#define KEY_VERIFY "verify_state"
#define KEY_STATE "state"
#define KEY_UPID "upid"
#define KEY_STATS "chunk_upload_stats"

#define STATE_OK "ok"
#define STATE_FAILED "failed"

/* An archive's name; `code` says whose fault a bad one is: ERR_CORRUPT where a
 * file holds it, ERR_INVALID where a caller gave it. */
int manifest_check_filename(const char *name, int code, struct err *e);

#endif
