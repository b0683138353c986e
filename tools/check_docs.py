#!/usr/bin/env python3
"""The documents hold: short READMEs, a walk whose files exist, links that resolve, records with their parts, twin READMEs."""

import re

import house

README_LINES = 40
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_WORD = re.compile(r"`([^`\s]+/[^`\s]*)`")
RECORD_PARTS = ("Context", "Options", "Decision", "Cost", "Reopen when")


def prose(text):
    """The text without fenced blocks, line for line."""
    return FENCE.sub(lambda block: "\n" * block.group(0).count("\n"), text)


def check_folder_readmes(root):
    faults = []
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        if not (folder / "README.md").is_file():
            faults.append(f"src/{folder.name}/ has no README.md")
    for readme in sorted((root / "src").rglob("README.md")):
        count = len(readme.read_text(encoding="utf-8").splitlines())
        if count > README_LINES:
            faults.append(f"{readme.relative_to(root)}: {count} lines, at most {README_LINES}")
    return faults


def exists(root, word):
    """`memory/page_pool.h`, `engine/` or `engine/sampler` (a header or a source of that name), from src/ or the root."""
    for base in (root / "src", root):
        path = base / word.rstrip("/")
        if word.endswith("/"):
            if path.is_dir():
                return True
        elif path.exists() or any(path.with_name(path.name + suffix).is_file() for suffix in house.CODE_SUFFIXES):
            return True
    return False


def check_walk(root):
    walk = root / "docs" / "walk.md"
    if not walk.is_file():
        return ["docs/walk.md is missing"]
    text = prose(walk.read_text(encoding="utf-8"))
    return [f"docs/walk.md:{house.line_of(text, found.start())}: `{found.group(1)}` does not exist"
            for found in CODE_WORD.finditer(text) if not exists(root, found.group(1))]


def documents(root):
    found = list(root.glob("*.md"))
    for folder in ("docs", "src", "tests", "bench", "tools"):
        found += (root / folder).rglob("*.md")
    return sorted(found)


def check_links(root):
    faults = []
    for document in documents(root):
        text = prose(document.read_text(encoding="utf-8"))
        for found in LINK.finditer(text):
            target = found.group(1).split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            if not (document.parent / target).exists():
                where = f"{document.relative_to(root)}:{house.line_of(text, found.start())}"
                faults.append(f"{where}: the link {target} leads nowhere")
    return faults


def check_records(root):
    faults, numbers = [], {}
    for record in sorted((root / "docs" / "decisions").glob("*.md")):
        name = record.relative_to(root)
        number = re.match(r"(\d{4})-[a-z0-9-]+\.md$", record.name)
        if number is None:
            faults.append(f"{name}: a record is called NNNN-title.md")
            continue
        first = numbers.setdefault(number.group(1), record.name)
        if first != record.name:
            faults.append(f"{name}: number {number.group(1)} belongs to {first}")
        text = record.read_text(encoding="utf-8")
        missing = [part for part in RECORD_PARTS if not re.search(rf"^## {part}\b", text, re.MULTILINE)]
        if missing:
            faults.append(f"{name}: no part called {', '.join(missing)}")
    return faults


def commands(path):
    """The command lines of a document's shell blocks, comments left out."""
    lines = []
    for language, body in FENCE.findall(path.read_text(encoding="utf-8")):
        if language in ("sh", "bash"):
            lines += [re.sub(r"\s+#.*|^#.*", "", line).strip() for line in body.splitlines()]
    return [line for line in lines if line]


def check_twins(root):
    english, chinese = root / "README.md", root / "README.zh-CN.md"
    for readme in (english, chinese):
        if not readme.is_file():
            return [f"{readme.name} is missing"]
    ours, theirs = commands(english), commands(chinese)
    faults = [f"README.md has the command `{line}`, README.zh-CN.md has not" for line in ours if line not in theirs]
    faults += [f"README.zh-CN.md has the command `{line}`, README.md has not" for line in theirs if line not in ours]
    if not faults and ours != theirs:
        faults.append("README.md and README.zh-CN.md have the same commands in another order")
    return faults


def check(root):
    return check_folder_readmes(root) + check_walk(root) + check_links(root) + check_records(root) + check_twins(root)


if __name__ == "__main__":
    house.run(check)
