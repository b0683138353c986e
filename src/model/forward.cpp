// One forward pass, in the order of the paper. Rows are the tokens of the chunk; row r stands at position length + r.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "device/device.h"
#include "kernels/ops.h"
#include "model/model.h"

namespace ebb::model {

Status Model::forward(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row,
                      const LogitSink& sink) {
  const std::size_t rows = tokens.size();
  EBB_CHECK(loaded_, "the model is unloaded");
  EBB_CHECK(rows >= 1 && rows <= options_.chunk_tokens, "{} rows, at most {}", rows, options_.chunk_tokens);
  EBB_TRY(begin_step(rows));
  EBB_TRY(lay_out({rows, rows - std::min(first_logit_row, rows), cache.options().widest()}));
  EBB_TRY(cache.reserve(rows));
  EBB_TRY(pass(cache, tokens, std::min(first_logit_row, rows)));
  if (Status emitted = emit_logits(first_logit_row, rows, sink); !emitted) {
    cache.abandon(rows, config_.layers);
    return emitted;
  }
  cache.advance(rows);
  return {};
}

Status Model::begin_step(std::size_t rows) {
  const device::Step step = rows == 1 ? device::Step::Decode : device::Step::Prefill;
  for (const Scratch& home : homes_) EBB_TRY(home.pool().device().begin_step(step));
  return {};
}

Status Model::lay_out(const StepShape& step) {
  std::vector<std::size_t> sizes;
  for (Scratch& home : homes_) {
    sizes.push_back(home.bytes());
    Status laid = home.lay_out(config_, options_, step);
    if (laid) continue;
    for (std::size_t idx = 0; idx < sizes.size(); ++idx) homes_[idx].shrink(sizes[idx]);
    return laid;
  }
  if (const std::size_t bytes = staging_bytes(step); bytes > staging_.committed_bytes()) EBB_TRY(staging_.resize(bytes));
  last_step_ = step;
  return {};
}

Status Model::pass(KvCache& cache, std::span<const std::int32_t> tokens, std::size_t first_logit_row) {
  const Config& c = config_;
  const std::size_t rows = tokens.size();
  for (std::size_t home_idx = 0; home_idx < homes_.size(); ++home_idx) {
    const Buffers& b = homes_[home_idx].buffers();
    kernels::Ops& ops = *home_ops_[home_idx];
    EBB_TRY(ops.rope_table(cache.length(), rows, c.head_dim, c.rope_base_local, 1, b.rope_local));
    EBB_TRY(ops.rope_table(cache.length(), rows, c.head_dim, c.rope_base_global, c.rope_factor_global, b.rope_global));
  }
  const Layer& first = layers_.front();
  const Buffers& b = homes_[first.home_idx].buffers();
  EBB_TRY(ops(first).embed_rows(embedding_, tokens, static_cast<float>(std::sqrt(static_cast<double>(c.hidden))), staging(), b.x));
  EBB_TRY(ops(first).rms_norm(b.x, first.attn_norm, static_cast<float>(c.rms_eps), rows, c.hidden, b.normed));

  // Past the last layer's keys and values only rows whose logits are wanted matter.
  for (std::size_t layer_idx = 0; layer_idx < c.layers; ++layer_idx) {
    const bool last = layer_idx + 1 == c.layers;
    const std::size_t first_row = last ? first_logit_row : 0;
    const std::size_t next_home_idx = last ? output_home_idx_ : layers_[layer_idx + 1].home_idx;
    if (Status run = run_layer(cache, layer_idx, first_row, rows); !run) {
      cache.lose();  // some of the layer's rows may be stored and their predecessors not be kept
      return run;
    }
    if (Status crossed = cross(layers_[layer_idx].home_idx, next_home_idx, first_row, rows); !crossed) {
      cache.abandon(rows, layer_idx + 1);
      return crossed;
    }
  }
  return {};
}

// What the next layer reads, on its own home.
Status Model::cross(std::size_t from_idx, std::size_t to_idx, std::size_t first_row, std::size_t rows) {
  if (from_idx == to_idx || first_row == rows) return {};
  const Buffers& from = homes_[from_idx].buffers();
  const Buffers& to = homes_[to_idx].buffers();
  // The host cannot read a card; a card reads the host and its neighbours.
  device::Device& source = homes_[from_idx].pool().device();
  device::Device& target = homes_[to_idx].pool().device();
  device::Device& device = target.kind() == device::Kind::Host ? source : target;
  const std::size_t first = first_row * config_.hidden;
  const std::size_t bytes = (rows - first_row) * config_.hidden * sizeof(float);
  EBB_TRY_ASSIGN(const device::Fence computed, source.fence(device::Stream::Compute));
  EBB_TRY(source.wait(computed));
  EBB_TRY(device.copy(device::Stream::Copy, to.x + first, from.x + first, bytes));
  EBB_TRY(device.copy(device::Stream::Copy, to.normed + first, from.normed + first, bytes));
  EBB_TRY_ASSIGN(const device::Fence fence, device.fence(device::Stream::Copy));
  return device.wait(fence);
}

// Rows before first_row only leave their keys and values; `rows` counts from 0.
Status Model::run_layer(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows) {
  const Layer& layer = layers_[layer_idx];
  const Config& c = config_;
  const Buffers& b = homes_[layer.home_idx].buffers();
  kernels::Ops& ops = this->ops(layer);
  const kernels::ProductWorkspace workspace = b.products();
  const auto eps = static_cast<float>(c.rms_eps);
  const std::array<kernels::MatmulProduct, 3> qkv = {{{layer.k, b.k, c.kv_width()},
                                                      {layer.v, b.v, c.kv_width()},
                                                      {layer.q, b.q, c.q_width()}}};
  const std::size_t wanted = rows - first_row;
  EBB_TRY(ops.products(b.normed, rows, c.hidden, std::span(qkv).first(wanted == 0 ? 2 : 3), workspace));
  const float* rope = layer.global ? b.rope_global : b.rope_local;
  EBB_TRY(ops.norm_rope(b.k, c.kv_width(), layer.k_norm, eps, rope, rows, c.kv_heads, c.head_dim));
  if (wanted != 0) {
    EBB_TRY(ops.norm_rope(b.q + first_row * c.q_width(), c.q_width(), layer.q_norm, eps, rope + first_row * c.head_dim, wanted,
                          c.q_heads, c.head_dim));
  }
  EBB_TRY(attend(cache, layer_idx, first_row, rows));
  if (wanted == 0) return {};

  float* x = b.x + first_row * c.hidden;
  float* normed = b.normed + first_row * c.hidden;
  const std::array output = {kernels::MatmulProduct{layer.output, b.branch, c.hidden}};
  EBB_TRY(ops.products(b.attended, wanted, c.q_width(), output, workspace));
  EBB_TRY(ops.residual_rms_norm(x, b.branch, layer.post_attn_norm, layer.ffn_norm, eps, wanted, c.hidden, normed));
  const std::array<kernels::MatmulProduct, 2> gate_up = {{{layer.gate, b.gate, c.ffn}, {layer.up, b.up, c.ffn}}};
  EBB_TRY(ops.products(normed, wanted, c.hidden, gate_up, workspace));
  EBB_TRY(ops.geglu(b.gate, b.up, wanted, c.ffn, b.gate));
  const std::array down = {kernels::MatmulProduct{layer.down, b.branch, c.hidden}};
  EBB_TRY(ops.products(b.gate, wanted, c.ffn, down, workspace));
  const bool last = layer_idx + 1 == layers_.size();
  const float* next_norm = last ? output_norm_ : layers_[layer_idx + 1].attn_norm;
  return ops.residual_rms_norm(x, b.branch, layer.post_ffn_norm, next_norm, eps, wanted, c.hidden, normed);
}

// The chunk's keys and values wait beside the cache, so that a ring of exactly `window` slots still holds what the first
// rows see; then they are stored. Rows before first_row are stored before the others attend.
Status Model::attend(KvCache& cache, std::size_t layer_idx, std::size_t first_row, std::size_t rows) {
  const Config& c = config_;
  const Buffers& b = homes_[layers_[layer_idx].home_idx].buffers();
  kernels::Ops& ops = this->ops(layers_[layer_idx]);
  const std::size_t first_pos = cache.length();
  kernels::KvView fresh;
  fresh.k = b.fresh_k;
  fresh.v = b.fresh_v;
  fresh.types = cache.options().types(c.global[layer_idx]);
  fresh.slots = rows;
  fresh.run_tokens = rows;
  fresh.k_head_stride_bytes = rows * kernels::kv_row_bytes(fresh.types.k, c.head_dim);
  fresh.v_head_stride_bytes = rows * kernels::kv_row_bytes(fresh.types.v, c.head_dim);
  EBB_TRY(ops.kv_store(b.k, b.v, c.kv_width(), first_pos, rows, c.kv_heads, c.head_dim, fresh));

  const kernels::KvView past = cache.layer(layer_idx);
  const auto store = [&](std::size_t from_row, std::size_t to_row) -> Status {
    if (from_row == to_row) return {};
    for (const kernels::RowsCopy& copy : cache.leaving(layer_idx, fresh, first_pos + from_row, to_row - from_row)) {
      EBB_TRY(ops.copy_rows(copy));
    }
    return ops.kv_store(b.k + from_row * c.kv_width(), b.v + from_row * c.kv_width(), c.kv_width(), first_pos + from_row,
                        to_row - from_row, c.kv_heads, c.head_dim, past);
  };
  EBB_TRY(store(0, first_row));
  if (first_row == rows) return {};
  kernels::AttentionShape shape;
  shape.first_pos = first_pos + first_row;
  shape.rows = rows - first_row;
  shape.q_heads = c.q_heads;
  shape.kv_heads = c.kv_heads;
  shape.head_dim = c.head_dim;
  shape.window = layers_[layer_idx].global ? 0 : c.window_tokens;
  shape.scale = static_cast<float>(c.score_scale);
  EBB_TRY(ops.attention(shape, b.q + first_row * c.q_width(), c.q_width(), past, fresh, b.attended, b.attention_workspace));
  return store(first_row, rows);
}

Status Model::emit_logits(std::size_t first_row, std::size_t rows, const LogitSink& sink) {
  const Buffers& b = homes_[output_home_idx_].buffers();
  kernels::Ops& ops = *home_ops_[output_home_idx_];
  for (std::size_t row = first_row; row < rows; row += kLogitRowsPerBlock) {
    const std::size_t count = std::min(kLogitRowsPerBlock, rows - row);
    const std::array head = {kernels::MatmulProduct{head_, b.logits, head_.rows}};
    EBB_TRY(ops.products(b.normed + row * config_.hidden, count, config_.hidden, head, b.products()));
    EBB_TRY_ASSIGN(const float* logits, ops.on_host(b.logits, count * head_.rows, staging()));
    for (std::size_t idx = 0; idx < count; ++idx) sink(row + idx, std::span<const float>(logits + idx * head_.rows, head_.rows));
  }
  return {};
}

}  // namespace ebb::model
