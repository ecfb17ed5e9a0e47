#!/usr/bin/env bash
# How the program speaks: help, JSON, progress, quiet, names that are bytes.
. "$(dirname "$0")/lib.sh"

# Help: of all commands, of each, and when nothing was said.
check 0 cairn version <<'END'
cairn 0.1.0
END
check 0 cairn --version <<'END'
cairn 0.1.0
END
check_version_json() {
	run cairn --version --json
	json "$out" 'd["version"]' | grep -q '^0\.1\.0$' || fail "$(cat "$out")"
}
check_version_json
ok cairn help exit-codes
# The same codes as README's table has.
for code_of in 0 1 2 3 4 75 129 130 143 141; do
	grep -qw -- "$code_of" "$out" || fail "no exit code $code_of"
done
ok cairn help
cp "$out" overview
ok cairn --help
cmp "$out" overview
run cairn
[ "$code" -eq 2 ] || fail "no command is wrong usage"
cmp "$out" overview
mapfile -t commands < <(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' overview)
[ ${#commands[@]} -ge 16 ] || fail "only ${#commands[*]}"
for command in "${commands[@]}"; do
	ok cairn help "$command"
	cp "$out" help
	grep -q "^usage: cairn \[GLOBAL OPTIONS\] $command\>" help ||
		fail "no usage in the help of $command"
	awk 'length > 79 { exit 1 }' help || fail "too wide: $command"
	ok cairn "$command" --help
	cmp "$out" help
	ok cairn "$command" -h
	cmp "$out" help
	[ ! -s "$err" ] || fail "help on stderr"
done
check 2 cairn help pusj <<'END'
! cairn: no command 'pusj'; did you mean 'push'?
END
check 2 cairn help push list <<'END'
! cairn: unexpected argument 'list'; want 'cairn help [COMMAND]'
END

# Words that are none.
check 2 cairn pusj <<'END'
! cairn: no command 'pusj'; did you mean 'push'?
END
check 2 cairn frobnicate <<'END'
! cairn: no command 'frobnicate'; 'cairn help' lists them
END
check 2 cairn $'li\e[31mst' <<'END'
! cairn: no command 'li\x1b[31mst'; 'cairn help' lists them
END
check 2 cairn --jsn list <<'END'
! cairn: no option '--jsn'; did you mean '--json'?
END
check 2 cairn list --al <<'END'
! cairn: 'list' has no option '--al'; did you mean '--all'?
END
check 2 cairn list -x <<'END'
! cairn: 'list' has no option '-x'; 'cairn help list' lists them
END
check 2 cairn -d <<'END'
! cairn: option '-d' needs a value: PATH|NAME
END
check 2 cairn --progress sometimes list <<'END'
! cairn: --progress 'sometimes': want auto, always or never
END
check 2 cairn -q -q list <<'END'
! cairn: option '--quiet' is given twice
END
check 2 cairn --ns 'a//b' list <<'END'
! cairn: --ns: namespace 'a//b': want names of letters, digits and ._- with / between them
END
check 2 cairn --ns $'a\tb' list <<'END'
! cairn: --ns: namespace 'a\tb': want names of letters, digits and ._- with / between them
END

cairn init store 2>/dev/null
data a $MIB
echo conf >c

# Options may stand anywhere, "--" ends them, "-" is an argument.
in=a check 0 cairn push host/a --time=2001-01-01T00:00:00Z a.raw=- -q c.conf=c <<'END'
host/a/2001-01-01T00:00:00Z
  a.raw: 1 MiB in 2 chunks
  c.conf: 5 B
  new: 2 of 2 chunks, 1 MiB, stored as 1 MiB
END
check 0 cairn list -- host/a <<'END'
SNAPSHOT                      SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/2001-01-01T00:00:00Z  1 MiB      2  -         -
END
check 2 cairn list -- --all <<'END'
! cairn: group '--all': want a type of ct, host or vm, a slash and an id
END

# A reader that has seen enough: no word, and the code of SIGPIPE.  More than
# a pipe takes, and less.
for command in 'cat host/a/latest a.raw' list 'list --json' 'help push' help; do
	run bash -c "cairn $command | sleep 0; exit \${PIPESTATUS[0]}"
	[ "$code" -eq 141 ] || [ "$code" -eq 0 ] || fail "exit code $code: $command"
	expect "$code" </dev/null
done
run bash -c "cairn cat host/a/latest a.raw | head -c 1; exit \${PIPESTATUS[0]}"
[ "$code" -eq 141 ] || fail "exit code $code"
run bash -c "exec 3> >(exec sleep 0); wait \$!; cairn list >&3"
expect 141 </dev/null

# JSON on stdout, events on stderr, whatever the command.
check_json() { # COMMAND...: valid JSON
	run cairn "$@" --json
	[ "$code" -eq 0 ] || {
		show
		fail "exit code $code: $*"
	}
	json "$out"
	events "$err"
}
check_json push host/j a.raw=a c.conf=c
check_json push --dry-run host/j a.raw=a c.conf=c
check_json list
check_json list --all host/a
check_json list host/a
check_json groups
check_json files host/a/latest
check_json note host/a/latest
check_json note host/a/latest text
check_json protect host/a/latest
check_json unprotect host/a/latest
check_json verify --quiet --progress always
check_json gc --dry-run --verbose
check_json gc
check_json gc status
check_json status
check_json version
check_json restore --overwrite=always host/a/latest a.raw back
for file in store/host/a/*/* store/.chunks/*/*; do check_json inspect "$file"; done
check_json namespaces
check_json prune --keep-last 1 --dry-run
check_json prune --keep-last 9 host/j
check_json forget --dry-run host/j/latest
check_json forget host/j/latest
cairn init empty 2>/dev/null
for command in list groups status 'gc status' verify 'gc --dry-run' gc; do
	# shellcheck disable=SC2086
	check_json -d ./empty $command
done
run cairn --json cat host/a/latest a.raw
cmp "$out" a
events "$err"

# Errors, too, once it is known that JSON is wanted.
error() {
	[ ! -s "$out" ] || fail "something on stdout"
	events "$err"
	cp "$err" "$out"
	: >"$err"
}
run cairn --json list host/none
error
expect 1 <<'END'
{"event":"error","exit-code":1,"text":"group 'host/none' does not exist; there is: host/a"}
END
# Also of what can not be parsed.
check 2 cairn list --json --frobnicate <<'END'
! {"event":"error","exit-code":2,"text":"'list' has no option '--frobnicate'; 'cairn help list' lists them"}
END
check 2 cairn frobnicate --json <<'END'
! {"event":"error","exit-code":2,"text":"no command 'frobnicate'; 'cairn help' lists them"}
END
check 2 cairn frobnicate -- --json <<'END'
! cairn: no command 'frobnicate'; 'cairn help' lists them
END
run cairn --json --config none list
error
expect 2 <<'END'
{"event":"error","exit-code":2,"text":"config file: 'none' does not exist"}
END
run cairn --json cat host/a/latest $'none\xff'
error
expect 1 <<'END'
{"event":"error","exit-code":1,"text":"host/a/2001-01-01T00:00:00Z: no archive 'none\\xff'; there is: a.raw, c.conf"}
END
check 2 cairn --json help <<'END'
! {"event":"error","exit-code":2,"text":"'help' is text only; leave out --json"}
END

# Progress: lines on a pipe, none if not wanted.
progress=1
check 0 cairn restore --overwrite=always host/a/latest a.raw back <<'END'
'back': 1 MiB restored, 1 MiB written
! cairn: restore a.raw 100% 1 MiB of 1 MiB
END
check 0 cairn cat host/a/latest c.conf <<'END'
conf
! cairn: restore c.conf 100% 5 B of 5 B
END
check 0 cairn verify host/a/latest <<'END'
verified 1 snapshot: 2 chunks, 1 MiB read
no damage found
! cairn: verify 100% (1 of 1 snapshot, 2 chunks, 1 MiB read)
END
also='s/(free space: +).*/\1FIGURES/' check 0 cairn gc <<'END'
removed:       0 chunks, 0 B
               nothing is garbage: every chunk is referenced, also those of what was removed
in use:        2 chunks, 1 MiB
referenced by: 1 index file, 1 MiB
deduplication: 1.00
free space:    FIGURES
! cairn: gc: mark 100% (1 of 1 index file read, 2 of 2 references, 0 waiting)
! cairn: gc: sweep 100% (65536 of 65536 directories, 2 chunks kept, 0 removed, 0 pending)
END
for how in '--progress never' --quiet -q; do
	# shellcheck disable=SC2086
	check 0 cairn $how verify host/a <<'END'
verified 1 snapshot: 2 chunks, 1 MiB read
no damage found
END
done
check 0 cairn --quiet --progress always verify host/a <<'END'
verified 1 snapshot: 2 chunks, 1 MiB read
no damage found
! cairn: verify 100% (1 of 1 snapshot, 2 chunks, 1 MiB read)
END
check 0 cairn push --time 2001-01-02T00:00:00Z host/a a.raw=a <<'END'
host/a/2001-01-02T00:00:00Z
  a.raw: 1 MiB in 2 chunks
  new: 0 of 2 chunks, 0 B, stored as 0 B
! cairn: push a.raw 100% 1 MiB of 1 MiB (2 chunks, 0 new chunks, 0 B new, 0 B stored)
END
in=a check 0 cairn push --time 2001-01-03T00:00:00Z host/a a.raw=- <<'END'
host/a/2001-01-03T00:00:00Z
  a.raw: 1 MiB in 2 chunks
  new: 0 of 2 chunks, 0 B, stored as 0 B
! cairn: push a.raw 100% 1 MiB of 1 MiB (2 chunks, 0 new chunks, 0 B new, 0 B stored)
END
check 3 cairn -q restore host/a/latest a.raw back <<'END'
! cairn: warning: 'back' exists and was left alone; --overwrite=changed or always writes it
END
check 0 cairn -q init quiet </dev/null
unset progress

# A live line on a terminal, and nothing of it left behind.
need script
ok script -qec "cairn verify host/a" typescript
grep -q $'\rverify 100% .*\e\\[K' typescript || fail "no live line"
tail -n 1 typescript >last
script -qec "cairn -q verify host/a" typescript >/dev/null </dev/null
! grep -q '100%' typescript || fail "a live line though quiet"

# What a store of somebody else may hold drives no terminal.
cp -a store odd
mv odd/host/a "odd/host/a b"
check 0 cairn -d ./odd groups </dev/null
mv "odd/host/a b" odd/host/a
printf 'evil\e[31m@pam\n' >odd/host/a/owner
check 0 cairn -d ./odd groups <<'END'
GROUP   SNAPSHOTS  UNFINISHED  LATEST                OWNER
host/a          3           0  2001-01-03T00:00:00Z  evil\x1b[31m@pam
END
mv odd $'odd\e[31m'
check 1 cairn -d $'./odd\e[31m' list host/none <<'END'
! cairn: group 'host/none' does not exist; there is: host/a
END
run cairn -d $'./odd\e[31m' status
! grep -q $'\e' "$out" || fail "an escape code in the status"
run cairn -d $'./odd\e[31m/\n' list
expect 1 <<'END'
! cairn: datastore './odd?[31m/ ' does not exist; 'cairn init' makes one
END
ok cairn note host/a/latest $'esc\e[31m \\ tab\t\nline two\n'
check 0 cairn note host/a/latest <<'END'
esc\x1b[31m \\ tab\t
line two
END
run cairn note --json host/a/latest
json "$out" 'repr(d["note"])' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
'esc\x1b[31m \\ tab\t\nline two\n'
END
check 0 cairn list host/a <<'END'
SNAPSHOT                      SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/2001-01-01T00:00:00Z  1 MiB      2  ok        -          text
host/a/2001-01-02T00:00:00Z  1 MiB      1  ok        -
host/a/2001-01-03T00:00:00Z  1 MiB      1  ok        -          esc\x1b[31m \\ tab\t
END
ok cairn note host/a/latest ''
check 0 cairn note host/a/latest </dev/null
printf x >$'x\e[31m\n\xff'
check 2 cairn inspect $'x\e[31m\n\xff' <<'END'
file             x\x1b[31m\n\xff
! cairn: 'x\x1b[31m\n\xff' is no index, blob or chunk: neither its first bytes nor its name are those of one
END
check 1 cairn inspect $'none\e[31m\n\xff' <<'END'
! cairn: 'none\x1b[31m\n\xff': No such file or directory
END
check 0 cairn restore host/a/latest a.raw $'target\e[31m\n\xff' <<'END'
'target\x1b[31m\n\xff': 1 MiB restored, 1 MiB written
END
check 3 cairn restore host/a/latest a.raw $'target\e[31m\n\xff' <<'END'
! cairn: warning: 'target\x1b[31m\n\xff' exists and was left alone; --overwrite=changed or always writes it
END
touch $'c1 \xc2\x9b31m'
check 2 cairn inspect $'c1 \xc2\x9b31m' <<'END'
file             c1 \xc2\x9b31m
! cairn: 'c1 \xc2\x9b31m' is no index, blob or chunk: neither its first bytes nor its name are those of one
END
check 1 cairn push host/a a.raw=$'none\e[31m\n\xff' <<'END'
! cairn: 'none\x1b[31m\n\xff': No such file or directory
END
sound store

# Colours on a terminal only, and not where they are not wanted.
on_terminal() {
	python3 - "$@" <<'END'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
got = b""
try:
    while piece := os.read(fd, 4096):
        got += piece
except OSError:
    pass
os.waitpid(pid, 0)
print(ascii(got.decode()))
END
}
check 0 on_terminal env TERM=xterm cairn -d ./nowhere list <<'END'
"\x1b[1;31mcairn:\x1b[0m datastore './nowhere' does not exist; 'cairn init' makes one\r\n"
END
for plain in NO_COLOR=1 TERM=dumb; do
	check 0 on_terminal env TERM=xterm $plain cairn -d ./nowhere list <<'END'
"cairn: datastore './nowhere' does not exist; 'cairn init' makes one\r\n"
END
done
