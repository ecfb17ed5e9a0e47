#!/usr/bin/env bash
# Whose files they are: another user is told whom to be; what root makes
# belongs to the store's owner, with the modes of the store.
. "$(dirname "$0")/lib.sh"
need_root
need setpriv
other=12345
stranger=23456
as() { # UID COMMAND...
	setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}
as $stranger test -x "$(command -v cairn)" ||
	skip "the program can not be run by another user"

# A store of somebody's.
mkdir store
chown $other:$other store
as $other cairn init store 2>/dev/null
data a 500000
chmod 644 a
ok as $other cairn push --time 2001-01-01T00:00:00Z host/a a.img=a

# A stranger.
also="s/$other/OTHER/g"
check 1 as $stranger cairn push host/a a.img=a <<'END'
! cairn: datastore 'DIR/store' belongs to another user: run as uid OTHER
END
for command in "forget host/a/latest" "note host/a/latest x" gc verify \
	"protect host/a/latest"; do
	# shellcheck disable=SC2086
	keep=store run as $stranger cairn $command
	[ "$code" -eq 1 ] || fail "$command: exit code $code"
	grep -q "run as uid $other" "$err" || fail "$(cat "$err")"
done
check 1 as $stranger cairn list <<'END'
! cairn: datastore 'DIR/store' belongs to another user: run as uid OTHER
END
check 1 as $stranger cairn cat host/a/latest a.img <<'END'
! cairn: datastore 'DIR/store' belongs to another user: run as uid OTHER
END

# A name is told as a name.
mkdir daemon
chown 1:1 daemon
ok cairn init daemon
[ "$(stat -c %u daemon/.chunks)" -eq 1 ] || fail "not its directory's owner"
check 1 as $stranger cairn -d ./daemon gc <<'END'
! cairn: datastore './daemon' belongs to another user: run as 'daemon'
END

# What root makes is the owner's, with the modes of the store, whatever umask.
umask 077
ok cairn push --time 2001-01-02T00:00:00Z --note text host/b a.img=a c.conf=a
ok cairn --ns prod push --time 2001-01-02T00:00:00Z host/c r.raw=a
ok cairn protect host/b/latest
ok cairn note host/a/latest text
ok cairn verify
old store
ok cairn gc
find store ! -uid $other -o ! -gid $other >foreign
[ ! -s foreign ] || fail "not the owner's: $(cat foreign)"
find store -type f ! -perm 0644 -printf '%m %P\n' >"$out"
find store -type d ! -perm 0755 -printf '%m %P\n' |
	grep -v '^750 .chunks\(/[0-9a-f]\{4\}\)\?$' >>"$out" || true
: >"$err"
code=0
expect 0 </dev/null

# So the owner can go on with it.
for command in "push --time 2001-01-03T00:00:00Z host/b a.img=a" \
	"unprotect host/b/2001-01-02T00:00:00Z" "forget host/b/2001-01-02T00:00:00Z" \
	"note host/a/latest other" "verify" "gc"; do
	# shellcheck disable=SC2086
	ok as $other cairn $command
done
sound store
no_leftovers store

# Restored files are the restoring user's, and for nobody else.
ok cairn restore host/a/latest a.img restored
[ "$(stat -c '%u %a' restored)" = "0 600" ] || fail "$(stat -c '%u %a' restored)"
mkdir home
chown $other home
ok as $other cairn restore host/a/latest a.img home
[ "$(stat -c '%u %a' home/a.img)" = "$other 600" ] || fail "not his"
mkdir locked
check 1 as $other cairn restore host/a/latest a.img locked <<'END'
! cairn: directory of 'locked/a.img': Permission denied
END
chmod 000 a
check 1 as $other cairn push host/a a.img=a <<'END'
! cairn: 'a': Permission denied
END
check 1 as $other cairn init locked/store <<'END'
! cairn: make directory 'locked/store': Permission denied
END
