/* SPDX-License-Identifier: MIT */
/*
 * push_source: what stands right of the equals sign: files, devices, standard
 * input, a command's output; opened before anything is made in the store.
 */
#ifndef CAIRN_CLI_PUSH_SOURCE_H
#define CAIRN_CLI_PUSH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"

enum push_kind {
	PUSH_IMG,
	PUSH_RAW,
	PUSH_TAR,
	PUSH_CONF,
	PUSH_TREE,
};

struct push_source {
	enum push_kind kind;
	char archive[BACKUP_NAME_MAX + 1]; /* "root.img" */
	char filename[BACKUP_ID_MAX + 1];  /* "root.img.fidx" */
	const char *path; /* as typed; "-"; NULL: the command */
	int fd;
	bool directory;     /* of fd */
	uint64_t size_hint; /* 0: unknown */
	pid_t child;        /* 0: none */
};

/*
 * Parse n words ARCHIVE=SOURCE; with a command, exactly one word is ARCHIVE
 * alone.  Checks names and that no two share one.
 */
int push_sources_parse(const char *const *words, size_t n, bool has_command,
    struct push_source **ret, struct err *e);

/* Open files; starts no command. */
int push_sources_open(struct push_source *sources, size_t n, struct err *e);

/* Start the command of this source, its output is fd. */
int push_source_start(
    struct push_source *s, const char *command, struct err *e);

/*
 * Has the command ended?  Waits a little if not, so that the caller can look
 * at other things meanwhile.
 */
bool push_source_ended(const struct push_source *s);

/* Wait for the command; ERR_REFUSED if it failed. */
int push_source_finish(
    struct push_source *s, const char *command, struct err *e);

/* Closes, and ends a command that still runs. */
void push_sources_free(struct push_source *sources, size_t n);

#endif
