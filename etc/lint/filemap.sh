#!/usr/bin/env bash
# filemap: the file map of etc/doc/ARCHITECTURE.md names every file of the
# product, with its purpose, and every other folder, to the second level.
#   filemap.sh --print   writes the lines that are missing
#   filemap.sh --write   brings the map up to date; known lines keep their text
# A new line's text is the first sentence of the file's first comment.
. "$(dirname "$0")/lib.sh"

doc=etc/doc/ARCHITECTURE.md
product=(datastore/base datastore index gc cli)

# What the map should name: FOLDER/STEM.{c,h}, FOLDER/FILE, or, outside the
# product, FOLDER/ to the second level.
tree() {
	list '*' | awk '
		!/^(datastore|index|gc|cli)\// {
			n = split($0, part, "/")
			folder = n == 1 ? "./" : part[1] "/"
			seen[n > 2 ? folder part[2] "/" : folder] = ""
			next
		}
		{
			match($0, /(\.[ch])?$/)
			stem = substr($0, 1, RSTART - 1)
			seen[stem] = seen[stem] substr($0, RSTART)
		}
		END {
			for (stem in seen) {
				sub(/^\.c\.h$/, ".{c,h}", seen[stem])
				print stem seen[stem]
			}
		}' | sort
}

# What it names, each with its text behind a tab.  In the fenced block under
# "## File map" a folder begins a line and its files, indented, follow.
map() {
	awk '
		/^## / { here = /^## File map/; next }
		!here || /^```/ || NF == 0 { next }
		/^[^ ]*\// { folder = $1; text = "" }
		/^  [^ ]/ { text = $1 }
		/^[^ ]*\/|^  [^ ]/ {
			name = folder text
			sub(/^ *[^ ]+ */, "")
			if (text != "" || name !~ /^(datastore|index|gc|cli)\//)
				print name "\t" $0
		}' "$doc" | sort
}

purpose() { # ENTRY
	local file=${1/.\{c,h\}/.h}
	[ -f "$file" ] || return 0
	perl -0777 -ne '
		print $1 =~ s/\s*\n \* */ /gr =~ s/^([A-Z])(?=[a-z ])/\l$1/r
		    if m{\A/\*[^\n]*\n/\*\n \* (?:[a-z0-9_]+: )?(.*?)[.:]?(\s*\*/|\n \*\n|\.\s)}s
		' "$file"
}

line() { # ENTRY TEXT
	case $1 in
	*/) printf '%-22s %s\n' "$1" "$2" ;;
	*) printf '  %-20s %s\n' "${1##*/}" "$2" ;;
	esac | sed 's/ *$//'
}

# The whole map, text kept where the stem is known.
whole() {
	local -A text=()
	local entry t folder
	while IFS=$'\t' read -r entry t; do
		entry=${entry%.[ch]}
		text[${entry%.\{c,h\}}]=$t
	done < <(map)
	for folder in "${product[@]}"; do
		printf '%s/\n' "$folder"
		tree | grep -E "^$folder/[^/]+$" || true
	done | {
		cat
		tree | grep '/$'
	} | while IFS= read -r entry; do
		t=${entry%.[ch]}
		t=${text[${t%.\{c,h\}}]-}
		[ -n "$t" ] || t=$(purpose "$entry")
		line "$entry" "$t"
	done
}

missing() { comm -23 <(tree) <(map | cut -f 1); }

case ${1-} in
--print)
	missing | while IFS= read -r entry; do
		printf '%s:\n' "${entry%/*}/"
		line "$entry" "$(purpose "$entry")"
	done
	exit 0
	;;
--write)
	new=$(whole)
	# shellcheck disable=SC2016
	{
		sed -i '/^## File map/,$ { /^```/,/^```/d }' "$doc"
		printf '```\n%s\n```\n' "$new" >>"$doc"
	}
	;;
esac
while IFS= read -r entry; do
	complain "$doc: no line for $entry"
done < <(missing)
while IFS= read -r entry; do
	complain "$doc: names $entry, which is not there"
done < <(comm -13 <(tree) <(map | cut -f 1))
while IFS= read -r entry; do
	complain "$doc: $entry has no purpose"
done < <(map | awk -F '\t' '$2 == "" { print $1 }')
verdict
