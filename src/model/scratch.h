// Activations of one step on one home: one region, cut into buffers. Addresses are reserved once, for the largest step;
// pages are committed for the steps that come, so that old and new sizes never exist together.
// Called by Model, and by whoever plans memory: the size that is planned and the cut that is made are the same code.
#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/ops.h"
#include "memory/region.h"
#include "model/config.h"
#include "model/model_options.h"

namespace ebb::model {

inline constexpr std::size_t kLogitRowsPerBlock = 16;  // 16 MiB of float32 logits at 262,144 tokens

/// What a step needs room for.
struct StepShape {
  std::size_t rows = 0;
  std::size_t logit_rows = 0;  // more than a block of them take the room of one block
  kernels::KvTypes kv_types;  // the wider of all layers
};

/// [rows, width] f32 unless said otherwise. Valid until the scratch is laid out again or given back.
struct Buffers {
  float* x = nullptr;       // residual stream
  float* normed = nullptr;  // input of the next products
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* attended = nullptr;
  float* gate = nullptr;
  float* up = nullptr;
  float* branch = nullptr;      // output of a branch before its post norm
  float* rope_local = nullptr;  // [rows, 2, head_dim / 2]
  float* rope_global = nullptr;
  float* logits = nullptr;                    // [logit rows of one block, vocabulary]; none where the output is not
  std::byte* input_workspace = nullptr;       // prepared activations
  std::byte* matmul_workspace = nullptr;
  std::span<std::byte> attention_workspace;
  std::byte* fresh_k = nullptr;  // K and V of the chunk in the cache's types
  std::byte* fresh_v = nullptr;

  [[nodiscard]] kernels::ProductWorkspace products() const { return {input_workspace, matmul_workspace}; }
};

class Scratch {
 public:
  /// Bytes of the buffers of one step on one home, before rounding to pages.
  [[nodiscard]] static std::size_t footprint(const Config& config, const ModelOptions& options, const StepShape& step,
                                             bool has_output, device::Kind kind);
  /// Reserves addresses for options.chunk_tokens rows; commits nothing. Errors: OutOfMemory.
  [[nodiscard]] static Result<Scratch> reserve(memory::PagePool& pool, const Config& config, const ModelOptions& options,
                                               bool has_output);

  /// Cuts the buffers of a step, growing where it needs more than is committed.
  /// Errors   OutOfMemory, DeviceLost: the size is as before.
  [[nodiscard]] Status lay_out(const Config& config, const ModelOptions& options, const StepShape& step);
  /// Gives what is past `bytes` back; the buffers are gone.
  void shrink(std::size_t bytes);

  [[nodiscard]] const Buffers& buffers() const { return buffers_; }
  [[nodiscard]] memory::PagePool& pool() const { return *pool_; }
  [[nodiscard]] bool has_output() const { return has_output_; }
  [[nodiscard]] std::size_t bytes() const { return region_.committed_bytes(); }

 private:
  memory::PagePool* pool_ = nullptr;
  memory::Region region_;
  Buffers buffers_;
  bool has_output_ = false;
};

}  // namespace ebb::model
