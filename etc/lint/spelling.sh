#!/usr/bin/env bash
# spelling: common misspellings, by codespell.  spelling.txt holds the words
# that are right here.
. "$(dirname "$0")/lib.sh"

need codespell
list '*' | grep -vE '^tests/(golden|fuzz/corpus)/' | tr '\n' '\0' |
	xargs -0r codespell -I etc/lint/spelling.txt || bad=1
verdict
