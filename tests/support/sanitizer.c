/* SPDX-License-Identifier: MIT */
/*
 * sanitizer: defaults of AddressSanitizer for programs that fork a lot.
 *
 * A test that kills a child at the n-th call, for each n, forks thousands of
 * times.  Each fork copies what the quarantine of freed memory (256 MiB by
 * default) has touched, and that is nearly all of its cost.  ASAN_OPTIONS in
 * the environment still go over these.
 */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c): its name is given. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:"
	       "malloc_context_size=8:detect_stack_use_after_return=0";
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */
