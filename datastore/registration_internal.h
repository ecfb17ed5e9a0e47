/* SPDX-License-Identifier: MIT */
/*
 * registration_internal: what writing and reading registrations share.
 */
#ifndef CAIRN_DATASTORE_REGISTRATION_INTERNAL_H
#define CAIRN_DATASTORE_REGISTRATION_INTERNAL_H

#define REGISTRATION_KEY_HOST "host"
#define REGISTRATION_KEY_MACHINE "machine-id"
#define REGISTRATION_KEY_BOOT "boot-id"
#define REGISTRATION_KEY_PID "pid"
#define REGISTRATION_KEY_COMMAND "command"
#define REGISTRATION_KEY_GROUP "group"
#define REGISTRATION_KEY_SNAPSHOT "snapshot"
#define REGISTRATION_KEY_START "start"

/* Digits and sign of `start`, whatever its value. */
#define REGISTRATION_START_WIDTH 20

/* ".UUID.tmp": until it has its name. */
#define REGISTRATION_TMP_PREFIX "."
#define REGISTRATION_TMP_SUFFIX ".tmp"
#define REGISTRATION_TMP_SIZE (DATASTORE_ID_SIZE + 5)

/* Larger ones are not ours. */
#define REGISTRATION_MAX_FILE 16384U

#define REGISTRATION_LOCK(type)                                       \
	{                                                             \
		.l_type = (type), .l_whence = SEEK_SET, .l_start = 0, \
		.l_len = 0,                                           \
	}

#endif
