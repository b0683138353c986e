// Keys and values of one conversation, in growable ranges: global layers keep every position, windowed layers a ring of
// exactly `window` slots. Layers that fit share a range, so that a short chat costs few pages. Addresses stay while it
// grows. Positions that left a window are remembered for a bounded number of tokens, so that an answer can be taken back
// without evaluating the prompt again.
// Called by model/forward and engine/. Owns its regions; dropping it gives every byte back.
// Layout    a run is 32 tokens: [run][layer of the range][K, V][kv_heads][32][head_dim].
// Source    spec/memory: contiguous growable ranges, exact rings, undo log; docs/decisions/ for sizes on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "memory/ledger.h"
#include "memory/region.h"
#include "model/config.h"

namespace ebb::model {

struct KvOptions {
  kernels::KvType type = kernels::KvType::F16;
  std::size_t max_tokens = 0;      // addresses are reserved for so many
  std::size_t rewind_tokens = 1024;  // how many tokens can be taken back once a window is full
};

class KvCache {
 public:
  static constexpr std::size_t kRunTokens = 32;

  /// Reserves addresses; commits nothing. Errors: OutOfMemory.
  [[nodiscard]] static Result<std::unique_ptr<KvCache>> create(memory::PagePool& pool, memory::OwnerId owner,
                                                               const Config& config, const KvOptions& options);

  [[nodiscard]] std::size_t length() const { return length_; }  // tokens held
  [[nodiscard]] std::size_t max_tokens() const { return options_.max_tokens; }
  [[nodiscard]] kernels::KvType type() const { return options_.type; }

  /// Makes room for `count` more tokens. Errors: OutOfMemory; nothing changed. count must fit max_tokens().
  [[nodiscard]] Status reserve(std::size_t count);
  /// Where a layer's keys and values are. Valid until the cache is dropped.
  [[nodiscard]] kernels::KvView layer(std::size_t layer_idx) const;
  /// Before positions [first_pos, first_pos + rows) of a windowed layer are stored: keeps what they will overwrite.
  /// `fresh` holds those positions themselves, some of which may leave the window at once.
  void keep_leaving(std::size_t layer_idx, const kernels::KvView& fresh, std::size_t first_pos, std::size_t rows);
  /// All layers hold `count` more tokens now.
  void advance(std::size_t count);

  /// Whether rewind(count) can restore every window.
  [[nodiscard]] bool can_rewind(std::size_t count) const;
  /// Forgets positions from `count` on and gives pages back. can_rewind(count) must hold.
  [[nodiscard]] Status rewind(std::size_t count);

  [[nodiscard]] std::size_t committed_bytes() const;
  /// Bytes of K and V of one token over all layers, before any window is full.
  [[nodiscard]] static std::size_t bytes_per_token(const Config& config, kernels::KvType type);

 private:
  /// Layers that share a range of addresses.
  struct Range {
    memory::Region region;
    std::size_t layer_count = 0;
    std::size_t run_bytes = 0;
    std::size_t slots = 0;  // capacity in tokens
  };
  struct Place {
    std::size_t range_idx = 0;
    std::size_t layer_in_range = 0;
  };

  KvCache(const Config& config, const KvOptions& options);
  [[nodiscard]] Status add_layers(memory::PagePool& pool, memory::OwnerId owner, const std::vector<std::size_t>& layers,
                                  memory::Tag tag, std::size_t slots, std::vector<Range>& ranges, std::vector<Place>& places);
  [[nodiscard]] kernels::KvView view(const std::vector<Range>& ranges, const Place& place) const;
  [[nodiscard]] Status resize(std::size_t tokens);
  void copy_position(const kernels::KvView& from, const kernels::KvView& to, std::size_t pos) const;
  [[nodiscard]] std::size_t oldest_kept() const;

  std::size_t kv_heads_, head_dim_, window_tokens_;
  std::vector<bool> global_;
  KvOptions options_;
  std::vector<Range> ranges_;       // both kinds; slots tell which
  std::vector<Place> places_;       // by layer
  std::vector<Range> kept_ranges_;  // positions that left the windows, windowed layers only
  std::vector<Place> kept_places_;  // by layer; unused for global ones
  std::size_t length_ = 0;
  std::size_t first_kept_ = 0;  // positions [first_kept_, length_ - window) can be restored
};

}  // namespace ebb::model
