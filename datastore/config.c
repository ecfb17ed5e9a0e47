/* SPDX-License-Identifier: MIT */
#include "datastore/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/backupid.h"
#include "datastore/base/conf.h"
#include "datastore/base/file.h"
#include "datastore/base/nearest.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/compress.h"

/* A value's place in an error message. */
#define QUOTE_SIZE 64

#define SECTION "datastore"
#define STORE_NAME_MAX 64

#define SECONDS_PER_DAY 86400U
/* Far from where sums of file times overflow. */
#define GC_CUTOFF_MAX_S (3650ULL * SECONDS_PER_DAY)

#define PERCENT_X100_MAX 10000U

bool sync_level_parse(const char *s, enum sync_level *ret)
{
	static const struct {
		const char *name;
		enum sync_level level;
	} levels[] = {
		{ "none", SYNC_NONE },
		{ "filesystem", SYNC_FILESYSTEM },
		{ "file", SYNC_FILE },
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strcmp(s, levels[i].name) == 0) {
			*ret = levels[i].level;
			return true;
		}
	}
	return false;
}

struct settings settings_default(void)
{
	struct settings s = {
		.gc_touch_batch = GC_TOUCH_BATCH_DEFAULT,
		.gc_cutoff_s = GC_CUTOFF_DEFAULT_S,
		.sync_level = SYNC_FILESYSTEM,
		.compression = COMPRESS_LEVEL_DEFAULT,
		.min_free = { .bytes = 0, .percent_x100 = 500 },
		.owner = "root@pam",
		.time_zone = ZONE_UTC,
	};

	return s;
}

int settings_parse_touch_batch(const char *s, uint32_t *ret, struct err *e)
{
	uint64_t n = GC_TOUCH_BATCH_OFF;
	char quote[QUOTE_SIZE];

	if (strcmp(s, "off") != 0 &&
	    text_parse_u64(s, GC_TOUCH_BATCH_MIN, GC_TOUCH_BATCH_MAX, &n, e) <
		0) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no batch, want 'off' or a number between %u and "
		    "%u",
		    text_name(quote, sizeof(quote), s), GC_TOUCH_BATCH_MIN,
		    GC_TOUCH_BATCH_MAX);
	}
	*ret = (uint32_t)n;
	return 0;
}

int settings_parse_compression(const char *s, int *ret, struct err *e)
{
	uint64_t n = 0;
	int rc =
	    text_parse_u64(s, COMPRESS_LEVEL_MIN, COMPRESS_LEVEL_MAX, &n, e);

	if (rc < 0)
		return rc;
	*ret = (int)n;
	return 0;
}

/* Digits, at most two of them behind a point, and %; in hundredths. */
static bool parse_percent(const char *s, unsigned *ret)
{
	size_t whole = strspn(s, "0123456789");
	unsigned v = 0;
	size_t decimals = 0;

	if (whole == 0 || whole > 3)
		return false;
	for (; whole > 0; whole--)
		v = v * 10 + (unsigned)(*s++ - '0');
	if (*s == '.') {
		s++;
		decimals = strspn(s, "0123456789");
		if (decimals == 0 || decimals > 2)
			return false;
	}
	for (size_t i = 0; i < 2; i++)
		v = v * 10 + (i < decimals ? (unsigned)(*s++ - '0') : 0);
	if (strcmp(s, "%") != 0 || v > PERCENT_X100_MAX)
		return false;
	*ret = v;
	return true;
}

int settings_parse_min_free(const char *s, struct min_free *ret, struct err *e)
{
	struct min_free v = { .bytes = 0, .percent_x100 = 0 };
	char quote[QUOTE_SIZE];
	bool good = false;

	if (strchr(s, '%') != NULL) {
		good = parse_percent(s, &v.percent_x100);
	} else {
		good = text_parse_size(s, &v.bytes, e) == 0;
	}
	if (!good) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no free space, want a share like '5%%', a size "
		    "like '10G', or 0",
		    text_name(quote, sizeof(quote), s));
	}
	*ret = v;
	return 0;
}

/*
 * USER@REALM or USER@REALM!TOKEN, which is what Proxmox Backup Server wants to
 * find in an `owner` file.
 */
static bool is_owner(const char *s)
{
	const char *at = strrchr(s, '@');
	char realm[sizeof(((struct settings *)NULL)->owner)];
	const char *token = NULL;
	size_t n = 0;

	if (at == NULL || at == s || strlen(s) >= sizeof(realm))
		return false;
	for (const char *p = s; p < at; p++) {
		if (*p == ' ' || *p == '\t' || *p == ':' || *p == '/')
			return false;
	}
	n = strcspn(at + 1, "!");
	memcpy(realm, at + 1, n);
	realm[n] = '\0';
	token = at + 1 + n;
	return backupid_is_safe(realm) &&
	    (*token == '\0' || backupid_is_safe(token + 1));
}

/* Without what means nothing: double slashes, "." and a slash at the end. */
static void normalize_path(char *path)
{
	char *to = path;
	const char *from = path;

	while (*from != '\0') {
		size_t n = 0;

		from += strspn(from, "/");
		n = strcspn(from, "/");
		if (n > 0 && !(n == 1 && *from == '.')) {
			*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

static int set_path(
    struct config_datastore *store, const char *value, struct err *e)
{
	char quote[QUOTE_SIZE];

	if (value[0] != '/') {
		return err_set(e, ERR_INVALID, "'%s' is no absolute path",
		    text_name(quote, sizeof(quote), value));
	}
	store->path = strdup(value);
	if (store->path == NULL)
		return err_nomem(e);
	normalize_path(store->path);
	return 0;
}

static int set_touch_batch(
    struct config_datastore *store, const char *value, struct err *e)
{
	return settings_parse_touch_batch(
	    value, &store->settings.gc_touch_batch, e);
}

static int set_cutoff(
    struct config_datastore *store, const char *value, struct err *e)
{
	uint64_t seconds = 0;
	char quote[QUOTE_SIZE];
	int rc = text_parse_duration(value, &seconds, e);

	if (rc < 0)
		return rc;
	if (seconds > GC_CUTOFF_MAX_S) {
		return err_set(e, ERR_INVALID, "'%s' is more than %llud",
		    text_name(quote, sizeof(quote), value),
		    GC_CUTOFF_MAX_S / SECONDS_PER_DAY);
	}
	store->settings.gc_cutoff_s = seconds;
	return 0;
}

static int set_sync_level(
    struct config_datastore *store, const char *value, struct err *e)
{
	char quote[QUOTE_SIZE];

	if (!sync_level_parse(value, &store->settings.sync_level)) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no sync level, want none, filesystem or file",
		    text_name(quote, sizeof(quote), value));
	}
	return 0;
}

static int set_compression(
    struct config_datastore *store, const char *value, struct err *e)
{
	return settings_parse_compression(
	    value, &store->settings.compression, e);
}

static int set_owner(
    struct config_datastore *store, const char *value, struct err *e)
{
	char quote[QUOTE_SIZE];

	if (!is_owner(value)) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no owner, want USER@REALM or USER@REALM!TOKEN of "
		    "at most %zu characters",
		    text_name(quote, sizeof(quote), value),
		    sizeof(store->settings.owner) - 1);
	}
	memcpy(store->settings.owner, value, strlen(value) + 1);
	return 0;
}

static int set_index_dir(
    struct config_datastore *store, const char *value, struct err *e)
{
	char quote[QUOTE_SIZE];

	if (value[0] != '/' || strlen(value) >= CONFIG_DIR_SIZE) {
		return err_set(e, ERR_INVALID,
		    "'%s': want a path that begins with '/', of at most %d "
		    "bytes",
		    text_name(quote, sizeof(quote), value),
		    CONFIG_DIR_SIZE - 1);
	}
	memcpy(store->settings.index_dir, value, strlen(value) + 1);
	return 0;
}

static int set_min_free(
    struct config_datastore *store, const char *value, struct err *e)
{
	return settings_parse_min_free(value, &store->settings.min_free, e);
}

/* Opened to see that it can be; whoever needs it opens it again. */
static int set_time_zone(
    struct config_datastore *store, const char *value, struct err *e)
{
	struct zone *zone = NULL;
	int rc = zone_open(value, &zone, e);

	if (rc < 0)
		return rc;
	zone_free(zone);
	memcpy(store->settings.time_zone, value, strlen(value) + 1);
	return 0;
}

static const struct key {
	const char *name;
	/* NULL: a rule of retention. */
	int (*set)(
	    struct config_datastore *store, const char *value, struct err *e);
	enum retention_rule rule;
} keys[] = {
	{ .name = "path", .set = set_path },
	{ .name = "gc-touch-batch", .set = set_touch_batch },
	{ .name = "gc-cutoff", .set = set_cutoff },
	{ .name = "sync-level", .set = set_sync_level },
	{ .name = "compression", .set = set_compression },
	{ .name = "owner", .set = set_owner },
	{ .name = "min-free", .set = set_min_free },
	{ .name = "keep-within", .rule = RETENTION_WITHIN },
	{ .name = "keep-last", .rule = RETENTION_LAST },
	{ .name = "keep-hourly", .rule = RETENTION_HOURLY },
	{ .name = "keep-daily", .rule = RETENTION_DAILY },
	{ .name = "keep-weekly", .rule = RETENTION_WEEKLY },
	{ .name = "keep-monthly", .rule = RETENTION_MONTHLY },
	{ .name = "keep-yearly", .rule = RETENTION_YEARLY },
	{ .name = "time-zone", .set = set_time_zone },
	{ .name = "index-dir", .set = set_index_dir },
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

/* What the format of the config file has, and this program not yet. */
static const char *const later_keys[] = { "gc-schedule", "prune-schedule",
	"verify-schedule", "verify-outdated" };
static const char *const later_sections[] = { "service" };

static bool is_among(const char *s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(s, names[i]) == 0)
			return true;
	}
	return false;
}

static int unknown_key(const char *name, struct err *e)
{
	struct nearest n;
	char quote[QUOTE_SIZE];

	if (is_among(
		name, later_keys, sizeof(later_keys) / sizeof(later_keys[0]))) {
		return err_set(e, ERR_INVALID,
		    "key '%s' is not supported by this version", name);
	}
	nearest_init(&n, name);
	for (size_t i = 0; i < KEYS; i++)
		nearest_try(&n, keys[i].name);
	(void)text_name(quote, sizeof(quote), name);
	if (nearest_best(&n) == NULL)
		return err_set(e, ERR_INVALID,
		    "unknown key '%s'; cairn.conf(5) lists them", quote);
	return err_set(e, ERR_INVALID, "unknown key '%s', did you mean '%s'?",
	    quote, nearest_best(&n));
}

struct reading {
	struct config config;
	unsigned key_lines[KEYS]; /* of the section being read; 0: not yet */
};

static int check_heading(
    const struct config *c, const struct conf_item *item, struct err *e)
{
	char quote[QUOTE_SIZE];
	const struct config_datastore *same = NULL;

	if (is_among(item->section, later_sections,
		sizeof(later_sections) / sizeof(later_sections[0]))) {
		return err_set(e, ERR_INVALID,
		    "section '%s' is not supported by this version",
		    item->section);
	}
	if (strcmp(item->section, SECTION) != 0) {
		return err_set(e, ERR_INVALID,
		    "unknown section '%s', want '%s \"NAME\"'",
		    text_name(quote, sizeof(quote), item->section), SECTION);
	}
	(void)text_name(quote, sizeof(quote), item->name);
	if (item->name[0] == '\0') {
		return err_set(e, ERR_INVALID,
		    "section '%s' has no name, want '%s \"NAME\"'", SECTION,
		    SECTION);
	}
	if (!backupid_is_safe(item->name) ||
	    strlen(item->name) > STORE_NAME_MAX) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no name of a datastore, want at most %d letters, "
		    "digits and ._- beginning with a letter, a digit or _",
		    quote, STORE_NAME_MAX);
	}
	same = config_find_name(c, item->name);
	if (same != NULL) {
		return err_set(e, ERR_INVALID,
		    "section '%s \"%s\"' is already at line %u", SECTION,
		    item->name, same->line);
	}
	return 0;
}

static int add_section(
    struct reading *r, const struct conf_item *item, struct err *e)
{
	struct config *c = &r->config;
	struct config_datastore *stores = NULL;
	struct config_datastore store = { .line = item->line };
	int rc = check_heading(c, item, e);

	if (rc < 0)
		return rc;
	stores = reallocarray(c->stores, c->stores_n + 1, sizeof(*stores));
	if (stores == NULL)
		return err_nomem(e);
	c->stores = stores;
	store.name = strdup(item->name);
	if (store.name == NULL)
		return err_nomem(e);
	store.settings = settings_default();
	stores[c->stores_n++] = store;
	memset(r->key_lines, 0, sizeof(r->key_lines));
	return 0;
}

static int handle_item(void *ctx, const struct conf_item *item, struct err *e)
{
	struct reading *r = ctx;
	struct config_datastore *store = NULL;
	size_t i = 0;
	int rc = 0;

	if (item->key == NULL)
		return add_section(r, item, e);
	while (i < KEYS && strcmp(item->key, keys[i].name) != 0)
		i++;
	if (i == KEYS)
		return unknown_key(item->key, e);
	if (r->key_lines[i] != 0) {
		return err_set(e, ERR_INVALID, "key '%s' is already at line %u",
		    item->key, r->key_lines[i]);
	}
	r->key_lines[i] = item->line;
	store = &r->config.stores[r->config.stores_n - 1];
	rc = keys[i].set != NULL ? keys[i].set(store, item->value, e)
				 : retention_set(&store->settings.retention,
				       keys[i].rule, item->value, e);
	if (rc < 0)
		err_prefix(e, "key '%s'", item->key);
	return rc;
}

/* What can be seen only when a section is at its end. */
static int check_paths(const struct config *c, const char *file, struct err *e)
{
	for (size_t i = 0; i < c->stores_n; i++) {
		const struct config_datastore *store = &c->stores[i];

		if (store->path == NULL) {
			return err_set(e, ERR_INVALID,
			    "%s:%u: section '%s \"%s\"' has no key 'path'",
			    file, store->line, SECTION, store->name);
		}
		for (size_t k = 0; k < i; k++) {
			if (strcmp(c->stores[k].path, store->path) != 0)
				continue;
			return err_set(e, ERR_INVALID,
			    "%s:%u: section '%s \"%s\"' has the path of "
			    "section '%s \"%s\"' at line %u",
			    file, store->line, SECTION, store->name, SECTION,
			    c->stores[k].name, c->stores[k].line);
		}
	}
	return 0;
}

int config_read(const char *path, struct config *ret, struct err *e)
{
	struct reading r = { .config = CONFIG_INIT };
	int rc = conf_read_file(path, handle_item, &r, e);

	if (rc == 0)
		rc = check_paths(&r.config, path, e);
	if (rc == 0) {
		*ret = r.config;
	} else {
		config_release(&r.config);
	}
	return rc;
}

void config_release(struct config *c)
{
	for (size_t i = 0; i < c->stores_n; i++) {
		free(c->stores[i].name);
		free(c->stores[i].path);
	}
	free(c->stores);
	*c = (struct config)CONFIG_INIT;
}

const struct config_datastore *config_find_name(
    const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->stores_n; i++) {
		if (strcmp(c->stores[i].name, name) == 0)
			return &c->stores[i];
	}
	return NULL;
}

/* Links are followed: what counts is where a path leads. */
static bool stat_path(const char *path, struct statx *st)
{
	return sysio_statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, st) == 0;
}

const struct config_datastore *config_find_path(
    const struct config *c, const char *path)
{
	struct statx want = { .stx_mask = 0 };
	struct statx st = { .stx_mask = 0 };

	if (!stat_path(path, &want))
		return NULL;
	for (size_t i = 0; i < c->stores_n; i++) {
		if (stat_path(c->stores[i].path, &st) && file_same(&st, &want))
			return &c->stores[i];
	}
	return NULL;
}
