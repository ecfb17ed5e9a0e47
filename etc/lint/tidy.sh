#!/usr/bin/env bash
# tidy BUILD [SECONDS]: clang-tidy on every C file of the product, as many at
# once as there are processors, with the compile commands of BUILD (a path
# from the root of the tree).  A file found sound before, with all that it
# includes, is not looked at again.  After SECONDS no more are begun; what is left
# stands in BUILD/tidy/left.  Too slow for ctest; etc/check runs it.
# shellcheck disable=SC2016,SC2317 # the functions are run by xargs
. "$(dirname "$0")/lib.sh"

export BUILD=$1 SOUND=$1/tidy
export UNTIL=$((${EPOCHSECONDS:?} + ${2:-3600}))
need clang-tidy
[ -s "$BUILD/compile_commands.json" ] || {
	complain "no compile_commands.json in $BUILD"
	exit 1
}
mkdir -p "$SOUND"
rm -f "$SOUND/left"

# What the verdict depends on.
key() {
	{
		clang-tidy --version
		cat .clang-tidy
		clang -E -std=c17 -D_GNU_SOURCE -I. "$1"
	} | sha256sum | cut -d ' ' -f 1
}

one() {
	local stamp out
	stamp=$SOUND/$(key "$1")
	if [ -e "$stamp" ]; then
		return 0
	elif [ "$EPOCHSECONDS" -ge "$UNTIL" ]; then
		echo "$1" >>"$SOUND/left"
	elif out=$(clang-tidy --quiet -p "$BUILD" "$1" 2>&1); then
		: >"$stamp"
	else
		printf '%s\ntidy: findings in %s\n' "$out" "$1"
		return 1
	fi
}
export -f one key

list 'datastore/*.c' 'index/*.c' 'gc/*.c' 'cli/*.c' | tr '\n' '\0' |
	xargs -0r -P "$(nproc)" -I{} bash -c 'one "$1"' _ {} || bad=1
if [ -e "$SOUND/left" ]; then
	echo "tidy: $(wc -l <"$SOUND/left") files were not looked at, for lack" \
		"of time: $SOUND/left"
fi
verdict
