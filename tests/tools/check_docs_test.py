"""check_docs.py accepts good documents and names each kind of fault."""

import unittest

import sample_tree
import check_docs


class CheckDocs(sample_tree.TestCase):
    check = staticmethod(check_docs.check)

    def test_accepts_documents_that_hold(self):
        self.expect_no_fault()

    def test_refuses_a_folder_without_a_readme(self):
        (self.root / "src/memory/README.md").unlink()
        self.expect_fault("src/memory/ has no README.md")

    def test_refuses_a_readme_of_41_lines(self):
        self.write("src/memory/README.md", "line\n" * 41)
        self.expect_fault("src/memory/README.md: 41 lines, at most 40")

    def test_refuses_a_walk_that_names_a_file_which_is_gone(self):
        self.write("docs/walk.md", "`memory/page_pool.h`\n`memory/gone.h`\n")
        self.expect_fault("docs/walk.md:2: `memory/gone.h` does not exist")

    def test_refuses_a_walk_that_names_a_folder_which_is_gone(self):
        self.write("docs/walk.md", "`vision/`\n")
        self.expect_fault("docs/walk.md:1: `vision/` does not exist")

    def test_refuses_a_link_that_leads_nowhere(self):
        self.write("docs/glossary.md", "[a](walk.md) [b](https://example.org) [c](gone.md#part)\n")
        self.expect_fault("docs/glossary.md:1: the link gone.md leads nowhere")

    def test_refuses_a_record_that_lacks_a_part(self):
        self.write("docs/decisions/0002-other.md", "## Context\n## Options\n## Decision\n## Cost\n")
        self.expect_fault("docs/decisions/0002-other.md: no part called Reopen when")

    def test_refuses_two_records_of_one_number(self):
        self.write("docs/decisions/0001-other.md", sample_tree.RECORD)
        self.expect_fault("number 0001 belongs to 0001-first.md")

    def test_refuses_a_command_that_one_readme_lacks(self):
        self.write("README.zh-CN.md", "```sh\n./start\n```\n")
        self.expect_fault("README.md has the command `./check`, README.zh-CN.md has not")


if __name__ == "__main__":
    unittest.main()
