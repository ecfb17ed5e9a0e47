#!/usr/bin/env bash
# lines: no C file is longer than 600 lines; each says its licence first, and
# a header's guard is its path.
. "$(dirname "$0")/lib.sh"

for file in $(list '*.c' '*.h'); do
	n=$(wc -l <"$file")
	[ "$n" -le 600 ] || complain "$file: $n lines, want at most 600"
	[ "$(head -n 1 "$file")" = '/* SPDX-License-Identifier: MIT */' ] ||
		complain "$file:1: no SPDX line"
	case $file in *.h) ;; *) continue ;; esac
	guard=CAIRN_$(printf '%s' "$file" | tr 'a-z/.' 'A-Z__')
	[ "$(grep -cxE "#(ifndef|define) $guard" "$file")" -eq 2 ] ||
		complain "$file: no include guard $guard"
done
verdict
