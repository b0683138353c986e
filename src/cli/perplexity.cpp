// `ebb perplexity`: how surprised the model is by a text, by the definition of engine::perplexity.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/prompt_source.h"
#include "cli/terminal.h"

namespace ebb::cli {

Result<int> run_perplexity(const Options& options) {
  if (!options.prompt_file && !input_is_piped()) {
    return fail(ErrorCode::InvalidArgument, "no text; give one with -f FILE or through a pipe");
  }
  EBB_TRY_ASSIGN(const std::string text, read_text(options.prompt_file.value_or("-")));
  Options with_window = options;
  with_window.engine.context_tokens = options.window_tokens;
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(with_window));

  // The definition counts the text's own <bos> as its first token.
  std::vector<std::int32_t> tokens = model->tokenize(text, false);
  tokens.insert(tokens.begin(), model->bos());
  ProgressBar bar("windows", options.verbosity >= 1);
  EBB_TRY_ASSIGN(const engine::PerplexityResult result,
                 engine::perplexity(*model, tokens, options.window_tokens,
                                    [&](std::size_t done, std::size_t total, double so_far) {
                                      bar.update(done, total, done > 0 ? fmt::format("{:.4f} so far", so_far) : "");
                                      return go_on();
                                    }));
  bar.clear();
  if (options.json) {
    const nlohmann::ordered_json object{{"model", model->info().name},
                                        {"perplexity", result.perplexity},
                                        {"standard_error", result.standard_error},
                                        {"nll_sum", result.nll_sum},
                                        {"windows", result.windows},
                                        {"window_tokens", options.window_tokens},
                                        {"scored_tokens", result.scored_tokens},
                                        {"arithmetic", model->info().arithmetic}};
    EBB_TRY(write_output(object.dump() + "\n"));
  } else {
    EBB_TRY(write_output(fmt::format("perplexity {:.4f} +/- {:.4f} ({} windows of {}, {} tokens scored)\n",
                                     result.perplexity, result.standard_error, result.windows, options.window_tokens,
                                     result.scored_tokens)));
  }
  return kExitDone;
}

}  // namespace ebb::cli
