#!/bin/bash
# bench_gc.sh [clean]: mark and sweep of garbage collection, in stores on
# loop-mounted file systems, variants interleaved.  Needs root and cgroup v1.
#
# A store: CHUNKS chunks of 1 KiB, 20 index files that share 80 to 95 %, mkfs
# as it comes on a sparse image of 1 TB, in two series: fresh (new chunks stand
# in the indexes as they were made) and aged (in any order).  Variants of a
# mark: ref (ref_touch), off, and batches.  Every run is a line of RESULTS
# (tab-separated); what is there is not run again: kill it and go on as you
# like.  Images stay for the next time; `clean` removes them.
#
#   BENCH_CHUNKS=1000000                          chunks of a store
#   BENCH_COLD_CHUNKS=1000000                     cold, cold sweep, batches
#   BENCH_THROTTLED=300000                        256 MiB and 10,000 reads/s
#   BENCH_FS="ext4 xfs btrfs"
#   BENCH_ROWS="hot sweep entries cold coldsweep batches throttled"
#   BENCH_VARIANTS="ref off batch"                of a mark
#   BENCH_PAIRS=10 BENCH_COLD_PAIRS=3             rounds
#   BENCH_ENTRIES=100000000                       references of row `entries`
#   BENCH_DIR=/var/tmp/cairn-bench-gc             images and RESULTS
#   BENCH_KEEP=yes|no                             images of a file system done
#   BENCH_COLD=drop|remount                       how caches are emptied
#   BUILD=build/release
#
# An image of 1,000,000 chunks takes 6 GB (ext4, xfs), one of 300,000 up to 3;
# of btrfs twice that.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$here/build/release}
chunks=${BENCH_CHUNKS:-1000000}
cold_chunks=${BENCH_COLD_CHUNKS:-$chunks}
throttled=${BENCH_THROTTLED:-300000}
systems=${BENCH_FS:-ext4 xfs btrfs}
rows=${BENCH_ROWS:-hot sweep entries cold coldsweep batches throttled}
read -r -a variants <<<"${BENCH_VARIANTS:-ref off batch}"
entries=${BENCH_ENTRIES:-100000000}
keep=${BENCH_KEEP:-yes}
pairs=${BENCH_PAIRS:-10}
cold_pairs=${BENCH_COLD_PAIRS:-3}
dir=${BENCH_DIR:-/var/tmp/cairn-bench-gc}
cold=${BENCH_COLD:-drop}
results=${RESULTS:-$dir/results.tsv}
mnt=$dir/mnt
group=cairn-bench-gc
loop=

if [ "${1-}" = clean ]; then
	rm -rf "$dir"
	exit 0
fi
mkdir -p "$mnt"
touch "$results"

# Somebody else may be looking at what is mounted (udev, an indexer).
unmount() {
	local i
	for i in 1 2 4 8; do
		umount "$mnt" 2>/dev/null && return
		sleep "$i"
	done
	umount "$mnt"
}

leave() {
	! mountpoint -q "$mnt" || unmount
	[ -z "$loop" ] || losetup -d "$loop"
	loop=
	rmdir "/sys/fs/cgroup/memory/$group" "/sys/fs/cgroup/blkio/$group" 2>/dev/null || true
}
trap leave EXIT

attach() { # IMAGE
	# Not every file system below (tmpfs) has direct I/O.
	loop=$(losetup --find --show --direct-io=on "$1" 2>/dev/null ||
		losetup --find --show "$1")
	mount_store
}

# What mkfs.ext4 left to do later is not written by what is measured.
mount_store() {
	local options=defaults
	[ "$(blkid -p -o value -s TYPE "$loop")" != ext4 ] || options=noinit_itable
	mount -o "$options" "$loop" "$mnt"
}

# The store of this file system and size, made where it is missing.
enter() { # FS CHUNKS
	local image=$dir/$1-$2.img series
	leave
	if [ ! -f "$image" ]; then
		rm -f "$image.new"
		truncate -s 1T "$image.new"
		"mkfs.$1" "$image.new" >/dev/null 2>&1
		attach "$image.new"
		"$build/cairn" -q init "$mnt/store"
		"$build/bench_gcgen" chunks "$mnt/store/.chunks" "$2"
		for series in fresh aged; do
			"$build/bench_gcgen" index "$mnt/$series" "$2" "$series"
		done
		sync -f "$mnt"
		leave
		mv "$image.new" "$image"
	fi
	attach "$image"
}

use_series() { # SERIES
	local current
	current=$(cat "$mnt/current" 2>/dev/null || true)
	[ "$current" != "$1" ] || return 0
	[ -z "$current" ] || mv "$mnt/store/vm" "$mnt/store/host" "$mnt/$current/"
	mv "$mnt/$1/vm" "$mnt/$1/host" "$mnt/store/"
	echo "$1" >"$mnt/current"
}

empty_caches() {
	sync -f "$mnt"
	if [ "$cold" = remount ]; then
		unmount
		mount_store
	else
		echo 3 >/proc/sys/vm/drop_caches
	fi
}

make_group() {
	mkdir -p "/sys/fs/cgroup/memory/$group" "/sys/fs/cgroup/blkio/$group"
	echo $((256 << 20)) >"/sys/fs/cgroup/memory/$group/memory.limit_in_bytes"
	echo "$(lsblk -dno MAJ:MIN "$loop" | tr -d ' ') 10000" \
		>"/sys/fs/cgroup/blkio/$group/blkio.throttle.read_iops_device"
}

# What a variant runs, as an array.
command_of() { # VARIANT
	case $1 in
	ref) run=("$build/ref_touch" "$mnt/store") ;;
	sweep) run=("$build/bench_gcrun" sweep "$mnt/store") ;;
	refsweep) run=("$build/bench_gcrun" refsweep "$mnt/store") ;;
	batch) run=("$build/bench_gcrun" mark "$mnt/store" 1048576) ;;
	*) run=("$build/bench_gcrun" mark "$mnt/store" "$1") ;;
	esac
}

device() { awk '{print $1, $3, $7}' "/sys/block/${loop#/dev/}/stat"; }

# One run, one line: row fs series variant round seconds cpu kib reads
# sectors-read sectors-written calls note
measure() { # ROW FS SERIES VARIANT ROUND
	local key before after end out run enter=() note
	key=$(printf '%s\t%s\t%s\t%s\t%s' "$@")
	! grep -qF "$key	" "$results" || return 0
	command_of "$4"
	case $1 in
	cold | coldsweep | batches) empty_caches ;;
	throttled)
		empty_caches
		make_group
		# shellcheck disable=SC2016
		enter=(bash -c 'echo $$ >"$0"; echo $$ >"$1"; shift; exec "$@"'
			"/sys/fs/cgroup/memory/$group/cgroup.procs"
			"/sys/fs/cgroup/blkio/$group/cgroup.procs")
		;;
	*) sync -f "$mnt" ;;
	esac
	before=$(device)
	out=$("${enter[@]}" "${run[@]}" 2>"$dir/note") || {
		cat "$dir/note" >&2
		exit 1
	}
	after=$(device)
	sync -f "$mnt"
	end=$(device)
	note=$(grep -oE 'touch: .*|references=.*' "$dir/note" | paste -sd ' ' || true)
	[ "$4" != ref ] || out=$(awk '{print $1, $2, 0, "utimensat=" $4}' <<<"$out")
	awk -v key="$key" -v b="$before" -v a="$after" -v e="$end" -v note="$note" '{
		split(b, x); split(a, y); split(e, z); OFS = "\t"
		calls = $4; for (i = 5; i <= NF; i++) calls = calls " " $i
		print key, $1, $2, $3, y[1] - x[1], y[2] - x[2], z[3] - x[3], calls, note
	}' <<<"$out" | tee -a "$results"
}

interleave() { # ROW FS SERIES ROUNDS VARIANT...
	local row=$1 fs=$2 series=$3 rounds=$4 i variant
	shift 4
	use_series "$series"
	for ((i = 1; i <= rounds; i++)); do
		for variant; do
			measure "$row" "$fs" "$series" "$variant" "$i"
		done
	done
}

# Is there nothing left to run of these?  Then the store is not needed.
is_done() { # ROW FS ROUNDS VARIANTS
	[ "$(awk -F '\t' -v r="$1" -v f="$2" '$1 == r && $2 == f' "$results" | wc -l)" -ge $(($3 * $4)) ]
}

want() { [[ " $rows " == *" $1 "* ]]; }

# More groups of the same index files, until there are so many references.
repeat_groups() {
	local refs copies i
	refs=$("$build/ref_touch" "$mnt/store" | awk '{print $3}')
	copies=$((entries / refs + 1))
	for ((i = 2; i <= copies; i++)); do
		cp -al "$mnt/store/vm/1" "$mnt/store/vm/$i"
		cp -al "$mnt/store/host/1" "$mnt/store/host/$i"
	done
}

drop_groups() {
	find "$mnt/store/vm" "$mnt/store/host" -mindepth 1 -maxdepth 1 ! -name 1 \
		-exec rm -r {} +
}

hot_rows() { # FS
	local series
	if want hot && ! is_done hot "$1" $((2 * pairs)) ${#variants[@]}; then
		enter "$1" "$chunks"
		for series in fresh aged; do
			use_series "$series"
			"$build/ref_touch" "$mnt/store" >/dev/null # warm
			interleave hot "$1" "$series" "$pairs" "${variants[@]}"
		done
	fi
	if want sweep && ! is_done hotsweep "$1" "$pairs" 2; then
		enter "$1" "$chunks"
		"$build/bench_gcrun" refsweep "$mnt/store" >/dev/null 2>&1
		interleave hotsweep "$1" aged "$pairs" refsweep sweep
	fi
	if want entries && ! is_done entries "$1" 1 1; then
		enter "$1" "$chunks"
		use_series fresh
		drop_groups # of a run that was killed
		repeat_groups
		interleave entries "$1" fresh 1 batch
		drop_groups
	fi
}

cold_rows() { # FS
	local series
	if want cold && ! is_done cold "$1" $((2 * cold_pairs)) ${#variants[@]}; then
		enter "$1" "$cold_chunks"
		for series in fresh aged; do
			interleave cold "$1" "$series" "$cold_pairs" "${variants[@]}"
		done
	fi
	if want coldsweep && ! is_done coldsweep "$1" "$cold_pairs" 2; then
		enter "$1" "$cold_chunks"
		interleave coldsweep "$1" aged "$cold_pairs" refsweep sweep
	fi
	if want batches && ! is_done batches "$1" 1 5; then
		enter "$1" "$cold_chunks"
		interleave batches "$1" aged 1 1024 65536 262144 1048576 off
	fi
}

throttled_rows() { # FS
	local series
	if want throttled && ! is_done throttled "$1" $((2 * cold_pairs)) ${#variants[@]}; then
		enter "$1" "$throttled"
		for series in fresh aged; do
			interleave throttled "$1" "$series" "$cold_pairs" "${variants[@]}"
		done
	fi
	if want throttled && ! grep -q "^floor	$1	" "$results"; then
		enter "$1" "$throttled"
		printf 'floor\t%s\t%s\n' "$1" "$("$build/bench_gcgen" floor "$mnt/store/.chunks")" >>"$results"
	fi
}

for fs in $systems; do
	hot_rows "$fs"
	cold_rows "$fs"
	throttled_rows "$fs"
	leave
	[ "$keep" = yes ] || rm -f "$dir/$fs"-*.img
done
"$here/tests/bench/bench_gc_table.sh" "$results"
