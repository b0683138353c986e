#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "model/internal/config_checks.h"
#include "weights/weight_store.h"

namespace ebb::model {
namespace {

struct KnownShape {
  std::string_view name;
  std::size_t layers, hidden;
};
constexpr std::array<KnownShape, 5> kKnownShapes = {
    {{"270M", 18, 640}, {"1B", 26, 1152}, {"4B", 34, 2560}, {"12B", 48, 3840}, {"27B", 62, 5376}}};

// Gemma 3 27B divides scores by sqrt(D / heads), all others by sqrt(head_dim); a GGUF has no key for it.
bool is_27b(const Config& config) { return config.layers == 62 && config.hidden == 5376; }

Result<std::size_t> required(const weights::WeightStore& store, std::string_view key) {
  const std::optional<std::uint64_t> value = store.meta_uint(key);
  if (!value) {
    return fail(ErrorCode::BadFile, fmt::format("{}: metadata {} is missing", store.path().string(), key));
  }
  return static_cast<std::size_t>(*value);
}

// The official 4B, 12B and 27B divide the positions of global layers by 8, 270M and 1B do not; some converters dropped
// the key, and some files carry it where it does not belong.
double global_rope_factor(const weights::WeightStore& store, const Config& config) {
  const double stored = store.meta_float("gemma3.rope.scaling.factor").value_or(0);
  const std::string size = config.size_name();
  if (size == "4B" || size == "12B" || size == "27B") return stored > 0 ? stored : 8;
  if (size == "270M" || size == "1B") return 1;
  return stored > 0 ? stored : 1;
}

Result<Config> read_gguf_config(const weights::WeightStore& store) {
  const std::string_view architecture = store.meta_string("general.architecture").value_or("(none)");
  if (architecture == "clip") {
    return fail(ErrorCode::Unsupported,
                fmt::format("{} is a vision projector (architecture clip), not a model; give the text model's file with -m",
                            store.path().string()));
  }
  if (architecture != "gemma3") {
    return fail(ErrorCode::Unsupported, fmt::format("{}: the architecture is \"{}\"; Ebb runs gemma3", store.path().string(),
                                                    architecture));
  }
  Config config;
  EBB_TRY_ASSIGN(config.layers, required(store, "gemma3.block_count"));
  EBB_TRY_ASSIGN(config.hidden, required(store, "gemma3.embedding_length"));
  EBB_TRY_ASSIGN(config.ffn, required(store, "gemma3.feed_forward_length"));
  EBB_TRY_ASSIGN(config.q_heads, required(store, "gemma3.attention.head_count"));
  EBB_TRY_ASSIGN(config.max_context, required(store, "gemma3.context_length"));
  EBB_TRY_ASSIGN(config.window_tokens, required(store, "gemma3.attention.sliding_window"));
  config.kv_heads = store.meta_uint("gemma3.attention.head_count_kv").value_or(config.q_heads);
  config.head_dim = store.meta_uint("gemma3.attention.key_length").value_or(256);
  if (const auto value_length = store.meta_uint("gemma3.attention.value_length"); value_length && *value_length != config.head_dim) {
    return fail(ErrorCode::Unsupported, fmt::format("{}: keys have length {} and values {}; Ebb runs models where both are equal",
                                                    store.path().string(), config.head_dim, *value_length));
  }
  config.vocab_rows = store.rows(weights::Part::Embedding).value_or(0);
  config.rms_eps = store.meta_float("gemma3.attention.layer_norm_rms_epsilon").value_or(1e-6);
  config.rope_base_global = store.meta_float("gemma3.rope.freq_base").value_or(1e6);
  config.rope_base_local = store.meta_float("gemma3.rope.freq_base_swa").value_or(1e4);
  EBB_TRY(check_config(config));  // before anything is sized by the layer count
  config.rope_factor_global = global_rope_factor(store, config);
  config.score_scale =
      1.0 / std::sqrt(is_27b(config) ? static_cast<double>(config.hidden) / static_cast<double>(config.q_heads)
                                     : static_cast<double>(config.head_dim));
  const std::vector<std::int32_t> local = store.meta_ints("gemma3.attention.sliding_window_pattern");
  if (local.empty()) {
    config.global = periodic_pattern(
        config.layers, store.meta_uint("gemma3.attention.sliding_window_pattern").value_or(6));
  } else {
    for (const std::int32_t is_local : local) config.global.push_back(is_local == 0);
  }
  EBB_TRY(check_config(config));
  return config;
}

}  // namespace

std::size_t Config::vocabulary() const { return std::min(vocab_rows, kGemmaVocabulary); }

std::size_t Config::global_layers() const {
  return static_cast<std::size_t>(std::count(global.begin(), global.end(), true));
}

std::string Config::size_name() const {
  for (const KnownShape& shape : kKnownShapes) {
    if (shape.layers == layers && shape.hidden == hidden) return std::string(shape.name);
  }
  return "custom";
}

std::vector<bool> periodic_pattern(std::size_t layers, std::size_t period) {
  std::vector<bool> global(layers);
  for (std::size_t layer_idx = 0; layer_idx < layers; ++layer_idx) {
    global[layer_idx] = period != 0 && (layer_idx + 1) % period == 0;
  }
  return global;
}

Status check_config(const Config& config) {
  struct Bound {
    std::string_view name;
    std::size_t value, least, most;
  };
  // The largest Gemma 3 has 62 layers, D 5,376, F 21,504, 32 heads; the bounds leave room and keep products in 64 bits.
  const std::array<Bound, 9> bounds = {{{"layers", config.layers, 1, 1024},
                                        {"hidden size", config.hidden, 8, 65536},
                                        {"feed-forward size", config.ffn, 8, 1048576},
                                        {"query heads", config.q_heads, 1, 1024},
                                        {"key-value heads", config.kv_heads, 1, config.q_heads},
                                        {"head size", config.head_dim, 8, 256},
                                        {"vocabulary rows", config.vocab_rows, 1, 16777216},
                                        {"sliding window", config.window_tokens, 1, 1048576},
                                        {"context length", config.max_context, 1, 16777216}}};
  for (const Bound& bound : bounds) {
    if (bound.value < bound.least || bound.value > bound.most) {
      return fail(ErrorCode::BadFile, fmt::format("the model's {} is {}; Ebb accepts {} to {}", bound.name, bound.value,
                                                  bound.least, bound.most));
    }
  }
  if (config.q_heads % config.kv_heads != 0 || config.head_dim % 8 != 0) {
    return fail(ErrorCode::BadFile,
                fmt::format("{} query heads cannot share {} key-value heads of size {}; the first must be a multiple of the "
                            "second, and the size a multiple of 8",
                            config.q_heads, config.kv_heads, config.head_dim));
  }
  if (!(config.rms_eps > 0 && config.rms_eps < 1) || !(config.rope_base_global > 1) || !(config.rope_base_local > 1) ||
      !(config.rope_factor_global > 0) || !std::isfinite(config.rope_base_global) || !std::isfinite(config.rope_base_local) ||
      !std::isfinite(config.rope_factor_global)) {
    return fail(ErrorCode::BadFile, fmt::format("the model's norm epsilon {}, rope bases {} and {} or rope factor {} is out of bounds",
                                                config.rms_eps, config.rope_base_global, config.rope_base_local,
                                                config.rope_factor_global));
  }
  if (!config.global.empty() && config.global.size() != config.layers) {
    return fail(ErrorCode::BadFile, fmt::format("the layer pattern names {} layers, the model has {}", config.global.size(),
                                                config.layers));
  }
  return {};
}

Result<Config> read_config(const weights::WeightStore& store) {
  if (store.is_gguf()) return read_gguf_config(store);
  EBB_TRY_ASSIGN(const std::string text, store.side_file("config.json"));
  auto config = parse_hf_config(text);
  if (!config) {
    Error error = std::move(config).error();
    error.message = fmt::format("{}: config.json: {}", store.path().string(), error.message);
    return tl::unexpected<Error>(std::move(error));
  }
  config->vocab_rows = store.rows(weights::Part::Embedding).value_or(0);
  EBB_TRY(check_config(*config));
  return config;
}

}  // namespace ebb::model
