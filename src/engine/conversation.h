// One mutable timeline of tokens with its KV. The caller always gives the full token list it wants; sync() alone decides
// what to keep, rewind or evaluate, so reuse is right in one place. reset() gives all memory back; so does the destructor.
// Called by chat.h, cli/ and server/. Must not outlive its Engine.
// Threads   generate, sync, score, save, load, tokens and logits: one thread at a time. reset, park, stop and id: any thread, also from
//           inside a sink; they act between two steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/answer.h"
#include "engine/options.h"
#include "engine/receipt.h"

namespace ebb::engine {

class Engine;
struct ChatMessage;  // chat.h

/// What sync() did.
struct SyncResult {
  std::size_t cached_tokens = 0;     // kept from before
  std::size_t evaluated_tokens = 0;  // run through the model
};

class Conversation {
 public:
  ~Conversation();
  Conversation(const Conversation&) = delete;  // owns KV pages; a copy would be a deep one
  Conversation& operator=(const Conversation&) = delete;

  /// Answers `prompt` (all tokens from <bos> on), keeping the longest prefix that this conversation already holds and
  /// whose windows can be restored. After the answer the conversation holds prompt and answer.
  /// Errors   ContextFull (prompt tokens, context); InvalidArgument (empty prompt, id out of range); OutOfMemory;
  ///          Cancelled by `progress`, stop(), reset() or park(). The tokens evaluated so far stay usable.
  [[nodiscard]] Result<Answer> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                        const TokenSink& sink, const Progress& progress);

  /// The first half of generate(): brings the KV to exactly `tokens`.
  [[nodiscard]] Result<SyncResult> sync(std::span<const std::int32_t> tokens, const Progress& progress);

  /// Natural log-probabilities, from the model's softmax, of the tokens after position `first_pos`: element i belongs to
  /// tokens[first_pos + 1 + i]. Evaluates from the start and leaves the conversation at `tokens`.
  [[nodiscard]] Result<std::vector<double>> score(std::span<const std::int32_t> tokens, std::size_t first_pos);

  /// Logits of the next token after sync(): [vocabulary] f32, valid until the next call.
  [[nodiscard]] std::span<const float> logits() const;

  [[nodiscard]] const std::vector<std::int32_t>& tokens() const;
  /// Forgets tokens from position `count` on.
  void rewind(std::size_t count);
  /// Forgets everything and gives every byte of this conversation back to the device; an answer under way ends within
  /// one step. Weights stay.
  Receipt reset();
  /// Sends the KV to the host; the next answer brings it back. An answer under way ends within one step.
  /// Errors   OutOfMemory (the host's limit), Io, DeviceLost: nothing changed.
  [[nodiscard]] Result<Receipt> park();
  /// An answer under way ends within one step, as Cancelled; what was said stays.
  void stop();
  [[nodiscard]] std::uint64_t id() const;

  /// Writes a chat's messages and this conversation's tokens and KV to a file, which replaces one of that name in one step
  /// or not at all. KV on a device goes through host memory. Other conversations' answers go on meanwhile.
  /// Errors   InvalidArgument while this conversation is being answered; Io; OutOfMemory (the host's limit); Cancelled by
  ///          stop(), reset() or park() from another thread. The conversation is as before.
  [[nodiscard]] Status save(const std::filesystem::path& path, std::span<const ChatMessage> messages);
  /// Takes the place of everything this conversation holds with what save() wrote, and returns the messages. The KV lies in
  /// host memory until the next answer brings it to its devices; that answer equals one that was never saved, to the bit.
  /// Errors   NotFound, Io; BadFile, Unsupported for a damaged, foreign or newer file; InvalidArgument for another model,
  ///          KV type or arithmetic, and while this conversation is being answered; ContextFull; OutOfMemory. The
  ///          conversation is as before, except that its KV may have been put away to make room.
  [[nodiscard]] Result<std::vector<ChatMessage>> load(const std::filesystem::path& path);

  struct State;  // private to engine/

 private:
  friend class Engine;
  explicit Conversation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ebb::engine
