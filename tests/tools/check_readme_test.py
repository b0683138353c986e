"""check_readme.py runs what the README says and notices what fails."""

import unittest

import sample_tree
import check_readme


class CheckReadme(sample_tree.TestCase):
    check = staticmethod(check_readme.check)

    def test_accepts_commands_that_work_and_leaves_out_check(self):
        self.write("README.md", "```sh\necho hello | cat   # prints\n./check\n```\n")
        self.expect_no_fault()

    def test_refuses_a_command_that_fails(self):
        self.write("README.md", "```sh\necho reason; exit 3\n```\n")
        self.expect_fault("echo reason; exit 3: exit 3\nreason")

    def test_refuses_a_readme_without_commands(self):
        self.write("README.md", "Nothing to type.\n")
        self.expect_fault("README.md has no command")


if __name__ == "__main__":
    unittest.main()
