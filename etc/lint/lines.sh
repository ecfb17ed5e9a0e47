#!/usr/bin/env bash
# lines: no C file is longer than 600 lines; each says its licence first, and
# a header's guard is its path.  A test that is a long list of cases may have
# 800.
. "$(dirname "$0")/lib.sh"

for file in $(list '*.c' '*.h'); do
	n=$(wc -l <"$file")
	case $file in tests/*) most=800 ;; *) most=600 ;; esac
	[ "$n" -le "$most" ] || complain "$file: $n lines, want at most $most"
	[ "$(head -n 1 "$file")" = '/* SPDX-License-Identifier: MIT */' ] ||
		complain "$file:1: no SPDX line"
	case $file in *.h) ;; *) continue ;; esac
	guard=CAIRN_$(printf '%s' "$file" | tr 'a-z/.' 'A-Z__')
	[ "$(grep -cxE "#(ifndef|define) $guard" "$file")" -eq 2 ] ||
		complain "$file: no include guard $guard"
done
verdict
