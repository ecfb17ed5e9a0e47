/* SPDX-License-Identifier: MIT */
#include "gc/place.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "datastore/backupid.h"
#include "datastore/base/text.h"

static enum place in_namespace(const char *name)
{
	enum backup_type type = BACKUP_CT;

	if (strcmp(name, "ns") == 0)
		return PLACE_NAMESPACES;
	return backup_type_parse(name, &type) ? PLACE_TYPE : PLACE_ODD;
}

enum place place_below(enum place in, const char *name)
{
	int64_t time = 0;

	switch (in) {
	case PLACE_NAMESPACE:
		return in_namespace(name);
	case PLACE_NAMESPACES:
		return backupid_is_safe(name) ? PLACE_NAMESPACE : PLACE_ODD;
	case PLACE_TYPE:
		return backupid_is_safe(name) ? PLACE_GROUP : PLACE_ODD;
	case PLACE_GROUP:
		return text_parse_time(name, &time) ? PLACE_SNAPSHOT
						    : PLACE_ODD;
	case PLACE_SNAPSHOT:
	case PLACE_ODD:
		break;
	}
	return PLACE_ODD;
}

enum place place_of(const char *path)
{
	enum place place = PLACE_NAMESPACE;
	char name[NAME_MAX + 1];

	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		if (n > NAME_MAX)
			return PLACE_ODD;
		memcpy(name, path, n);
		name[n] = '\0';
		place = place_below(place, name);
		path += n;
		path += strspn(path, "/");
	}
	return place;
}
