"""A small repository that keeps every rule, for a test to break in one place."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

RECORD = "# A record\n## Context\n## Options\n## Decision\n## Cost\n## Reopen when\n"

FILES = {
    "cmake/layers.cmake": 'set(EBB_LAYERS base memory)\nset(EBB_LAYER_base "")\nset(EBB_LAYER_memory base)\n',
    "src/base/README.md": "# base\n",
    "src/base/words.h": "#include <string>\n",
    "src/memory/README.md": "# memory\n",
    "src/memory/CMakeLists.txt": "ebb_layer(memory SOURCES page_pool.cpp)\n",
    "src/memory/page_pool.h": '#include "base/words.h"\n',
    "src/memory/page_pool.cpp": '#include "memory/page_pool.h"\n',
    "tests/memory/CMakeLists.txt": "ebb_tests(memory SOURCES page_pool_test.cpp)\n",
    "tests/memory/page_pool_test.cpp": '#include "memory/page_pool.h"\n',
    "docs/walk.md": "One byte: `memory/page_pool`, `memory/`, `src/base/words.h`; see [words](glossary.md).\n",
    "docs/glossary.md": "words\n",
    "docs/decisions/0001-first.md": RECORD,
    "README.md": "```sh\n./start   # begins\n./check\n```\n",
    "README.zh-CN.md": "```sh\n./start   # 开始\n./check\n```\n",
}


class TestCase(unittest.TestCase):
    """Subclasses set `check`, the function of the tool under test."""

    check = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect_no_fault(self):
        self.assertEqual(self.check(self.root), [])

    def expect_fault(self, words):
        faults = self.check(self.root)
        self.assertTrue(any(words in fault for fault in faults), f"no fault says {words!r}: {faults}")
