/* SPDX-License-Identifier: MIT */
/*
 * commands: the table.  Order is that of `cairn help`.
 */
#include "cli/cmd.h"
#include "cli/command.h"

const struct command_option command_globals[] = {
	{ "datastore", 'd', "PATH|NAME", false,
	    "the datastore: a path with a slash, or a name of the config "
	    "file (also CAIRN_DATASTORE)" },
	{ "config", 0, "FILE", false,
	    "config file (also CAIRN_CONFIG; default /etc/cairn/cairn.conf)" },
	{ "ns", 0, "NAMESPACE", false, "namespace, as in prod/db" },
	{ "json", 0, NULL, false,
	    "one JSON document on stdout, events on stderr" },
	{ "quiet", 'q', NULL, false, "no progress, no notes" },
	{ "verbose", 'v', NULL, false, "say more" },
	{ "progress", 0, "auto|always|never", false,
	    "progress on a terminal or as lines; always: also with --quiet" },
};
const size_t command_globals_n =
    sizeof(command_globals) / sizeof(command_globals[0]);

static const struct command_option init_options[] = {
	{ "pbs-layout", 0, NULL, false,
	    "make all 65,536 prefix directories now, as PBS wants them" },
};

static const struct command_option push_options[] = {
	{ "time", 0, "TIME", false,
	    "the snapshot's time, as 2026-11-30T12:00:00Z (default: now)" },
	{ "command", 0, "SHELL-COMMAND", false,
	    "store what this prints as the archive named without =SOURCE" },
	{ "chunk-size", 0, "SIZE", false,
	    "fixed or average size of chunks, 64K to 4M (default 1M)" },
	{ "level", 0, "N", false, "zstd level of new chunks, 1 to 19" },
	{ "sync-level", 0, "none|filesystem|file", false,
	    "how chunks are synced before the snapshot is published" },
	{ "note", 0, "TEXT", false, "a note on the snapshot" },
	{ "exclude", 0, "PATTERN", true,
	    "leave out of trees what matches, as in .gitignore" },
	{ "exclude-file", 0, "FILE", true, "the same, one pattern a line" },
	{ "exclude-caches", 0, NULL, false,
	    "of directories with a CACHEDIR.TAG store only that" },
	{ "one-file-system", 0, NULL, false,
	    "do not look into what is mounted below a tree's root" },
	{ "ignore-zeros", 0, NULL, false,
	    "read tars on behind their end: several, one behind another" },
	{ "dry-run", 0, NULL, false,
	    "read everything, say what would be stored, change nothing" },
};

static const struct command_option export_options[] = {
	{ "format", 0, "tar|zip|cpio", false, "what to write (default tar)" },
};

static const struct command_option list_options[] = {
	{ "all", 0, NULL, false, "unfinished snapshots, too" },
};

#define NULL_OPTION                                                         \
	{                                                                   \
		"null", '0', NULL, false,                                   \
		    "end names with a zero byte, and show them as they are" \
	}
#define LONG_OPTION(letter)                                                 \
	{                                                                   \
		"long", letter, NULL, false,                                \
		    "mode, links, owner, group, size, time and target, too" \
	}

static const struct command_option ls_options[] = {
	LONG_OPTION('l'),
	{ "recursive", 'R', NULL, false,
	    "all that is below, as paths from the archive's root" },
	{ "all", 0, NULL, false,
	    "members of a tar, too, that a later one of their name replaced" },
	NULL_OPTION,
};

static const struct command_option find_options[] = {
	{ "type", 0, "f|d|l|p|s|c|b", false,
	    "only files, directories, symbolic links, FIFOs, sockets, devices" },
	LONG_OPTION('l'),
	NULL_OPTION,
};

static const struct command_option du_options[] = {
	{ "depth", 0, "N", false,
	    "directories down to N below PATH (default 1)" },
	NULL_OPTION,
};

static const struct command_option diff_options[] = { NULL_OPTION };

static const struct command_option restore_options[] = {
	{ "overwrite", 0, "never|changed|always", false,
	    "what to do with a target that exists (default: never)" },
	{ "numeric-owner", 0, NULL, false,
	    "owners by their numbers, not by their names" },
	{ "skip-damaged", 0, NULL, false,
	    "of a stream: leave out what is damaged, and name it (exit code "
	    "4)" },
};

static const struct command_option forget_options[] = {
	{ "dry-run", 0, NULL, false,
	    "say what would go and become garbage; change nothing" },
};

static const struct command_option prune_options[] = {
	{ "keep-within", 0, "DURATION", false,
	    "all that are at most this much older than the newest" },
	{ "keep-last", 0, "N", false, "the last N snapshots" },
	{ "keep-hourly", 0, "N", false, "the newest of each of N hours" },
	{ "keep-daily", 0, "N", false, "the newest of each of N days" },
	{ "keep-weekly", 0, "N", false,
	    "the newest of each of N weeks, which begin on Mondays" },
	{ "keep-monthly", 0, "N", false, "the newest of each of N months" },
	{ "keep-yearly", 0, "N", false, "the newest of each of N years" },
	{ "allow-empty", 0, NULL, false,
	    "although no finished snapshot of a group would be left" },
	{ "dry-run", 0, NULL, false,
	    "say what would go and become garbage; change nothing" },
};

static const struct command_option protect_none[1];

static const struct command_option gc_options[] = {
	{ "dry-run", 0, NULL, false,
	    "say what would be removed; change nothing" },
	{ "full", 0, NULL, false,
	    "read all directories, also what the chunk index knows" },
	{ "touch-batch", 0, "N|off", false,
	    "digests per batch of touches, 1024 to 16777216" },
	{ "cutoff", 0, "DURATION", false,
	    "keep chunks this long after their last use (default 24h5m)" },
	{ "ignore", 0, "SNAPSHOT", true,
	    "set a broken snapshot aside: what is unreadable of it is lost" },
	{ "accept-missing", 0, NULL, false,
	    "go on although snapshots vanished that nobody removed, or all "
	    "chunks are missing" },
};

static const struct command_option index_options[] = {
	{ "all", 0, NULL, false,
	    "rebuild: read all directories, also of what is known" },
	{ "files", 0, NULL, false,
	    "check: compare with the directories of chunks" },
};

static const struct command_option history_options[] = {
	{ "kind", 0, "gc|forget|prune|verify|push", false,
	    "only runs of this" },
	{ "since", 0, "TIME|DURATION", false,
	    "only those begun then or later, or at most so long ago" },
	{ "limit", 0, "N", false, "the newest N (default 50)" },
	{ "digests", 0, NULL, false,
	    "each file that RUN, a garbage collection, removed" },
};

#define OPTIONS(o) (o), sizeof(o) / sizeof((o)[0])
#define NO_OPTIONS protect_none, 0

const struct command commands[] = {
	{ "init", "PATH", "make a datastore",
	    "PATH is made if it is missing. A directory that holds anything "
	    "but lost+found\nand names with a leading dot is refused.",
	    OPTIONS(init_options), 1, 1, cmd_init, false },
	{ "push", "GROUP ARCHIVE=SOURCE...", "make a snapshot",
	    "GROUP is host/ID, vm/ID or ct/ID. ARCHIVE says how SOURCE is "
	    "stored:\n"
	    "  NAME.tree  a directory with all that is in it, or an archive "
	    "file (tar,\n             cpio, zip, 7z, ...; compressed or not) "
	    "unpacked\n"
	    "  NAME.tar   a tar as it is, with a list of what is in it\n"
	    "  NAME.img   a disk image or block device, in chunks of fixed "
	    "size\n"
	    "  NAME.raw   any stream\n"
	    "  NAME.conf  a small file, at most 16 MiB\n"
	    "SOURCE - is standard input. Several archives make one snapshot. "
	    "With --command\none archive stands without =SOURCE and gets what "
	    "the command prints; if the\ncommand fails, so does push.\n"
	    "A source that changes while it is read is stored and reported, "
	    "and what can not\nbe read of a tree is left out and reported: "
	    "exit code 3.",
	    OPTIONS(push_options), 2, COMMAND_ARGS_ANY, cmd_push, false },
	{ "list", "[GROUP]", "list snapshots", "Oldest first in each group.",
	    OPTIONS(list_options), 0, 1, cmd_list, true },
	{ "groups", "", "list groups", "", NO_OPTIONS, 0, 0, cmd_groups, true },
	{ "namespaces", "", "list namespaces",
	    "With --ns: that one and those below it. The root is shown as -.",
	    NO_OPTIONS, 0, 0, cmd_namespaces, true },
	{ "files", "SNAPSHOT", "list the archives of a snapshot",
	    "SNAPSHOT is GROUP/TIME, as in host/web1/2026-11-30T12:00:00Z or\n"
	    "host/web1/latest.",
	    NO_OPTIONS, 1, 1, cmd_files, true },
	{ "ls", "SNAPSHOT ARCHIVE [PATH]", "list a directory of an archive",
	    "ARCHIVE is a NAME.tree, or a NAME.tar that has a catalog. Names "
	    "come in the\norder of their bytes; control characters in them are "
	    "quoted, as in \\n.",
	    OPTIONS(ls_options), 2, 3, cmd_ls, true },
	{ "find", "SNAPSHOT PATTERN", "find names in a snapshot",
	    "All archives NAME.tree and NAME.tar are searched; what is found is "
	    "shown as\nARCHIVE:PATH. PATTERN is for the name alone or, with a "
	    "slash in it, for the\nwhole path from the archive's root: * and ? "
	    "match slashes, too, and [a-z]\nbytes of a range; \\ takes the "
	    "meaning from the character behind it. Case\nmatters, and leading "
	    "dots are characters like others.\n"
	    "    cairn find host/web1/latest '*.conf'\n"
	    "    cairn find host/web1/latest 'etc/*/sites-*' --type f",
	    OPTIONS(find_options), 2, 2, cmd_find, true },
	{ "du", "SNAPSHOT ARCHIVE [PATH]", "sizes within an archive",
	    "SIZE is what the files have, STORED is that without holes and each "
	    "content\nonce (before compression), FILES and DIRS are all below. "
	    "A file with several\nnames, and a content, count in the first "
	    "directory they are met in.",
	    OPTIONS(du_options), 2, 3, cmd_du, true },
	{ "diff", "SNAPSHOT SNAPSHOT [ARCHIVE [PATH]]",
	    "what differs between two snapshots",
	    "One line each, from catalogs alone; nothing when there is no "
	    "difference:\n"
	    "  + PATH                   only in the second\n"
	    "  - PATH                   only in the first\n"
	    "  M PATH (content, mtime)  changed in: type, content, target, "
	    "device, mode,\n"
	    "                           owner, mtime, xattrs, flags, links "
	    "(how many)\n"
	    "  R OLD -> NEW (...)       moved: its content went elsewhere, or "
	    "its directory\n"
	    "Without ARCHIVE all are compared, and paths begin with ARCHIVE:. "
	    "Those without\na catalog are compared by their checksum. With "
	    "--null the remark in brackets\nis left out, and a zero byte takes "
	    "the place of the arrow, too.",
	    OPTIONS(diff_options), 2, 4, cmd_diff, true },
	{ "cat", "SNAPSHOT ARCHIVE [PATH]",
	    "write an archive, or a file of it, to standard output",
	    "Every chunk is checked before a byte of it is written. PATH is a "
	    "file of a\nNAME.tree or NAME.tar; its digest is compared at the "
	    "end. Exit code 4: it is\ndamaged.",
	    NO_OPTIONS, 2, 3, cmd_cat, true },
	{ "export", "SNAPSHOT ARCHIVE [PATH]",
	    "write a tree or tar as an archive file to standard output",
	    "All of NAME.tree or NAME.tar, or a path in it. A NAME.tar without "
	    "PATH is given\nas a tar exactly as it was pushed. What the format "
	    "has no place for is left out\nand reported, and so is what is "
	    "damaged: exit code 3.",
	    OPTIONS(export_options), 2, 3, cmd_export, true },
	{ "restore", "SNAPSHOT ARCHIVE TARGET [PATH...]",
	    "give an archive, or files of one, back",
	    "A tree (NAME.tree), or each PATH of a tree or tar with what is "
	    "below it, goes\nto the directory TARGET, which is made if it is "
	    "missing, with owners, modes,\ntimes and all else that this user "
	    "may set. Files that exist are left alone\n(exit code 3) unless "
	    "--overwrite says changed (replace those whose size, time\nor kind "
	    "differ) or always. What is damaged is named and left\nout "
	    "(exit code 3; 4 if it is the one file that was asked for).\n"
	    "Any other archive is written as one file: TARGET is the file's "
	    "name, a\ndirectory (the file is then named ARCHIVE) or a block "
	    "device. A file gets its\nname when it is whole, and is for its "
	    "owner only. An existing one is left\nalone (exit code 3) unless "
	    "--overwrite says changed (write, in place, only what\ndiffers) or "
	    "always. A block device must be large enough and is written only\n"
	    "with always. A damaged one is not restored (exit code 4), but "
	    "with\n--skip-damaged: zeros in a new file where it is damaged; "
	    "what is written in\nplace keeps what it had there.",
	    OPTIONS(restore_options), 3, COMMAND_ARGS_ANY, cmd_restore, true },
	{ "forget", "SNAPSHOT...", "remove snapshots",
	    "Space comes back with the next 'cairn gc'. A protected snapshot, "
	    "or one that\nanybody reads, is refused; the others are removed "
	    "all the same.",
	    OPTIONS(forget_options), 1, COMMAND_ARGS_ANY, cmd_forget, true },
	{ "prune", "[GROUP]", "remove snapshots that no rule keeps",
	    "Each group on its own; without GROUP, all of the namespace. The "
	    "rules are\nthose of the command line, or else the keep- keys of "
	    "the config file. They are\napplied in the order below, each from "
	    "the newest snapshot on; an hour, day,\nweek, month or year of "
	    "which an earlier rule has kept one is not counted again.\nA rule "
	    "of 0 keeps nothing. Days and weeks are those of the datastore's "
	    "time\nzone (key time-zone of the config file; default UTC).\n\n"
	    "Always kept: protected snapshots; the newest of all if it is "
	    "unfinished; those\ndated in the future, and damaged ones (exit "
	    "code 4), which count for\nnothing. Each is listed with a "
	    "reason.\n\n"
	    "Space comes back with the next 'cairn gc'. Exit code 75: a "
	    "snapshot was in use\nand is left for the next time.",
	    OPTIONS(prune_options), 0, 1, cmd_prune, true },
	{ "protect", "SNAPSHOT...", "keep snapshots from being removed", "",
	    NO_OPTIONS, 1, COMMAND_ARGS_ANY, cmd_protect, true },
	{ "unprotect", "SNAPSHOT...", "allow snapshots to be removed", "",
	    NO_OPTIONS, 1, COMMAND_ARGS_ANY, cmd_unprotect, true },
	{ "note", "SNAPSHOT [TEXT]", "show or set the note of a snapshot",
	    "Without TEXT the note is shown; an empty TEXT removes it.",
	    NO_OPTIONS, 1, 2, cmd_note, true },
	{ "gc", "[status]", "collect garbage",
	    "Removes the chunks that no snapshot references and that were last "
	    "used longer\nago than the cutoff. Backups may go on meanwhile. "
	    "'cairn gc status' tells of\nthe last run and of one that is "
	    "running.",
	    OPTIONS(gc_options), 0, 1, cmd_gc, true },
	{ "history", "[RUN]", "what ran: push, gc, forget, prune and verify",
	    "The newest first. With RUN, a number of that list: all that is "
	    "known of it.\nWhat a garbage collection removed, digest by digest, "
	    "is kept for 90 days.",
	    OPTIONS(history_options), 0, 1, cmd_history, true },
	{ "index", "status|check|rebuild", "the index of all chunks",
	    "The index says which chunks there are, so that a garbage "
	    "collection need not\nread all directories. It is a hint: whatever "
	    "happens to it, no backup is hurt.\n'check' reads all of it (exit "
	    "code 3: it is not right); 'rebuild' finds what is\nnot known by "
	    "reading the directories of chunks. Backups may go on meanwhile.",
	    OPTIONS(index_options), 1, 1, cmd_index, true },
	{ "verify", "[GROUP|SNAPSHOT]", "read and check everything again",
	    "Without an argument: the whole datastore (with --ns: that "
	    "namespace). Chunks\nthat are proven bad are renamed to .bad; the "
	    "next push of the same data stores\nthem again. Exit code 4: "
	    "damage was found.",
	    NO_OPTIONS, 0, 1, cmd_verify, true },
	{ "status", "", "space, counts and the last garbage collection", "",
	    NO_OPTIONS, 0, 0, cmd_status, true },
	{ "inspect", "FILE", "explain a chunk, blob, index or manifest file",
	    "FILE is any path; no datastore is needed.", NO_OPTIONS, 1, 1,
	    cmd_inspect, true },
	{ "completion", "bash|zsh|fish",
	    "print a script that completes command lines",
	    "For bash: cairn completion bash > "
	    "/usr/share/bash-completion/completions/cairn\n"
	    "or, in ~/.bashrc: eval \"$(cairn completion bash)\". It is made "
	    "from the table\nthat this help is made from.",
	    NO_OPTIONS, 1, 1, cmd_completion, false },
	{ "version", "", "print the version", "", NO_OPTIONS, 0, 0, cmd_version,
	    false },
	{ "help", "[COMMAND]", "explain a command",
	    "'cairn help exit-codes' explains the exit codes.", NO_OPTIONS, 0,
	    1, cmd_help, false },
};
const size_t commands_n = sizeof(commands) / sizeof(commands[0]);
