// Flags about the model and how it runs.
#include <utility>

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
Status set_gpu_layers(Options& options, Text text) {
  if (text != "auto" && text != "all") {
    if (const auto count = parse_integer(text, 0, kMaxLayers); !count) {
      return fail(ErrorCode::InvalidArgument, "use a number of layers, auto (as many as fit) or all (or refuse)");
    }
  }
  return set_text(options.engine.gpu_layers, text);
}
Status set_main_device(Options& options, Text text) {
  EBB_TRY_ASSIGN(const std::int64_t index, parse_integer(text, 0, kMaxDevices - 1));
  options.engine.main_device = static_cast<std::size_t>(index);
  return {};
}
Status set_split_mode(Options& options, Text text) {
  if (text == "row" || text == "tensor") {
    return fail(ErrorCode::InvalidArgument,
                "splitting single layers over devices does not exist yet; use layer (whole layers, the default) or none");
  }
  if (text == "none") {
    if (!options.engine.main_device) options.engine.main_device = 0;
    return {};
  }
  if (text == "layer") return {};
  return fail(ErrorCode::InvalidArgument, "use one of: none, layer");
}
Status set_tensor_split(Options& options, Text text) {
  std::vector<double> shares;
  double sum = 0;
  while (true) {
    const std::size_t end = text.find_first_of(",/");
    const Result<float> share = parse_real(text.substr(0, end), 0, kMaxShare);
    if (!share) return fail(ErrorCode::InvalidArgument, "use numbers by device in proportion, such as 3,1");
    shares.push_back(*share);
    sum += *share;
    if (end == Text::npos) break;
    text.remove_prefix(end + 1);
  }
  if (sum <= 0) return fail(ErrorCode::InvalidArgument, "at least one share must be above 0");
  options.engine.tensor_split = std::move(shares);
  return {};
}
Status set_fit_target(Options& options, Text text) {
  EBB_TRY_ASSIGN(const std::int64_t mebibytes, parse_integer(text, 0, kMaxMebibytes));
  options.engine.fit_target_bytes = static_cast<std::size_t>(mebibytes) * kMiB;
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
       kOpensModel & ~bit(Command::Memory),
       true,
       false,
       [](O& o, Text t) { return set_text(o.model, t); }},
      {"model",
       {"-m"},
       "FILE",
       Group::Model,
       "open this model first; one named elsewhere is not opened for a look",
       bit(Command::Memory),
       false,
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
       "context in tokens; 0 = the model's own, as far as memory allows",
       kAnswers | bit(Command::Memory) | bit(Command::Plan) | kMeasuresMemory,
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
      {"gpu-layers",
       {"-ngl", "--n-gpu-layers"},
       "N",
       Group::Model,
       "layers on devices: a number, auto (as many as fit) or all (or refuse)",
       kComputes,
       true,
       false,
       set_gpu_layers},
      {"tensor-split",
       {"-ts"},
       "LIST",
       Group::Model,
       "how much each device takes, in proportion: 3,1; without it, evenly filled",
       kComputes,
       true,
       false,
       set_tensor_split},
      {"main-gpu",
       {"-mg"},
       "INDEX",
       Group::Model,
       "use this device alone",
       kComputes,
       true,
       false,
       set_main_device},
      {"split-mode",
       {"-sm"},
       "MODE",
       Group::Model,
       "layer: whole layers over all devices; none: one device (-mg, else the first)",
       kComputes,
       true,
       false,
       set_split_mode},
      {"fit-target",
       {"-fitt"},
       "MiB",
       Group::Model,
       "leave this much free on every device",
       kComputes,
       true,
       false,
       set_fit_target},
      {"parallel",
       {"-np"},
       "N",
       Group::Model,
       "chats that are planned for at once (1)",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.parallel, t, 1, kMaxChats); }},
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
