#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/attention_testing.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

struct AlignedBytes {
  explicit AlignedBytes(std::size_t count) : bytes(new (std::align_val_t{64}) std::byte[count]) {
    std::fill_n(bytes, count, std::byte{0xff});  // NaN, so that a read of what nobody wrote shows
  }
  ~AlignedBytes() { ::operator delete[](bytes, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* bytes;
};

/// Runs the sequence through the layer in chunks as a model does: a ring of `window` slots (or a growing range) holds
/// the past, a buffer of one chunk the rows themselves.
std::vector<float> run(const Layer& layer, const Sequence& sequence, std::size_t chunk, int thread_count = 2) {
  ThreadPool threads(thread_count);
  const std::size_t tokens = sequence.k.size() / layer.kv_width();
  const KvMemory past(layer.types, layer.window == 0 ? tokens : layer.window, 32, layer.kv_heads, layer.head_dim);
  const KvMemory fresh(layer.types, chunk, 48, layer.kv_heads, layer.head_dim);
  const AlignedBytes workspace(attention_workspace_bytes(thread_count, chunk, layer.q_heads, layer.head_dim));
  std::vector<float> out(tokens * layer.q_width());
  for (std::size_t first = 0; first < tokens; first += chunk) {
    const std::size_t rows = std::min(chunk, tokens - first);
    const float* k = &sequence.k[first * layer.kv_width()];
    const float* v = &sequence.v[first * layer.kv_width()];
    const auto store = [&](const KvView& to) {
      kv_store(threads, k, v, layer.kv_width(), first, rows, layer.kv_heads, layer.head_dim, to);
    };
    store(fresh.view());
    const AttentionShape shape{.first_pos = first,
                               .rows = rows,
                               .q_heads = layer.q_heads,
                               .kv_heads = layer.kv_heads,
                               .head_dim = layer.head_dim,
                               .window = layer.window,
                               .scale = layer.scale};
    attention(threads, shape, &sequence.q[first * layer.q_width()], layer.q_width(), past.view(), fresh.view(),
              &out[first * layer.q_width()], workspace.bytes);
    store(past.view());
  }
  return out;
}

TEST(Attention, EqualsDoublePrecisionForEveryHeadSizeGroupAndType) {
  for_each_simd_level([] {
    for (std::size_t head_dim : {8ul, 16ul, 24ul, 32ul, 48ul, 64ul, 72ul, 128ul, 256ul}) {
      for (KvType type : kKvTypes) {
        if (!kv_supported({type, type}, head_dim)) continue;
        Layer layer{.q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .window = 40, .types = {type, type}};
        const Sequence sequence(layer, 150);
        expect_near_reference(layer, sequence, run(layer, sequence, 70));
      }
    }
    for (std::size_t group : {1ul, 2ul, 3ul, 4ul, 5ul, 8ul, 20ul}) {
      Layer layer{.q_heads = 2 * group, .kv_heads = 2, .head_dim = 32, .window = 0};
      const Sequence sequence(layer, 330);
      expect_near_reference(layer, sequence, run(layer, sequence, 330));
      expect_near_reference(layer, sequence, run(layer, sequence, 1, 1));
    }
  });
}

// S4: every pair of types at every head size, worked on as many rows and as few (a chunk of one).
TEST(Attention, AnyTypesOfKeysAndValuesEqualDoublePrecision) {
  for_each_simd_level([] {
    for (std::size_t head_dim : {64ul, 96ul, 128ul, 160ul, 192ul, 256ul}) {
      for (KvType k : kKvTypes) {
        for (KvType v : kKvTypes) {
          const Layer layer{.q_heads = 4, .kv_heads = 1, .head_dim = head_dim, .window = 0, .types = {k, v}};
          const Sequence sequence(layer, 30);
          const std::vector<float> out = run(layer, sequence, 19);
          expect_near_reference(layer, sequence, out);
          EXPECT_TRUE(same_bits(run(layer, sequence, 1), out));
        }
      }
    }
  });
}

// What types in blocks cost in the end, by the error of their format. A score moves by at most d = scale * sum |q| *
// (error of a key), all weights by a factor within e^(2d), so that the result moves by (e^(2d) - 1) times the largest
// value, and by the error of a value.
TEST(Attention, BlocksOfKeysAndValuesCostWhatTheirFormatSays) {
  for (KvType type : {KvType::Q8_0, KvType::Q4_0}) {
    const Layer exact{
        .q_heads = 2, .kv_heads = 1, .head_dim = 64, .window = 0, .types = {KvType::F32, KvType::F32}, .scale = 0.01f};
    Layer layer = exact;
    layer.types = {type, type};
    const Sequence sequence(layer, 300);
    const std::vector<float> want = run(exact, sequence, 300);
    const std::vector<float> out = run(layer, sequence, 300);
    double k_error = 0, v_error = 0, largest_value = 0;
    for (std::size_t i = 0; i < sequence.k.size(); i += kKvBlock) {
      k_error = std::max(k_error, block_error(&sequence.k[i], type));
      v_error = std::max(v_error, block_error(&sequence.v[i], type));
    }
    for (float value : sequence.v) largest_value = std::max(largest_value, std::abs(static_cast<double>(value)));
    bool differs = false;
    for (std::size_t row = 0; row < out.size() / layer.head_dim; ++row) {
      double query_sum = 0;
      for (std::size_t e = 0; e < layer.head_dim; ++e)
        query_sum += std::abs(static_cast<double>(sequence.q[row * layer.head_dim + e]));
      const double moved = static_cast<double>(layer.scale) * query_sum * k_error;
      const double bound = (std::exp(2 * moved) - 1) * largest_value + v_error + 1e-4;  // and float32's own error
      for (std::size_t i = row * layer.head_dim; i < (row + 1) * layer.head_dim; ++i) {
        ASSERT_NEAR(static_cast<double>(out[i]), static_cast<double>(want[i]), bound) << row;
        differs = differs || out[i] != want[i];
      }
    }
    EXPECT_TRUE(differs);
  }
}

class AttentionWindow : public testing::TestWithParam<std::size_t> {};

// S6: lengths window - 1, window, window + 1 and 3 x window, in chunks of 1, 7, window and all at once, on one thread
// and on more: the same bits, and those near the reference.
TEST_P(AttentionWindow, AnyChunksGiveTheSameBits) {
  Layer layer{.q_heads = 4, .kv_heads = 1, .head_dim = 32, .window = GetParam()};
  for_each_simd_level([&] {
    if (layer.window > 100 && simd_level() < best_simd_level()) return;  // long, and nothing that the others lack
    for (std::size_t tokens : {layer.window - 1, layer.window, layer.window + 1, 3 * layer.window}) {
      const Sequence sequence(layer, tokens);
      const std::vector<float> whole = run(layer, sequence, tokens, 1);
      if (simd_level() == best_simd_level()) expect_near_reference(layer, sequence, whole);
      for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, layer.window})
        EXPECT_TRUE(same_bits(run(layer, sequence, chunk), whole)) << tokens << " tokens, chunks of " << chunk;
      EXPECT_TRUE(same_bits(run(layer, sequence, tokens, 3), whole));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Windows, AttentionWindow, testing::Values(16, 64, 65, 100, 512));

TEST(Attention, GlobalLayersGiveTheSameBitsForAnyChunksAndThreads) {
  for (const Layer& layer :
       {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256}, Layer{.q_heads = 6, .kv_heads = 3, .head_dim = 48},
        Layer{.q_heads = 8, .kv_heads = 1, .head_dim = 64, .window = 0, .types = {KvType::BF16, KvType::BF16}},
        Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 0, .types = {KvType::Q8_0, KvType::Q4_0}},
        Layer{.q_heads = 2, .kv_heads = 1, .head_dim = 96, .window = 0, .types = {KvType::Q4_0, KvType::Q8_0}}}) {
    const Sequence sequence(layer, 600);
    const std::vector<float> whole = run(layer, sequence, 600, 1);
    expect_near_reference(layer, sequence, whole);
    for (int thread_count : {1, 2, 4})
      for (std::size_t chunk : {2ul, 64ul, 333ul})
        EXPECT_TRUE(same_bits(run(layer, sequence, chunk, thread_count), whole)) << chunk << ' ' << thread_count;
    EXPECT_TRUE(same_bits(run(layer, sequence, 1, 2), whole));  // keys split over threads where past a segment
    EXPECT_TRUE(same_bits(run(layer, sequence, 1, 1), whole));
  }
}

TEST(Attention, Avx2AndAvx512GiveTheSameBits) {
  if (best_simd_level() < SimdLevel::Avx512) GTEST_SKIP() << "this processor has no AVX-512";
  for (const Layer& layer :
       {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 72, .window = 300},
        Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 96, .window = 300, .types = {KvType::Q8_0, KvType::Q8_0}},
        Layer{.q_heads = 2, .kv_heads = 1, .head_dim = 64, .window = 300, .types = {KvType::Q4_0, KvType::Q4_0}}}) {
    const Sequence sequence(layer, 600);
    for (std::size_t chunk : {1ul, 100ul}) {
      set_simd_level(SimdLevel::Avx2);
      const std::vector<float> narrow = run(layer, sequence, chunk);
      set_simd_level(SimdLevel::Avx512);
      EXPECT_TRUE(same_bits(run(layer, sequence, chunk), narrow));
      set_simd_level(best_simd_level());
    }
  }
}

/// The first position whose output differs, or the number of positions.
std::size_t first_difference(const Layer& layer, const std::vector<float>& a, const std::vector<float>& b,
                             std::size_t from) {
  const std::size_t tokens = a.size() / layer.q_width();
  for (std::size_t i = from; i < tokens; ++i) {
    for (std::size_t c = 0; c < layer.q_width(); ++c)
      if (a[i * layer.q_width() + c] != b[i * layer.q_width() + c]) return i;
  }
  return tokens;
}

TEST(Attention, AKeyIsSeenFromItsOwnPositionToTheEndOfTheWindow) {
  constexpr std::size_t kKey = 77;
  constexpr std::size_t kTokens = 300;
  for (std::size_t chunk : {1ul, 50ul, 300ul}) {
    const Layer layer{.q_heads = 2, .kv_heads = 1, .head_dim = 16, .window = 100};
    const Sequence before(layer, kTokens);
    Sequence after = before;
    after.k[kKey * layer.kv_width()] += 3.0f;
    after.v[kKey * layer.kv_width() + 5] += 3.0f;
    const std::vector<float> a = run(layer, before, chunk);
    const std::vector<float> b = run(layer, after, chunk);
    EXPECT_EQ(first_difference(layer, a, b, 0), kKey);
    EXPECT_EQ(first_difference(layer, a, b, kKey + 99), kKey + 99);  // the last query that sees it
    EXPECT_EQ(first_difference(layer, a, b, kKey + 100), kTokens);   // and nobody later
  }
}

TEST(Attention, GlobalLayersNeverForget) {  // S5
  const Layer layer{.q_heads = 2, .kv_heads = 1, .head_dim = 16, .window = 0};
  const Sequence before(layer, 600);
  Sequence after = before;
  after.v[3 * layer.kv_width()] += 100.0f;
  EXPECT_EQ(first_difference(layer, run(layer, before, 64), run(layer, after, 64), 599), 599u);
}

TEST(Attention, ExtremeScoresStayFinite) {
  for_each_simd_level([] {
    Layer layer{.q_heads = 1, .kv_heads = 1, .head_dim = 32, .window = 0, .types = {KvType::F32, KvType::F32}, .scale = 100.0f};
    const Sequence sequence(layer, 200);
    const std::vector<float> out = run(layer, sequence, 200);
    for (float value : out) ASSERT_TRUE(std::isfinite(value));
  });
}

// T6: NaN in a query, a key or a value shows in the row, and in each segment of keys and each way to work on them; rows
// of earlier chunks stay as they are.
TEST(Attention, NanReachesTheOutput) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_simd_level([nan] {
    const Layer layer{.q_heads = 2, .kv_heads = 1, .head_dim = 16, .window = 0};
    for (std::size_t position : {100ul, 600ul}) {
      for (int where = 0; where < 3; ++where) {
        for (std::size_t chunk : {10ul, 1ul}) {
          Sequence sequence(layer, 610);
          const std::size_t width = where == 0 ? layer.q_width() : layer.kv_width();
          (where == 0 ? sequence.q : where == 1 ? sequence.k : sequence.v)[position * width] = nan;
          const std::vector<float> out = run(layer, sequence, chunk);
          for (std::size_t i = 0; i < position * layer.q_width(); ++i) ASSERT_FALSE(std::isnan(out[i]));
          EXPECT_TRUE(std::isnan(out[position * layer.q_width()]));
        }
      }
    }
  });
}

}  // namespace
}  // namespace ebb::kernels
