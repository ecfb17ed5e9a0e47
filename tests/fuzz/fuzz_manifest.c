/* SPDX-License-Identifier: MIT */
/*
 * fuzz_manifest: any bytes as index.json.blob; what begins with a brace is
 * put into a plain blob first, so that the checksum does not keep the fuzzer
 * from the JSON.  What is accepted has only names that stay in their
 * directory, and comes back the same after a change of its notes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static const struct backup_snapshot snapshot = {
	.group = { .type = BACKUP_VM, .id = "100" },
	.time = 1784104200,
};

static void wrap(const uint8_t *data, size_t size, struct buf *out)
{
	struct codec *codec = NULL;
	struct err e = ERR_INIT;

	MUST(codec_new(&codec, &e) == 0);
	MUST(blob_encode(codec, 0, data, size, out, &e) == 0);
	codec_free(codec);
}

static void check_files(const struct manifest *m)
{
	for (size_t i = 0; i < m->files_n; i++) {
		const struct manifest_file *f = &m->files[i];

		MUST(strchr(f->filename, '/') == NULL);
		MUST(f->filename[0] != '.' && f->filename[0] != '\0');
		MUST(backup_file_kind(f->filename) != BACKUP_FILE_NONE);
		MUST(manifest_find(m, f->filename) == f);
	}
	MUST(manifest_find(m, BACKUP_MANIFEST) == NULL);
}

static void check_same(const struct manifest *a, const struct manifest *b)
{
	MUST(a->files_n == b->files_n && a->is_signed == b->is_signed);
	for (size_t i = 0; i < a->files_n; i++) {
		MUST(strcmp(a->files[i].filename, b->files[i].filename) == 0);
		MUST(a->files[i].crypt_mode == b->files[i].crypt_mode);
		MUST(a->files[i].size == b->files[i].size);
		MUST(digest_equal(&a->files[i].csum, &b->files[i].csum));
	}
	MUST(a->verified == b->verified && a->verified_at == b->verified_at);
	MUST(b->notes != NULL && strcmp(b->notes, "fuzz") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest m = MANIFEST_INIT;
	struct manifest again = MANIFEST_INIT;
	struct buf raw = BUF_INIT;
	struct err e = ERR_INIT;
	int rc = 0;

	if (size > 0 && data[0] == '{')
		wrap(data, size, &raw);
	else
		MUST(buf_append(&raw, data, size, &e) == 0);
	rc = manifest_decode(raw.data, raw.len, &snapshot, &m, &e);
	if (rc < 0) {
		MUST(e.code == rc && e.msg[0] != '\0');
		MUST(m.json == NULL && m.files_n == 0);
	} else {
		check_files(&m);
		MUST(manifest_set_notes(&m, "fuzz", &e) == 0);
		MUST(manifest_encode(&m, &raw, &e) == 0);
		MUST(manifest_decode(
			 raw.data, raw.len, &snapshot, &again, &e) == 0);
		check_same(&m, &again);
	}
	manifest_release(&m);
	manifest_release(&again);
	buf_release(&raw);
	return 0;
}
