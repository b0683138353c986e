#include "weights/weight_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "device/host/host_device.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "support/must.h"
#include "support/temp_folder.h"

namespace ebb::weights {
namespace {

using tests::must;

std::filesystem::path vectors() { return EBB_VECTORS_DIR; }

struct Opened {
  explicit Opened(const std::filesystem::path& path)
      : device(must(device::HostDevice::open())), pool(*device, ledger), store(must(WeightStore::open(path, pool))) {}
  std::unique_ptr<device::HostDevice> device;
  memory::Ledger ledger;
  memory::PagePool pool;
  std::unique_ptr<WeightStore> store;
};

// The checkpoint holds norms without Gemma's 1, its GGUF twin with it: placed, both are the same.
TEST(WeightStore, FoldsTheOneIntoNormsOfBothFormats) {
  Opened folder(vectors() / "text" / "t0-base"), gguf(vectors() / "gguf" / "t0-base-f32.gguf");
  must(folder.store->place(layer_unit(3), folder.pool));
  must(gguf.store->place(layer_unit(3), gguf.pool));
  for (const Part part : {Part::AttnNorm, Part::PostAttnNorm, Part::FfnNorm, Part::PostFfnNorm}) {
    const float* left = folder.store->norm(part, 3);
    const float* right = gguf.store->norm(part, 3);
    for (std::size_t col = 0; col < 64; ++col) EXPECT_EQ(left[col], right[col]) << col;
  }
}

/// The same model with one byte of its file changed.
std::string identity_with(const std::filesystem::path& gguf, std::size_t at_from_end) {
  const tests::TempFolder folder;
  std::filesystem::copy_file(gguf, folder.path() / "m.gguf");
  std::fstream file(folder.path() / "m.gguf", std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(at_from_end), std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-static_cast<std::streamoff>(at_from_end), std::ios::end);
  file.put(byte);
  file.close();
  return Opened(folder.path() / "m.gguf").store->identity().hex();
}

// S3: what a saved chat names its model by. The last tensor of the file ends within an alignment of its end.
TEST(WeightStore, IdentityTellsWeightsApart) {
  const std::filesystem::path gguf = vectors() / "gguf" / "t0-base-f32.gguf";
  const std::string whole = Opened(gguf).store->identity().hex();
  EXPECT_EQ(Opened(gguf).store->identity().hex(), whole);
  EXPECT_NE(identity_with(gguf, 64), whole) << "trained a little further";
  EXPECT_NE(Opened(vectors() / "gguf" / "t0-base-q8_0.gguf").store->identity().hex(), whole);
  EXPECT_NE(Opened(vectors() / "text" / "t7-big-residual").store->identity().hex(),
            Opened(vectors() / "text" / "t0-base").store->identity().hex());
}

TEST(WeightStore, FindsTheSameMatricesInBothFormats) {
  Opened folder(vectors() / "text" / "t0-base"), gguf(vectors() / "gguf" / "t0-base-f32.gguf");
  must(folder.store->place(layer_unit(5), folder.pool));
  must(gguf.store->place(layer_unit(5), gguf.pool));
  const TensorView left = folder.store->matrix(Part::FfnDown, 5);
  const TensorView right = gguf.store->matrix(Part::FfnDown, 5);
  ASSERT_EQ(left.bytes(), right.bytes());
  EXPECT_TRUE(std::equal(left.data, left.data + left.bytes(), right.data));
}

TEST(WeightStore, NamesTheTensorThatIsMissingOrOfAnotherShape) {
  Opened opened(vectors() / "gguf" / "t0-base-f32.gguf");
  const Status missing = opened.store->expect(Part::AttnQ, 99, 32, 64);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::BadFile);
  EXPECT_NE(missing.error().message.find("blk.99.attn_q.weight"), std::string::npos) << missing.error().message;
  const Status other = opened.store->expect(Part::AttnQ, 0, 48, 64);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("[48, 64]"), std::string::npos) << other.error().message;
  EXPECT_NE(other.error().message.find("[32, 64]"), std::string::npos) << other.error().message;
  EXPECT_TRUE(opened.store->expect(Part::AttnNorm, 0, 1, 64));
  EXPECT_FALSE(opened.store->expect(Part::AttnNorm, 0, 1, 65));
}

TEST(WeightStore, ChargesTheMappingWhenItOpensAndNothingElse) {
  Opened opened(vectors() / "gguf" / "t0-base-f32.gguf");
  const auto snapshot = opened.ledger.snapshot();
  EXPECT_EQ(snapshot.devices[memory::kHostMemory].by_tag[static_cast<std::size_t>(memory::Tag::MappedFile)],
            std::filesystem::file_size(vectors() / "gguf" / "t0-base-f32.gguf"));
  EXPECT_EQ(snapshot.devices[opened.pool.ledger_device()].owned_bytes, 0U);
}

}  // namespace
}  // namespace ebb::weights
