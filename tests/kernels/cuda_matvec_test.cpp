// Products on a card, every element type, held to double precision over dequantize_row with the bound of matvec.h. Skipped where
// this build has no GPU code or the machine no card.
#include "kernels/cuda/matvec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cpu/internal/integer_block.h"
#include "kernels/dequantize.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kArenaBytes = std::size_t{64} << 20;
constexpr Arithmetic kArithmetics[] = {Arithmetic::Exact, Arithmetic::Quantized};
constexpr std::size_t kAlignment = 64;  // as units of weights have

/// Random blocks whose scales are ordinary numbers.
std::vector<std::byte> random_blocks(DType dtype, std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<std::byte> bytes(rows * row_bytes(dtype, cols));
  const DTypeInfo& info = dtype_info(dtype);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xffu);
  for (std::size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    const float value = normal(random);
    const std::uint16_t half = dtype == DType::BF16 ? float_to_bf16(value) : float_to_f16(value);
    const std::uint16_t second = float_to_f16(normal(random));
    switch (dtype) {
      case DType::F32:
        std::memcpy(&bytes[at], &value, sizeof(value));
        break;
      case DType::Q4_1:
      case DType::Q5_1:
      case DType::Q4_K:
      case DType::Q5_K:
        std::memcpy(&bytes[at], &half, sizeof(half));
        std::memcpy(&bytes[at + 2], &second, sizeof(second));
        break;
      case DType::Q2_K:
        std::memcpy(&bytes[at + 80], &half, sizeof(half));
        std::memcpy(&bytes[at + 82], &second, sizeof(second));
        break;
      case DType::Q3_K:
        std::memcpy(&bytes[at + 108], &half, sizeof(half));
        break;
      case DType::Q6_K:
        std::memcpy(&bytes[at + 208], &half, sizeof(half));
        break;
      default:
        std::memcpy(&bytes[at], &half, sizeof(half));
    }
  }
  return bytes;
}

struct Matrix {
  std::vector<std::byte> bytes;
  TensorView host;
  TensorView device;
};

/// One card, and memory on it that each case cuts its arrays from.
class CudaMatvec : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto driver = device::cuda::open_driver();
    if (!driver) GTEST_SKIP() << driver.error().message;
    card = device::CudaDevice::open(**driver, 0).value();
    auto loaded = cuda::LoadedCode::load(*card);
    if (!loaded) GTEST_SKIP() << loaded.error().message;
    code = std::move(*loaded);
    const device::AddressRange range = card->reserve(kArenaBytes).value();
    const device::Handle memory = card->create(kArenaBytes).value();
    ASSERT_TRUE(card->map(range.data, std::span(&memory, 1)));
    ASSERT_TRUE(card->set_access(range.data, range.bytes, device::Access::ReadWrite));
    arena = range.data;
  }

  std::byte* upload(const void* from, std::size_t bytes, std::size_t skew = 0) {
    std::byte* const address = arena + used + skew;
    used += (bytes + skew + kAlignment - 1) / kAlignment * kAlignment;
    EXPECT_LE(used, kArenaBytes);
    EXPECT_TRUE(card->copy(device::Stream::Compute, address, from, bytes));
    return address;
  }

  Matrix matrix(DType dtype, std::size_t rows, std::size_t cols, unsigned seed) {
    Matrix m;
    m.bytes = random_blocks(dtype, rows, cols, seed);
    m.host = {m.bytes.data(), dtype, rows, cols};
    m.device = {upload(m.bytes.data(), m.bytes.size()), dtype, rows, cols};
    return m;
  }

  /// [tokens, rows of all matrices side by side, and three floats that nobody may touch].
  std::vector<float> multiply(const std::vector<float>& x, std::size_t tokens, std::span<const TensorView> weights,
                              Arithmetic arithmetic, std::size_t skew = 0) {
    std::size_t stride = 3;
    for (const TensorView& w : weights) stride += w.rows;
    std::vector<float> y(tokens * stride, kPoison);
    auto* const at_y = reinterpret_cast<float*>(upload(y.data(), y.size() * sizeof(float), skew));
    const auto* const at_x = reinterpret_cast<const float*>(upload(x.data(), x.size() * sizeof(float), skew));
    std::vector<MatmulProduct> products;
    std::size_t first = 0;
    for (const TensorView& w : weights) {
      products.push_back({w, at_y + first, stride});
      first += w.rows;
    }
    const auto matvec = cuda::Matvec::find(*code);
    EXPECT_TRUE(matvec.has_value());
    EXPECT_TRUE(matvec->run(device::Stream::Compute, arithmetic, at_x, tokens, x.size() / tokens, products));
    EXPECT_TRUE(card->copy(device::Stream::Compute, y.data(), at_y, y.size() * sizeof(float)));
    EXPECT_TRUE(card->wait(card->fence(device::Stream::Compute).value()));
    return y;
  }

  std::unique_ptr<device::CudaDevice> card;
  std::unique_ptr<cuda::LoadedCode> code;
  std::byte* arena = nullptr;
  std::size_t used = 0;
};

/// |w - offset| + |offset| of one row.
std::vector<double> magnitudes(const TensorView& w, std::size_t row_idx, const std::vector<float>& row) {
  std::vector<double> out;
  const DTypeInfo& info = dtype_info(w.dtype);
  const std::size_t per_offset = info.block_values == 1 ? 0 : offset_values(w.dtype);
  IntegerBlock block;
  for (std::size_t c = 0; c < w.cols; ++c) {
    double offset = 0;
    if (per_offset != 0) {
      if (c % info.block_values == 0) decode_block(w.dtype, w.row(row_idx) + c / info.block_values * info.block_bytes, block);
      offset = static_cast<double>(block.offset[c % info.block_values / per_offset]);
    }
    out.push_back(std::abs(static_cast<double>(row[c]) - offset) + std::abs(offset));
  }
  return out;
}

/// The reference's weights have one rounding where there is an offset. 1.01 covers second-order terms and the step's own rounding.
void expect_products(Arithmetic arithmetic, const std::vector<float>& x, std::size_t tokens, const TensorView& w,
                     const std::vector<float>& y, std::size_t first, std::size_t stride) {
  const bool rounds_x = arithmetic == Arithmetic::Quantized && dtype_info(w.dtype).block_values > 1;
  const double relative = cuda::matvec_error(w.cols) + 0x1p-24;
  std::vector<float> row(w.cols);
  for (std::size_t r = 0; r < w.rows; ++r) {
    dequantize_row(w, r, row);
    const std::vector<double> magnitude = magnitudes(w, r, row);
    for (std::size_t t = 0; t < tokens; ++t) {
      double exact = 0;
      double allowed = 0;
      double step = 0;
      for (std::size_t c = 0; c < w.cols; ++c) {
        const float* const block = &x[t * w.cols + c / 32 * 32];
        if (rounds_x && c % 32 == 0) {
          step = 0;
          for (std::size_t i = 0; i < 32; ++i) step = std::max(step, std::abs(static_cast<double>(block[i])) / 16383);
        }
        exact += static_cast<double>(x[t * w.cols + c]) * static_cast<double>(row[c]);
        allowed += relative * std::abs(static_cast<double>(x[t * w.cols + c])) * magnitude[c] +
                   step / 2 * std::abs(static_cast<double>(row[c]));
      }
      ASSERT_NEAR(static_cast<double>(y[t * stride + first + r]), exact, 1.01 * allowed) << r << " of token " << t;
    }
  }
}

// Columns: less than a group of 1,024, a group and a part, a tile and more, several tiles of four rows of x, a tile of one.
TEST_P(CudaMatvec, EqualsDoublePrecisionForEveryTypeAndRowCount) {
  for (const std::size_t cols : {256u, 768u, 2816u, 9472u}) {
    SCOPED_TRACE(cols);
    used = 0;
    const Matrix w = matrix(GetParam(), 45, cols, 7);
    for (const std::size_t tokens : {1u, 2u, 3u, 8u}) {
      SCOPED_TRACE(tokens);
      const std::vector<float> x = random_floats(tokens * cols, 11, 3.0f);
      for (const Arithmetic arithmetic : kArithmetics) {
        const std::vector<float> y = multiply(x, tokens, std::vector{w.device}, arithmetic, tokens % 2 * sizeof(float));
        expect_products(arithmetic, x, tokens, w.host, y, 0, w.host.rows + 3);
        for (std::size_t t = 0; t < tokens; ++t) ASSERT_TRUE(std::isnan(y[(t + 1) * (w.host.rows + 3) - 1]));
      }
    }
  }
}

// Three matrices of one type and one of another in between: two launches and more.
TEST_P(CudaMatvec, SeveralMatricesOnOneInputAndAnyRowCount) {
  constexpr std::size_t kCols = 1280;
  for (const std::size_t rows : {1u, 15u, 16u, 33u}) {
    used = 0;
    const std::vector<Matrix> all = [&] {
      std::vector<Matrix> out;
      out.push_back(matrix(GetParam(), rows, kCols, 1));
      out.push_back(matrix(GetParam(), rows + 70, kCols, 2));
      out.push_back(matrix(DType::Q8_0, 5, kCols, 3));
      for (unsigned i = 0; i < 5; ++i) out.push_back(matrix(GetParam(), 3 + i, kCols, 4 + i));
      return out;
    }();
    std::vector<TensorView> views;
    std::size_t stride = 3;
    for (const Matrix& m : all) {
      views.push_back(m.device);
      stride += m.host.rows;
    }
    const std::vector<float> x = random_floats(2 * kCols, 5);
    const std::vector<float> y = multiply(x, 2, views, Arithmetic::Quantized);
    std::size_t first = 0;
    for (const Matrix& m : all) {
      expect_products(Arithmetic::Quantized, x, 2, m.host, y, first, stride);
      first += m.host.rows;
    }
  }
}

TEST_P(CudaMatvec, ARowIsTheSameBitsAloneAndInAnyBatch_S6) {
  for (const auto& [cols, arithmetic] : {std::pair{1024u, Arithmetic::Exact}, std::pair{1024u, Arithmetic::Quantized},
                                         std::pair{4352u, Arithmetic::Exact}, std::pair{4352u, Arithmetic::Quantized}}) {
    used = 0;
    constexpr std::size_t kTokens = 8;
    const Matrix w = matrix(GetParam(), cols == 1024 ? 700 : 37, cols, 1);
    const std::size_t stride = w.host.rows + 3;
    const std::vector<float> x = random_floats(std::size_t{kTokens} * cols, 2);
    const std::vector<float> whole = multiply(x, kTokens, std::vector{w.device}, arithmetic);
    for (std::size_t first = 0, count = 1; first < kTokens; first += count, ++count) {
      count = std::min(count, kTokens - first);
      const std::vector<float> part(&x[first * cols], &x[first * cols] + count * cols);
      const std::vector<float> y = multiply(part, count, std::vector{w.device}, arithmetic);
      for (std::size_t t = 0; t < count; ++t)
        ASSERT_EQ(std::memcmp(&y[t * stride], &whole[(first + t) * stride], w.host.rows * sizeof(float)), 0) << first + t;
    }
    std::vector<float> broken = x;
    broken[cols + 5] = kPoison;
    const std::vector<float> y = multiply(broken, kTokens, std::vector{w.device}, arithmetic);
    for (std::size_t r = 0; r < w.host.rows; ++r) ASSERT_TRUE(std::isnan(y[stride + r]));
    EXPECT_EQ(std::memcmp(y.data(), whole.data(), w.host.rows * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(&y[2 * stride], &whole[2 * stride], w.host.rows * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaMatvec,
                         testing::Values(DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,
                                         DType::Q8_0, DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q5_K, DType::Q6_K,
                                         DType::IQ4_NL, DType::IQ4_XS),
                         [](const auto& param_info) { return std::string(dtype_info(param_info.param).name); });

TEST_F(CudaMatvec, TakesOddColumnsOfPlainFloats) {
  for (const std::size_t cols : {1u, 3u, 13u, 259u, 2051u}) {
    for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
      used = 0;
      const Matrix w = matrix(dtype, 18, cols, 3);
      const std::vector<float> x = random_floats(5 * cols, 5);
      expect_products(Arithmetic::Exact, x, 5, w.host, multiply(x, 5, std::vector{w.device}, Arithmetic::Exact), 0,
                      w.host.rows + 3);
    }
  }
}

TEST_F(CudaMatvec, ManyRowsKeepTheirInput) {
  const Matrix w = matrix(DType::Q8_0, 70003, 256, 3);
  const std::vector<float> x = random_floats(2 * 256, 5);
  expect_products(Arithmetic::Exact, x, 2, w.host, multiply(x, 2, std::vector{w.device}, Arithmetic::Exact), 0, w.host.rows + 3);
}

}  // namespace
}  // namespace ebb::kernels
