#!/usr/bin/env bash
# words: calls that are banned everywhere, system calls that must go through
# sysio (the seam where tests make them fail), and words left behind.
. "$(dirname "$0")/lib.sh"

# No bound on what they write, no error they could report, or state shared by
# all threads.
banned='strcpy|stpcpy|strcat|sprintf|vsprintf|strncpy|strncat|strtok|gets|atoi
atol|atoll|atof|rand|srand|random|system|popen|alloca|strerror|localtime
gmtime|ctime|asctime|mktemp|tmpnam|tempnam|tmpfile|signal|bzero|bcopy'

# Calls on files, clocks and locks, also those that sysio does not offer yet:
# it gets them when they are needed.
seam='open|open64|openat|openat2|creat|close|poll|ppoll|select|read|readv|pread|preadv|write
writev|pwrite|pwritev|lseek|truncate|ftruncate|fallocate|posix_fallocate|fsync
fdatasync|sync|syncfs|sync_file_range|chown|lchown|fchown|fchownat|chmod|fchmod
fchmodat|stat|lstat|fstat|fstatat|statx|access|faccessat|utime|utimes|futimes
futimens|utimensat|rename|renameat|renameat2|link|linkat|symlink|symlinkat
unlink|unlinkat|remove|rmdir|mkdir|mkdirat|mknod|mknodat|mkfifo|mkfifoat
readlink|readlinkat|opendir|fdopendir|readdir|readdir_r|closedir|rewinddir
scandir|ftw|nftw|fcntl|flock|lockf|statfs|fstatfs|statvfs|fstatvfs|ioctl
copy_file_range|sendfile|splice|clock_gettime|clock_nanosleep|gettimeofday
time|nanosleep|sleep|usleep|getrandom|getentropy|mkstemp|mkostemp|mkdtemp
fopen|fdopen|freopen|poll|ppoll|select|pselect'

# FILE CALL: WHY.  One that is not needed any more is a finding too.
allowed='
datastore/base/lockfile.c clock_gettime: a deadline of pthread_cond_timedwait
cli/push_source.c fcntl: standard input, duplicated, so that every source is closed alike
'

join() { printf '%s' "$1" | tr '\n' '|'; }

# calls FILE WORDS: "LINE CALL" for each call of one of the words.
calls() {
	code "$1" | perl -ne '
		while (/(?<![\w.>])('"$(join "$2")"')\s*\(/g) {
			print "$. $1\n";
		}'
}

used=
for file in $(list '*.c' '*.h'); do
	while read -r line call; do
		complain "$file:$line: '$call' is banned"
	done < <(calls "$file" "$banned")
	case $file in tests/* | datastore/base/sysio.[ch]) continue ;; esac
	while read -r line call; do
		if [[ $allowed == *"
$file $call: "* ]]; then
			used="$used$file $call: "
		else
			complain "$file:$line: '$call' must go through sysio"
		fi
	done < <(calls "$file" "$seam")
done

while IFS= read -r entry; do
	[ -z "$entry" ] || [[ $used == *"${entry%%: *}: "* ]] ||
		complain "exception without use: ${entry%%: *}"
done <<<"$allowed"

# The letters in brackets keep this file from finding itself.
while IFS= read -r hit; do
	complain "left behind: $hit"
done < <(list '*' | grep -vE '^tests/(golden|fuzz/corpus)/' | tr '\n' '\0' |
	xargs -0 grep -nIE '\b(TOD[O]|FIXM[E]|XX[X])\b|/[w]ork/|\.\./[s]hared' ||
	true)
verdict
