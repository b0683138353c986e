#!/usr/bin/env python3
"""Times ebb and llama.cpp on the same file, threads and machine, in turn, and writes one CSV row a figure.

Each round starts every program once, in the order ebb, peer, so that a machine whose speed drifts hurts both alike; the
figures are medians over the rounds. llama.cpp's programs are built elsewhere and only named here.

    bench/side_by_side.py --ebb build/host-release/bin/ebb --model MODEL.gguf \
        --peer-bench .../llama-bench --peer-complete .../llama-completion --out bench/results/NAME.csv
"""

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import time

PROMPT = "The capital of Japan is"


def run(command):
    """Runs a command; returns its stdout, wall seconds and peak resident bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return output, time.monotonic() - begin, usage.ru_maxrss * 1024


def ebb_speed(args, test, count):
    flags = ["-p", str(count), "-n", "0"] if test == "prompt" else ["-p", "0", "-n", str(count)]
    output, _, peak = run([args.ebb, "bench", "speed", "-m", args.model, "-t", str(args.threads), "-r", "1", "-o", "json"] + flags)
    report = json.loads(output)
    return report["rows"][0]["samples"][0], peak, report.get("ceiling")


def peer_speed(args, test, count):
    flags = ["-p", str(count), "-n", "0"] if test == "prompt" else ["-p", "0", "-n", str(count)]
    output, _, peak = run([args.peer_bench, "-m", args.model, "-t", str(args.threads), "-r", "1", "-o", "json"] + flags)
    return json.loads(output)[0]["samples_ts"][0], peak


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        info = file.read()
    name = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), platform.machine())
    flags = next((line for line in info.splitlines() if line.startswith("flags")), "")
    levels = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "amx_int8") if f" {flag}" in flags]
    return f"{name}, {os.cpu_count()} cores, {' '.join(levels)}"


def text_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", required=True)
    parser.add_argument("--peer-bench", required=True)
    parser.add_argument("--peer-complete", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    tests = [("prompt", 512), ("prompt", 2048), ("answer", 128)]
    samples = {}
    ceilings = []

    def add(figure, unit, who, value):
        samples.setdefault((figure, unit), {"ebb": [], "peer": []})[who].append(value)

    for round_idx in range(args.rounds):
        for test, count in tests:
            speed, peak, ceiling = ebb_speed(args, test, count)
            if ceiling:
                ceilings.append(ceiling["tokens_per_second"])
            add(f"{test} {count}", "tok/s", "ebb", speed)
            add(f"peak memory, {test} {count}", "MiB", "ebb", peak / 2**20)
            speed, peak = peer_speed(args, test, count)
            add(f"{test} {count}", "tok/s", "peer", speed)
            add(f"peak memory, {test} {count}", "MiB", "peer", peak / 2**20)
        common = ["-m", args.model, "-t", str(args.threads), "-n", "1", "--temp", "0", "-p", PROMPT]
        _, seconds, _ = run([args.ebb, "run"] + common)
        add("command to first token", "ms", "ebb", seconds * 1e3)
        _, seconds, _ = run([args.peer_complete, "-no-cnv", "--no-warmup", "--no-display-prompt"] + common)
        add("command to first token", "ms", "peer", seconds * 1e3)
        print(f"round {round_idx + 1} of {args.rounds}", file=sys.stderr)

    commit = text_of(["git", "rev-parse", "--short", "HEAD"])
    compiler = text_of(["c++", "--version"]).splitlines()[0]
    with open(args.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["figure", "unit", "ebb_median", "ebb_min", "ebb_max", "peer_median", "peer_min", "peer_max", "ebb_over_peer",
                         "rounds", "threads", "peer", "machine", "ebb_commit", "compiler", "command"])
        for (figure, unit), both in samples.items():
            mine, theirs = both["ebb"], both["peer"]
            row = [figure, unit]
            for values in (mine, theirs):
                row += [f"{statistics.median(values):.1f}", f"{min(values):.1f}", f"{max(values):.1f}"]
            row.append(f"{statistics.median(mine) / statistics.median(theirs):.3f}")
            writer.writerow(row + [args.rounds, args.threads, "llama.cpp 0c1e570, CPU, native", machine(), commit, compiler,
                                   "bench/side_by_side.py"])
        best = max(ceilings)
        writer.writerow(["ceiling of answer", "tok/s", f"{best:.1f}", f"{min(ceilings):.1f}", f"{best:.1f}", "", "", "", "", len(ceilings),
                         args.threads, "", machine(), commit, compiler, "ebb bench speed: weights of a token over measured read speed"])


if __name__ == "__main__":
    main()
