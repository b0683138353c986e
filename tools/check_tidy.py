#!/usr/bin/env python3
"""Runs clang-tidy with .clang-tidy: over the sources of src/ as a build folder compiles them, or (--proof) over the file
whose marked lines must be refused. Exits 77, which CTest shows as skipped, where there is no clang-tidy."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
FINDING = re.compile(r"^(/[^:\n]+):(\d+):\d+: (?:warning|error): .*\[[\w.,-]+\]$", re.MULTILINE)


def tidy(arguments):
    done = subprocess.run([shutil.which("clang-tidy"), "--quiet", f"--config-file={ROOT / '.clang-tidy'}", *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def prove(path):
    """0 when exactly the lines marked `reject` are refused."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = {idx for idx, line in enumerate(lines, 1) if line.endswith("// reject")}
    _, output = tidy([str(path), "--", "-std=c++20"])
    refused = {int(line) for name, line in FINDING.findall(output) if name == str(path)}
    for idx in sorted(marked - refused):
        print(f"{path.name}:{idx}: should be refused: {lines[idx - 1]}")
    for idx in sorted(refused - marked):
        print(f"{path.name}:{idx}: should be accepted: {lines[idx - 1]}")
    print(f"{len(marked & refused)} of {len(marked)} wrong names refused")
    return 0 if marked and marked == refused else 1


def sweep(build, jobs):
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = sorted({entry["file"] for entry in commands if entry["file"].startswith(str(ROOT / "src") + "/")})
    # The compiler's own warnings are the compilers' business; GCC's flags mean nothing to clang.
    common = ["-p", str(build), "--extra-arg=-Wno-everything", "--extra-arg=-Wno-unknown-warning-option"]
    faults = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for code, output in pool.map(lambda name: tidy([*common, name]), files):
            for block in re.split(r"(?=^/[^:\n]+:\d+:\d+: )", output, flags=re.MULTILINE):
                if FINDING.match(block):
                    faults.setdefault(block.split("\n")[0], block)
            if code != 0 and not FINDING.search(output):
                faults.setdefault(output, output)
    for block in faults.values():
        print(block.rstrip())
    print(f"{len(files)} files, {len(faults)} findings")
    return 1 if faults or not files else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--proof", type=pathlib.Path, help="the file whose marked lines must be refused")
    what.add_argument("--build", type=pathlib.Path, help="a configured build folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if shutil.which("clang-tidy") is None:
        print("no clang-tidy here; apt-get install clang-tidy")
        return SKIPPED
    return prove(options.proof.resolve()) if options.proof else sweep(options.build.resolve(), options.jobs)


if __name__ == "__main__":
    sys.exit(main())
