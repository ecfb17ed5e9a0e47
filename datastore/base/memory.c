/* SPDX-License-Identifier: MIT */
#include "datastore/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "datastore/base/file.h"

#define LIST "/proc/self/cgroup"
#define ROOT "/sys/fs/cgroup"
#define LIST_MAX (64U << 10)
#define NUMBER_MAX 64U

static bool read_text(const char *path, size_t limit, struct buf *out)
{
	struct err ignored = ERR_INIT;

	return file_read_at(AT_FDCWD, path, limit, out, path, &ignored) == 0 &&
	    buf_cstr(out, &ignored) != NULL;
}

/* A number in a file; UINT64_MAX: there is none ("max"). */
static uint64_t read_number(const char *path)
{
	struct buf text = BUF_INIT;
	uint64_t n = UINT64_MAX;
	char *end = NULL;

	if (read_text(path, NUMBER_MAX, &text)) {
		const char *s = (const char *)text.data;

		errno = 0;
		n = strtoull(s, &end, 10);
		if (errno != 0 || end == s)
			n = UINT64_MAX;
	}
	buf_release(&text);
	return n;
}

/* The least of a group and of those above it.  group is cut on the way. */
static uint64_t least_upwards(const char *top, char *group, const char *file)
{
	uint64_t least = UINT64_MAX;
	char path[PATH_MAX];
	char *slash = NULL;

	for (;;) {
		int n =
		    snprintf(path, sizeof(path), "%s%s/%s", top, group, file);
		uint64_t limit =
		    n < (int)sizeof(path) ? read_number(path) : UINT64_MAX;

		if (limit < least)
			least = limit;
		slash = strrchr(group, '/');
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, n) == 0 &&
		    (at[n] == ',' || at[n] == '\0'))
			return true;
	}
	return false;
}

/* A line: "ID:CONTROLLERS:GROUP"; version 2 has no controllers there. */
static uint64_t limit_of_line(char *line, const char *root)
{
	char *controllers = strchr(line, ':');
	char *group = NULL;
	char top[PATH_MAX];

	if (controllers == NULL)
		return UINT64_MAX;
	controllers++;
	group = strchr(controllers, ':');
	if (group == NULL)
		return UINT64_MAX;
	*group = '\0';
	group++;
	if (controllers[0] == '\0')
		return least_upwards(root, group, "memory.max");
	if (!has_word(controllers, "memory") ||
	    snprintf(top, sizeof(top), "%s/memory", root) >= (int)sizeof(top))
		return UINT64_MAX;
	return least_upwards(top, group, "memory.limit_in_bytes");
}

uint64_t memory_group_limit(const char *list, const char *root)
{
	struct buf text = BUF_INIT;
	uint64_t least = UINT64_MAX;
	char *rest = NULL;
	char *line = NULL;

	if (read_text(list, LIST_MAX, &text)) {
		for (line = strtok_r((char *)text.data, "\n", &rest);
		     line != NULL; line = strtok_r(NULL, "\n", &rest)) {
			uint64_t limit = limit_of_line(line, root);

			if (limit < least)
				least = limit;
		}
	}
	buf_release(&text);
	return least;
}

uint64_t memory_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long page = sysconf(_SC_PAGESIZE);
	uint64_t limit = memory_group_limit(LIST, ROOT);
	uint64_t machine = pages > 0 && page > 0
	    ? (uint64_t)pages * (uint64_t)page
	    : UINT64_MAX;

	return machine < limit ? machine : limit;
}
