/* SPDX-License-Identifier: MIT */
#include "datastore/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/blob.h"
#include "datastore/compress.h"
#include "tests/support/test.h"

#define TIME 1784104200
#define CSUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The parts of a sound manifest. */
#define HEAD                                                             \
	"{\"backup-type\":\"vm\",\"backup-id\":\"100\",\"backup-time\":" \
	"1784104200,"
#define FILE_OF(name) \
	"{\"filename\":\"" name "\",\"size\":5,\"csum\":\"" CSUM "\"}"
#define FILES(list) "\"files\":[" list "]"
#define SOUND HEAD FILES(FILE_OF("a.img.fidx")) "}"

struct fixture {
	struct manifest m;
	struct manifest again;
	struct codec *codec;
	struct buf raw;
	struct buf text;
	struct err e;
};

static const struct backup_snapshot snapshot = {
	.group = { .type = BACKUP_VM, .id = "100" },
	.time = TIME,
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL || codec_new(&f->codec, &f->e) < 0)
		return -1;
	f->m = (struct manifest)MANIFEST_INIT;
	f->again = (struct manifest)MANIFEST_INIT;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	manifest_release(&f->m);
	manifest_release(&f->again);
	codec_free(f->codec);
	buf_release(&f->raw);
	buf_release(&f->text);
	free(f);
	return 0;
}

/* Decode a manifest of this JSON into m. */
static int decode_level(struct fixture *f, const char *json, int level)
{
	f->e = (struct err)ERR_INIT;
	assert_ok(
	    blob_encode(f->codec, level, json, strlen(json), &f->raw, &f->e),
	    &f->e);
	return manifest_decode(
	    f->raw.data, f->raw.len, &snapshot, &f->m, &f->e);
}

static int decode(struct fixture *f, const char *json)
{
	return decode_level(f, json, 0);
}

/* Encode m, decode that into `again`. */
static void round_trip(struct fixture *f)
{
	assert_ok(manifest_encode(&f->m, &f->raw, &f->e), &f->e);
	assert_ok(manifest_decode(
		      f->raw.data, f->raw.len, &snapshot, &f->again, &f->e),
	    &f->e);
}

/* The JSON that m encodes to. */
static const char *encoded(struct fixture *f)
{
	const char *s = NULL;

	assert_ok(manifest_encode(&f->m, &f->raw, &f->e), &f->e);
	assert_ok(blob_decode(f->codec, f->raw.data, f->raw.len,
		      MANIFEST_MAX_FILE, &f->text, &f->e),
	    &f->e);
	s = buf_cstr(&f->text, &f->e);
	assert_non_null(s);
	return s;
}

static void test_decode(void **state)
{
	static const char json[] = HEAD FILES(
	    "{\"filename\":\"a.img.fidx\",\"crypt-mode\":\"encrypt\","
	    "\"size\":9223372036854775807,\"csum\":\"" CSUM "\"},"
	    "{\"filename\":\"b.didx\",\"crypt-mode\":\"sign-only\",\"size\":0,"
	    "\"csum\":\"" CSUM "\"},"
	    "{\"filename\":\"c.conf.blob\",\"crypt-mode\":\"none\",\"size\":7,"
	    "\"csum\":\"" CSUM "\"},"
	    "{\"filename\":\"d.blob\",\"crypt-mode\":null,\"size\":7,"
	    "\"csum\":\"" CSUM
	    "\",\"new\":1}") ",\"signature\":\"abcd\",\"unprotected\":{\"notes\":\"n\\u00e4\","
			     "\"verify_state\":{\"state\":\"failed\",\"upid\":\"UPID:pbs1:"
			     "00000A1B:0001E240:00000003:6A56DB90:verificationjob:store1:"
			     "root@pam:\"}}}";
	static const enum crypt_mode modes[] = { CRYPT_ENCRYPT, CRYPT_SIGN_ONLY,
		CRYPT_NONE, CRYPT_NONE };
	struct fixture *f = *state;
	char hex[DIGEST_HEX_SIZE];

	for (int level = 0; level < 2; level++) {
		assert_ok(decode_level(f, json, level), &f->e);
		assert_int_equal(f->m.type, BACKUP_VM);
		assert_string_equal(f->m.id, "100");
		assert_int_equal(f->m.time, TIME);
		assert_int_equal(f->m.files_n, TEST_COUNT(modes));
		for (size_t i = 0; i < TEST_COUNT(modes); i++) {
			assert_int_equal(f->m.files[i].crypt_mode, modes[i]);
			digest_hex(&f->m.files[i].csum, hex);
			assert_string_equal(hex, CSUM);
		}
		assert_string_equal(f->m.files[0].filename, "a.img.fidx");
		assert_true(f->m.files[0].size == INT64_MAX);
		assert_true(f->m.is_signed);
		assert_string_equal(f->m.notes, "n\xc3\xa4");
		assert_int_equal(f->m.verified, VERIFY_FAILED);
		assert_int_equal(f->m.verified_at, 0x6a56db90);
	}
	assert_ptr_equal(manifest_find(&f->m, "d.blob"), &f->m.files[3]);
	assert_null(manifest_find(&f->m, "d"));
}

/* Absent, null and empty are the same. */
static void test_decode_least(void **state)
{
	static const char *const rows[] = {
		HEAD FILES("") "}",
		HEAD FILES("") ",\"signature\":null,\"unprotected\":null}",
		HEAD FILES("") ",\"unprotected\":{}}",
		HEAD FILES("") ",\"unprotected\":{\"notes\":null,"
			       "\"verify_state\":null}}",
		HEAD FILES("") ",\"unprotected\":{\"notes\":\"\"}}",
		" \n" HEAD FILES("") "}\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		assert_ok(decode(f, rows[i]), &f->e);
		assert_int_equal(f->m.files_n, 0);
		assert_false(f->m.is_signed);
		assert_null(f->m.notes);
		assert_int_equal(f->m.verified, VERIFY_NONE);
		assert_int_equal(f->m.verified_at, 0);
	}
}

#define UNPROTECTED(what) HEAD FILES("") ",\"unprotected\":{" what "}}"

static void test_decode_bad(void **state)
{
	static const struct {
		const char *json;
		const char *message;
	} rows[] = {
		{ "", "no JSON: line 1 column 0" },
		{ "{\"backup-type\": \"vm\", \"backup-id\"",
		    "no JSON: line 1" },
		{ SOUND "x", "no JSON" },
		{ "[]", "the JSON is no object" },
		{ "{}", "'backup-type' is missing" },
		{ "{\"backup-type\":\"vm\"}", "'backup-id' is missing" },
		{ "{\"backup-type\":\"vm\",\"backup-id\":100,\"backup-time\":"
		  "1,\"files\":[]}",
		    "'backup-id' is an integer, want a string" },
		{ "{\"backup-type\":\"vm\",\"backup-id\":\"100\",\"backup-time"
		  "\":1784104200.0,\"files\":[]}",
		    "'backup-time' is a fraction, want an integer" },
		{ "{\"backup-type\":\"ct\",\"backup-id\":\"100\",\"backup-time"
		  "\":1784104200,\"files\":[]}",
		    "manifest of 'ct/100/2026-07-15T08:30:00Z', want that of "
		    "'vm/100/2026-07-15T08:30:00Z'" },
		{ "{\"backup-type\":\"vm\",\"backup-id\":\"..\\n\","
		  "\"backup-time\":1784104201,\"files\":[]}",
		    "manifest of 'vm/..\\n/2026-07-15T08:30:01Z', want that of "
		    "'vm/100/2026-07-15T08:30:00Z'" },
		{ HEAD "\"unprotected\":{}}", "'files' is missing" },
		{ HEAD "\"files\":{}}", "'files' is an object, want an array" },
		{ HEAD FILES("1"), "no JSON" },
		{ HEAD FILES("1") "}",
		    "'files'[0]: an integer, want an object with 'filename'" },
		{ HEAD FILES("{}") "}", "'files'[0]: 'filename' is missing" },
		{ HEAD FILES(FILE_OF("../x.fidx")) "}",
		    "'files'[0]: '../x.fidx' is no file name, want at most 255 "
		    "letters, digits and ._- beginning with a letter, a digit "
		    "or _" },
		{ HEAD FILES(FILE_OF("..")) "}", "'..' is no file name" },
		{ HEAD FILES(FILE_OF("a/b.fidx")) "}",
		    "'a/b.fidx' is no file name" },
		{ HEAD FILES(FILE_OF("/b.fidx")) "}",
		    "'/b.fidx' is no file name" },
		{ HEAD FILES(FILE_OF("..\\\\b.fidx")) "}",
		    "'..\\\\b.fidx' is no file name" },
		{ HEAD FILES(FILE_OF(".b.fidx")) "}",
		    "'.b.fidx' is no file name" },
		{ HEAD FILES(FILE_OF("")) "}", "'' is no file name" },
		{ HEAD FILES(FILE_OF("a.img")) "}",
		    "'files'[0]: file 'a.img', want a name that ends with "
		    ".fidx, .didx or .blob" },
		{ HEAD FILES(
		      FILE_OF("a.fidx") "," FILE_OF("index.json.blob")) "}",
		    "'files'[1]: file 'index.json.blob' is the manifest "
		    "itself" },
		{ HEAD FILES(FILE_OF("b.fidx") "," FILE_OF(
		      "a.fidx") "," FILE_OF("b.fidx")) "}",
		    "file 'b.fidx' is listed more than once" },
		{ HEAD FILES(
		      "{\"filename\":\"a.fidx\",\"csum\":\"" CSUM "\"}") "}",
		    "'files'[0]: file 'a.fidx': 'size' is missing" },
		{ HEAD FILES(
		      "{\"filename\":\"a.fidx\",\"size\":-1,\"csum\":\"" CSUM
		      "\"}") "}",
		    "file 'a.fidx': 'size' is -1, want at least 0" },
		{ HEAD FILES("{\"filename\":\"a.fidx\",\"size\":"
			     "9223372036854775808,\"csum\":\"" CSUM "\"}") "}",
		    "no JSON" },
		{ HEAD FILES("{\"filename\":\"a.fidx\",\"size\":1}") "}",
		    "file 'a.fidx': 'csum' is missing" },
		{ HEAD FILES("{\"filename\":\"a.fidx\",\"size\":1,\"csum\":"
			     "\"12\"}") "}",
		    "file 'a.fidx': 'csum' is '12', want 64 hex digits" },
		{ HEAD FILES("{\"filename\":\"a.fidx\",\"size\":1,\"csum\":"
			     "\"" CSUM "\",\"crypt-mode\":\"sign\"}") "}",
		    "file 'a.fidx': 'crypt-mode' is 'sign', want none, "
		    "encrypt or sign-only" },
		{ HEAD FILES("{\"filename\":\"a.fidx\",\"size\":1,\"csum\":"
			     "\"" CSUM "\",\"crypt-mode\":1}") "}",
		    "'crypt-mode' is an integer, want a string" },
		{ HEAD FILES("") ",\"signature\":1}",
		    "'signature' is an integer, want a string" },
		{ HEAD FILES("") ",\"unprotected\":[]}",
		    "'unprotected' is no object" },
		{ UNPROTECTED("\"notes\":1"),
		    "'unprotected': 'notes' is an integer, want a string" },
		{ UNPROTECTED("\"verify_state\":\"ok\""),
		    "'unprotected': 'verify_state': a string, want an object "
		    "with 'state'" },
		{ UNPROTECTED("\"verify_state\":{\"state\":\"ok\"}"),
		    "'unprotected': 'verify_state': 'upid' is missing" },
		{ HEAD FILES("") ",\"backup-id\":\"100\"}", "no JSON" },
	};
	struct fixture *f = *state;

	assert_ok(decode(f, SOUND), &f->e);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		assert_err(decode(f, rows[i].json), &f->e, ERR_CORRUPT,
		    rows[i].message);
		/* What there was stands. */
		assert_int_equal(f->m.files_n, 1);
	}
}

static void test_decode_bad_blob(void **state)
{
	struct fixture *f = *state;
	static const uint8_t encrypted[] = { 0x7b, 0x67, 0x85, 0xbe, 0x22, 0x2d,
		0x4c, 0xf0, 0xd0, 0x18, 0xa0, 0xb5, 0, 1, 2, 3, 4, 5, 6, 7, 8,
		9, 10, 11, 12, 13, 14, 15, 0x18, 0x96, 0x31, 0xe7, 0x0a, 0xc6,
		0x74, 0xa0, 0x47, 0x2b, 0x51, 0x4b, 0xed, 0x48, 0xdc, 0x99,
		0x56, 0x5e, 0x93, 0x42, 0x0c, 0xd2, 0x7d, 0x10, 0xa4 };

	assert_ok(decode(f, SOUND), &f->e);
	for (size_t n = 0; n < f->raw.len; n++) {
		assert_err(
		    manifest_decode(f->raw.data, n, &snapshot, &f->m, &f->e),
		    &f->e, ERR_CORRUPT, "");
	}
	f->raw.data[20] ^= 1;
	assert_err(
	    manifest_decode(f->raw.data, f->raw.len, &snapshot, &f->m, &f->e),
	    &f->e, ERR_CORRUPT, "CRC");
	assert_err(manifest_decode(
		       encrypted, sizeof(encrypted), &snapshot, &f->m, &f->e),
	    &f->e, ERR_CORRUPT, "blob is encrypted, which a manifest never is");
	assert_int_equal(f->m.files_n, 1);
}

/* Limits: of the file, of what it expands to, of the list. */
static void test_limits(void **state)
{
	struct fixture *f = *state;
	size_t n = (size_t)MANIFEST_MAX_FILE + 1;
	char *big = malloc(n + 1);

	assert_non_null(big);
	memset(big, ' ', n);
	memcpy(big, SOUND, strlen(SOUND));
	big[n] = '\0';
	assert_err(decode_level(f, big, 1), &f->e, ERR_LIMIT, "");
	big[n - 1] = '\0';
	assert_ok(decode_level(f, big, 1), &f->e);
	free(big);
	assert_ok(buf_reserve(&f->raw, n, &f->e), &f->e);
	memset(f->raw.data, 0, n);
	assert_err(manifest_decode(f->raw.data, n, &snapshot, &f->m, &f->e),
	    &f->e, ERR_LIMIT, "16777217 bytes, want at most 16777216");
}

/* Entries that are nothing but many. */
static void test_too_many_files(void **state)
{
	struct fixture *f = *state;

	assert_ok(buf_append_str(&f->text, HEAD "\"files\":[0", &f->e), &f->e);
	for (size_t i = 0; i < MANIFEST_MAX_FILES; i++)
		assert_ok(buf_append_str(&f->text, ",0", &f->e), &f->e);
	assert_ok(buf_append_str(&f->text, "]}", &f->e), &f->e);
	assert_err(decode(f, buf_cstr(&f->text, &f->e)), &f->e, ERR_CORRUPT,
	    "65537 files, want at most 65536");
}

static void test_new(void **state)
{
	struct fixture *f = *state;
	struct digest csum;

	assert_true(digest_parse(CSUM, 64, &csum));
	assert_ok(manifest_new(&snapshot, &f->m, &f->e), &f->e);
	assert_string_equal(encoded(f),
	    "{\n"
	    "  \"backup-type\": \"vm\",\n"
	    "  \"backup-id\": \"100\",\n"
	    "  \"backup-time\": 1784104200,\n"
	    "  \"files\": [],\n"
	    "  \"signature\": null,\n"
	    "  \"unprotected\": {}\n"
	    "}");
	assert_ok(manifest_add(&f->m, "a.img.fidx", 5, &csum, &f->e), &f->e);
	assert_ok(manifest_add(&f->m, "b.blob", 12, &csum, &f->e), &f->e);
	assert_non_null(strstr(encoded(f),
	    "    {\n"
	    "      \"filename\": \"a.img.fidx\",\n"
	    "      \"crypt-mode\": \"none\",\n"
	    "      \"size\": 5,\n"
	    "      \"csum\": \"" CSUM "\"\n"
	    "    },\n"));
	round_trip(f);
	assert_int_equal(f->again.files_n, 2);
	assert_string_equal(f->again.files[1].filename, "b.blob");
	assert_int_equal(f->again.files[1].size, 12);
	assert_int_equal(f->again.files[0].crypt_mode, CRYPT_NONE);
	assert_true(digest_equal(&f->again.files[0].csum, &csum));
}

static void test_add_bad(void **state)
{
	static const struct {
		const char *name;
		uint64_t size;
		int code;
		const char *message;
	} rows[] = {
		{ "a.fidx", 1, ERR_EXISTS, "file 'a.fidx' is already listed" },
		{ "../a.fidx", 1, ERR_INVALID, "'../a.fidx' is no file name" },
		{ "a.img", 1, ERR_INVALID, "want a name that ends with" },
		{ "index.json.blob", 1, ERR_INVALID, "is the manifest itself" },
		{ "b.fidx", UINT64_MAX, ERR_LIMIT,
		    "'size' is 18446744073709551615, want at most" },
	};
	struct fixture *f = *state;
	struct digest csum = { .b = { 0 } };

	assert_ok(manifest_new(&snapshot, &f->m, &f->e), &f->e);
	assert_ok(manifest_add(&f->m, "a.fidx", 5, &csum, &f->e), &f->e);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		/* The message of before is no reason to fail. */
		int rc = manifest_add(
		    &f->m, rows[i].name, rows[i].size, &csum, &f->e);

		assert_err(rc, &f->e, rows[i].code, rows[i].message);
		assert_int_equal(f->m.files_n, 1);
	}
	round_trip(f);
	assert_int_equal(f->again.files_n, 1);
}

/* Unknown keys everywhere, and a signature, survive a change. */
static void test_unknown_kept(void **state)
{
	struct fixture *f = *state;
	const char *text = NULL;

	assert_ok(
	    decode(f,
		HEAD FILES(
		    "{\"filename\":\"a.fidx\",\"size\":5,\"csum\":"
		    "\"" CSUM
		    "\",\"later\":[1,{}]}") ",\"signature\":\"abc\",\"top\":{\"x\":1.5},"
					    "\"unprotected\":{\"key-fingerprint\":\"0e:ab\"}}"),
	    &f->e);
	assert_ok(manifest_set_notes(&f->m, "two\nlines", &f->e), &f->e);
	assert_ok(
	    manifest_set_upload_stats(&f->m, 8, 8650963, 131072, 2, &f->e),
	    &f->e);
	round_trip(f);
	assert_string_equal(f->again.notes, "two\nlines");
	assert_true(f->again.is_signed);
	text = encoded(f);
	assert_non_null(strstr(text, "\"later\": [\n        1,\n        {}\n"));
	assert_non_null(strstr(text, "\"signature\": \"abc\""));
	assert_non_null(strstr(text, "\"top\": {\n    \"x\": 1.5\n  }"));
	assert_non_null(strstr(text, "\"key-fingerprint\": \"0e:ab\""));
	assert_non_null(strstr(text,
	    "\"chunk_upload_stats\": {\n"
	    "      \"count\": 8,\n"
	    "      \"size\": 8650963,\n"
	    "      \"compressed_size\": 131072,\n"
	    "      \"duplicates\": 2\n"
	    "    }"));
}

static void test_notes(void **state)
{
	struct fixture *f = *state;

	/* Old files have no `unprotected`. */
	assert_ok(decode(f, SOUND), &f->e);
	assert_ok(manifest_set_notes(&f->m, "a", &f->e), &f->e);
	assert_string_equal(f->m.notes, "a");
	assert_ok(manifest_set_notes(&f->m, "b", &f->e), &f->e);
	round_trip(f);
	assert_string_equal(f->again.notes, "b");
	assert_err(manifest_set_notes(&f->m, "\xff", &f->e), &f->e, ERR_INVALID,
	    "UTF-8");
	assert_string_equal(f->m.notes, "b");
	assert_ok(manifest_set_notes(&f->m, "", &f->e), &f->e);
	assert_null(f->m.notes);
	assert_null(strstr(encoded(f), "notes"));
	assert_ok(manifest_set_notes(&f->m, NULL, &f->e), &f->e);
	assert_null(f->m.notes);
}

static void test_verified(void **state)
{
	struct fixture *f = *state;
	const char *upid = NULL;
	char want[64];

	assert_ok(decode(f, SOUND), &f->e);
	assert_ok(manifest_set_verified(&f->m, VERIFY_OK, TIME, &f->e), &f->e);
	assert_int_equal(f->m.verified, VERIFY_OK);
	round_trip(f);
	assert_int_equal(f->again.verified, VERIFY_OK);
	assert_int_equal(f->again.verified_at, TIME);
	upid = strstr(encoded(f), "\"upid\": \"UPID:");
	assert_non_null(upid);
	upid = strchr(upid + strlen("\"upid\": \"UPID:"), ':');
	assert_non_null(upid);
	(void)snprintf(want, sizeof(want),
	    ":%08X:00000000:00000000:%08" PRIX64 ":verificationjob:",
	    (unsigned)getpid(), (uint64_t)TIME);
	assert_memory_equal(upid, want, strlen(want));
	assert_non_null(strstr(upid, ":verificationjob:cairn:root@pam:\""));

	assert_ok(manifest_set_verified(&f->m, VERIFY_FAILED, 1, &f->e), &f->e);
	round_trip(f);
	assert_int_equal(f->again.verified, VERIFY_FAILED);
	assert_int_equal(f->again.verified_at, 1);
	assert_ok(manifest_set_verified(&f->m, VERIFY_NONE, 0, &f->e), &f->e);
	assert_null(strstr(encoded(f), "verify_state"));
	round_trip(f);
	assert_int_equal(f->again.verified, VERIFY_NONE);
}

/* When an upid tells no time, and when it is not ours to understand. */
static void test_upid(void **state)
{
	static const struct {
		const char *state;
		const char *upid;
		enum verify_outcome verified;
		int64_t at;
	} rows[] = {
		{ "ok", "UPID:n:1:2:3:0000000F:x:y:z:", VERIFY_OK, 15 },
		{ "ok", "UPID:n:1:2:3:6a56db90:x:y:z:", VERIFY_OK, 0x6a56db90 },
		{ "ok", "UPID:n:1:2:3:100000000:x:y:z:", VERIFY_OK,
		    0x100000000 },
		{ "ok", "UPID:n:1:2:3::x:y:z:", VERIFY_OK, 0 },
		{ "ok", "UPID:n:1:2:3:FFFFFFFFFFFFFFFFF:x:", VERIFY_OK, 0 },
		{ "ok", "UPID:n:1:2:3:6A56", VERIFY_OK, 0 },
		{ "ok", "UPID:n:1:2:3:6A5G:x:", VERIFY_OK, 0 },
		{ "ok", "UPID:n:1", VERIFY_OK, 0 },
		{ "ok", "", VERIFY_OK, 0 },
		{ "ok", "upid:n:1:2:3:6A56DB90:x:", VERIFY_OK, 0 },
		{ "perhaps", "UPID:n:1:2:3:6A56DB90:x:", VERIFY_NONE, 0 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		char json[512];

		(void)snprintf(json, sizeof(json),
		    UNPROTECTED("\"verify_state\":{\"state\":\"%s\",\"upid\":"
				"\"%s\"}"),
		    rows[i].state, rows[i].upid);
		assert_ok(decode(f, json), &f->e);
		assert_int_equal(f->m.verified, rows[i].verified);
		assert_int_equal(f->m.verified_at, rows[i].at);
	}
}

static void test_encode_limit(void **state)
{
	struct fixture *f = *state;
	size_t n = MANIFEST_MAX_FILE;
	char *notes = malloc(n + 1);

	assert_non_null(notes);
	memset(notes, 'x', n);
	notes[n] = '\0';
	assert_ok(manifest_new(&snapshot, &f->m, &f->e), &f->e);
	assert_ok(manifest_set_notes(&f->m, notes, &f->e), &f->e);
	free(notes);
	assert_err(manifest_encode(&f->m, &f->raw, &f->e), &f->e, ERR_LIMIT,
	    "want at most 16777204");
}

static void test_release(void **state)
{
	struct manifest m = MANIFEST_INIT;

	(void)state;
	manifest_release(&m);
	manifest_release(&m);
	assert_null(m.files);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_decode),
		TEST(test_decode_least),
		TEST(test_decode_bad),
		TEST(test_decode_bad_blob),
		TEST(test_limits),
		TEST(test_too_many_files),
		TEST(test_new),
		TEST(test_add_bad),
		TEST(test_unknown_kept),
		TEST(test_notes),
		TEST(test_verified),
		TEST(test_upid),
		TEST(test_encode_limit),
		cmocka_unit_test(test_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
