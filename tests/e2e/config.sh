#!/usr/bin/env bash
# The config file, and the ways to name a datastore.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
ok cairn init other
config() { # LINE...: a config file named "c" with these lines
	printf '%s\n' "$@" >c
}

# By path, by name, by environment, and the only one of the config file.
check 0 cairn list </dev/null
check 0 cairn -d ./store list </dev/null
check 0 cairn -d "$PWD/store" list </dev/null
check 0 cairn -dmain list </dev/null
check 0 cairn list --datastore=main </dev/null
(
	cd store
	check 0 cairn -d . list </dev/null
) || exit 1
printf x >x
CAIRN_DATASTORE=./other in=x check 0 cairn -d main push --dry-run host/a a.raw=- <<'END'
host/a/TIME (dry run: nothing was stored)
  a.raw: 1 B in 1 chunk
  would be new: 1 of 1 chunk, 1 B
END
in=x ok cairn -d ./other push --time 2001-01-01T00:00:00Z host/o x.raw=-
CAIRN_DATASTORE=$PWD/other check 0 cairn groups <<'END'
GROUP   SNAPSHOTS  UNFINISHED  LATEST                OWNER
host/o          1           0  2001-01-01T00:00:00Z  root@pam
END
CAIRN_DATASTORE=main check 0 cairn groups </dev/null
CAIRN_DATASTORE='' check 0 cairn groups </dev/null

# Names that are none.
check 2 cairn -d store list <<'END'
! cairn: no datastore 'store' in the config file, only main; a path has a slash in it, as in './store'
END
check 2 cairn -d $'a\nb' list <<'END'
! cairn: no datastore 'a\nb' in the config file, only main; a path has a slash in it, as in './a\nb'
END
check 1 cairn -d ./none list <<'END'
! cairn: datastore './none' does not exist; 'cairn init' makes one
END
check 1 cairn -d ./c-none/ list <<'END'
! cairn: datastore './c-none/' does not exist; 'cairn init' makes one
END
touch file
check 1 cairn -d ./file list <<'END'
! cairn: './file' is no datastore: it is no directory
END
mkdir dir
check 1 cairn -d ./dir list <<'END'
! cairn: './dir' is no datastore: it has no '.chunks'; is its file system mounted? 'cairn init' makes one
END
check 1 cairn -d ./dir push host/a x.raw=x <<'END'
! cairn: './dir' is no datastore: it has no '.chunks'; is its file system mounted? 'cairn init' makes one
END
[ -z "$(ls -A dir)" ] || fail "something was made in 'dir'"
ln -s store link
check 0 cairn -d ./link list </dev/null

# No config file, or two datastores in it: which one is meant?
config
check 2 cairn --config c list <<'END'
! cairn: which datastore? name it with -d PATH or in CAIRN_DATASTORE
END
config '[datastore "a"]' "path = $PWD/store" \
	'[datastore "b"]' "path = $PWD/other"
check 2 cairn --config c list <<'END'
! cairn: which datastore? name it with -d NAME, as in the config file, or in CAIRN_DATASTORE
END
check 0 cairn --config c -d b groups <<'END'
GROUP   SNAPSHOTS  UNFINISHED  LATEST                OWNER
host/o          1           0  2001-01-01T00:00:00Z  root@pam
END

# Which file is read: --config, CAIRN_CONFIG, /etc; a name that was given
# must be right.
check 2 cairn --config none list <<'END'
! cairn: config file: 'none' does not exist
END
CAIRN_CONFIG=none check 2 cairn list <<'END'
! cairn: config file: 'none' does not exist
END
CAIRN_CONFIG=none check 0 cairn --config c -d a list </dev/null
check 2 cairn --config dir list <<'END'
! cairn: config file: read 'dir': Is a directory
END

# Settings apply to a datastore however it is named.
config '; comment' '[datastore "a"]' "path = $PWD/store" 'min-free = 100%' \
	'owner = me@pbs' 'compression = 1' 'gc-cutoff = 2h' \
	'gc-touch-batch = off' 'sync-level = none'
also='s/[0-9.]+ ?%/SHARE/g; s/[0-9.]+ [KMGTP]iB/SIZE/g'
check 1 cairn --config c -d ./link push host/a x.raw=x <<'END'
! cairn: datastore './link': SIZE (SHARE) free, min-free wants SIZE (SHARE); 'cairn forget' or 'prune', then 'cairn gc --cutoff 0' make room
END
sed -i 's/min-free.*/min-free = 0/' c
ok cairn --config c push host/a x.raw=x
grep -qx 'me@pbs' store/host/a/owner || fail "not the owner of the config"

# What is wrong, and where.
wrong() { # LINE: as the third one of a file
	config '[datastore "a"]' "path = $PWD/store" "$@"
	run cairn --config c list
}
wrong 'gc-tuch-batch = off'
expect 2 <<'END'
! cairn: c:3: unknown key 'gc-tuch-batch', did you mean 'gc-touch-batch'?
END
wrong 'gc-touch-batch = 5'
expect 2 <<'END'
! cairn: c:3: key 'gc-touch-batch': '5' is no batch, want 'off' or a number between 1024 and 16777216
END
wrong 'gc-cutoff = soon'
expect 2 <<'END'
! cairn: c:3: key 'gc-cutoff': 'soon' is no duration, want seconds or a sum like 1w2d3h4m5s
END
wrong 'sync-level = often'
expect 2 <<'END'
! cairn: c:3: key 'sync-level': 'often' is no sync level, want none, filesystem or file
END
wrong 'compression = 99'
expect 2 <<'END'
! cairn: c:3: key 'compression': '99' is no whole number between 1 and 19
END
wrong 'owner = nobody'
expect 2 <<'END'
! cairn: c:3: key 'owner': 'nobody' is no owner, want USER@REALM or USER@REALM!TOKEN of at most 127 characters
END
wrong 'min-free = 200%'
expect 2 <<'END'
! cairn: c:3: key 'min-free': 'SHARE' is no free space, want a share like 'SHARE', a size like '10G', or 0
END
wrong 'path = /twice'
expect 2 <<'END'
! cairn: c:3: key 'path' is already at line 2
END
wrong 'no equals sign'
expect 2 <<'END'
! cairn: c:3: 'no equals sign', want 'key = value' or '[section]'
END
wrong '[datastore "a"]' 'path = /x'
expect 2 <<'END'
! cairn: c:3: section 'datastore "a"' is already at line 1
END
wrong '[datastore "b"]' "path = $PWD/store/."
expect 2 <<'END'
! cairn: c:3: section 'datastore "b"' has the path of section 'datastore "a"' at line 1
END
wrong '[datastore]' 'path = /x'
expect 2 <<'END'
! cairn: c:3: section 'datastore' has no name, want 'datastore "NAME"'
END
wrong '[datastores "b"]' 'path = /x'
expect 2 <<'END'
! cairn: c:3: unknown section 'datastores', want 'datastore "NAME"'
END
wrong 'prune-schedule = 03:30'
expect 2 <<'END'
! cairn: c:3: key 'prune-schedule' is not supported by this version
END
wrong 'keep-daily = -7'
expect 2 <<'END'
! cairn: c:3: key 'keep-daily': '-7' is no whole number between 0 and 4294967295
END
wrong 'keep-within = 3 months'
expect 2 <<'END'
! cairn: c:3: key 'keep-within': '3 months' is no duration, want seconds or a sum like 1w2d3h4m5s
END
wrong 'time-zone = Europe/Atlantis'
expect 2 <<'END'
! cairn: c:3: key 'time-zone': time zone 'Europe/Atlantis': there is no '/usr/share/zoneinfo/Europe/Atlantis'; want a name as below '/usr/share/zoneinfo', which the package tzdata fills, or UTC
END
wrong "$(printf 'owner = %05000d' 1)"
also='s/0{60,}/ZEROS/' expect 2 <<'END'
! cairn: c:3: line of 5008 bytes, want at most 4096
END
config 'path = /x'
check 2 cairn --config c list <<'END'
! cairn: c:1: 'path = /x' before the first '[section]'
END
config '[datastore "a"]' 'path = relative'
check 2 cairn --config c list <<'END'
! cairn: c:2: key 'path': 'relative' is no absolute path
END
config '[datastore "a"]'
check 2 cairn --config c list <<'END'
! cairn: c:1: section 'datastore "a"' has no key 'path'
END
printf '[datastore "a"]\npath = %s' "$PWD/store" >c
ok cairn --config c list
printf '\xef\xbb\xbf[datastore "a"]\r\npath = %s\r\n' "$PWD/store" >c
run cairn --config c list
expect 0 <<'END'
SNAPSHOT                     SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/TIME   1 B      1  -         -
END
printf '[datastore "a"]\npath = /x\0y\n' >c
check 2 cairn --config c list <<'END'
! cairn: c:2: control character 0x00
END
