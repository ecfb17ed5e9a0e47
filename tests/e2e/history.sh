#!/usr/bin/env bash
# cairn history: what ran, how it ended, what it removed; and that nothing
# depends on it.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
check 0 cairn history <<'END'
! cairn: no runs are recorded
END
data a 200000
data b 200000
push() { ok cairn push --chunk-size 64K --time "2001-01-0$1T00:00:00Z" host/a a.img="$2"; }
push 1 a
push 2 b
push 3 b
# A dry run is not recorded, a failed push is.
cairn push --dry-run --time 2001-01-05T00:00:00Z host/a a.img=a >/dev/null
cairn push --time 2001-01-03T00:00:00Z host/a a.img=a >/dev/null 2>push-error && fail "it is there"

# One of each.
ok cairn forget host/a/2001-01-01T00:00:00Z
ok cairn prune --keep-last 1
ok cairn verify
old store
ok cairn gc
also='s/ +[0-9]+s / TOOK /; s/(STARTED) +/\1 /; s/TIME +/TIME /; s/by pid PID on .*/by WHO/; s/pid PID on .*/WHO/'
check 0 cairn history <<'END'
RUN  KIND    STARTED TOOK  RESULT  REMOVED              BY
  8  gc      TIME TOOK  done    4 chunks, 195.4 KiB  WHO
  7  verify  TIME TOOK  done    -                    WHO
  6  prune   TIME TOOK  done    1 snapshot           WHO
  5  forget  TIME TOOK  done    1 snapshot           WHO
  4  push    TIME TOOK  failed  -                    WHO
  3  push    TIME TOOK  done    -                    WHO
  2  push    TIME TOOK  done    -                    WHO
  1  push    TIME TOOK  done    -                    WHO
END
check 0 cairn history --kind push --limit 2 <<'END'
RUN  KIND  STARTED TOOK  RESULT  REMOVED  BY
  4  push  TIME TOOK  failed  -        WHO
  3  push  TIME TOOK  done    -        WHO
END
check 0 cairn history --kind prune <<'END'
RUN  KIND   STARTED TOOK  RESULT  REMOVED     BY
  6  prune  TIME TOOK  done    1 snapshot  WHO
END
check 0 cairn history --limit 1 --since 1h <<'END'
RUN  KIND  STARTED TOOK  RESULT  REMOVED              BY
  8  gc    TIME TOOK  done    4 chunks, 195.4 KiB  WHO
END
check 0 cairn history --since 2999-01-01T00:00:00Z <<'END'
! cairn: no runs are recorded
END
also='s/after [0-9]+s/after TOOK/; s/by pid PID on .*/by WHO/'
check 0 cairn history 6 <<'END'
run:     6, prune
result:  done
started: TIME by WHO
ended:   TIME, after TOOK
removed: 1 snapshot
  host/a/2001-01-02T00:00:00Z
figures:
  busy                 0
  damaged              0
  removed              1
  snapshots            2
END
check 0 cairn history 1 <<'END'
run:     1, push
result:  done
started: TIME by WHO
ended:   TIME, after TOOK
made:    1 snapshot
  host/a/2001-01-01T00:00:00Z
figures:
  archives             1
  bytes                200000
  chunks               4
  new-bytes            200000
  new-chunks           4
  stored-bytes         200048
END
check 0 cairn history 4 <<'END'
run:     4, push
result:  failed
started: TIME by WHO
ended:   TIME, after TOOK
why:     snapshot 'host/a/2001-01-03T00:00:00Z' is already there
figures:
  archives             1
  bytes                0
  chunks               0
  new-bytes            0
  new-chunks           0
  stored-bytes         0
END
run cairn --json history 3
json "$out" '"removed-snapshots" in d, "removed-chunks" in d, d["snapshots"]' |
	grep -qxF "(False, False, ['host/a/2001-01-03T00:00:00Z'])" || fail "$(cat "$out")"
check 0 cairn history 8 --digests <<'END'
DIGEST  65548  garbage  last used TIME
DIGEST  65548  garbage  last used TIME
DIGEST  3404  garbage  last used TIME
DIGEST  65548  garbage  last used TIME
END
run cairn --json history 8 --digests
json "$out" 'sorted(x["size"] for x in d), {x["why"] for x in d}' >got
also=
: >"$err"
mv got "$out"
expect 0 <<'END'
([3404, 65548, 65548, 65548], {'garbage'})
END

# What is asked for wrongly.
check 2 cairn history --kind restore <<'END'
! cairn: --kind 'restore': want gc, forget, prune, verify or push
END
check 2 cairn history --since yesterday <<'END'
! cairn: --since 'yesterday': want a time like TIME, or how long ago, like 7d
END
check 2 cairn history 8 --kind gc <<'END'
! cairn: --kind, --limit and --since choose among runs, and one was named
END
check 2 cairn history --digests <<'END'
! cairn: --digests lists what one run removed: which? 'cairn history' has their numbers
END
check 1 cairn history 44 <<'END'
! cairn: no run 44 in the history of 'DIR/store'
END

# Runs that were refused, failed, were killed: what, when, by whom, why.
run cairn forget host/a/2001-01-03T00:00:00Z
push 4 a
ok cairn protect host/a/latest
run cairn forget host/a/latest
[ "$code" -eq 1 ] || fail "exit code $code"
printf x >store/host/a/2001-01-04T00:00:00Z/odd.img.fidx
run cairn gc
[ "$code" -eq 1 ] || fail "exit code $code"
rm store/host/a/2001-01-04T00:00:00Z/odd.img.fidx
cairn -q gc --cutoff 0 >/dev/null 2>&1 &
pid=$!
until_true 20 grep -q "\"pid\":$pid,.*running" store/.cairn/gc.running
run cairn gc
[ "$code" -eq 75 ] || fail "exit code $code"
kill -KILL $pid
wait $pid 2>/dev/null || true
# Nor is it alive for the lock of a program that locks all of the file.
python3 -c '
import fcntl, time
f = open("store/.lock", "r+")
fcntl.lockf(f, fcntl.LOCK_SH)
print("locked", flush=True)
time.sleep(60)' >whole &
pid=$!
until_true 20 test -s whole
run cairn --json history --limit 1
kill $pid
wait $pid 2>/dev/null || true
[ "$(json "$out" 'd[0]["result"]')" = killed ] || fail "$(cat "$out")"
# Who was turned away meanwhile does not hide it.
run cairn gc status
grep '^last attempt' -A1 "$out" >got
: >"$err"
mv got "$out"
expect 0 <<'END'
last attempt:  killed, begun TIME by pid PID on HOST
               ended without a word before its first phase
END
run cairn status
grep '^gc: .*attempt' "$out" >got
: >"$err"
mv got "$out"
expect 0 <<'END'
gc:          last attempt: killed, TIME: ended without a word before its first phase
END
run cairn --json status
[ "$(json "$out" 'd["gc-failed"]["result"]')" = killed ] || fail "$(cat "$out")"
also='s/ +[0-9]+s / TOOK /; s/ - +killed/ TOOK  killed/; s/TIME +/TIME /; s/ +BY$/ BY/; s/ +pid PID on .*/ WHO/; s/^ +-/   -/'
run cairn history --limit 5
sed -i 1d "$out"
expect 0 <<'END'
   -  gc      TIME TOOK  killed   at least 0 chunks, 0 B WHO
 13  gc      TIME TOOK  busy     0 chunks, 0 B WHO
 12  gc      TIME TOOK  refused  0 chunks, 0 B WHO
 11  forget  TIME TOOK  refused  0 snapshots WHO
 10  push    TIME TOOK  done     - WHO
END
also=
run cairn --json history --limit 4
json "$out" '"\n".join(x["why"] for x in d)' >got
: >"$err"
mv got "$out"
expect 0 <<'END'
ended without a word before its first phase
'DIR/store' is in use by garbage collection of cairn (host HOST, pid PID, since TIME); try again when that has ended
garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
snapshot 'host/a/2001-01-04T00:00:00Z' is protected; 'cairn unprotect' lifts that
END
# The next one writes down the one that was killed.
ok cairn gc
grep -q 'was killed: nothing is lost by that' "$err" || fail "not told"
run cairn --json history --limit 2
json "$out" '[(x["run"], x["result"]) for x in d]' | grep -qF "[(15, 'done'), (14, 'killed')]" ||
	fail "$(cat "$out")"

# Killed between its last words in the history and in gc.running: it had ended.
python3 -c '
import json
f = open("store/.cairn/gc.running", "r+")
r = json.loads(f.read())
r["state"] = "running"
f.seek(0)
f.write(json.dumps(r).ljust(4095) + "\n")'
ok cairn gc
! grep -q 'was killed' "$err" || fail "told of one that had ended"
run cairn --json history --limit 2
json "$out" '[(x["run"], x["result"]) for x in d]' | grep -qF "[(16, 'done'), (15, 'done')]" ||
	fail "$(cat "$out")"

# What another version wrote behind the record goes with the next one.
printf '%3000s' x >>store/.cairn/gc.running
ok cairn gc
[ "$(stat -c %s store/.cairn/gc.running)" -eq 4096 ] || fail "gc.running is not cut"

# A verify has ended when its work has, whoever reads what it prints.
cairn verify >/dev/full 2>/dev/null && fail "it printed"
run cairn --json history --limit 1
[ "$(json "$out" 'd[0]["kind"], d[0]["result"]')" = "('verify', 'done')" ] || fail "$(cat "$out")"

# Nobody waits for who reads a long list.
python3 -c '
import sqlite3
c = sqlite3.connect("store/.cairn/history.db")
c.executemany("insert into removed values(8, ?, ?, ?, 1, 1)",
              [(i, b"d" * 32, "garbage") for i in range(100, 20100)])
c.commit()'
mkfifo pipe
cairn history 8 --digests >pipe &
pid=$!
exec 5<pipe
read -r _ <&5
python3 -c '
import sqlite3
c = sqlite3.connect("store/.cairn/history.db", timeout=0, isolation_level=None)
c.execute("begin exclusive")' || fail "the lock is kept"
[ "$(wc -l <&5)" -eq 20003 ] || fail "lines are missing"
exec 5<&-
wait $pid

# Damage that a prune tells is damage in the history, too.
push 5 a
bytes x 100 >store/host/a/2001-01-05T00:00:00Z/index.json.blob
run cairn prune --keep-last 9
[ "$code" -eq 4 ] || fail "exit code $code"
run cairn --json history --limit 1
[ "$(json "$out" 'd[0]["kind"], d[0]["result"]')" = "('prune', 'damage')" ] || fail "$(cat "$out")"
ok cairn forget host/a/2001-01-05T00:00:00Z

# Damaged, gone, locked, a full file: never more than a warning.
bytes x 9000 >store/.cairn/history.db
check 4 cairn history <<'END'
! cairn: 'DIR/store/.cairn/history.db': damaged database: file is not a database; the next run that is recorded puts it aside and begins a new one
END
run cairn gc
[ "$code" -eq 0 ] || fail "exit code $code"
also='/^! cairn: warning/!d' expect 0 <<'END'
! cairn: warning: the history is damaged and starts anew; the old one is put aside as '.cairn/history.db.damaged': 'DIR/store/.cairn/history.db': damaged database: file is not a database
END
[ "$(stat -c %s store/.cairn/history.db.damaged)" -eq 9000 ] || fail "not put aside"
run cairn --json history
[ "$(json "$out" 'd[0]["run"], len(d)')" = '(1, 1)' ] || fail "$(cat "$out")"
python3 -c '
import sqlite3, sys, time
c = sqlite3.connect("store/.cairn/history.db", isolation_level=None)
c.execute("begin exclusive")
print("locked", flush=True)
time.sleep(60)' >locked &
pid=$!
until_true 20 test -s locked
run cairn forget --dry-run host/a/latest
run cairn verify
[ "$code" -eq 0 ] || fail "exit code $code"
also='/^! cairn: warning/!d' expect 0 <<'END'
! cairn: warning: this run can not be recorded in the history: 'DIR/store/.cairn/history.db' is kept locked by another program
END
kill $pid
wait $pid 2>/dev/null || true
# What another reads of it is right.
ok cairn verify
python3 -c '
import sqlite3
c = sqlite3.connect("file:store/.cairn/history.db?mode=ro", uri=True)
print(c.execute("pragma integrity_check").fetchall(),
      c.execute("select kind, result from run order by id").fetchall())' >"$out"
: >"$err"
code=0
expect 0 <<'END'
[('ok',)] [('gc', 'done'), ('verify', 'done')]
END

# A writer that was killed in the midst of it: who looks has it undone, if he
# may write; else he is told.
cp -a store used
python3 -c '
import os, signal, sqlite3
c = sqlite3.connect("store/.cairn/history.db", isolation_level=None)
c.execute("pragma cache_size = 1")
c.execute("begin immediate")
c.execute("delete from run")
c.execute("create table junk(x)")
for i in range(5000):
    c.execute("insert into junk values(?)", ("y" * 100,))
os.kill(os.getpid(), signal.SIGKILL)' 2>/dev/null || true
[ -s store/.cairn/history.db-journal ] || fail "nothing was left undone"
chmod -w store/.cairn/history.db
if [ "$(id -u)" -ne 0 ]; then
	run cairn history
	[ "$code" -eq 75 ] || fail "exit code $code"
	grep -q "was being written when its writer was killed" "$err" ||
		fail "$(cat "$err")"
fi
chmod +w store/.cairn/history.db
ok cairn -d ./used history
mv "$out" wanted
ok cairn history
cmp wanted "$out"
run cairn status
! grep -q "was being written" "$err" || fail "$(cat "$err")"

# A push that can not be recorded says so; one that failed has its own error.
version() {
	python3 -c '
import sqlite3, sys
sqlite3.connect("store/.cairn/history.db").execute("pragma user_version = " + sys.argv[1])' "$1"
}
version 9
run cairn -q push --time 2001-01-07T00:00:00Z host/a a.img=a
[ "$code" -eq 0 ] || fail "exit code $code"
: >"$out"
expect 0 <<'END'
! cairn: warning: this run can not be recorded in the history: 'DIR/store/.cairn/history.db' is of version 9, this cairn knows versions up to 1
END
check 1 cairn -q push --time 2001-01-07T00:00:00Z host/a a.img=a <<'END'
! cairn: snapshot 'host/a/2001-01-07T00:00:00Z' is already there
END
version 1

# A dry run leaves nothing; and what is only read is left alone.
keep=store ok cairn gc --dry-run
keep=store ok cairn history
no_leftovers store
sound store
