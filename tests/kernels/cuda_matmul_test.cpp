// Products of many rows on a card, both arithmetics and every type, held to double precision over dequantize_row, and to themselves
// bit for bit (S6: a row's result knows no batch). Shapes: below, at and past the tile of 64 in both directions, columns below, at
// and past the step of 32 and no multiple of it.
#include "kernels/cuda/matmul.h"

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

class CudaMatmul : public CudaCase {
 protected:
  std::vector<float> multiply(Arithmetic arithmetic, const std::vector<float>& x, std::size_t rows, const TensorView& w,
                              const std::vector<std::byte>& bytes, std::size_t skew = 0) {
    used = 0;  // all that came before was waited for
    constexpr std::size_t kGap = 3;
    const std::size_t stride = w.rows + kGap;
    float* const y = upload(std::vector<float>(rows * stride, kPoison));
    const MatmulProduct product{{upload(bytes), w.dtype, w.rows, w.cols}, y, stride};
    EXPECT_TRUE(cuda::Matmul::find(*code).value().run(device::Stream::Compute, arithmetic, upload(x, skew), rows, w.cols,
                                                      std::span(&product, 1)));
    const std::vector<float> all = download(y, rows * stride);
    std::vector<float> out;
    for (std::size_t t = 0; t < rows; ++t) {
      out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(t * stride),
                 all.begin() + static_cast<std::ptrdiff_t>(t * stride + w.rows));
      for (std::size_t c = w.rows; c < stride; ++c) EXPECT_TRUE(std::isnan(all[t * stride + c]));
    }
    return out;
  }
};

/// Each result within its bound; and all of them together within 2^-15 of the exact ones' length in Quantized arithmetic: the
/// parts of 3 2^-16 (matmul_error) have random signs, as the products have, so that lengths add like them. A second part that
/// was lost would show as 2^-10.
void expect_products(Arithmetic arithmetic, const std::vector<float>& x, std::size_t rows, const TensorView& w,
                     const std::vector<float>& y) {
  const double bound = 1.01 * cuda::matmul_error(arithmetic, w.cols) * 0x1p-24;
  double missed = 0;
  double length = 0;
  std::vector<float> row(w.cols);
  for (std::size_t r = 0; r < w.rows; ++r) {
    dequantize_row(w, r, row);
    for (std::size_t t = 0; t < rows; ++t) {
      double exact = 0;
      double magnitude = 0;
      for (std::size_t c = 0; c < w.cols; ++c) {
        const double product = static_cast<double>(x[t * w.cols + c]) * static_cast<double>(row[c]);
        exact += product;
        magnitude += std::abs(product);
      }
      const double error = static_cast<double>(y[t * w.rows + r]) - exact;
      ASSERT_LE(std::abs(error), bound * magnitude) << "row " << t << ", column " << r;
      missed += error * error;
      length += exact * exact;
    }
  }
  EXPECT_LE(std::sqrt(missed), 0x1p-15 * std::sqrt(length));
}

TEST_F(CudaMatmul, EqualsDoublePrecisionForEveryTypeAndShape) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::size_t block = dtype_info(dtype).block_values;
    for (const std::size_t rows : {9u, 64u, 77u}) {
      for (const std::size_t blocks : {std::size_t{1}, std::size_t{3}, 768 / block}) {
        const std::size_t cols = blocks * block + (block == 1 && blocks > 3 ? 21 : 0);
        const std::size_t w_rows = blocks == 3 ? 64 : 131;
        const std::vector<std::byte> bytes = random_weights(dtype, w_rows, cols, 5);
        const TensorView w{bytes.data(), dtype, w_rows, cols};
        const std::vector<float> x = random_floats(rows * cols, 6, 3.0f);
        for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
          SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << ", " << rows << " rows of " << cols << ", arithmetic "
                                          << static_cast<int>(arithmetic));
          expect_products(arithmetic, x, rows, w, multiply(arithmetic, x, rows, w, bytes, blocks % 2));
        }
      }
    }
  }
}

TEST_F(CudaMatmul, ARowKnowsNoBatchAndNaNStaysInIt) {
  constexpr std::size_t kRows = 512;
  constexpr std::size_t kCols = 512;
  const std::vector<std::byte> bytes = random_weights(DType::Q4_K, 100, kCols, 7);
  const TensorView w{bytes.data(), DType::Q4_K, 100, kCols};
  std::vector<float> x = random_floats(kRows * kCols, 8);
  for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
    const std::vector<float> all = multiply(arithmetic, x, kRows, w, bytes);
    for (const std::size_t first : {0u, 1u, 300u, 503u}) {
      const std::vector<float> few(x.begin() + static_cast<std::ptrdiff_t>(first * kCols),
                                   x.begin() + static_cast<std::ptrdiff_t>((first + 9) * kCols));
      EXPECT_TRUE(same_bits(multiply(arithmetic, few, 9, w, bytes),
                            {all.begin() + static_cast<std::ptrdiff_t>(first * 100),
                             all.begin() + static_cast<std::ptrdiff_t>((first + 9) * 100)}));
    }
    std::vector<float> broken = x;
    broken[70 * kCols + 40] = kPoison;
    const std::vector<float> y = multiply(arithmetic, broken, kRows, w, bytes);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i / 100 == 70) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else {
        ASSERT_EQ(y[i], all[i]);
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
