// Messages in any order to turns in alternation, the user's first: what every prompt style writes out.
// Called by chat_template.cpp. Invariant: turns alternate, begin with the user, and are never empty.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/chat_template.h"

namespace ebb::engine {

/// Without the characters that Python's str.strip takes off both ends.
[[nodiscard]] std::string_view stripped(std::string_view text);

struct Turn {
  bool is_model = false;
  std::string text;  // stripped
};

struct Turns {
  std::string system;  // leading system texts, as given; empty if there are none
  std::vector<Turn> turns;
};

/// Errors   InvalidArgument for no messages; Unsupported for a picture.
[[nodiscard]] Result<Turns> make_turns(std::span<const Message> messages);

}  // namespace ebb::engine
