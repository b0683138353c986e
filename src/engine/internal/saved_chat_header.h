// The facts and messages of a saved chat as JSON, the part of the file that other programs can read.
// Called by saved_chat.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/internal/saved_chat.h"

namespace ebb::engine {

[[nodiscard]] std::string write_saved_chat_header(const SavedChat& chat);
/// Fills what write_saved_chat_header() wrote. Errors: BadFile naming `where`, the member and what it must be.
[[nodiscard]] Status read_saved_chat_header(std::string_view json, const std::string& where, SavedChat& chat);

}  // namespace ebb::engine
