"""What the house's checks share: the layer table, the files, the report."""

import pathlib
import re
import sys

CODE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def layer_table(root):
    """cmake/layers.cmake as {folder: [folders it may include]}, in the order of EBB_LAYERS."""
    text = (root / "cmake" / "layers.cmake").read_text(encoding="utf-8")
    listed = re.search(r"set\(EBB_LAYERS\s+([^)]*)\)", text)
    if listed is None:
        return {}
    allowed = {name: words.replace('"', "").split() for name, words in re.findall(r"set\(EBB_LAYER_(\w+)\s+([^)]*)\)", text)}
    return {name: allowed.get(name, []) for name in listed.group(1).split()}


def code_files(root, *folders):
    """Every source and header below these folders of the root, sorted."""
    found = []
    for folder in folders:
        found += [path for path in (root / folder).rglob("*") if path.suffix in CODE_SUFFIXES and path.is_file()]
    return sorted(found)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def run(check):
    """Calls `check(root)` with the root of argv (or this repository), prints its faults, and exits 0 or 1."""
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    faults = check(root)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults" if faults else "no faults")
    sys.exit(1 if faults else 0)
