#include "format/internal/json_reader.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace ebb::format {
namespace {

/// nlohmann's event interface, which keeps its own stack on the heap, turned into ours.
class Events final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Events(JsonHandler& handler) : handler_(handler) {}

  bool null() override { return scalar({}); }
  bool boolean(bool) override { return scalar({}); }
  bool number_integer(number_integer_t) override { return scalar({}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar({JsonKind::WholeNumber, {}, value}); }
  bool number_float(number_float_t, const string_t&) override { return scalar({}); }
  bool string(string_t& value) override { return scalar({JsonKind::String, value, 0}); }
  bool binary(binary_t&) override { return scalar({}); }
  bool key(string_t& value) override { return keep(handler_.on_key(depth_, value)); }
  bool start_object(std::size_t) override { return open(JsonKind::Object); }
  bool end_object() override { return keep(handler_.on_close(--depth_)); }
  bool start_array(std::size_t) override { return open(JsonKind::Array); }
  bool end_array() override { return keep(handler_.on_close(--depth_)); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::size_t error_position() const { return error_position_; }

 private:
  bool open(JsonKind kind) {
    if (depth_ >= kMaxJsonDepth) return keep(fmt::format("the JSON text is nested more than {} deep", kMaxJsonDepth));
    return keep(handler_.on_open(depth_++, kind));
  }
  bool scalar(const JsonScalar& value) { return keep(handler_.on_scalar(depth_, value)); }
  bool keep(std::string problem) {
    problem_ = std::move(problem);
    return problem_.empty();
  }

  JsonHandler& handler_;
  int depth_ = 0;
  std::string problem_;
  std::size_t error_position_ = 0;
};

}  // namespace

Status read_json(std::span<const std::byte> text, std::uint64_t file_offset, std::string_view file,
                 JsonHandler& handler) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  Events events(handler);
  if (nlohmann::json::sax_parse(begin, begin + text.size(), &events)) return {};
  if (!events.problem().empty()) return fail(ErrorCode::BadFile, fmt::format("{}: {}", file, events.problem()));
  return fail(ErrorCode::BadFile,
              fmt::format("{}: offset {}: not valid JSON; the download is probably damaged, fetch it again", file,
                          file_offset + events.error_position()));
}

}  // namespace ebb::format
