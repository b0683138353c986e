// `ebb tokenize`: text to ids, and back with --decode.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/answer_report.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/prompt_source.h"
#include "cli/terminal.h"

namespace ebb::cli {

namespace {

using Tokens = std::vector<std::int32_t>;

Result<std::string> source_text(const Options& options) {
  if (!options.words.empty() && options.prompt_file) {
    return fail(ErrorCode::InvalidArgument, "a text and -f FILE exclude each other; give one of them");
  }
  if (!options.words.empty()) return fmt::format("{}", fmt::join(options.words, " "));
  if (options.prompt_file) return read_text(*options.prompt_file);
  if (input_is_piped()) return read_text("-");
  return fail(ErrorCode::InvalidArgument,
              "no text; give one as in: ebb tokenize \"some text\", with -f FILE, or through a pipe");
}

// Numbers between spaces, commas and brackets, so that both "1 2 3" and "[1, 2, 3]" are read.
Result<Tokens> parse_ids(std::string_view text, std::size_t vocabulary) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  Tokens ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 ||
        static_cast<std::size_t>(id) >= vocabulary) {
      return fail(ErrorCode::InvalidArgument, fmt::format("'{}' is not a token id; ids go from 0 to {}",
                                                          escaped(word.substr(0, 40)), vocabulary - 1));
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::string pieces(const engine::Engine& model, const Tokens& ids) {
  std::string lines;
  for (const std::int32_t id : ids) lines += fmt::format("{}\t{}\n", id, escaped(model.token_bytes(id)));
  return lines;
}

std::string json(const engine::Engine& model, const Tokens& ids) {
  using Json = nlohmann::ordered_json;
  Json tokens = Json::array();
  for (const std::int32_t id : ids) {
    const std::string text = model.token_bytes(id);
    Json bytes = Json::array();
    for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
    tokens.push_back({{"id", id}, {"bytes", std::move(bytes)}, {"text", text}});
  }
  return tokens.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<int> run_tokenize(const Options& options) {
  EBB_TRY_ASSIGN(const std::string text, source_text(options));
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));
  if (options.decode) {
    EBB_TRY_ASSIGN(const Tokens ids, parse_ids(text, model->info().vocabulary));
    EBB_TRY(write_output(model->detokenize(ids, options.parse_special)));
    if (stdout_is_terminal()) EBB_TRY(write_output("\n"));
    return kExitDone;
  }
  Tokens ids = model->tokenize(text, options.parse_special);
  if (options.add_bos && (ids.empty() || ids.front() != model->bos())) ids.insert(ids.begin(), model->bos());
  switch (options.token_view) {
    case TokenView::Ids:
      EBB_TRY(write_output(fmt::format("{}\n", fmt::join(ids, " "))));
      break;
    case TokenView::Pieces:
      EBB_TRY(write_output(pieces(*model, ids)));
      break;
    case TokenView::Json:
      EBB_TRY(write_output(json(*model, ids)));
      break;
  }
  return kExitDone;
}

}  // namespace ebb::cli
