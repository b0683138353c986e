#include "weights/internal/tensor_names.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace ebb::weights {
namespace {

struct Names {
  std::string_view gguf;         // after "blk.N." for layer parts
  std::string_view safetensors;  // after "layers.N." for layer parts
};

constexpr std::array<Names, 16> kNames = {{
    {"token_embd.weight", "embed_tokens.weight"},
    {"output.weight", "lm_head.weight"},
    {"output_norm.weight", "norm.weight"},
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
}};

bool in_layer(Part part) { return part >= Part::AttnNorm; }

}  // namespace

std::vector<std::string> gguf_names(Part part, std::size_t layer_idx) {
  const std::string_view name = kNames[static_cast<std::size_t>(part)].gguf;
  if (in_layer(part)) return {fmt::format("blk.{}.{}", layer_idx, name)};
  return {std::string(name)};
}

std::vector<std::string> safetensors_names(Part part, std::size_t layer_idx) {
  const std::string_view name = kNames[static_cast<std::size_t>(part)].safetensors;
  if (part == Part::Head) return {"lm_head.weight", "language_model.lm_head.weight"};
  const std::string suffix = in_layer(part) ? fmt::format("layers.{}.{}", layer_idx, name) : std::string(name);
  return {"model." + suffix, "language_model.model." + suffix, "model.language_model." + suffix};
}

}  // namespace ebb::weights
