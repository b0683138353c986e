#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/processors.h"
#include "engine/chat_template.h"
#include "engine/internal/engine_state.h"

namespace ebb::engine {
namespace {

constexpr int kMaxThreads = 256;

Result<int> choose_threads(int wanted) {
  if (wanted < 0 || wanted > kMaxThreads) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} threads asked for; 1 to {} can be used (leave it out for one per core)",
                                                        wanted, kMaxThreads));
  }
  if (wanted != 0) return wanted;
  return static_cast<int>(std::min<std::size_t>(usable_cores(), kMaxThreads));
}

Result<std::size_t> choose_context(std::size_t wanted, std::size_t trained) {
  if (wanted > trained) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("a context of {} tokens was asked for; the model was trained for {} (use -c {} or less)", wanted,
                            trained, trained));
  }
  return wanted == 0 ? trained : wanted;
}

Result<model::KvType> choose_kv_type(const EngineOptions& options) {
  const std::string& name = options.kv_type;
  if (name.empty()) return options.exact ? model::KvType::F32 : model::KvType::F16;
  if (name == "f32") return model::KvType::F32;
  if (name == "f16") return model::KvType::F16;
  if (name == "bf16") return model::KvType::BF16;
  return fail(ErrorCode::InvalidArgument, fmt::format("KV type \"{}\" is not known; accepted are f16, bf16, f32", name));
}

Result<std::unique_ptr<tokenizer::Tokenizer>> open_tokenizer(const weights::WeightStore& store) {
  if (store.is_gguf()) {
    EBB_TRY_ASSIGN(const weights::VocabularyData data, store.vocabulary());
    return tokenizer::Tokenizer::from_arrays({data.pieces, data.scores, data.types});
  }
  EBB_TRY_ASSIGN(const std::string json, store.side_file("tokenizer.json"));
  return tokenizer::Tokenizer::from_json(json);
}

std::string model_name(const weights::WeightStore& store) {
  if (const auto name = store.meta_string("general.name"); name && !name->empty()) return std::string(*name);
  std::filesystem::path path = store.path();
  if (!path.has_filename()) path = path.parent_path();
  return store.is_gguf() ? path.stem().string() : path.filename().string();
}

std::string_view kv_type_name(model::KvType type) {
  switch (type) {
    case model::KvType::F32:
      return "f32";
    case model::KvType::F16:
      return "f16";
    case model::KvType::BF16:
      return "bf16";
    case model::KvType::Q8_0:
      return "q8_0";
    case model::KvType::Q4_0:
      return "q4_0";
  }
  return "";
}

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  EBB_TRY_ASSIGN(const int threads, choose_threads(options.threads));
  EBB_TRY_ASSIGN(const model::KvType kv_type, choose_kv_type(options));
  state->kv_options.global = state->kv_options.local = {kv_type, kv_type};
  if (options.chunk_tokens == 0 || options.chunk_tokens > 65536) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("a step of {} prompt tokens was asked for; 1 to 65536 can be used", options.chunk_tokens));
  }
  EBB_TRY_ASSIGN(state->pools, DevicePools::open(options));
  EBB_TRY_ASSIGN(state->weights, weights::WeightStore::open(options.model, state->pools->host()));
  const weights::WeightStore& store = *state->weights;

  model::ModelOptions model_options;
  model_options.arithmetic = options.exact ? model::Arithmetic::Exact : model::Arithmetic::Quantized;
  model_options.threads = threads;
  model_options.chunk_tokens = options.chunk_tokens;
  EBB_TRY_ASSIGN(const model::Config read, model::read_config(store));
  model::Placement homes;
  homes.layers.assign(read.layers, &state->pools->pool(0));
  homes.output = &state->pools->pool(0);
  homes.host = &state->pools->host();
  state->kv_pools = {homes.layers, homes.host};
  state->output_home = homes.output;
  EBB_TRY_ASSIGN(state->model, model::Model::load(*state->weights, homes, model_options));
  EBB_TRY_ASSIGN(state->tokenizer, open_tokenizer(store));
  const model::Config& config = state->model->config();
  if (state->tokenizer->special().bos < 0) {
    return fail(ErrorCode::BadFile, fmt::format("{}: the vocabulary has no <bos>, which every Gemma 3 prompt begins with",
                                                store.path().string()));
  }

  ModelInfo& info = state->info;
  info.name = model_name(store);
  info.size = config.size_name();
  info.types = store.matrix_types();
  info.parameters = store.parameters();
  info.file_bytes = store.file_bytes();
  info.layers = config.layers;
  info.vocabulary = std::min(state->tokenizer->size(), state->model->vocabulary());
  info.trained_context = config.max_context;
  EBB_TRY_ASSIGN(info.context, choose_context(options.context_tokens, config.max_context));
  state->kv_options.max_tokens = info.context;
  info.kv_bytes_per_token = model::KvCache::bytes_per_token(config, state->kv_options);
  info.kv_type = kv_type_name(state->kv_options.global.k);
  info.arithmetic = options.exact ? "float32 activations" : "int16 activations";
  info.threads = threads;
  const bool has_template = store.meta_string("tokenizer.chat_template").has_value() || store.side_file("chat_template.jinja");
  EBB_TRY_ASSIGN(info.prompt_style, choose_template(has_template, info.name, options.chat_template));
  info.instruct = info.prompt_style == PromptStyle::Gemma;
  state->reclaimer = std::make_unique<Reclaimer>(*state);
  state->keeper = std::make_unique<Keeper>(*state);
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

std::size_t Engine::State::step_bytes(const memory::PagePool& pool) const {
  model::ModelOptions full = model->options();
  full.chunk_tokens = options.chunk_tokens;
  return round_up(model::Model::scratch_footprint(model->config(), full, kv_options.widest(), options.chunk_tokens, 1, true),
                  pool.page_bytes());
}

const ModelInfo& Engine::info() const { return state_->info; }
const Plan& Engine::plan() const { return state_->plan; }

Receipt Engine::reclaim(Level level, bool all) {
  const std::lock_guard step(state_->step);
  return state_->reclaimer->reclaim(level, all, Reason::User);
}

Result<Receipt> Engine::unload() {
  const std::lock_guard step(state_->step);
  return state_->reclaimer->unload(Reason::User);
}

Result<Receipt> Engine::load() {
  const std::lock_guard step(state_->step);
  return state_->reclaimer->load(Reason::User);
}

std::vector<std::string> Engine::take_warnings() {
  const std::lock_guard lock(state_->registry);
  return std::exchange(state_->warnings, {});
}

std::vector<std::int32_t> Engine::tokenize(std::string_view text, bool parse_control) const {
  return state_->tokenizer->encode(text, parse_control ? tokenizer::ControlText::Parse : tokenizer::ControlText::Literal);
}

std::string Engine::detokenize(std::span<const std::int32_t> ids, bool with_control) const {
  return state_->tokenizer->decode(ids, with_control);
}

std::string Engine::token_bytes(std::int32_t id) const { return std::string(state_->tokenizer->bytes(id)); }
std::int32_t Engine::bos() const { return state_->tokenizer->special().bos; }

}  // namespace ebb::engine
