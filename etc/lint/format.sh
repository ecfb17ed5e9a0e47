#!/usr/bin/env bash
# format: the C files are as clang-format 14 leaves them.  Other versions
# break lines elsewhere, so there the lint is skipped.
. "$(dirname "$0")/lib.sh"

tool=$(command -v clang-format-14 || echo clang-format)
need "$tool"
version=$("$tool" --version | grep -oE 'version [0-9]+' | tr -dc 0-9)
[ "$version" -eq 14 ] || {
	echo "$lint: skipped: clang-format $version, want 14"
	exit 77
}
list '*.c' '*.h' | tr '\n' '\0' |
	xargs -0r "$tool" --dry-run -Werror --style=file || bad=1
verdict
