// Products from packed blocks, every instruction set this machine has, held to double precision over dequantize_row
// (itself held to the formats' vectors), and to themselves bit for bit (S6: a row's result knows no batch).
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernels/dequantize.h"
#include "kernels/internal/simd.h"

namespace ebb::kernels {
namespace {

constexpr DType kAllTypes[] = {DType::F32,  DType::F16,  DType::BF16, DType::Q4_0,   DType::Q4_1,
                               DType::Q5_0, DType::Q5_1, DType::Q8_0, DType::Q2_K,   DType::Q3_K,
                               DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS};

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> out;
  for (const SimdLevel level : {SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512}) {
    if (level <= best_simd_level()) out.push_back(level);
  }
  return out;
}

/// Puts the level back at the end of a test.
struct LevelGuard {
  SimdLevel before = simd_level();
  ~LevelGuard() { set_simd_level(before); }
};

/// Byte offsets of a block's half-precision fields.
std::vector<std::size_t> half_fields(DType dtype) {
  switch (dtype) {
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K:
      return {0, 2};
    case DType::Q2_K:
      return {80, 82};
    case DType::Q3_K:
      return {108};
    case DType::Q6_K:
      return {208};
    default:
      return {0};
  }
}

struct Matrix {
  std::vector<std::byte> bytes;  // exactly as long as the blocks: the address sanitizer sees a read past the end
  TensorView view;
};

Matrix random_matrix(DType dtype, std::size_t rows, std::size_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  Matrix m;
  m.bytes.resize(rows * row_bytes(dtype, cols));
  const DTypeInfo& info = dtype_info(dtype);
  const auto put_half = [&](std::size_t at, std::uint16_t bits) { std::memcpy(m.bytes.data() + at, &bits, 2); };
  if (info.block_values == 1) {
    for (std::size_t i = 0; i < rows * cols; ++i) {
      const float value = normal(random);
      if (dtype == DType::F32) std::memcpy(m.bytes.data() + 4 * i, &value, 4);
      if (dtype == DType::F16) put_half(2 * i, float_to_f16(value));
      if (dtype == DType::BF16) put_half(2 * i, float_to_bf16(value));
    }
  } else {
    for (std::byte& b : m.bytes) b = static_cast<std::byte>(random() & 0xffu);
    for (std::size_t at = 0; at < m.bytes.size(); at += info.block_bytes) {
      for (const std::size_t field : half_fields(dtype)) put_half(at + field, float_to_f16(normal(random)));
    }
  }
  m.view = {m.bytes.data(), dtype, rows, cols};
  return m;
}

std::vector<float> random_rows(std::size_t rows, std::size_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * cols);
  for (float& value : x) value = normal(random) * (random() % 61 == 0 ? 40.0F : 1.0F);  // outliers, as activations have
  return x;
}

struct Aligned {
  explicit Aligned(std::size_t bytes) : storage(bytes + 64) {}
  std::byte* data() {
    void* p = storage.data();
    std::size_t space = storage.size();
    return static_cast<std::byte*>(std::align(64, storage.size() - 64, p, space));
  }
  std::vector<std::byte> storage;
};

std::vector<float> multiply(int thread_count, Arithmetic arithmetic, const std::vector<float>& x, std::size_t tokens,
                            std::span<const TensorView> weights) {
  ThreadPool threads(thread_count);
  const std::size_t cols = weights.front().cols;
  Aligned input_space(matmul_input_bytes(arithmetic, tokens, cols));
  Aligned space(matmul_workspace_bytes(thread_count, cols));
  std::size_t all_rows = 0;
  for (const TensorView& w : weights) all_rows += w.rows;
  std::vector<float> y(tokens * all_rows, std::numeric_limits<float>::quiet_NaN());
  std::vector<MatmulProduct> products;
  std::size_t first = 0;
  for (const TensorView& w : weights) {
    products.push_back({w, y.data() + first, all_rows});
    first += w.rows;
  }
  const MatmulInput input = prepare_matmul_input(threads, arithmetic, x.data(), tokens, cols, input_space.data());
  matmul(threads, input, products, space.data());
  return y;
}

/// Largest |y - exact| over what the arithmetic allows:
/// Exact: c float32 roundings of partial sums below sum |x w| (and one of each weight with an offset): (c + 2) 2^-24.
/// Quantized: besides, half a step of each activation's block, largest / 16383 / 2, times its weight, and the same
///            float32 roundings.
double worst_error(Arithmetic arithmetic, const std::vector<float>& x, std::size_t tokens, const TensorView& w,
                   const std::vector<float>& y) {
  double worst = 0;
  std::vector<float> row(w.cols);
  const bool rounds_x = arithmetic == Arithmetic::Quantized && dtype_info(w.dtype).block_values > 1;
  for (std::size_t r = 0; r < w.rows; ++r) {
    dequantize_row(w, r, row);
    for (std::size_t t = 0; t < tokens; ++t) {
      double exact = 0;
      double magnitude = 0;
      double rounding = 0;
      for (std::size_t first = 0; first < w.cols; first += 32) {
        double largest = 0;
        double weight = 0;
        for (std::size_t c = first; c < std::min(first + 32, w.cols); ++c) {
          const double value = x[t * w.cols + c];
          exact += value * row[c];
          magnitude += std::fabs(value * row[c]);
          largest = std::max(largest, std::fabs(value));
          weight += std::fabs(row[c]);
        }
        rounding += largest * weight / 16383 / 2;
      }
      // A type with an offset sums two parts that may each be larger than their sum: 4 covers the random blocks here.
      const double allowed =
          4 * (static_cast<double>(w.cols) + 2) * 0x1p-24 * magnitude + (rounds_x ? 1.01 * rounding : 0);
      const double error = std::fabs(y[t * w.rows + r] - exact) / allowed;
      if (!(error <= worst)) worst = error;  // a value that is no number counts as the worst
    }
  }
  return worst;
}

std::string where(SimdLevel level, Arithmetic arithmetic, DType dtype) {
  return std::string(simd_level_name(level)) + (arithmetic == Arithmetic::Exact ? " exact " : " quantized ") +
         std::string(dtype_info(dtype).name);
}

TEST(Matmul, MatchesDoubleForEveryTypeAndInstructionSet) {
  const LevelGuard guard;
  for (const SimdLevel level : levels()) {
    set_simd_level(level);
    for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
      for (const DType dtype : kAllTypes) {
        SCOPED_TRACE(where(level, arithmetic, dtype));
        for (const std::size_t tokens : {1u, 2u, 15u}) {
          const Matrix w = random_matrix(dtype, 53, 768, 7);  // three panels and five rows; a chunk and a half
          const std::vector<float> x = random_rows(tokens, 768, 11);
          const std::vector<TensorView> views = {w.view};
          EXPECT_LE(worst_error(arithmetic, x, tokens, w.view, multiply(1, arithmetic, x, tokens, views)), 1.0);
        }
      }
    }
  }
}

TEST(Matmul, TakesAnyRowCount) {
  for (std::size_t rows = 1; rows <= 33; ++rows) {
    for (const DType dtype : {DType::Q5_0, DType::Q6_K, DType::F16}) {
      const Matrix w = random_matrix(dtype, rows, 256, 3);
      const std::vector<float> x = random_rows(3, 256, 5);
      const std::vector<TensorView> views = {w.view};
      const Arithmetic arithmetic = Arithmetic::Quantized;
      EXPECT_LE(worst_error(arithmetic, x, 3, w.view, multiply(2, arithmetic, x, 3, views)), 1.0) << rows;
    }
  }
}

TEST(Matmul, TakesOddColumnsOfPlainFloats) {
  for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
    for (const std::size_t cols : {1u, 3u, 13u, 259u}) {
      for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
        const Matrix w = random_matrix(dtype, 18, cols, 3);
        const std::vector<float> x = random_rows(5, cols, 5);
        const std::vector<TensorView> views = {w.view};
        EXPECT_LE(worst_error(arithmetic, x, 5, w.view, multiply(1, arithmetic, x, 5, views)), 1.0) << cols;
      }
    }
  }
}

TEST(Matmul, ARowIsTheSameBitsAloneAndInAnyBatch_S6) {
  const LevelGuard guard;
  for (const SimdLevel level : levels()) {
    set_simd_level(level);
    for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
      for (const DType dtype : kAllTypes) {
        SCOPED_TRACE(where(level, arithmetic, dtype));
        const Matrix w = random_matrix(dtype, 37, 768, 1);
        const std::vector<TensorView> views = {w.view};
        constexpr std::size_t kTokens = 70;
        const std::vector<float> x = random_rows(kTokens, 768, 2);
        const std::vector<float> whole = multiply(2, arithmetic, x, kTokens, views);
        for (std::size_t first = 0, count = 1; first < kTokens; first += count, count += 3) {
          count = std::min(count, kTokens - first);
          const std::vector<float> part(x.begin() + static_cast<std::ptrdiff_t>(first * 768),
                                        x.begin() + static_cast<std::ptrdiff_t>((first + count) * 768));
          const std::vector<float> y = multiply(1, arithmetic, part, count, views);
          ASSERT_EQ(std::memcmp(y.data(), whole.data() + first * 37, y.size() * sizeof(float)), 0)
              << first << " " << count;
        }
      }
    }
  }
}

TEST(Matmul, BlocksOfManyTokensAreTheSameBitsToo_S6) {
  const Matrix w = random_matrix(DType::Q5_0, 32, 64, 1);
  const std::vector<TensorView> views = {w.view};
  const std::vector<float> x = random_rows(600, 64, 2);
  const std::vector<float> whole = multiply(3, Arithmetic::Quantized, x, 600, views);
  for (const std::size_t t : {0u, 255u, 256u, 511u, 512u, 599u}) {
    const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(t * 64),
                                 x.begin() + static_cast<std::ptrdiff_t>(t * 64 + 64));
    const std::vector<float> y = multiply(1, Arithmetic::Quantized, row, 1, views);
    EXPECT_EQ(std::memcmp(y.data(), whole.data() + t * 32, 32 * sizeof(float)), 0) << t;
  }
}

TEST(Matmul, SeveralProductsOfOneInputAreEachTheirOwn) {
  const Matrix q = random_matrix(DType::Q5_0, 96, 320, 1);
  const Matrix k = random_matrix(DType::Q8_0, 17, 320, 2);
  const Matrix v = random_matrix(DType::F16, 40, 320, 3);
  for (const std::size_t tokens : {1u, 9u}) {
    const std::vector<float> x = random_rows(tokens, 320, 4);
    const std::vector<TensorView> all = {q.view, k.view, v.view};
    const std::vector<float> together = multiply(3, Arithmetic::Quantized, x, tokens, all);
    std::size_t first = 0;
    for (const TensorView& w : all) {
      const std::vector<TensorView> one = {w};
      const std::vector<float> alone = multiply(1, Arithmetic::Quantized, x, tokens, one);
      for (std::size_t t = 0; t < tokens; ++t) {
        EXPECT_EQ(std::memcmp(alone.data() + t * w.rows, together.data() + t * 153 + first, w.rows * sizeof(float)), 0);
      }
      first += w.rows;
    }
  }
}

TEST(Matmul, Avx2AndAvx512GiveTheSameBits) {
  if (best_simd_level() < SimdLevel::Avx512) GTEST_SKIP() << "needs AVX-512";
  const LevelGuard guard;
  for (const Arithmetic arithmetic : {Arithmetic::Exact, Arithmetic::Quantized}) {
    for (const DType dtype : kAllTypes) {
      const Matrix w = random_matrix(dtype, 48, 512, 1);
      const std::vector<TensorView> views = {w.view};
      const std::vector<float> x = random_rows(13, 512, 2);
      set_simd_level(SimdLevel::Avx2);
      const std::vector<float> narrow = multiply(1, arithmetic, x, 13, views);
      set_simd_level(SimdLevel::Avx512);
      EXPECT_EQ(multiply(1, arithmetic, x, 13, views), narrow) << dtype_info(dtype).name;
    }
  }
}

TEST(Matmul, ExtremeWeightsAndActivationsDoNotOverflow) {
  const LevelGuard guard;
  Matrix w = random_matrix(DType::Q6_K, 16, 256, 1);
  const std::uint16_t one = float_to_f16(1.0F);
  for (std::size_t r = 0; r < 16; ++r) {
    std::byte* block = w.bytes.data() + r * 210;
    std::memset(block, 0, 192);          // every weight -32 ...
    std::memset(block + 192, 0x80, 16);  // ... times a scale of -128
    std::memcpy(block + 208, &one, sizeof(one));
  }
  const std::vector<TensorView> views = {w.view};
  const std::vector<float> x(256, 3.0F);
  for (const SimdLevel level : levels()) {
    set_simd_level(level);
    for (const float value : multiply(1, Arithmetic::Quantized, x, 1, views)) {
      EXPECT_NEAR(value, 4096.0F * 256 * 3, 4096.0F * 256 * 3 * 1e-6F) << simd_level_name(level);
    }
  }
}

TEST(Matmul, ActivationsThatAreNotFiniteShow) {
  const LevelGuard guard;
  const Matrix w = random_matrix(DType::Q8_0, 16, 64, 1);
  const std::vector<TensorView> views = {w.view};
  for (const SimdLevel level : levels()) {
    set_simd_level(level);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(64, 1.0F);
      x[40] = bad;
      for (const float value : multiply(1, Arithmetic::Quantized, x, 1, views)) EXPECT_FALSE(std::isfinite(value));
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
