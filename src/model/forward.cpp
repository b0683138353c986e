// One forward pass, in the order of the paper. Rows are the tokens of the chunk; row r stands at position length + r.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/dequantize.h"
#include "kernels/geglu.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "memory/page_pool.h"
#include "model/model.h"

namespace ebb::model {
namespace {

constexpr std::size_t kLogitRowsPerBlock = 16;  // 16 MiB of float32 logits at 262,144 tokens
constexpr std::size_t kBufferAlignment = 64;    // a cache line and a whole vector

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

}  // namespace

Status Model::lay_out(std::size_t rows, std::size_t logit_rows, kernels::KvTypes kv_types) {
  const Config& c = config_;
  const auto cut = [&](Cutter& cutter) {
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
    b.logits = cutter.floats(std::min(logit_rows, kLogitRowsPerBlock) * head_.rows);
    const std::size_t widest = std::max({c.hidden, c.ffn, c.q_width()});
    b.input_workspace = cutter.bytes(kernels::matmul_input_bytes(options_.arithmetic, rows, widest));
    b.matmul_workspace = cutter.bytes(kernels::matmul_workspace_bytes(options_.threads, widest));
    b.attention_workspace =
        cutter.bytes(kernels::attention_workspace_bytes(options_.threads, rows, c.q_heads, c.head_dim));
    b.fresh_k = cutter.bytes(rows * c.kv_heads * kernels::kv_row_bytes(kv_types.k, c.head_dim));
    b.fresh_v = cutter.bytes(rows * c.kv_heads * kernels::kv_row_bytes(kv_types.v, c.head_dim));
    return b;
  };
  Cutter measure(nullptr);
  cut(measure);
  if (measure.used() > scratch_limit_) {
    release_scratch();
    EBB_TRY_ASSIGN(scratch_, memory::Region::reserve(*pool_, memory::Tag::Scratch, memory::kEngineOwner, measure.used()));
    scratch_limit_ = measure.used();
    if (Status grown = scratch_.resize(measure.used()); !grown) {
      release_scratch();
      return grown;
    }
  }
  Cutter cutter(scratch_.data());
  buffers_ = cut(cutter);
  return {};
}

Status Model::forward(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row,
                      const LogitSink& sink) {
  const std::size_t rows = tokens.size();
  EBB_CHECK(rows >= 1 && rows <= options_.chunk_tokens, "{} rows, at most {}", rows, options_.chunk_tokens);
  EBB_TRY(pool_->device().begin_step(rows == 1 ? device::Step::Decode : device::Step::Prefill));
  EBB_TRY(lay_out(rows, rows - std::min(first_logit_row, rows), cache.options().widest()));
  EBB_TRY(cache.reserve(rows));

  const Buffers& b = buffers_;
  const std::size_t first_pos = cache.length();
  kernels::embed_rows(embedding_, tokens, static_cast<float>(std::sqrt(static_cast<double>(config_.hidden))), b.x);
  kernels::rope_table(first_pos, rows, config_.head_dim, config_.rope_base_local, 1, b.rope_local);
  kernels::rope_table(first_pos, rows, config_.head_dim, config_.rope_base_global, config_.rope_factor_global, b.rope_global);
  kernels::rms_norm(threads_, b.x, layers_.front().attn_norm, static_cast<float>(config_.rms_eps), rows, config_.hidden, b.normed);

  // Past the last layer's keys and values only rows whose logits are wanted matter.
  const std::size_t last_layer = config_.layers - 1;
  for (std::size_t layer_idx = 0; layer_idx < last_layer; ++layer_idx) run_layer(cache, layer_idx, 0, rows);
  run_layer(cache, last_layer, std::min(first_logit_row, rows), rows);
  cache.advance(rows);
  if (first_logit_row < rows) emit_logits(first_logit_row, rows, sink);
  return {};
}

void Model::product(const float* x, std::size_t rows, std::size_t cols, std::span<const kernels::MatmulProduct> products) {
  const kernels::MatmulInput input =
      kernels::prepare_matmul_input(threads_, options_.arithmetic, x, rows, cols, buffers_.input_workspace);
  kernels::matmul(threads_, input, products, buffers_.matmul_workspace);
}

// Rows before first_row only leave their keys and values; `rows` counts from 0.
void Model::run_layer(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows) {
  const Layer& layer = layers_[layer_idx];
  const Config& c = config_;
  const Buffers& b = buffers_;
  const auto eps = static_cast<float>(c.rms_eps);
  const std::array<kernels::MatmulProduct, 3> qkv = {{{layer.k, b.k, c.kv_width()},
                                                      {layer.v, b.v, c.kv_width()},
                                                      {layer.q, b.q, c.q_width()}}};
  const std::size_t wanted = rows - first_row;
  product(b.normed, rows, c.hidden, std::span(qkv).first(wanted == 0 ? 2 : 3));
  const float* rope = layer.global ? b.rope_global : b.rope_local;
  kernels::norm_rope(threads_, b.k, c.kv_width(), layer.k_norm, eps, rope, rows, c.kv_heads, c.head_dim);
  if (wanted != 0) {
    kernels::norm_rope(threads_, b.q + first_row * c.q_width(), c.q_width(), layer.q_norm, eps, rope + first_row * c.head_dim,
                       wanted, c.q_heads, c.head_dim);
  }
  attend(cache, layer_idx, first_row, rows);
  if (wanted == 0) return;

  float* x = b.x + first_row * c.hidden;
  float* normed = b.normed + first_row * c.hidden;
  product(b.attended, wanted, c.q_width(), std::array{kernels::MatmulProduct{layer.output, b.branch, c.hidden}});
  kernels::residual_rms_norm(threads_, x, b.branch, layer.post_attn_norm, layer.ffn_norm, eps, wanted, c.hidden, normed);
  const std::array<kernels::MatmulProduct, 2> gate_up = {{{layer.gate, b.gate, c.ffn}, {layer.up, b.up, c.ffn}}};
  product(normed, wanted, c.hidden, gate_up);
  kernels::geglu(threads_, b.gate, b.up, wanted, c.ffn, b.gate);
  product(b.gate, wanted, c.ffn, std::array{kernels::MatmulProduct{layer.down, b.branch, c.hidden}});
  const bool last = layer_idx + 1 == layers_.size();
  const float* next_norm = last ? output_norm_ : layers_[layer_idx + 1].attn_norm;
  kernels::residual_rms_norm(threads_, x, b.branch, layer.post_ffn_norm, next_norm, eps, wanted, c.hidden, normed);
}

// The chunk's keys and values wait beside the cache, so that a ring of exactly `window` slots still holds what the first
// rows see; then they are stored. Rows before first_row are stored before the others attend.
void Model::attend(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows) {
  const Config& c = config_;
  const Buffers& b = buffers_;
  const std::size_t first_pos = cache.length();
  kernels::KvView fresh;
  fresh.k = b.fresh_k;
  fresh.v = b.fresh_v;
  fresh.types = cache.options().types(c.global[layer_idx]);
  fresh.slots = rows;
  fresh.run_tokens = rows;
  fresh.k_head_stride_bytes = rows * kernels::kv_row_bytes(fresh.types.k, c.head_dim);
  fresh.v_head_stride_bytes = rows * kernels::kv_row_bytes(fresh.types.v, c.head_dim);
  kernels::kv_store(threads_, b.k, b.v, c.kv_width(), first_pos, rows, c.kv_heads, c.head_dim, fresh);

  const kernels::KvView past = cache.layer(layer_idx);
  const auto store = [&](std::size_t from_row, std::size_t to_row) {
    if (from_row == to_row) return;
    cache.keep_leaving(layer_idx, fresh, first_pos + from_row, to_row - from_row);
    kernels::kv_store(threads_, b.k + from_row * c.kv_width(), b.v + from_row * c.kv_width(), c.kv_width(),
                      first_pos + from_row, to_row - from_row, c.kv_heads, c.head_dim, past);
  };
  store(0, first_row);
  if (first_row == rows) return;
  kernels::AttentionShape shape;
  shape.first_pos = first_pos + first_row;
  shape.rows = rows - first_row;
  shape.q_heads = c.q_heads;
  shape.kv_heads = c.kv_heads;
  shape.head_dim = c.head_dim;
  shape.window = layers_[layer_idx].global ? 0 : c.window_tokens;
  shape.scale = static_cast<float>(c.score_scale);
  kernels::attention(threads_, shape, b.q + first_row * c.q_width(), c.q_width(), past, fresh, b.attended,
                     b.attention_workspace);
  store(first_row, rows);
}

void Model::emit_logits(std::size_t first_row, std::size_t rows, const LogitSink& sink) {
  for (std::size_t row = first_row; row < rows; row += kLogitRowsPerBlock) {
    const std::size_t count = std::min(kLogitRowsPerBlock, rows - row);
    product(buffers_.normed + row * config_.hidden, count, config_.hidden,
            std::array{kernels::MatmulProduct{head_, buffers_.logits, head_.rows}});
    for (std::size_t idx = 0; idx < count; ++idx) {
      sink(row + idx, std::span<const float>(buffers_.logits + idx * head_.rows, head_.rows));
    }
  }
}

}  // namespace ebb::model
