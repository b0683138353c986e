// The file of a saved chat: its messages, the tokens its cache holds, and the cache's own bytes, under one checksum.
// Knows the form and nothing of models: who calls decides whether a file fits. docs/saved-chats.md describes the form.
// Reading trusts nothing: every size is held against the file before anything is made by it, and the checksum is right
// before a caller sees a single fact. Both ways go through one small buffer, however long the chat.
// Called by save_load.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file_replacement.h"
#include "engine/chat.h"

namespace ebb::engine {

inline constexpr std::size_t kSavedChatPieceBytes = std::size_t{1} << 20;  // read or written at once

/// What the cache's bytes mean; a cache of other facts cannot hold them.
struct SavedKv {
  std::string global, local;  // types of both kinds of layers, as kv_types_name() spells them
  std::string arithmetic;     // what they were computed with
  std::uint64_t layers = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_dim = 0;
  std::uint64_t window_tokens = 0;
  std::uint64_t rewind_tokens = 0;
  friend bool operator==(const SavedKv&, const SavedKv&) = default;
};

struct SavedChat {
  std::string model_id;    // by WeightStore::identity() and the configuration
  std::string model_name;  // for people
  SavedKv kv;
  std::uint64_t first_kept = 0;   // as model::KvExtent
  std::uint64_t record_base = 0;
  std::vector<ChatMessage> messages;
  std::vector<std::int32_t> tokens;  // that the cache holds; none: the messages alone
  std::uint64_t kv_bytes = 0;
};

class SavedChatWriter {
 public:
  /// Errors   Io with the system's reason; InvalidArgument when the messages are larger than a file may hold (16 MiB).
  [[nodiscard]] static Result<SavedChatWriter> create(const std::filesystem::path& path, const SavedChat& chat);

  /// The next of chat.kv_bytes bytes. Errors: Io; the file that was there is as it was.
  [[nodiscard]] Status write(std::span<const std::byte> kv);
  /// All of them were written. Errors: as write().
  [[nodiscard]] Status commit();

 private:
  explicit SavedChatWriter(FileReplacement file, std::uint64_t kv_bytes) : file_(std::move(file)), kv_left_(kv_bytes) {}

  FileReplacement file_;
  Checksum checksum_;
  std::uint64_t kv_left_;
};

class SavedChatReader {
 public:
  /// Reads the file once to its end and checks all of it but what only a model can know.
  /// Errors   NotFound, Io; BadFile when it is no saved chat, cut short, too long or damaged; Unsupported for another
  ///          version. Each with the file's name, what was found and what is accepted.
  [[nodiscard]] static Result<SavedChatReader> open(const std::filesystem::path& path);
  SavedChatReader(SavedChatReader&& other) noexcept;
  SavedChatReader& operator=(SavedChatReader&&) = delete;  // one file, one reader
  ~SavedChatReader();

  [[nodiscard]] const SavedChat& chat() const { return chat_; }
  /// The next of chat().kv_bytes bytes.
  /// Errors   Io; BadFile when the last of them shows that the file was changed since open().
  [[nodiscard]] Status read(std::span<std::byte> kv);

 private:
  SavedChatReader(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  [[nodiscard]] Status fill(std::span<std::byte> bytes);
  [[nodiscard]] Status check_all(std::uint64_t file_bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  SavedChat chat_;
  Checksum kv_checksum_;  // of KV bytes read by the caller
  Digest kv_digest_;      // of KV bytes met by open()
  std::uint64_t kv_left_ = 0;
};

}  // namespace ebb::engine
