/* SPDX-License-Identifier: MIT */
#include "tests/support/restorefix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/blob.h"
#include "datastore/tree.h"
#include "index/idx.h"
#include "index/ingest.h"

static void on_message(void *ctx, enum task_level level, const char *text)
{
	static const char letters[] = "DNW";
	struct restorefix *f = ctx;
	struct err e = ERR_INIT;

	(void)pthread_mutex_lock(&f->told);
	if (buf_append_fmt(&f->messages, &e, "%c %s\n", letters[level], text) <
	    0)
		abort();
	(void)pthread_mutex_unlock(&f->told);
}

static void on_progress(void *ctx, const struct task_progress *p)
{
	struct restorefix *f = ctx;

	(void)pthread_mutex_lock(&f->told);
	if (strcmp(f->phase, p->phase) == 0 && p->done < f->last.done)
		f->fell = true;
	(void)snprintf(f->phase, sizeof(f->phase), "%s", p->phase);
	f->last = *p;
	f->last.phase = NULL;
	f->last.counts = NULL;
	f->last.counts_n = 0;
	(void)pthread_mutex_unlock(&f->told);
}

static const struct task_ops ops = { .message = on_message,
	.progress = on_progress };

int restorefix_setup(void **state)
{
	struct restorefix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->task = (struct task){ .ops = &ops, .ctx = f };
	f->hold = (struct snapshot_hold)SNAPSHOT_HOLD_INIT;
	f->manifest = (struct manifest)MANIFEST_INIT;
	f->out = -1;
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_mutex_init(&f->told, NULL);
	if (datastore_init(f->path, NULL, &f->task, &f->e) == 0 &&
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &f->ds, &f->e) == 0)
		return 0;
	print_error("%s\n", f->e.msg);
	return -1;
}

int restorefix_teardown(void **state)
{
	struct restorefix *f = *state;
	size_t before = f->fds;
	size_t after = 0;

	fault_uninstall();
	session_abort(f->session);
	restorefix_close(f);
	if (f->out >= 0)
		(void)close(f->out);
	datastore_close(f->ds);
	buf_release(&f->messages);
	(void)pthread_mutex_destroy(&f->lock);
	(void)pthread_mutex_destroy(&f->told);
	free(f->own);
	tmpdir_remove(&f->dir);
	free(f);
	after = tmpdir_open_fds();
	if (after != before)
		print_error(
		    "%zu descriptors open, %zu before\n", after, before);
	return after == before ? 0 : -1;
}

uint8_t *restorefix_bytes(struct restorefix *f, enum gen_kind kind, size_t n)
{
	struct gen g;

	free(f->own);
	f->own = malloc(n + 1);
	assert_non_null(f->own);
	gen_seed(&g, n);
	gen_fill(&g, kind, f->own, n);
	return f->own;
}

void restorefix_begin(struct restorefix *f)
{
	const struct session_opts opts = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.command = "push",
		.sync_level = SYNC_NONE,
		.level = 1,
		.references = idx_references,
	};

	assert_ok(
	    session_open(f->ds, &opts, &f->task, &f->session, &f->e), &f->e);
	f->id = *session_id(f->session);
}

void restorefix_add(
    struct restorefix *f, const char *filename, const void *p, size_t n)
{
	const struct ingest_opts opts = { .chunk_size = RESTOREFIX_CHUNK,
		.threads = 1 };
	struct ingest_source src = { .shown = "source" };
	struct ingest_result r;
	int rc = 0;

	tmpdir_put(f->dir.fd, "source", p, n);
	src.fd = openat(f->dir.fd, "source", O_RDONLY | O_CLOEXEC);
	assert_true(src.fd >= 0);
	switch (backup_file_kind(filename)) {
	case BACKUP_FILE_FIDX:
		rc = ingest_image(
		    f->session, filename, &src, &opts, &f->task, &r, &f->e);
		break;
	case BACKUP_FILE_DIDX:
		rc = ingest_stream(
		    f->session, filename, &src, &opts, &f->task, &r, &f->e);
		break;
	case BACKUP_FILE_BLOB:
		rc = ingest_conf(
		    f->session, filename, &src, &f->task, &r, &f->e);
		break;
	case BACKUP_FILE_NONE:
		break;
	}
	(void)close(src.fd);
	assert_ok(rc, &f->e);
}

struct digest restorefix_put(struct restorefix *f, const void *p, size_t n)
{
	struct buf scratch = BUF_INIT;
	struct codec *codec = NULL;
	enum session_put put = SESSION_NEW;
	struct digest d = { .b = { 0 } };
	int rc = codec_new(&codec, &f->e);

	if (rc == 0)
		rc = session_put(
		    f->session, codec, &scratch, p, n, &d, &put, &f->e);
	codec_free(codec);
	buf_release(&scratch);
	assert_ok(rc, &f->e);
	return d;
}

void restorefix_craft(struct restorefix *f, const char *filename,
    const struct idx_entry *entries, size_t n)
{
	struct idx_info info = { .kind = IDX_DYNAMIC, .ctime = 1, .count = n };
	uint8_t *p =
	    calloc(1, IDX_HEADER_SIZE + n * (size_t)IDX_DYNAMIC_ENTRY_SIZE);
	char tmp[NAME_MAX + 1];
	int rc = 0;

	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		idx_entry_encode(IDX_DYNAMIC, &entries[i],
		    p + IDX_HEADER_SIZE + i * IDX_DYNAMIC_ENTRY_SIZE);
	rc = digest_of(
	    p + IDX_HEADER_SIZE, n * IDX_DYNAMIC_ENTRY_SIZE, &info.csum, &f->e);
	info.size = n > 0 ? entries[n - 1].end : 0;
	idx_header_encode(&info, p);
	(void)snprintf(tmp, sizeof(tmp), "%.*s.tmp_didx",
	    (int)(strlen(filename) - strlen(".didx")), filename);
	tmpdir_put(session_dir_fd(f->session), tmp, p,
	    IDX_HEADER_SIZE + n * (size_t)IDX_DYNAMIC_ENTRY_SIZE);
	free(p);
	if (rc == 0)
		rc = session_add_file(
		    f->session, tmp, filename, info.size, &info.csum, &f->e);
	assert_ok(rc, &f->e);
}

void restorefix_commit(struct restorefix *f)
{
	struct session *s = f->session;

	f->session = NULL;
	assert_ok(session_commit(s, &f->e), &f->e);
}

void restorefix_push(
    struct restorefix *f, const char *filename, const void *p, size_t n)
{
	restorefix_begin(f);
	restorefix_add(f, filename, p, n);
	restorefix_commit(f);
}

int restorefix_open(struct restorefix *f, const char *archive)
{
	int rc = 0;

	restorefix_close(f);
	f->e = (struct err)ERR_INIT;
	rc = snapshot_hold(f->ds, &f->id, LOCK_SHARED, &f->hold, &f->e);
	if (rc == 0)
		rc = tree_read_manifest(
		    f->ds, &f->id, f->hold.fd, &f->manifest, &f->e);
	if (rc == 0)
		rc = archive_open(f->ds, &f->id, &f->hold, &f->manifest,
		    archive, &f->archive, &f->e);
	return rc;
}

void restorefix_close(struct restorefix *f)
{
	archive_close(f->archive);
	f->archive = NULL;
	manifest_release(&f->manifest);
	snapshot_release(&f->hold);
}

void restorefix_target(struct restorefix *f, const char *name, int flags)
{
	if (f->out >= 0)
		(void)close(f->out);
	f->out = openat(f->dir.fd, name, flags | O_CLOEXEC, 0644);
	assert_true(f->out >= 0);
}

void restorefix_assert_file(
    struct restorefix *f, const char *name, const void *p, size_t n)
{
	size_t got = 0;
	char *bytes = tmpdir_get(f->dir.fd, name, &got);

	assert_non_null(bytes);
	assert_int_equal(got, n);
	if (n > 0)
		assert_true(memcmp(bytes, p, n) == 0);
	free(bytes);
}

static struct idx *open_index(struct restorefix *f, const char *filename)
{
	char path[PATH_MAX];
	struct idx *ix = NULL;

	restorefix_file_path(f, filename, path);
	assert_ok(idx_open(f->dir.fd, path, path, &ix, &f->e), &f->e);
	return ix;
}

struct idx_entry restorefix_entry(
    struct restorefix *f, const char *filename, uint64_t i)
{
	struct idx *ix = open_index(f, filename);
	struct idx_entry entry;

	assert_ok(idx_read(ix, i, &entry, 1, &f->e), &f->e);
	idx_close(ix);
	return entry;
}

uint64_t restorefix_entries(struct restorefix *f, const char *filename)
{
	struct idx *ix = open_index(f, filename);
	uint64_t n = idx_info(ix)->count;

	idx_close(ix);
	return n;
}

void restorefix_file_path(
    struct restorefix *f, const char *filename, char out[PATH_MAX])
{
	char path[BACKUP_PATH_SIZE];

	backup_snapshot_path(&f->id, path);
	(void)snprintf(out, PATH_MAX, "store/%s/%s", path, filename);
}

void restorefix_chunk_path(
    const struct digest *d, const char *suffix, char out[PATH_MAX])
{
	char path[STORE_CHUNK_PATH_SIZE];

	store_chunk_path(d, path);
	(void)snprintf(out, PATH_MAX, "store/.chunks/%s%s", path, suffix);
}

bool restorefix_has_chunk(
    struct restorefix *f, const struct digest *d, const char *suffix)
{
	char path[PATH_MAX];
	struct stat st;

	restorefix_chunk_path(d, suffix, path);
	return fstatat(f->dir.fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A sound blob of n zeros and a one. */
static void put_blob(
    struct restorefix *f, const char *path, int level, size_t n)
{
	uint8_t *plain = calloc(1, n + 1);
	struct buf raw = BUF_INIT;
	struct codec *codec = NULL;
	int rc = codec_new(&codec, &f->e);

	assert_non_null(plain);
	plain[n] = 1;
	if (rc == 0)
		rc = blob_encode(codec, level, plain, n + 1, &raw, &f->e);
	if (rc == 0)
		tmpdir_put(f->dir.fd, path, raw.data, raw.len);
	codec_free(codec);
	buf_release(&raw);
	free(plain);
	assert_ok(rc, &f->e);
}

static void change_file(
    struct restorefix *f, const char *path, enum restorefix_spoil how)
{
	size_t n = 0;
	char *p = tmpdir_get(f->dir.fd, path, &n);

	assert_non_null(p);
	if (how == SPOIL_CRC)
		p[n - 1] = (char)(p[n - 1] ^ 1);
	else if (how == SPOIL_ZEROS)
		memset(p, 0, n);
	else if (how == SPOIL_TRUNCATED)
		n /= 2;
	else if (how == SPOIL_HEADER)
		n = BLOB_HEADER_SIZE;
	else if (how == SPOIL_EMPTY)
		n = 0;
	tmpdir_put(f->dir.fd, path, p, n);
	free(p);
}

void restorefix_spoil(
    struct restorefix *f, const struct digest *d, enum restorefix_spoil how)
{
	char path[PATH_MAX];
	char real[PATH_MAX];
	int fd = -1;

	restorefix_chunk_path(d, "", path);
	switch (how) {
	case SPOIL_MISSING:
		assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
		break;
	case SPOIL_CONTENT:
		put_blob(f, path, 0, RESTOREFIX_CHUNK - 1);
		break;
	case SPOIL_BOMB:
		put_blob(f, path, 1, (size_t)64 << 20);
		break;
	case SPOIL_HUGE:
		fd = openat(f->dir.fd, path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, CHUNK_MAX_FILE + 1), 0);
		(void)close(fd);
		break;
	case SPOIL_LINK:
		restorefix_chunk_path(d, ".real", real);
		assert_int_equal(renameat(f->dir.fd, path, f->dir.fd, real), 0);
		assert_int_equal(
		    symlinkat(strrchr(real, '/') + 1, f->dir.fd, path), 0);
		break;
	case SPOIL_CRC:
	case SPOIL_TRUNCATED:
	case SPOIL_HEADER:
	case SPOIL_EMPTY:
	case SPOIL_ZEROS:
	case SPOIL_KINDS:
		change_file(f, path, how);
		break;
	}
}

const char *restorefix_spoil_text(enum restorefix_spoil how)
{
	static const char *const texts[SPOIL_KINDS] = {
		[SPOIL_MISSING] = "",
		[SPOIL_CONTENT] = "content has another digest than the name",
		[SPOIL_CRC] = ", its header says ",
		[SPOIL_TRUNCATED] = ", its header says ",
		[SPOIL_HEADER] = " blob of 12 bytes has CRC 00000000",
		[SPOIL_EMPTY] = "",
		[SPOIL_ZEROS] = "unknown magic 0000000000000000",
		[SPOIL_BOMB] = "expands to more than 16777216 bytes",
		[SPOIL_HUGE] = "16777261 bytes, want at most 16777260",
		[SPOIL_LINK] = "is a symbolic link, want a regular file",
	};

	return texts[how];
}

/* How many lines of the text contain both. */
static unsigned count_lines(const char *text, const char *a, const char *b)
{
	unsigned n = 0;

	while (*text != '\0') {
		size_t len = strcspn(text, "\n");

		if (memmem(text, len, a, strlen(a)) != NULL &&
		    memmem(text, len, b, strlen(b)) != NULL)
			n++;
		text += len + (text[len] == '\n');
	}
	return n;
}

static unsigned count_list(struct restorefix *f, const char *a, const char *b)
{
	char *text = tmpdir_get(f->dir.fd, "store/.cairn/damaged", NULL);
	unsigned n = text == NULL ? 0 : count_lines(text, a, b);

	free(text);
	return n;
}

unsigned restorefix_listed(
    struct restorefix *f, const struct digest *d, const char *word)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(d, hex);
	return count_list(f, hex, word);
}

unsigned restorefix_list_lines(struct restorefix *f)
{
	return count_list(f, "", "");
}

unsigned restorefix_said(const struct restorefix *f, const char *text)
{
	char *all =
	    strndup(f->messages.len > 0 ? (const char *)f->messages.data : "",
		f->messages.len);
	unsigned n = 0;

	assert_non_null(all);
	n = count_lines(all, text, "");
	free(all);
	return n;
}
