#!/usr/bin/env bash
# run.sh DIRECTORY [NAME...]: take out one rule of the product at a time and
# see that the test named for it fails.
#
# Each NAME.patch says in its first lines what is taken out and, after "test:",
# which program must fail, after "case:", which of its cases (a pattern of
# cmocka's): only that is run.  The tree is copied to DIRECTORY/src, built in
# DIRECTORY/build, and again after each patch: only what it touches.  Both are
# kept, so that a second call is quick.  While one mutant is built, others run,
# as many at once as there are processors.
set -eu -o pipefail
export LC_ALL=C

[ $# -ge 1 ] || {
	echo "usage: run.sh DIRECTORY [NAME...]" >&2
	exit 2
}
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
shift
src=$work/src
build=$work/build
limit=${CAIRN_MUTANT_TIMEOUT:-120}

for tool in cmake ninja patch timeout; do
	command -v "$tool" >/dev/null || {
		echo "skipped: $tool is not installed"
		exit 77
	}
done

# What is not changed keeps its times, and is not built again.
mkdir -p "$src"
(
	cd "$root"
	for d in CMakeLists.txt README.md LICENSE datastore index gc cli tests etc; do
		find "$d" -type f -print0
	done
) | (
	cd "$src"
	while IFS= read -r -d '' f; do
		if ! cmp -s "$root/$f" "$f"; then
			mkdir -p "$(dirname "$f")"
			cp "$root/$f" "$f"
		fi
	done
)
rm -rf "$work/run"
mkdir "$work/run"

# What failed may leave behind.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

patches=()
if [ $# -gt 0 ]; then
	for name; do
		patches+=("$root/tests/mutants/$name.patch")
	done
else
	patches=("$root"/tests/mutants/*.patch)
fi

want() { # WORD PATCH: what it says behind "WORD:"
	sed -n "s/^# $1: //p" "$2"
}

make_targets() { # TARGET...
	nice ninja -C "$build" "$@" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		return 1
	}
}

# begin NAME TARGET CASE: run a copy of the target as it is now, as soon as a
# processor is free, beside what is done meanwhile; its status into NAME.rc.
begin() {
	local dir=$work/run/$1
	mkdir "$dir"
	cp "$build/$2" "$dir/"
	while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
	(
		cd "$dir"
		from=${EPOCHREALTIME/./}
		rc=0
		CAIRN_TEST_FILTER=$3 timeout "$limit" "./$2" >"$dir.log" 2>&1 ||
			rc=$?
		rm "$2"
		echo "$rc $(((${EPOCHREALTIME/./} - from) / 1000))" >"$dir.rc"
	) 2>/dev/null &
}

# Not optimised: most of the time would go into that.
launcher=$(command -v ccache || true)
CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
export CCACHE_BASEDIR CCACHE_NOHASHDIR
cmake -S "$src" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_C_FLAGS_DEBUG='-g0 -O0' \
	-DCMAKE_C_COMPILER_LAUNCHER="$launcher" >/dev/null

# Without the mutant it must pass, or its failing says nothing.
targets=()
for p in "${patches[@]}"; do targets+=("$(want test "$p")"); done
make_targets "${targets[@]}" || exit 1
for p in "${patches[@]}"; do
	begin "$(basename "$p" .patch)-not" "$(want test "$p")" "$(want case "$p")"
done

bad=0
complain() {
	echo "$*" >&2
	bad=1
}

for p in "${patches[@]}"; do
	name=$(basename "$p" .patch)
	target=$(want test "$p")
	if ! patch -s --dry-run -d "$src" -p1 <"$p" >"$work/log"; then
		cat "$work/log" >&2
		complain "$name: the patch does not apply any more"
		continue
	fi
	patch -s -d "$src" -p1 <"$p"
	if make_targets "$target"; then
		begin "$name" "$target" "$(want case "$p")"
	else
		complain "$name: does not build"
	fi
	patch -s -R -d "$src" -p1 <"$p"
	find "$src" -name '*.orig' -delete
done
wait

for p in "${patches[@]}"; do
	name=$(basename "$p" .patch)
	target=$(want test "$p")
	what="$target: $(want case "$p")"
	[ -e "$work/run/$name.rc" ] || continue
	read -r rc _ <"$work/run/$name-not.rc"
	if [ "$rc" -ne 0 ]; then
		cat "$work/run/$name-not.log" >&2
		complain "$name: $what fails without any mutant"
		continue
	fi
	read -r rc ms <"$work/run/$name.rc"
	case $rc in
	0) complain "$name: $what passes, want it to fail" ;;
	124) complain "$name: $what has no end, want it to fail" ;;
	*) echo "$name: $what fails after $ms ms, as it should" ;;
	esac
done
exit "$bad"
