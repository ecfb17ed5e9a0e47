/* SPDX-License-Identifier: MIT */
/*
 * Chunks that are sound, missing, bad, unreadable: what verify says and does.
 */
#include "index/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/tree.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"

#define CHUNKS 8U
#define HURT 5U /* which one is damaged */

/* Everything in the store. */
static int verify(struct restorefix *f, struct verify_result *ret)
{
	struct backup_group g = { .type = BACKUP_HOST, .id = "a" };
	struct tree_snapshots list = { .items = NULL };
	struct backup_snapshot *ids = NULL;
	int rc = 0;

	f->e = (struct err)ERR_INIT;
	buf_reset(&f->messages);
	f->phase[0] = '\0';
	f->fell = false;
	assert_ok(tree_snapshots(f->ds, &g, &list, &f->e), &f->e);
	ids = calloc(list.n + 1, sizeof(*ids));
	assert_non_null(ids);
	for (size_t i = 0; i < list.n; i++)
		ids[i] = list.items[i].id;
	rc = verify_run(f->ds, ids, list.n, &f->task, ret, &f->e);
	tree_snapshots_release(&list);
	free(ids);
	return rc;
}

/* What a run counted; the rest of a result is looked at elsewhere. */
struct want {
	uint64_t snapshots, hurt;
	uint64_t missing, bad, kept, unreadable;
};

static void check(struct restorefix *f, const struct want *w)
{
	struct verify_result r;

	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.snapshots, w->snapshots);
	assert_int_equal(r.hurt_n, w->hurt);
	assert_int_equal(r.missing_chunks, w->missing);
	assert_int_equal(r.bad_chunks, w->bad);
	assert_int_equal(r.kept_chunks, w->kept);
	assert_int_equal(r.unreadable_chunks, w->unreadable);
	/* Each reason is a warning, too, or counted in one. */
	for (size_t i = 0; i < r.hurt_n; i++) {
		char *line = r.hurt[i].reasons;

		assert_true(line[0] != '\0');
		for (char *end = NULL; *line != '\0'; line = end + 1) {
			end = strchr(line, '\n');
			assert_non_null(end);
			*end = '\0';
			assert_true(restorefix_said(f, line) > 0 ||
			    restorefix_said(f, "W and ") > 0);
		}
	}
	assert_int_equal(f->last.done, f->last.total);
	assert_false(f->fell);
	verify_result_release(&r);
}

static enum verify_outcome state_of(struct restorefix *f)
{
	struct manifest m = MANIFEST_INIT;
	enum verify_outcome outcome = VERIFY_NONE;
	int fd = -1;

	assert_ok(tree_open_snapshot(f->ds, &f->id, &fd, &f->e), &f->e);
	assert_ok(tree_read_manifest(f->ds, &f->id, fd, &m, &f->e), &f->e);
	outcome = m.verified;
	assert_true(m.verified == VERIFY_NONE || m.verified_at > 0);
	manifest_release(&m);
	(void)close(fd);
	return outcome;
}

static void push_image(struct restorefix *f)
{
	size_t n = CHUNKS * CHUNK;

	restorefix_push(f, IMG, restorefix_bytes(f, GEN_RANDOM, n), n);
}

static struct digest hurt_digest(struct restorefix *f)
{
	return restorefix_entry(f, IMG, HURT).digest;
}

/* Sum of the lengths of the chunk files of an image's first n chunks. */
static uint64_t file_bytes(struct restorefix *f, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct digest d = restorefix_entry(f, IMG, i).digest;
		char path[PATH_MAX];
		struct stat st;

		restorefix_chunk_path(&d, "", path);
		assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
		sum += (uint64_t)st.st_size;
	}
	return sum;
}

static void finds_nothing_in_a_sound_store(void **state)
{
	struct restorefix *f = *state;
	struct verify_result r;

	push_image(f);
	push_image(f);
	push_image(f);
	assert_int_equal(state_of(f), VERIFY_NONE);
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.snapshots, 3);
	assert_int_equal(r.unfinished + r.busy + r.hurt_n, 0);
	assert_null(r.hurt);
	/* Each chunk once, whatever references it. */
	assert_int_equal(r.chunks, CHUNKS);
	assert_int_equal(r.bytes, file_bytes(f, CHUNKS));
	verify_result_release(&r);
	verify_result_release(&r);
	assert_int_equal(state_of(f), VERIFY_OK);
	assert_int_equal(f->messages.len, 0);
	assert_int_equal(restorefix_list_lines(f), 0);
	check(f, &(struct want){ .snapshots = 3 });
}

static void takes_no_snapshots(void **state)
{
	struct restorefix *f = *state;
	struct verify_result r = { .snapshots = 9 };

	assert_ok(verify_run(f->ds, NULL, 0, &f->task, &r, &f->e), &f->e);
	assert_int_equal(r.snapshots, 0);
	verify_result_release(&r);
}

/* Archives of every kind, also with nothing in them. */
static void reads_every_kind(void **state)
{
	struct restorefix *f = *state;
	size_t n = 30 * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_TEXT, n);
	struct verify_result r;

	restorefix_begin(f);
	restorefix_add(f, "a.raw.didx", p, n);
	restorefix_add(f, "b.raw.didx", p, 0);
	restorefix_add(f, "c.img.fidx", p, CHUNK + 1);
	restorefix_add(f, "d.conf.blob", p, 100);
	restorefix_add(f, "e.conf.blob", p, 0);
	restorefix_commit(f);
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.hurt_n, 0);
	assert_true(r.chunks > 2);
	verify_result_release(&r);
}

static void count_opens(void *ctx, struct fault_event *ev)
{
	atomic_uint *opens = ctx;

	/* "0a1b/0a1b...": a chunk. */
	if (ev->call == FAULT_OPENAT &&
	    strlen(ev->name) == STORE_CHUNK_PATH_SIZE - 1)
		(*opens)++;
}

/* The same chunk in many places, one behind the other. */
static void reads_a_repeated_chunk_once(void **state)
{
	struct restorefix *f = *state;
	atomic_uint opens = 0;
	struct fault_hooks hooks = { .before = count_opens, .ctx = &opens };
	size_t n = 40 * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_ZEROS, n);
	struct verify_result r;
	struct digest d;

	memset(p + 20 * CHUNK, 1, CHUNK);
	memset(p + 22 * CHUNK, 1, CHUNK);
	restorefix_push(f, IMG, p, n);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.chunks, 2);
	assert_int_equal(opens, 2);
	assert_int_equal(r.hurt_n, 0);

	/* And a damaged one is judged and told of once. */
	d = restorefix_entry(f, IMG, 0).digest;
	restorefix_spoil(f, &d, SPOIL_CRC);
	opens = 0;
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(opens, 2);
	assert_int_equal(r.bad_chunks, 1);
	assert_int_equal(r.missing_chunks, 0);
	assert_int_equal(r.hurt_n, 1);
	assert_int_equal(restorefix_said(f, "as said before"), 0);
	assert_int_equal(
	    restorefix_said(f, "and 37 more references to the damaged"), 1);
	assert_int_equal(restorefix_said(f, "at offset 0: zstd blob of"), 1);
	verify_result_release(&r);
	assert_int_equal(restorefix_listed(f, &d, "bad"), 1);
}

/* Where the damage of each kind is to be found when it was verified. */
static void check_consequences(
    struct restorefix *f, const struct digest *d, enum restorefix_spoil how)
{
	bool renamed = how != SPOIL_MISSING && how != SPOIL_LINK;

	assert_int_equal(restorefix_has_chunk(f, d, ""), how == SPOIL_LINK);
	assert_int_equal(restorefix_has_chunk(f, d, ".0.bad"), renamed);
	assert_false(restorefix_has_chunk(f, d, ".1.bad"));
	assert_int_equal(restorefix_list_lines(f), how != SPOIL_LINK);
	assert_int_equal(restorefix_listed(f, d, "bad"), renamed);
	assert_int_equal(
	    restorefix_listed(f, d, "missing"), how == SPOIL_MISSING);
	assert_int_equal(state_of(f), VERIFY_FAILED);
}

static void finds_and_mends(struct restorefix *f, enum restorefix_spoil how)
{
	struct digest d = hurt_digest(f);
	char path[PATH_MAX];
	char want[PATH_MAX + 128];

	restorefix_spoil(f, &d, how);
	check(f,
	    &(struct want){ .snapshots = 1,
		.hurt = 1,
		.missing = how == SPOIL_MISSING,
		.unreadable = how == SPOIL_LINK,
		.bad = how != SPOIL_MISSING && how != SPOIL_LINK });
	restorefix_chunk_path(&d, "", path);
	(void)snprintf(want, sizeof(want),
	    "': chunk '%s' at offset %zu: ", path + strlen("store/"),
	    HURT * CHUNK);
	assert_int_equal(restorefix_said(f, want), 1);
	assert_int_equal(restorefix_said(f, "root.img.fidx"), 1);
	assert_int_equal(restorefix_said(f,
			     how == SPOIL_MISSING ? ": missing"
						  : restorefix_spoil_text(how)),
	    1);
	check_consequences(f, &d, how);

	/* Again: what was renamed is missing now. */
	check(f,
	    &(struct want){ .snapshots = 1,
		.hurt = 1,
		.missing = how != SPOIL_LINK,
		.unreadable = how == SPOIL_LINK });
	assert_int_equal(
	    restorefix_listed(f, &d, "missing"), how != SPOIL_LINK);
	assert_int_equal(restorefix_list_lines(f), how != SPOIL_LINK);

	/* The next push of the same heals. */
	if (how == SPOIL_LINK)
		assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
	push_image(f);
	check(f, &(struct want){ .snapshots = 2 });
	assert_int_equal(state_of(f), VERIFY_OK);
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_int_equal(f->messages.len, 0);
}

#define FINDS(name, how)                       \
	static void finds_##name(void **state) \
	{                                      \
		push_image(*state);            \
		finds_and_mends(*state, how);  \
	}

FINDS(missing, SPOIL_MISSING)
FINDS(content, SPOIL_CONTENT)
FINDS(crc, SPOIL_CRC)
FINDS(truncated, SPOIL_TRUNCATED)
FINDS(header, SPOIL_HEADER)
FINDS(empty, SPOIL_EMPTY)
FINDS(zeros, SPOIL_ZEROS)
FINDS(bomb, SPOIL_BOMB)
FINDS(huge, SPOIL_HUGE)
FINDS(link, SPOIL_LINK)

/* Several at once, over two snapshots that share most. */
static void counts_damage_of_many(void **state)
{
	static const enum restorefix_spoil hows[] = { SPOIL_MISSING, SPOIL_CRC,
		SPOIL_CONTENT, SPOIL_MISSING };
	struct restorefix *f = *state;
	size_t n = CHUNKS * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, n);
	struct verify_result r;

	restorefix_push(f, IMG, p, n);
	p[0] ^= 1;
	restorefix_push(f, IMG, p, n);
	for (size_t i = 0; i < TEST_COUNT(hows); i++) {
		struct digest d = restorefix_entry(f, IMG, i).digest;

		restorefix_spoil(f, &d, hows[i]);
	}
	assert_ok(verify(f, &r), &f->e);
	assert_int_equal(r.missing_chunks, 2);
	assert_int_equal(r.bad_chunks, 2);
	assert_int_equal(r.hurt_n, 2);
	assert_int_equal(r.chunks, CHUNKS + 1);
	/* The first one of the second snapshot is its own. */
	assert_int_equal(restorefix_said(f, "as said before"), 0);
	assert_int_equal(
	    restorefix_said(f, "and 3 more references to the damaged"), 1);
	assert_int_equal(restorefix_list_lines(f), 4);
	verify_result_release(&r);
}

/* Is this descriptor a file whose path contains the text? */
static bool fd_is(int fd, const char *text)
{
	char proc[64];
	char path[PATH_MAX];
	ssize_t n = 0;

	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return strstr(path, text) != NULL;
}

/* Reads of one file that lie, or fail. */
struct liar {
	char name[DIGEST_HEX_SIZE];
	atomic_uint from;  /* this read and those behind it ... */
	atomic_uint times; /* ... so many */
	int error;         /* 0: a wrong byte */
};

static void lie(void *ctx, struct fault_event *ev)
{
	struct liar *l = ctx;

	if (ev->call != FAULT_PREAD || ev->result < 100 ||
	    !fd_is(ev->fd, l->name) || l->times == 0)
		return;
	if (l->from > 1) {
		l->from--;
		return;
	}
	l->times--;
	if (l->error == 0) {
		((uint8_t *)ev->p)[99] ^= 1;
	} else {
		ev->result = -1;
		ev->error = l->error;
	}
}

static void check_lied_to(
    struct restorefix *f, struct liar *l, const struct want *w)
{
	struct fault_hooks hooks = { .after = lie, .ctx = l };

	fault_install();
	fault_set_hooks(&hooks);
	check(f, w);
	fault_uninstall();
	assert_int_equal(l->times, 0);
}

static void takes_a_disk_error_for_no_proof(void **state)
{
	struct restorefix *f = *state;
	struct liar l = { .times = 1, .error = EIO };
	struct digest d;

	push_image(f);
	d = hurt_digest(f);
	digest_hex(&d, l.name);
	check_lied_to(f, &l,
	    &(struct want){ .snapshots = 1, .hurt = 1, .unreadable = 1 });
	assert_int_equal(restorefix_said(f, "Input/output error"), 1);
	assert_true(restorefix_has_chunk(f, &d, ""));
	assert_false(restorefix_has_chunk(f, &d, ".0.bad"));
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_int_equal(state_of(f), VERIFY_FAILED);
	check(f, &(struct want){ .snapshots = 1 });
	assert_int_equal(state_of(f), VERIFY_OK);
}

/* Wrong, and then not readable: nothing is proven either. */
static void wants_two_reads_for_a_proof(void **state)
{
	struct restorefix *f = *state;
	struct liar l = { .from = 2, .times = 1, .error = EIO };
	struct digest d;

	push_image(f);
	d = hurt_digest(f);
	digest_hex(&d, l.name);
	restorefix_spoil(f, &d, SPOIL_CRC);
	check_lied_to(f, &l,
	    &(struct want){ .snapshots = 1, .hurt = 1, .unreadable = 1 });
	assert_true(restorefix_has_chunk(f, &d, ""));
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void believes_the_second_read(void **state)
{
	struct restorefix *f = *state;
	struct liar l = { .times = 1 };
	struct digest d;

	push_image(f);
	d = hurt_digest(f);
	digest_hex(&d, l.name);
	check_lied_to(f, &l, &(struct want){ .snapshots = 1 });
	assert_int_equal(
	    restorefix_said(f, "was read wrong once and right the second time"),
	    1);
	assert_true(restorefix_has_chunk(f, &d, ""));
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_int_equal(state_of(f), VERIFY_OK);
}

/* Indexes that lie about lengths, though their checksums are right. */
static void does_not_blame_chunks_for_the_index(void **state)
{
	struct restorefix *f = *state;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, 2 * CHUNK);
	struct idx_entry entries[4];

	restorefix_begin(f);
	entries[0].digest = restorefix_put(f, p, CHUNK);
	entries[1].digest = restorefix_put(f, p + CHUNK, CHUNK);
	entries[2].digest = entries[0].digest;
	entries[3].digest = entries[0].digest;
	entries[0].end = CHUNK;
	entries[1].end = 2 * CHUNK + 1;
	entries[2].end = 3 * CHUNK;
	entries[3].end = 4 * CHUNK;
	restorefix_craft(f, "a.raw.didx", entries, 4);
	restorefix_commit(f);
	check(f, &(struct want){ .snapshots = 1, .hurt = 1 });
	assert_int_equal(
	    restorefix_said(f, "65536 bytes of content, the index says 65537"),
	    1);
	assert_int_equal(restorefix_said(f,
			     "at offset 131073: 65536 bytes of content, the "
			     "index says 65535"),
	    1);
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_true(restorefix_has_chunk(f, &entries[0].digest, ""));
	assert_true(restorefix_has_chunk(f, &entries[1].digest, ""));
}

/* Put back by hand: the list is told so. */
static void notices_what_was_put_back(void **state)
{
	struct restorefix *f = *state;
	struct digest d;
	char path[PATH_MAX];

	push_image(f);
	d = hurt_digest(f);
	restorefix_chunk_path(&d, "", path);
	assert_int_equal(renameat(f->dir.fd, path, f->dir.fd, "aside"), 0);
	check(f, &(struct want){ .snapshots = 1, .hurt = 1, .missing = 1 });
	assert_int_equal(restorefix_listed(f, &d, "missing"), 1);
	assert_int_equal(renameat(f->dir.fd, "aside", f->dir.fd, path), 0);
	check(f, &(struct want){ .snapshots = 1 });
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* It may be reused unread from then on: so it is on disk before. */
static void heals_only_what_is_on_disk(void **state)
{
	struct restorefix *f = *state;
	struct digest d;
	char path[PATH_MAX];

	push_image(f);
	d = hurt_digest(f);
	restorefix_chunk_path(&d, "", path);
	assert_int_equal(renameat(f->dir.fd, path, f->dir.fd, "aside"), 0);
	check(f, &(struct want){ .snapshots = 1, .hurt = 1, .missing = 1 });
	assert_int_equal(renameat(f->dir.fd, "aside", f->dir.fd, path), 0);
	/* The chunk, its directory, that of all; then the list itself. */
	for (uint64_t at = 1; at <= 4; at++) {
		fault_install();
		fault_once(FAULT_BIT(FAULT_FSYNC), at, EIO);
		check(f, &(struct want){ .snapshots = 1 });
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		assert_int_equal(restorefix_said(f,
				     "could not be taken off the damage list"),
		    1);
		if (at < 4)
			assert_int_equal(restorefix_list_lines(f), 1);
	}
	check(f, &(struct want){ .snapshots = 1 });
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* A finding each would drown what matters. */
static void tells_of_very_many_in_short(void **state)
{
	enum { MANY = 1200 };
	struct restorefix *f = *state;
	struct idx_entry *entries = calloc(MANY, sizeof(*entries));
	struct gen g;

	assert_non_null(entries);
	gen_seed(&g, 1);
	for (size_t i = 0; i < MANY; i++) {
		gen_fill(&g, GEN_RANDOM, &entries[i].digest, DIGEST_SIZE);
		entries[i].end = i + 1;
	}
	restorefix_begin(f);
	restorefix_craft(f, "a.raw.didx", entries, MANY);
	restorefix_commit(f);
	free(entries);
	check(f, &(struct want){ .snapshots = 1, .hurt = 1, .missing = MANY });
	assert_int_equal(restorefix_said(f, ": missing"), 100);
	assert_int_equal(restorefix_said(f, "and 1100 more chunks missing"), 1);
	assert_int_equal(restorefix_said(f, "more findings"), 0);
	assert_int_equal(restorefix_said(f, ""), 101);
	assert_int_equal(restorefix_list_lines(f), MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(finds_nothing_in_a_sound_store),
		RESTOREFIX_TEST(takes_no_snapshots),
		RESTOREFIX_TEST(reads_every_kind),
		RESTOREFIX_TEST(reads_a_repeated_chunk_once),
		RESTOREFIX_TEST(finds_missing),
		RESTOREFIX_TEST(finds_content),
		RESTOREFIX_TEST(finds_crc),
		RESTOREFIX_TEST(finds_truncated),
		RESTOREFIX_TEST(finds_header),
		RESTOREFIX_TEST(finds_empty),
		RESTOREFIX_TEST(finds_zeros),
		RESTOREFIX_TEST(finds_bomb),
		RESTOREFIX_TEST(finds_huge),
		RESTOREFIX_TEST(finds_link),
		RESTOREFIX_TEST(counts_damage_of_many),
		RESTOREFIX_TEST(takes_a_disk_error_for_no_proof),
		RESTOREFIX_TEST(wants_two_reads_for_a_proof),
		RESTOREFIX_TEST(believes_the_second_read),
		RESTOREFIX_TEST(does_not_blame_chunks_for_the_index),
		RESTOREFIX_TEST(notices_what_was_put_back),
		RESTOREFIX_TEST(heals_only_what_is_on_disk),
		RESTOREFIX_TEST(tells_of_very_many_in_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
