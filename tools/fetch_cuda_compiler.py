#!/usr/bin/env python3
"""Sees to a CUDA compiler where this machine has an NVIDIA card, and prints the compute capabilities to compile for: "90a".

Prints nothing where there is no card, no driver that runs what the compiler makes, or no compiler for this kind of machine.
A toolkit on the PATH is used as it is; otherwise the compiler comes as wheels, pinned in tools/cuda_compiler.json, and is unpacked
into build/cuda, which appears only when it is whole. Exit 0 done (or nothing to do), 1 failed, 2 wrong use.
"""

import argparse
import ctypes
import errno
import fcntl
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

import wheels
from wheels import Refusal, is_whole, mib, say

TOOLS = pathlib.Path(__file__).resolve().parent
ORIGIN = wheels.Source("tools/cuda_compiler.json", "Without it Ebb is built for the CPU alone.")
SPARE_BYTES = 8 << 20
LEAST_CAPABILITY = 75
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def cards():
    """(the driver's CUDA version, the capabilities of its cards), or None: (13000, [90])."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        version, count, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        if driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version)) or driver.cuDeviceGetCount(ctypes.byref(count)):
            return None
        found = set()
        for card in range(count.value):
            parts = []
            for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
                if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, card):
                    return None
                parts.append(value.value)
            found.add(parts[0] * 10 + parts[1])
        return version.value, sorted(found)
    except (OSError, AttributeError):
        return None


def cuda(version):
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def wanted_capabilities(manifest):
    """What to compile for, or nothing with a note why."""
    found = cards()
    if found is None or not found[1]:
        return []
    version, capabilities = found
    if version < manifest["driver"]:
        say(f"note: the NVIDIA driver speaks {cuda(version)}, and Ebb's GPU code needs {cuda(manifest['driver'])} or newer. Update "
            "the driver and run this again; until then Ebb is built for the CPU alone")
        return []
    usable = [capability for capability in capabilities if capability >= LEAST_CAPABILITY]
    if not usable:
        say("note: the NVIDIA cards of this machine are older than compute capability 7.5; Ebb is built for the CPU alone")
    return usable


def spell(capabilities):
    """As cmake/cuda.cmake takes them; Hopper's own instructions are in 90a alone."""
    return ";".join("90a" if capability == 90 else str(capability) for capability in capabilities)


def toolkit_on_path(manifest):
    """Whether an nvcc new enough is here already, where cmake/cuda.cmake finds it."""
    nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if nvcc is None:
        return False
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
    release = re.search(r"release (\d+)\.(\d+)", said)
    return release is not None and int(release.group(1)) * 1000 + int(release.group(2)) * 10 >= manifest["driver"]


def stamp(manifest):
    return json.dumps(manifest["parts"], sort_keys=True)


def is_here(folder, manifest):
    try:
        return (folder / "stamp").read_text(encoding="utf-8") == stamp(manifest)
    except FileNotFoundError:
        return False


def unpack(manifest, parts_folder, folder):
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for part in manifest["parts"]:
            with zipfile.ZipFile(parts_folder / part["wheel"]) as wheel:
                for member in wheel.infolist():
                    path = pathlib.Path(wheel.extract(member, partial))
                    if member.external_attr >> 16 & 0o100 and path.is_file():
                        path.chmod(0o755)
        (partial / "stamp").write_text(stamp(manifest), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def disk_full(folder, needed):
    return Refusal(f"The disk is full: the CUDA compiler needs {mib(needed)} free in {folder}, and there are "
                   f"{mib(shutil.disk_usage(folder).free)}. Make room and run this again.")


def bring(manifest, folder, offline):
    """Fetches and unpacks what is missing; one process at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_here(folder, manifest):
            return
        parts_folder = folder.with_name(folder.name + ".parts")
        missing = [part for part in manifest["parts"] if not is_whole(parts_folder / part["wheel"], part)]
        missing_bytes = sum(part["bytes"] for part in missing)
        if offline and missing:
            raise Refusal(f"--offline, and the CUDA compiler is not in {folder}: {len(missing)} of {len(manifest['parts'])} parts "
                          f"are missing ({mib(missing_bytes)}). Run this once with a network. {ORIGIN.otherwise}")
        if missing and importlib.util.find_spec("pip") is None:
            raise Refusal(f"{sys.executable} has no pip, which fetches the compiler. Install it: apt-get install python3-pip")
        parts_folder.mkdir(parents=True, exist_ok=True)
        needed = 2 * missing_bytes + manifest["unpacked_bytes"] + SPARE_BYTES  # pip holds a copy of its own
        if shutil.disk_usage(folder.parent).free < needed:
            raise disk_full(folder.parent, needed)
        say(f"== CUDA compiler: {mib(missing_bytes)} to fetch, under NVIDIA's terms (kept with it, in *.dist-info)")
        try:
            wheels.fetch_parts(manifest, parts_folder, missing, ORIGIN)
            unpack(manifest, parts_folder, folder)
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise disk_full(folder.parent, needed) from None
            raise
        shutil.rmtree(parts_folder, ignore_errors=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Sees to a CUDA compiler and prints the compute capabilities to compile for.")
    parser.add_argument("--offline", action="store_true", help="use no network")
    parser.add_argument("--folder", type=pathlib.Path, default=TOOLS.parent / "build" / "cuda", help="where the compiler goes")
    parser.add_argument("--manifest", type=pathlib.Path, default=TOOLS / "cuda_compiler.json", help="sizes and sums of the parts")
    options = parser.parse_args(arguments)
    try:
        manifest = json.loads(options.manifest.read_text(encoding="utf-8"))
        capabilities = wanted_capabilities(manifest)
        if not capabilities:
            return 0
        if not is_here(options.folder, manifest) and not toolkit_on_path(manifest):
            if platform.machine() != manifest["machine"]:
                say(f"note: the CUDA compiler is pinned for {manifest['machine']} alone; install CUDA 13 to build for this machine's card")
                return 0
            bring(manifest, options.folder, options.offline)
    except Refusal as refusal:
        say(f"error: {refusal}")
        return 1
    except OSError as problem:
        say(f"error: {problem.strerror}: {problem.filename}")
        return 1
    except KeyboardInterrupt:
        say("\nstopped; finished parts are kept, and the next run goes on from there")
        return 1
    print(spell(capabilities))
    return 0


if __name__ == "__main__":
    sys.exit(main())
