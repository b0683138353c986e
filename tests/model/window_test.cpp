// S5: global layers see everything, windowed ones exactly their window.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/loaded_model.h"

namespace ebb::tests {
namespace {

namespace fs = std::filesystem;

fs::path tiny() { return fs::path(EBB_VECTORS_DIR) / "text" / "t0-base"; }

/// A copy of the tiny model whose layers all have a sliding window.
class LocalOnly {
 public:
  LocalOnly() : folder_(fs::path(testing::TempDir()) / "ebb-local-only") {
    fs::remove_all(folder_);
    fs::copy(tiny(), folder_);
    auto config = nlohmann::json::parse(std::ifstream(tiny() / "config.json"));
    config["layer_types"] = std::vector<std::string>(config.at("num_hidden_layers").get<std::size_t>(), "sliding_attention");
    std::ofstream(folder_ / "config.json") << config;
  }
  ~LocalOnly() { fs::remove_all(folder_); }
  LocalOnly(const LocalOnly&) = delete;  // owns the folder
  LocalOnly& operator=(const LocalOnly&) = delete;
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

std::vector<std::int32_t> ids_with(std::size_t count, std::size_t at, std::int32_t id) {
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < count) ids.push_back(static_cast<std::int32_t>(14 + ids.size() * 37 % 250));
  ids[at] = id;
  return ids;
}

std::vector<float> last_logits(LoadedModel& loaded, const std::vector<std::int32_t>& ids) {
  auto cache = loaded.new_cache(model::KvType::F32);
  return loaded.logits(*cache, ids, 512).back();
}

// Six windows of 16 reach back 6 * 15 tokens; position 5 of 120 is farther.
constexpr std::size_t kCount = 120, kFar = 5;

TEST(Window, AFarTokenReachesTheLastLogitThroughGlobalLayers) {
  LoadedModel loaded(tiny(), model::Arithmetic::Exact);
  EXPECT_NE(last_logits(loaded, ids_with(kCount, kFar, 30)), last_logits(loaded, ids_with(kCount, kFar, 31)));
}

TEST(Window, AFarTokenIsInvisibleWithLocalLayersOnly) {
  const LocalOnly local;
  LoadedModel loaded(local.folder(), model::Arithmetic::Exact);
  EXPECT_EQ(last_logits(loaded, ids_with(kCount, kFar, 30)), last_logits(loaded, ids_with(kCount, kFar, 31)));
  const std::size_t near = kCount - 1 - 6 * 15;  // the farthest that six windows still reach
  EXPECT_NE(last_logits(loaded, ids_with(kCount, near, 30)), last_logits(loaded, ids_with(kCount, near, 31)));
}

}  // namespace
}  // namespace ebb::tests
