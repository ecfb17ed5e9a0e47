/* SPDX-License-Identifier: MIT */
/*
 * place: what a directory below the datastore's root is, by where it lies.
 *
 * Pure.  A walk begins with PLACE_NAMESPACE for the root and goes down with
 * place_below.
 */
#ifndef CAIRN_GC_PLACE_H
#define CAIRN_GC_PLACE_H

#include <stdbool.h>

enum place {
	PLACE_NAMESPACE,  /* the root too: holds ct, host, vm, ns */
	PLACE_NAMESPACES, /* "ns": holds namespaces */
	PLACE_TYPE,       /* "vm": holds groups */
	PLACE_GROUP,      /* holds snapshots */
	PLACE_SNAPSHOT,
	PLACE_ODD, /* nothing that the format knows */
};

/* What a directory `name` within a directory at `in` is. */
enum place place_below(enum place in, const char *name);

/* The same for a whole path below the root. */
enum place place_of(const char *path);

#endif
