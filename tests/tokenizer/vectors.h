// Reads the tokenizer's test vectors. Shared by tests/tokenizer and tests/engine.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ebb::tokenizer::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<nlohmann::json> read_rows(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

inline std::unique_ptr<Tokenizer> tokenizer_from(const std::string& json) {
  auto made = Tokenizer::from_json(json);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? std::move(*made) : nullptr;
}

/// The toy vocabulary of the tiny checkpoints.
inline std::string toy_json() { return read_file(std::filesystem::path(EBB_VECTORS_DIR) / "tokenizer" / "toy.json"); }

}  // namespace ebb::tokenizer::testing
