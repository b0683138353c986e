// Keys and values of one conversation, in growable ranges: global layers keep every position, windowed layers a ring of
// exactly `window` slots. Layers of one kind and one home share ranges, so that a short chat costs few pages. Positions
// that left a window are remembered in host memory for a bounded number of tokens, so that an answer can be taken back
// without evaluating the prompt again. All of it can be parked in host memory and come back under the same addresses.
// Called by model/forward and engine/. Owns its regions; dropping it gives every byte back.
// Invariant: a call that fails has lost nothing, and can be made again (reserve() names the one exception).
// Source    spec/memory: contiguous growable ranges, exact rings, undo log; docs/decisions/0008-kv-layout.md and
//           0010-kv-parking.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/ops.h"
#include "memory/ledger.h"
#include "memory/region.h"
#include "model/config.h"
#include "model/internal/kv_layout.h"

namespace ebb::model {

class CopyBatch;

struct KvOptions {
  kernels::KvTypes global;  // of global layers
  kernels::KvTypes local;   // of windowed layers
  std::size_t max_tokens = 0;        // addresses are reserved for so many
  std::size_t rewind_tokens = 1024;  // how many tokens can be taken back once a window is full

  [[nodiscard]] kernels::KvTypes types(bool is_global) const { return is_global ? global : local; }
  /// The longer row of both kinds, for K and for V: for a buffer that serves all layers.
  [[nodiscard]] kernels::KvTypes widest() const;
};

/// Where a cache lives. Pools outlive it.
struct KvPools {
  std::vector<memory::PagePool*> layers;  // home of each layer
  memory::PagePool* host = nullptr;       // the rewind record and parked copies; may be a home too
};

/// Whole pages of some layers' keys and values.
struct KvFootprint {
  std::size_t global_bytes = 0;
  std::size_t local_bytes = 0;
  std::size_t record_bytes = 0;
};

/// What of a conversation the bytes of contents() hold.
struct KvExtent {
  std::size_t length = 0;       // tokens
  std::size_t first_kept = 0;   // the record holds positions [first_kept, length - window)
  std::size_t record_base = 0;  // the position whose row stands first in the record
};

class KvCache {
 public:
  static constexpr std::size_t kRunTokens = kKvRunTokens;

  /// Reserves addresses; commits nothing. Errors: OutOfMemory.
  [[nodiscard]] static Result<std::unique_ptr<KvCache>> create(const KvPools& pools, memory::OwnerId owner,
                                                               const Config& config, const KvOptions& options);
  /// What `tokens` tokens cost `layers`, in pages of page_bytes. Exact when these are all layers of one home; the record,
  /// in host memory, is one for all layers together.
  [[nodiscard]] static KvFootprint footprint(const Config& config, const KvOptions& options,
                                             std::span<const std::size_t> layers, std::size_t tokens, std::size_t page_bytes);
  /// Rows of K and V that `tokens` tokens fill in one layer, without rounding.
  [[nodiscard]] static std::size_t live_bytes(const Config& config, const KvOptions& options, std::size_t layer_idx,
                                              std::size_t tokens);
  /// Bytes of K and V of one token over all layers, before any window is full.
  [[nodiscard]] static std::size_t bytes_per_token(const Config& config, const KvOptions& options);

  [[nodiscard]] std::size_t length() const { return length_; }  // tokens held
  [[nodiscard]] std::size_t max_tokens() const { return options_.max_tokens; }
  [[nodiscard]] const KvOptions& options() const { return options_; }

  /// Makes room for `count` more tokens, restored if it was parked, in pages that no fork sees. count must fit
  /// max_tokens().
  /// Errors   OutOfMemory; Io, DeviceLost of a copy. A driver that takes a shared page away and then maps neither its copy
  /// nor the page itself has lost the conversation: length() is 0, can_rewind() allows 0 alone, and until rewind(0) this
  /// is an error.
  [[nodiscard]] Status reserve(std::size_t count);
  /// Where a layer's keys and values are. Valid until the next call that changes the cache's size or place.
  [[nodiscard]] kernels::KvView layer(std::size_t layer_idx) const;
  /// What to copy, by whoever stores the rows, before positions [first_pos, first_pos + rows) of a layer are stored: the rows
  /// that they will push out of the window, from the ring and from `fresh`, which holds those positions themselves.
  [[nodiscard]] std::array<kernels::RowsCopy, 2> leaving(std::size_t layer_idx, const kernels::KvView& fresh,
                                                         std::size_t first_pos, std::size_t rows) const;
  /// Undoes a step that was cut short after layers [0, layer_count) had stored `rows` rows past length(): windows are filled
  /// again from the record, and pages go back. A record of fewer rewind tokens than the step overwrote loses the
  /// conversation, as reserve() says.
  void abandon(std::size_t rows, std::size_t layer_count);
  /// Gives up everything after a step that ended at an unknown place: the conversation is lost, as reserve() says.
  void lose();
  /// All layers hold `count` more tokens now.
  void advance(std::size_t count);

  /// Whether rewind(count) can restore every window.
  [[nodiscard]] bool can_rewind(std::size_t count) const;
  /// Forgets positions from `count` on and gives pages back. can_rewind(count) must hold. A parked cache is rewound where
  /// it lies and stays parked.
  /// Errors   Io, DeviceLost of a copy that fills a window again: the conversation is lost, as reserve() says.
  [[nodiscard]] Status rewind(std::size_t count);
  /// Gives the rewind record back: until it has filled again, can_rewind() says no to any cut that a window has passed.
  void drop_record();

  /// Copies what homes other than the host pool hold into the host pool (tag parked) and gives those homes' pages back;
  /// addresses stay. Layers at home in the host pool are left where they are.
  /// Errors   OutOfMemory of the host pool; Io, DeviceLost of a copy.
  [[nodiscard]] Status park();
  /// Back under the same addresses. Errors: OutOfMemory, Io, DeviceLost; it is still parked.
  [[nodiscard]] Status restore();
  [[nodiscard]] bool parked() const { return parked_; }

  /// A second conversation from the first `tokens` tokens of this one, which is restored if it was parked. Whole pages of
  /// global layers are shared until either side is rewound below the fork and goes on; all else is copied. The other has
  /// no record of what its windows left; neither ever sees what the other stores.
  /// Errors   InvalidArgument where can_rewind(tokens) says no; OutOfMemory; Io, DeviceLost of a copy.
  [[nodiscard]] Result<std::unique_ptr<KvCache>> fork(memory::OwnerId owner, std::size_t tokens);

  /// What contents() hold.
  [[nodiscard]] KvExtent extent() const { return {length_, first_kept_, record_base_}; }
  /// Runs in use, for a file: layer by layer in order, the record after them; the order does not depend on homes. Slots
  /// that hold no token are zeroed, so that equal chats are equal bytes and what was taken back stays out of the file;
  /// only where they are shared with a fork, and no memory for own copies is left, they stay.
  /// The host can read and write them where homes are host memory, and always of a parked cache. Valid as layer().
  [[nodiscard]] std::vector<std::span<std::byte>> contents();
  /// All bytes that contents() would have at `extent`.
  [[nodiscard]] static std::size_t contents_bytes(const Config& config, const KvOptions& options, const KvExtent& extent);
  /// Sizes an empty cache so that contents() can be filled with what a cache of equal options (max_tokens apart) gave at
  /// this extent; it is parked afterwards and holds extent.length tokens. Errors: BadFile for an extent that no such
  /// cache can have; OutOfMemory. The cache is empty as before.
  [[nodiscard]] Status prepare(const KvExtent& extent);

  [[nodiscard]] std::size_t committed_bytes() const { return device_bytes() + host_bytes(); }
  [[nodiscard]] std::size_t device_bytes() const;  // in pools other than the host pool
  [[nodiscard]] std::size_t host_bytes() const;    // in the host pool, parked copies and record included
  [[nodiscard]] std::size_t record_bytes() const;

 private:
  struct Range {
    KvRangeLayout layout;
    memory::PagePool* home = nullptr;
    memory::Region region;
    memory::Region parked;  // in the host pool, while its home is another and the cache is parked

    [[nodiscard]] memory::Region& at(bool is_parked) { return is_parked ? parked : region; }
    [[nodiscard]] const memory::Region& at(bool is_parked) const { return is_parked ? parked : region; }
  };
  struct Place {
    std::size_t range_idx = 0;
    std::size_t layer_in_range = 0;
  };

  KvCache(const KvPools& pools, memory::OwnerId owner, const Config& config, const KvOptions& options);
  [[nodiscard]] Status add_layers(bool is_global);
  [[nodiscard]] Status add_range(KvRangeLayout layout, memory::PagePool& home, memory::Tag tag, std::vector<Range>& ranges,
                                 std::vector<Place>& places);
  [[nodiscard]] bool is_global(const Range& range) const { return config_.global[range.layout.layers.front()]; }
  [[nodiscard]] bool is_away(const Range& range) const { return parked_ && range.home != pools_.host; }
  [[nodiscard]] kernels::KvView record(std::size_t layer_idx) const;
  void add_contents(const KvRangeLayout& layout, const kernels::KvView& view, std::size_t tokens, bool may_wipe,
                    std::vector<std::span<std::byte>>& spans) const;
  [[nodiscard]] Status resize(std::size_t tokens);
  /// Positions [0, left) are outside every window of so many tokens.
  [[nodiscard]] std::size_t left_windows(std::size_t tokens) const { return tokens > window_tokens_ ? tokens - window_tokens_ : 0; }

  /// Gives `to` the windows as they were after `tokens` tokens; its rings hold the newer rows of this cache.
  [[nodiscard]] Status restore_windows(std::size_t tokens, const KvCache& to) const;
  /// Starts to copy positions of one layer from this cache's record to the window of `to`.
  [[nodiscard]] Status refill(std::size_t layer_idx, const KvCache& to, std::size_t first_pos, std::size_t end_pos, CopyBatch& copies) const;
  [[nodiscard]] Status take_front(std::size_t range_idx, const Range& source, std::size_t tokens, CopyBatch& copies);
  /// Own copies of what is shared at and after the next token's page. Errors: as reserve().
  [[nodiscard]] Status own_end();

  [[nodiscard]] Status open_parked(std::size_t tokens);
  void drop_parked();
  enum class Way : std::uint8_t { Out, Back };
  [[nodiscard]] Status copy_parked(Way way);

  KvPools pools_;
  memory::OwnerId owner_;
  Config config_;
  std::size_t window_tokens_;
  KvOptions options_;
  std::vector<Range> ranges_;         // global ones first
  std::vector<Place> places_;         // by layer
  std::vector<Range> record_ranges_;  // positions that left the windows, windowed layers only
  std::vector<Place> record_places_;  // by layer; unused for global ones
  std::size_t length_ = 0;
  std::size_t first_kept_ = 0;   // positions [first_kept_, left_windows(length_)) can be restored
  std::size_t record_base_ = 0;  // the record counts positions from here, so that it grows from nothing after a drop
  bool parked_ = false;
  bool is_lost_ = false;  // some rows are gone; empty until rewind(0) says that the caller knows
};

}  // namespace ebb::model
