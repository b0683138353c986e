// Everything a user chose, from the command line, the environment and config.yaml together, as plain structs.
// Filled by arguments.cpp through the table of settings.cpp; read by the commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"

namespace ebb::cli {

/// Bits, so that a setting can name the commands it belongs to.
enum class Command : std::uint32_t {
  Run = 1,
  Chat = 2,
  Tokenize = 4,
  Perplexity = 8,
  BenchSpeed = 16,
  Doctor = 32,
  ListDevices = 64,
  Plan = 128,
  Memory = 256,
  BenchMemory = 512,
  Soak = 1024,
};

enum class TokenView : std::uint8_t { Ids, Pieces, Json };
enum class TableFormat : std::uint8_t { Markdown, Csv, Json };

struct Options {
  std::string model;        // as written; model_path.h turns it into a path
  std::string config_file;  // empty = the usual place
  engine::EngineOptions engine;
  engine::GenerateOptions generate;
  std::size_t batch_tokens = 2048;
  std::string key_type, value_type;  // KV types as written; together they are engine.kv_type
  int verbosity = 1;                 // 0 errors only, 1 progress and timings, 2 the model too
  bool help = false;

  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;  // "-" = standard input
  std::string system;
  bool raw = false;
  bool json = false;

  std::vector<std::string> words;  // the TEXT of `ebb tokenize`
  TokenView token_view = TokenView::Ids;
  bool decode = false;
  bool parse_special = false;
  bool add_bos = false;

  std::size_t window_tokens = 512;  // of `ebb perplexity`

  std::vector<std::size_t> prompt_sizes{512};  // of `ebb bench speed`
  std::vector<std::size_t> answer_sizes{128};
  int repetitions = 5;
  TableFormat format = TableFormat::Markdown;

  bool watch = false;  // of `ebb memory`

  std::size_t turns = 0;         // of `ebb bench memory` and `ebb soak`; 0 = the command's own
  std::size_t turn_tokens = 0;   // of one message; 0 = the command's own
  std::size_t reply_tokens = 0;  // of one answer; 0 = the command's own
  std::string svg_file;
  std::size_t soak_seconds = 0;  // 0 = as long as the turns take
};

}  // namespace ebb::cli
