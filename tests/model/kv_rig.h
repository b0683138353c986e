// Caches on fake devices without a model: rows hold bytes that name their layer, position, head and chat, so that a row
// in the wrong place, or of another chat, is seen.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "model/kv_cache.h"
#include "support/loaded_model.h"

namespace ebb::tests {

inline constexpr std::size_t kRigPage = 4 * kKiB;

/// Ten layers, three of them global; a window that is no whole number of runs.
inline model::Config rig_config() {
  model::Config config;
  config.layers = 10;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.window_tokens = 40;
  config.global = {false, false, true, false, false, true, false, false, true, false};
  return config;
}

inline model::KvOptions rig_options(std::size_t rewind_tokens = 24) {
  using kernels::KvType;
  return {{KvType::Q8_0, KvType::Q4_0}, {KvType::F16, KvType::Q8_0}, 400, rewind_tokens};
}

/// Two cards and a host, all of them fakes, so that each can be told to fail. The last layers are at home in the host.
class KvRig {
 public:
  explicit KvRig(model::Config config = rig_config(), std::size_t page_bytes = kRigPage, std::size_t total_bytes = kGiB)
      : config_(std::move(config)) {
    for (std::size_t idx = 0; idx < 3; ++idx) {
      devices_.push_back(must(device::FakeDevice::open(total_bytes, page_bytes)));
      pools_.push_back(std::make_unique<memory::PagePool>(*devices_.back(), ledger_, memory::PoolOptions{0}));
    }
  }

  [[nodiscard]] model::KvPools homes() const {
    model::KvPools homes;
    for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
      homes.layers.push_back(pools_[layer_idx * 3 / config_.layers].get());
    }
    homes.host = pools_[2].get();
    return homes;
  }
  [[nodiscard]] std::unique_ptr<model::KvCache> create(memory::OwnerId owner, const model::KvOptions& options = rig_options()) {
    return must(model::KvCache::create(homes(), owner, config_, options));
  }

  [[nodiscard]] const model::Config& config() const { return config_; }
  [[nodiscard]] memory::Ledger& ledger() { return ledger_; }
  [[nodiscard]] device::FakeDevice& card(std::size_t idx) { return *devices_[idx]; }
  [[nodiscard]] device::FakeDevice& host() { return *devices_[2]; }
  [[nodiscard]] std::size_t device_count() const { return devices_.size(); }

  [[nodiscard]] std::size_t tag_bytes(memory::Tag tag) const {
    std::size_t bytes = 0;
    for (const auto& sums : ledger_.snapshot().devices) bytes += sums.by_tag[static_cast<std::size_t>(tag)];
    return bytes;
  }
  /// What the devices count as ours, by device, after everything given up is back.
  [[nodiscard]] std::vector<std::size_t> floor() {
    std::vector<std::size_t> ours;
    for (std::size_t idx = 0; idx < pools_.size(); ++idx) {
      must(pools_[idx]->drain());
      pools_[idx]->trim();
      pools_[idx]->check_invariants();
      ours.push_back(devices_[idx]->status().ours_bytes);
    }
    return ours;
  }

  /// Stores the next `rows` tokens in one layer, as a forward pass does.
  void store(model::KvCache& cache, std::size_t layer_idx, std::size_t rows, std::uint32_t salt) const {
    const std::size_t first_pos = cache.length();
    kernels::KvView fresh;
    fresh.types = cache.options().types(config_.global[layer_idx]);
    fresh.slots = rows;
    fresh.run_tokens = rows;
    fresh.k_head_stride_bytes = rows * row_bytes(fresh.types.k);
    fresh.v_head_stride_bytes = rows * row_bytes(fresh.types.v);
    std::vector<std::byte> k(config_.kv_heads * fresh.k_head_stride_bytes), v(config_.kv_heads * fresh.v_head_stride_bytes);
    fresh.k = k.data();
    fresh.v = v.data();
    store_rows(fresh, layer_idx, first_pos, first_pos + rows, salt);
    for (const kernels::RowsCopy& copy : cache.leaving(layer_idx, fresh, first_pos, rows)) must(ops_->copy_rows(copy));
    const kernels::KvView view = cache.layer(layer_idx);
    store_rows(view, layer_idx, first_pos + rows - std::min(rows, view.slots), first_pos + rows, salt);
  }
  /// Stores `count` tokens of chat `salt` as a forward pass does, in chunks.
  Status try_append(model::KvCache& cache, std::size_t count, std::uint32_t salt, std::size_t chunk = 50) const {
    while (count != 0) {
      const std::size_t rows = std::min(count, chunk);
      EBB_TRY(cache.reserve(rows));
      for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) store(cache, layer_idx, rows, salt);
      cache.advance(rows);
      count -= rows;
    }
    return {};
  }
  void append(model::KvCache& cache, std::size_t count, std::uint32_t salt, std::size_t chunk = 50) const {
    must(try_append(cache, count, salt, chunk));
  }

  /// Whether every row that a next token would see is what chat `salt` stored; rows below `from` are of `salt_before`.
  [[nodiscard]] testing::AssertionResult holds(const model::KvCache& cache, std::uint32_t salt, std::size_t from = 0,
                                               std::uint32_t salt_before = 0) const {
    for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
      const kernels::KvView view = cache.layer(layer_idx);
      const std::size_t seen = config_.global[layer_idx] ? cache.length() : std::min(cache.length(), config_.window_tokens);
      for (std::size_t pos = cache.length() - seen; pos < cache.length(); ++pos) {
        for (std::size_t head = 0; head < config_.kv_heads; ++head) {
          const Row row{layer_idx, pos, head, pos < from ? salt_before : salt};
          const bool k_holds = bytes_are(view.k + view.offset_k(head, pos, config_.head_dim), row_bytes(view.types.k), row, 'k');
          const bool v_holds = bytes_are(view.v + view.offset_v(head, pos, config_.head_dim), row_bytes(view.types.v), row, 'v');
          if (k_holds && v_holds) continue;
          return testing::AssertionFailure() << "layer " << layer_idx << ", position " << pos << ", head " << head;
        }
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  struct Row {
    std::size_t layer_idx, pos, head;
    std::uint32_t salt;
  };

  [[nodiscard]] std::size_t row_bytes(kernels::KvType type) const { return kernels::kv_row_bytes(type, config_.head_dim); }

  static std::byte row_byte(const Row& row, char half, std::size_t idx) {
    std::uint64_t mixed = row.layer_idx * 0x9E3779B97F4A7C15U + row.pos * 0xC2B2AE3D27D4EB4FU + row.head * 0x165667B19E3779F9U +
                          row.salt * 0x27D4EB2F165667C5U + static_cast<std::uint64_t>(half);
    mixed ^= mixed >> 29U;
    mixed *= 0xBF58476D1CE4E5B9U;
    return static_cast<std::byte>(mixed >> (8 * (idx % 8)));
  }
  static bool bytes_are(const std::byte* at, std::size_t count, const Row& row, char half) {
    for (std::size_t idx = 0; idx < count; ++idx) {
      if (at[idx] != row_byte(row, half, idx)) return false;
    }
    return true;
  }
  void store_rows(const kernels::KvView& to, std::size_t layer_idx, std::size_t first_pos, std::size_t end_pos,
                  std::uint32_t salt) const {
    for (std::size_t pos = first_pos; pos < end_pos; ++pos) {
      for (std::size_t head = 0; head < config_.kv_heads; ++head) {
        const Row row{layer_idx, pos, head, salt};
        for (std::size_t idx = 0; idx < row_bytes(to.types.k); ++idx) to.k[to.offset_k(head, pos, config_.head_dim) + idx] = row_byte(row, 'k', idx);
        for (std::size_t idx = 0; idx < row_bytes(to.types.v); ++idx) to.v[to.offset_v(head, pos, config_.head_dim) + idx] = row_byte(row, 'v', idx);
      }
    }
  }
  kernels::ThreadPool threads_{1};
  std::unique_ptr<kernels::Ops> ops_ = kernels::host_ops(threads_, kernels::Arithmetic::Exact);
  model::Config config_;
  std::vector<std::unique_ptr<device::FakeDevice>> devices_;
  memory::Ledger ledger_;
  std::vector<std::unique_ptr<memory::PagePool>> pools_;
};

inline void set_rule(device::FakeDevice& device, std::optional<device::FailRule> rule) {
  device::FakeSettings settings;
  settings.fail.emplace(rule);
  device.apply(settings);
}

inline constexpr device::FakeCall kCalls[] = {device::FakeCall::Reserve, device::FakeCall::Create,
                                             device::FakeCall::Map,     device::FakeCall::Access,
                                             device::FakeCall::Unmap,   device::FakeCall::Release,
                                             device::FakeCall::Copy};

/// Fails the nth call of each kind on each device while `act` runs, until `act` makes no nth call of that kind.
/// Returns how many positions failed. `act` says whether it succeeded; `check` sees the state after each failure.
template <typename Act, typename Check>
std::size_t each_position_fails(KvRig& rig, const Act& act, const Check& check) {
  std::size_t positions = 0;
  for (std::size_t idx = 0; idx < rig.device_count(); ++idx) {
    for (const device::FakeCall call : kCalls) {
      for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE("device " + std::to_string(idx) + ", call " + std::to_string(static_cast<int>(call)) + ", nth " +
                     std::to_string(nth));
        const std::uint64_t before = rig.card(idx).status().calls_of(call);
        set_rule(rig.card(idx), device::FailRule{call, nth, 1});
        const bool done = act();
        const bool reached = rig.card(idx).status().calls_of(call) - before >= nth;
        set_rule(rig.card(idx), std::nullopt);
        check(done);
        if (testing::Test::HasFatalFailure() || !reached) break;
        ++positions;
      }
    }
  }
  return positions;
}

}  // namespace ebb::tests
