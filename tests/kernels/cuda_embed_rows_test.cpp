// Packed rows of every type made float32 on a card: the bits of the CPU's dequantisation, which is held to the formats' vectors.
#include "kernels/cuda/embed_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda_testing.h"
#include "kernels/dequantize.h"
#include "kernels/ops_testing.h"
#include "kernels/weights_testing.h"

namespace ebb::kernels {
namespace {

class CudaEmbedRows : public CudaCase {
 protected:
  std::vector<float> embed(const TensorView& table, const std::vector<std::byte>& bytes, const std::vector<std::int32_t>& ids) {
    const TensorView on_card{upload(bytes), table.dtype, table.rows, table.cols};
    float* const out = upload(std::vector<float>(ids.size() * table.cols, kPoison));
    EXPECT_TRUE(cuda::EmbedRows::find(*code).value().run(device::Stream::Compute, on_card, upload(ids), ids.size(), 50.6f, out));
    return download(out, ids.size() * table.cols);
  }
};

TEST_F(CudaEmbedRows, EqualsTheCpuBitForBitForEveryType) {
  const std::vector<std::int32_t> ids = {36, 0, 5, 36, 17};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(dtype_info(dtype).name);
    for (const std::size_t blocks : {1u, 3u, 15u, 19u}) {  // 15 of 256 are the 12B's row; odd counts leave rows unaligned
      const std::size_t cols = blocks * dtype_info(dtype).block_values;
      const std::vector<std::byte> bytes = random_weights(dtype, 37, cols, static_cast<std::uint32_t>(blocks));
      const TensorView table{bytes.data(), dtype, 37, cols};
      std::vector<float> expected(ids.size() * cols);
      embed_rows(table, ids, 50.6f, expected.data());
      EXPECT_TRUE(same_bits(embed(table, bytes, ids), expected)) << cols;
    }
  }
}

TEST_F(CudaEmbedRows, AnIdOutsideTheTableGivesNaN) {
  const std::vector<std::byte> bytes = random_weights(DType::Q8_0, 4, 64, 1);
  const std::vector<float> y = embed({bytes.data(), DType::Q8_0, 4, 64}, bytes, {3, 4, -1, 0});
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 64 == 1 || i / 64 == 2) << i;
}

}  // namespace
}  // namespace ebb::kernels
