// S3, X7: the file of a saved chat by itself. What damage can be, and why the cases cover it: a bit of every byte (so every
// field, message, token, KV byte and the checksum), every length shorter than whole, bytes behind the end, sizes that
// claim more than there is (alone, together, past 64 bits), a right checksum over wrong facts (each member missing, of
// another kind, nested), another version, and files of other kinds.
#include "engine/internal/saved_chat.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "engine/internal/saved_chat_header.h"
#include "support/must.h"
#include "support/small_disk.h"
#include "support/temp_folder.h"

namespace ebb::engine {
namespace {

using tests::must;
using tests::read_file;
using tests::TempFolder;

constexpr std::size_t kHeadBytes = 32;
constexpr std::size_t kVersionAt = 8, kHeaderBytesAt = 12, kTokenCountAt = 16, kKvBytesAt = 24;

SavedChat small_chat() {
  SavedChat chat;
  chat.model_id = "abc";
  chat.model_name = "Kleines \"Modell\"";
  chat.kv = {"q8_0/q4_0", "f16", "int16 activations", 4, 1, 8, 16, 1024};
  chat.first_kept = 2;
  chat.record_base = 1;
  chat.messages = {{"system", "Be terse."}, {"user", "你好 \x01\n"}, {"assistant", ""}};
  chat.tokens = {2, 17, 255, 262143};
  chat.kv_bytes = 40;
  return chat;
}

std::string kv_of(const SavedChat& chat) {
  std::string kv;
  while (kv.size() < chat.kv_bytes) kv += static_cast<char>(kv.size() * 37 + kv.size() / 256);
  return kv;
}

Status save(const std::filesystem::path& path, const SavedChat& chat) {
  EBB_TRY_ASSIGN(SavedChatWriter writer, SavedChatWriter::create(path, chat));
  const std::string kv = kv_of(chat);
  const auto bytes = std::as_bytes(std::span(kv));
  EBB_TRY(writer.write(bytes.first(bytes.size() / 3)));
  EBB_TRY(writer.write(bytes.subspan(bytes.size() / 3)));
  return writer.commit();
}

std::string bytes_of(const SavedChat& chat) {
  const TempFolder folder;
  must(save(folder.path() / "chat", chat));
  return read_file(folder.path() / "chat");
}

/// The error of a file of these bytes, or an empty text.
std::string fault(const TempFolder& folder, const std::string& bytes) {
  const auto reader = SavedChatReader::open(folder.write("chat", bytes));
  return reader ? std::string() : reader.error().message;
}

template <typename T>
std::string with(std::string bytes, std::size_t at, T value) {
  std::array<char, sizeof(T)> raw;
  std::memcpy(raw.data(), &value, sizeof value);
  for (std::size_t idx = 0; idx < raw.size(); ++idx) bytes.at(at + idx) = raw[idx];
  return bytes;
}

/// The same bytes with a checksum that is right.
std::string sealed(std::string bytes) {
  Checksum checksum;
  checksum.add(std::string_view(bytes).substr(0, bytes.size() - sizeof(Digest)));
  const Digest digest = checksum.digest();
  std::memcpy(bytes.data() + bytes.size() - sizeof digest, &digest, sizeof digest);
  return bytes;
}

/// A whole file with this text in place of the header's JSON.
std::string with_header(const std::string& json) {
  const std::string bytes = bytes_of(small_chat());
  const std::size_t old_size = write_saved_chat_header(small_chat()).size();
  std::string changed = bytes.substr(0, kHeadBytes);
  changed.append(json).append(bytes, kHeadBytes + old_size);
  return sealed(with(std::move(changed), kHeaderBytesAt, static_cast<std::uint32_t>(json.size())));
}

TEST(SavedChat, ComesBackAsItWas) {
  const TempFolder folder;
  const SavedChat chat = small_chat();
  must(save(folder.path() / "chat", chat));
  auto reader = must(SavedChatReader::open(folder.path() / "chat"));
  const SavedChat& again = reader.chat();
  EXPECT_EQ(again.model_id, chat.model_id);
  EXPECT_EQ(again.model_name, chat.model_name);
  EXPECT_EQ(again.kv, chat.kv);
  EXPECT_EQ(again.first_kept, chat.first_kept);
  EXPECT_EQ(again.record_base, chat.record_base);
  EXPECT_EQ(again.tokens, chat.tokens);
  ASSERT_EQ(again.messages.size(), chat.messages.size());
  for (std::size_t idx = 0; idx < chat.messages.size(); ++idx) {
    EXPECT_EQ(again.messages[idx].role, chat.messages[idx].role);
    EXPECT_EQ(again.messages[idx].text, chat.messages[idx].text);
  }
  std::string kv(again.kv_bytes, '\0');
  must(reader.read(std::as_writable_bytes(std::span(kv)).first(11)));
  must(reader.read(std::as_writable_bytes(std::span(kv)).subspan(11)));
  EXPECT_EQ(kv, kv_of(chat));
}

// The buffer's border: pieces of the file and of the caller need not meet.
TEST(SavedChat, MayBeLargerThanTheBuffer) {
  const TempFolder folder;
  SavedChat chat = small_chat();
  chat.kv_bytes = 2 * kSavedChatPieceBytes + 5;
  must(save(folder.path() / "chat", chat));
  auto reader = must(SavedChatReader::open(folder.path() / "chat"));
  std::string kv(chat.kv_bytes, '\0');
  must(reader.read(std::as_writable_bytes(std::span(kv))));
  EXPECT_TRUE(kv == kv_of(chat));
}

TEST(SavedChat, MayHoldMessagesAlone) {
  SavedChat chat = small_chat();
  chat.tokens.clear();
  chat.kv_bytes = chat.first_kept = chat.record_base = 0;
  const TempFolder folder;
  EXPECT_EQ(fault(folder, bytes_of(chat)), "");
}

TEST(SavedChat, EveryFlippedByteIsNoticed) {
  const TempFolder folder;
  const std::string bytes = bytes_of(small_chat());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ (1 << at % 8));
    const std::string message = fault(folder, broken);
    ASSERT_NE(message, "") << "byte " << at;
    const bool in_head = at < kHeadBytes;
    EXPECT_TRUE(in_head || message.find("damaged: its checksum is") != std::string::npos) << message;
  }
}

TEST(SavedChat, EveryOtherLengthIsNoticed) {
  const TempFolder folder;
  const std::string bytes = bytes_of(small_chat());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string message = fault(folder, bytes.substr(0, size));
    EXPECT_NE(message.find(size < kHeadBytes ? "not a saved chat" : "cut short or damaged: it has"), std::string::npos) << message;
  }
  EXPECT_NE(fault(folder, bytes + "x").find("cut short or damaged"), std::string::npos);
}

// With a right checksum, so that it is the sizes themselves that are refused; the address sanitizer's allocator limit
// and the fuzz target's memory limit say that nothing was made by them.
TEST(SavedChat, HugeClaimsAllocateNothing) {
  const TempFolder folder;
  const std::string bytes = bytes_of(small_chat());
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  for (const std::size_t at : {kTokenCountAt, kKvBytesAt}) {
    for (const std::uint64_t claim : {kAll, kAll / 4, kAll / 4 + 1, kAll - 100, std::uint64_t{1} << 40, std::uint64_t{1} << 24}) {
      EXPECT_NE(fault(folder, sealed(with(bytes, at, claim))).find("damaged: it"), std::string::npos) << at << " " << claim;
    }
  }
  EXPECT_NE(fault(folder, sealed(with(bytes, kHeaderBytesAt, ~std::uint32_t{0}))).find("it claims 4.00 GiB of messages"), std::string::npos);
  // Sums that come out right only by wrapping around 64 bits.
  const std::string wrapped = with(with(bytes, kTokenCountAt, kAll / 4 + 1 + 4), kKvBytesAt, std::uint64_t{40});
  EXPECT_NE(fault(folder, sealed(wrapped)).find("damaged"), std::string::npos);
}

TEST(SavedChat, OtherVersionsAndOtherFilesAreRefused) {
  const TempFolder folder;
  const std::string newer = sealed(with(bytes_of(small_chat()), kVersionAt, std::uint32_t{2}));
  EXPECT_NE(fault(folder, newer).find("a saved chat of version 2; this program reads version 1"), std::string::npos);
  const auto refused = SavedChatReader::open(folder.path() / "chat");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  const std::string text = R"({"format": "ebb-chat", "version": 1, "model": "m", "system": "", "messages": []})";
  EXPECT_NE(fault(folder, text).find("not a saved chat"), std::string::npos);
  EXPECT_NE(fault(folder, "").find("not a saved chat"), std::string::npos);
  EXPECT_EQ(SavedChatReader::open(folder.path()).error().code, ErrorCode::BadFile) << "a folder";
  EXPECT_EQ(SavedChatReader::open("/dev/zero").error().code, ErrorCode::BadFile);
  EXPECT_EQ(SavedChatReader::open(folder.path() / "none").error().code, ErrorCode::NotFound);
}

TEST(SavedChat, WrongFactsUnderARightChecksumAreNamed) {
  const TempFolder folder;
  const std::string whole = write_saved_chat_header(small_chat());
  EXPECT_EQ(fault(folder, with_header(whole)), "");
  for (const std::string key : {"model", "model_id", "kv", "messages", "role", "content", "global", "local", "arithmetic", "layers", "kv_heads", "head_dim", "window_tokens", "rewind_tokens",
                                "first_kept", "record_base"}) {
    std::string missing = whole;
    missing.at(missing.find(fmt::format("\"{}\":", key)) + 1) = '-';
    EXPECT_NE(fault(folder, with_header(missing)).find(" must be a"), std::string::npos) << key;
  }
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = whole;
    return fault(folder, with_header(changed.replace(changed.find(from), from.size(), to)));
  };
  EXPECT_NE(replaced("\"layers\":4", "\"layers\":-4").find("\"layers\" must be a whole number"), std::string::npos);
  EXPECT_NE(replaced("\"layers\":4", "\"layers\":\"4\"").find("\"layers\" must be a whole number"), std::string::npos);
  EXPECT_NE(replaced("\"role\":\"user\"", "\"role\":\"robot\"").find("message 2: the role \"robot\""), std::string::npos);
  EXPECT_NE(replaced("\"first_kept\":2", "\"first_kept\":5").find("past its 4 tokens"), std::string::npos);
  for (const std::string& bad : {std::string(), std::string("[]"), std::string("{"), std::string(100000, '['),
                                 std::string(R"({"a":[[[[[1]]]]]})")}) {
    EXPECT_NE(fault(folder, with_header(bad)).find("not the JSON of a saved chat"), std::string::npos) << bad.substr(0, 20);
  }
}

TEST(SavedChat, AChangeBetweenTheTwoReadingsIsNoticed) {
  const TempFolder folder;
  const std::string bytes = bytes_of(small_chat());
  auto reader = must(SavedChatReader::open(folder.write("chat", bytes)));
  std::fstream(folder.path() / "chat", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(bytes.size() - 20))
      .put('!');
  std::string kv(reader.chat().kv_bytes, '\0');
  const Status read = reader.read(std::as_writable_bytes(std::span(kv)));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("changed while it was read"), std::string::npos);

  auto shortened = must(SavedChatReader::open(folder.write("chat", bytes)));
  std::filesystem::resize_file(folder.path() / "chat", bytes.size() - 30);
  EXPECT_NE(shortened.read(std::as_writable_bytes(std::span(kv))).error().message.find("shorter"), std::string::npos);
}

// X8: whatever moment the disk is full at, the chat saved before is whole and nothing else is left.
TEST(SavedChat, FullDiskLosesNothing) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "chat";
  must(save(path, small_chat()));
  const std::string before = read_file(path);
  for (std::size_t room = 0; room < before.size(); room += 7) {
    const tests::SmallDisk disk(room);
    const Status refused = save(path, small_chat());
    ASSERT_FALSE(refused) << room;
    EXPECT_EQ(refused.error().code, ErrorCode::Io);
  }
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(save("/proc/chat", small_chat()).error().code, ErrorCode::Io) << "a folder that cannot be written";
}

TEST(SavedChat, MessagesBeyondTheFormAreRefusedBeforeWriting) {
  const TempFolder folder;
  SavedChat chat = small_chat();
  chat.messages[0].text.assign(std::size_t{17} << 20, 'x');
  const Status refused = save(folder.path() / "chat", chat);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ebb::engine
