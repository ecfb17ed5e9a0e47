/* SPDX-License-Identifier: MIT */
/*
 * uuid: random UUIDs (version 4), and how UUIDs are written.
 */
#ifndef CAIRN_DATASTORE_BASE_UUID_H
#define CAIRN_DATASTORE_BASE_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

#define UUID_SIZE 16
#define UUID_TEXT_SIZE 37 /* 32 lower-case digits, 4 dashes and NUL */

/* A new one. */
int uuid_make(char out[UUID_TEXT_SIZE], struct err *e);

void uuid_text(const uint8_t uuid[UUID_SIZE], char out[UUID_TEXT_SIZE]);

/* Are the first n bytes what uuid_text writes, and nothing else? */
bool uuid_is_text(const char *s, size_t n);

#endif
