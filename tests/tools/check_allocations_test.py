"""check_allocations.py finds memory that is taken past the ledger."""

import unittest

import sample_tree
import check_allocations


class CheckAllocations(sample_tree.TestCase):
    check = staticmethod(check_allocations.check)

    def test_accepts_a_tree_that_takes_none(self):
        self.expect_no_fault()

    def test_lets_the_owners_map_and_the_file_be_mapped(self):
        self.write("src/device/host_device.cpp", "void* p = ::mmap(nullptr, 1, 0, 0, -1, 0);\n")
        self.write("src/memory/arena.cpp", "auto* p = new float[3];\n")
        self.write("src/format/mapped_file.cpp", "void* p = ::mmap(nullptr, 1, 0, 0, -1, 0);\n")
        self.expect_no_fault()

    def test_refuses_system_calls_elsewhere(self):
        for call in ("mmap(0, 1, 0, 0, -1, 0)", "std::malloc(5)", "posix_memalign(&p, 64, 5)", "cudaMalloc(&p, 5)"):
            self.write("src/model/forward.cpp", f"\nauto x = {call};\n")
            self.expect_fault("src/model/forward.cpp:2: `")

    def test_refuses_arrays_of_its_own(self):
        for words in ("new float[n]", "new std::byte[n]", "std::make_unique<float[]>(n)", "::operator new(n)"):
            self.write("src/kernels/dot.cpp", f"auto p = {words};\n")
            self.expect_fault("src/kernels/dot.cpp:1: `")

    def test_refuses_even_the_mapped_file_to_allocate(self):
        self.write("src/format/mapped_file.cpp", "void* p = std::malloc(1);\n")
        self.expect_fault("src/format/mapped_file.cpp:1: `malloc`")

    def test_does_not_take_comments_and_sentences_for_calls(self):
        self.write("src/cli/run.cpp", '// malloc(1)\n/* mmap(\n) */ auto s = "new float[3] by malloc(1)";\n')
        self.expect_no_fault()


if __name__ == "__main__":
    unittest.main()
