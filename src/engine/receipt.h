// What an act of giving memory back did, in numbers: every reset, delete, park, unload, load and reclaim makes one.
// Freed bytes are the pool's own count of pages that left for the device; `confirmed` says that the device counts the
// same. Made by engine/, shown by cli/ and server/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::engine {

/// Kind of memory ("kv_global") and bytes.
using KindBytes = std::vector<std::pair<std::string, std::size_t>>;

enum class Action : std::uint8_t { Reset, Delete, Park, Unload, Load, Reclaim };
[[nodiscard]] std::string_view action_name(Action action);  // "reset"

/// After each answer; every few turns; at the user's word.
enum class Level : std::uint8_t { Answer = 1, Turns = 2, Full = 3 };

enum class Reason : std::uint8_t { AfterGeneration, Turns, User, Threshold, Pressure, Yield, Idle, Delete };
[[nodiscard]] std::string_view reason_name(Reason reason);  // "after_generation"

struct Receipt {
  struct Device {
    std::size_t index = 0;
    std::size_t freed_bytes = 0;       // pages that went back to the device
    KindBytes kinds;                   // what the freed bytes were; kinds that gave nothing are left out
    std::size_t free_before_bytes = 0;  // the device's own count
    std::size_t free_after_bytes = 0;
  };
  struct Kept {
    std::string kind;
    std::size_t bytes = 0;
    std::string why;
  };

  Action action = Action::Reclaim;
  int level = 0;  // of a reclaim; 0 otherwise
  Reason reason = Reason::User;
  std::uint64_t conversation = 0;  // 0: none in particular
  std::size_t freed_bytes = 0;     // over all devices
  std::vector<Device> devices;
  std::size_t host_freed_bytes = 0;
  std::vector<Kept> kept;
  std::int64_t us = 0;
  bool confirmed = false;  // the devices count no more for us than we hold
};

}  // namespace ebb::engine
