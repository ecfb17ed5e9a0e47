/* SPDX-License-Identifier: MIT */
/*
 * gcrunning: `.cairn/gc.running`, what garbage collection says of itself.
 *
 * JSON of one line, blanks behind it up to a fixed size, written in place by
 * one pwrite into the file that is there: nothing is made, and once the file
 * has its size no block is needed either (I11).  It tells who runs, how far he
 * is, and, when he has ended, how.  A record that says "running" while nobody
 * holds byte 1 is of a run that was killed.
 */
#ifndef CAIRN_DATASTORE_GCRUNNING_H
#define CAIRN_DATASTORE_GCRUNNING_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "datastore/registration.h"

#define GCRUNNING_NAME "gc.running"
#define GCRUNNING_BYTES 4096U

#define GCRUNNING_RUNNING "running"

struct gcrunning {
	char host[REGISTRATION_HOST_SIZE];
	char machine_id[DATASTORE_ID_SIZE];
	int64_t pid;
	int64_t start;  /* epoch; 0 unknown, as all times below */
	char state[16]; /* GCRUNNING_RUNNING, or how it ended */
	char phase[32]; /* "gc: mark"; "" before the first one */
	uint32_t percent;
	int64_t updated; /* when that was so */
	int64_t ended;
	uint64_t removed_chunks;
	uint64_t removed_bytes;
	char why[512]; /* what ended it, for people; may be "" */
};

/* This process, now, running. */
void gcrunning_init(struct gcrunning *g);

/*
 * *ret_found false: there is no file, or it holds no record (nobody has run,
 * or it is damaged: it is for people, and worth no failure).
 */
int gcrunning_read(const struct datastore *ds, struct gcrunning *ret,
    bool *ret_found, struct err *e);

/* To write it again and again.  *ret_fd is -1 where there is no such file. */
int gcrunning_open(const struct datastore *ds, int *ret_fd, struct err *e);
int gcrunning_write(const struct datastore *ds, int fd,
    const struct gcrunning *g, struct err *e);

/* An empty record, for whoever makes the file: GCRUNNING_BYTES of text. */
void gcrunning_blank(char out[GCRUNNING_BYTES + 1]);

#endif
