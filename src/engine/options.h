// What a caller may choose, as plain structs: the model and how it runs, how an answer is sampled and where it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory_options.h"

namespace ebb::engine {

/// How the model is opened. Zero means "choose for me".
struct EngineOptions {
  std::filesystem::path model;            // a GGUF file, a safetensors file or a Hugging Face folder
  std::string devices = "cpu";            // "cpu", or fake devices: "fake:16GiB,fake:8GiB"
  std::size_t fake_page_bytes = 0;        // page of fake devices; 0 = theirs
  std::size_t context_tokens = 0;         // 0 = the model's own
  std::size_t chunk_tokens = 512;         // prompt tokens evaluated in one step (-ub)
  int threads = 0;                        // 0 = physical cores
  bool exact = false;                     // float32 activations and KV instead of packed arithmetic
  std::string kv_type;                    // f16, bf16, f32, q8_0 or q4_0, or "K/V" apart; empty = f16, or f32 when exact
  bool kv_quantize_global_only = false;   // windowed layers keep f16 where kv_type says q8_0 or q4_0
  std::string gpu_layers = "auto";        // layers on devices: a number, "auto", or "all" (or refuse)
  std::vector<double> tensor_split;       // shares by device; empty = by the planner
  std::optional<std::size_t> main_device;  // use this device alone
  std::size_t fit_target_bytes = 0;       // left free on every device
  std::size_t parallel = 1;               // chats the plan makes room for
  MemoryOptions memory;
  std::string chat_template;              // "gemma", "plain"; empty = by the file
};

/// T12: defaults 1.0 / top_k 64 / top_p 0.95 / min_p 0 / penalties off. Applied in this order: penalties, top_k, top_p,
/// min_p, temperature.
struct SamplingOptions {
  float temperature = 1.0F;  // 0 = greedy
  int top_k = 64;            // 0 = off
  float top_p = 0.95F;       // 1 = off
  float min_p = 0.0F;        // 0 = off
  float repeat_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  int repeat_last_n = 64;              // tokens the penalties look back at; -1 = all
  std::optional<std::uint64_t> seed;   // none = a fresh one, reported in the answer
};

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t max_tokens = -1;       // -1 = until the end
  std::vector<std::string> stop;      // the answer ends before the earliest of these
  int log_probs = -1;                 // alternatives a token to report; -1 = none, 0 = the token's own only
  bool ignore_end = false;            // benchmarks: do not stop at end tokens
};

}  // namespace ebb::engine
