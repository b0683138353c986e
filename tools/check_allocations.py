#!/usr/bin/env python3
"""Memory has one owner: below src/, only device/ and memory/ take it from the system in blocks of their own."""

import re

import house

OWNERS = ("device", "memory")
# The model file is mapped where it is read; whoever maps it charges a HostLease.
ALLOWED = {"src/format/mapped_file.cpp": {"mmap"}}
CALL = re.compile(
    r"\b(mmap|mmap64|mremap|memfd_create|shm_open|sbrk|malloc|calloc|realloc|aligned_alloc|posix_memalign|memalign|valloc"
    r"|_mm_malloc|numa_alloc\w*|cudaMalloc\w*|cudaHostAlloc|cuMem\w+)\s*\(")
ARRAY = re.compile(r"\b(new\s+(?:\([^)]*\)\s*)?[\w:]+\s*\[|make_unique(?:_for_overwrite)?\s*<[^>;]*\[\]\s*>|operator\s+new)")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def code_only(text):
    """The text with comments and strings blanked, offset for offset."""
    return COMMENT_OR_STRING.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def check(root):
    faults = []
    for path in house.code_files(root, "src"):
        name = path.relative_to(root).as_posix()
        if name.split("/")[1] in OWNERS:
            continue
        text = code_only(path.read_text(encoding="utf-8"))
        for found in sorted([*CALL.finditer(text), *ARRAY.finditer(text)], key=lambda match: match.start()):
            word = found.group(1)
            if word not in ALLOWED.get(name, ()):
                faults.append(f"{name}:{house.line_of(text, found.start())}: `{word}` takes memory past the ledger; use a memory::Region")
    return faults


if __name__ == "__main__":
    house.run(check)
