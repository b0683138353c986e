// The loaded model and what the terminal and the server ask of it. They see text, tokens and plain structs: no tensor, no
// page. Opening maps the file and reads its metadata; weights stay in the mapping.
// Called by cli/ and server/. Owns model, tokenizer, pools and threads; conversations must not outlive it.
// Threads   members are safe from any thread unless they say otherwise; forward passes take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/answer.h"
#include "engine/options.h"
#include "engine/plan.h"
#include "engine/receipt.h"
#include "engine/status.h"

namespace ebb::engine {

class Conversation;

enum class PromptStyle : std::uint8_t { Gemma, Plain };

struct ModelInfo {
  std::string name;           // general.name, or the file's name
  std::string size;           // "270M", "12B", or "custom"
  std::string types;          // "Q5_0 81, Q8_0 10, ..." of the matrices
  std::uint64_t parameters = 0;
  std::size_t file_bytes = 0;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;        // tokens that may be generated
  std::size_t trained_context = 0;   // tokens
  std::size_t context = 0;           // tokens of a conversation here
  std::size_t kv_bytes_per_token = 0;  // before the windows are full
  bool instruct = false;             // answers in turns by itself
  PromptStyle prompt_style = PromptStyle::Plain;
  std::string kv_type;
  std::string arithmetic;            // "float32", "int16 activations"
  int threads = 0;
};

class Engine {
 public:
  /// Errors   NotFound, BadFile, Unsupported (naming what), InvalidArgument (context, threads), OutOfMemory.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const ModelInfo& info() const;

  /// An empty conversation; holds no memory until it is given tokens.
  [[nodiscard]] Result<std::unique_ptr<Conversation>> new_conversation();

  /// Ids of text, <bos> not included. With `parse_control`, spellings such as <end_of_turn> become control tokens.
  [[nodiscard]] std::vector<std::int32_t> tokenize(std::string_view text, bool parse_control) const;
  [[nodiscard]] std::string detokenize(std::span<const std::int32_t> ids, bool with_control) const;
  [[nodiscard]] std::string token_bytes(std::int32_t id) const;
  [[nodiscard]] std::int32_t bos() const;

  /// Devices, kinds and owners, from one snapshot. Any thread; never waits for a step.
  [[nodiscard]] MemoryStatus memory() const;
  /// What the model was planned to take before it was loaded.
  [[nodiscard]] const Plan& plan() const;

  // Any thread, also from inside a sink; they act between two steps.

  /// Gives memory back that nothing needs now. At Level::Full with `all` also the weights and the KV of chats, which
  /// come back when they are used again (or are evaluated again where the host has no room for them).
  Receipt reclaim(Level level, bool all = false);
  /// Takes weights, scratch and KV off the devices; answers under way end. The next answer loads by itself.
  /// Errors   DeviceLost, Io: nothing is lost, and a later try works.
  [[nodiscard]] Result<Receipt> unload();
  /// Errors   OutOfMemory with the numbers; DeviceLost, Io.
  [[nodiscard]] Result<Receipt> load();
  /// What happened by itself that a user should know, since the last call.
  [[nodiscard]] std::vector<std::string> take_warnings();

  struct State;  // shared with Conversation, private to engine/
  [[nodiscard]] State& state() { return *state_; }

 private:
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What bounds a decode step on this machine: its weights, and how fast they can be read with the engine's threads. Nothing,
/// with a bytes_per_token of 0, where an engine has a card.
struct DecodeCeiling {
  std::size_t bytes_per_token = 0;     // of weights; the KV comes on top
  double read_bytes_per_second = 0;    // best of `rounds` sweeps over those same bytes
  [[nodiscard]] double tokens_per_second() const { return read_bytes_per_second / static_cast<double>(bytes_per_token); }
};
[[nodiscard]] DecodeCeiling measure_decode_ceiling(Engine& engine, int rounds = 7);

/// Perplexity by the field's usual definition: windows of `context_tokens`, the first token of each replaced by <bos>,
/// the second half scored, an incomplete last window dropped.
struct PerplexityResult {
  double perplexity = 0;
  double standard_error = 0;  // of the perplexity
  double nll_sum = 0;
  std::size_t scored_tokens = 0;
  std::size_t windows = 0;
};
/// Errors   InvalidArgument when the text is shorter than one window. `progress` gets windows done and the perplexity so far.
[[nodiscard]] Result<PerplexityResult> perplexity(Engine& engine, std::span<const std::int32_t> tokens,
                                                  std::size_t context_tokens,
                                                  const std::function<bool(std::size_t done, std::size_t total, double so_far)>& progress);

}  // namespace ebb::engine
