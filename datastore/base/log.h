/* SPDX-License-Identifier: MIT */
/*
 * log: lines to stderr, one per event, from any thread.
 *
 * Each line is "cairn: <text>", written by one write(2).  Warnings say
 * "warning: ".  A newline inside the text becomes a space.  Only the top of
 * the program logs; what lies below reports through struct task (task.h) or
 * struct err.
 */
#ifndef CAIRN_DATASTORE_BASE_LOG_H
#define CAIRN_DATASTORE_BASE_LOG_H

#include <stdbool.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,  /* the default */
	LOG_LEVEL_DEBUG, /* --verbose */
};

void log_set_level(enum log_level most);

/* The head of errors in red, that of warnings in yellow: for terminals. */
void log_set_color(bool on);

void log_line(enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
