#!/bin/bash
# bench_streams.sh IMAGE [ROUNDS]: push, restore and cat of an image, hot.
#
# Interleaved in each round: what all cores can do of SHA-256 and zstd 3 on the
# same bytes (bench_ceiling; ceiling-data leaves zeros out), cairn push into a
# new store, cairn restore, cairn cat, cairn gc; restic backup, restore, dump.
# Prints medians, ratios of one run, and the largest anonymous memory. Needs
# restic. BUILD names the build directory,
# SCRATCH where stores go (twice the image's size).
set -euo pipefail
export LC_ALL=C RESTIC_PASSWORD=bench
here=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$here/build/release}
image=${1:?usage: bench_streams.sh IMAGE [ROUNDS]}
rounds=${2:-5}
scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/var/tmp}}/cairn-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cairn=$build/cairn
run=$build/bench_run

printf 'command: tests/bench/bench_streams.sh %s %s\n' "$(basename "$image")" "$rounds"
printf 'image: %s bytes, %s allocated; %s cores; restic %s\n' "$(stat -c %s "$image")" \
    "$(($(stat -c %b "$image") * 512))" "$(nproc)" "$(restic version | awk '{print $2}')"

# measure NAME COMMAND...: a line "seconds cpu kib" into NAME.log
measure() {
	local name=$1
	shift
	"$run" "$@" >/dev/null 2>"$scratch/err" || { cat "$scratch/err" >&2; exit 1; }
	tail -n 1 "$scratch/err" >>"$scratch/$name.log"
}
median() { sort -n "$scratch/$1.log" | awk '{a[NR]=$1} END {print a[int((NR+1)/2)]}'; }
peak() { awk '$3 > m {m = $3} END {printf "%.0f", m / 1024}' "$scratch/$1.log"; }
ratio() { awk -v a="$(median "$1")" -v b="$(median "$2")" 'BEGIN {printf "%.2f", a / b}'; }
spread() { sort -n "$scratch/$1.log" | awk 'NR==1 {a=$1} {b=$1} END {printf "%s..%s", a, b}'; }

cat "$image" >/dev/null
for ((i = 1; i <= rounds; i++)); do
	rm -rf "$scratch/store" "$scratch/restic" "$scratch/out"
	measure ceiling "$build/bench_ceiling" "$image"
	measure ceiling-data "$build/bench_ceiling" --skip-zeros "$image"
	"$cairn" -q init "$scratch/store"
	measure push "$cairn" -q -d "$scratch/store" push vm/1 disk.img="$image"
	measure restore "$cairn" -q -d "$scratch/store" restore vm/1/latest disk.img "$scratch/out"
	[ "$i" -gt 1 ] || cmp "$image" "$scratch/out"
	rm -f "$scratch/out"
	measure cat "$cairn" -q -d "$scratch/store" cat vm/1/latest disk.img
	measure gc "$cairn" -q -d "$scratch/store" gc
	restic -q init -r "$scratch/restic" >/dev/null
	measure restic-backup restic -q --no-cache -r "$scratch/restic" backup "$image"
	mkdir "$scratch/out"
	measure restic-restore restic -q --no-cache -r "$scratch/restic" restore latest --target "$scratch/out"
	rm -rf "$scratch/out"
	measure restic-dump restic -q --no-cache -r "$scratch/restic" dump latest "$(realpath "$image")"
done

printf '%-16s %10s %18s %12s\n' what 'median s' 'least..most s' 'anonymous'
for name in ceiling ceiling-data push restore cat gc restic-backup restic-restore restic-dump; do
	printf '%-16s %10s %18s %8s MiB\n' "$name" "$(median $name)" "$(spread $name)" "$(peak $name)"
done
printf 'push speed against ceiling: %s (want at least 0.70)\n' "$(ratio ceiling push)"
printf 'push speed against ceiling without zeros: %s\n' "$(ratio ceiling-data push)"
printf 'push time against restic backup: %s\n' "$(ratio push restic-backup)"
printf 'restore time against restic restore: %s (want at most 0.80)\n' "$(ratio restore restic-restore)"
printf 'cat time against restic dump: %s (want at most 1.00)\n' "$(ratio cat restic-dump)"
