#!/usr/bin/env bash
# cairn init: what it makes, and all that it refuses.
. "$(dirname "$0")/lib.sh"

# What is made, with which modes, whatever the umask.
(
	umask 077
	check 0 cairn init store <<'END'
! cairn: datastore made in 'store'
END
) || exit 1
run find store -printf '%P %y %m\n'
sort -o "$out" "$out"
expect 0 <<'END'
 d 755
.cairn d 755
.cairn/added f 644
.cairn/format f 644
.cairn/gc.running f 644
.cairn/index d 755
.cairn/index/base-1.cix f 644
.cairn/index/base-1.gone f 644
.cairn/index/control.json f 644
.cairn/index/lock f 644
.cairn/index/runs d 755
.cairn/sessions d 755
.chunks d 750
.lock f 644
END
json store/.cairn/format 'sorted(d), d["format"], d["requires"]' >"$out"
expect 0 <<'END'
(['format', 'host', 'requires', 'store'], 1, [])
END
check 0 cairn -d ./store list </dev/null
sound store

# Again, in it, below it.
keep=store check 1 cairn init store <<'END'
! cairn: 'store' is a datastore already: it has a '.chunks'
END
mkdir -p store/host/web1
check 1 cairn init store/host <<'END'
! cairn: 'store/host' lies within the datastore 'store/host/..': datastores may not be nested
END
check 1 cairn init store/host/web1/inner <<'END'
! cairn: 'store/host/web1/inner' lies within the datastore 'store/host/web1/inner/../../..': datastores may not be nested
END
check 1 cairn init store/.chunks <<'END'
! cairn: 'store/.chunks' lies within the datastore 'store/.chunks/..': datastores may not be nested
END
[ ! -e store/host/web1/inner ] || fail "inner was made"

# A directory that is there: empty, or as a file system or a shell leaves it.
mkdir empty used
mkdir used/lost+found used/.snapshots
touch used/.bashrc
check 0 cairn init empty <<'END'
! cairn: datastore made in 'empty'
END
check 0 cairn init used/ <<'END'
! cairn: datastore made in 'used/'
END
mkdir here
(cd here && check 0 cairn init . <<'END'
! cairn: datastore made in '.'
END
) || exit 1

# A directory with something in it keeps just that.
mkdir full
touch full/file
keep=full check 1 cairn init full <<'END'
! cairn: 'full' is not empty: it has 'file', want at most 'lost+found' and names with a leading dot
END
mkdir $'odd\e[31m\n'
touch $'odd\e[31m\n/file'
keep=$'odd\e[31m\n' check 1 cairn init $'odd\e[31m\n' <<'END'
! cairn: 'odd?[31m ' is not empty: it has 'file', want at most 'lost+found' and names with a leading dot
END

# Half of a store that is not ours to complete.
mkdir chunks locked
mkdir chunks/.chunks
touch locked/.lock
keep=chunks check 1 cairn init chunks <<'END'
! cairn: 'chunks' is a datastore already: it has a '.chunks'
END
keep=locked check 1 cairn init locked <<'END'
! cairn: 'locked' has a '.lock' already, which is not of an interrupted init: remove it first
END

# An init that was interrupted is said to be that, and simply run again.
cairn init half 2>/dev/null
rm -r half/.cairn/index
rmdir half/.chunks
check 1 cairn -d ./half list <<'END'
! cairn: './half' is no datastore: it has '.cairn' but no '.chunks', as an interrupted init leaves it: run init again
END
check 0 cairn init half <<'END'
! cairn: datastore made in 'half'
END
check 0 cairn -d ./half list </dev/null

# No place for it.
check 1 cairn init no/such/parent <<'END'
! cairn: 'no/such/parent' can not be made: the directory above does not exist
END
touch file
check 1 cairn init file <<'END'
! cairn: open directory 'file': Not a directory
END
check 1 cairn init file/store <<'END'
! cairn: make directory 'file/store': Not a directory
END
ln -s nowhere dangling
check 1 cairn init dangling <<'END'
! cairn: open directory 'dangling': No such file or directory
END
check 1 cairn init '' <<'END'
! cairn: '' can not be made: the directory above does not exist
END
check 1 cairn init "$(printf '%0300d' 0 | tr 0 x)" <<'END'
! cairn: make directory 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx': File name too long
END

# Wrong usage.
check 2 cairn init <<'END'
! cairn: missing argument; want 'cairn init PATH'
END
check 2 cairn init a b <<'END'
! cairn: unexpected argument 'b'; want 'cairn init PATH'
END
check 2 cairn init --pbs-layuot a <<'END'
! cairn: 'init' has no option '--pbs-layuot'; did you mean '--pbs-layout'?
END
check 2 cairn init --pbs-layout=yes a <<'END'
! cairn: option '--pbs-layout' takes no value
END

# JSON.
run cairn --json init for-machines
json "$out" 'd["datastore"]' >"$scratch/shell/json"
mv "$scratch/shell/json" "$out"
expect 0 <<'END'
for-machines
END

# All prefix directories at once, with PBS's modes; in memory, if possible.
big=$scratch/work
[ ! -w /dev/shm ] || big=$(mktemp -d /dev/shm/cairn-e2e.XXXXXX)
ok cairn init --pbs-layout "$big/pbs"
run find "$big/pbs" -mindepth 2 -regextype posix-extended \
	-regex '.*/pbs/.chunks/[0-9a-f]{4}' -type d -perm 0750 -printf .
made=$(wc -c <"$out")
run stat -c '%a' "$big/pbs" "$big/pbs/.chunks" "$big/pbs/.lock"
[ "$big" = "$scratch/work" ] || rm -r "$big"
expect 0 <<'END'
755
750
644
END
[ "$made" -eq 65536 ] || fail "$made prefix directories of mode 0750"

[ "$(id -u)" -eq 0 ] || exit 0

# Read-only.
mkdir ro
mount -t tmpfs -o size=1m tmpfs ro || skip "can not mount a tmpfs"
mounts+=("$PWD/ro")
mount -o remount,ro ro
check 1 cairn init ro <<'END'
! cairn: make directory 'ro/.cairn': Read-only file system
END
check 1 cairn init ro/store <<'END'
! cairn: make directory 'ro/store': Read-only file system
END
