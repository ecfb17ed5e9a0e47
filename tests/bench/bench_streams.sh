#!/bin/bash
# bench_streams.sh IMAGE [ROUNDS]: push, restore and cat of an image, hot.
#
# Interleaved in each round: what all cores can do of SHA-256 and zstd 3 on the
# same bytes (bench_ceiling; ceiling-data leaves zeros out), cairn push into a
# new store, cairn restore, cairn cat, cairn gc; restic backup, restore, dump.
# Prints medians, ratios of one run, and the largest anonymous memory. Needs
# restic. BUILD names the build directory,
# SCRATCH where stores go (twice the image's size).
. "$(dirname "$0")/lib.sh"
image=${1:?usage: bench_streams.sh IMAGE [ROUNDS]}
rounds=${2:-5}

printf 'command: tests/bench/bench_streams.sh %s %s\n' "$(basename "$image")" "$rounds"
printf 'image: %s bytes, %s allocated; %s cores; restic %s\n' "$(stat -c %s "$image")" \
    "$(($(stat -c %b "$image") * 512))" "$(nproc)" "$(restic version | awk '{print $2}')"

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

table ceiling ceiling-data push restore cat gc restic-backup restic-restore restic-dump
printf 'push speed against ceiling: %s (want at least 0.70)\n' "$(ratio ceiling push)"
printf 'push speed against ceiling without zeros: %s\n' "$(ratio ceiling-data push)"
printf 'push time against restic backup: %s\n' "$(ratio push restic-backup)"
printf 'restore time against restic restore: %s (want at most 0.80)\n' "$(ratio restore restic-restore)"
printf 'cat time against restic dump: %s (want at most 1.00)\n' "$(ratio cat restic-dump)"
