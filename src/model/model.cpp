#include "model/model.h"

#include <algorithm>
#include <utility>

#include "kernels/read_sweep.h"
#include "weights/weight_store.h"

namespace ebb::model {

using weights::Part;
using weights::WeightStore;

Model::Model(Config config, const ModelOptions& options)
    : config_(std::move(config)), options_(options), threads_(options.threads) {}

Result<std::unique_ptr<Model>> Model::load(WeightStore& store, memory::PagePool& pool, const ModelOptions& options) {
  EBB_TRY_ASSIGN(Config config, read_config(store));
  std::unique_ptr<Model> model(new Model(std::move(config), options));
  model->pool_ = &pool;
  EBB_TRY(model->bind(store));
  return model;
}

Status Model::bind(WeightStore& store) {
  EBB_TRY_ASSIGN(embedding_, store.matrix(Part::Embedding, 0, config_.vocab_rows, config_.hidden));
  head_ = embedding_;
  if (store.has(Part::Head)) {
    EBB_TRY_ASSIGN(head_, store.matrix(Part::Head, 0, config_.vocab_rows, config_.hidden));
  }
  head_.rows = std::min(head_.rows, kGemmaVocabulary);
  EBB_TRY_ASSIGN(output_norm_, store.norm(Part::OutputNorm, 0, config_.hidden));
  layers_.resize(config_.layers);
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) EBB_TRY(bind_layer(store, layer_idx));
  return {};
}

Status Model::bind_layer(WeightStore& store, std::size_t layer_idx) {
  Layer& layer = layers_[layer_idx];
  const std::size_t hidden = config_.hidden;
  layer.global = config_.global[layer_idx];
  EBB_TRY_ASSIGN(layer.attn_norm, store.norm(Part::AttnNorm, layer_idx, hidden));
  EBB_TRY_ASSIGN(layer.q_norm, store.norm(Part::AttnQNorm, layer_idx, config_.head_dim));
  EBB_TRY_ASSIGN(layer.k_norm, store.norm(Part::AttnKNorm, layer_idx, config_.head_dim));
  EBB_TRY_ASSIGN(layer.post_attn_norm, store.norm(Part::PostAttnNorm, layer_idx, hidden));
  EBB_TRY_ASSIGN(layer.ffn_norm, store.norm(Part::FfnNorm, layer_idx, hidden));
  EBB_TRY_ASSIGN(layer.post_ffn_norm, store.norm(Part::PostFfnNorm, layer_idx, hidden));
  EBB_TRY_ASSIGN(layer.q, store.matrix(Part::AttnQ, layer_idx, config_.q_width(), hidden));
  EBB_TRY_ASSIGN(layer.k, store.matrix(Part::AttnK, layer_idx, config_.kv_width(), hidden));
  EBB_TRY_ASSIGN(layer.v, store.matrix(Part::AttnV, layer_idx, config_.kv_width(), hidden));
  EBB_TRY_ASSIGN(layer.output, store.matrix(Part::AttnOutput, layer_idx, hidden, config_.q_width()));
  EBB_TRY_ASSIGN(layer.gate, store.matrix(Part::FfnGate, layer_idx, config_.ffn, hidden));
  EBB_TRY_ASSIGN(layer.up, store.matrix(Part::FfnUp, layer_idx, config_.ffn, hidden));
  EBB_TRY_ASSIGN(layer.down, store.matrix(Part::FfnDown, layer_idx, hidden, config_.ffn));
  return {};
}

std::vector<TensorView> Model::step_weights() const {
  std::vector<TensorView> views = {head_};
  for (const Layer& layer : layers_) {
    views.insert(views.end(), {layer.q, layer.k, layer.v, layer.output, layer.gate, layer.up, layer.down});
  }
  return views;
}

std::size_t Model::step_weight_bytes() const {
  std::size_t bytes = embedding_.row_bytes();
  for (const TensorView& view : step_weights()) bytes += view.bytes();
  return bytes;
}

std::uint64_t Model::read_step_weights() { return kernels::read_sweep(threads_, step_weights()); }

void Model::release_scratch() {
  scratch_ = memory::Region();
  scratch_limit_ = 0;
}

}  // namespace ebb::model
