// Flags about the model and how it runs.
#include "base/bytes.h"
#include "cli/internal/setters.h"

namespace ebb::cli {

namespace {

Status set_devices(Options& options, Text text) {
  return set_text(options.engine.devices, text == "none" ? "cpu" : text);
}
Status set_fake_page(Options& options, Text text) {
  EBB_TRY_ASSIGN(options.engine.fake_page_bytes, parse_bytes(text));
  return {};
}

Status set_kv_quantize(Options& options, Text text) {
  std::string layers;
  EBB_TRY(set_word(layers, text, {"all", "global"}));
  options.engine.kv_quantize_global_only = layers == "global";
  return {};
}

}  // namespace

std::vector<Setting> model_settings() {
  using O = Options;
  return {
      {"model",
       {"-m"},
       "FILE",
       Group::Model,
       "GGUF file, safetensors file or folder, or a name in the cache",
       kOpensModel,
       true,
       false,
       [](O& o, Text t) { return set_text(o.model, t); }},
      {"config",
       {},
       "FILE",
       Group::Model,
       "settings file instead of ~/.config/ebb/config.yaml",
       kEvery,
       false,
       false,
       [](O& o, Text t) { return set_text(o.config_file, t); }},
      {"ctx-size",
       {"-c", "--contextsize"},
       "N",
       Group::Model,
       "context in tokens; 0 = the model's own",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.context_tokens, t, 0, kMaxTokens); }},
      {"ctx-size",
       {"-c", "--contextsize"},
       "N",
       Group::Model,
       "tokens in a window (512)",
       bit(Command::Perplexity),
       false,
       false,
       [](O& o, Text t) { return set_integer(o.window_tokens, t, 4, kMaxTokens); }},
      {"threads",
       {"-t"},
       "N",
       Group::Model,
       "threads; without it, the physical cores",
       kComputes | bit(Command::Doctor),
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.threads, t, 1, kMaxThreads); }},
      {"batch-size",
       {"-b"},
       "N",
       Group::Model,
       "most prompt tokens in one step (2048); the smaller of -b and -ub counts",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.batch_tokens, t, 1, kMaxTokens); }},
      {"ubatch-size",
       {"-ub"},
       "N",
       Group::Model,
       "prompt tokens in one step (512)",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.chunk_tokens, t, 1, kMaxTokens); }},
      {"device",
       {"-dev"},
       "LIST",
       Group::Model,
       "cpu (or none), or pretended devices: fake:16GiB,fake:8GiB",
       kEvery,
       true,
       false,
       set_devices},
      {"fake-page",
       {},
       "SIZE",
       Group::Model,
       "page size of pretended devices, such as 64KiB",
       kEvery,
       true,
       false,
       set_fake_page},
      {"cache-type-k",
       {"-ctk"},
       "TYPE",
       Group::Model,
       "type of the keys kept: f16, bf16, f32, q8_0, q4_0",
       kComputes,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.key_type, t, {"f16", "bf16", "f32", "q8_0", "q4_0"});
       }},
      {"cache-type-v",
       {"-ctv"},
       "TYPE",
       Group::Model,
       "type of the values kept: the same choice",
       kComputes,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.value_type, t, {"f16", "bf16", "f32", "q8_0", "q4_0"});
       }},
      {"kv-quantize",
       {},
       "LAYERS",
       Group::Model,
       "layers that q8_0 and q4_0 are for: all, or global (windowed ones keep f16)",
       kComputes,
       true,
       false,
       set_kv_quantize},
      {"exact",
       {},
       "",
       Group::Model,
       "float32 arithmetic throughout: slower, closest to the reference",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.exact, t); }},
      {"chat-template",
       {},
       "NAME",
       Group::Model,
       "gemma (turns) or plain (questions and answers); without it, by the file",
       kAnswers,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.engine.chat_template, t, {"gemma", "plain"});
       }},
  };
}

}  // namespace ebb::cli
