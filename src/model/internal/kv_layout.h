// Where each layer's keys and values lie, and how many bytes so many tokens take. Pure arithmetic, without memory: the
// cache that commits bytes and the plan that foretells them both ask here, so that they cannot differ.
// Layout    a run is 32 tokens: [run][layer of the range][K, V][kv_heads][32 rows]; a row is kv_row_bytes().
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "model/config.h"

namespace ebb::model {

inline constexpr std::size_t kKvRunTokens = 32;

/// Layers that share one range of addresses.
struct KvRangeLayout {
  std::vector<std::size_t> layers;
  kernels::KvTypes types;
  std::size_t kv_heads = 0;
  std::size_t slots = 0;  // capacity in tokens; positions past it take the slots of the oldest
  std::size_t k_head_bytes = 0;  // K of one head and one layer in one run
  std::size_t v_head_bytes = 0;

  [[nodiscard]] std::size_t layer_run_bytes() const { return kv_heads * (k_head_bytes + v_head_bytes); }
  [[nodiscard]] std::size_t run_bytes() const { return layers.size() * layer_run_bytes(); }
  /// Runs that so many tokens touch.
  [[nodiscard]] std::size_t runs(std::size_t tokens) const;
  [[nodiscard]] std::size_t bytes(std::size_t tokens) const { return runs(tokens) * run_bytes(); }
  /// Keys and values of the layer that stands at `layer_in_range`, for a range that begins at `data`.
  [[nodiscard]] kernels::KvView view(std::byte* data, std::size_t layer_in_range) const;
};

/// Layers with full attention, or those with a window, in order.
[[nodiscard]] std::vector<std::size_t> layers_of_kind(const Config& config, bool is_global);

/// As many of `layers`, in their order, share a range as fit a run of 2 MiB, evenly spread.
[[nodiscard]] std::vector<KvRangeLayout> lay_out_ranges(const Config& config, kernels::KvTypes types,
                                                        std::span<const std::size_t> layers, std::size_t slots);

}  // namespace ebb::model
