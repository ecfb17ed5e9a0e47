#!/usr/bin/env bash
# One store, pushed to by root and by the user whose store it is, in all orders
# and collected by either; and files in it that belong to somebody else: what
# can not be touched is named with its owner and the remedy, and what is needed
# stays.
. "$(dirname "$0")/lib.sh"
need_root
need setpriv
other=12345
stranger=23456
as() { # UID COMMAND...
	if [ "$1" -eq 0 ]; then
		"${@:2}"
	else
		setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
	fi
}
as $other test -x "$(command -v cairn)" ||
	skip "the program can not be run by another user"
data a 600000
data b 600000
data c 600000
chmod 644 a b c

push() { # UID DAY GROUP FILE
	ok as "$1" cairn push --time "2001-01-0$2T00:00:00Z" \
		--chunk-size 64K "host/$3" "a.img=$4"
}
restores() { # UID SNAPSHOT FILE
	ok as "$1" cairn cat "host/$2" a.img
	cmp "$out" "$3"
}

# Who pushes first, who second, who forgets, who collects.
for mix in "0 $other" "$other 0"; do
	for gc in 0 $other; do
		rm -rf store
		mkdir store
		chown $other:$other store
		as $other cairn init store 2>/dev/null
		# shellcheck disable=SC2086
		set -- $mix
		push "$1" 1 a a
		push "$2" 1 b b
		push "$2" 2 a b
		push "$1" 2 b c
		push "$1" 3 b a # uses what either has stored
		ok as "$2" cairn forget host/b/2001-01-02T00:00:00Z
		old store
		ok as "$gc" cairn gc
		grep -q '^removed: *10 chunks' "$out" || fail "$(cat "$out")"
		restores $other a/2001-01-01T00:00:00Z a
		restores 0 a/2001-01-02T00:00:00Z b
		restores $other b/2001-01-03T00:00:00Z a
		[ -z "$(find store ! -uid $other)" ] || fail "not the owner's"
		push $other 4 c c
		ok as $other cairn verify
		sound store
	done
done

# Chunks of somebody else, needed ones and garbage: root may touch all.
ok cairn forget host/c/2001-01-04T00:00:00Z
old store
find store/.chunks -type f -exec chown $stranger:$stranger {} +
ok cairn gc --dry-run
before=$(find store/.chunks -type f | wc -l)
run as $other cairn gc
[ "$code" -eq 1 ] || fail "gc that may not touch: exit code $code"
grep -q "belongs to $stranger:$stranger, not to $other:$other (as root: chown -R $other:$other '$PWD/store/.chunks'" \
	"$err" || fail "no remedy: $(cat "$err")"
grep -q 'nothing is removed' "$err" || fail "$(cat "$err")"
[ "$(find store/.chunks -type f | wc -l)" -eq "$before" ] || fail "removed"
# A push replaces what it may not touch: it is the owner's then.
push $other 5 d a
[ -n "$(find store/.chunks -type f -uid $other)" ] || fail "not replaced"
restores $other d/latest a
ok cairn gc
grep -q '^removed: *10 chunks' "$out" || fail "$(cat "$out")"
restores 0 a/2001-01-01T00:00:00Z a
restores 0 a/2001-01-02T00:00:00Z b

# Unreadable: nothing is collected.
old store
chown -R 0:0 store/host/b
chmod 700 store/host/b
run as $other cairn gc
[ "$code" -eq 1 ] || fail "gc that may not read: exit code $code"
grep -q "host/b'.*Permission denied" "$err" || fail "$(cat "$err")"
grep -q 'nothing is removed' "$err" || fail "$(cat "$err")"

# The remedies, and all is as before.
chown -R $other:$other store
chmod 755 store/host/b
ok as $other cairn gc
ok as $other cairn verify
restores $other b/2001-01-03T00:00:00Z a
sound store
no_leftovers store
