// What can be asked of a fake device while it runs, and its text form: the value of EBB_FAKE, one JSON object.
// Refuses unknown fields and wrong types by name. Called by device_spec.h at the start and by tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "device/device.h"

namespace ebb::device {

/// Lost is no call of its own: it counts calls of any kind and loses the device at the nth.
enum class FakeCall : std::uint8_t { Reserve, Create, Map, Access, Unmap, Release, Copy, Step, Tower, Lost };
inline constexpr std::size_t kFakeCallCount = 9;  // without Lost

/// The nth call of a kind from now on (1 is the next) and `count` - 1 after it fail.
struct FailRule {
  FakeCall call = FakeCall::Create;
  std::uint64_t nth = 1;
  std::uint64_t count = 1;
};

/// Absent fields leave the device as it is.
struct FakeSettings {
  std::size_t device_idx = 0;
  std::optional<std::size_t> total_bytes = {};
  std::optional<std::size_t> others_bytes = {};
  std::optional<std::optional<FailRule>> fail = {};  // an inner nothing takes the rule away
  std::optional<std::optional<Step>> hold = {};      // an inner nothing releases what waits
  std::optional<std::chrono::milliseconds> step_ms = {};
  std::optional<std::chrono::milliseconds> release_ms = {};
  std::optional<std::size_t> reserve_limit_bytes = {};
  std::optional<std::size_t> soft_limit_bytes = {};
  std::optional<double> slow_factor = {};
  bool reset_peak = false;
};

/// Errors   InvalidArgument naming the field, what was found and what is accepted.
[[nodiscard]] Result<FakeSettings> parse_fake_settings(std::string_view json);

}  // namespace ebb::device
