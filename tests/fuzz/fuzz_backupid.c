/* SPDX-License-Identifier: MIT */
/*
 * fuzz_backupid: any text as a name: of a namespace up to the first newline,
 * of a group or snapshot in it behind that.  What is accepted is the only text
 * for it, and its path leads nowhere but below.
 */
#include <stdlib.h>
#include <string.h>

#include "datastore/backupid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static void check_path(const char *path)
{
	MUST(path[0] != '/' && path[0] != '.');
	MUST(strstr(path, "/.") == NULL && strstr(path, "//") == NULL);
	MUST(strlen(path) + 256 < BACKUP_PATH_SIZE);
}

static void check_group(const struct backup_group *g, const char *text)
{
	static const struct backup_group other = { .type = BACKUP_HOST,
		.id = "10" };
	struct backup_group back;
	char path[BACKUP_PATH_SIZE];
	int c = backup_group_compare(g, &other);

	backup_group_path(g, path);
	check_path(path);
	MUST(backup_group_from_path(path, &back));
	MUST(backup_group_compare(&back, g) == 0);
	MUST(strcmp(path + strlen(path) - strlen(text), text) == 0);
	backup_group_text(g, path);
	MUST(strcmp(path + strlen(path) - strlen(text), text) == 0);
	MUST(backup_group_compare(g, g) == 0);
	MUST((c < 0) == (backup_group_compare(&other, g) > 0));
	MUST((c == 0) == (backup_group_compare(&other, g) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	char *name = NULL;
	struct backup_ns ns = { .name = "" };
	struct backup_group g;
	struct backup_snapshot s;
	struct err e = ERR_INIT;
	char path[BACKUP_PATH_SIZE];

	MUST(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	name = strchr(text, '\n');
	if (name != NULL)
		*name++ = '\0';
	else
		name = text;
	if (name != text && backup_ns_parse(text, &ns, &e) == 0) {
		MUST(strcmp(ns.name, text) == 0);
		backup_ns_path(&ns, path);
		MUST((path[0] == '\0') == (text[0] == '\0'));
		if (path[0] != '\0')
			check_path(path);
	}
	if (backup_group_parse(&ns, name, &g, &e) == 0)
		check_group(&g, name);
	if (backup_snapshot_parse(&ns, name, &s, &e) == 0) {
		struct backup_snapshot back;

		backup_snapshot_path(&s, path);
		check_path(path);
		MUST(backup_snapshot_from_path(path, &back));
		MUST(back.time == s.time);
		MUST(backup_group_compare(&back.group, &s.group) == 0);
		MUST(strcmp(path + strlen(path) - strlen(name), name) == 0);
	}
	if (backup_snapshot_from_path(name, &s)) {
		backup_snapshot_path(&s, path);
		MUST(strcmp(path, name) == 0);
	}
	(void)backup_file_kind(name);
	free(text);
	return 0;
}
