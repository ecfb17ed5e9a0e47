#!/usr/bin/env bash
# cairn restore and cat: targets of all kinds, and what is never written.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
truncate -s 4M disk
bytes disk $MIB | dd of=disk bs=1M seek=1 conv=notrunc status=none
data stream 1500000
echo small >conf
ok cairn push --time 2001-01-01T00:00:00Z host/a \
	disk.img=disk stream.raw=stream x.conf=conf
s=host/a/latest
restore() { cairn restore "${@:1:$#-1}" "${!#}"; }

# What is named wrong.
check 1 cairn cat host/a/2001-01-01T00:00:01Z disk.img <<'END'
! cairn: snapshot 'host/a/2001-01-01T00:00:01Z' does not exist; the newest is of 2001-01-01T00:00:00Z, 'cairn list host/a' lists all
END
check 1 cairn cat host/b/latest disk.img <<'END'
! cairn: group 'host/b' does not exist; did you mean 'host/a'?
END
check 2 cairn cat host/a disk.img <<'END'
! cairn: snapshot 'host/a': want TYPE/ID/TIME, or 'host/a/latest'
END
check 2 cairn cat host/a/yesterday disk.img <<'END'
! cairn: snapshot 'host/a/yesterday': 'yesterday' is no time, want one like TIME
END
check 1 cairn cat $s other.img <<'END'
! cairn: host/a/2001-01-01T00:00:00Z: no archive 'other.img'; there is: disk.img, stream.raw, x.conf
END
check 1 cairn cat $s index.json <<'END'
! cairn: host/a/2001-01-01T00:00:00Z: no archive 'index.json'; there is: disk.img, stream.raw, x.conf
END
check 1 cairn cat $s ../x.conf <<'END'
! cairn: host/a/2001-01-01T00:00:00Z: no archive '../x.conf'; there is: disk.img, stream.raw, x.conf
END
check 0 cairn cat $s x.conf <<'END'
small
END
check 0 cairn cat $s x.conf.blob <<'END'
small
END

# A new file: whole or not at all, and nobody else's business.
check 0 cairn restore $s disk.img new <<'END'
'new': 4 MiB restored, 1 MiB written
END
cmp new disk
check 0 stat -c '%a %s' new <<'END'
600 4194304
END
[ "$(stat -c %b new)" -lt 4096 ] || fail "zeros were written"
mkdir dir
check 0 cairn restore $s stream.raw dir <<'END'
'dir/stream.raw': 1.431 MiB restored, 1.431 MiB written
END
cmp dir/stream.raw stream
check 0 cairn restore $s x.conf dir/ <<'END'
'dir/x.conf': 6 B restored, 6 B written
END
cmp dir/x.conf conf
check 2 cairn restore $s x.conf none/x <<'END'
! cairn: 'none/x': the directory above it does not exist; make it first
END
check 2 cairn restore $s x.conf none/ <<'END'
! cairn: 'none/' does not exist; make it first, or name a file
END
check 1 cairn restore $s x.conf conf/x <<'END'
! cairn: 'conf/x': Not a directory
END
[ -z "$(find . -name '.cairn-restore*')" ] || fail "temporary files are left"

# One that is there.
echo precious >old
check 3 cairn restore $s disk.img old <<'END'
! cairn: warning: 'old' exists and was left alone; --overwrite=changed or always writes it
END
check 3 cairn restore --overwrite=never $s disk.img old <<'END'
! cairn: warning: 'old' exists and was left alone; --overwrite=changed or always writes it
END
grep -qx precious old || fail "was written"
check 2 cairn restore --overwrite=maybe $s disk.img old <<'END'
! cairn: --overwrite 'maybe': want never, changed or always
END
before=$(stat -c %i old)
check 0 cairn restore --overwrite always $s disk.img old <<'END'
'old': 4 MiB restored, 1 MiB written
END
cmp old disk
[ "$(stat -c %i old)" -ne "$before" ] || fail "written in place"

# Only what differs is written, in place.
before=$(stat -c %i old)
check 0 cairn restore --overwrite=changed $s disk.img old <<'END'
'old': 4 MiB restored, 0 B written
END
printf X | dd of=old bs=1 seek=1500000 conv=notrunc status=none
printf more >>old
check 0 cairn restore --overwrite=changed $s disk.img old <<'END'
'old': 4 MiB restored, 64 KiB written
END
cmp old disk
truncate -s 1M old
ok cairn restore --overwrite=changed $s disk.img old
cmp old disk
[ "$(stat -c %i old)" -eq "$before" ] || fail "not in place"
check 0 cairn restore --overwrite=changed $s stream.raw changed-new <<'END'
'changed-new': 1.431 MiB restored, 1.431 MiB written
END
cmp changed-new stream
data other 1500001
ok cairn restore --overwrite=changed $s stream.raw other
cmp other stream
ok cairn restore --overwrite=changed $s x.conf other
cmp other conf

# A link is never written through: left alone, or replaced.
mkdir outside
echo victim >outside/victim
ln -s outside/victim link
check 3 cairn restore $s x.conf link <<'END'
! cairn: warning: 'link' exists and was left alone; --overwrite=changed or always writes it
END
check 0 cairn restore --overwrite=changed $s x.conf link <<'END'
'link': 6 B restored, 6 B written
END
[ ! -L link ] || fail "still a link"
cmp link conf
ln -sf outside/victim link
check 0 cairn restore --overwrite=always $s x.conf link <<'END'
'link': 6 B restored, 6 B written
END
ln -s outside/none dangling
check 3 cairn restore $s x.conf dangling <<'END'
! cairn: warning: 'dangling' exists and was left alone; --overwrite=changed or always writes it
END
ok cairn restore --overwrite=always $s x.conf dangling
[ "$(ls outside)" = victim ] || fail "written through the link"
grep -qx victim outside/victim || fail "written through the link"
ln outside/victim hard
ok cairn restore --overwrite=always $s x.conf hard
grep -qx victim outside/victim || fail "written through the hard link"
ln -s dir todir
ok cairn restore $s disk.img todir
cmp dir/disk.img disk

# What is no file.
mkfifo fifo
for mode in never changed always; do
	check 2 cairn restore --overwrite=$mode $s x.conf fifo <<'END'
! cairn: 'fifo' is neither a file, a directory nor a block device; 'cairn cat' writes to a pipe or terminal
END
	check 2 cairn restore --overwrite=$mode $s x.conf /dev/null <<'END'
! cairn: '/dev/null' is neither a file, a directory nor a block device; 'cairn cat' writes to a pipe or terminal
END
done
[ -c /dev/null ] || fail "/dev/null is gone"

# A directory where the file should be.
mkdir -p taken/x.conf
check 2 cairn restore --overwrite=always $s x.conf taken <<'END'
! cairn: 'taken/x.conf' is a directory, want a file's name
END

# Standard output that does not take it.
run sh -c "cairn cat $s stream.raw >/dev/full"
expect 1 <<'END'
! cairn: write 'standard output': No space left on device
END
run sh -c "cairn cat $s stream.raw >&-"
expect 1 <<'END'
! cairn: write 'standard output': Bad file descriptor
END
run sh -c "cairn list >/dev/full"
expect 1 <<'END'
! cairn: standard output: No space left on device
END
run sh -c "cairn list >&-"
expect 1 <<'END'
! cairn: standard output: Bad file descriptor
END
run sh -c "cairn restore $s disk.img full-stdout >/dev/full"
expect 1 <<'END'
! cairn: standard output: No space left on device
END
cmp full-stdout disk
run bash -c "cairn cat $s stream.raw | head -c 1000 >part; exit \${PIPESTATUS[0]}"
expect 141 </dev/null
head -c 1000 stream | cmp - part
run sh -c "cairn cat $s stream.raw 0<&- 2>&- | cmp - stream"
expect 0 </dev/null
sound store

# Not into the store by accident: standard descriptors that are closed are
# not those of its files.
for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&- 2>&-'; do
	keep=store run sh -c "cairn cat $s stream.raw $closed >/dev/null"
	keep=store run sh -c "cairn cat $s stream.raw $closed"
done
sound store

# For machines.
run cairn --json restore $s disk.img json-target
json "$out" 'd["target"], d["size"], d["written"] < d["size"], d["time"]' \
	>"$out.1"
mv "$out.1" "$out"
: >"$err"
expect 0 <<'END'
('json-target', 4194304, True, '2001-01-01T00:00:00Z')
END

# Block devices.
if [ "$(id -u)" -ne 0 ] || ! command -v losetup >/dev/null; then exit 0; fi
truncate -s 4M backing
truncate -s 3M backing-small
device=$(losetup -f --show backing) || exit 0
free_device() {
	local code=$?
	set +e
	losetup -d "$device"
	(exit "$code")
	clean_up
}
trap free_device EXIT
also="s|$device|DEVICE|"
check 2 cairn restore $s disk.img "$device" <<'END'
! cairn: 'DEVICE' is a block device; it is written only with --overwrite=always
END
check 2 cairn restore --overwrite=changed $s disk.img "$device" <<'END'
! cairn: 'DEVICE' is a block device; it is written only with --overwrite=always
END
check 0 cairn restore --overwrite=always $s disk.img "$device" <<'END'
'DEVICE': 4 MiB restored, 4 MiB written
END
cmp "$device" disk
ok cairn push --time 2001-01-02T00:00:00Z host/dev disk.img="$device"
ok cairn cat host/dev/latest disk.img
cmp "$out" disk
ln -s "$device" to-device
ok cairn restore --overwrite=always $s disk.img to-device
losetup -d "$device"
device=$(losetup -f --show backing-small)
check 1 cairn restore --overwrite=always $s disk.img "$device" <<'END'
! cairn: 'DEVICE' has 3145728 bytes, the archive needs 4194304
END
[ "$(cmp backing-small disk | wc -l)" -ne 0 ] || fail "was written"
mkfs.ext4 -q "$device" 2>/dev/null && mkdir mnt && mount "$device" mnt || exit 0
mounts+=("$PWD/mnt")
check 75 cairn restore --overwrite=always $s stream.raw "$device" <<'END'
! cairn: 'DEVICE' is in use: unmount it, or stop what uses it
END
