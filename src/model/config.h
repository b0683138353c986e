// The numbers that make a Gemma 3 text model, from a GGUF's metadata or a Hugging Face config.json. Everything is checked
// against bounds before anything is sized by it; what a file leaves out follows Gemma 3's own defaults.
// Called by model/ and engine/.
// Source    transformers configuration_gemma3.py for the defaults; GGUF key names as llama.cpp's converter writes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::weights {
class WeightStore;
}

namespace ebb::model {

struct Config {
  std::size_t layers = 0;
  std::size_t hidden = 0;      // D
  std::size_t ffn = 0;         // F
  std::size_t q_heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab_rows = 0;  // rows of the embedding table, padding included
  std::size_t window_tokens = 0;
  std::size_t max_context = 0;  // positions the model was trained for
  double rms_eps = 1e-6;
  double rope_base_global = 1e6;
  double rope_base_local = 1e4;
  double rope_factor_global = 1;  // positions of global layers are divided by it
  double score_scale = 0;         // query_pre_attn_scalar^-1/2
  std::vector<bool> global;       // by layer: full attention, else a sliding window

  [[nodiscard]] std::size_t global_layers() const;
  /// Rows of logits: real tokens only.
  [[nodiscard]] std::size_t vocabulary() const;
  [[nodiscard]] std::size_t q_width() const { return q_heads * head_dim; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_dim; }
  /// "270M", "1B", "4B", "12B", "27B", or "custom".
  [[nodiscard]] std::string size_name() const;
};

/// Largest id that is a real token, plus one: rows past it are noise in Hugging Face's multimodal tables.
inline constexpr std::size_t kGemmaVocabulary = 262144;

/// Errors   Unsupported naming the architecture; BadFile naming the key, the value and the bounds.
[[nodiscard]] Result<Config> read_config(const weights::WeightStore& store);
/// Text of a config.json; `vocab_rows` is filled from it.
[[nodiscard]] Result<Config> parse_hf_config(std::string_view json);

}  // namespace ebb::model
