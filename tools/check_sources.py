#!/usr/bin/env python3
"""Every source below src/, tests/ and bench/ stands in a CMakeLists.txt, and every source named there exists."""

import re

import house

SOURCE_WORD = re.compile(r"[^\s()\"]+\.(?:cpp|cu)\b")


def listed_sources(root):
    """{absolute path: CMakeLists.txt that names it}; names with variables are left to CMake."""
    listed = {}
    for folder in ("src", "tests", "bench"):
        for cmake in sorted((root / folder).rglob("CMakeLists.txt")):
            text = re.sub(r"#.*", "", cmake.read_text(encoding="utf-8"))
            text = text.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            for word in SOURCE_WORD.findall(text):
                if "$" not in word:
                    listed[(cmake.parent / word).resolve()] = cmake
    return listed


def check(root):
    root = root.resolve()
    listed = listed_sources(root)
    faults = []
    for path in house.code_files(root, "src", "tests", "bench"):
        if path.suffix in (".cpp", ".cu") and path not in listed:
            faults.append(f"{path.relative_to(root)}: no CMakeLists.txt lists it, so nothing builds it")
    for path, cmake in listed.items():
        if not path.is_file():
            faults.append(f"{cmake.relative_to(root)}: lists {path.name}, which does not exist")
    return faults


if __name__ == "__main__":
    house.run(check)
