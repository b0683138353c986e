"""check_sources.py finds sources that nothing builds and names that nothing backs."""

import unittest

import sample_tree
import check_sources


class CheckSources(sample_tree.TestCase):
    check = staticmethod(check_sources.check)

    def test_accepts_a_tree_whose_sources_are_listed(self):
        self.expect_no_fault()

    def test_refuses_a_source_that_no_list_names(self):
        self.write("src/memory/forgotten.cpp", "")
        self.expect_fault("src/memory/forgotten.cpp: no CMakeLists.txt lists it")

    def test_refuses_a_test_that_no_list_names(self):
        self.write("tests/memory/forgotten_test.cpp", "")
        self.expect_fault("tests/memory/forgotten_test.cpp: no CMakeLists.txt lists it")

    def test_does_not_take_a_comment_for_a_list(self):
        self.write("src/memory/CMakeLists.txt", "# page_pool.cpp\n")
        self.expect_fault("src/memory/page_pool.cpp: no CMakeLists.txt lists it")

    def test_refuses_a_name_without_a_file(self):
        self.write("src/memory/CMakeLists.txt", "ebb_layer(memory SOURCES page_pool.cpp gone.cpp)\n")
        self.expect_fault("src/memory/CMakeLists.txt: lists gone.cpp, which does not exist")


if __name__ == "__main__":
    unittest.main()
