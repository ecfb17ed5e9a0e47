#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stress.py: many of everything at once, for as long as one likes.

Workers push archives of every kind, prune, forget, verify, read and collect
garbage without a margin, in one store, at random.  Some of them are killed,
some are stopped for a while and go on.  What each push was given is known, so
that at any time a snapshot that is listed can be compared: it gives back
exactly that, or the run has failed.  The last lines say what was done.

What is pushed is composed of a small pool of blocks, so that snapshots share
chunks, garbage comes back into use, and the chunk that a push finds there may
be one that a garbage collection is about to remove.
"""

import argparse
import datetime
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BLOCK = 64 * 1024
POOL = 160
IMAGES = 40
IMAGE_BLOCKS = 32
GROUPS = ["host/a", "host/b", "vm/100", "ct/7"]
BATCHES = ["1024", "2000", "65536", "1048576", "off"]
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

# Exit codes that are no failure: done, busy, ended by the signals sent here.
FINE = {0, 75, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143}


class Failed(Exception):
    """The store, or the program, is not as it has to be."""


def digest(data):
    return hashlib.sha256(data).hexdigest()


def digest_file(path):
    sha = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            sha.update(piece)
    return sha.hexdigest()


def digest_tree(top):
    """Names and contents of all files."""
    lines = []
    for directory, names, files in os.walk(top):
        names.sort()
        for name in sorted(files):
            path = os.path.join(directory, name)
            lines.append(f"{os.path.relpath(path, top)} {digest_file(path)}")
    return digest("\n".join(sorted(lines)).encode())


class Stress:
    def __init__(self, opts, top):
        self.opts = opts
        self.top = top
        self.store = os.path.join(top, "store")
        self.lock = threading.Lock()
        self.seconds = 0
        self.pushed = {}  # snapshot: {archive: digest}
        self.counts = {}
        self.failed = []
        self.stop = threading.Event()
        self.env = dict(os.environ)
        if opts.preload:
            self.env["LD_PRELOAD"] = os.path.abspath(opts.preload)
        rng = random.Random(opts.seed)
        self.pool = [rng.randbytes(BLOCK) for _ in range(POOL)]
        # These share nothing: forgotten, they are garbage, until next time.
        self.images = [rng.randbytes(IMAGE_BLOCKS * BLOCK) for _ in range(IMAGES)]

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def next_time(self):
        with self.lock:
            self.seconds += 1
            at = EPOCH + datetime.timedelta(seconds=self.seconds)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def start(self, *args):
        return subprocess.Popen(
            [self.opts.cairn, "-d", self.store, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
        )

    def run(self, *args, fine=(0,)):
        p = self.start(*args)
        out, err = p.communicate()
        if p.returncode not in fine:
            raise Failed(
                f"{' '.join(args)}: exit code {p.returncode}\n"
                f"{out.decode(errors='replace')[-2000:]}"
                f"{err.decode(errors='replace')[-2000:]}"
            )
        return p.returncode, out, err

    def disturbed(self, rng, *args):
        """Run it; perhaps it is killed, or stopped for a while."""
        p = self.start(*args)
        what = rng.random()
        delay = rng.choice([0.005, 0.02, 0.05, 0.1, 0.3, 1.0]) * rng.random()
        if what < 0.25:
            time.sleep(delay)
            number = rng.choice(
                [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
            )
            p.send_signal(number)
            self.count("killed")
        elif what < 0.45:
            time.sleep(delay)
            p.send_signal(signal.SIGSTOP)
            time.sleep(rng.choice([0.05, 0.3, 1.0, 4.0, 9.0]) * rng.random())
            p.send_signal(signal.SIGCONT)
            self.count("stopped for a while")
        try:
            out, err = p.communicate(timeout=180)
        except subprocess.TimeoutExpired as e:
            p.kill()
            out, err = p.communicate()
            raise Failed(
                f"{' '.join(args)}: hangs\n{err.decode(errors='replace')}"
            ) from e
        gone = p.returncode == 1 and b"does not exist" in err
        if p.returncode not in FINE and not gone:
            raise Failed(
                f"{' '.join(args)}: exit code {p.returncode}\n"
                f"{out.decode(errors='replace')[-2000:]}"
                f"{err.decode(errors='replace')[-2000:]}"
            )
        self.count(f"{args[0]}: exit code {p.returncode}")
        return p.returncode, out

    def some_bytes(self, rng, blocks):
        first = rng.randrange(POOL)
        parts = []
        for i in range(blocks):
            # Runs, as a disk has them, with changes between.
            at = first + i if rng.random() < 0.8 else rng.randrange(POOL)
            parts.append(self.pool[at % POOL])
        return b"".join(parts)

    def make_tree(self, rng, top):
        os.mkdir(top)
        for d in range(rng.randrange(1, 4)):
            os.mkdir(os.path.join(top, f"dir{d}"))
            for f in range(rng.randrange(1, 12)):
                data = self.some_bytes(rng, rng.randrange(0, 5))
                data += rng.randbytes(rng.randrange(0, 300))
                with open(os.path.join(top, f"dir{d}", f"file{f}"), "wb") as to:
                    to.write(data)

    def make_archive(self, rng, where):
        """An argument for push, the archive's name, and what comes back."""
        kind = rng.choice(["img"] * 6 + ["raw", "tree", "tree", "tar", "conf"])
        path = os.path.join(where, f"source.{kind}")
        if kind in ("img", "raw", "conf"):
            data = self.some_bytes(rng, rng.randrange(1, 24))
            if kind == "img" and rng.random() < 0.8:
                data = rng.choice(self.images)
            if kind == "raw":
                data += rng.randbytes(rng.randrange(0, 5000))
            elif kind == "conf":
                data = data[: rng.randrange(1, 5000)]
            with open(path, "wb") as f:
                f.write(data)
            want = digest(data)
        else:
            tree = path if kind == "tree" else path + ".d"
            self.make_tree(rng, tree)
            want = digest_tree(tree)
            if kind == "tar":
                subprocess.run(
                    ["tar", "-C", tree, "-cf", path, "."], check=True
                )
                want = digest_file(path)
        return f"a.{kind}={path}", f"a.{kind}", want

    def push(self, rng):
        where = tempfile.mkdtemp(dir=self.top, prefix="push-")
        try:
            arg, archive, want = self.make_archive(rng, where)
            group = rng.choice(GROUPS)
            at = self.next_time()
            snapshot = f"{group}/{at}"
            with self.lock:
                self.pushed[snapshot] = (archive, want)
            options = ["--time", at, "--sync-level", "none"]
            if not archive.endswith(".conf"):
                options += ["--chunk-size", "64K"]
            if archive == "a.raw" and rng.random() < 0.5:
                # One that takes its time.
                source = arg.split("=", 1)[1]
                command = f"cat {source}; sleep {rng.uniform(0, 15):.1f}"
                options += ["--command", command]
                arg = archive
            code, _ = self.disturbed(rng, "push", *options, group, arg)
            if code == 0:
                self.count("pushed")
        finally:
            shutil.rmtree(where, ignore_errors=True)

    def listed(self):
        _, out, _ = self.run("list", "--json")
        return [
            f"{s['backup-type']}/{s['backup-id']}/{s['time']}"
            for s in json.loads(out)
            if s["finished"]
        ]

    def compare(self, snapshot, gone_is_fine):
        """Restore it; False if it is gone meanwhile."""
        archive, want = self.pushed[snapshot]
        where = tempfile.mkdtemp(dir=self.top, prefix="back-")
        target = os.path.join(where, "back")
        try:
            fine = (0, 1, 75) if gone_is_fine else (0,)
            code, _, err = self.run(
                "restore", snapshot, archive, target, fine=fine
            )
            if code != 0:
                if code == 1 and snapshot in self.listed():
                    raise Failed(f"restore {snapshot}: {err.decode()}")
                return False
            got = (
                digest_tree(target)
                if os.path.isdir(target)
                else digest_file(target)
            )
            if got != want:
                raise Failed(f"{snapshot} {archive}: other content came back")
            self.count("compared")
            return True
        finally:
            shutil.rmtree(where, ignore_errors=True)

    def look(self, rng):
        there = self.listed()
        for snapshot in rng.sample(there, min(3, len(there))):
            self.compare(snapshot, True)

    def forget(self, rng):
        there = self.listed()
        if there:
            some = rng.sample(there, min(len(there), rng.randrange(1, 4)))
            # Gone meanwhile is an error of its own; the code is 1 then.
            p = self.start("forget", *some)
            if rng.random() < 0.2:
                time.sleep(0.05 * rng.random())
                p.kill()
            _, err = p.communicate(timeout=180)
            if p.returncode not in FINE | {1}:
                raise Failed(f"forget: {p.returncode} {err.decode()}")
            self.count(f"forget: exit code {p.returncode}")

    def prune(self, rng):
        self.disturbed(
            rng, "prune", rng.choice(GROUPS), "--keep-last",
            str(rng.randrange(1, 5)),
        )

    def verify(self, rng):
        self.disturbed(rng, "verify", rng.choice(GROUPS))

    def gc(self, rng):
        self.spoil(rng)
        code, _ = self.disturbed(
            rng, "gc", "--cutoff", rng.choice(["0", "5s", "5s"]),
            *rng.choice([[], [], [], ["--full"]]),
            "--touch-batch", rng.choice(BATCHES),
        )
        if code == 0:
            with open(os.path.join(self.store, ".cairn", "gc.last")) as f:
                if json.load(f)["by-index"]:
                    self.count("gc: by the chunk index")
            self.look(rng)

    def spoil(self, rng):
        """The chunk index is a hint: whatever becomes of its files."""
        top = os.path.join(self.store, ".cairn", "index")
        runs = os.path.join(top, "runs")
        what = rng.random()
        try:
            # What a killed push left makes the next collection read all
            # directories: most are to go by the index.
            if what < 0.8:
                for name in os.listdir(runs):
                    if name.startswith(".tmp_"):
                        os.unlink(os.path.join(runs, name))
                self.count("spoil: forgot what was killed")
                return
            files = [os.path.join(d, n) for d, _, ns in os.walk(top) for n in ns]
            path = rng.choice([f for f in files if not f.endswith("/lock")])
            size = os.path.getsize(path)
            if what < 0.9 and size > 0:
                with open(path, "r+b") as f:
                    f.seek(rng.randrange(size))
                    f.write(rng.randbytes(1))
            elif what < 0.94:
                os.truncate(path, rng.randrange(size + 1))
            elif what < 0.97:
                os.unlink(path)
            else:
                other = rng.choice(files)
                if not other.endswith("/lock"):
                    shutil.copyfile(other, path)
            self.count("spoil: a file of the index")
        except (FileNotFoundError, IndexError, shutil.SameFileError):
            pass

    def worker(self, number):
        rng = random.Random(f"{self.opts.seed}/{number}")
        does = {
            "push": (self.push, 12),
            "look": (self.look, 3),
            "forget": (self.forget, 3),
            "prune": (self.prune, 2),
            "verify": (self.verify, 1),
        }
        names = list(does)
        weights = [does[n][1] for n in names]
        while not self.stop.is_set():
            name = rng.choices(names, weights)[0]
            # One of them collects garbage again and again.
            does_it = self.gc if number == 0 else does[name][0]
            try:
                does_it(rng)
            except Exception as e:  # pylint: disable=broad-except
                with self.lock:
                    self.failed.append(f"{name}: {e}")
                self.stop.set()

    def finish(self):
        """Nobody runs any more: everything there is whole."""
        there = self.listed()
        for snapshot in there:
            self.compare(snapshot, False)
        self.run("verify")
        self.run("gc", "--cutoff", "0", "-q")
        if sorted(self.listed()) != sorted(there):
            raise Failed("a garbage collection changed the list")
        for snapshot in there:
            self.compare(snapshot, False)
        # Who is killed before he has a name leaves a temporary file.
        left = [
            name
            for name in os.listdir(os.path.join(self.store, ".cairn/sessions"))
            if not name.startswith(".")
        ]
        if left:
            raise Failed(f"registrations are left: {left}")
        return len(there)

    def go(self):
        subprocess.run(
            [self.opts.cairn, "init", "-q", self.store],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        workers = [
            threading.Thread(target=self.worker, args=(n,))
            for n in range(self.opts.workers)
        ]
        for w in workers:
            w.start()
        self.stop.wait(self.opts.seconds)
        self.stop.set()
        for w in workers:
            w.join()
        whole = 0
        if not self.failed:
            try:
                whole = self.finish()
            except Failed as e:
                self.failed.append(str(e))
        for what in sorted(self.counts):
            print(f"stress: {what}: {self.counts[what]}")
        print(f"stress: whole at the end: {whole}")
        for f in self.failed:
            print(f"stress: FAILED: {f}")
        return 1 if self.failed else 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cairn", default="cairn", help="the program")
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--dir", help="where (default: TMPDIR)")
    p.add_argument("--preload", help="a library, as slow.c makes one")
    p.add_argument("--keep", action="store_true", help="keep what failed")
    opts = p.parse_args()
    opts.cairn = shutil.which(opts.cairn) or sys.exit("stress: no cairn")
    opts.cairn = os.path.abspath(opts.cairn)
    for name in ("CAIRN_DATASTORE", "CAIRN_CONFIG"):
        os.environ.pop(name, None)
    print(f"stress: seed {opts.seed}, {opts.seconds:g} s", flush=True)
    top = tempfile.mkdtemp(dir=opts.dir, prefix="cairn-stress-")
    code = 1
    try:
        code = Stress(opts, top).go()
    finally:
        if code != 0 and opts.keep:
            print(f"stress: kept in {top}")
        else:
            shutil.rmtree(top, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
