// Gemma 3's text model: weights bound to their shapes, and the forward pass over one conversation's cache.
// Accepts tokens, gives logits; knows no text, no sampling, no template. Called by engine/.
// Each unit of weights has a home, where its keys, values and activations are; its weights are there, on the host, or, while
// the model is unloaded, nowhere. A token's logits depend on the tokens before it alone, bit for bit, however they were cut
// into chunks and wherever weights are.
// Threads   one caller at a time.
// Source    spec/gemma3: text forward pass; transformers modeling_gemma3.py in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/tensor_view.h"
#include "kernels/attention.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "memory/page_pool.h"
#include "memory/region.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "model/model_options.h"
#include "model/scratch.h"
#include "weights/unit.h"

namespace ebb::weights {
class WeightStore;
}

namespace ebb::model {

using kernels::KvType;
using weights::UnitId;

/// The home of each unit. Pools may repeat; `host` may be one of the others.
struct Placement {
  std::vector<memory::PagePool*> layers;  // one a layer
  memory::PagePool* output = nullptr;
  memory::PagePool* host = nullptr;  // the store's host pool: home of the embedding, refuge of every other unit
};

/// Called for each wanted row in order. `logits` [vocabulary] f32 is valid during the call, the last one until the next
/// forward.
using LogitSink = std::function<void(std::size_t row_idx, std::span<const float> logits)>;

class Model {
 public:
  /// Checks all shapes, then puts every unit at its home. `store` outlives the model.
  /// Errors   BadFile naming tensor and shapes, Unsupported: nothing was placed. OutOfMemory, DeviceLost: all was given back.
  [[nodiscard]] static Result<std::unique_ptr<Model>> load(weights::WeightStore& store, const Placement& placement,
                                                           const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;  // owns scratch and threads
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }
  [[nodiscard]] std::size_t vocabulary() const { return config_.vocabulary(); }

  /// Moves a unit's weights to its home or to the host. The model is loaded.
  /// Errors   OutOfMemory, Io, DeviceLost: the unit is where it was.
  [[nodiscard]] Status move_weights(UnitId unit, memory::PagePool& to);
  /// Gives the weights of all units back; the file stays mapped.
  void unload_weights();
  /// Puts each unit where it was before unload_weights(). Errors: as move_weights; nothing is loaded then.
  [[nodiscard]] Status load_weights();
  [[nodiscard]] bool loaded() const { return loaded_; }
  /// Null while the model is unloaded.
  [[nodiscard]] memory::PagePool* weights_at(UnitId unit) const;

  /// Evaluates `tokens` after what `cache` holds, and gives logits of rows [first_logit_row, tokens.size()) to `sink`;
  /// pass tokens.size() for none. The cache holds the tokens on success and is as before on failure; only where a device
  /// refused work in the middle of a layer, or a copy between homes failed and the rewind record is shorter than the step, it
  /// is lost, as KvCache::reserve() says.
  /// Shape    1 to chunk_tokens ids, each below vocab_rows; they fit the cache, whose layers have the model's homes. The
  ///          model is loaded.
  /// Errors   OutOfMemory; Io; DeviceLost.
  [[nodiscard]] Status forward(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row,
                               const LogitSink& sink);

  /// Bytes of weights that one decode step reads: every matrix once, of the embedding table one row. The model is loaded.
  [[nodiscard]] std::size_t step_weight_bytes() const;
  /// Reads those bytes once with all threads and nothing else, for the ceiling of decoding. Returns a sum of them.
  std::uint64_t read_step_weights();

  /// From now on steps have at most so many tokens, 1 to those of load(); scratch past such a step is given back.
  void set_chunk_tokens(std::size_t count);
  /// Gives the memory of activations back; the next forward takes it again.
  void release_scratch();
  /// On all homes, in whole pages.
  [[nodiscard]] std::size_t scratch_bytes() const;
  /// Bytes of scratch on one home for a step of so many rows, before rounding to pages.
  [[nodiscard]] static std::size_t scratch_footprint(const Config& config, const ModelOptions& options, kernels::KvTypes kv_types,
                                                     std::size_t rows, std::size_t logit_rows, bool has_output,
                                                     device::Kind kind);
  /// Bytes of host memory through which a card gets embedded rows and gives logits, in such a step; 0 on the host.
  [[nodiscard]] static std::size_t staging_footprint(const Config& config, std::size_t rows, std::size_t logit_rows,
                                                     device::Kind first_home, device::Kind output_home);

 private:
  struct Layer {
    bool global = false;
    std::size_t home_idx = 0;
    const float* attn_norm = nullptr;
    const float* q_norm = nullptr;
    const float* k_norm = nullptr;
    const float* post_attn_norm = nullptr;
    const float* ffn_norm = nullptr;
    const float* post_ffn_norm = nullptr;
    TensorView q, k, v, output, gate, up, down;
  };

  Model(Config config, const Placement& placement, const ModelOptions& options, weights::WeightStore& store);
  [[nodiscard]] Status check_shapes() const;
  [[nodiscard]] Status add_homes();
  [[nodiscard]] std::vector<UnitId> units() const;
  [[nodiscard]] memory::PagePool& home(UnitId unit) const;
  void bind(UnitId unit);
  [[nodiscard]] Status begin_step(std::size_t rows);
  [[nodiscard]] Status lay_out(const StepShape& step);
  [[nodiscard]] Status pass(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row);
  [[nodiscard]] Status cross(std::size_t from_idx, std::size_t to_idx, std::size_t first_row, std::size_t rows);
  [[nodiscard]] Status run_layer(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows);
  [[nodiscard]] Status attend(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows);
  [[nodiscard]] kernels::Ops& ops(const Layer& layer) const { return *home_ops_[layer.home_idx]; }
  [[nodiscard]] std::span<std::byte> staging() const { return {staging_.data(), staging_.committed_bytes()}; }
  [[nodiscard]] std::size_t staging_bytes(const StepShape& step) const;
  [[nodiscard]] std::vector<TensorView> step_weights() const;
  [[nodiscard]] Status emit_logits(std::size_t first_row, std::size_t rows, const LogitSink& sink);

  Config config_;
  Placement placement_;
  ModelOptions options_;
  std::size_t max_chunk_tokens_;
  weights::WeightStore& store_;
  kernels::ThreadPool threads_;
  bool loaded_ = false;
  std::vector<memory::PagePool*> targets_;  // of units(), in that order: where load_weights() puts them
  TensorView embedding_, head_;
  const float* output_norm_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<Scratch> homes_;  // one a distinct home, in the order of the layers, the output's last
  std::vector<std::unique_ptr<kernels::Ops>> home_ops_;  // by home: what computes there
  memory::Region staging_;  // on the host, for a card's copies
  std::size_t output_home_idx_ = 0;
  StepShape last_step_;
};

}  // namespace ebb::model
