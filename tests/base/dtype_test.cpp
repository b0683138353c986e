#include "base/dtype.h"

#include <gtest/gtest.h>

#include "base/processors.h"

namespace ebb {
namespace {

TEST(DType, NamesAndGgmlIdsLeadBackToTheType) {
  for (int idx = 0; idx < kDTypeCount; ++idx) {
    const auto dtype = static_cast<DType>(idx);
    EXPECT_EQ(dtype_from_name(dtype_info(dtype).name), dtype);
    EXPECT_EQ(dtype_from_ggml_id(dtype_info(dtype).ggml_id), dtype);
  }
  EXPECT_EQ(dtype_from_name("q4_k"), DType::Q4_K);
  EXPECT_FALSE(dtype_from_name("Q4_K_M"));
  EXPECT_FALSE(dtype_from_ggml_id(15)) << "Q8_K is never in files";
}

TEST(DType, RowsHoldWholeBlocks) {
  EXPECT_EQ(row_bytes(DType::Q8_0, 640), 680U);
  EXPECT_EQ(row_bytes(DType::Q6_K, 2048), 1680U);
  EXPECT_EQ(row_bytes(DType::BF16, 7), 14U);
}

TEST(Processors, AtLeastOneCoreIsUsable) { EXPECT_GE(usable_cores(), 1U); }

}  // namespace
}  // namespace ebb
