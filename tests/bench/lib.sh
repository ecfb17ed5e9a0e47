# shellcheck shell=bash disable=SC2034
# lib.sh: what the benches that time whole programs share; sourced, not run.
#
# BUILD names the build directory (build/release), SCRATCH where a directory of
# their own is made, and removed at the end ($TMPDIR, else /var/tmp).
set -euo pipefail
# borg wants UTF-8
export LC_ALL=C.UTF-8 RESTIC_PASSWORD=bench
export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${BUILD:-$here/build/release}" && pwd)
cairn=$build/cairn
# The config file of this machine plays no part.
export CAIRN_CONFIG=/dev/null

scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/var/tmp}}/cairn-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
export BORG_BASE_DIR=$scratch/borg-home

# measure NAME COMMAND...: a line "seconds cpu kib" into NAME.log; the last is
# the largest anonymous memory (see bench_run.c).
measure() {
	local name=$1
	shift
	"$build/bench_run" "$@" >/dev/null 2>"$scratch/err" || {
		cat "$scratch/err" >&2
		printf 'failed: %s\n' "$*" >&2
		exit 1
	}
	tail -n 1 "$scratch/err" >>"$scratch/$name.log"
}
median() { sort -n "$scratch/$1.log" | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }
peak() { cat "${@/#/$scratch/}" | awk '$3 > m {m = $3} END {printf "%.0f", m / 1024}'; }
spread() { sort -n "$scratch/$1.log" | awk 'NR == 1 {a = $1} {b = $1} END {printf "%s..%s", a, b}'; }
share() { awk -v a="$1" -v b="$2" 'BEGIN {if (b > 0) printf "%.2f", a / b; else print "-"}'; }
ratio() { share "$(median "$1")" "$(median "$2")"; }

# table NAME...: a line for each, with its median.
table() {
	local name
	printf '%-16s %10s %18s %12s\n' what 'median s' 'least..most s' anonymous
	for name; do
		printf '%-16s %10s %18s %8s MiB\n' "$name" "$(median "$name")" \
			"$(spread "$name")" "$(peak "$name.log")"
	done
}

# stored DIR: the bytes of its files; files DIR: how many there are.
stored() { find "$1" -type f -printf '%s\n' | awk '{s += $1} END {printf "%.0f", s}'; }
files() { find "$1" -type f -printf . | wc -c; }
