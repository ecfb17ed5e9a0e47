#!/usr/bin/env bash
# Every shell script of the tree, known by its first line.
. "$(dirname "$0")/lib.sh"

need shellcheck
list '*' | while IFS= read -r file; do
	read -r first <"$file" || true
	case $first in
	'#!'*sh | '# shellcheck shell='*) printf '%s\0' "$file" ;;
	esac
done 2>/dev/null | xargs -0r shellcheck -x -P SCRIPTDIR || bad=1
verdict
