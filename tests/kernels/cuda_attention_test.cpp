// kv_store, copied rows and attention on a card. Skipped where this build has no GPU code or the machine no card.
// Cases (S4, S5, S6): every type of keys and of values, head sizes of whole and of partly used lanes (8 to 256) and of an odd
// number of blocks, groups from 1 to 20, windows within, at and across segments of 128, runs that end within a segment, rings
// that wrap, chunks from one row up, all of them against double precision or the CPU; and any chunking giving the same bits.
#include "kernels/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/attention_testing.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{256} << 20;
constexpr std::size_t kArenaStep = 256;
constexpr std::byte kPoison{0xff};  // NaN in every type

/// One layer's rows on the card, laid out as KvMemory does on the host.
struct CardRows {
  KvView view;
  std::size_t bytes = 0;  // of K, and of V
};

/// One card, and memory on it that each case cuts its arrays from.
class CudaAttention : public testing::Test {
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
    attention = std::make_unique<cuda::Attention>(cuda::Attention::find(*code).value());
    rows = std::make_unique<cuda::KvRows>(cuda::KvRows::find(*code).value());
  }

  /// Poisoned memory of the card.
  std::byte* take(std::size_t bytes) {
    std::byte* const address = arena + used;
    used += (bytes + kArenaStep - 1) / kArenaStep * kArenaStep;
    EXPECT_LE(used, kArenaBytes);
    const std::vector<std::byte> poison(bytes, kPoison);
    EXPECT_TRUE(card->copy(kStream, address, poison.data(), bytes));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return address;
  }
  float* upload(const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    std::byte* const address = take(bytes);
    EXPECT_TRUE(card->copy(kStream, address, values.data(), bytes));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return reinterpret_cast<float*>(address);
  }
  template <typename Value>
  std::vector<Value> download(const Value* address, std::size_t count) {
    std::vector<Value> values(count);
    EXPECT_TRUE(card->copy(kStream, values.data(), address, count * sizeof(Value)));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return values;
  }

  CardRows take_rows(KvTypes types, std::size_t slots, std::size_t run_tokens, std::size_t kv_heads, std::size_t head_dim,
                     std::size_t skew = 0) {
    CardRows taken;
    KvView& view = taken.view;
    view = KvMemory(types, slots, run_tokens, kv_heads, head_dim).view();
    taken.bytes = (slots + run_tokens - 1) / run_tokens * view.run_stride_bytes;
    view.k = take(taken.bytes + skew) + skew;
    view.v = take(taken.bytes + skew) + skew;
    return taken;
  }

  /// The sequence in chunks, as a model runs it: stored and attended on the card. `run_tokens` of the past, then of the chunk.
  std::vector<float> run(const Layer& layer, const Sequence& sequence, std::size_t chunk, std::size_t workspace_rows = 64,
                         std::pair<std::size_t, std::size_t> run_tokens = {32, 48}) {
    used = 0;
    const std::size_t tokens = sequence.k.size() / layer.kv_width();
    const CardRows past = take_rows(layer.types, layer.window == 0 ? tokens : layer.window, run_tokens.first, layer.kv_heads,
                                    layer.head_dim);
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
        EXPECT_TRUE(rows->store(kStream, k + first * layer.kv_width(), v + first * layer.kv_width(), layer.kv_width(), first,
                                shape.rows, layer.kv_heads, layer.head_dim, to));
      };
      store(fresh.view);
      EXPECT_TRUE(attention->run(kStream, shape, q + first * layer.q_width(), layer.q_width(), past.view, fresh.view,
                                 out + first * layer.q_width(), workspace, workspace_bytes));
      store(past.view);
    }
    return download(out, sequence.q.size());
  }

  static constexpr device::Stream kStream = device::Stream::Compute;
  std::unique_ptr<device::CudaDevice> card;
  std::unique_ptr<cuda::LoadedCode> code;
  std::unique_ptr<cuda::Attention> attention;
  std::unique_ptr<cuda::KvRows> rows;
  std::byte* arena = nullptr;
  std::size_t used = 0;
};

/// Values that meet every rounding: ordinary ones, ties, halves that overflow or are subnormal, blocks of zeros of both signs, of
/// tiny values (scale 0), of extremes of either sign that tie in magnitude, of values that overflow a scale.
std::vector<float> values_to_store(std::size_t count) {
  std::vector<float> values = random_floats(count, 7, 3.0f);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t block = i / kKvBlock % 12;
    float& value = values[i];
    if (block == 1) value = static_cast<float>(i % 64) / 64 + 0x1p-12f * static_cast<float>(i % 3);
    if (block == 2) value *= 1e6f;
    if (block == 3) value *= 1e-6f;
    if (block == 4) value = i % 2 == 0 ? 0.0f : -0.0f;
    if (block == 5) value *= 1e-12f;
    if (block == 6) value = std::fmod(value, 2.0f) + (i % 7 == 3 ? 5.0f : 0.0f) - (i % 11 == 5 ? 10.0f : 0.0f);
    if (block == 7) value = i % 2 == 0 ? 4.0f : -4.0f;
    if (block == 8) value = i % 2 == 0 ? -4.0f : 4.0f;
    if (block == 9) value *= 1e30f;
    if (block == 10) value = -0.0f;
    if (block == 11) value *= 1e-38f;
  }
  return values;
}

TEST_F(CudaAttention, StoredBytesAreThoseOfTheCpuForEveryType) {
  constexpr std::size_t kHeads = 3;
  constexpr std::size_t kRows = 80;
  constexpr std::size_t kFirstPos = 1000;
  ThreadPool threads(1);
  for (const std::size_t head_dim : {8ul, 32ul, 72ul, 96ul, 256ul}) {
    for (const KvType k_type : kKvTypes) {
      for (const KvType v_type : kKvTypes) {
        if (!kv_supported({k_type, v_type}, head_dim)) continue;
        for (const std::size_t slots : {100ul, 64ul}) {  // room for all, and a ring of fewer than come
          used = 0;
          const std::size_t stride = kHeads * head_dim + 5;
          const std::vector<float> k = values_to_store(kRows * stride);
          std::vector<float> v = k;
          std::reverse(v.begin(), v.end());
          KvMemory expected({k_type, v_type}, slots, 16, kHeads, head_dim);
          kv_store(threads, k.data(), v.data(), stride, kFirstPos, kRows, kHeads, head_dim, expected.view());
          const CardRows to = take_rows({k_type, v_type}, slots, 16, kHeads, head_dim, 2 * kKvBlock);
          const std::vector<std::byte> before(to.bytes, std::byte{0xfe});  // as KvMemory begins
          for (std::byte* address : {to.view.k, to.view.v}) ASSERT_TRUE(card->copy(kStream, address, before.data(), to.bytes));
          ASSERT_TRUE(rows->store(kStream, upload(k), upload(v), stride, kFirstPos, kRows, kHeads, head_dim, to.view));
          const auto same = [&](const std::byte* on_card, const std::byte* on_host) {
            return std::memcmp(download(on_card, to.bytes).data(), on_host, to.bytes) == 0;
          };
          ASSERT_TRUE(same(to.view.k, expected.view().k)) << head_dim << " type " << static_cast<int>(k_type);
          ASSERT_TRUE(same(to.view.v, expected.view().v)) << head_dim << " type " << static_cast<int>(v_type);
        }
      }
    }
  }
}

TEST_F(CudaAttention, StoresNanAndInfinityAsNoNumber) {
  constexpr std::size_t kHeadDim = 64;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const KvType type : kKvTypes) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      used = 0;
      std::vector<float> x(kHeadDim, 1.0f);
      x[5] = broken;
      const CardRows to = take_rows({type, type}, 1, 1, 1, kHeadDim);
      ASSERT_TRUE(rows->store(kStream, upload(x), upload(x), kHeadDim, 0, 1, 1, kHeadDim, to.view));
      const std::vector<std::byte> stored = download(to.view.v, to.bytes);
      const float value = read_stored(stored.data(), type, 5);
      if (in_blocks(type) || std::isnan(broken)) {
        EXPECT_TRUE(std::isnan(value));
      } else if (type == KvType::F16) {
        EXPECT_EQ(value, std::copysign(65504.0f, broken));
      } else {
        EXPECT_EQ(value, broken);
      }
      EXPECT_EQ(read_stored(stored.data(), type, 40), as_stored(std::vector<float>(32, 1.0f), type)[0]);
    }
  }
}

// The rewind record: rows leave a ring, or the chunk itself, for their place in a record, on the card or in locked host memory.
TEST_F(CudaAttention, CopiedRowsAreTheSameBytesAtAnyShift) {
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kSlots = 96;
  constexpr std::size_t kCount = 70;
  constexpr std::size_t kFirstPos = 530;  // wraps in the ring
  constexpr std::size_t kToPos = 41;
  constexpr std::size_t kHostBytes = std::size_t{1} << 20;
  std::byte* const host = static_cast<std::byte*>(std::aligned_alloc(4096, kHostBytes));
  ASSERT_TRUE(card->pin(host, kHostBytes));
  for (const std::size_t head_dim : {32ul, 72ul, 256ul}) {
    for (const KvTypes types : {KvTypes{KvType::F32, KvType::F16}, KvTypes{KvType::BF16, KvType::BF16},
                                KvTypes{KvType::Q8_0, KvType::Q4_0}, KvTypes{KvType::Q4_0, KvType::F16}}) {
      if (!kv_supported(types, head_dim)) continue;
      used = 0;
      const std::vector<float> k = random_floats(kSlots * kHeads * head_dim, 3);
      const std::vector<float> v = random_floats(kSlots * kHeads * head_dim, 4);
      const CardRows from = take_rows(types, kSlots, 32, kHeads, head_dim);
      ASSERT_TRUE(rows->store(kStream, upload(k), upload(v), kHeads * head_dim, kFirstPos - 10, kSlots, kHeads, head_dim, from.view));
      const std::vector<std::byte> from_k = download(from.view.k, from.bytes);
      const std::vector<std::byte> from_v = download(from.view.v, from.bytes);
      const auto check = [&](const KvView& view, const std::byte* to_k, const std::byte* to_v) {
        for (std::size_t i = 0; i < kCount; ++i) {
          for (std::size_t head = 0; head < kHeads; ++head) {
            ASSERT_EQ(std::memcmp(to_k + view.offset_k(head, kToPos + i, head_dim),
                                  from_k.data() + from.view.offset_k(head, kFirstPos + i, head_dim),
                                  kv_row_bytes(types.k, head_dim)),
                      0);
            ASSERT_EQ(std::memcmp(to_v + view.offset_v(head, kToPos + i, head_dim),
                                  from_v.data() + from.view.offset_v(head, kFirstPos + i, head_dim),
                                  kv_row_bytes(types.v, head_dim)),
                      0);
          }
        }
      };
      const CardRows to = take_rows(types, 112, 16, kHeads, head_dim);
      ASSERT_TRUE(rows->copy(kStream, from.view, kFirstPos, kCount, kHeads, head_dim, to.view, kToPos));
      const std::vector<std::byte> to_k = download(to.view.k, to.bytes);
      const std::vector<std::byte> to_v = download(to.view.v, to.bytes);
      check(to.view, to_k.data(), to_v.data());
      const std::size_t untouched = to.view.offset_k(0, kToPos + kCount, head_dim);
      EXPECT_EQ(to_k[untouched], kPoison);

      KvView in_host = to.view;
      in_host.k = host;
      in_host.v = host + kHostBytes / 2;
      ASSERT_LE(to.bytes, kHostBytes / 2);
      ASSERT_TRUE(rows->copy(kStream, from.view, kFirstPos, kCount, kHeads, head_dim, in_host, kToPos));
      ASSERT_TRUE(card->wait(card->fence(kStream).value()));
      check(in_host, in_host.k, in_host.v);
    }
  }
  ASSERT_TRUE(card->unpin(host));
  std::free(host);
}

// The bound of expect_near_reference holds here too. A score: the query is rounded once, a lane has a chain of 8, a tree of at
// most 5 adds them, and a block's scale is one product: 15 roundings at most, fewer than head_dim + 4 from head size 16 on, and
// 10 at 8, where there is no block and no tree. A value: chains of 16 keys, a tree of 2, 8 warps, then head_dim-independent sums
// of a segment in 8, 8 of those, each with a weight of 4 roundings (exp2f is good to 2 units in the last place): below 64 + 4 a
// segment of 64.
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
       {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 100}, Layer{.q_heads = 6, .kv_heads = 3, .head_dim = 48},
        Layer{.q_heads = 4, .kv_heads = 2, .head_dim = 128, .window = 128, .types = {KvType::BF16, KvType::F32}},
        Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 0, .types = {KvType::Q8_0, KvType::Q4_0}},
        Layer{.q_heads = 2, .kv_heads = 1, .head_dim = 96, .window = 129, .types = {KvType::Q4_0, KvType::Q8_0}}}) {
    const Sequence sequence(layer, 600);
    const std::vector<float> whole = run(layer, sequence, 600);
    expect_near_reference(layer, sequence, whole);
    for (std::size_t chunk : {1ul, 2ul, 7ul, 128ul, 333ul}) EXPECT_TRUE(same_bits(run(layer, sequence, chunk), whole)) << chunk;
    EXPECT_TRUE(same_bits(run(layer, sequence, 600, 1), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 600, 600), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 50, 64, {16, 64}), whole));
    EXPECT_TRUE(same_bits(run(layer, sequence, 50, 64, {40, 8}), whole));
  }
}

// Contexts that double precision takes too long for, against the CPU's; both may be off by the bound of expect_near_reference,
// with the product of the longest query and key in place of the largest sum of magnitudes (Cauchy and Schwarz).
TEST_F(CudaAttention, LongContextsEqualTheCpu) {
  constexpr std::size_t kTokens = 8500;
  constexpr std::size_t kRows = 3;
  ThreadPool threads(2);
  for (const Layer& layer : {Layer{.q_heads = 4, .kv_heads = 1, .head_dim = 256, .window = 0, .types = {KvType::F16, KvType::F16}},
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
    ASSERT_TRUE(attention->run(kStream, shape, upload(q), layer.q_width(), on_card.view, on_card.view, out, take(bytes), bytes));
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
    const double largest_dot = longest(q, unused) * longest(as_stored(k, layer.types.k), unused) * static_cast<double>(layer.scale);
    longest(as_stored(v, layer.types.v), largest_value);
    const double score_error = (static_cast<double>(layer.head_dim) + 4) * 0x1p-24 * largest_dot;
    const double chain = 64.0 + 4.0 * static_cast<double>(kTokens / 64 + 2);
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
        (where == 0 ? sequence.q : where == 1 ? sequence.k : sequence.v)[position * width] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> out = run(layer, sequence, chunk);
        for (std::size_t i = 0; i < position * layer.q_width(); ++i) ASSERT_FALSE(std::isnan(out[i])) << position << ' ' << where;
        EXPECT_TRUE(std::isnan(out[position * layer.q_width()])) << position << ' ' << where << ' ' << chunk;
      }
    }
  }
  const Layer extreme{.q_heads = 1, .kv_heads = 1, .head_dim = 32, .window = 0, .types = {KvType::F32, KvType::F32}, .scale = 100.0f};
  for (float value : run(extreme, Sequence(extreme, 200), 200)) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace ebb::kernels
