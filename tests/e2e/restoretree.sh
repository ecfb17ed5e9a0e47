#!/usr/bin/env bash
# Trees: pushed, given back, compared by a program that knows nothing of
# either; whole and in part, over what exists, damaged, as somebody else.
. "$(dirname "$0")/lib.sh"
need setfattr

top=$PWD
clear_up() {
	local code=$? tree
	set +e
	for tree in "$top"/{src,out*,loop/src,loop/out*}; do
		[ ! -d "$tree" ] || python3 "$here/gentree.py" --remove "$tree"
	done
	! mountpoint -q "$top/loop" || umount "$top/loop"
	(exit "$code")
	clean_up
}
trap clear_up EXIT

same() {
	python3 "$here/treecmp.py" "$@" >"$scratch/shell/differ" || {
		cat -v "$scratch/shell/differ"
		fail "not the same: $*"
	}
}

cairn init store 2>/dev/null
python3 "$here/gentree.py" --small src >/dev/null

# All that a tree can have, twice, with every kind of change between.
ok cairn push --time 2001-01-01T00:00:00Z host/a root.tree=src
s=host/a/2001-01-01T00:00:00Z
ok cairn restore $s root.tree out
same src out
python3 "$here/gentree.py" --remove out

change() {
	echo more >>"$1/many/f0001"             # content
	printf X | dd of="$1/sizes/text" bs=1 seek=1000 conv=notrunc status=none
	touch -d 2001-02-03 "$1/many/f0002"     # time only
	chmod 600 "$1/many/f0003"               # mode only
	setfattr -n user.new -v x "$1/many/f0004" || true
	rm "$1/many/f0005" "$1/special/fifo"    # gone
	mkdir "$1/many/f0005"                   # another kind
	mv "$1/many/f0006" "$1/many/renamed"
	mv "$1/order" "$1/moved"                # a directory
	cp "$1/sizes/random-1048577" "$1/copy"  # a content that is known
	ln "$1/many/f0007" "$1/hard/new"        # one more name
	rm "$1/hard/z-first"                    # the first of a group
	ln -sfn elsewhere "$1/links/good"
	truncate -s 3M "$1/sparse/start"        # another hole
	head -c 100000 /dev/zero | tr '\0' x >"$1/added"
	: >"$1/many/f0008"                      # emptied
}
change src
ok cairn push --time 2001-01-02T00:00:00Z host/a root.tree=src
t=host/a/2001-01-02T00:00:00Z
ok cairn restore $t root.tree out
same src out
# Over the older one; what is not in the snapshot stays.
ok cairn restore $s root.tree out2
touch out2/mine
ok cairn restore --overwrite=changed $t root.tree out2
[ -e out2/mine ] || fail "a file of nobody's is gone"
[ -e out2/special/fifo ] || fail "what the other snapshot had is gone"
rm -r out2/mine out2/special/fifo out2/order out2/hard/z-first
rm out2/many/f0006
same --ignore root,mtime,links src out2
# Again: nothing is to be done.
run cairn restore --json --overwrite=changed $t root.tree out2
json "$out" '(d["entries"], d["bytes"], d["failed"], d["equal"] > 2000)' \
	>"$out.1"
echo '(0, 0, 0, True)' | diff - "$out.1"
python3 "$here/gentree.py" --remove out2

# What exists is left alone, and counted.
mkdir out3
echo mine >out3/added
mkdir -p out3/links
ln -s "$PWD/store" out3/modes
run cairn restore $t root.tree out3 added links/file modes
expect 3 <<'END'
'out3': 1 entry restored, 7 B
  existed, left alone (see --overwrite): 2
! cairn: warning: 'out3/added': exists
! cairn: warning: 'out3/modes': exists and is no directory
END
grep -qx mine out3/added || fail "was written"
[ -L out3/modes ] || fail "was replaced"
sound store
check 0 cairn restore --overwrite always $t root.tree out3 modes/file-644 \
	/modes//file-644 modes/./dir-555 <<'END'
'out3': 4 entries restored, 6 B
END
[ ! -L out3/modes ] || fail "a link was followed"
[ -d out3/modes ] || fail "no directory"
sound store
[ "$(stat -c %a out3/modes/dir-555)" = 555 ] || fail "mode"
[ ! -e out3/modes/dir-700 ] || fail "more than was asked for"

# What is named wrong; nothing is made for it.
check 1 cairn restore $t root.tree new none <<'END'
! cairn: 'host/a/2001-01-02T00:00:00Z/root.tree.catalog.fidx': 'none' is not in it
END
[ ! -e new ] || fail "was made"
check 1 cairn restore $t root.tree new added/x <<'END'
! cairn: 'host/a/2001-01-02T00:00:00Z/root.tree.catalog.fidx': 'added' is no directory
END
check 2 cairn restore $t root.tree new ../x <<'END'
! cairn: 'host/a/2001-01-02T00:00:00Z/root.tree.catalog.fidx': '..' has a '..', which is not followed
END
echo file >file
check 2 cairn restore $t root.tree file <<'END'
! cairn: 'file' is no directory, want one
END
check 2 cairn restore $t root.tree none/new <<'END'
! cairn: 'none/new': the directory above it does not exist; make it first
END
[ ! -e new ] || fail "was made"
ok cairn push --time 2001-01-03T00:00:00Z host/a x.conf=file
check 2 cairn restore host/a/latest x.conf new file <<'END'
! cairn: 'x.conf' is one piece: there is no PATH in it; trees and tars have them
END

# Not into the datastore.
for to in store store/host store/.chunks/new; do
	keep=store run cairn restore $t root.tree $to
	expect 1 <<END
! cairn: '$to' lies in the datastore; want a place outside
END
done
check 1 cairn restore host/a/latest x.conf store <<'END'
! cairn: 'store/x.conf' lies in the datastore; want a place outside
END
sound store

# Damage: what is hurt is named and left out, all else comes.
chunk=$(python3 -c '
import sys
print(open(sys.argv[1], "rb").read()[4096 + 8:4096 + 40].hex())' \
	store/$t/root.tree.didx)
mv "store/.chunks/${chunk:0:4}/$chunk" away
run cairn restore $t root.tree out4
[ "$code" -eq 3 ] || fail "exit code $code"
damaged=$(sed -n 's/^  damaged: //p' "$out")
[ "$damaged" -gt 0 ] || fail "nothing is damaged"
[ "$(grep -c "'out4/.*': .*: chunk $chunk at offset 0: " "$err")" -eq \
	"$damaged" ] || fail "not each was named"
# Of the one file that is asked for nothing is left.
hurt=$(sed -n "s/^cairn: warning: 'out4\/\([^']*\)': .*: chunk .*/\1/p" "$err" |
	head -n 1)
run cairn restore $t root.tree out5 "$hurt"
[ "$code" -eq 4 ] || fail "exit code $code"
run cairn restore $t root.tree out5 "$hurt" "$hurt"
[ "$code" -eq 3 ] || fail "exit code $code"
rm -rf out5
mv away "store/.chunks/${chunk:0:4}/$chunk"
run cairn restore $t root.tree out4
[ "$code" -eq 3 ] || fail "exit code $code"
grep -q "^'out4': $damaged entr" "$out" || fail "more was missing"
rm -r out4/empty/inner
python3 "$here/gentree.py" --remove out4

# A tar whole is the stream it was; with PATH it is like a tree.
mkdir plain
cp -a src/many src/names plain/
tar -C plain --sort=name --xattrs --format=pax -cf plain.tar .
ok cairn push --time 2001-01-04T00:00:00Z host/b root.tar=plain.tar
ok cairn restore host/b/latest root.tar stream.tar
cmp plain.tar stream.tar
ok cairn restore host/b/latest root.tar outtar many/f0010 names
same --ignore mtime plain/names outtar/names
cmp plain/many/f0010 outtar/many/f0010
[ "$(ls outtar/many)" = f0010 ] || fail "more than was asked for"
ok cairn restore host/b/latest root.tar outall .
same --ignore mtime,root plain outall

# Stopped, it leaves no temporary file, and can be begun again.
env --default-signal=INT "${one_cpu[@]}" \
	cairn restore $s root.tree out5 2>"$err" &
pid=$!
for _ in $(seq 100); do
	[ ! -d out5/many ] || break
	sleep 0.05
done
kill -INT $pid
code=0
wait $pid || code=$?
case $code in 0 | 130) ;; *) fail "exit code $code" ;; esac
[ -z "$(find out5 -name '.cairn-restore.*')" ] || fail "temporary files"
ok cairn restore --overwrite=changed $s root.tree out5
python3 "$here/gentree.py" --remove out5

# Few descriptors.
(
	ulimit -n 40
	run cairn restore $t root.tree out6
	[ "$code" -eq 0 ] || {
		show
		fail "exit code $code"
	}
)
same src out6
python3 "$here/gentree.py" --remove out6

# As somebody who may do less: what may be restored is, the rest is counted.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod -R a+rX store
	mkdir -m 777 nobody
	nobody() { TMPDIR=$PWD/nobody setpriv --reuid=65534 --regid=65534 --clear-groups \
		--bounding-set=-all --inh-caps=-all "$@"; }
	cp "$(command -v cairn)" cairn-copy
	run nobody ./cairn-copy -d "$PWD/store" restore $t root.tree nobody/out \
		names owners special xattrs
	[ "$code" -eq 3 ] || fail "exit code $code"
	grep -q 'could not be made: [0-9]' "$out" || fail "devices"
	grep -q 'without all metadata: [0-9]* (owner [0-9]*' "$out" ||
		fail "owners"
	[ "$(grep -c "owner not restored" "$err")" -eq 1 ] || fail "said often"
	[ "$(stat -c %a nobody/out/owners/setuid)" = 755 ] ||
		fail "a setuid bit for somebody else"
	cmp src/names/--  nobody/out/names/--
fi

# Other file systems.
if [ "$(id -u)" -eq 0 ] && command -v losetup >/dev/null; then
	mkdir loop
	for fs in ext4 xfs btrfs; do
		command -v mkfs.$fs >/dev/null || continue
		truncate -s 400M image
		case $fs in ext4) how='-F -b 4096' ;; *) how=-f ;; esac
		# shellcheck disable=SC2086
		mkfs.$fs -q $how image >/dev/null 2>&1 || continue
		mount -o loop image loop 2>/dev/null || continue
		python3 "$here/gentree.py" --small loop/src >/dev/null
		ok cairn push --time 2001-01-05T00:00:00Z host/$fs \
			root.tree=loop/src
		ok cairn restore host/$fs/latest root.tree loop/out
		same loop/src loop/out
		change loop/src
		ok cairn push --time 2001-01-06T00:00:00Z host/$fs \
			root.tree=loop/src
		ok cairn restore host/$fs/latest root.tree loop/out2
		same loop/src loop/out2
		umount loop
		rm image
	done
fi
