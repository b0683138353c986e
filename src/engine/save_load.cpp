// Conversation::save and load: which chats fit which model, and KV bytes between the cache and the file.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/checksum.h"
#include "engine/chat.h"
#include "engine/conversation.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/kv_choice.h"
#include "engine/internal/saved_chat.h"

namespace ebb::engine {
namespace {

/// Equal for two models exactly when one's KV is the other's, as far as sampled weights can tell.
std::string model_id(const Engine::State& engine) {
  const model::Config& config = engine.model->config();
  Checksum checksum;
  checksum.add(engine.weights->identity().bytes);
  checksum.add(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", config.layers, config.hidden, config.ffn, config.q_heads,
                           config.kv_heads, config.head_dim, config.vocab_rows, config.window_tokens, config.rms_eps,
                           config.rope_base_global, config.rope_base_local, config.rope_factor_global, config.score_scale));
  for (const bool is_global : config.global) checksum.add(is_global ? " global" : " local");
  return checksum.digest().hex();
}

SavedKv kv_facts(const Engine::State& engine) {
  const model::Config& config = engine.model->config();
  SavedKv kv;
  kv.global = kv_types_name(engine.kv_options.global);
  kv.local = kv_types_name(engine.kv_options.local);
  kv.arithmetic = engine.info.arithmetic;
  kv.layers = config.layers;
  kv.kv_heads = config.kv_heads;
  kv.head_dim = config.head_dim;
  kv.window_tokens = config.window_tokens;
  kv.rewind_tokens = engine.kv_options.rewind_tokens;
  return kv;
}

model::KvExtent extent_of(const SavedChat& chat) { return {chat.tokens.size(), chat.first_kept, chat.record_base}; }

Status refuse_while_answering(const Conversation::State& conversation, std::string_view wish) {
  if (!conversation.answering) return {};
  return fail(ErrorCode::InvalidArgument,
              fmt::format("conversation {} is being answered; {} when the answer has ended", conversation.id, wish));
}

/// Whether the file's KV may become this conversation's. Allocates nothing.
Status check_fits(const Conversation::State& conversation, const SavedChat& chat, const std::string& where) {
  const Engine::State& engine = conversation.engine;
  const auto other = [&](std::string_view what, std::string_view theirs, std::string_view ours) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{}: saved with {} {}; this model runs with {}. Open it as it was then to go on with this chat", where,
                            what, theirs, ours));
  };
  if (chat.model_id != model_id(engine)) {
    const bool same_name = chat.model_name == engine.info.name;
    return fail(ErrorCode::InvalidArgument, fmt::format("{}: saved with another model, {}; this is {}{}. Open that one to go on with this chat",
                                                        where, chat.model_name, engine.info.name,
                                                        same_name ? " with other weights" : ""));
  }
  const SavedKv ours = kv_facts(engine);
  if (chat.kv.global != ours.global) return other("KV type", chat.kv.global, ours.global);
  if (chat.kv.local != ours.local) return other("KV type of local layers", chat.kv.local, ours.local);
  if (chat.kv.arithmetic != ours.arithmetic) return other("arithmetic", chat.kv.arithmetic, ours.arithmetic);
  if (chat.tokens.size() > engine.info.context) {
    return fail(ErrorCode::ContextFull, fmt::format("{}: the chat holds {} tokens and the context {}; open the model with a larger context "
                                                    "(-c {} or more)", where, chat.tokens.size(), engine.info.context, chat.tokens.size()));
  }
  if (!chat.tokens.empty()) EBB_TRY(conversation.check(chat.tokens));
  const std::size_t kv_bytes = model::KvCache::contents_bytes(engine.model->config(), engine.kv_options, extent_of(chat));
  if (chat.kv != ours || chat.kv_bytes != kv_bytes) {
    return fail(ErrorCode::BadFile, fmt::format("{}: {} tokens with {} bytes of keys and values; this model's take {} (a file of another "
                                                "version of Ebb?)", where, chat.tokens.size(), chat.kv_bytes, kv_bytes));
  }
  return {};
}

/// The cache's bytes where the host can read them. `step` is held.
Result<std::vector<std::span<std::byte>>> readable_contents(Conversation::State& conversation) {
  model::KvCache& cache = *conversation.cache;
  EBB_TRY(conversation.engine.reclaimer->with_room({conversation.id, conversation.tokens.size()}, [&] { return cache.park(); }));
  conversation.publish();
  return cache.contents();
}

/// Pieces of the file, so that other conversations take their steps between them.
Status write_contents(Pass& pass, std::span<const std::span<std::byte>> contents, SavedChatWriter& writer) {
  std::vector<std::byte> piece;
  while (!contents.empty()) {
    piece.clear();
    EBB_TRY(pass.between_steps([&]() -> Status {
      do {
        piece.insert(piece.end(), contents.front().begin(), contents.front().end());
        contents = contents.subspan(1);
      } while (!contents.empty() && piece.size() + contents.front().size() <= kSavedChatPieceBytes);
      return {};
    }));
    EBB_TRY(writer.write(piece));
  }
  return {};
}

}  // namespace

Status Conversation::save(const std::filesystem::path& path, std::span<const ChatMessage> messages) {
  EBB_TRY(refuse_while_answering(*state_, "save it"));
  SavedChat chat;
  chat.model_id = model_id(state_->engine);
  chat.model_name = state_->engine.info.name;
  chat.kv = kv_facts(state_->engine);
  chat.messages.assign(messages.begin(), messages.end());

  Pass pass(*state_, Pass::Kind::Evaluation);
  bool was_parked = true;
  std::vector<std::span<std::byte>> contents;
  EBB_TRY(pass.between_steps([&]() -> Status {
    if (state_->cache == nullptr) return {};
    was_parked = state_->cache->parked();
    EBB_TRY_ASSIGN(contents, readable_contents(*state_));
    const model::KvExtent extent = state_->cache->extent();
    chat.tokens = state_->tokens;
    chat.first_kept = extent.first_kept;
    chat.record_base = extent.record_base;
    for (const std::span<std::byte> part : contents) chat.kv_bytes += part.size();
    return {};
  }));
  const auto write = [&]() -> Status {
    EBB_TRY_ASSIGN(SavedChatWriter writer, SavedChatWriter::create(path, chat));
    EBB_TRY(write_contents(pass, contents, writer));
    return writer.commit();
  };
  Status written = write();
  if (!was_parked) {
    // Where that is refused it stays parked, which the next answer mends.
    static_cast<void>(pass.between_steps([&] {
      Status restored = state_->cache->restore();
      state_->publish();
      return restored;
    }));
  }
  return written;
}

Result<std::vector<ChatMessage>> Conversation::load(const std::filesystem::path& path) {
  EBB_TRY(refuse_while_answering(*state_, "load"));
  Engine::State& engine = state_->engine;
  EBB_TRY_ASSIGN(SavedChatReader reader, SavedChatReader::open(path));
  const SavedChat& chat = reader.chat();
  EBB_TRY(check_fits(*state_, chat, path.string()));

  // Beside what is there, which a failure leaves as it is. Nobody else knows the new cache, and prepared it lies in host
  // memory: filling it needs no lock.
  std::unique_ptr<model::KvCache> cache;
  if (!chat.tokens.empty()) {
    const std::lock_guard step(engine.step);
    EBB_TRY_ASSIGN(cache, model::KvCache::create(engine.kv_pools, state_->id, engine.model->config(), engine.kv_options));
    EBB_TRY(engine.reclaimer->with_room({state_->id, chat.tokens.size()}, [&] { return cache->prepare(extent_of(chat)); }));
  }
  if (cache != nullptr) {
    for (const std::span<std::byte> part : cache->contents()) EBB_TRY(reader.read(part));
  }

  const std::lock_guard step(engine.step);
  state_->forget();
  state_->cache = std::move(cache);
  state_->tokens = chat.tokens;
  state_->last_use = ++engine.use_count;
  state_->publish();
  return chat.messages;
}

}  // namespace ebb::engine
