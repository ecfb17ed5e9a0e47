#!/bin/bash
# bench_trees.sh DIR [ROUNDS]: push and restore of a directory tree, hot.
#
# Interleaved in each round: cairn push into a new store and restore; restic
# backup and restore; borg create (zstd 3, no encryption) into a new repository.
# Prints medians, ratios of one run, what the stores take, and the largest
# anonymous memory.  Needs restic and borg.  BUILD names the build directory,
# SCRATCH where stores go (three times the tree's size).
. "$(dirname "$0")/lib.sh"
dir=${1:?usage: bench_trees.sh DIR [ROUNDS]}
rounds=${2:-3}

printf 'command: tests/bench/bench_trees.sh %s %s\n' "$(basename "$dir")" "$rounds"
printf 'tree: %s files, %s bytes; %s cores; restic %s, borg %s\n' \
	"$(find "$dir" -type f | wc -l)" \
	"$(find "$dir" -type f -printf '%s\n' | awk '{s += $1} END {printf "%.0f", s}')" \
	"$(nproc)" "$(restic version | awk '{print $2}')" "$(borg --version | awk '{print $2}')"

find "$dir" -type f -print0 | xargs -0 cat >/dev/null
for ((i = 1; i <= rounds; i++)); do
	rm -rf "$scratch/store" "$scratch/restic" "$scratch/borg" "$scratch/out"
	"$cairn" -q init "$scratch/store"
	measure push "$cairn" -q -d "$scratch/store" push host/a "root.tree=$dir"
	measure restore "$cairn" -q -d "$scratch/store" restore host/a/latest root.tree "$scratch/out"
	[ "$i" -gt 1 ] || diff -r --no-dereference "$dir" "$scratch/out"
	rm -rf "$scratch/out"
	restic -q init -r "$scratch/restic" >/dev/null
	measure restic-backup restic -q --no-cache -r "$scratch/restic" backup "$dir"
	measure restic-restore restic -q --no-cache -r "$scratch/restic" restore latest --target "$scratch/out"
	rm -rf "$scratch/out"
	borg init -e none "$scratch/borg"
	measure borg-create borg create -C zstd,3 "$scratch/borg::a" "$dir"
	mkdir "$scratch/out"
	(cd "$scratch/out" && measure borg-extract borg extract "$scratch/borg::a")
	rm -rf "$scratch/out"
done

table push restore restic-backup restic-restore borg-create borg-extract
cairn_bytes=$(stored "$scratch/store")
restic_bytes=$(stored "$scratch/restic")
borg_bytes=$(stored "$scratch/borg")
printf 'stored: cairn %s, restic %s, borg %s bytes\n' "$cairn_bytes" "$restic_bytes" "$borg_bytes"
printf 'push time against restic backup: %s (want at most 0.60)\n' "$(ratio push restic-backup)"
printf 'push time against borg create: %s (want at most 0.50)\n' "$(ratio push borg-create)"
printf 'stored against restic: %s (want at most 0.85)\n' "$(share "$cairn_bytes" "$restic_bytes")"
printf 'stored against borg: %s (want at most 0.85)\n' "$(share "$cairn_bytes" "$borg_bytes")"
printf 'restore time against restic restore: %s (want at most 0.70)\n' "$(ratio restore restic-restore)"
