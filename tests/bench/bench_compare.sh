#!/bin/bash
# bench_compare.sh [ROUNDS]: cairn beside restic, borg, bup and casync, on data
# made here (bench_data.c): a tree, a disk image, a tar.
#
# Of each kind, in each round, one tool after the other: a first push into a
# new store, the same again, a push after about 1 % changed, and a restore of
# that, which is compared in the first round.  So a load from elsewhere meets
# all of them.  Prints medians, the spread, ratios to cairn (above 1: cairn is
# better), what the store holds after the three pushes, in how many files, and
# the largest anonymous memory of a tool and its children.
#
#   BENCH_TREE_FILES=16000 BENCH_TREE_MB=280   the tree, and the tar of it
#   BENCH_IMAGE_MB=400                         the image, a fifth of it holes
#   BENCH_KINDS="tree image tar"  BENCH_TOOLS="cairn restic borg bup casync"
#   BUILD, SCRATCH: see lib.sh
#
# About 4 s of processor time a round for each 10 MB of a kind, most of it the
# other tools'.  Tools that are not installed are left out.  All as they come, but: restic and
# borg get a cache of their own; borg zstd 3 and no encryption (restic always
# encrypts); casync zstd; bup's level is 1.
. "$(dirname "$0")/lib.sh"
rounds=${1:-3}
tree_files=${BENCH_TREE_FILES:-16000}
tree_mb=${BENCH_TREE_MB:-280}
image_mb=${BENCH_IMAGE_MB:-400}
read -ra kinds <<<"${BENCH_KINDS:-tree image tar}"
read -ra tools <<<"${BENCH_TOOLS:-cairn restic borg bup casync}"
steps=(first same changed restore)
data=$scratch/data
store=$scratch/store
out=$scratch/out
# What programs keep in a home directory.
export HOME=$scratch/home RESTIC_CACHE_DIR=$scratch/restic-cache
export BUP_DIR=
mkdir "$data" "$store" "$HOME"

printf 'command: BENCH_TREE_FILES=%s BENCH_TREE_MB=%s BENCH_IMAGE_MB=%s BENCH_KINDS="%s" BENCH_TOOLS="%s" tests/bench/bench_compare.sh %s\n' \
	"$tree_files" "$tree_mb" "$image_mb" "${kinds[*]}" "${tools[*]}" "$rounds"
present=()
for tool in "${tools[@]}"; do
	if [ "$tool" = cairn ] || command -v "$tool" >/dev/null; then
		present+=("$tool")
	else
		printf 'left out: %s is not installed\n' "$tool"
	fi
done
tools=("${present[@]}")
version() { # TOOL
	case $1 in
	cairn) "$cairn" version ;;
	restic) restic version | cut -d ' ' -f 1,2 ;;
	bup) printf 'bup %s\n' "$(bup version)" ;;
	*) "$1" --version | head -n 1 ;;
	esac
}
for tool in "${tools[@]}"; do printf '%s; ' "$(version "$tool")"; done
printf '%s cores, load %s, in %s\n' "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)" \
	"$(stat -f -c %T "$scratch")"

# Data, a store of each tool for one kind, a restore, and room to breathe.
largest=$((image_mb > tree_mb ? image_mb : tree_mb))
need=$((2 * tree_mb + image_mb + (${#tools[@]} + 2) * largest))
free=$(($(stat -f -c '%a * %S' "$scratch" | sed 's/ \* / * /') / 1000000))
[ "$free" -ge "$need" ] || {
	printf 'bench_compare.sh: %s MB free in %s, want %s\n' "$free" "$scratch" "$need" >&2
	exit 1
}

make_store() { # TOOL
	rm -rf "${store:?}/$1" "$scratch/restic-cache" "$scratch/borg-home"
	case $1 in
	cairn) "$cairn" -q init "$store/cairn" ;;
	restic) restic -q init -r "$store/restic" >/dev/null ;;
	borg) borg init -e none "$store/borg" ;;
	bup) BUP_DIR=$store/bup bup init >/dev/null 2>&1 ;;
	casync) mkdir "$store/casync" ;;
	esac
}

# push NAME TOOL KIND STEP, of $data/KIND
push() {
	local source=$data/$3 archive=data.$3 index=caibx
	[ "$3" != image ] || archive=data.img
	[ "$3" != tree ] || index=caidx
	# shellcheck disable=SC2016
	case $2 in
	cairn) measure "$1" "$cairn" -q -d "$store/cairn" push --time "$(stamp "$4")" host/a "$archive=$source" ;;
	restic) measure "$1" restic -q -r "$store/restic" backup "$source" ;;
	borg) measure "$1" borg create -C zstd,3 "$store/borg::$4" "$source" ;;
	bup) BUP_DIR=$store/bup measure "$1" sh -c 'bup index "$1" && bup save -q -n a "$1"' sh "$source" ;;
	casync) measure "$1" casync make --compression=zstd --store="$store/casync/store" "$store/casync/$4.$index" "$source" ;;
	esac
}
# A name for cairn's snapshots, which may come faster than once a second.
stamp() {
	case $1 in
	first) echo 2001-01-01T00:00:01Z ;;
	same) echo 2001-01-01T00:00:02Z ;;
	*) echo 2001-01-01T00:00:03Z ;;
	esac
}

# restore NAME TOOL KIND: into $out; $back is then where it lies.
restore() {
	local archive=data.$3 index=caibx
	[ "$3" != image ] || archive=data.img
	[ "$3" != tree ] || index=caidx
	mkdir "$out"
	back=$out/$3
	case $2 in
	cairn) measure "$1" "$cairn" -q -d "$store/cairn" restore host/a/latest "$archive" "$back" ;;
	restic)
		measure "$1" restic -q -r "$store/restic" restore latest --target "$out"
		back=$out$data/$3
		;;
	borg)
		(cd "$out" && measure "$1" borg extract "$store/borg::changed")
		back=$out$data/$3
		;;
	bup) BUP_DIR=$store/bup measure "$1" bup restore -q -C "$out" "/a/latest$data/$3" ;;
	casync) measure "$1" casync extract --store="$store/casync/store" "$store/casync/changed.$index" "$back" ;;
	esac
}
same_data() { # KIND
	if [ "$1" = tree ]; then
		diff -rq "$data/tree" "$back"
	else
		cmp "$data/$1" "$back"
	fi
}

tar_it() {
	tar --sort=name --owner=0 --group=0 --numeric-owner -cf "$data/tar" -C "$data/tree" .
}
change() { # KIND ROUND: a seed of its own each time
	case $1 in
	tree) "$build/bench_data" change-tree "$data/tree" "$tree_files" "$((2 * $2))" ;;
	image) "$build/bench_data" change-image "$data/image" "$2" ;;
	tar)
		"$build/bench_data" change-tree "$data/tree" "$tree_files" "$((2 * $2 + 1))"
		tar_it
		;;
	esac
	sync -f "$data"
}

one_round() { # KIND ROUND
	local kind=$1 round=$2 tool step
	[ "$kind" != tar ] || tar_it
	for tool in "${tools[@]}"; do make_store "$tool"; done
	for step in "${steps[@]}"; do
		[ "$step" != changed ] || change "$kind" "$round"
		for tool in "${tools[@]}"; do
			if [ "$step" = restore ]; then
				restore "$kind-$tool-restore" "$tool" "$kind"
				[ "$round" -gt 1 ] || same_data "$kind"
				rm -rf "$out"
			else
				push "$kind-$tool-$step" "$tool" "$kind" "$step"
			fi
		done
	done
	for tool in "${tools[@]}"; do
		stored "$store/$tool" >"$scratch/$kind-$tool.bytes"
		files "$store/$tool" >"$scratch/$kind-$tool.files"
	done
	rm -f "$data/tar"
}

print_kind() { # KIND
	local kind=$1 tool step
	printf '\n%s: seconds, medians of %s\n%-8s' "$kind" "$rounds" tool
	printf ' %9s %6s' first ratio same ratio changed ratio restore ratio
	printf ' %12s %6s %8s %10s\n' 'stored MiB' ratio files 'memory MiB'
	for tool in "${tools[@]}"; do
		printf '%-8s' "$tool"
		for step in "${steps[@]}"; do
			printf ' %9s %6s' "$(median "$kind-$tool-$step")" \
				"$(ratio "$kind-$tool-$step" "$kind-${tools[0]}-$step")"
		done
		printf ' %12.1f %6s %8s %10s\n' \
			"$(awk '{print $1 / 1048576}' "$scratch/$kind-$tool.bytes")" \
			"$(share "$(cat "$scratch/$kind-$tool.bytes")" "$(cat "$scratch/$kind-${tools[0]}.bytes")")" \
			"$(cat "$scratch/$kind-$tool.files")" \
			"$(peak "$kind-$tool-first.log" "$kind-$tool-same.log" "$kind-$tool-changed.log" "$kind-$tool-restore.log")"
	done
	printf 'least..most:'
	for tool in "${tools[@]}"; do
		printf ' %s' "$tool"
		for step in "${steps[@]}"; do printf ' %s' "$(spread "$kind-$tool-$step")"; done
		printf ';'
	done
	printf '\n'
}

"$build/bench_data" tree "$data/tree" "$tree_files" "$((tree_mb * 1000000))"
"$build/bench_data" image "$data/image" "$((image_mb * 1000000 / 4096 * 4096))"
printf 'tree: %s files, %s bytes; image: %s bytes, %s of them allocated\n' \
	"$(files "$data/tree")" "$(stored "$data/tree")" "$(stat -c %s "$data/image")" \
	"$(($(stat -c %b "$data/image") * 512))"
sync -f "$data"
for ((round = 1; round <= rounds; round++)); do
	for kind in "${kinds[@]}"; do one_round "$kind" "$round"; done
done
for kind in "${kinds[@]}"; do print_kind "$kind"; done
printf '\n%s s in all; ' "$SECONDS"
cat "$scratch"/*.log | awk '{wall += $1; cpu += $2}
	END {printf "measured: %.0f s, %.0f s of them processor time\n", wall, cpu}'
