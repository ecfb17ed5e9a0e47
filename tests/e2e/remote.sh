#!/usr/bin/env bash
# Hosts that push, and get back, through ssh and a pipe; and what is left when
# the other end fails.
. "$(dirname "$0")/lib.sh"
need tar

# The other machine is this one: ssh HOST COMMAND... joins the words with
# blanks and gives them to a shell, as sshd does.  With "cut" there, it dies on
# the way.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/sh
echo "$1" >>ssh.log
shift
if [ -e cut ]; then
	sh -c "$*" | head -c 700000
	exit 255
fi
exec sh -c "$*"
END
chmod +x bin/ssh
PATH=$PWD/bin:$PATH

mkdir -p web1/etc back
echo web1 >web1/etc/hostname
data web1/large $MIB large
cairn init store 2>/dev/null
export CAIRN_DATASTORE=$PWD/store

# The store's host fetches: through a pipe, and as a command.
fetch='ssh web1 tar c --sort=name -C web1 .'
piped() { # TIME GROUP
	$fetch | cairn push --time "$1" "$2" root.tar=-
}
ok piped 2001-01-01T00:00:00Z host/web1
ok cairn push --time 2001-01-02T00:00:00Z --command "$fetch" host/web1 root.tar
check 0 cat ssh.log <<'END'
web1
web1
END
ok cairn cat host/web1/latest root.tar
tar -df "$out" -C web1
check 0 cairn cat host/web1/latest root.tar etc/hostname <<'END'
web1
END
check 0 cairn diff host/web1/2001-01-01T00:00:00Z host/web1/latest root.tar </dev/null

# A host brings, to a store that only the other machine has.
bring() {
	tar c -C web1 . |
		ssh backup cairn -d ./store push --time 2001-01-03T00:00:00Z host/web1 root.tar=-
}
ok bring
# And back, without a file in between.
give() { cairn cat host/web1/latest root.tar | ssh web1 tar x -C back; }
ok give
diff -r web1 back
pick() { cairn export host/web1/latest root.tar etc | ssh web1 tar t; }
check 0 pick <<'END'
etc/
etc/hostname
! cairn: 2 entries exported, 5 B
END

# fails CODE TEXT COMMAND...: it ends so, and says so.
fails() {
	run "${@:3}"
	[ "$code" -eq "$1" ] || {
		show
		fail "exit code $code, want $1: ${*:3}"
	}
	grep -qF -- "$2" "$err" || fail "does not say '$2': $(cat "$err")"
}

# The other end fails.  A command's failure is seen, and leaves nothing, also
# where a whole tar had come.
find store/host | sort >before
touch cut
fails 1 'exit code 255; nothing is stored' \
	cairn push --command "$fetch" host/web1 root.tar
rm cut
fails 1 'exit code 3; nothing is stored' \
	cairn push --command "$fetch; exit 3" host/web1 root.tar
find store/host | sort | diff before - || fail "something is left"

# Behind a pipe nobody sees that.  What was cut is kept, but told: 3.  From
# nothing at all no snapshot is made.
touch cut
fails 3 "member './large' is not whole" \
	piped 2001-01-04T00:00:00Z host/cut
fails 3 "'cut.d/large': shorter than it was" \
	cairn restore host/cut/latest root.tar cut.d .
fails 3 'the tar ended, or could not be read, at offset' \
	cairn restore host/cut/latest root.tar cut.tar
cmp web1/etc/hostname cut.d/etc/hostname
rm cut
empty() { false | cairn push host/empty root.tar=-; }
fails 1 'nothing came' empty
[ ! -d store/host/empty ] || fail "a snapshot of nothing"
no_leftovers store
sound store
