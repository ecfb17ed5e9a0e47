/* SPDX-License-Identifier: MIT */
/*
 * Archives that are damaged: never a wrong byte given out as right.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "index/archive_internal.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"
#define OUT "out"

#define CHUNKS 8U
#define HURT 5U /* which one is damaged */

static int extract(struct restorefix *f, enum archive_output how)
{
	struct archive_result r;

	f->e = (struct err)ERR_INIT;
	return archive_extract(
	    f->archive, f->out, how, "the target", &f->task, &r, &f->e);
}

static void new_target(struct restorefix *f)
{
	restorefix_target(f, OUT, O_RDWR | O_CREAT | O_TRUNC);
}

static uint8_t *push_image(struct restorefix *f)
{
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, CHUNKS * CHUNK);

	restorefix_push(f, IMG, p, CHUNKS * CHUNK);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	return p;
}

/* The message says which chunk of which file is where. */
static void check_message(
    struct restorefix *f, const struct digest *d, const char *text)
{
	char hex[DIGEST_HEX_SIZE];
	char path[PATH_MAX];
	char want[2 * PATH_MAX];

	digest_hex(d, hex);
	restorefix_file_path(f, IMG, path);
	(void)snprintf(want, sizeof(want),
	    "'%s': chunk %s at offset %zu: ", path + strlen("store/"), hex,
	    HURT * CHUNK);
	assert_non_null(strstr(f->e.msg, want));
	assert_non_null(strstr(f->e.msg, text));
}

static void names_damage_and_writes_nothing_behind_it(void **state)
{
	struct restorefix *f = *state;

	for (int how = 0; how < SPOIL_KINDS; how++) {
		const uint8_t *p = push_image(f);
		struct digest d = restorefix_entry(f, IMG, HURT).digest;
		enum restorefix_spoil spoil = (enum restorefix_spoil)how;
		char path[PATH_MAX];

		restorefix_spoil(f, &d, spoil);
		new_target(f);
		assert_err(
		    extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, "chunk");
		check_message(f, &d, restorefix_spoil_text(spoil));
		restorefix_assert_file(f, OUT, p, HURT * CHUNK);
		/* The list has it once, and nothing else. */
		assert_int_equal(restorefix_list_lines(f), 1);
		assert_int_equal(restorefix_listed(f, &d,
				     how == SPOIL_MISSING ? "missing" : "bad"),
		    1);
		/* Restoring changes no chunk. */
		assert_int_equal(
		    restorefix_has_chunk(f, &d, ""), how != SPOIL_MISSING);
		assert_false(restorefix_has_chunk(f, &d, ".0.bad"));
		/* The next push of it mends it, where it is a file. */
		restorefix_chunk_path(&d, "", path);
		if (how == SPOIL_LINK)
			assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
		p = push_image(f);
		new_target(f);
		assert_ok(extract(f, ARCHIVE_APPEND), &f->e);
		restorefix_assert_file(f, OUT, p, CHUNKS * CHUNK);
		assert_int_equal(restorefix_listed(f, &d, "healed"), 1);
		assert_int_equal(
		    unlinkat(f->dir.fd, "store/.cairn/damaged", 0), 0);
	}
	assert_int_equal(f->messages.len, 0);
}

struct told {
	unsigned n;
	uint64_t start;
	uint64_t end;
	char why[ERR_MSG_SIZE];
};

static void on_gap(
    void *ctx, uint64_t start, uint64_t end, const struct err *why)
{
	struct told *t = ctx;

	t->n++;
	t->start = start;
	t->end = end;
	(void)snprintf(t->why, sizeof(t->why), "%s", why->msg);
}

/* Zeros take the place of what can not be had; what is overwritten keeps its
 * own bytes there. */
static void passes_over_damage_that_is_to_be_skipped(void **state)
{
	static const enum archive_output modes[] = { ARCHIVE_APPEND,
		ARCHIVE_SPARSE_FILE, ARCHIVE_OVERWRITE,
		ARCHIVE_OVERWRITE_CHANGED };
	struct restorefix *f = *state;
	uint8_t *want = push_image(f);
	struct digest d = restorefix_entry(f, IMG, HURT).digest;
	struct told told;
	const struct archive_gaps gaps = { .fn = on_gap, .ctx = &told };

	restorefix_spoil(f, &d, SPOIL_CONTENT);
	archive_skip_damage(f->archive, &gaps);
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		bool keeps = modes[i] == ARCHIVE_OVERWRITE ||
		    modes[i] == ARCHIVE_OVERWRITE_CHANGED;

		told = (struct told){ .n = 0 };
		new_target(f);
		memset(want + HURT * CHUNK, keeps ? 'x' : 0, CHUNK);
		if (keeps)
			assert_int_equal(
			    pwrite(f->out, want, CHUNKS * CHUNK, 0),
			    CHUNKS * CHUNK);
		assert_ok(extract(f, modes[i]), &f->e);
		restorefix_assert_file(f, OUT, want, CHUNKS * CHUNK);
		assert_int_equal(told.n, 1);
		assert_int_equal(told.start, HURT * CHUNK);
		assert_int_equal(told.end, (HURT + 1) * CHUNK);
		assert_non_null(strstr(told.why, "digest"));
	}
	/* It is recorded all the same, and an error again if that is not
	 * wanted any more. */
	assert_int_equal(restorefix_listed(f, &d, "bad"), TEST_COUNT(modes));
	archive_skip_damage(f->archive, NULL);
	new_target(f);
	assert_err(extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, "digest");
}

static void fails_in_every_way_of_writing(void **state)
{
	static const enum archive_output modes[] = { ARCHIVE_SPARSE_FILE,
		ARCHIVE_OVERWRITE, ARCHIVE_OVERWRITE_CHANGED };
	struct restorefix *f = *state;
	struct digest d;

	(void)push_image(f);
	d = restorefix_entry(f, IMG, HURT).digest;
	restorefix_spoil(f, &d, SPOIL_CONTENT);
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		new_target(f);
		assert_err(extract(f, modes[i]), &f->e, ERR_CORRUPT, "digest");
		check_message(f, &d, "");
		/* What the bad chunk holds is not there. */
		if (modes[i] != ARCHIVE_SPARSE_FILE)
			continue;
		assert_int_equal(pread(f->out, f->own, 1, HURT * CHUNK), 1);
		assert_int_equal(f->own[0], 0);
	}
}

/* Who is about to list the chunk waits, if not for ever, for another thread to
 * have found it bad, too. */
static void wait_for_another(void *ctx, struct fault_event *ev)
{
	atomic_uint *opens = ctx;

	if (ev->call == FAULT_OPENAT)
		(*opens)++;
	if (ev->call != FAULT_CREATE || strstr(ev->name, "damaged") == NULL)
		return;
	for (int i = 0; i < 100 && *opens < 4; i++)
		clock_sleep_ms(10);
}

/* Eight places of one chunk, met by several threads. */
static void lists_a_repeated_chunk_once(void **state)
{
	struct restorefix *f = *state;
	atomic_uint opens = 0;
	struct fault_hooks hooks = { .before = wait_for_another,
		.ctx = &opens };
	size_t n = CHUNKS * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, n);
	struct digest d;

	for (size_t i = 1; i < CHUNKS; i++)
		memcpy(p + i * CHUNK, p, CHUNK);
	restorefix_push(f, IMG, p, n);
	d = restorefix_entry(f, IMG, 0).digest;
	restorefix_spoil(f, &d, SPOIL_CRC);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	new_target(f);
	fault_install();
	fault_set_hooks(&hooks);
	assert_err(extract(f, ARCHIVE_SPARSE_FILE), &f->e, ERR_CORRUPT,
	    "at offset 0: ");
	fault_uninstall();
	assert_int_equal(restorefix_list_lines(f), 1);
}

/* An index that lies about lengths, though its checksum is right. */
static void does_not_blame_the_chunk_for_the_index(void **state)
{
	static const int64_t lies[] = { -1, 1, 100000, -(int64_t)CHUNK + 1 };
	struct restorefix *f = *state;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, CHUNK);

	for (size_t i = 0; i < TEST_COUNT(lies); i++) {
		struct idx_entry entry = { .end = (uint64_t)((int64_t)CHUNK +
					       lies[i]) };
		char want[64];

		(void)snprintf(want, sizeof(want),
		    "%zu bytes of content, the index says %llu", CHUNK,
		    (unsigned long long)entry.end);
		restorefix_begin(f);
		entry.digest = restorefix_put(f, p, CHUNK);
		restorefix_craft(f, "a.raw.didx", &entry, 1);
		restorefix_commit(f);
		assert_ok(restorefix_open(f, "a.raw"), &f->e);
		new_target(f);
		assert_err(
		    extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, want);
		restorefix_assert_file(f, OUT, "", 0);
	}
	assert_int_equal(restorefix_list_lines(f), 0);
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

/* Reads of one chunk that lie, or fail. */
struct liar {
	char hex[DIGEST_HEX_SIZE];
	atomic_uint times; /* left */
	int error;         /* 0: a wrong byte */
};

static void lie(void *ctx, struct fault_event *ev)
{
	struct liar *l = ctx;

	if (ev->call != FAULT_READ || ev->result < 100 ||
	    !fd_is(ev->fd, l->hex) || l->times == 0)
		return;
	l->times--;
	if (l->error == 0) {
		((uint8_t *)ev->p)[99] ^= 1;
	} else {
		ev->result = -1;
		ev->error = l->error;
	}
}

static int extract_lied_to(struct restorefix *f, struct liar *l)
{
	struct fault_hooks hooks = { .after = lie, .ctx = l };
	struct digest d = restorefix_entry(f, IMG, HURT).digest;
	int rc = 0;

	digest_hex(&d, l->hex);
	new_target(f);
	fault_install();
	fault_set_hooks(&hooks);
	rc = extract(f, ARCHIVE_APPEND);
	fault_uninstall();
	return rc;
}

static void reads_twice_before_it_judges(void **state)
{
	struct restorefix *f = *state;
	const uint8_t *p = push_image(f);
	struct liar once = { .times = 1 };
	struct liar twice = { .times = 2 };

	assert_ok(extract_lied_to(f, &once), &f->e);
	assert_int_equal(once.times, 0);
	restorefix_assert_file(f, OUT, p, CHUNKS * CHUNK);
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_err(extract_lied_to(f, &twice), &f->e, ERR_CORRUPT, "CRC");
	assert_int_equal(restorefix_list_lines(f), 1);
}

static void takes_a_disk_error_for_no_proof(void **state)
{
	struct restorefix *f = *state;
	const uint8_t *p = push_image(f);
	struct liar l = { .times = 1, .error = EIO };
	struct digest d = restorefix_entry(f, IMG, HURT).digest;

	assert_err(extract_lied_to(f, &l), &f->e, ERR_SYS, "read '");
	assert_int_equal(f->e.sys_errno, EIO);
	check_message(f, &d, "");
	restorefix_assert_file(f, OUT, p, HURT * CHUNK);
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* Without its checksum being right no byte goes out. */
static void reads_the_index_first(void **state)
{
	struct restorefix *f = *state;
	char path[PATH_MAX];
	char *bytes = NULL;
	size_t n = 0;
	struct stat st;

	(void)push_image(f);
	restorefix_file_path(f, IMG, path);
	bytes = tmpdir_get(f->dir.fd, path, &n);
	assert_non_null(bytes);
	bytes[n - 1] = (char)(bytes[n - 1] ^ 1);
	tmpdir_put(f->dir.fd, path, bytes, n);
	free(bytes);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	new_target(f);
	assert_err(extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, "checksum");
	restorefix_assert_file(f, OUT, "", 0);
	assert_err(
	    extract(f, ARCHIVE_SPARSE_FILE), &f->e, ERR_CORRUPT, "checksum");
	assert_int_equal(fstat(f->out, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_err(archive_check(f->archive, &f->task, &f->e), &f->e,
	    ERR_CORRUPT, "checksum");
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* Files that are sound, but not the ones that index.json.blob lists. */
static void wants_the_file_that_is_listed(void **state)
{
	static const struct {
		const char *name;
		const char *other;
		const char *text;
	} cases[] = {
		{ "a.img.fidx", "b.img.fidx", "index.json.blob lists" },
		{ "a.img.fidx", "c.img.fidx",
		    "size 65536, index.json.blob lists" },
		{ "a.img.fidx", "d.raw.didx", "magic of a dynamic index" },
		{ "d.raw.didx", "e.raw.didx", "index.json.blob lists" },
		{ "f.conf.blob", "g.conf.blob", ": checksum " },
		{ "f.conf.blob", "h.conf.blob", ", index.json.blob lists" },
		{ "f.conf.blob", "a.img.fidx", "index.json.blob lists" },
	};
	struct restorefix *f = *state;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, 2 * CHUNK);

	restorefix_begin(f);
	restorefix_add(f, "a.img.fidx", p, 2 * CHUNK);
	restorefix_add(f, "b.img.fidx", p + 1, 2 * CHUNK);
	restorefix_add(f, "c.img.fidx", p, CHUNK);
	restorefix_add(f, "d.raw.didx", p, 2 * CHUNK);
	restorefix_add(f, "e.raw.didx", p + 1, 2 * CHUNK);
	restorefix_add(f, "f.conf.blob", p, 100);
	restorefix_add(f, "g.conf.blob", p + 1, 100);
	restorefix_add(f, "h.conf.blob", p, 101);
	restorefix_commit(f);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		char name[PATH_MAX];
		char other[PATH_MAX];
		char *mine = NULL;
		char *theirs = NULL;
		size_t mine_n = 0;
		size_t theirs_n = 0;

		restorefix_file_path(f, cases[i].name, name);
		restorefix_file_path(f, cases[i].other, other);
		mine = tmpdir_get(f->dir.fd, name, &mine_n);
		theirs = tmpdir_get(f->dir.fd, other, &theirs_n);
		assert_true(mine != NULL && theirs != NULL);
		tmpdir_put(f->dir.fd, name, theirs, theirs_n);
		assert_err(restorefix_open(f, cases[i].name), &f->e,
		    ERR_CORRUPT, cases[i].text);
		assert_non_null(strstr(f->e.msg, cases[i].name));
		/* Gone altogether. */
		assert_int_equal(unlinkat(f->dir.fd, name, 0), 0);
		assert_err(restorefix_open(f, cases[i].name), &f->e,
		    ERR_CORRUPT, "does not exist");
		/* Cut. */
		tmpdir_put(f->dir.fd, name, mine, mine_n - 1);
		assert_err(restorefix_open(f, cases[i].name), &f->e,
		    ERR_CORRUPT, cases[i].name);
		tmpdir_put(f->dir.fd, name, mine, mine_n);
		assert_ok(restorefix_open(f, cases[i].name), &f->e);
		free(mine);
		free(theirs);
	}
}

/* A blob that is damaged and listed so. */
static void wants_a_sound_blob(void **state)
{
	struct restorefix *f = *state;
	struct manifest_file *file = NULL;
	char path[PATH_MAX];
	char *raw = NULL;
	size_t n = 0;

	restorefix_push(f, "a.conf.blob", "key = value\n", 12);
	assert_ok(restorefix_open(f, "a.conf"), &f->e);
	restorefix_file_path(f, "a.conf.blob", path);
	raw = tmpdir_get(f->dir.fd, path, &n);
	raw[n - 1] ^= 1;
	tmpdir_put(f->dir.fd, path, raw, n);
	file = &f->manifest.files[0];
	assert_ok(digest_of(raw, n, &file->csum, &f->e), &f->e);
	free(raw);
	archive_close(f->archive);
	f->archive = NULL;
	assert_err(archive_open(f->ds, &f->id, &f->hold, &f->manifest, "a.conf",
		       &f->archive, &f->e),
	    &f->e, ERR_CORRUPT, "a.conf.blob': plain blob of 24 bytes has CRC");
}

/* Encrypted, though the manifest says it is not: nobody's damage. */
static void does_not_read_an_encrypted_chunk(void **state)
{
	static const uint8_t raw[] = { 0x7b, 0x67, 0x85, 0xbe, 0x22, 0x2d, 0x4c,
		0xf0, 0, 0, 0, 0, /* CRC of nothing; IV and tag: */ 1, 2, 3, 4,
		5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7,
		8, 9, 10, 11, 12, 13, 14, 15, 16 };
	struct restorefix *f = *state;
	struct digest d;
	char path[PATH_MAX];

	(void)push_image(f);
	d = restorefix_entry(f, IMG, HURT).digest;
	restorefix_chunk_path(&d, "", path);
	tmpdir_put(f->dir.fd, path, raw, sizeof(raw));
	new_target(f);
	assert_err(extract(f, ARCHIVE_APPEND), &f->e, ERR_UNSUPPORTED,
	    "encrypted blob can not be read without its key");
	check_message(f, &d, "");
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void warns_if_it_can_not_record(void **state)
{
	struct restorefix *f = *state;
	struct digest d;

	(void)push_image(f);
	d = restorefix_entry(f, IMG, HURT).digest;
	restorefix_spoil(f, &d, SPOIL_EMPTY);
	new_target(f);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .name = "damaged",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EROFS });
	assert_err(extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, "empty");
	check_message(f, &d, "empty");
	assert_true(fault_hits() > 0);
	assert_int_equal(
	    restorefix_said(f, "W the damage could not be recorded: "), 1);
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* A store of PBS has no list, and gets none from a restore. */
static void leaves_foreign_stores_alone(void **state)
{
	struct restorefix *f = *state;
	struct stat st;
	struct digest d;

	(void)push_image(f);
	d = restorefix_entry(f, IMG, HURT).digest;
	restorefix_spoil(f, &d, SPOIL_MISSING);
	restorefix_close(f);
	datastore_close(f->ds);
	f->ds = NULL;
	assert_int_equal(
	    renameat(f->dir.fd, "store/.cairn", f->dir.fd, "moved"), 0);
	assert_ok(datastore_open(f->path, DATASTORE_READ, NULL, &f->ds, &f->e),
	    &f->e);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	new_target(f);
	assert_err(extract(f, ARCHIVE_APPEND), &f->e, ERR_CORRUPT, "chunk");
	check_message(f, &d, "");
	assert_int_equal(f->messages.len, 0);
	assert_int_equal(fstatat(f->dir.fd, "store/.cairn", &st, 0), -1);
}

/* Memory: as many bytes as are allocated now, whoever counts them. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
	struct mallinfo2 m;

	if (__sanitizer_get_current_allocated_bytes != NULL)
		return __sanitizer_get_current_allocated_bytes();
	m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void look_at_memory(void *ctx, struct fault_event *ev)
{
	_Atomic size_t *most = ctx;
	size_t now = allocated();
	size_t seen = *most;

	(void)ev;
	while (now > seen && !atomic_compare_exchange_weak(most, &seen, now))
		;
}

/* Chunks as large as the format allows: more of them than fit. */
static void keeps_within_its_memory(void **state)
{
	enum { COUNT = 20 };
	const size_t each = (size_t)16 << 20;
	struct restorefix *f = *state;
	struct idx_entry entries[COUNT];
	_Atomic size_t most = 0;
	struct fault_hooks hooks = { .before = look_at_memory, .ctx = &most };
	struct archive_result r = { .bytes = 0 };
	uint8_t *p = restorefix_bytes(f, GEN_ZEROS, each);
	uint8_t *got = NULL;
	size_t before = 0;

	restorefix_begin(f);
	for (size_t i = 0; i < COUNT; i++) {
		p[i] = 1;
		entries[i].digest = restorefix_put(f, p, each);
		entries[i].end = (i + 1) * each;
	}
	restorefix_craft(f, "a.raw.didx", entries, COUNT);
	restorefix_commit(f);
	assert_ok(restorefix_open(f, "a.raw"), &f->e);
	new_target(f);
	before = allocated();
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(archive_extract(f->archive, f->out, ARCHIVE_OVERWRITE_CHANGED,
		      "out", &f->task, &r, &f->e),
	    &f->e);
	fault_uninstall();
	assert_int_equal(r.bytes, COUNT * each);
	assert_true(most > before + each); /* it does count */
	assert_true(most < before + ((size_t)168 << 20));
	/* The last one is what p holds still. */
	got = malloc(each);
	assert_non_null(got);
	assert_int_equal(
	    pread(f->out, got, each, (COUNT - 1) * (off_t)each), each);
	assert_true(memcmp(got, p, each) == 0);
	free(got);
}

static void plans_within_its_memory(void **state)
{
	(void)state;
	for (uint64_t longest = 1; longest <= 16 << 20; longest *= 2) {
		for (unsigned cpus = 1; cpus <= 64; cpus++) {
			unsigned threads = 0;
			size_t slots = 0;

			archive_plan(longest, cpus, &threads, &slots);
			assert_true(threads >= 1 && threads <= cpus);
			assert_true(slots > threads);
			assert_true((2 * threads + slots) * longest <=
			    ARCHIVE_MEMORY_MAX);
			if (longest <= 1 << 20)
				assert_int_equal(threads, cpus < 8 ? cpus : 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(names_damage_and_writes_nothing_behind_it),
		RESTOREFIX_TEST(passes_over_damage_that_is_to_be_skipped),
		RESTOREFIX_TEST(fails_in_every_way_of_writing),
		RESTOREFIX_TEST(lists_a_repeated_chunk_once),
		RESTOREFIX_TEST(does_not_blame_the_chunk_for_the_index),
		RESTOREFIX_TEST(reads_twice_before_it_judges),
		RESTOREFIX_TEST(takes_a_disk_error_for_no_proof),
		RESTOREFIX_TEST(reads_the_index_first),
		RESTOREFIX_TEST(wants_the_file_that_is_listed),
		RESTOREFIX_TEST(wants_a_sound_blob),
		RESTOREFIX_TEST(does_not_read_an_encrypted_chunk),
		RESTOREFIX_TEST(warns_if_it_can_not_record),
		RESTOREFIX_TEST(leaves_foreign_stores_alone),
		RESTOREFIX_TEST(keeps_within_its_memory),
		cmocka_unit_test(plans_within_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
