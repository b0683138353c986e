// The forward pass against Hugging Face's own answers on tiny checkpoints of every shape quirk (tests/vectors/README.md).
//
// Tolerance: transformers in float32 differs from float64 by up to 1.9e-5 of the largest logit on these models (recorded
// in the vectors' README); a float32 path of another summation order is right within 5e-5, 2.5 times that. A wrong
// window, rope factor, score scale or mask is 1e-2 or more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/expected_tensors.h"
#include "support/loaded_model.h"

namespace ebb::tests {
namespace {

constexpr double kTolerance = 5e-5;

std::filesystem::path vectors() { return EBB_VECTORS_DIR; }

double relative_error(std::span<const float> got, std::span<const double> wanted) {
  double worst = 0, largest = 0;
  for (std::size_t idx = 0; idx < wanted.size(); ++idx) {
    worst = std::max(worst, std::abs(static_cast<double>(got[idx]) - wanted[idx]));
    largest = std::max(largest, std::abs(wanted[idx]));
  }
  return worst / largest;
}

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<std::int32_t> greedy(LoadedModel& loaded, std::vector<std::int32_t> ids, std::size_t steps) {
  auto cache = loaded.new_cache(model::KvType::F32);
  std::vector<float> last = loaded.logits(*cache, ids, 512).back();
  std::vector<std::int32_t> tokens;
  while (tokens.size() < steps) {
    tokens.push_back(argmax(last));
    last = loaded.logits(*cache, std::span(&tokens.back(), 1), 1).back();
  }
  return tokens;
}

std::string case_name(const testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class TextReference : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::filesystem::path folder() const { return vectors() / "text" / GetParam(); }
};

TEST_P(TextReference, LogitsEqualFloat64) {
  LoadedModel loaded(folder(), model::Arithmetic::Exact);
  const ExpectedTensors expected(folder() / "expected.safetensors");
  for (const std::string input : {"one", "below", "window", "above", "triple"}) {
    auto cache = loaded.new_cache(model::KvType::F32);
    const auto rows = loaded.logits(*cache, expected.values<std::int32_t>(input + ".ids"), 512);
    EXPECT_LE(relative_error(rows.back(), expected.values<double>(input + ".logits64_last")), kTolerance) << input;
    if (input != "above") continue;
    const std::vector<double> all = expected.values<double>("above.logits64");
    const std::size_t width = all.size() / rows.size();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      EXPECT_LE(relative_error(rows[row], std::span(all).subspan(row * width, width)), kTolerance) << "row " << row;
    }
  }
}

TEST_P(TextReference, GreedyTokensEqual) {
  LoadedModel loaded(folder(), model::Arithmetic::Exact);
  const ExpectedTensors tensors(folder() / "expected.safetensors");
  const auto expected = nlohmann::json::parse(std::ifstream(folder() / "expected.json"));
  for (const std::string input : {"above", "triple"}) {
    const std::vector<std::int32_t> wanted = expected.at("inputs").at(input).at("greedy");
    EXPECT_EQ(greedy(loaded, tensors.values<std::int32_t>(input + ".ids"), wanted.size()), wanted) << input;
  }
}

// S6: windows crossed, any chunk size, the same bits; in the cache's smaller types too.
TEST_P(TextReference, ChunksChangeNothing) {
  const ExpectedTensors expected(folder() / "expected.safetensors");
  const std::vector<std::int32_t> ids = expected.values<std::int32_t>("triple.ids");
  for (const model::KvType type : {model::KvType::F32, model::KvType::F16, model::KvType::BF16}) {
    LoadedModel loaded(folder(), model::Arithmetic::Exact, 2);
    auto cache = loaded.new_cache(type);
    const auto whole = loaded.logits(*cache, ids, 512);
    for (const std::size_t chunk_tokens : {std::size_t{1}, std::size_t{7}, loaded.config().window_tokens}) {
      auto other = loaded.new_cache(type);
      EXPECT_EQ(loaded.logits(*other, ids, chunk_tokens), whole) << "chunks of " << chunk_tokens;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, TextReference,
                         testing::Values("t0-base", "t1-rope8", "t2-head128", "t3-head256", "t4-untied-13", "t5-padrows",
                                         "t6-sharded", "t7-big-residual"),
                         case_name);

class GgufReference : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return vectors() / "gguf" / (GetParam() + ".gguf"); }
};

TEST_P(GgufReference, LogitsEqualFloat32OfTheDequantisedFile) {
  LoadedModel loaded(file(), model::Arithmetic::Exact);
  const ExpectedTensors expected(vectors() / "gguf" / (GetParam() + ".expected.safetensors"));
  for (const std::string input : {"0", "1", "2", "3", "4"}) {
    auto cache = loaded.new_cache(model::KvType::F32);
    const auto rows = loaded.logits(*cache, expected.values<std::int32_t>(input + ".ids"), 512);
    const std::vector<float> wanted = expected.values<float>(input + ".logits");
    const std::vector<double> last(wanted.end() - static_cast<std::ptrdiff_t>(rows.back().size()), wanted.end());
    EXPECT_LE(relative_error(rows.back(), last), kTolerance) << "input " << input;
  }
}

TEST_P(GgufReference, ChunksChangeNothingInPackedArithmetic) {
  const ExpectedTensors expected(vectors() / "gguf" / (GetParam() + ".expected.safetensors"));
  const std::vector<std::int32_t> ids = expected.values<std::int32_t>("4.ids");
  LoadedModel loaded(file(), model::Arithmetic::Quantized, 2);
  auto cache = loaded.new_cache(model::KvType::F16);
  const auto whole = loaded.logits(*cache, ids, 512);
  for (const std::size_t chunk_tokens : {std::size_t{1}, std::size_t{7}, loaded.config().window_tokens}) {
    auto other = loaded.new_cache(model::KvType::F16);
    EXPECT_EQ(loaded.logits(*other, ids, chunk_tokens), whole) << "chunks of " << chunk_tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(Twins, GgufReference,
                         testing::Values("t0-base-f32", "t0-base-q8_0", "t2-head128-q4_k_m", "k256-q4_k_m", "v0-56-f32"),
                         case_name);

}  // namespace
}  // namespace ebb::tests
