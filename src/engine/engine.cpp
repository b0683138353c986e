#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/processors.h"
#include "engine/chat_template.h"
#include "engine/internal/engine_state.h"
#include "engine/internal/kv_choice.h"
#include "engine/internal/plan_inputs.h"
#include "engine/planner.h"

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

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

// Plans, and turns the plan into homes: nothing is placed before it is known that all of it fits.
Status Engine::State::settle(const model::Config& config, const model::ModelOptions& model_options) {
  EBB_TRY(check_kv(kv_options, config.head_dim));
  EBB_TRY_ASSIGN(PlanResult result, plan_on(options, *pools, {*weights, config, model_options, kv_options}));
  if (!result.plan.fits) return tl::unexpected<Error>(plan_error(result.plan));
  plan = std::move(result.plan);
  warnings = plan.warnings;
  const auto pool_of = [this](int device) {
    return device == kOnHost ? &pools->host() : &pools->pool(static_cast<std::size_t>(device));
  };
  for (const int device : result.units.layers) kv_pools.layers.push_back(pool_of(device));
  kv_pools.host = &pools->host();
  output_home = pool_of(result.units.output);
  kv_options.max_tokens = plan.context;
  return {};
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  EBB_TRY_ASSIGN(const int threads, choose_threads(options.threads));
  EBB_TRY_ASSIGN(state->kv_options, choose_kv(options));
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
  EBB_TRY_ASSIGN(const model::Config config, model::read_config(store));
  EBB_TRY(state->settle(config, model_options));
  const model::Placement homes{state->kv_pools.layers, state->output_home, state->kv_pools.host};
  EBB_TRY_ASSIGN(state->model, model::Model::load(*state->weights, homes, model_options));
  EBB_TRY_ASSIGN(state->tokenizer, open_tokenizer(store));
  if (state->tokenizer->special().bos < 0) {
    return fail(ErrorCode::BadFile, fmt::format("{}: the vocabulary has no <bos>, which every Gemma 3 prompt begins with",
                                                store.path().string()));
  }

  EBB_TRY(check_kv(state->kv_options, config.head_dim));
  ModelInfo& info = state->info;
  info.name = model_name(store);
  info.size = config.size_name();
  info.types = store.matrix_types();
  info.parameters = store.parameters();
  info.file_bytes = store.file_bytes();
  info.layers = config.layers;
  info.vocabulary = std::min(state->tokenizer->size(), state->model->vocabulary());
  info.trained_context = config.max_context;
  info.context = state->plan.context;
  info.kv_bytes_per_token = model::KvCache::bytes_per_token(config, state->kv_options);
  info.kv_type = kv_name(state->kv_options);
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
  return round_up(model::Model::scratch_footprint(model->config(), full, kv_options.widest(), options.chunk_tokens, 1, true,
                                                   pool.device().kind()),
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
