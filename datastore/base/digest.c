/* SPDX-License-Identifier: MIT */
#include "datastore/base/digest.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct digest_ctx {
	EVP_MD_CTX *md;
};

/* OpenSSL keeps a queue per thread: drain it, or the next one finds it. */
static int crypto_failed(struct err *e)
{
	unsigned long code = ERR_peek_last_error();
	char text[160] = "unknown";

	if (code != 0)
		ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE)
		return err_nomem(e);
	return err_set(e, ERR_UNSUPPORTED, "SHA-256: %s", text);
}

int digest_qsort(const void *a, const void *b)
{
	return memcmp(a, b, DIGEST_SIZE);
}

void digest_hex(const struct digest *d, char out[DIGEST_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		out[2 * i] = digits[d->b[i] >> 4];
		out[2 * i + 1] = digits[d->b[i] & 15];
	}
	out[DIGEST_HEX_SIZE - 1] = '\0';
}

/* One more than the value of a lower-case hex digit; 0 for anything else. */
static const uint8_t hex_values[UINT8_MAX + 1] = {
	['0'] = 1,
	['1'] = 2,
	['2'] = 3,
	['3'] = 4,
	['4'] = 5,
	['5'] = 6,
	['6'] = 7,
	['7'] = 8,
	['8'] = 9,
	['9'] = 10,
	['a'] = 11,
	['b'] = 12,
	['c'] = 13,
	['d'] = 14,
	['e'] = 15,
	['f'] = 16,
};

/* Without branches on the digits, which nothing can predict: a sweep parses
 * the name of every chunk. */
bool digest_parse(const char *s, size_t n, struct digest *ret)
{
	struct digest d = { { 0 } };
	unsigned bad = 0;

	if (n != (size_t)2 * DIGEST_SIZE)
		return false;
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		unsigned high = hex_values[(uint8_t)s[2 * i]];
		unsigned low = hex_values[(uint8_t)s[2 * i + 1]];

		bad |= (unsigned)(high == 0) | (unsigned)(low == 0);
		d.b[i] = (uint8_t)((high - 1) * 16 + low - 1);
	}
	if (bad != 0)
		return false;
	*ret = d;
	return true;
}

int digest_of(const void *p, size_t n, struct digest *ret, struct err *e)
{
	struct digest d = { { 0 } };

	if (EVP_Digest(p, n, d.b, NULL, EVP_sha256(), NULL) != 1)
		return crypto_failed(e);
	*ret = d;
	return 0;
}

int digest_ctx_new(struct digest_ctx **ret, struct err *e)
{
	struct digest_ctx *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (c == NULL)
		return err_nomem(e);
	c->md = EVP_MD_CTX_new();
	if (c->md == NULL) {
		ERR_clear_error();
		rc = err_nomem(e);
		goto out;
	}
	if (EVP_DigestInit_ex(c->md, EVP_sha256(), NULL) != 1) {
		rc = crypto_failed(e);
		goto out;
	}
	*ret = c;
	c = NULL;
out:
	digest_ctx_free(c);
	return rc;
}

int digest_ctx_update(
    struct digest_ctx *c, const void *p, size_t n, struct err *e)
{
	if (EVP_DigestUpdate(c->md, p, n) != 1)
		return crypto_failed(e);
	return 0;
}

int digest_ctx_final(struct digest_ctx *c, struct digest *ret, struct err *e)
{
	struct digest d = { { 0 } };

	if (EVP_DigestFinal_ex(c->md, d.b, NULL) != 1 ||
	    EVP_DigestInit_ex(c->md, NULL, NULL) != 1)
		return crypto_failed(e);
	*ret = d;
	return 0;
}

void digest_ctx_free(struct digest_ctx *c)
{
	if (c == NULL)
		return;
	EVP_MD_CTX_free(c->md);
	free(c);
}
