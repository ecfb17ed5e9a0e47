#!/usr/bin/env bash
# layers: includes go down only, start at the root, and keep to their home.
. "$(dirname "$0")/lib.sh"

# below FOLDER: what a file of FOLDER may include, as a regular expression.
below() {
	case $1 in
	datastore/base) echo 'datastore/base' ;;
	datastore) echo 'datastore(/base)?' ;;
	index) echo 'datastore(/base)?|index' ;;
	gc) echo 'datastore(/base)?|index|gc' ;;
	cli) echo 'datastore(/base)?|index|gc|cli' ;;
	tests/*) echo 'datastore(/base)?|index|gc|cli|tests/[a-z]+' ;;
	esac
}

# home HEADER: the files that may include a library's header; nothing for a
# header of the C library.  An unknown header with a folder has no home.
home() {
	case $1 in
	jansson.h) echo 'datastore/base/json\.c' ;;
	ini.h) echo 'datastore/base/conf\.c' ;;
	openssl/*) echo 'datastore/base/digest\.c|datastore/crypt\.c' ;;
	zstd*.h) echo 'datastore/compress\.c' ;;
	zlib.h) echo 'datastore/base/crc32\.c' ;;
	sqlite3*.h) echo 'index/catalog[a-z_]*\.[ch]|gc/history[a-z_]*\.[ch]' ;;
	archive*.h) echo 'index/(tar_[a-z_]+|tree_(im|ex)port[a-z_]*)\.[ch]' ;;
	microhttpd.h) echo 'gc/statuspage[a-z_]*\.c' ;;
	arpa/* | linux/* | net/* | netinet/* | sys/*) ;;
	*/* | cmocka.h) echo none ;;
	esac
}

# An include of a private header: only by files that begin with its stem.
private() { # FILE HEADER
	local stem=${2%_internal.h}
	case $1 in
	"$stem".* | "$stem"_* | tests/*) ;;
	*) complain "$1: includes the private header '$2'" ;;
	esac
}

own() { # FILE HEADER LINE
	local folder=${1%/*}
	[[ $2 =~ ^($(below "$folder"))/[a-z0-9_]+\.h$ ]] ||
		complain "$1:$3: '$folder' may not include '$2'"
	case $2 in *_internal.h) private "$1" "$2" ;; esac
}

library() { # FILE HEADER LINE
	local where
	where=$(home "$2")
	case $1 in tests/*) return ;; esac
	[ -z "$where" ] || [[ $1 =~ ^($where)$ ]] ||
		complain "$1:$3: '<$2>' belongs in $where"
}

include='^[[:space:]]*#[[:space:]]*include[[:space:]]*([<"])([^>"]+)[>"]'
for file in $(list '*.c' '*.h'); do
	while IFS=: read -r line text; do
		[[ $text =~ $include ]] || continue
		if [ "${BASH_REMATCH[1]}" = '"' ]; then
			own "$file" "${BASH_REMATCH[2]}" "$line"
		else
			library "$file" "${BASH_REMATCH[2]}" "$line"
		fi
	done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
done

# One name, one file: an include or a message names it without its folder.
twice=$(list 'datastore/*' 'index/*' 'gc/*' 'cli/*' | sed 's|.*/||' | sort | uniq -d)
[ -z "$twice" ] || complain "file names used twice: $twice"
verdict
