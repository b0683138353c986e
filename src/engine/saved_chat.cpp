#include "engine/internal/saved_chat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "engine/internal/saved_chat_header.h"

namespace ebb::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian and is read as it lies");

// As in PNG: a byte no text has, the name, and line ends that a transfer as text would change.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'E', 'B', 'B', '\r', '\n', 0x1A, '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMostHeaderBytes = 16 * kMiB;      // messages of a chat, many times a context's worth
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 24;  // beyond any context

struct Head {
  std::array<unsigned char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = 0;
  std::uint64_t token_count = 0;
  std::uint64_t kv_bytes = 0;

  /// The whole file, or nothing when it would not fit 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> file_bytes() const {
    return checked_add(sizeof(Head) + header_bytes + token_count * sizeof(std::int32_t) + sizeof(Digest), kv_bytes);
  }
};
static_assert(sizeof(Head) == 32, "no gaps: it is written as it lies");

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Status check_head(const Head& head, std::uint64_t file_bytes, const std::string& where) {
  if (head.version != kVersion) {
    return fail(ErrorCode::Unsupported, fmt::format("{}: a saved chat of version {}; this program reads version {}", where,
                                                    head.version, kVersion));
  }
  if (head.header_bytes > kMostHeaderBytes || head.token_count > kMostTokens) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: damaged: it claims {} of messages and {} tokens; at most {} and {} can be read", where,
                            format_bytes(head.header_bytes), head.token_count, format_bytes(kMostHeaderBytes), kMostTokens));
  }
  const std::optional<std::uint64_t> wanted = head.file_bytes();
  if (wanted != file_bytes) {
    return fail(ErrorCode::BadFile, fmt::format("{}: cut short or damaged: it has {} bytes and claims {}", where, file_bytes,
                                                wanted ? fmt::format("{}", *wanted) : "more than any disk"));
  }
  return {};
}

}  // namespace

Result<SavedChatWriter> SavedChatWriter::create(const std::filesystem::path& path, const SavedChat& chat) {
  const std::string header = write_saved_chat_header(chat);
  if (header.size() > kMostHeaderBytes || chat.tokens.size() > kMostTokens) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{}: the messages take {}; a saved chat holds at most {}", path.string(),
                                                        format_bytes(header.size()), format_bytes(kMostHeaderBytes)));
  }
  Head head;
  head.header_bytes = static_cast<std::uint32_t>(header.size());
  head.token_count = chat.tokens.size();
  head.kv_bytes = chat.kv_bytes;
  EBB_TRY_ASSIGN(FileReplacement file, FileReplacement::create(path));
  SavedChatWriter writer(std::move(file), chat.kv_bytes);
  for (const auto part : {std::span<const std::byte>(bytes_of(head)), std::as_bytes(std::span(header)),
                          std::as_bytes(std::span(chat.tokens))}) {
    writer.checksum_.add(part);
    EBB_TRY(writer.file_.write(part));
  }
  return writer;
}

Status SavedChatWriter::write(std::span<const std::byte> kv) {
  EBB_CHECK(kv.size() <= kv_left_, "{} bytes more of {}", kv.size(), kv_left_);
  kv_left_ -= kv.size();
  checksum_.add(kv);
  return file_.write(kv);
}

Status SavedChatWriter::commit() {
  EBB_CHECK(kv_left_ == 0, "{} bytes were not written", kv_left_);
  EBB_TRY(file_.write(checksum_.digest().bytes));
  return file_.commit();
}

SavedChatReader::SavedChatReader(SavedChatReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      chat_(std::move(other.chat_)),
      kv_checksum_(std::move(other.kv_checksum_)),
      kv_digest_(other.kv_digest_),
      kv_left_(other.kv_left_) {}

SavedChatReader::~SavedChatReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<SavedChatReader> SavedChatReader::open(const std::filesystem::path& path) {
  // Not to be kept waiting by a pipe that nobody fills.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io;
    return fail(code, fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  }
  SavedChatReader reader(path, descriptor);
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return fail(ErrorCode::BadFile, fmt::format("{}: not a saved chat (not a plain file)", path.string()));
  }
  EBB_TRY(reader.check_all(static_cast<std::uint64_t>(facts.st_size)));
  return reader;
}

Status SavedChatReader::fill(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(ErrorCode::Io, fmt::format("{}: cannot be read: {}", path_.string(), std::strerror(errno)));
    if (count == 0) return fail(ErrorCode::BadFile, fmt::format("{}: it became shorter while it was read", path_.string()));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status SavedChatReader::check_all(std::uint64_t file_bytes) {
  const std::string where = path_.string();
  Head head;
  if (file_bytes >= sizeof head) EBB_TRY(fill(bytes_of(head)));
  if (file_bytes < sizeof head || head.magic != kMagic) {
    return fail(ErrorCode::BadFile, fmt::format("{}: not a saved chat (it does not begin as one)", where));
  }
  EBB_TRY(check_head(head, file_bytes, where));

  std::string header(head.header_bytes, '\0');
  chat_.tokens.resize(head.token_count);
  chat_.kv_bytes = kv_left_ = head.kv_bytes;
  Checksum all;
  all.add(bytes_of(head));
  for (const auto part : {std::as_writable_bytes(std::span(header)), std::as_writable_bytes(std::span(chat_.tokens))}) {
    EBB_TRY(fill(part));
    all.add(part);
  }
  Checksum kv;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(head.kv_bytes, kSavedChatPieceBytes));
  for (std::uint64_t left = head.kv_bytes; left != 0;) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(left, buffer.size()));
    EBB_TRY(fill(piece));
    all.add(piece);
    kv.add(piece);
    left -= piece.size();
  }
  Digest claimed;
  EBB_TRY(fill(claimed.bytes));
  const Digest found = all.digest();
  if (claimed != found) {
    return fail(ErrorCode::BadFile, fmt::format("{}: damaged: its checksum is {}, its bytes give {}", where, claimed.hex(), found.hex()));
  }
  kv_digest_ = kv.digest();
  EBB_TRY(read_saved_chat_header(header, where, chat_));
  if (chat_.first_kept > head.token_count || chat_.record_base > head.token_count) {
    return fail(ErrorCode::BadFile, fmt::format("{}: its record begins at {} and {}, past its {} tokens", where,
                                                chat_.first_kept, chat_.record_base, head.token_count));
  }
  const auto kv_begin = static_cast<off_t>(file_bytes - sizeof(Digest) - head.kv_bytes);
  if (lseek(descriptor_, kv_begin, SEEK_SET) < 0) {
    return fail(ErrorCode::Io, fmt::format("{}: cannot be read: {}", where, std::strerror(errno)));
  }
  return {};
}

Status SavedChatReader::read(std::span<std::byte> kv) {
  EBB_CHECK(kv.size() <= kv_left_, "{} bytes more of {}", kv.size(), kv_left_);
  EBB_TRY(fill(kv));
  kv_checksum_.add(kv);
  kv_left_ -= kv.size();
  if (kv_left_ == 0 && kv_checksum_.digest() != kv_digest_) {
    return fail(ErrorCode::BadFile, fmt::format("{}: it was changed while it was read", path_.string()));
  }
  return {};
}

}  // namespace ebb::engine
