/* SPDX-License-Identifier: MIT */
#include "tests/support/failmalloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*): names of ld --wrap */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static atomic_bool armed;
static atomic_bool for_good;
static atomic_uint_fast64_t countdown;
static atomic_uint_fast64_t failed;

static void arm(uint64_t n, bool on)
{
	atomic_store(&failed, 0);
	atomic_store(&countdown, n);
	atomic_store(&for_good, on);
	atomic_store(&armed, true);
}

void failmalloc_at(uint64_t n)
{
	arm(n, false);
}

void failmalloc_from(uint64_t n)
{
	arm(n, true);
}

uint64_t failmalloc_off(void)
{
	atomic_store(&armed, false);
	return atomic_load(&failed);
}

/* Is it this one's turn?  The countdown wraps below zero and never returns. */
static bool is_out(void)
{
	uint64_t left = 0;

	if (!atomic_load(&armed))
		return false;
	left = atomic_fetch_sub(&countdown, 1);
	if (left != 1 && !(atomic_load(&for_good) && left - 1 > INT64_MAX))
		return false;
	atomic_fetch_add(&failed, 1);
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return is_out() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_out() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return is_out() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return is_out() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
	return is_out() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return is_out() ? NULL : __real_strndup(s, n);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl*) */
