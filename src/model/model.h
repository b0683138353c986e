// Gemma 3's text model: weights bound to their shapes, and the forward pass over one conversation's cache.
// Accepts tokens, gives logits; knows no text, no sampling, no template. Called by engine/.
// A token's logits depend on the tokens before it alone, bit for bit, however they were cut into chunks.
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
#include "kernels/matmul.h"
#include "kernels/thread_pool.h"
#include "memory/region.h"
#include "model/config.h"
#include "model/kv_cache.h"

namespace ebb::weights {
class WeightStore;
}

namespace ebb::model {

using kernels::Arithmetic;
using kernels::KvType;

struct ModelOptions {
  Arithmetic arithmetic = Arithmetic::Quantized;
  int threads = 1;
  std::size_t chunk_tokens = 512;  // most tokens of one forward call
};

/// Called for each wanted row in order. `logits` [vocabulary] f32 is valid during the call, the last one until the next
/// forward.
using LogitSink = std::function<void(std::size_t row_idx, std::span<const float> logits)>;

class Model {
 public:
  /// Binds all weights. Errors: BadFile naming tensor and shapes; Unsupported; OutOfMemory.
  [[nodiscard]] static Result<std::unique_ptr<Model>> load(weights::WeightStore& store, memory::PagePool& pool,
                                                           const ModelOptions& options);
  Model(const Model&) = delete;  // owns scratch and threads
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }
  /// Rows of logits: real tokens only.
  [[nodiscard]] std::size_t vocabulary() const { return head_.rows; }

  /// Evaluates `tokens` after what `cache` holds, and gives logits of rows [first_logit_row, tokens.size()) to `sink`;
  /// pass tokens.size() for none. The cache holds the tokens on success and is as before on failure.
  /// Shape    1 to chunk_tokens ids, each below vocab_rows; they fit the cache.
  /// Errors   OutOfMemory; DeviceLost.
  [[nodiscard]] Status forward(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row,
                               const LogitSink& sink);

  /// Bytes of weights that one decode step reads: every matrix once, of the embedding table one row.
  [[nodiscard]] std::size_t step_weight_bytes() const;
  /// Reads those bytes once with all threads and nothing else, for the ceiling of decoding. Returns a sum of them.
  std::uint64_t read_step_weights();

  /// Gives the memory of activations back; the next forward takes it again.
  void release_scratch();
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_.committed_bytes(); }

 private:
  struct Layer {
    bool global = false;
    const float* attn_norm = nullptr;
    const float* q_norm = nullptr;
    const float* k_norm = nullptr;
    const float* post_attn_norm = nullptr;
    const float* ffn_norm = nullptr;
    const float* post_ffn_norm = nullptr;
    TensorView q, k, v, output, gate, up, down;
  };
  /// Activations of one step, all in the scratch region. [rows, width] f32 unless said otherwise.
  struct Buffers {
    float* x = nullptr;       // residual stream
    float* normed = nullptr;  // input of the next products
    float* q = nullptr;
    float* k = nullptr;
    float* v = nullptr;
    float* attended = nullptr;
    float* gate = nullptr;
    float* up = nullptr;
    float* branch = nullptr;                 // output of a branch before its post norm
    float* rope_local = nullptr;             // [rows, 2, head_dim / 2]
    float* rope_global = nullptr;
    float* logits = nullptr;                 // [logit rows of one block, vocabulary]
    std::byte* input_workspace = nullptr;    // prepared activations
    std::byte* matmul_workspace = nullptr;
    std::byte* attention_workspace = nullptr;
    std::byte* fresh_k = nullptr;            // K and V of the chunk in the cache's type
    std::byte* fresh_v = nullptr;
  };

  Model(Config config, const ModelOptions& options);
  [[nodiscard]] Status bind(weights::WeightStore& store);
  [[nodiscard]] Status bind_layer(weights::WeightStore& store, std::size_t layer_idx);
  [[nodiscard]] Status lay_out(std::size_t rows, std::size_t logit_rows, kernels::KvTypes kv_types);
  void run_layer(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows);
  void attend(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows);
  void product(const float* x, std::size_t rows, std::size_t cols, std::span<const kernels::MatmulProduct> products);
  [[nodiscard]] std::vector<TensorView> step_weights() const;
  void emit_logits(std::size_t first_row, std::size_t rows, const LogitSink& sink);

  Config config_;
  ModelOptions options_;
  kernels::ThreadPool threads_;
  TensorView embedding_, head_;
  const float* output_norm_ = nullptr;
  std::vector<Layer> layers_;
  memory::Region scratch_;
  std::size_t scratch_limit_ = 0;
  memory::PagePool* pool_ = nullptr;
  Buffers buffers_;
};

}  // namespace ebb::model
