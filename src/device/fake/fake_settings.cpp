#include "device/fake/fake_settings.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/bytes.h"

namespace ebb::device {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, FakeCall>, kFakeCallCount + 1> kCalls = {
    {{"reserve", FakeCall::Reserve},
     {"create", FakeCall::Create},
     {"map", FakeCall::Map},
     {"access", FakeCall::Access},
     {"unmap", FakeCall::Unmap},
     {"release", FakeCall::Release},
     {"copy", FakeCall::Copy},
     {"step", FakeCall::Step},
     {"tower", FakeCall::Tower},
     {"lost", FakeCall::Lost}}};
constexpr std::array<std::pair<std::string_view, Step>, 3> kSteps = {
    {{"prefill", Step::Prefill}, {"decode", Step::Decode}, {"tower", Step::Tower}}};
constexpr std::uint64_t kMaxMilliseconds = 3600 * 1000;
constexpr std::size_t kMaxBytes = std::size_t{1} << 60;  // sums of a few such numbers still fit

tl::unexpected<Error> wrong(std::string_view field, const Json& found, std::string_view accepted) {
  return fail(ErrorCode::InvalidArgument,
              fmt::format("EBB_FAKE: {} is {}; accepted: {}", field,
                          found.dump(-1, ' ', true, Json::error_handler_t::replace), accepted));
}

Result<std::uint64_t> read_count(std::string_view field, const Json& value, std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most)
    return wrong(field, value, fmt::format("a whole number from {} to {}", least, most));
  return value.get<std::uint64_t>();
}

Result<std::chrono::milliseconds> read_milliseconds(std::string_view field, const Json& value) {
  EBB_TRY_ASSIGN(const std::uint64_t count, read_count(field, value, 0, kMaxMilliseconds));
  return std::chrono::milliseconds(count);
}

Result<std::size_t> read_bytes(std::string_view field, const Json& value) {
  std::size_t bytes = kMaxBytes + 1;
  if (value.is_number_unsigned()) {
    bytes = value.get<std::size_t>();
  } else if (value.is_string()) {
    bytes = parse_bytes(value.get_ref<const std::string&>()).value_or(bytes);
  }
  if (bytes > kMaxBytes) return wrong(field, value, "bytes, such as 1048576 or \"16GiB\"");
  return bytes;
}

template <typename T, std::size_t kCount>
Result<T> read_word(std::string_view field, const Json& value,
                    const std::array<std::pair<std::string_view, T>, kCount>& words) {
  std::string accepted;
  for (const auto& [word, meaning] : words) {
    if (value.is_string() && value.get_ref<const std::string&>() == word) return meaning;
    accepted += fmt::format("{}\"{}\"", accepted.empty() ? "" : ", ", word);
  }
  return wrong(field, value, accepted);
}

Result<std::optional<FailRule>> read_fail(const Json& value) {
  if (value.is_null()) return std::optional<FailRule>();
  if (!value.is_object()) return wrong("fail", value, R"({"call", "nth", "count"} or null)");
  FailRule rule;
  if (!value.contains("call")) return wrong("fail", value, "an object with \"call\"");
  for (const auto& [key, field] : value.items()) {
    if (key == "call") {
      EBB_TRY_ASSIGN(rule.call, read_word("fail.call", field, kCalls));
    } else if (key == "nth") {
      EBB_TRY_ASSIGN(rule.nth, read_count("fail.nth", field, 1, std::numeric_limits<std::uint32_t>::max()));
    } else if (key == "count") {
      EBB_TRY_ASSIGN(rule.count, read_count("fail.count", field, 1, std::numeric_limits<std::uint32_t>::max()));
    } else {
      return wrong("a field of fail", key, "call, nth, count");
    }
  }
  return std::optional<FailRule>(rule);
}

Status read_field(const std::string& key, const Json& value, FakeSettings& settings) {
  if (key == "device") {
    EBB_TRY_ASSIGN(settings.device_idx, read_count(key, value, 0, std::numeric_limits<std::uint16_t>::max()));
  } else if (key == "total_bytes") {
    EBB_TRY_ASSIGN(settings.total_bytes, read_bytes(key, value));
  } else if (key == "others_bytes") {
    EBB_TRY_ASSIGN(settings.others_bytes, read_bytes(key, value));
  } else if (key == "fail") {
    EBB_TRY_ASSIGN(settings.fail, read_fail(value));
  } else if (key == "hold") {
    if (value.is_null()) {
      settings.hold.emplace(std::nullopt);
    } else {
      EBB_TRY_ASSIGN(settings.hold, read_word(key, value, kSteps));
    }
  } else if (key == "step_ms") {
    EBB_TRY_ASSIGN(settings.step_ms, read_milliseconds(key, value));
  } else if (key == "release_ms") {
    EBB_TRY_ASSIGN(settings.release_ms, read_milliseconds(key, value));
  } else if (key == "reserve_limit_bytes") {
    EBB_TRY_ASSIGN(settings.reserve_limit_bytes, read_bytes(key, value));
  } else if (key == "soft_limit_bytes") {
    EBB_TRY_ASSIGN(settings.soft_limit_bytes, read_bytes(key, value));
  } else if (key == "slow_factor") {
    if (!value.is_number() || value.get<double>() < 1 || value.get<double>() > 1000)
      return wrong(key, value, "a number from 1 to 1000");
    settings.slow_factor = value.get<double>();
  } else if (key == "reset_peak") {
    if (!value.is_boolean()) return wrong(key, value, "true or false");
    settings.reset_peak = value.get<bool>();
  } else {
    return wrong(
        "a field", key,
        "device, total_bytes, others_bytes, fail, hold, step_ms, release_ms, reserve_limit_bytes, soft_limit_bytes, "
        "slow_factor, reset_peak");
  }
  return {};
}

}  // namespace

Result<FakeSettings> parse_fake_settings(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return fail(ErrorCode::InvalidArgument,
                R"(EBB_FAKE is not a JSON object; an example: {"fail": {"call": "create", "nth": 3}})");
  }
  FakeSettings settings;
  for (const auto& [key, value] : object.items()) EBB_TRY(read_field(key, value, settings));
  return settings;
}

}  // namespace ebb::device
