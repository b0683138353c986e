#!/usr/bin/env python3
"""Runs the commands of README.md, as a reader would type them: each must exit 0. ./check is left out, because it runs this."""

import subprocess
import time

import check_docs
import house

LIMIT_SECONDS = 300


def check(root):
    lines = [line for line in check_docs.commands(root / "README.md") if line != "./check"]
    faults = [] if lines else ["README.md has no command"]
    for line in lines:
        begin = time.monotonic()
        try:
            done = subprocess.run(["bash", "-c", line], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            faults.append(f"{line}: not done after {LIMIT_SECONDS} s")
            continue
        print(f"{time.monotonic() - begin:6.1f} s  {line}", flush=True)
        if done.returncode != 0:
            faults.append(f"{line}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return faults


if __name__ == "__main__":
    house.run(check)
