#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reader: a second pair of eyes on a datastore, for the end-to-end tests.

Written from the description of the format alone; it shares no line with the
program that it checks, and needs nothing but Python's standard library (and
the zstd program where Python has no module for it).

    reader.py check STORE                      everything; exit 1 if anything is wrong
    reader.py restore STORE SNAPSHOT FILE TARGET
                                               FILE as stored: root.img.fidx
    reader.py garbage STORE                    digests that no index references

SNAPSHOT is a path below the store, as host/web1/2026-11-30T12:00:00Z.
"""

import datetime
import hashlib
import json
import os
import re
import stat
import struct
import subprocess
import sys
import tempfile
import zlib

MIB = 1 << 20
CHUNK_MAX = 16 * MIB
BLOB_MAX = 128 * MIB
HEADER = 4096
TYPES = ("ct", "host", "vm")
MANIFEST = "index.json.blob"
CLIENT_LOG = "client.log.blob"
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
AMONG_CHUNKS = re.compile(
    r"[0-9a-f]{64}(\.[0-9]\.bad|\.tmp_[A-Za-z0-9]{6}|\.tmp|\.using)?\Z")


def magic(label):
    """A magic number is the beginning of the digest of its description."""
    return hashlib.sha256(("Proxmox Backup " + label).encode()).digest()[:8]


PLAIN = magic("uncompressed blob v1.0")
ZSTD = magic("zstd compressed blob v1.0")
ENCRYPTED = magic("encrypted blob v1.0")
ZSTD_ENCRYPTED = magic("zstd compressed encrypted blob v1.0")
FIXED = magic("fixed sized chunk index v1.0")
DYNAMIC = magic("dynamic sized chunk index v1.0")


class Wrong(Exception):
    """What was read breaks a rule of the format."""


def zstd_decode(frame, limit):
    """The frame's content; wrong if it is longer than limit."""
    try:
        from compression import zstd  # Python 3.14
        content = zstd.decompress(frame)
    except ImportError:
        with tempfile.TemporaryFile() as f:
            f.write(frame)
            f.seek(0)
            with subprocess.Popen(["zstd", "-dcq"], stdin=f,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as p:
                content = p.stdout.read(limit + 1)
                if len(content) > limit:
                    p.kill()
        if p.returncode != 0 and len(content) <= limit:
            raise Wrong("zstd does not decode it")
    if len(content) > limit:
        raise Wrong("decodes to more than %d bytes" % limit)
    return content


def blob_decode(raw, limit):
    """(content, None) of a plain blob, (None, length or None) of another."""
    if len(raw) < 12:
        raise Wrong("%d bytes are no blob" % len(raw))
    kind = raw[:8]
    start = 44 if kind in (ENCRYPTED, ZSTD_ENCRYPTED) else 12
    if kind not in (PLAIN, ZSTD, ENCRYPTED, ZSTD_ENCRYPTED):
        raise Wrong("unknown magic %s" % kind.hex())
    if len(raw) < start:
        raise Wrong("%d bytes are no encrypted blob" % len(raw))
    data = raw[start:]
    if zlib.crc32(data) != struct.unpack("<I", raw[8:12])[0]:
        raise Wrong("CRC does not match")
    if kind == ZSTD:
        return zstd_decode(data, limit), None
    if kind == PLAIN:
        if len(data) > limit:
            raise Wrong("%d bytes, more than %d" % (len(data), limit))
        return data, None
    return None, len(data) if kind == ENCRYPTED else None


def read_file(path):
    """Leaves no access time behind: a test may look at it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOATIME)
    except PermissionError:
        fd = os.open(path, os.O_RDONLY)
    with open(fd, "rb") as f:
        return f.read()


class Index:
    """A .fidx or .didx: what it covers, in which pieces."""

    def __init__(self, path):
        raw = read_file(path)
        if len(raw) < HEADER:
            raise Wrong("%d bytes, shorter than the header" % len(raw))
        body = raw[HEADER:]
        self.csum = hashlib.sha256(body).hexdigest()
        self.entries = []  # (start, end, digest)
        if path.endswith(".fidx"):
            self._fixed(raw, body)
        else:
            self._dynamic(raw, body)
        if raw[32:64].hex() != self.csum:
            raise Wrong("checksum of the header is not that of the entries")

    def _fixed(self, raw, body):
        if raw[:8] != FIXED:
            raise Wrong("no fixed index by its magic")
        self.size, piece = struct.unpack("<QQ", raw[64:80])
        if piece == 0 or piece & (piece - 1):
            raise Wrong("chunk size %d is no power of two" % piece)
        count = -(-self.size // piece)
        if count < 1 or len(body) != 32 * count:
            raise Wrong("%d bytes of digests for %d chunks"
                        % (len(body), count))
        if any(raw[80:HEADER]):
            raise Wrong("the rest of the header is not zero")
        for i in range(count):
            self.entries.append((i * piece, min((i + 1) * piece, self.size),
                                 body[32 * i:32 * i + 32].hex()))

    def _dynamic(self, raw, body):
        if raw[:8] != DYNAMIC:
            raise Wrong("no dynamic index by its magic")
        if len(body) % 40:
            raise Wrong("%d bytes of entries are no multiple of 40"
                        % len(body))
        if any(raw[64:HEADER]):
            raise Wrong("the rest of the header is not zero")
        start = 0
        for i in range(0, len(body), 40):
            end = struct.unpack("<Q", body[i:i + 8])[0]
            if end <= start:
                raise Wrong("ends do not rise: %d behind %d" % (end, start))
            self.entries.append((start, end, body[i + 8:i + 40].hex()))
            start = end
        self.size = start


class Store:
    def __init__(self, path):
        self.path = path
        self.problems = []
        self.chunks = {}  # digest: (length or None, encrypted); bad: None
        self.referenced = set()
        self.snapshots = 0
        self.unfinished = 0
        self.indexes = 0

    def wrong(self, path, what):
        self.problems.append("%s: %s" % (path, what))

    def below(self, *names):
        return os.path.join(self.path, *names)

    def names(self, *where):
        try:
            return sorted(os.listdir(self.below(*where)))
        except FileNotFoundError:
            return []

    def is_dir(self, *where):
        """A real one: a link would hide what is behind it."""
        mode = os.lstat(self.below(*where)).st_mode
        if stat.S_ISLNK(mode):
            self.wrong(os.path.join(*where), "is a symbolic link")
        return stat.S_ISDIR(mode)

    def chunk_path(self, digest):
        return self.below(".chunks", digest[:4], digest)

    def load(self, digest):
        raw = read_file(self.chunk_path(digest))
        return blob_decode(raw, CHUNK_MAX)

    # Chunks

    def check_chunks(self):
        for prefix in self.names(".chunks"):
            if not re.match(r"[0-9a-f]{4}\Z", prefix):
                self.wrong(".chunks/" + prefix, "is no prefix directory")
                continue
            if not self.is_dir(".chunks", prefix):
                self.wrong(".chunks/" + prefix, "is no directory")
                continue
            for name in self.names(".chunks", prefix):
                self.check_chunk(prefix, name)

    def check_chunk(self, prefix, name):
        shown = ".chunks/%s/%s" % (prefix, name)
        if not AMONG_CHUNKS.match(name):
            self.wrong(shown, "does not belong among the chunks")
        elif name[:4] != prefix:
            self.wrong(shown, "lies in the wrong directory")
        if not DIGEST.match(name):
            return
        try:
            content, length = self.load(name)
            if content is not None:
                length = len(content)
                if hashlib.sha256(content).hexdigest() != name:
                    raise Wrong("the content's digest is another one")
                if length == 0:
                    raise Wrong("an empty chunk")
            self.chunks[name] = (length, content is None)
        except (Wrong, OSError) as e:
            self.wrong(shown, e)
            self.chunks[name] = None

    # Snapshots

    def walk(self):
        """Each snapshot directory, as its path below the store."""
        todo = [()]
        while todo:
            ns = todo.pop(0)
            for name in self.names(*ns, "ns"):
                if SAFE.match(name) and self.is_dir(*ns, "ns", name):
                    todo.append(ns + ("ns", name))
            for kind in TYPES:
                for group in self.names(*ns, kind):
                    if SAFE.match(group) and self.is_dir(*ns, kind, group):
                        yield from self.walk_group(ns + (kind, group))

    def walk_group(self, group):
        times = [
            time
            for time in self.names(*group)
            if TIME.match(time) and self.is_dir(*group, time)
        ]
        # A push that was killed at its beginning may leave an empty group,
        # which the next one completes.
        if times and "owner" not in self.names(*group):
            self.wrong("/".join(group), "has no owner")
        for time in times:
            yield "/".join(group + (time,))

    def check_snapshot(self, snapshot):
        names = self.names(snapshot)
        archives = [n for n in names if n.endswith((".fidx", ".didx"))]
        self.snapshots += 1
        if MANIFEST not in names:
            # Its indexes count, as for a garbage collection.
            self.unfinished += 1
            for name in archives:
                self.check_index(snapshot, name, None)
            return
        shown = snapshot + "/" + MANIFEST
        try:
            files = self.manifest(snapshot)
        except (Wrong, OSError, ValueError, KeyError, TypeError) as e:
            self.wrong(shown, "%s: %s" % (type(e).__name__, e))
            return
        for name, entry in files.items():
            if name.endswith(".blob"):
                self.check_blob(snapshot, name, entry)
            else:
                self.check_index(snapshot, name, entry)
        for name in names:
            if name.endswith((".fidx", ".didx", ".blob")) and \
                    name not in files and name not in (MANIFEST, CLIENT_LOG):
                self.wrong(snapshot + "/" + name, "is not in the manifest")
            elif ".tmp" in name:
                self.wrong(snapshot + "/" + name, "was left behind")

    def manifest(self, snapshot):
        content, _ = blob_decode(
            read_file(self.below(snapshot, MANIFEST)), BLOB_MAX)
        if content is None:
            raise Wrong("is encrypted")
        doc = json.loads(content.decode())
        kind, group, time = snapshot.split("/")[-3:]
        epoch = datetime.datetime.fromtimestamp(
            doc["backup-time"], datetime.timezone.utc)
        if (doc["backup-type"], doc["backup-id"],
                epoch.strftime("%Y-%m-%dT%H:%M:%SZ")) != (kind, group, time):
            raise Wrong("is of another snapshot")
        files = {}
        for entry in doc["files"]:
            name = entry["filename"]
            if not SAFE.match(name) or name in files or \
                    not name.endswith((".fidx", ".didx", ".blob")):
                raise Wrong("lists %r" % name)
            files[name] = entry
        return files

    def check_listed(self, shown, entry, size, csum):
        if entry["size"] != size:
            self.wrong(shown, "%d bytes, %d in the manifest"
                       % (size, entry["size"]))
        if entry["csum"] != csum:
            self.wrong(shown, "checksum is not that of the manifest")

    def check_blob(self, snapshot, name, entry):
        shown = snapshot + "/" + name
        try:
            raw = read_file(self.below(snapshot, name))
            content, _ = blob_decode(raw, BLOB_MAX)
        except (Wrong, OSError) as e:
            self.wrong(shown, e)
            return
        self.check_listed(
            shown, entry, len(raw), hashlib.sha256(raw).hexdigest())
        if (content is None) != (entry.get("crypt-mode") == "encrypt"):
            self.wrong(shown, "crypt-mode is not what the manifest says")

    def check_index(self, snapshot, name, entry):
        shown = snapshot + "/" + name
        self.indexes += 1
        try:
            index = Index(self.below(snapshot, name))
        except (Wrong, OSError) as e:
            self.wrong(shown, e)
            return
        if entry is not None:
            self.check_listed(shown, entry, index.size, index.csum)
        for start, end, digest in index.entries:
            self.referenced.add(digest)
            chunk = self.chunks.get(digest, "missing")
            if chunk == "missing":
                self.wrong(shown, "chunk %s at %d is missing"
                           % (digest, start))
            elif chunk is None:
                self.wrong(shown, "chunk %s at %d is bad" % (digest, start))
            elif chunk[0] not in (None, end - start):
                self.wrong(shown, "chunk %s at %d has %d bytes, want %d"
                           % (digest, start, chunk[0], end - start))
            elif entry is not None and \
                    chunk[1] != (entry.get("crypt-mode") == "encrypt"):
                self.wrong(shown, "chunk %s at %d: wrong crypt-mode"
                           % (digest, start))

    def check(self):
        self.check_chunks()
        for snapshot in self.walk():
            self.check_snapshot(snapshot)

    def restore(self, snapshot, name, target):
        entry = self.manifest(snapshot)[name]
        with open(target, "wb") as out:
            if name.endswith(".blob"):
                out.write(blob_decode(
                    read_file(self.below(snapshot, name)), BLOB_MAX)[0])
                return
            index = Index(self.below(snapshot, name))
            if index.size != entry["size"] or index.csum != entry["csum"]:
                raise Wrong("'%s' is not what the manifest lists" % name)
            for start, end, digest in index.entries:
                content = self.load(digest)[0]
                if content is None:
                    raise Wrong("chunk %s is encrypted" % digest)
                if len(content) != end - start or \
                        hashlib.sha256(content).hexdigest() != digest:
                    raise Wrong("chunk %s is bad" % digest)
                out.write(content)


def main(argv):
    if len(argv) == 3 and argv[1] in ("check", "garbage"):
        store = Store(argv[2])
        store.check()
        if argv[1] == "garbage":
            for digest in sorted(set(store.chunks) - store.referenced):
                print(digest)
            return 0
        for problem in store.problems:
            print(problem)
        print("%d snapshots (%d unfinished), %d indexes, %d chunks: %s"
              % (store.snapshots, store.unfinished, store.indexes,
                 len(store.chunks),
                 "%d problems" % len(store.problems)
                 if store.problems else "sound"))
        return 1 if store.problems else 0
    if len(argv) == 6 and argv[1] == "restore":
        Store(argv[2]).restore(*argv[3:])
        return 0
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
