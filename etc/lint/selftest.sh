#!/usr/bin/env bash
# selftest: each rule of the lints finds a file that breaks it and leaves a
# sound one alone, in a scratch tree without a checkout.
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
spdx='/* SPDX-License-Identifier: MIT */\n'

# plant FILE TEXT: a tree with the lints and one file; printf reads TEXT.
plant() {
	rm -rf "$tree"
	mkdir -p "$(dirname "$tree/$1")" "$tree/etc/doc"
	cp -r etc/lint "$tree/etc"
	cp .clang-format "$tree"
	# the exceptions name files that are not there
	sed -i "/^allowed='/,/^'/ { /: /d }" "$tree/etc/lint/words.sh"
	printf '%s\n' '## File map' './ x' 'etc/doc/ x' 'etc/lint/ x' gc/ '  a.c x' \
		>"$tree/etc/doc/ARCHITECTURE.md"
	# shellcheck disable=SC2059
	printf "$2" >"$tree/$1"
}

finds() { # LINT FILE TEXT WANT
	local out rc=0
	plant "$2" "$3"
	out=$("$tree/etc/lint/$1.sh" 2>&1) || rc=$?
	[ "$rc" -eq 77 ] && return
	[ "$rc" -eq 1 ] || complain "$1: rc $rc, want 1, on $2: $3"
	[[ $out == *"$4"* ]] || complain "$1: says '$out', want '$4'"
}

passes() { # LINT FILE TEXT
	local out rc=0
	plant "$2" "$3"
	out=$("$tree/etc/lint/$1.sh" 2>&1) || rc=$?
	[ "$rc" -eq 0 ] || [ "$rc" -eq 77 ] ||
		complain "$1: '$out', want no finding, on $2: $3"
}

finds layers datastore/base/a.c '#include "datastore/b.h"\n' 'may not include'
finds layers datastore/a.c '#include "index/b.h"\n' 'may not include'
finds layers gc/a.c '#include "cli/b.h"\n' 'may not include'
finds layers gc/a.c '#include "b.h"\n' 'may not include'
finds layers gc/a.c '#  include <zstd.h>\n' 'belongs in'
finds layers gc/a.c '#include <curl/curl.h>\n' 'belongs in none'
finds layers index/bc.c '#include "index/b_internal.h"\n' 'private header'
passes layers index/b_c.c '#include "index/b_internal.h"\n'
passes layers index/a.c '#include "datastore/base/b.h"\n#include <sys/stat.h>\n'
passes layers tests/unit/a.c '#include "tests/support/b.h"\n#include <zlib.h>\n'

many=$(printf '\\n%.0s' {1..599})
passes lines gc/a.c "$spdx$many"
finds lines gc/a.c "$spdx$many\\n" '601 lines'
finds lines gc/a.c 'int a;\n' 'no SPDX line'
finds lines gc/a.h "$spdx#ifndef A_H\n#define A_H\n#endif\n" 'CAIRN_GC_A_H'
passes lines gc/a.h "$spdx#ifndef CAIRN_GC_A_H\n#define CAIRN_GC_A_H\n#endif\n"

finds words tests/a.c 'x = strcpy (a, b);\n' "'strcpy' is banned"
finds words gc/a.c '\n/* */ n = read(fd, p, 1);\n' "gc/a.c:2: 'read'"
passes words gc/a.c 'n = sysio_read(a) + f("read(") + t->read(x); /* read() */\n'
passes words tests/a.c 'n = read(fd, p, 1);\n'
passes words datastore/base/sysio.c 'n = read(fd, p, 1);\n'
finds words gc/a.c '/* TOD''O: more */\n' 'left behind'

finds format gc/a.c 'int  a;\n' 'gc/a.c'
passes format gc/a.c 'int a;\n'
# shellcheck disable=SC2016
finds shellcheck gc/a '#!/bin/sh\nrm $1\n' SC2086
finds spelling gc/a.c '/* rec''ieve */\n' receive

# shellcheck disable=SC2016
{
	passes testnames README.md '`lint_lines`, `lint_lines: complain, list`\n'
	finds testnames README.md 'It is so (`test_gone`).\n' 'no such test: test_gone'
	finds testnames README.md '(`lint_lines:\nno_such_case`)\n' "no case 'no_such_case'"
	finds testnames etc/doc/gc-safety.md 'the mutants `a` and\n`b`\n' 'mutant: b'
	finds testnames tests/mutants/c.patch 'x\n' 'not name the mutant c'
	passes testnames README.md '[lines](etc/lint/lines.sh), [web](https://a.org/)\n'
	finds testnames README.md '[lines](etc/lint/line.sh)\n' 'no such file'
	finds testnames README.md '`etc/lint/line.sh`\n' 'no such file'
}

passes filemap gc/a.c 'int a;\n'
finds filemap gc/b.c 'int a;\n' 'no line for gc/b.c'
finds filemap gc/b.c 'int a;\n' 'names gc/a.c'
finds filemap gc/a.h 'int a;\n' 'no line for gc/a.h'
finds filemap tests/unit/b.c 'int a;\n' 'no line for tests/unit/'
verdict
