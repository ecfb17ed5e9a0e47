/* SPDX-License-Identifier: MIT */
/*
 * powercut: what is left of a chunk when the power goes.
 *
 *     powercut act DIR SCENE     on a file system of its own: make a store,
 *                                do what the scene says, shut the file system
 *                                down without writing anything more
 *     powercut check DIR SCENE   after mounting it again
 *
 * powercut.sh does the rest.  A chunk that was on disk before is whole
 * afterwards: the old one, or the new one where it was to be replaced.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define SIZE (256U << 10)
#define OLD 'G'
#define NEW 'H'

/* The file system's ioctl, as in linux/fs.h of newer kernels. */
#define SHUTDOWN _IOR('X', 125, uint32_t)
#define WITHOUT_LOG_FLUSH 2U

struct scene {
	const char *name;
	char before; /* NUL: nothing, 'e': empty, else a whole chunk of it */
	char after;
	struct store_insert_opts opts;
	bool quarantine; /* else an insert */
	bool plain;      /* only plain renames work */
	bool commit;     /* others write to the journal before the end */
	enum store_inserted want;
};

static const struct scene scenes[] = {
	/* It was there: ours must not get in its place unsynced. */
	{ .name = "again",
	    .before = OLD,
	    .after = OLD,
	    .commit = true,
	    .want = STORE_HIT },
	{ .name = "again-plain",
	    .before = OLD,
	    .after = OLD,
	    .plain = true,
	    .commit = true,
	    .want = STORE_HIT },
	/* A file is replaced by one that is on disk, whatever sync says. */
	{ .name = "damaged",
	    .before = OLD,
	    .after = NEW,
	    .commit = true,
	    .opts = { .known_bad = true },
	    .want = STORE_REPLACED },
	{ .name = "empty",
	    .before = 'e',
	    .after = NEW,
	    .commit = true,
	    .want = STORE_REPLACED },
	{ .name = "empty-plain",
	    .before = 'e',
	    .after = NEW,
	    .plain = true,
	    .commit = true,
	    .want = STORE_REPLACED },
	/* By a plain rename a new one is on disk before it has its name. */
	{ .name = "new-plain",
	    .after = NEW,
	    .plain = true,
	    .commit = true,
	    .want = STORE_NEW },
	/* With sync nothing else has to happen. */
	{ .name = "sync",
	    .after = NEW,
	    .opts = { .sync = true },
	    .want = STORE_NEW },
	{ .name = "quarantine", .before = OLD, .quarantine = true },
};

_Noreturn static void give_up(const char *what)
{
	perror(what);
	exit(2);
}

static void must(int rc, const struct err *e)
{
	if (rc < 0) {
		(void)fprintf(stderr, "powercut: %s\n", e->msg);
		exit(2);
	}
}

static void refuse(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_LINKAT ||
	    (ev->call == FAULT_RENAMEAT2 && ev->flags != 0)) {
		ev->skip = true;
		ev->result = -1;
		ev->error = ev->call == FAULT_LINKAT ? EPERM : EINVAL;
	}
}

static void open_dir(struct storefix *f, const char *dir)
{
	memset(f, 0, sizeof(*f));
	f->dir.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir.fd < 0)
		give_up(dir);
}

static void do_insert(
    struct storefix *f, const struct scene *scene, const struct digest *d)
{
	static char blob[SIZE];
	enum store_inserted got = STORE_NEW;

	memset(blob, NEW, sizeof(blob));
	if (scene->plain) {
		fault_install();
		fault_set_hooks(&(struct fault_hooks){ .before = refuse });
	}
	must(store_insert(
		 f->store, d, blob, sizeof(blob), &scene->opts, &got, &f->e),
	    &f->e);
	fault_uninstall();
	if (got != scene->want) {
		(void)fprintf(stderr, "powercut: insert did %d, want %d\n",
		    (int)got, (int)scene->want);
		exit(2);
	}
}

static void do_quarantine(struct storefix *f, const struct digest *d)
{
	bool done = false;
	int fd = -1;

	must(store_open_chunk(f->store, d, &fd, &f->e), &f->e);
	must(store_quarantine(f->store, d, fd, &done, &f->e), &f->e);
	(void)close(fd);
	if (!done)
		exit(2);
}

static void act(const char *dir, const struct scene *scene)
{
	static char blob[SIZE];
	struct digest d = storefix_digest(PREFIX, 1);
	uint32_t flags = WITHOUT_LOG_FLUSH;
	struct storefix f;
	int fd = -1;

	open_dir(&f, dir);
	tmpdir_put_str(f.dir.fd, ".lock", "");
	if (mkdirat(f.dir.fd, ".chunks", 0750) < 0)
		give_up(".chunks");
	storefix_open(&f);
	memset(blob, scene->before, sizeof(blob));
	if (scene->before != 0)
		storefix_put(
		    &f, &d, "", blob, scene->before == 'e' ? 0 : sizeof(blob));
	if (syncfs(f.dir.fd) < 0)
		give_up("syncfs");
	if (scene->quarantine)
		do_quarantine(&f, &d);
	else
		do_insert(&f, scene, &d);
	/* Anybody's fsync brings the names of all of us to the disk. */
	if (scene->commit) {
		tmpdir_put_str(f.dir.fd, "other", "x");
		fd = openat(f.dir.fd, "other", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fsync(fd) < 0)
			give_up("other");
		(void)close(fd);
	}
	if (ioctl(f.dir.fd, SHUTDOWN, &flags) < 0)
		give_up("shutdown");
	storefix_close(&f);
	(void)close(f.dir.fd);
}

/* Is there a file of SIZE such bytes (nothing for NUL) under the name? */
static bool holds(struct storefix *f, const char *suffix, char want)
{
	struct digest d = storefix_digest(PREFIX, 1);
	size_t n = 0;
	char *p = NULL;
	size_t wrong = 0;

	if (!storefix_has(f, &d, suffix))
		return want == 0;
	p = tmpdir_get(f->chunks_fd, storefix_path(&d, suffix), &n);
	for (size_t i = 0; i < n; i++)
		wrong += p[i] != want;
	free(p);
	if (n == SIZE && wrong == 0)
		return true;
	(void)fprintf(stderr,
	    "powercut: '%s' has %zu bytes, %zu of them wrong, want %u\n",
	    storefix_path(&d, suffix), n, wrong, SIZE);
	return false;
}

static int check(const char *dir, const struct scene *scene)
{
	struct storefix f;
	bool ok = false;

	open_dir(&f, dir);
	f.chunks_fd =
	    openat(f.dir.fd, ".chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f.chunks_fd < 0)
		give_up(".chunks");
	ok = holds(&f, "", scene->after) &&
	    (!scene->quarantine || holds(&f, ".0.bad", scene->before));
	(void)close(f.chunks_fd);
	(void)close(f.dir.fd);
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "scenes") == 0) {
		for (size_t i = 0; i < TEST_COUNT(scenes); i++)
			(void)puts(scenes[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 4 && i < TEST_COUNT(scenes); i++) {
		if (strcmp(argv[3], scenes[i].name) != 0)
			continue;
		if (strcmp(argv[1], "check") == 0)
			return check(argv[2], &scenes[i]);
		act(argv[2], &scenes[i]);
		return 0;
	}
	(void)fputs("usage: powercut scenes | {act|check} DIR SCENE\n", stderr);
	return 2;
}
