// Any bytes as the file of a saved chat, as they are and under a right checksum (which no fuzzer would find): read or
// refused, and what was read is written back as the same chat.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "engine/internal/saved_chat.h"
#include "engine/internal/saved_chat_header.h"

namespace {

using namespace ebb;

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("saved_chat", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void add(std::span<const std::byte> bytes) const {
    EBB_CHECK(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "{} bytes", bytes.size());
  }
  [[nodiscard]] std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void read_back(const MemoryFile& file) {
  auto reader = engine::SavedChatReader::open(file.path());
  if (!reader) {
    EBB_CHECK(!reader.error().message.empty(), "an error without a sentence");
    return;
  }
  const engine::SavedChat& chat = reader->chat();
  std::vector<std::byte> kv(chat.kv_bytes);
  EBB_CHECK(reader->read(kv).has_value(), "{} bytes of KV", kv.size());
  engine::SavedChat again;
  const std::string header = engine::write_saved_chat_header(chat);
  EBB_CHECK(engine::read_saved_chat_header(header, "again", again).has_value(), "{}", header);
  EBB_CHECK(again.kv == chat.kv && again.messages.size() == chat.messages.size(), "{}", header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const MemoryFile raw;
  raw.add(bytes);
  read_back(raw);
  if (size < sizeof(Digest)) return 0;
  const auto body = bytes.first(size - sizeof(Digest));
  Checksum checksum;
  checksum.add(body);
  const MemoryFile sealed;
  sealed.add(body);
  sealed.add(checksum.digest().bytes);
  read_back(sealed);
  return 0;
}
