#!/usr/bin/env bash
# run.sh DIRECTORY [NAME...]: take out one rule of the product at a time and
# see that the test named for it fails.
#
# Each NAME.patch says in its first lines what is taken out and, after "test:",
# which program must fail.  The tree is copied to DIRECTORY/src, built once in
# DIRECTORY/build, and again after each patch: only what it touches.  Both are
# kept, so that a second call is quick.
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
limit=${CAIRN_MUTANT_TIMEOUT:-300}

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
	for d in CMakeLists.txt datastore index gc cli tests etc; do
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

want() { # PATCH: the program that must fail
	sed -n 's/^# test: //p' "$1"
}

make_target() { # TARGET
	nice ninja -C "$build" "$1" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		return 1
	}
}

run_test() { # TARGET
	(cd "$build" && timeout "$limit" "./$1") >"$work/log" 2>&1
}

patches=()
if [ $# -gt 0 ]; then
	for name; do
		patches+=("$root/tests/mutants/$name.patch")
	done
else
	patches=("$root"/tests/mutants/*.patch)
fi

cmake -S "$src" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug >/dev/null
bad=0
sound=" "
for p in "${patches[@]}"; do
	name=$(basename "$p" .patch)
	target=$(want "$p")
	# Without the mutant it must pass, or its failing says nothing.
	if [[ $sound != *" $target "* ]]; then
		make_target "$target" || exit 1
		if ! run_test "$target"; then
			cat "$work/log" >&2
			echo "$target fails without any mutant" >&2
			exit 1
		fi
		sound+="$target "
	fi
	if ! patch -s -d "$src" -p1 <"$p"; then
		echo "$name: the patch does not apply any more" >&2
		exit 1
	fi
	rc=0
	if ! make_target "$target"; then
		echo "$name: does not build" >&2
		bad=1
	else
		run_test "$target" || rc=$?
		if [ "$rc" -eq 0 ]; then
			echo "$name: $target passes, want it to fail" >&2
			bad=1
		else
			echo "$name: $target fails, as it should"
		fi
	fi
	patch -s -R -d "$src" -p1 <"$p"
	find "$src" -name '*.orig' -delete
done
exit "$bad"
