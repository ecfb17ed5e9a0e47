#!/usr/bin/env bash
# cairn gc: its options, what it reports, and what keeps it from removing
# anything.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
data a 400000
data b 400000
push() { ok cairn push --chunk-size 64K --time "2001-01-0$1T00:00:00Z" "${@:2}"; }
garbage() { python3 "$reader" garbage store | wc -l; }
fresh() {
	rm -rf store
	cp -a saved store
}
push 1 host/a a.img=a
push 2 host/a a.img=b
push 1 host/b r.raw=a
cp -a store saved

# Options.
check 2 cairn gc now <<'END'
! cairn: unexpected argument 'now'; want 'cairn gc' or 'cairn gc status'
END
check 2 cairn gc status --dry-run <<'END'
! cairn: 'gc status' takes no option '--dry-run'
END
check 2 cairn gc --touch-batch 5 <<'END'
! cairn: --touch-batch: '5' is no batch, want 'off' or a number between 1024 and 16777216
END
check 2 cairn gc --touch-batch many <<'END'
! cairn: --touch-batch: 'many' is no batch, want 'off' or a number between 1024 and 16777216
END
check 2 cairn gc --cutoff soon <<'END'
! cairn: --cutoff: 'soon' is no duration, want seconds or a sum like 1w2d3h4m5s
END
check 2 cairn gc --cutoff -1 <<'END'
! cairn: --cutoff: '-1' is no duration, want seconds or a sum like 1w2d3h4m5s
END
check 1 cairn gc --ignore host/a/2001-01-09T00:00:00Z <<'END'
! cairn: --ignore: snapshot 'host/a/2001-01-09T00:00:00Z' does not exist; the newest is of 2001-01-02T00:00:00Z, 'cairn list host/a' lists all
END
check 2 cairn gc --ignore host/a <<'END'
! cairn: --ignore: snapshot 'host/a': want TYPE/ID/TIME, or 'host/a/latest'
END

# The same is removed whatever the batch; a dry run says it before; what is
# younger than the cutoff stays.
for batch in off 1024 1048576; do
	fresh
	ok cairn forget host/a/2001-01-02T00:00:00Z host/b/latest
	old store
	count=$(garbage)
	[ "$count" -ge 7 ] || fail "only $count chunks of garbage"
	run cairn -q --json gc --dry-run
	json "$out" 'd["removed-chunks"], d["removed-bytes"]' >would
	run cairn -q --json gc --touch-batch $batch
	json "$out" 'd["removed-chunks"], d["removed-bytes"]' >did
	cmp would did
	[ "$(garbage)" -eq 0 ] || fail "garbage is left"
	sound store
	ok cairn verify
done
fresh
ok cairn forget host/a/2001-01-02T00:00:00Z
find store/.chunks -type f -exec touch -a -d '2 hours ago' {} +
rm -r store/.cairn/index # by which change times count, too
count=$(garbage)
for cutoff in 3h 24h5m 1d 2h1m; do
	ok cairn gc --full --cutoff $cutoff
	[ "$(garbage)" -eq "$count" ] || fail "removed within the cutoff"
done
ok cairn gc --full --cutoff 1h59m
[ "$(garbage)" -eq 0 ] || fail "not removed behind the cutoff"

# Referenced chunks that are missing: named, with who references them.
fresh
chunk=$(find store/.chunks -type f -size +60k | sort | head -n 1)
rm "$chunk"
also='s/(free space: +).*/\1FIGURES/'
check 3 cairn gc <<'END'
removed:       0 chunks, 0 B
               nothing is garbage: every chunk is referenced
in use:        19 chunks, 1.078 MiB
referenced by: 3 index files, 1.144 MiB
deduplication: 1.06
missing:       1 referenced chunk, which hurts 1 snapshot; 'cairn verify' names what is hurt, a push of the same data mends it
free space:    FIGURES
! cairn: the chunk index of 'DIR/store' has chunks that are not there: it is made anew, and the mark begins again without it
! cairn: warning: chunk DIGEST is missing; 'host/b/2001-01-01T00:00:00Z/r.raw.didx' references it
! cairn: warning: 'host/b/2001-01-01T00:00:00Z' is hurt: it lacks 1 chunk
END
check 3 cairn gc --dry-run <<'END'
would remove:  0 chunks, 0 B
               nothing is garbage: every chunk is referenced
in use:        19 chunks, 1.078 MiB
referenced by: 3 index files, 1.144 MiB
deduplication: 1.06
missing:       1 referenced chunk, which hurts 1 snapshot; 'cairn verify' names what is hurt, a push of the same data mends it
! cairn: warning: chunk DIGEST is missing; 'host/b/2001-01-01T00:00:00Z/r.raw.didx' references it
! cairn: warning: 'host/b/2001-01-01T00:00:00Z' is hurt: it lacks 1 chunk
END
also=

# A link where a prefix directory, a group, a snapshot should be: nothing is
# removed, nothing written outside.
mkdir outside
refuses() { # WHAT
	old store
	find -L store/.chunks -type f | sort >before
	run cairn -q gc --cutoff 1h
	find -L store/.chunks -type f | sort | cmp before -
	[ "$code" -eq 1 ] || fail "$1: exit code $code: $(cat "$err")"
	printf '%s: %s\n' "$1" "$(grep -v 'all that it has to in' "$err")" >>said
}
: >said
fresh
ok cairn forget host/a/2001-01-02T00:00:00Z
rm -rf outside
cp -a store/host/b outside
rm -r store/host/b
ln -s "$PWD/outside" store/host/b
refuses "group"
fresh
mv store/host/a/2001-01-01T00:00:00Z elsewhere
ln -s "$PWD/elsewhere" store/host/a/2001-01-01T00:00:00Z
refuses "snapshot"
fresh
prefix=$(find store/.chunks -type f -size 65548c -printf '%h\n' | sort | head -n 1)
prefix=${prefix##*/}
mv "store/.chunks/$prefix" moved
ln -s "$PWD/moved" "store/.chunks/$prefix"
refuses "prefix"
before=$(ls -A moved)
run cairn -q push --time 2001-01-05T00:00:00Z --chunk-size 64K host/a a.img=a x.img=b
[ "$code" -eq 1 ] || fail "exit code $code"
printf 'push: %s\n' "$(cat "$err")" >>said
[ "$(ls -A moved)" = "$before" ] || fail "written outside"
mv said "$out"
: >"$err"
code=0
also="s/'(DIR\/store\/)?\.chunks\/[0-9a-f]{4}'/PREFIX/" expect 0 <<'END'
group: cairn: warning: 'DIR/store/host/b' is a symbolic link, want a directory
snapshot: cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z' is a symbolic link, want a directory
prefix: cairn: warning: PREFIX is a symbolic link or a file, want a directory
cairn: warning: PREFIX is a symbolic link or a file, want a directory
push: cairn: PREFIX is a symbolic link or a file, want a directory
END

# An index in an odd place counts, and is told.
fresh
mkdir -p store/kept/by-hand
cp store/host/a/2001-01-02T00:00:00Z/a.img.fidx store/kept/by-hand/
ok cairn forget host/a/2001-01-02T00:00:00Z
old store
also='s/(free space: +).*/\1FIGURES/'
check 0 cairn gc <<'END'
removed:       0 chunks, 0 B
               nothing is garbage: every chunk is referenced, also those of what was removed
in use:        20 chunks, 1.145 MiB
referenced by: 3 index files, 1.144 MiB
deduplication: 1.00
free space:    FIGURES
! cairn: warning: 'DIR/store/kept/by-hand/a.img.fidx' is an index file outside of any snapshot; what it references is kept
END
also=
rm -r store/kept
old store
ok cairn gc
[ "$(garbage)" -eq 0 ] || fail "still counted"

# A store whose '.chunks' was emptied, or is gone: nothing is made or removed.
fresh
rm -r store/.chunks
mkdir store/.chunks
find store -name gc.running -prune -o -name "history.db*" -prune -o -path store/.cairn/index -prune -o -printf '%P\n' | sort >before
check 1 cairn gc <<'END'
! cairn: the chunk index of 'DIR/store' has chunks that are not there: it is made anew, and the mark begins again without it
! cairn: none of the 20 chunks that the snapshots in 'DIR/store' reference are in its '.chunks': was it emptied, or is another file system mounted there? Nothing is removed; if it is meant so, say --accept-missing
END
find store -name gc.running -prune -o -name "history.db*" -prune -o -path store/.cairn/index -prune -o -printf '%P\n' | sort | diff before -
keep=store check 1 cairn gc --dry-run <<'END'
! cairn: none of the 20 chunks that the snapshots in 'DIR/store' reference are in its '.chunks': was it emptied, or is another file system mounted there? Nothing is removed; if it is meant so, say --accept-missing
END
run cairn gc --accept-missing
[ "$code" -eq 3 ] || fail "exit code $code"
rm -r store/.chunks
keep=store check 1 cairn gc <<'END'
! cairn: datastore 'DIR/store' has lost its '.chunks', while 'host' is still there: was it moved or removed? Put it back; nothing was changed
END

# A number alone is no duration of a safety margin.
fresh
check 2 cairn gc --cutoff 24 <<'END'
! cairn: --cutoff: '24' has no unit, want one as in 24h (or d, m, s)
END

# The command that helps is to be copied as it is.
fresh
ok cairn forget host/a/2001-01-02T00:00:00Z
cp -a store 'other store'
run cairn -d './other store' --config "$CAIRN_CONFIG" gc
grep -qxF "to free the pending 390.7 KiB now: cairn -d './other store' --config $CAIRN_CONFIG gc --cutoff 0" "$out" ||
	fail "$(cat "$out")"
rm -r 'other store'

# A snapshot that somebody removed without cairn: more than half of the chunks
# would go.
fresh
ok cairn gc
rm -r store/host
mkdir -p store/host
old store
check 1 cairn gc <<'END'
! cairn: warning: 3 index files that the last run read are gone and nobody recorded the removal, the first one is 'host/a/2001-01-01T00:00:00Z/a.img.fidx': was it removed by hand, or is something not mounted?
! cairn: 'host/a/2001-01-01T00:00:00Z/a.img.fidx' is gone from 'DIR/store' and nobody recorded its removal, and 20 of 20 chunks would go, now or when the safety margin is over: is something not mounted? If not, say --accept-missing
END
[ "$(garbage)" -gt 10 ] || fail "removed all the same"
ok cairn gc --accept-missing
[ "$(garbage)" -eq 0 ] || fail "garbage is left"

# A snapshot that can not be read: nothing is removed, unless it is set aside.
fresh
ok cairn forget host/a/2001-01-02T00:00:00Z
truncate -s 10 store/host/b/2001-01-01T00:00:00Z/r.raw.didx
old store
check 1 cairn gc <<'END'
! cairn: warning: 'DIR/store/host/b/2001-01-01T00:00:00Z/r.raw.didx': 10 bytes, want at least 4096
! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
END
ok cairn gc --ignore host/b/2001-01-01T00:00:00Z
ok cairn cat host/a/latest a.img
cmp "$out" a

# Snapshots that come and go meanwhile.
fresh
(
	for i in 1 2 3 4 5 6 7 8; do
		cairn -q push --chunk-size 64K --time "2001-02-0${i}T00:00:00Z" 			host/busy a.img=a x.img=b
		[ "$i" -eq 1 ] ||
			cairn -q forget "host/busy/2001-02-0$((i - 1))T00:00:00Z"
	done
) >/dev/null 2>busy &
pid=$!
runs=0
while kill -0 $pid 2>/dev/null; do
	old store
	ok cairn -q gc --cutoff 1h
	runs=$((runs + 1))
done
wait $pid || fail "$(cat busy)"
[ "$runs" -ge 1 ] || fail "no collection ran beside"
ok cairn verify
sound store
no_leftovers store

# One directory that may not be read.
if [ "$(id -u)" -eq 0 ]; then
	need setpriv
	fresh
	chown -R 12345:12345 store
	as() { setpriv --reuid 12345 --regid 12345 --clear-groups "$@"; }
	as test -x "$(command -v cairn)" || exit 0
else
	fresh
	as() { "$@"; }
fi
old store
chmod 000 store/host/b
check 1 as cairn gc <<'END'
! cairn: warning: open directory 'DIR/store/host/b': Permission denied
! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
END
chmod 755 store/host/b
as cairn -q gc >/dev/null
mkdir store/lost+found
chmod 000 store/lost+found
[ "$(id -u)" -ne 0 ] || chown 0 store/lost+found
ok as cairn gc
[ "$(id -u)" -eq 0 ] || chmod 755 store/lost+found
