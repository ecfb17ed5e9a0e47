#!/usr/bin/env bash
# gcrunning.sh PROGRAM: a garbage collection is looked at from another shell,
# in the midst of its mark and of its sweep, and stopped there.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

slow=${PATH%%:*}/libslow.so
[ -f "$slow" ] || skip "no libslow.so beside the program"

# A sanitizer wants to be loaded first, which is of no matter here.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0

ok cairn init store
data kept $((12 * MIB))
data gone $((12 * MIB))
ok cairn push --chunk-size 64K --time 2001-01-01T00:00:00Z host/a x.img=kept
ok cairn push --chunk-size 64K --time 2001-01-02T00:00:00Z host/a x.img=gone
ok cairn forget host/a/2001-01-02T00:00:00Z
old store

# begin CALL MS: a collection in the background, with that call slow.
begin() {
	local call=$1_MS ms=$2
	env --default-signal=INT LD_PRELOAD="$slow" "SLOW_$call=$ms" \
		cairn --progress always gc >"$out" 2>"$err" &
	pid=$!
}
in_phase() { # NAME: far enough that something is done, and not all
	local percent
	cairn --json gc status >"$scratch/shell/status" || return 1
	percent=$(json "$scratch/shell/status" \
		"d['percent'] if d.get('phase') == '$1' else 0")
	[ "$percent" -ge 1 ] && [ "$percent" -lt 100 ]
}
count() { find store/.chunks -type f | wc -l; }

# look PHASE: all that another shell can see of it.
look() {
	run cairn gc status
	sed -E 's/, [0-9]+% at/, N% at/; /^last attempt/,/^ /d' "$out" | head -n 2 >"$out.1"
	mv "$out.1" "$out"
	expect 0 <<-END
		running:       garbage collection of cairn (host HOST, pid PID, since TIME)
		phase:         $1, N% at TIME
	END
	check 75 cairn gc <<-'END'
		! cairn: 'DIR/store' is in use by garbage collection of cairn (host HOST, pid PID, since TIME); try again when that has ended
	END
	ok cairn status
	grep -q '^gc:  *running: garbage collection of cairn' "$out" || fail "status does not say it"
}

# stop SIGNAL CODE: within a second, on a machine that has other work.
stop() {
	local at took
	at=$(date +%s%N)
	kill "-$1" "$pid"
	code=0
	wait "$pid" || code=$?
	took=$((($(date +%s%N) - at) / 1000000))
	[ "$code" -eq "$2" ] || fail "exit code $code"
	[ "$took" -lt 5000 ] || fail "took $took ms to stop"
	echo "stopped by $1 after $took ms" >>"$scratch/shell/stops"
}

out_of=$out
err_of=$err
other() { # what is asked meanwhile has files of its own
	out=$scratch/shell/other.out
	err=$scratch/shell/other.err
	"$@"
	out=$out_of
	err=$err_of
}

for signal in INT:130 TERM:143; do
	# In the mark: nothing was removed.
	before=$(count)
	begin TOUCH 250
	until_true 60 in_phase 'gc: mark'
	other look 'gc: mark'
	stop "${signal%:*}" "${signal#*:}"
	grep -q '^cairn: stopped; 0 chunks, 0 B, were removed until then$' "$err" || {
		show
		fail "not said"
	}
	grep -q "^cairn: stopped by SIG${signal%:*}" "$err" || fail "not said by what"
	[ "$(count)" -eq "$before" ] || fail "chunks are gone"

	# In the sweep: what was removed is told, and right.
	begin UNLINK 60
	until_true 60 in_phase 'gc: sweep'
	other look 'gc: sweep'
	stop "${signal%:*}" "${signal#*:}"
	removed=$(sed -nE 's/^cairn: stopped; ([0-9]+) chunks?, .*, (was|were) removed until then$/\1/p' "$err")
	[ -n "$removed" ] || {
		show
		fail "not said"
	}
	[ "$(count)" -eq $((before - removed)) ] ||
		fail "$removed removed, $before before, $(count) left"
	ok cairn verify
done
cat "$scratch/shell/stops"

# And the next one ends what they began.
ok cairn gc
[ "$(count)" -eq 192 ] || fail "$(count) chunks are left"
cairn cat host/a/latest x.img | cmp - kept
sound store
no_leftovers store
