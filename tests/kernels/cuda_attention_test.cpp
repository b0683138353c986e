// Attention on a card. Skipped where this build has no GPU code or the machine no card.
// Cases (S4, S5, S6): every type of keys and of values, head sizes of whole and of partly used lanes (8 to 256) and of
// an odd number of blocks, groups from 1 to 20, windows within, at and across segments of 128, runs that end within a
// segment, rings that wrap, chunks from one row up, all of them against double precision or the CPU; and any chunking
// giving the same bits.
#include "kernels/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/attention_testing.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda_kv_testing.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {
namespace {

class CudaAttention : public CudaKv {
 protected:
  void SetUp() override {
    CudaKv::SetUp();
    if (code != nullptr) attention_ = std::make_unique<cuda::Attention>(cuda::Attention::find(*code).value());
  }

  /// The sequence in chunks, as a model runs it: stored and attended on the card. `run_tokens` of the past, then of the
  /// chunk.
  std::vector<float> run(const Layer& layer, const Sequence& sequence, std::size_t chunk,
                         std::size_t workspace_rows = 64, std::pair<std::size_t, std::size_t> run_tokens = {32, 48}) {
    used = 0;
    const std::size_t tokens = sequence.k.size() / layer.kv_width();
    const CardRows past = take_rows(layer.types, layer.window == 0 ? tokens : layer.window, run_tokens.first,
                                    layer.kv_heads, layer.head_dim);
    const CardRows fresh = take_rows(layer.types, chunk, run_tokens.second, layer.kv_heads, layer.head_dim);
    const float* const q = upload(sequence.q);
    const float* const k = upload(sequence.k);
    const float* const v = upload(sequence.v);
    float* const out = upload(std::vector<float>(sequence.q.size(), std::numeric_limits<float>::quiet_NaN()));
    const std::size_t workspace_bytes =
        cuda::attention_bytes(workspace_rows, tokens, layer.window, layer.q_heads, layer.head_dim);
    std::byte* const workspace = take(workspace_bytes);
    for (std::size_t first = 0; first < tokens; first += chunk) {
      const AttentionShape shape{.first_pos = first,
                                 .rows = std::min(chunk, tokens - first),
                                 .q_heads = layer.q_heads,
                                 .kv_heads = layer.kv_heads,
                                 .head_dim = layer.head_dim,
                                 .window = layer.window,
                                 .scale = layer.scale};
      const auto store = [&](const KvView& to) {
        EXPECT_TRUE(rows->store(kStream, k + first * layer.kv_width(), v + first * layer.kv_width(), layer.kv_width(),
                                first, shape.rows, layer.kv_heads, layer.head_dim, to));
      };
      store(fresh.view);
      EXPECT_TRUE(attention_->run(kStream, shape, q + first * layer.q_width(), layer.q_width(), past.view, fresh.view,
                                  out + first * layer.q_width(), workspace, workspace_bytes));
      store(past.view);
    }
    return download(out, sequence.q.size());
  }

  std::unique_ptr<cuda::Attention> attention_;
};

// The bound of expect_near_reference holds here too. A score: the query is rounded once, a lane has a chain of 8, a
// tree of at most 5 adds them, and a block's scale is one product: 15 roundings at most, fewer than head_dim + 4 from
// head size 16 on, and 10 at 8, where there is no block and no tree. A value: a chain of 16 keys at most, a tree of 2,
// then 8 warps and as many segments as hold a key (n / 128 + 2; adding 0 is exact), and three weights on the way (key,
// warp, segment), each off by 4 for exp2f (2 units in the last place) and by 2 for its difference and product: 48 + n /
// 128, fewer than 72 + n / 16.
TEST_F(CudaAttention, EqualsDoublePrecisionForEveryHeadSizeGroupAndType) {
  for (std::size_t head_dim : {8ul, 16ul, 24ul, 32ul, 48ul, 64ul, 72ul, 96ul, 128ul, 136ul, 160ul, 256ul}) {
    for (KvType k : kKvTypes) {
      for (KvType v : kKvTypes) {
        if (!kv_supported({k, v}, head_dim)) continue;
        SCOPED_TRACE(testing::Message() << head_dim << ' ' << static_cast<int>(k) << ' ' << static_cast<int>(v));
        const Layer layer{.q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .window = 40, .types = {k, v}};
        const Sequence sequence(layer, 150);
        const std::vector<float> out = run(layer, sequence, 70);
        expect_near_reference(layer, sequence, out);
        EXPECT_TRUE(same_bits(run(layer, sequence, 150), out));
      }
    }
  }
  for (std::size_t group : {1ul, 2ul, 3ul, 4ul, 5ul, 8ul, 20ul}) {
    const Layer layer{.q_heads = 2 * group, .kv_heads = 2, .head_dim = 32, .window = 0};
    const Sequence sequence(layer, 330);
    const std::vector<float> out = run(layer, sequence, 330);
    expect_near_reference(layer, sequence, out);
    EXPECT_TRUE(same_bits(run(layer, sequence, 1), out));
  }
}

TEST_F(CudaAttention, AnyChunksRunsAndWorkspaceGiveTheSameBits) {
  for (const Layer& layer :
       {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 100},
        Layer{.q_heads = 6, .kv_heads = 3, .head_dim = 48},
        Layer{.q_heads = 4, .kv_heads = 2, .head_dim = 128, .window = 128, .types = {KvType::BF16, KvType::F32}},
        Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 0, .types = {KvType::Q8_0, KvType::Q4_0}},
        Layer{.q_heads = 2, .kv_heads = 1, .head_dim = 96, .window = 129, .types = {KvType::Q4_0, KvType::Q8_0}}}) {
    const Sequence sequence(layer, 600);
    const std::vector<float> whole = run(layer, sequence, 600);
    expect_near_reference(layer, sequence, whole);
    for (std::size_t chunk : {1ul, 2ul, 7ul, 128ul, 333ul})
      EXPECT_TRUE(same_bits(run(layer, sequence, chunk), whole)) << chunk;
    EXPECT_TRUE(same_bits(run(layer, sequence, 600, 1), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 600, 600), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 50, 64, {16, 64}), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 50, 64, {40, 8}), whole));
  }
}

// Contexts that double precision takes too long for, against the CPU's; both may be off by the bound of
// expect_near_reference, with the product of the longest query and key in place of the largest sum of magnitudes
// (Cauchy and Schwarz).
TEST_F(CudaAttention, LongContextsEqualTheCpu) {
  constexpr std::size_t kTokens = 8500;
  constexpr std::size_t kRows = 3;
  ThreadPool threads(2);
  for (const Layer& layer :
       {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 0, .types = {KvType::F16, KvType::F16}},
        Layer{.q_heads = 4, .kv_heads = 2, .head_dim = 256, .window = 1024, .types = {KvType::BF16, KvType::Q8_0}},
        Layer{.q_heads = 8, .kv_heads = 1, .head_dim = 128, .window = 0, .types = {KvType::Q4_0, KvType::Q4_0}}}) {
    used = 0;
    const std::vector<float> q = random_floats(kRows * layer.q_width(), 1, 2.0f);
    const std::vector<float> k = random_floats(kTokens * layer.kv_width(), 2);
    const std::vector<float> v = random_floats(kTokens * layer.kv_width(), 3);
    const KvMemory host(layer.types, kTokens, 32, layer.kv_heads, layer.head_dim);
    kv_store(threads, k.data(), v.data(), layer.kv_width(), 0, kTokens, layer.kv_heads, layer.head_dim, host.view());
    const CardRows on_card = take_rows(layer.types, kTokens, 32, layer.kv_heads, layer.head_dim);
    ASSERT_TRUE(card->copy(kStream, on_card.view.k, host.view().k, on_card.bytes));
    ASSERT_TRUE(card->copy(kStream, on_card.view.v, host.view().v, on_card.bytes));
    const AttentionShape shape{.first_pos = kTokens - kRows,
                               .rows = kRows,
                               .q_heads = layer.q_heads,
                               .kv_heads = layer.kv_heads,
                               .head_dim = layer.head_dim,
                               .window = layer.window,
                               .scale = layer.scale};
    std::vector<float> expected(q.size());
    const std::size_t host_bytes = attention_workspace_bytes(2, kRows, layer.q_heads, layer.head_dim);
    std::vector<std::byte> host_workspace(host_bytes + 64);
    std::byte* const aligned =
        host_workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(host_workspace.data()) % 64) % 64;
    kernels::attention(threads, shape, q.data(), layer.q_width(), host.view(), host.view(), expected.data(), aligned);
    const std::size_t bytes = cuda::attention_bytes(kRows, kTokens, layer.window, layer.q_heads, layer.head_dim);
    float* const out = upload(std::vector<float>(q.size(), std::numeric_limits<float>::quiet_NaN()));
    ASSERT_TRUE(attention_->run(kStream, shape, upload(q), layer.q_width(), on_card.view, on_card.view, out,
                                take(bytes), bytes));
    const std::vector<float> got = download(out, q.size());

    const auto longest = [&](const std::vector<float>& rows_of, double& largest) {
      double most = 0;
      for (std::size_t i = 0; i < rows_of.size(); i += layer.head_dim) {
        double sum = 0;
        for (std::size_t e = 0; e < layer.head_dim; ++e) {
          const double value = std::abs(static_cast<double>(rows_of[i + e]));
          sum += value * value;
          largest = std::max(largest, value);
        }
        most = std::max(most, std::sqrt(sum));
      }
      return most;
    };
    double largest_value = 0;
    double unused = 0;
    const double largest_dot =
        longest(q, unused) * longest(as_stored(k, layer.types.k), unused) * static_cast<double>(layer.scale);
    longest(as_stored(v, layer.types.v), largest_value);
    const double score_error = (static_cast<double>(layer.head_dim) + 4) * 0x1p-24 * largest_dot;
    constexpr std::size_t kTiles = kTokens / 64 + 2;
    const double chain = 64.0 + 4.0 * static_cast<double>(kTiles);
    const double tolerance = 2 * largest_value * 2 * (score_error + chain * 0x1p-24);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(expected[i]), tolerance) << i;
  }
}

TEST_F(CudaAttention, NanReachesTheOutputAndExtremeScoresStayFinite) {
  const Layer layer{.q_heads = 2, .kv_heads = 1, .head_dim = 16, .window = 0};
  for (std::size_t position : {100ul, 600ul}) {
    for (int where = 0; where < 3; ++where) {
      for (std::size_t chunk : {10ul, 1ul}) {
        Sequence sequence(layer, 610);
        const std::size_t width = where == 0 ? layer.q_width() : layer.kv_width();
        (where == 0   ? sequence.q
         : where == 1 ? sequence.k
                      : sequence.v)[position * width] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> out = run(layer, sequence, chunk);
        for (std::size_t i = 0; i < position * layer.q_width(); ++i)
          ASSERT_FALSE(std::isnan(out[i])) << position << ' ' << where;
        EXPECT_TRUE(std::isnan(out[position * layer.q_width()])) << position << ' ' << where << ' ' << chunk;
      }
    }
  }
  const Layer extreme{
      .q_heads = 1, .kv_heads = 1, .head_dim = 32, .window = 0, .types = {KvType::F32, KvType::F32}, .scale = 100.0f};
  for (float value : run(extreme, Sequence(extreme, 200), 200)) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace ebb::kernels
