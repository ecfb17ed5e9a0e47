/* SPDX-License-Identifier: MIT */
/*
 * exit: what the exit codes mean; the same for every command.
 */
#ifndef CAIRN_CLI_EXIT_H
#define CAIRN_CLI_EXIT_H

enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,     /* nothing lost, nothing half-made is visible;
				also: GC refused to sweep */
	EXIT_USAGE = 2,      /* wrong usage or config */
	EXIT_INCOMPLETE = 3, /* done, but not whole: also a tree that was
				given without what is damaged in it */
	EXIT_DAMAGE = 4,     /* damage was found by a command that looks, or
				of the one thing that was asked for */
	EXIT_BUSY = 75,      /* a lock is held or was lost; try later */
	EXIT_SIGNAL = 128,   /* plus the signal's number; also SIGPIPE's, when
				the reader of stdout went away */
};

#endif
