/* SPDX-License-Identifier: MIT */
#include "tests/support/ingestfix.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "datastore/chunker.h"
#include "index/ingest.h"
#include "tests/support/gen.h"

#define AVG ((size_t)64 << 10)
#define MIN (AVG / 4)
#define MAX (AVG * 4)
#define NAME "a.raw.didx"
#define TMP "a.raw.tmp_didx"

static const struct ingest_opts small = { .chunk_size = AVG, .threads = 2 };

static uint8_t *make_bytes(struct ingestfix *f, enum gen_kind kind, size_t n)
{
	struct gen g;

	free(f->own);
	f->own = malloc(n + 1);
	assert_non_null(f->own);
	gen_seed(&g, n);
	gen_fill(&g, kind, f->own, n);
	return f->own;
}

static int push_as(struct ingestfix *f, const struct ingest_opts *opts,
    struct ingest_result *ret)
{
	const struct ingest_source src = { f->fd, "db", 0 };

	return ingest_stream(f->s, NAME, &src, opts, &f->task, ret, &f->e);
}

static int push(struct ingestfix *f, struct ingest_result *ret)
{
	return push_as(f, &small, ret);
}

static void again(struct ingestfix *f)
{
	ingestfix_abort(f);
	assert_ok(ingestfix_open(f, false), &f->e);
}

/* The index has the cuts that the chunker finds in the whole of it. */
static void check_cuts(struct ingestfix *f, const uint8_t *p, size_t n)
{
	struct chunker c;
	struct idx *ix = NULL;
	struct idx_entry entry;
	size_t at = 0;
	size_t got = 0;

	assert_ok(chunker_init(&c, AVG, &f->e), &f->e);
	assert_ok(idx_open(session_dir_fd(f->s), TMP, TMP, &ix, &f->e), &f->e);
	while (at < n) {
		bool cut = false;

		at += chunker_scan(&c, p + at, n - at, &cut);
		assert_true(cut || at == n);
		assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
		assert_int_equal(got, 1);
		assert_int_equal(entry.end, at);
	}
	assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
	assert_int_equal(got, 0);
	idx_close(ix);
}

static void check_archive(struct ingestfix *f, const uint8_t *p, size_t n)
{
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), p, n);
	check_cuts(f, p, n);
}

/* Around every bound of a chunk, for data that cuts early, late, never. */
static void keeps_every_byte(void **state)
{
	static const size_t sizes[] = { 0, 1, MIN - 1, MIN, MIN + 1, AVG - 1,
		AVG, AVG + 1, MAX - 1, MAX, MAX + 1, 2 * MAX - 1, 2 * MAX,
		2 * MAX + 1, 40 * AVG + 333 };
	static const enum gen_kind kinds[] = { GEN_ZEROS, GEN_RANDOM,
		GEN_TEXT };
	struct ingestfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
			size_t n = sizes[i];
			uint8_t *p = make_bytes(f, kinds[k], n);
			struct ingest_result r = { .size = 99 };

			ingestfix_source(f, p, n);
			assert_ok(push(f, &r), &f->e);
			assert_int_equal(r.size, n);
			assert_int_equal(r.hole_bytes, 0);
			assert_false(r.changed);
			assert_true(r.chunks >= (n + MAX - 1) / MAX);
			check_archive(f, p, n);
			again(f);
		}
	}
}

/* However the bytes come: the same chunks. */
static void cuts_alike_however_it_reads(void **state)
{
	static const size_t pieces[] = { 1000, 4096, MIN, MIN + 1, 65521 };
	struct ingestfix *f = *state;
	size_t n = 20 * AVG + 77;
	uint8_t *p = make_bytes(f, GEN_RANDOM, n);

	for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
		struct ingest_result r = { .size = 0 };
		int rc = 0;

		ingestfix_source(f, p, n);
		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_READ),
		    .what = FAULT_FAIL,
		    .at = 5,
		    .times = 2,
		    .error = EINTR });
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_READ),
		    .what = FAULT_SHORT,
		    .at = 1,
		    .times = FAULT_FOREVER,
		    .bytes = pieces[i] });
		rc = push(f, &r);
		fault_uninstall();
		assert_ok(rc, &f->e);
		check_archive(f, p, n);
		again(f);
	}
}

/* From where the descriptor stands. */
static void begins_where_the_file_stands(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, GEN_TEXT, 3 * AVG);
	struct ingest_result r = { .size = 0 };

	ingestfix_source(f, p, 3 * AVG);
	assert_int_equal(lseek(f->fd, 1000, SEEK_SET), 1000);
	assert_ok(push(f, &r), &f->e);
	check_archive(f, p + 1000, 3 * AVG - 1000);
}

/* The other end of a pipe or socket. */
struct writer {
	pthread_t thread;
	int fd;
	const uint8_t *p;
	size_t n;
	size_t piece;
	unsigned pause_ms; /* before each piece */
	atomic_int *stop;  /* NULL, or set when all is written */
	bool hold;         /* keep it open until told */
	atomic_bool may_close;
};

static void sleep_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000,
		.tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&ts, NULL);
}

static void *write_pieces(void *arg)
{
	struct writer *w = arg;

	while (w->n > 0) {
		size_t n = w->n < w->piece ? w->n : w->piece;
		ssize_t r = 0;

		sleep_ms(w->pause_ms);
		r = write(w->fd, w->p, n);
		if (r <= 0)
			break;
		w->p += r;
		w->n -= (size_t)r;
	}
	if (w->stop != NULL) {
		sleep_ms(w->pause_ms);
		atomic_store(w->stop, SIGINT);
	}
	while (w->hold && !atomic_load(&w->may_close))
		sleep_ms(5);
	(void)close(w->fd);
	return NULL;
}

static void start_writer(struct ingestfix *f, struct writer *w, bool socket)
{
	int ends[2];

	if (f->fd >= 0)
		(void)close(f->fd);
	if (socket) {
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
		    0);
	} else {
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	}
	f->fd = ends[0];
	w->fd = ends[1];
	assert_int_equal(pthread_create(&w->thread, NULL, write_pieces, w), 0);
}

static void end_writer(struct ingestfix *f, struct writer *w)
{
	/* If it still wants to write, it gets EPIPE. */
	(void)close(f->fd);
	f->fd = -1;
	atomic_store(&w->may_close, true);
	assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static void reads_pipes_and_sockets(void **state)
{
	struct ingestfix *f = *state;
	size_t n = 30 * AVG + 1;
	uint8_t *p = make_bytes(f, GEN_TEXT, n);

	for (int socket = 0; socket < 2; socket++) {
		struct writer w = { .p = p, .n = n, .piece = 50001 };
		struct ingest_result r = { .size = 0 };
		int rc = 0;

		start_writer(f, &w, socket == 1);
		rc = push(f, &r);
		end_writer(f, &w);
		assert_ok(rc, &f->e);
		assert_int_equal(r.size, n);
		check_archive(f, p, n);
		again(f);
	}
}

/* One whose reads do not block waits all the same. */
static void reads_a_nonblocking_pipe(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, GEN_TEXT, AVG);
	struct writer w = { .p = p, .n = AVG, .piece = 20000, .pause_ms = 20 };
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	start_writer(f, &w, false);
	assert_int_equal(fcntl(f->fd, F_SETFL, O_NONBLOCK), 0);
	rc = push(f, &r);
	end_writer(f, &w);
	assert_ok(rc, &f->e);
	check_archive(f, p, AVG);
}

/* While there is nothing to read, a minute passes with each wait. */
struct pause {
	atomic_int minutes;
	atomic_int touches; /* of the registration */
};

static void pass_time(void *ctx, struct fault_event *ev)
{
	struct pause *p = ctx;
	struct timespec *ts = ev->p;

	if (ev->call == FAULT_POLL && ev->result == 0)
		atomic_fetch_add(&p->minutes, 1);
	if (ev->call == FAULT_UTIMENSAT)
		atomic_fetch_add(&p->touches, 1);
	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_BOOTTIME)
		ts->tv_sec += (time_t)60 * atomic_load(&p->minutes);
}

/* A pipe that pauses for minutes: the registration stays fresh. */
static void keeps_the_session_alive(void **state)
{
	struct ingestfix *f = *state;
	struct writer w = { .p = (const uint8_t *)"abcd",
		.n = 4,
		.piece = 4,
		.pause_ms = 1300 };
	struct ingest_result r = { .size = 0 };
	struct pause p = { .minutes = 0 };
	int rc = 0;

	start_writer(f, &w, false);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = pass_time, .ctx = &p });
	rc = push(f, &r);
	fault_uninstall();
	end_writer(f, &w);
	assert_ok(rc, &f->e);
	assert_int_equal(r.size, 4);
	/* Two waits of half a second, each followed by a beat. */
	assert_true(atomic_load(&p.minutes) >= 2);
	assert_true(atomic_load(&p.touches) >= 2);
}

/* Told to stop while it waits for a pipe that nobody writes to. */
static void stops_while_it_waits(void **state)
{
	struct ingestfix *f = *state;
	struct writer w = { .p = (const uint8_t *)"abcd",
		.n = 4,
		.piece = 4,
		.pause_ms = 50,
		.stop = &f->task.stop,
		.hold = true };
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	start_writer(f, &w, false);
	rc = push(f, &r);
	end_writer(f, &w);
	assert_err(rc, &f->e, ERR_CANCELLED, "");
}

/* Where the first chunk of these bytes ends. */
static size_t first_cut(struct ingestfix *f, const uint8_t *p, size_t n)
{
	struct chunker c;
	bool cut = false;
	size_t at = 0;

	assert_ok(chunker_init(&c, AVG, &f->e), &f->e);
	at = chunker_scan(&c, p, n, &cut);
	assert_true(cut);
	return at;
}

/* The store is full, and the pipe says nothing more: it must not wait. */
static void ends_at_an_error_while_it_waits(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, GEN_RANDOM, MAX);
	struct writer w = { .p = p, .piece = MAX, .hold = true };
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	w.n = first_cut(f, p, MAX) + 1;
	start_writer(f, &w, false);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .name = ".tmp_",
	    .what = FAULT_FAIL,
	    .at = 2, /* the first is the index */
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	rc = push(f, &r);
	fault_uninstall();
	end_writer(f, &w);
	assert_true(rc < 0);
	assert_true(err_is_sys(&f->e, ENOSPC));
}

static void names_the_place_of_an_error(void **state)
{
	static const enum fault_call calls[] = { FAULT_READ, FAULT_POLL };
	static const char *const texts[] = { "read 'db' at offset 20000: ",
		"wait for 'db': " };
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, GEN_RANDOM, AVG);

	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		struct writer w = {
			.p = p, .n = AVG, .piece = 20000, .pause_ms = 100
		};
		struct ingest_result r = { .size = 0 };
		int rc = 0;

		start_writer(f, &w, false);
		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(calls[i]),
		    .what = FAULT_FAIL,
		    .at = 3,
		    .times = 1,
		    .error = EIO });
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_READ),
		    .what = FAULT_SHORT,
		    .at = 1,
		    .times = FAULT_FOREVER,
		    .bytes = 10000 });
		rc = push(f, &r);
		fault_uninstall();
		end_writer(f, &w);
		assert_err(rc, &f->e, ERR_SYS, texts[i]);
		assert_true(err_is_sys(&f->e, EIO));
		again(f);
	}
}

static void refuses_a_directory(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };

	f->fd = dup(f->dir.fd);
	assert_err(push(f, &r), &f->e, ERR_SYS, "read 'db' at offset 0: ");
	assert_true(err_is_sys(&f->e, EISDIR));
}

static void refuses_a_bad_chunk_size(void **state)
{
	static const size_t sizes[] = { 1, 32768, 65537, 8U << 20 };
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };

	ingestfix_source(f, "x", 1);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		struct ingest_opts opts = { .chunk_size = sizes[i] };

		assert_err(push_as(f, &opts, &r), &f->e, ERR_INVALID,
		    "want a power of two");
	}
}

/* At the second read the file gets another size. */
static void append_to_it(void *ctx, struct fault_event *ev)
{
	const struct ingestfix *f = ctx;
	int fd = -1;

	if (ev->call != FAULT_READ || ev->fd != f->fd ||
	    fault_count(FAULT_BIT(FAULT_READ)) != 2)
		return;
	fd = openat(f->dir.fd, "source", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "more", 4), 4);
	assert_int_equal(close(fd), 0);
}

static void cut_it(void *ctx, struct fault_event *ev)
{
	const struct ingestfix *f = ctx;
	int fd = -1;

	if (ev->call != FAULT_READ || ev->fd != f->fd ||
	    fault_count(FAULT_BIT(FAULT_READ)) != 2)
		return;
	fd = openat(f->dir.fd, "source", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, AVG), 0);
	assert_int_equal(close(fd), 0);
}

static void tells_of_a_file_that_changes(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, GEN_TEXT, 2 * AVG);
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	ingestfix_source(f, p, 2 * AVG);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = append_to_it, .ctx = f });
	rc = push(f, &r);
	fault_uninstall();
	assert_ok(rc, &f->e);
	assert_true(r.changed);
	assert_int_equal(r.size, 2 * AVG + 4);
	again(f);
	ingestfix_source(f, p, 2 * AVG);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = cut_it, .ctx = f });
	rc = push(f, &r);
	fault_uninstall();
	assert_ok(rc, &f->e);
	assert_true(r.changed);
	assert_int_equal(r.size, AVG);
	check_archive(f, p, AVG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INGESTFIX_TEST(keeps_every_byte),
		INGESTFIX_TEST(cuts_alike_however_it_reads),
		INGESTFIX_TEST(begins_where_the_file_stands),
		INGESTFIX_TEST(reads_pipes_and_sockets),
		INGESTFIX_TEST(reads_a_nonblocking_pipe),
		INGESTFIX_TEST(keeps_the_session_alive),
		INGESTFIX_TEST(stops_while_it_waits),
		INGESTFIX_TEST(ends_at_an_error_while_it_waits),
		INGESTFIX_TEST(names_the_place_of_an_error),
		INGESTFIX_TEST(refuses_a_directory),
		INGESTFIX_TEST(refuses_a_bad_chunk_size),
		INGESTFIX_TEST(tells_of_a_file_that_changes),
	};

	struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGPIPE, &ignore, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
