/* SPDX-License-Identifier: MIT */
#include "datastore/base/uuid.h"

#include "datastore/base/file.h"

static const char digits[] = "0123456789abcdef";

static bool is_dash_at(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

void uuid_text(const uint8_t uuid[UUID_SIZE], char out[UUID_TEXT_SIZE])
{
	char *p = out;

	for (size_t i = 0; i < UUID_SIZE; i++) {
		if (is_dash_at((size_t)(p - out)))
			*p++ = '-';
		*p++ = digits[uuid[i] >> 4];
		*p++ = digits[uuid[i] & 15];
	}
	*p = '\0';
}

bool uuid_is_text(const char *s, size_t n)
{
	if (n != UUID_TEXT_SIZE - 1)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool digit = (s[i] >= '0' && s[i] <= '9') ||
		    (s[i] >= 'a' && s[i] <= 'f');

		if (is_dash_at(i) ? s[i] != '-' : !digit)
			return false;
	}
	return true;
}

int uuid_make(char out[UUID_TEXT_SIZE], struct err *e)
{
	uint8_t b[UUID_SIZE] = { 0 };
	int rc = file_random(b, sizeof(b), e);

	if (rc < 0)
		return rc;
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	uuid_text(b, out);
	return 0;
}
