// The real Gemma 3 270M (Q4_K_M) against Hugging Face in float32 on the same weights, and against llama.cpp's distance
// from it (tests/vectors/gemma3-270m). EBB_MODEL names the file; ./check brings it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

std::filesystem::path vectors() { return std::filesystem::path(EBB_VECTORS_DIR) / "gemma3-270m"; }

std::vector<Json> read_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("EBB_MODEL") == nullptr) GTEST_SKIP() << "EBB_MODEL is not set; ./check brings the model";
  }
  [[nodiscard]] static std::unique_ptr<Engine> open(bool exact, std::size_t chunk_tokens = 512) {
    EngineOptions options;
    options.model = std::getenv("EBB_MODEL");
    options.exact = exact;
    options.chunk_tokens = chunk_tokens;
    return must(Engine::open(options));
  }
  static std::vector<std::int32_t> greedy(Conversation& conversation, const std::vector<std::int32_t>& ids,
                                                        std::int64_t steps) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = steps;
    options.ignore_end = true;
    return must(conversation.generate(ids, options, nullptr, nullptr)).tokens;
  }
  [[nodiscard]] static double perplexity_of_gpl(Engine& engine, std::size_t context_tokens) {
    std::ifstream file(vectors() / "gpl-3.txt", std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::vector<std::int32_t> ids = engine.tokenize(text, false);
    ids.insert(ids.begin(), engine.bos());
    EXPECT_EQ(ids.size(), 7563U);
    return must(perplexity(engine, ids, context_tokens, nullptr)).perplexity;
  }
};

// Tolerances: transformers in float32 is within 1.1e-4 of float64 on these logits (up to 29); 1e-3 leaves room for another
// order of summation and is far under the 0.016 that a rounded embedding scale alone would move.
TEST_F(RealModel, ExactLogitsAndLogProbabilitiesEqualFloat32) {
  const auto engine = open(/*exact=*/true);
  for (const Json& row : read_lines(vectors() / "prompts.jsonl")) {
    const std::string name = row.at("name");
    const auto ids = row.at("ids").get<std::vector<std::int32_t>>();
    const auto conversation = must(engine->new_conversation());
    const std::vector<double> wanted = row.at("prompt_logprobs");
    const std::vector<double> got = must(conversation->score(ids, 0));
    ASSERT_EQ(got.size(), wanted.size()) << name;
    for (std::size_t idx = 0; idx < got.size(); ++idx) EXPECT_NEAR(got[idx], wanted[idx], 1e-3) << name << " " << idx;
    must(conversation->sync(ids, nullptr));
    const std::span<const float> logits = conversation->logits();
    for (const auto& [id, logit] : row.at("last_top20").get<std::vector<std::pair<std::size_t, double>>>()) {
      EXPECT_NEAR(static_cast<double>(logits[id]), logit, 1e-3) << name << " id " << id;
    }
  }
}

TEST_F(RealModel, ExactGreedyTextEqualsFloat32) {
  const auto engine = open(/*exact=*/true);
  for (const Json& row : read_lines(vectors() / "prompts.jsonl")) {
    const auto conversation = must(engine->new_conversation());
    const auto wanted = row.at("greedy").get<std::vector<std::int32_t>>();
    EXPECT_EQ(greedy(*conversation, row.at("ids"), static_cast<std::int64_t>(wanted.size())), wanted)
        << row.at("name");
  }
}

TEST_F(RealModel, ExactPerplexityEqualsFloat32) {
  const auto engine = open(/*exact=*/true);
  EXPECT_NEAR(perplexity_of_gpl(*engine, 512) / 13.82907608271234, 1, 5e-4);
  EXPECT_NEAR(perplexity_of_gpl(*engine, 2048) / 14.4418013652796, 1, 5e-4);
}

// The default arithmetic quantises activations; it must stay closer to float32 than llama.cpp does on the same file, in
// each figure that llama.cpp's own record has: perplexity, first-step log-probabilities, equal greedy text.
TEST_F(RealModel, DefaultArithmeticIsCloserToFloat32ThanLlamaCpp) {
  const auto engine = open(/*exact=*/false);
  EXPECT_LT(std::abs(perplexity_of_gpl(*engine, 512) / 13.82907608271234 - 1), 13.9062 / 13.82907608271234 - 1);
  EXPECT_LT(std::abs(perplexity_of_gpl(*engine, 2048) / 14.4418013652796 - 1), 14.5064 / 14.4418013652796 - 1);

  std::map<std::string, Json> peers;
  for (const Json& row : read_lines(vectors() / "llamacpp_greedy.jsonl")) peers[row.at("name")] = row;
  std::size_t same_text = 0, same_text_peer = 0;
  double worst = 0, worst_peer = 0;
  for (const Json& row : read_lines(vectors() / "prompts.jsonl")) {
    const Json& peer = peers.at(row.at("name"));
    const auto ids = row.at("ids").get<std::vector<std::int32_t>>();
    const auto wanted = row.at("greedy").get<std::vector<std::int32_t>>();
    const auto conversation = must(engine->new_conversation());
    same_text += greedy(*conversation, ids, static_cast<std::int64_t>(wanted.size())) == wanted ? 1U : 0U;
    same_text_peer += peer.at("tokens").get<std::vector<std::int32_t>>() == wanted ? 1U : 0U;
    must(conversation->sync(ids, nullptr));
    const double log_sum = row.at("last_logsumexp");
    const auto top = row.at("last_top20").get<std::vector<std::pair<std::int32_t, double>>>();
    for (std::size_t idx = 0; idx < 2; ++idx) {
      const auto [id, logit] = top[idx];
      const double got = log_probs(conversation->logits(), id, 0).chosen.log_prob;
      worst = std::max(worst, std::abs(got - (logit - log_sum)));
    }
    for (const double difference : peer.at("first_step_logprob_minus_float32")) {
      worst_peer = std::max(worst_peer, std::abs(difference));
    }
  }
  RecordProperty("same_text", static_cast<int>(same_text));
  EXPECT_GT(same_text, same_text_peer);
  EXPECT_LT(worst, worst_peer);
}

// S1, S6, S7: however the prompt was cut, and whatever the conversation held before, the same bits.
TEST_F(RealModel, ChunksAndReuseChangeNothing) {
  const Json row = read_lines(vectors() / "prompts.jsonl")[6];
  const auto ids = row.at("ids").get<std::vector<std::int32_t>>();  // 1,055 tokens: windows of 512 are crossed
  const auto run = [&](std::size_t chunk_tokens, bool used_before) {
    const auto engine = open(false, chunk_tokens);
    const auto conversation = must(engine->new_conversation());
    if (used_before) greedy(*conversation, ids, 40);
    const SyncResult sync = must(conversation->sync(ids, nullptr));
    EXPECT_EQ(sync.evaluated_tokens, used_before ? 1U : ids.size());
    const std::span<const float> logits = conversation->logits();
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> whole = run(2048, false);
  EXPECT_EQ(run(512, false), whole);
  EXPECT_EQ(run(97, false), whole);
  EXPECT_EQ(run(512, true), whole);
}

// A full context of 32,768 tokens costs what the layout says, and nothing grows behind it.
TEST_F(RealModel, FullContextRunsInTheMemoryThatItsLayoutNames) {
  const auto engine = open(/*exact=*/false);
  const auto conversation = must(engine->new_conversation());
  std::vector<std::int32_t> ids = {engine->bos()};
  const std::vector<Json> rows = read_lines(vectors() / "prompts.jsonl");
  while (ids.size() < 32760) {
    const auto more = rows[ids.size() % rows.size()].at("ids").get<std::vector<std::int32_t>>();
    ids.insert(ids.end(), more.begin() + 1, more.end());
  }
  ids.resize(32760);
  const std::vector<std::int32_t> tokens = greedy(*conversation, ids, 100);
  EXPECT_EQ(tokens.size(), 8U) << "the context is full after 8 more";
  std::map<std::string, std::size_t> kinds;
  const MemoryStatus status = engine->memory();
  for (const auto& [kind, bytes] : status.devices.front().kinds) kinds[kind] = bytes;
  // One key and one value of 256 halves: 1,024 bytes a token and layer; 3 global layers, 15 rings of 512 slots.
  EXPECT_EQ(kinds["kv_global"], 32768U * 3 * 1024);
  EXPECT_EQ(kinds["kv_local"], 512U * 15 * 1024);
  EXPECT_EQ(kinds["cache"], 1024U * 15 * 1024) << "what left the windows, for taking an answer back";
  EXPECT_GE(conversation->reset().freed_bytes, 32768U * 3 * 1024);
  EXPECT_EQ(engine->memory().conversations.front().device_bytes, 0U);
}

}  // namespace
}  // namespace ebb::engine
