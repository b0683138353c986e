#include "model/model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "kernels/read_sweep.h"
#include "weights/weight_store.h"

namespace ebb::model {

using weights::Part;
using weights::WeightStore;

Model::Model(Config config, const Placement& placement, const ModelOptions& options, WeightStore& store)
    : config_(std::move(config)),
      placement_(placement),
      options_(options),
      max_chunk_tokens_(options.chunk_tokens),
      store_(store),
      threads_(options.threads),
      layers_(config_.layers) {}

Model::~Model() { unload_weights(); }

Result<std::unique_ptr<Model>> Model::load(WeightStore& store, const Placement& placement, const ModelOptions& options) {
  EBB_TRY_ASSIGN(Config config, read_config(store));
  EBB_CHECK(placement.layers.size() == config.layers, "homes for {} layers of {}", placement.layers.size(), config.layers);
  std::unique_ptr<Model> model(new Model(std::move(config), placement, options, store));
  EBB_TRY(model->check_shapes());
  EBB_TRY(model->add_homes());
  for (const UnitId unit : model->units()) model->targets_.push_back(&model->home(unit));
  EBB_TRY(model->load_weights());
  return model;
}

Status Model::check_shapes() const {
  const std::size_t hidden = config_.hidden, head_dim = config_.head_dim;
  EBB_TRY(store_.expect(Part::Embedding, 0, config_.vocab_rows, hidden));
  if (store_.has(Part::Head)) EBB_TRY(store_.expect(Part::Head, 0, config_.vocab_rows, hidden));
  EBB_TRY(store_.expect(Part::OutputNorm, 0, 1, hidden));
  struct Shape {
    Part part;
    std::size_t rows, cols;
  };
  const std::array<Shape, 13> shapes = {{{Part::AttnNorm, 1, hidden},
                                         {Part::AttnQNorm, 1, head_dim},
                                         {Part::AttnKNorm, 1, head_dim},
                                         {Part::PostAttnNorm, 1, hidden},
                                         {Part::FfnNorm, 1, hidden},
                                         {Part::PostFfnNorm, 1, hidden},
                                         {Part::AttnQ, config_.q_width(), hidden},
                                         {Part::AttnK, config_.kv_width(), hidden},
                                         {Part::AttnV, config_.kv_width(), hidden},
                                         {Part::AttnOutput, hidden, config_.q_width()},
                                         {Part::FfnGate, config_.ffn, hidden},
                                         {Part::FfnUp, config_.ffn, hidden},
                                         {Part::FfnDown, hidden, config_.ffn}}};
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
    for (const Shape& shape : shapes) EBB_TRY(store_.expect(shape.part, layer_idx, shape.rows, shape.cols));
  }
  return {};
}

Status Model::add_homes() {
  const auto home_of = [this](memory::PagePool& pool) -> Result<std::size_t> {
    for (std::size_t idx = 0; idx < homes_.size(); ++idx) {
      if (&homes_[idx].pool() == &pool) return idx;
    }
    EBB_TRY_ASSIGN(Scratch scratch, Scratch::reserve(pool, config_, options_, &pool == placement_.output));
    homes_.push_back(std::move(scratch));
    EBB_TRY_ASSIGN(auto ops, kernels::ops_on(pool.device(), threads_, options_.arithmetic));
    home_ops_.push_back(std::move(ops));
    return homes_.size() - 1;
  };
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
    layers_[layer_idx].global = config_.global[layer_idx];
    EBB_TRY_ASSIGN(layers_[layer_idx].home_idx, home_of(*placement_.layers[layer_idx]));
  }
  EBB_TRY_ASSIGN(output_home_idx_, home_of(*placement_.output));
  const std::size_t most = staging_bytes({options_.chunk_tokens, kLogitRowsPerBlock, {}});
  if (most == 0) return {};
  EBB_TRY_ASSIGN(staging_, memory::Region::reserve(*placement_.host, memory::Tag::Staging, memory::kEngineOwner, most));
  return {};
}

std::vector<UnitId> Model::units() const {
  std::vector<UnitId> all = {weights::kEmbeddingUnit, weights::kOutputUnit};
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) all.push_back(weights::layer_unit(layer_idx));
  return all;
}

memory::PagePool& Model::home(UnitId unit) const {
  if (unit.kind == UnitId::Kind::Embedding) return *placement_.host;
  return unit.kind == UnitId::Kind::Output ? *placement_.output : *placement_.layers[unit.layer_idx];
}

void Model::bind(UnitId unit) {
  const std::size_t idx = unit.layer_idx;
  if (unit.kind == UnitId::Kind::Embedding) {
    embedding_ = store_.matrix(Part::Embedding);
    return;
  }
  if (unit.kind == UnitId::Kind::Output) {
    head_ = store_.matrix(Part::Head);
    head_.rows = config_.vocabulary();
    output_norm_ = store_.norm(Part::OutputNorm);
    return;
  }
  Layer& layer = layers_[idx];
  layer.attn_norm = store_.norm(Part::AttnNorm, idx);
  layer.q_norm = store_.norm(Part::AttnQNorm, idx);
  layer.k_norm = store_.norm(Part::AttnKNorm, idx);
  layer.post_attn_norm = store_.norm(Part::PostAttnNorm, idx);
  layer.ffn_norm = store_.norm(Part::FfnNorm, idx);
  layer.post_ffn_norm = store_.norm(Part::PostFfnNorm, idx);
  layer.q = store_.matrix(Part::AttnQ, idx);
  layer.k = store_.matrix(Part::AttnK, idx);
  layer.v = store_.matrix(Part::AttnV, idx);
  layer.output = store_.matrix(Part::AttnOutput, idx);
  layer.gate = store_.matrix(Part::FfnGate, idx);
  layer.up = store_.matrix(Part::FfnUp, idx);
  layer.down = store_.matrix(Part::FfnDown, idx);
}

Status Model::move_weights(UnitId unit, memory::PagePool& to) {
  EBB_CHECK(loaded_, "an unloaded model has no weights to move");
  EBB_CHECK(&to == &home(unit) || &to == placement_.host, "a unit goes to its home or to the host, not to {}",
            to.device().name());
  EBB_TRY(store_.place(unit, to));
  bind(unit);
  const std::vector<UnitId> all = units();
  targets_[static_cast<std::size_t>(std::ranges::find(all, unit) - all.begin())] = &to;
  return {};
}

void Model::unload_weights() {
  for (const UnitId unit : units()) store_.evict(unit);
  loaded_ = false;
}

Status Model::load_weights() {
  const std::vector<UnitId> all = units();
  for (std::size_t idx = 0; idx < all.size(); ++idx) {
    if (Status placed = store_.place(all[idx], *targets_[idx]); !placed) {
      unload_weights();
      return placed;
    }
  }
  for (const UnitId unit : all) bind(unit);
  loaded_ = true;
  return {};
}

memory::PagePool* Model::weights_at(UnitId unit) const { return store_.place_of(unit); }

std::vector<TensorView> Model::step_weights() const {
  std::vector<TensorView> views = {head_};
  for (const Layer& layer : layers_) {
    views.insert(views.end(), {layer.q, layer.k, layer.v, layer.output, layer.gate, layer.up, layer.down});
  }
  return views;
}

std::size_t Model::step_weight_bytes() const {
  EBB_CHECK(loaded_, "the model is unloaded");
  std::size_t bytes = embedding_.row_bytes();
  for (const TensorView& view : step_weights()) bytes += view.bytes();
  return bytes;
}

std::uint64_t Model::read_step_weights() {
  EBB_CHECK(loaded_, "the model is unloaded");
  return kernels::read_sweep(threads_, step_weights());
}

void Model::set_chunk_tokens(std::size_t count) {
  EBB_CHECK(count >= 1 && count <= max_chunk_tokens_, "steps of {} tokens, at most {}", count, max_chunk_tokens_);
  options_.chunk_tokens = count;
  const StepShape largest{count, last_step_.logit_rows, last_step_.kv_types};
  for (Scratch& home : homes_) {
    home.shrink(Scratch::footprint(config_, options_, largest, home.has_output(), home.pool().device().kind()));
  }
}

void Model::release_scratch() {
  for (Scratch& home : homes_) home.shrink(0);
  EBB_CHECK(staging_.resize(0).has_value(), "shrinking fails");
}

std::size_t Model::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const Scratch& home : homes_) bytes += home.bytes();
  return bytes;
}

std::size_t Model::scratch_footprint(const Config& config, const ModelOptions& options, kernels::KvTypes kv_types,
                                     std::size_t rows, std::size_t logit_rows, bool has_output, device::Kind kind) {
  return Scratch::footprint(config, options, {rows, logit_rows, kv_types}, has_output, kind);
}

std::size_t Model::staging_footprint(const Config& config, std::size_t rows, std::size_t logit_rows, device::Kind first_home,
                                     device::Kind output_home) {
  std::size_t floats = 0;
  if (first_home == device::Kind::Cuda) floats = rows * config.hidden;
  if (output_home == device::Kind::Cuda) floats = std::max(floats, std::min(logit_rows, kLogitRowsPerBlock) * config.vocabulary());
  return floats * sizeof(float);
}

std::size_t Model::staging_bytes(const StepShape& step) const {
  return staging_footprint(config_, step.rows, step.logit_rows, homes_[layers_.front().home_idx].pool().device().kind(),
                           homes_[output_home_idx_].pool().device().kind());
}

}  // namespace ebb::model
