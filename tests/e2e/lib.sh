# shellcheck shell=bash disable=SC2034
# lib.sh: what every end-to-end test needs; sourced, not run.  The test stands
# in a scratch directory of its own, with the program first in PATH.
#
# "check CODE COMMAND... <<END" runs a command and compares its exit code and
# its transcript: stdout, then stderr with each line behind "! ".  What differs from run to run is replaced
# in it: see normalise.  The first difference ends the test with a diff.
set -eu -o pipefail
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
unset CAIRN_DATASTORE CAIRN_CONFIG CDPATH NO_COLOR

here=$(cd "$(dirname "$0")" && pwd)
reader=$here/reader.py

# skip WHY: this machine lacks something.
skip() {
	printf 'skipped: %s\n' "$*"
	exit 77
}

# need PROGRAM...
need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null ||
			skip "$program is not installed"
	done
}

need_root() {
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

program=${1:-$here/../../build/debug/cairn}
[ -x "$program" ] || {
	printf 'usage: %s PROGRAM: not there: %s\n' "$0" "$program" >&2
	exit 2
}
PATH=$(cd "$(dirname "$program")" && pwd):$PATH:/usr/sbin:/sbin
need python3 zstd

mounts=()
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cairn-e2e.XXXXXX")
clean_up() {
	local code=$? at job
	for job in $(jobs -p); do
		kill -KILL "$job" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	cd /
	for at in "${mounts[@]}"; do
		umount "$at" || code=1
	done
	rm -rf "$scratch"
	exit "$code"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$scratch"
mkdir "$scratch/work" "$scratch/shell"
cd "$scratch/work"

# The tests' own config, so that /etc plays no part: nothing is synced, since
# no power fails here, and a nearly full disk does not matter.
export CAIRN_CONFIG=$scratch/shell/cairn.conf
cat >"$CAIRN_CONFIG" <<END
[datastore "main"]
path = $PWD/store
sync-level = none
min-free = 0
END

# normalise: the scratch directory, times other than those of 2001 (which the
# tests choose) or of $times, digests, UUIDs, pids, hosts, rates; progress lines go, unless
# $progress is set.  $also may hold more sed commands.
normalise() {
	local drop='/^! cairn: (push|restore) [^ ]+ [0-9.]+( ?[KMGTPE]i?B|%| B)/d
		/^! cairn: (gc: (mark|sweep)|verify) [0-9]+%/d'
	[ -z "${progress-}" ] ||
		drop='/^! cairn: [a-z: .]+ [0-9]{1,2}% /d'
	sed -E -e "$drop" -e "
		s|$scratch/work|DIR|g
		s/[0-9a-f]{64}/DIGEST/g
		s/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/UUID/g
		s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/@&/g
		s/@(${times:-2001}-)/\1/g
		s/@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/TIME/g
		s/pid [0-9]+/pid PID/g
		s/(\<on|\<host) $(uname -n)\>/\1 HOST/g
		s/, [0-9.]+ [KMGT]?i?B\/s//
		s/, [0-9dhms]+ left\$//" -e "${also-}"
}

fail() {
	printf '%s: line %s: %s\n' "$(basename "$0")" \
		"${BASH_LINENO[${#BASH_LINENO[@]} - 2]}" "$*"
	exit 1
}

# show: what the command said, but not all of it.
show() { head -c 4000 "$out" "$err" | cat -v; }

# freeze DIR, then frozen DIR: nothing changed it in between.
freeze() { state "$1" >"$scratch/shell/before"; }
frozen() {
	state "$1" >"$scratch/shell/after"
	diff -u "$scratch/shell/before" "$scratch/shell/after" || {
		show
		fail "'$1' was changed"
	}
}

# run COMMAND...: its exit code, stdout and stderr into $code and the files
# $out and $err; its stdin is the file $in, else empty.  With $keep, the
# command must leave that directory as it is.
out=$scratch/shell/out
err=$scratch/shell/err
code=0
run() {
	[ -z "${keep-}" ] || freeze "$keep"
	code=0
	"$@" <"${in:-/dev/null}" >"$out" 2>"$err" || code=$?
	[ -z "${keep-}" ] || frozen "$keep"
}

# expect CODE, and the transcript on stdin, of the command that was run.
expect() {
	local want=$1
	cat >"$scratch/shell/want"
	{
		cat "$out"
		sed 's/^/! /' "$err"
	} | normalise >"$scratch/shell/got"
	if [ "$code" -ne "$want" ] ||
		! cmp -s "$scratch/shell/want" "$scratch/shell/got"; then
		diff -au --label wanted --label got "$scratch/shell/want" \
			"$scratch/shell/got" | head -c 8000 | cat -v || true
		[ "$code" -eq "$want" ] ||
			printf 'exit code %d, want %d\n' "$code" "$want"
		fail "not what was expected"
	fi
}

# check CODE COMMAND...: run, and expect; the transcript is on stdin.
check() {
	local want=$1
	shift
	run "$@"
	expect "$want"
}

# ok COMMAND...: ends with 0, whatever it says.
ok() {
	run "$@"
	[ "$code" -eq 0 ] || {
		show
		fail "exit code $code: $*"
	}
}

# bytes SEED SIZE: the same ones each time, and incompressible.  To a file:
# data FILE SIZE [SEED].
bytes() {
	python3 -c '
import random, sys
r = random.Random(sys.argv[1])
left = int(sys.argv[2])
while left > 0:
    n = min(left, 1 << 20)
    sys.stdout.buffer.write(r.randbytes(n))
    left -= n' "$1" "$2"
}

data() { bytes "${3:-$1}" "$2" >"$1"; }

MIB=1048576

# state DIR: all that a command which changes nothing leaves as it is, also
# the access times of chunks, but not those of other files, which are read.
# (A change of content shows in the ctime; to read it would be one.)
state() {
	find "$1" -printf '%P %y %m %u %g %n %i %s %T@ %C@ %l\n' | sort
	find "$1" -path '*/.chunks/*' -type f -printf '%P %A@\n' | sort
}

# sound STORE: the independent reader finds no problem.
sound() {
	python3 "$reader" check "$1" >"$scratch/shell/sound" || {
		cat "$scratch/shell/sound"
		fail "the store is not sound"
	}
}

# no_leftovers STORE: no temporary file, no registration, no snapshot that
# is not finished.
no_leftovers() {
	local store=$1 found
	found=$(find "$store" \( -name '*.tmp*' -o -name '.*.tmp' \
		-o -path '*/.cairn/sessions/*' \) -print
	find "$store" -type d -name '[0-9]*T*Z' \
		! -execdir test -e '{}/index.json.blob' \; -print)
	[ -z "$found" ] || fail "left behind: $found"
}

# json FILE [EXPRESSION]: valid JSON; EXPRESSION of it, d being the document.
json() {
	python3 -c '
import json, sys
with open(sys.argv[1]) as f:
    d = json.load(f)
if len(sys.argv) > 2:
    print(eval(sys.argv[2]))' "$@" || fail "JSON: $*"
}

# events FILE: every line is a JSON object that says what event it is.
events() {
	python3 -c '
import json, sys
for line in open(sys.argv[1]):
    assert isinstance(json.loads(line)["event"], str), line' "$1" ||
		fail "events: $1"
}

# old STORE: every chunk was last used days ago, as far as access times tell.
# Change times can not be set: the chunk index goes by both, so without it.
old() {
	rm -rf "$1/.cairn/index"
	find "$1/.chunks" -type f -exec touch -a -d '3 days ago' {} +
}

# What runs behind this works on one thing at a time: it takes longer, and reads
# only a little ahead.
one_cpu=(taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')")

# until_true SECONDS COMMAND...: wait for it.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "did not happen: $*"
		sleep 0.05
	done
}
