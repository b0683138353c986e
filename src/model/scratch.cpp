#include "model/scratch.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "memory/page_pool.h"

namespace ebb::model {
namespace {

constexpr std::size_t kBufferAlignment = 64;  // a cache line and a whole vector

/// Hands out aligned parts of one block; run once without a base to learn the size.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  std::byte* bytes(std::size_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(count, kBufferAlignment);
    return at;
  }
  float* floats(std::size_t count) { return reinterpret_cast<float*>(bytes(count * sizeof(float))); }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

Buffers cut(Cutter& cutter, const Config& c, const ModelOptions& options, const StepShape& step, bool has_output,
            device::Kind kind) {
  const std::size_t rows = step.rows;
  Buffers b;
  b.x = cutter.floats(rows * c.hidden);
  b.normed = cutter.floats(rows * c.hidden);
  b.q = cutter.floats(rows * c.q_width());
  b.k = cutter.floats(rows * c.kv_width());
  b.v = cutter.floats(rows * c.kv_width());
  b.attended = cutter.floats(rows * c.q_width());
  b.gate = cutter.floats(rows * c.ffn);
  b.up = cutter.floats(rows * c.ffn);
  b.branch = cutter.floats(rows * c.hidden);
  b.rope_local = cutter.floats(rows * c.head_dim);
  b.rope_global = cutter.floats(rows * c.head_dim);
  if (has_output) b.logits = cutter.floats(std::min(step.logit_rows, kLogitRowsPerBlock) * c.vocabulary());
  const std::size_t widest = std::max({c.hidden, c.ffn, c.q_width()});
  const kernels::OpsBytes workspace = kernels::ops_bytes(
      kind, {options.arithmetic, options.threads, rows, widest, c.q_heads, c.head_dim, c.max_context});
  b.input_workspace = cutter.bytes(workspace.input);
  b.matmul_workspace = cutter.bytes(workspace.panels);
  b.attention_workspace = {cutter.bytes(workspace.attention), workspace.attention};
  b.fresh_k = cutter.bytes(rows * c.kv_heads * kernels::kv_row_bytes(step.kv_types.k, c.head_dim));
  b.fresh_v = cutter.bytes(rows * c.kv_heads * kernels::kv_row_bytes(step.kv_types.v, c.head_dim));
  return b;
}

}  // namespace

std::size_t Scratch::footprint(const Config& config, const ModelOptions& options, const StepShape& step, bool has_output,
                               device::Kind kind) {
  Cutter measure(nullptr);
  cut(measure, config, options, step, has_output, kind);
  return measure.used();
}

Result<Scratch> Scratch::reserve(memory::PagePool& pool, const Config& config, const ModelOptions& options, bool has_output) {
  const StepShape largest{options.chunk_tokens, kLogitRowsPerBlock, {kernels::KvType::F32, kernels::KvType::F32}};
  Scratch scratch;
  scratch.pool_ = &pool;
  scratch.has_output_ = has_output;
  EBB_TRY_ASSIGN(scratch.region_, memory::Region::reserve(pool, memory::Tag::Scratch, memory::kEngineOwner,
                                                          footprint(config, options, largest, has_output, pool.device().kind())));
  return scratch;
}

Status Scratch::lay_out(const Config& config, const ModelOptions& options, const StepShape& step) {
  const std::size_t needed = footprint(config, options, step, has_output_, pool_->device().kind());
  if (needed > region_.committed_bytes()) EBB_TRY(region_.resize(needed));
  Cutter cutter(region_.data());
  buffers_ = cut(cutter, config, options, step, has_output_, pool_->device().kind());
  return {};
}

void Scratch::shrink(std::size_t bytes) {
  buffers_ = {};
  if (bytes < region_.committed_bytes()) EBB_CHECK(region_.resize(bytes).has_value(), "shrinking fails");
}

}  // namespace ebb::model
