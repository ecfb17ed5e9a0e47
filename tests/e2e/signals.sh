#!/usr/bin/env bash
# Signals: asked to stop, the program stops soon, leaves nothing half-made and
# says so; killed, it has lost nothing, and the next one cleans up.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
data base $MIB
data new $((4 * MIB))
ok cairn push --time 2001-01-01T00:00:00Z host/a base.img=base

# begin COMMAND...: in the background; stdin is the file $in.
begin() {
	: >"$err"
	env --default-signal=INT,HUP "$@" \
		<"${in:-/dev/null}" >"$out" 2>"$err" &
	pid=$!
}
# end: wait for it; see expect.
end() {
	local start=$SECONDS
	code=0
	wait "$pid" || code=$?
	[ $((SECONDS - start)) -lt 20 ] || fail "it took its time to stop"
}
registered() { [ -n "$(ls store/.cairn/sessions)" ]; }
# asleep_in FUNCTION: one of its threads sleeps in that place of the kernel;
# where that is not told to anybody, a while must do.
asleep_in() {
	grep -qs '[^0]' /proc/$$/wchan || {
		sleep 5
		return
	}
	grep -qs "$1" /proc/"$pid"/task/*/wchan
}
more_chunks() { [ "$(find store/.chunks -type f | wc -l)" -gt "$chunks" ]; }

# A push that is in the middle of its data.
for signal in INT:130 TERM:143 HUP:129; do
	chunks=$(find store/.chunks -type f | wc -l)
	data data $((4 * MIB)) "$signal"
	begin "${one_cpu[@]}" cairn push --level 19 --chunk-size 64K host/b data.img=data
	until_true 60 more_chunks
	kill "-${signal%:*}" "$pid"
	end
	sed -i 's/SIG[A-Z]*/SIGNAL/' "$err"
	expect "${signal#*:}" <<'END'
! cairn: stopped by SIGNAL; no snapshot was made, and the next push reuses what was stored until then
END
	no_leftovers store
	[ ! -e store/host/b ] || fail "the group was left"
done

# One that waits for its input, or for a program.
mkfifo pipe
sleep 1000 >pipe &
writer=$!
in=pipe begin cairn push host/b data.raw=-
until_true 20 registered
kill -TERM "$pid"
end
expect 143 <<'END'
! cairn: stopped by SIGTERM; no snapshot was made, and the next push reuses what was stored until then
END
kill "$writer"
mkfifo nobody
begin cairn push host/b data.raw=nobody
until_true 20 asleep_in wait_for_partner
kill -TERM "$pid"
end
expect 143 <<'END'
! cairn: stopped while 'nobody' was opened
END
for command in 'echo $$ >child; exec sleep 1000' \
	'echo $$ >child; trap "" TERM; while :; do sleep 0.1; done' \
	'echo $$ >child; exec >&-; exec sleep 1000'; do
	rm -f child
	begin cairn push host/b --command "$command" data.raw
	until_true 20 test -s child
	kill -INT "$pid"
	end
	expect 130 <<'END'
! cairn: stopped by SIGINT; no snapshot was made, and the next push reuses what was stored until then
END
	! kill -0 "$(cat child)" 2>/dev/null || fail "the command runs on"
done
no_leftovers store

# Somebody asks how far it is: a line, although quiet, and it goes on.
mkfifo slow
exec 7<>slow
head -c 3000000 new >&7 &
in=slow begin cairn -q push host/b data.raw=-
until_true 20 registered
asked() {
	kill -USR1 "$pid" || fail "it ended"
	sleep 0.2
	grep -q '^cairn: push data.raw [0-9]' "$err"
}
until_true 20 asked
kill -TERM "$pid"
end
[ "$code" -eq 143 ] || fail "stopped with $code"
grep -q '^cairn: stopped by SIGTERM;' "$err" || fail "not stopped"
exec 7>&-

# A cat whose reader does not read.
ok cairn push --time 2001-01-02T00:00:00Z host/a base.img=base new.img=new
mkfifo stuck
tail -f /dev/null <stuck &
reader_pid=$!
env --default-signal=INT cairn cat host/a/latest new.img >stuck 2>"$err" &
pid=$!
until_true 20 asleep_in poll
kill -INT "$pid"
: >"$out"
end
expect 130 <<'END'
! cairn: stopped by SIGINT
END
kill "$reader_pid"

# A GC that waits until it may begin.
begin cairn gc --cutoff 0
until_true 20 test -s "$err"
kill -INT "$pid"
end
expect 130 <<'END'
! cairn: waiting 6 s, so that what was last used before this run can go
! cairn: stopped; 0 chunks, 0 B, were removed until then
! cairn: stopped by SIGINT
END
grep -q '"state":"stopped"' store/.cairn/gc.running || fail "says it is running"

# Anywhere: done, or stopped and nothing half-made.  (A signal in the midst of
# the leak sanitizer's work at the very end would make that hang.)
anywhere() { # DELAY COMMAND...
	code=0
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 env --default-signal=INT timeout --foreground -s INT --preserve-status "$1" "${@:2}" \
		>"$out" 2>"$err" || code=$?
	case $code in 0 | 130) ;; *)
		show
		fail "exit code $code: $*"
		;;
	esac
}
for delay in 0.03 0.1 0.15 0.2 0.3; do
	anywhere $delay cairn restore host/a/latest new.img restored
	# Stopped just after it was put in place, it is whole.
	[ "$code" -ne 0 ] || [ -e restored ] || fail "no file"
	[ ! -e restored ] || cmp restored new || fail "half a file"
	rm -f restored
	[ -z "$(find . -maxdepth 1 -name '.cairn-restore*')" ] ||
		fail "a temporary file is left"
	anywhere $delay cairn verify
	anywhere $delay cairn gc
	anywhere $delay cairn push host/c base.img=base
	cairn list host/c 2>/dev/null | grep -q . || continue
	anywhere $delay cairn forget host/c/latest
	no_leftovers store
done

# What was done until then is said.
mkdir many
for i in $(seq 300); do echo "$i" >"many/$i"; done
for i in 1 2 3 4 5 6; do ok cairn push --time 2001-02-0${i}T00:00:00Z host/s many.tree=many new.img=new; done
says() { # PATTERN COMMAND...: at one of many moments it is in the midst of it
	local pattern=$1 start whole i
	shift
	start=$(date +%s%N)
	ok "$@"
	whole=$((($(date +%s%N) - start) / 1000000))
	for i in $(seq 60); do
		rm -rf restored
		anywhere "$(awk "BEGIN { print $whole * ($i % 20 + 1) / 20000 }")" "$@"
		[ "$code" -ne 130 ] || ! grep -qE "$pattern" "$err" || return 0
	done
	fail "never said, the last time: $(cat "$err")"
}
says "^cairn: stopped by SIGINT; [0-6] of 6 snapshots were verified until then; damage that was found is recorded$" \
	cairn verify host/s
says "^cairn: stopped by SIGINT; 'restored' was not made$" \
	cairn restore host/a/latest new.img restored
says "^cairn: stopped by SIGINT; ([0-9]+ entries were|1 entry was) restored until then: repeat it with --overwrite=changed, which leaves those as they are$" \
	cairn restore host/s/latest many.tree restored

# Killed at any point of a push: what was there is whole, what was being made
# is told as unfinished, and the next push removes it.
killed() { # DELAY COMMAND...; in a shell of its own, which keeps quiet
	bash -c 'timeout -s KILL "$@" >/dev/null; exit $?' - "$@" 2>/dev/null
}
start=$(date +%s%N)
ok cairn push --chunk-size 64K host/k new.img=new
whole=$((($(date +%s%N) - start) / 1000000))
ok cairn forget host/k/latest
seen=0
for i in $(seq 15); do
	data data $((4 * MIB)) "kill $i"
	code=0
	killed "$(awk "BEGIN { print $whole * $i / 14000 }")" cairn push \
		--chunk-size 64K host/k data.img=data || code=$?
	case $code in 0 | 137) ;; *) fail "exit code $code" ;; esac
	ok cairn list --all
	! grep -q unfinished "$out" || seen=$((seen + 1))
	if [ $((i % 5)) -eq 0 ]; then
		ok cairn verify
		sound store
	fi
	ok cairn cat host/a/latest new.img
	cmp "$out" new
done
printf '%d of 15 were killed while the snapshot was there\n' "$seen"
ok cairn push --time 2001-01-03T00:00:00Z host/k base.img=base
ok cairn list --all
! grep -q unfinished "$out" || fail "was not cleaned up"
# What a GC removes a day later: halves of chunks, and registrations that were
# killed before it could be read whose they are.
find store/.chunks -name '*.tmp_*' -delete
find store/.cairn/sessions -name '.*.tmp' -delete
# And what tells it that the chunk index lacks something.
find store/.cairn/index/runs -name '.tmp_*' -delete
# And a file that was about to become a group's owner: nobody's, and harmless.
find store/host -name 'owner.tmp_*' -delete
no_leftovers store

# Killed at any point of a garbage collection: the next one ends it.
ok cairn forget host/k/2001-01-03T00:00:00Z
for snapshot in $(cairn list --json |
	python3 -c 'import json, sys
for s in json.load(sys.stdin):
    if s["backup-id"] == "k": print("host/k/" + s["time"])'); do
	ok cairn forget "$snapshot"
done
old store
garbage=$(python3 "$reader" garbage store | wc -l)
for delay in 0.05 0.1 0.2 0.3; do
	killed $delay cairn gc || true
	sound store
done
ok cairn gc
left=$(python3 "$reader" garbage store | wc -l)
[ "$left" -eq 0 ] || {
	cat "$out"
	fail "$left of $garbage chunks of garbage are left"
}
ok cairn verify
sound store
