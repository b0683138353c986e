#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "model/config.h"
#include "model/internal/config_checks.h"

namespace ebb::model {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;  // config files nest three deep; a bound keeps a hostile one off the stack

/// Parses without exceptions; nothing when the text is not JSON, nests too deeply or is not an object.
Json parse_bounded(std::string_view text) {
  bool too_deep = false;
  const Json::parser_callback_t bound = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json json = Json::parse(text, bound, /*allow_exceptions=*/false);
  if (too_deep || json.is_discarded()) return Json();
  return json;
}

/// Reads fields of one object and remembers the first that is of the wrong kind.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  [[nodiscard]] std::size_t count(const char* key, std::size_t otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_unsigned()) return wrong(key, "a whole number that is not negative"), otherwise;
    return value->get<std::uint64_t>();
  }
  [[nodiscard]] double number(const char* key, double otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) return wrong(key, "a number"), otherwise;
    return value->get<double>();
  }
  [[nodiscard]] std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) return wrong(key, "a text"), std::string();
    return value->get<std::string>();
  }
  /// An object, or null when absent or null.
  [[nodiscard]] const Json* object(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return nullptr;
    if (!value->is_object()) return wrong(key, "an object"), nullptr;
    return value;
  }
  [[nodiscard]] const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void wrong(const char* key, const char* wanted) {
    if (fault_.empty()) fault_ = fmt::format("\"{}\" must be {}", key, wanted);
  }
  [[nodiscard]] Status status() const {
    if (fault_.empty()) return {};
    return fail(ErrorCode::BadFile, fault_);
  }

 private:
  const Json& object_;
  std::string fault_;
};

/// The rope settings of one kind of layer: {rope_type or type, rope_theta, factor}. `base` may be absent in the old form.
Status read_rope(const Json& object, double& base, double& factor) {
  Fields fields(object);
  std::string type = fields.text("rope_type");
  if (type.empty()) type = fields.text("type");
  base = fields.number("rope_theta", base);
  if (type == "linear") factor = fields.number("factor", factor);
  EBB_TRY(fields.status());
  if (!type.empty() && type != "linear" && type != "default") {
    return fail(ErrorCode::Unsupported, fmt::format("rope type \"{}\" is not run by Ebb; accepted are default and linear", type));
  }
  return {};
}

Status read_ropes(Fields& fields, Config& config) {
  config.rope_base_global = fields.number("rope_theta", 1e6);
  config.rope_base_local = fields.number("rope_local_base_freq", 1e4);
  if (const Json* scaling = fields.object("rope_scaling")) {
    EBB_TRY(read_rope(*scaling, config.rope_base_global, config.rope_factor_global));
  }
  if (const Json* parameters = fields.object("rope_parameters")) {
    Fields kinds(*parameters);
    double local_factor = 1;
    if (const Json* global = kinds.object("full_attention")) {
      EBB_TRY(read_rope(*global, config.rope_base_global, config.rope_factor_global));
    }
    if (const Json* local = kinds.object("sliding_attention")) {
      EBB_TRY(read_rope(*local, config.rope_base_local, local_factor));
    }
    EBB_TRY(kinds.status());
    if (local_factor != 1) {
      return fail(ErrorCode::Unsupported, fmt::format("rope factor {} on sliding layers; Gemma 3 has 1 there", local_factor));
    }
  }
  return {};
}

Status read_pattern(Fields& fields, Config& config) {
  const Json* types = fields.find("layer_types");
  if (types == nullptr) {
    const std::size_t spelled = fields.count("_sliding_window_pattern", 6);
    config.global = periodic_pattern(config.layers, fields.count("sliding_window_pattern", spelled));
    return fields.status();
  }
  if (!types->is_array()) {
    fields.wrong("layer_types", "a list");
    return fields.status();
  }
  for (const Json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return fail(ErrorCode::Unsupported, "\"layer_types\" may hold \"full_attention\" and \"sliding_attention\"");
    }
    config.global.push_back(type == "full_attention");
  }
  return {};
}

}  // namespace

Result<Config> parse_hf_config(std::string_view text) {
  const Json root = parse_bounded(text);
  if (!root.is_object()) return fail(ErrorCode::BadFile, "not a JSON object, or nested too deeply");
  Fields top(root);
  const std::string kind = top.text("model_type");
  EBB_TRY(top.status());
  if (kind != "gemma3" && kind != "gemma3_text") {
    return fail(ErrorCode::Unsupported, fmt::format("model_type is \"{}\"; Ebb runs gemma3 and gemma3_text", kind));
  }
  const Json* text_config = top.object("text_config");
  EBB_TRY(top.status());
  Fields fields(text_config != nullptr ? *text_config : root);

  Config config;  // the defaults are those of transformers' Gemma3TextConfig
  config.layers = fields.count("num_hidden_layers", 26);
  config.hidden = fields.count("hidden_size", 2304);
  config.ffn = fields.count("intermediate_size", 9216);
  config.q_heads = fields.count("num_attention_heads", 8);
  config.kv_heads = fields.count("num_key_value_heads", 4);
  config.head_dim = fields.count("head_dim", 256);
  config.vocab_rows = fields.count("vocab_size", 262208);
  config.window_tokens = fields.count("sliding_window", 4096);
  config.max_context = fields.count("max_position_embeddings", 131072);
  config.rms_eps = fields.number("rms_norm_eps", 1e-6);
  const double scalar = fields.number("query_pre_attn_scalar", 256);
  EBB_TRY(fields.status());
  EBB_TRY(check_config(config));  // before anything is sized by the layer count
  EBB_TRY(read_ropes(fields, config));
  EBB_TRY(read_pattern(fields, config));
  if (!(scalar > 0) || !std::isfinite(scalar)) {
    return fail(ErrorCode::BadFile, fmt::format("\"query_pre_attn_scalar\" is {}; it must be above 0", scalar));
  }
  config.score_scale = 1.0 / std::sqrt(scalar);
  EBB_TRY(check_config(config));
  return config;
}

}  // namespace ebb::model
