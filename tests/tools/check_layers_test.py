"""check_layers.py accepts a good tree and names each kind of fault."""

import unittest

import sample_tree
import check_layers


class CheckLayers(sample_tree.TestCase):
    check = staticmethod(check_layers.check)

    def test_accepts_a_tree_that_keeps_the_table(self):
        self.expect_no_fault()

    def test_refuses_an_arrow_that_the_table_lacks(self):
        self.write("src/base/words.h", '#include "memory/page_pool.h"\n')
        self.expect_fault("src/base/words.h:1: base/ may not include memory/")

    def test_refuses_an_include_that_is_not_written_from_src(self):
        self.write("src/memory/page_pool.cpp", '#include "page_pool.h"\n')
        self.expect_fault('"page_pool.h" does not begin with a folder of src/')

    def test_refuses_a_header_that_does_not_exist(self):
        self.write("src/memory/page_pool.cpp", '#include "base/gone.h"\n')
        self.expect_fault("there is no src/base/gone.h")

    def test_refuses_the_internal_header_of_another_folder(self):
        self.write("src/base/internal/secret.h", "")
        self.write("src/memory/page_pool.cpp", '#include "base/internal/secret.h"\n')
        self.expect_fault("is private to base/")

    def test_accepts_its_own_internal_header(self):
        self.write("src/memory/internal/list.h", "")
        self.write("src/memory/page_pool.cpp", '#include "memory/internal/list.h"\n')
        self.expect_no_fault()

    def test_refuses_a_cycle_of_headers(self):
        self.write("src/base/words.h", '#include "base/more.h"\n')
        self.write("src/base/more.h", '#include "base/words.h"\n')
        self.expect_fault("include cycle src/base/more.h -> src/base/words.h -> src/base/more.h")

    def test_refuses_a_cycle_in_the_table(self):
        self.write("cmake/layers.cmake", "set(EBB_LAYERS base memory)\nset(EBB_LAYER_base memory)\nset(EBB_LAYER_memory base)\n")
        self.expect_fault("cycle base -> memory -> base")

    def test_refuses_a_folder_that_is_not_in_the_table(self):
        self.write("src/drawer/odds.h", "")
        self.expect_fault("src/drawer/ is not in cmake/layers.cmake")

    def test_refuses_a_cuda_header_outside_its_folders(self):
        self.write("src/memory/page_pool.cpp", "#include <cuda_runtime.h>\n")
        self.expect_fault("CUDA header cuda_runtime.h outside")

    def test_accepts_a_cuda_header_in_its_folder(self):
        self.write("cmake/layers.cmake", "set(EBB_LAYERS base memory device)\nset(EBB_LAYER_memory base)\n")
        self.write("src/device/cuda/driver.cpp", "#include <cuda.h>\n")
        self.expect_no_fault()

    def test_refuses_a_test_that_includes_a_source(self):
        self.write("tests/memory/page_pool_test.cpp", '#include "memory/page_pool.cpp"\n')
        self.expect_fault("includes the source file memory/page_pool.cpp")


if __name__ == "__main__":
    unittest.main()
