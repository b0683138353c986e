#!/usr/bin/env python3
"""Holds every #include to the table of cmake/layers.cmake: no arrow it lacks, no foreign internal/, no cycle, CUDA in its place."""

import re

import house

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cublas|cufft|nvml|nvrtc|cooperative_groups|mma\.h)")
CUDA_FOLDERS = ("src/device/cuda/", "src/kernels/cuda/")


def find_cycle(graph):
    """A list of nodes that ends where it begins, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for following in graph.get(node, ()):
            if state.get(following) == "open":
                return path[path.index(following):] + [following]
            if following not in state and (cycle := visit(following)):
                return cycle
        state[node] = "done"
        path.pop()
        return None

    for node in graph:
        if node not in state and (cycle := visit(node)):
            return cycle
    return None


def check_quoted(root, table, where, folder, target):
    """Faults of one #include "target" in a file of src/<folder>."""
    layer = target.split("/")[0]
    if layer not in table:
        return [f'{where}: "{target}" does not begin with a folder of src/; includes are written from src/']
    if layer != folder and layer not in table[folder]:
        return [f'{where}: {folder}/ may not include {layer}/ ("{target}"); it may: {", ".join(table[folder]) or "nothing"}']
    if "/internal/" in target and layer != folder:
        return [f'{where}: "{target}" is private to {layer}/']
    if not (root / "src" / target).is_file():
        return [f'{where}: there is no src/{target}']
    return []


def check(root):
    table = house.layer_table(root)
    faults, graph = [], {}
    for name, lower in table.items():
        faults += [f"cmake/layers.cmake: {name} names {other}, which is no layer" for other in lower if other not in table]
    if cycle := find_cycle(table):
        faults.append("cmake/layers.cmake: cycle " + " -> ".join(cycle))
    for folder in sorted(path.name for path in (root / "src").iterdir() if path.is_dir()):
        if folder not in table:
            faults.append(f"src/{folder}/ is not in cmake/layers.cmake")
    for path in house.code_files(root, "src", "tests", "bench"):
        name = path.relative_to(root).as_posix()
        folder = name.split("/")[1]
        text = path.read_text(encoding="utf-8")
        for found in INCLUDE.finditer(text):
            where = f"{name}:{house.line_of(text, found.start())}"
            target = found.group(1) or found.group(2)
            if CUDA_HEADER.search(target) and not name.startswith(CUDA_FOLDERS):
                faults.append(f"{where}: CUDA header {target} outside {' and '.join(CUDA_FOLDERS)}")
            elif target.endswith(".cpp"):
                faults.append(f"{where}: includes the source file {target}")
            elif found.group(1) and name.startswith("src/") and folder in table:
                faults += check_quoted(root, table, where, folder, target)
                graph.setdefault(name, []).append("src/" + target)
    if cycle := find_cycle(graph):
        faults.append("include cycle " + " -> ".join(cycle))
    return faults


if __name__ == "__main__":
    house.run(check)
