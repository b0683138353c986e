#include "weights/weight_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/half.h"
#include "device/device_spec.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"

namespace ebb::weights {
namespace {

std::filesystem::path vectors() { return EBB_VECTORS_DIR; }

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

struct Opened {
  explicit Opened(const std::filesystem::path& path, const char* devices_spec = "cpu")
      : devices(must(device::open_devices({devices_spec, "", ""}))), pool(*devices.front(), ledger) {
    store = must(WeightStore::open(path, pool));
  }
  std::vector<std::unique_ptr<device::Device>> devices;
  memory::Ledger ledger;
  memory::PagePool pool;
  std::unique_ptr<WeightStore> store;
};

// The checkpoint holds norms without Gemma's 1, its GGUF twin with it: bound, both are the same.
TEST(WeightStore, FoldsTheOneIntoNormsOfBothFormats) {
  Opened folder(vectors() / "text" / "t0-base"), gguf(vectors() / "gguf" / "t0-base-f32.gguf");
  for (const Part part : {Part::AttnNorm, Part::PostAttnNorm, Part::FfnNorm, Part::PostFfnNorm}) {
    const float* left = must(folder.store->norm(part, 3, 64));
    const float* right = must(gguf.store->norm(part, 3, 64));
    for (std::size_t col = 0; col < 64; ++col) EXPECT_EQ(left[col], right[col]) << col;
  }
}

TEST(WeightStore, BindsBothFormatsToTheSameMatrices) {
  Opened folder(vectors() / "text" / "t0-base"), gguf(vectors() / "gguf" / "t0-base-f32.gguf");
  const TensorView left = must(folder.store->matrix(Part::FfnDown, 5, 64, 64));
  const TensorView right = must(gguf.store->matrix(Part::FfnDown, 5, 64, 64));
  ASSERT_EQ(left.bytes(), right.bytes());
  EXPECT_TRUE(std::equal(left.data, left.data + left.bytes(), right.data));
}

TEST(WeightStore, NamesTheTensorThatIsMissingOrOfAnotherShape) {
  Opened opened(vectors() / "gguf" / "t0-base-f32.gguf");
  const Result<TensorView> missing = opened.store->matrix(Part::AttnQ, 99, 32, 64);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("blk.99.attn_q.weight"), std::string::npos) << missing.error().message;
  const Result<TensorView> other = opened.store->matrix(Part::AttnQ, 0, 48, 64);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("[48, 64]"), std::string::npos) << other.error().message;
  EXPECT_NE(other.error().message.find("[32, 64]"), std::string::npos) << other.error().message;
}

// On the host matrices stay in the mapped file; elsewhere each byte is in a page tagged `weights`.
TEST(WeightStore, ChargesWhatItHolds) {
  const auto weights_bytes = [](Opened& opened) {
    must(opened.store->matrix(Part::Embedding, 0, 320, 64));
    return opened.ledger.snapshot().devices[opened.pool.ledger_device()].by_tag[static_cast<std::size_t>(memory::Tag::Weights)];
  };
  Opened host(vectors() / "gguf" / "t0-base-f32.gguf"), fake(vectors() / "gguf" / "t0-base-f32.gguf", "fake:64MiB");
  EXPECT_EQ(weights_bytes(host), 0U);
  EXPECT_GE(weights_bytes(fake), 320U * 64 * 4);
  const auto mapped = host.ledger.snapshot().devices[memory::kHostMemory].by_tag[static_cast<std::size_t>(memory::Tag::MappedFile)];
  EXPECT_EQ(mapped, std::filesystem::file_size(vectors() / "gguf" / "t0-base-f32.gguf"));
}

}  // namespace
}  // namespace ebb::weights
