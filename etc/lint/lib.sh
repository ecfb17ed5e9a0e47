# shellcheck shell=bash
# lib.sh: what every lint needs; sourced, not run.  The lint then stands in
# the root of the tree, whatever directory it was called from.
set -eu -o pipefail
export LC_ALL=C
lint=$(basename "$0" .sh)
cd "$(dirname "$0")/../.."
bad=0

# list PATTERN...: the files of the tree that match one, one a line, sorted; *
# also stands for a slash.  In a checkout these are the tracked files that are
# still there; in an unpacked archive all but what a build leaves behind.
list() {
	local f p
	if [ -e .git ]; then
		git -c safe.directory="$PWD" ls-files
	else
		find . -type f ! -path './build*' ! -path './.cache/*' |
			sed 's|^\./||'
	fi | sort | while IFS= read -r f; do
		for p in "$@"; do
			# shellcheck disable=SC2053
			[[ -f $f && $f == $p ]] || continue
			printf '%s\n' "$f"
			break
		done
	done
}

# complain TEXT...: one finding.
complain() {
	printf '%s: %s\n' "$lint" "$*" >&2
	bad=1
}

# need PROGRAM: without it the lint is skipped (ctest knows 77).
need() {
	command -v "$1" >/dev/null || {
		printf '%s: skipped: %s is not installed\n' "$lint" "$1"
		exit 77
	}
}

# code FILE: the file without comments and without the text of strings, lines
# kept, so that a search finds only what the compiler reads.
code() {
	perl -0777 -pe '
		s{(/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27}
		 {my ($all, $c) = ($&, $1);
		  defined $c ? " " . ($c =~ tr/\n//cdr) : substr($all, 0, 1) x 2}gse
	' "$1"
}

# verdict: the last line of a lint.
verdict() {
	[ "$bad" -ne 0 ] || printf '%s: ok\n' "$lint"
	exit "$bad"
}
