#!/usr/bin/env bash
# filemap: the file map of etc/doc/ARCHITECTURE.md names every file of the
# product, and every folder with files of tests, etc and the rest.
# filemap.sh --print writes the lines that are missing, each with the purpose
# that the file's first comment gives.
. "$(dirname "$0")/lib.sh"

doc=etc/doc/ARCHITECTURE.md

# The map in the document: in the fenced block after "## File map", a folder
# stands at the start of a line, its files below it, indented, a .c and its .h
# as one.  Out comes one path a line.
mapped() {
	awk '
		/^## / { here = /^## File map/; next }
		!here || /^```/ || NF == 0 { next }
		/^[^ ]/ { folder = $1; if (folder !~ prod) print folder; next }
		/^  [^ ]/ {
			if (sub(/\.\{c,h\}$/, "", $1)) {
				print folder $1 ".c"; print folder $1 ".h"
			} else {
				print folder $1
			}
		}' prod='^(datastore|index|gc|cli)/' "$doc" | sort
}

# The same from the tree.
present() {
	list 'datastore/*' 'index/*' 'gc/*' 'cli/*'
	list '*' | grep -vE '^(datastore|index|gc|cli)/' |
		sed -E 's|[^/]*$||; s|^$|./|' | sort -u
}

purpose() {
	sed -n '3,/\*\//s/^ \* [a-z0-9_]*: //p' "$1" | head -n 1
}

print_missing() {
	local stem name
	for path in $1; do
		stem=${path%.[ch]}
		name=$path
		if [ -f "$stem.c" ] && [ -f "$stem.h" ]; then
			[ "$path" = "$stem.h" ] || continue
			name="$stem.{c,h}"
		fi
		case $path in
		*/) printf '%s\n' "$path" ;;
		*) printf '%s:  %-20s %s\n' "${path%/*}/" "${name##*/}" \
			"$(purpose "$path")" ;;
		esac
	done
}

missing=$(comm -13 <(mapped) <(present | sort))
gone=$(comm -23 <(mapped) <(present | sort))
if [ "${1-}" = --print ]; then
	print_missing "$missing"
	exit 0
fi
for path in $missing; do complain "$doc: no line for $path"; done
for path in $gone; do complain "$doc: names $path, which is not there"; done
verdict
