// Owners beside the model and the chats: captured graphs that a driver allocates by itself, and a vision tower, both of
// them stand-ins with the costs of the real ones scaled to the tiny model. What is tested is the engine's side: levels,
// unloading, pressure, receipts and refusals reach every owner.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <set>

#include "engine/internal/side_owner.h"
#include "engine/tiny_engine.h"
#include "memory/charged_cache.h"
#include "memory/region.h"

namespace ebb::tests {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Level;
using engine::Receipt;

/// An executable graph: the driver takes memory for it outside any pool and gives it back when the graph goes.
class StubGraph {
 public:
  static constexpr std::size_t kCost = 3 * kTinyPage;

  static Result<StubGraph> capture(device::Device& device) {
    EBB_TRY_ASSIGN(const device::Handle handle, device.create(kCost));
    return StubGraph(device, handle);
  }
  StubGraph(StubGraph&& other) noexcept : device_(std::exchange(other.device_, nullptr)), handle_(other.handle_) {}
  StubGraph& operator=(StubGraph&&) = delete;
  ~StubGraph() {
    if (device_ != nullptr) must(device_->release(handle_));
  }

 private:
  StubGraph(device::Device& device, device::Handle handle) : device_(&device), handle_(handle) {}
  device::Device* device_;
  device::Handle handle_;
};

/// A graph a shape of step; steps of up to 2^n rows share one.
class StubGraphs final : public engine::SideOwner {
 public:
  static constexpr std::size_t kMostGraphs = 4;

  explicit StubGraphs(Engine& engine)
      : pool_(engine.state().pools->pool(0)),
        reclaimer_(*engine.state().reclaimer),
        step_(engine.state().step),
        id_(engine.state().add(*this)),
        graphs_(pool_.ledger().open(pool_.ledger_device(), memory::Tag::Graphs, id_),
                {.entries = kMostGraphs, .bytes = kMostGraphs * StubGraph::kCost}) {}

  std::string_view name() const override { return "the captured graphs"; }
  void give(Level level, bool /*all*/) override {
    if (level != Level::Answer) graphs_.keep(0);
  }

  Status launch(std::size_t rows) {
    const std::lock_guard lock(step_);
    const std::size_t shape = std::bit_ceil(rows);
    if (graphs_.find(shape) != nullptr) return {};
    ++captures_;
    return reclaimer_.with_room({.owner = id_}, [&] {
      return graphs_.add(shape, StubGraph::kCost, [&] { return StubGraph::capture(pool_.device()); }).map([](StubGraph*) {});
    });
  }
  std::size_t size() const { return graphs_.size(); }
  std::size_t captures() const { return captures_; }

 private:
  memory::PagePool& pool_;
  engine::Reclaimer& reclaimer_;
  FairMutex& step_;
  const memory::OwnerId id_;
  memory::ChargedCache<std::size_t, StubGraph> graphs_;
  std::size_t captures_ = 0;
};

/// A tower: weights and scratch come for a picture, scratch goes after it, rows are kept by the hash of the picture.
class StubTower final : public engine::SideOwner {
 public:
  static constexpr std::size_t kWeights = 20 * kTinyPage, kScratch = 12 * kTinyPage, kRows = 2048;
  using Rows = std::vector<std::uint8_t>;

  explicit StubTower(Engine& engine, std::size_t cache_bytes = 0)
      : pool_(engine.state().pools->pool(0)),
        reclaimer_(*engine.state().reclaimer),
        step_(engine.state().step),
        id_(engine.state().add(*this)),
        weights_(must(memory::Region::reserve(pool_, memory::Tag::Vision, id_, kWeights, memory::Backing::Whole))),
        scratch_(must(memory::Region::reserve(pool_, memory::Tag::Scratch, id_, kScratch))),
        rows_(pool_.ledger().open(memory::kHostMemory, memory::Tag::Cache, id_), {.entries = 64, .bytes = cache_bytes}) {}

  std::string_view name() const override { return "the vision tower"; }
  void give(Level level, bool all) override {
    must(scratch_.resize(0));
    if (level != Level::Answer) rows_.keep(0);
    if (level == Level::Full && all) must(weights_.resize(0));
  }

  Result<Rows> encode(std::uint64_t picture) {
    const std::lock_guard lock(step_);
    if (const Rows* known = rows_.find(picture)) return *known;
    EBB_TRY(reclaimer_.with_room({.owner = id_}, [this] { return take(); }));
    EBB_TRY(pool_.device().begin_step(device::Step::Tower));
    ++runs_;
    Rows rows(kRows);
    std::memcpy(scratch_.data(), weights_.data(), kRows);
    for (std::size_t idx = 0; idx < kRows; ++idx) {
      rows[idx] = static_cast<std::uint8_t>(std::to_integer<std::uint64_t>(scratch_.data()[idx]) + picture * (idx + 1));
    }
    static_cast<void>(rows_.add(picture, kRows, [&]() -> Result<Rows> { return rows; }));  // a cache of nothing keeps nothing
    return rows;
  }
  std::size_t runs() const { return runs_; }
  std::size_t weight_bytes() const { return weights_.committed_bytes(); }

 private:
  Status take() {
    if (weights_.committed_bytes() == 0) {
      EBB_TRY(weights_.resize(kWeights));
      for (std::size_t idx = 0; idx < kWeights; ++idx) weights_.data()[idx] = static_cast<std::byte>(idx * 31 % 251);
    }
    return scratch_.resize(kScratch);
  }

  memory::PagePool& pool_;
  engine::Reclaimer& reclaimer_;
  FairMutex& step_;
  const memory::OwnerId id_;
  memory::Region weights_, scratch_;
  memory::ChargedCache<std::uint64_t, Rows> rows_;
  std::size_t runs_ = 0;
};

EngineOptions small_steps() {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  options.context_tokens = 1024;
  options.chunk_tokens = 32;
  return options;
}

/// The rows of a picture take the place of tokens in a prompt.
std::vector<std::int32_t> prompt_with(const StubTower::Rows& rows, std::size_t tokens) {
  std::vector<std::int32_t> prompt = prompt_of(10);
  for (std::size_t idx = 0; prompt.size() < tokens; ++idx) prompt.push_back(14 + rows[idx % rows.size()] % 200);
  return prompt;
}

void expect_books_are_the_devices(Engine& engine) {
  const engine::DeviceStatus device = engine.memory().devices.front();
  std::size_t sum = device.pool_bytes;
  for (const auto& [kind, bytes] : device.kinds) sum += bytes;
  EXPECT_EQ(sum, used(engine));
  EXPECT_EQ(device.untracked_bytes, 0U);
}

// M3: the cache is keyed by shape, bounded, in the books, and emptied by level 2.
TEST(Graphs, AreBoundedAndEmptiedByReclaim) {
  const auto engine = must(Engine::open(small_steps()));
  StubGraphs graphs(*engine);
  const std::size_t floor = used(*engine);
  std::set<std::size_t> shapes;
  for (std::size_t turn = 0; turn < 200; ++turn) {
    const std::size_t rows = 1 + turn * 37 % 300;
    shapes.insert(std::bit_ceil(rows));
    must(graphs.launch(rows));
    ASSERT_LE(graphs.size(), StubGraphs::kMostGraphs);
    ASSERT_EQ(used(*engine), floor + graphs.size() * StubGraph::kCost);
    ASSERT_EQ(kind_bytes(engine->memory().devices.front().kinds, "graphs"), graphs.size() * StubGraph::kCost);
  }
  ASSERT_GT(shapes.size(), StubGraphs::kMostGraphs);
  expect_books_are_the_devices(*engine);
  engine->reclaim(Level::Answer);
  EXPECT_EQ(graphs.size(), StubGraphs::kMostGraphs);
  const Receipt receipt = engine->reclaim(Level::Turns);
  EXPECT_EQ(graphs.size(), 0U);
  EXPECT_EQ(kind_bytes(receipt.devices.front().kinds, "graphs"), StubGraphs::kMostGraphs * StubGraph::kCost);
  EXPECT_TRUE(receipt.confirmed);
  EXPECT_EQ(used(*engine), floor);
}

// M3: a key is the shape, so parking and coming back, which move no address, cost no capture.
TEST(Graphs, AreMadeOnceAShape) {
  const auto engine = must(Engine::open(small_steps()));
  StubGraphs graphs(*engine);
  const auto conversation = must(engine->new_conversation());
  for (std::size_t turn = 1; turn <= 5; ++turn) {
    must(conversation->generate(prompt_of(20 * turn), greedy(2), nullptr, nullptr));
    must(graphs.launch(1));
    must(conversation->park());
  }
  EXPECT_EQ(graphs.captures(), 1U);
  EXPECT_TRUE(conversation->reset().confirmed);  // bytes that no pool gave do not look like a late release
}

// M3, B5: graphs are in the budget; where the limit leaves no room, others give, and if nobody can it is refused.
TEST(Graphs, AreInTheBudget) {
  EngineOptions options = small_steps();
  options.gpu_layers = "all";
  const auto free_engine = must(Engine::open(options));
  options.memory.memory_limit = {{.bytes = free_engine->plan().devices.front().planned_bytes, .share = std::nullopt}};
  const std::size_t limit = options.memory.memory_limit.front().bytes;
  const auto engine = must(Engine::open(options));
  StubGraphs graphs(*engine);
  const auto conversation = must(engine->new_conversation());
  must(conversation->generate(prompt_of(1000), greedy(2), nullptr, nullptr));
  for (const std::size_t rows : {1, 2, 4, 8}) must(graphs.launch(rows));
  EXPECT_LE(fake(*engine).status().ours_peak_bytes, limit);
  expect_equal(must(conversation->generate(prompt_of(1010), greedy(2), nullptr, nullptr)), cold_run(prompt_of(1010), 2));
  EXPECT_LE(fake(*engine).status().ours_peak_bytes, limit);
}

/// Malloc's own count, 0 under a sanitizer, which has its own allocator. Chunks that wait in a thread's cache count as in
/// use, so single ones come and go; one that is lost each time adds its least size each time.
std::size_t heap_bytes() { return mallinfo2().uordblks; }
constexpr std::size_t kLeastChunk = 32;

// M2: pictures one after the other are flat, on the device and on the heap.
TEST(Pictures, LeaveNothingBehind) {
  const auto engine = must(Engine::open(small_steps()));
  StubTower tower(*engine);
  std::size_t floor = 0, heap = 0;
  for (int request = 0; request < 53; ++request) {
    {
      const auto conversation = must(engine->new_conversation());
      const std::vector<std::int32_t> prompt = prompt_with(must(tower.encode(7)), 120);
      must(conversation->generate(prompt, greedy(2), nullptr, nullptr));
      conversation->reset();
      engine->reclaim(Level::Answer);
    }
    if (request == 2) {
      floor = used(*engine);
      heap = heap_bytes();
    }
    if (request > 2) {
      ASSERT_EQ(used(*engine), floor) << request;
    }
  }
  EXPECT_LT(heap_bytes(), heap + 50 * kLeastChunk);
  EXPECT_EQ(tower.runs(), 53U);
}

// M12: loading and unloading with a picture in each cycle leaves nothing, on the device and on the heap.
TEST(Pictures, LeaveNothingThroughLoadAndUnload) {
  const auto engine = must(Engine::open(small_steps()));
  StubTower tower(*engine, 10 * StubTower::kRows);
  std::size_t heap = 0;
  const StubTower::Rows first = must(tower.encode(3));
  for (int cycle = 0; cycle < 20; ++cycle) {
    const StubTower::Rows rows = must(tower.encode(3));
    EXPECT_EQ(rows, first);
    const auto conversation = must(engine->new_conversation());
    must(conversation->generate(prompt_with(rows, 60), greedy(2), nullptr, nullptr));
    conversation->reset();
    const Receipt receipt = must(engine->unload());
    EXPECT_TRUE(receipt.kept.empty());
    EXPECT_TRUE(receipt.confirmed);
    ASSERT_EQ(used(*engine), 0U) << cycle;
    must(engine->load());
    if (cycle == 2) heap = heap_bytes();
  }
  EXPECT_LT(heap_bytes(), heap + 17 * kLeastChunk);
  EXPECT_EQ(tower.runs(), 20U);  // the first cycle found the rows, each later one came after an unload
}

// M6: every owner takes part in unloading; one that does not give is named.
TEST(SideOwners, AllLeaveWithTheModelOrAreNamed) {
  class Stubborn final : public engine::SideOwner {
   public:
    std::string_view name() const override { return "the draft model"; }
    void give(Level /*level*/, bool all) override {
      if (all && willing) must(weights.resize(0));
    }
    memory::Region weights;
    bool willing = false;
  } draft;
  const auto engine = must(Engine::open(small_steps()));
  StubTower tower(*engine, StubTower::kRows);
  StubGraphs graphs(*engine);
  const memory::OwnerId id = engine->state().add(draft);
  draft.weights = must(memory::Region::reserve(engine->state().pools->pool(0), memory::Tag::Weights, id, kTinyPage));
  must(draft.weights.resize(kTinyPage));
  must(tower.encode(1));
  must(graphs.launch(5));

  const Receipt receipt = must(engine->unload());
  ASSERT_EQ(receipt.kept.size(), 1U);
  EXPECT_EQ(receipt.kept.front().why, "held by the draft model");
  EXPECT_EQ(used(*engine), kTinyPage);
  draft.willing = true;
  EXPECT_TRUE(must(engine->unload()).kept.empty());
  EXPECT_EQ(used(*engine), 0U);
  draft.weights = memory::Region();
}

// Level 3 keeps weights unless all of them are asked for; level 1 takes what only a picture needed.
TEST(SideOwners, GiveWhatTheLevelAsks) {
  const auto engine = must(Engine::open(small_steps()));
  StubTower tower(*engine, StubTower::kRows);
  must(tower.encode(1));
  const auto held = [&](std::string_view kind) { return kind_bytes(engine->memory().devices.front().kinds, kind); };
  EXPECT_EQ(held("scratch"), StubTower::kScratch);
  engine->reclaim(Level::Answer);
  EXPECT_EQ(held("scratch"), 0U);
  EXPECT_EQ(held("vision"), StubTower::kWeights);
  must(tower.encode(1));
  EXPECT_EQ(tower.runs(), 1U);  // its rows are kept
  engine->reclaim(Level::Turns);
  must(tower.encode(1));
  EXPECT_EQ(tower.runs(), 2U);
  engine->reclaim(Level::Full);
  EXPECT_EQ(held("vision"), StubTower::kWeights);
  engine->reclaim(Level::Full, true);
  EXPECT_EQ(held("vision"), 0U);
}

// The way of D3: tower and chat do not fit together; each makes room for the other, within the limit, with the same answers.
TEST(SideOwners, MakeRoomForAChatAndTheChatForThem) {
  EngineOptions options = small_steps();
  options.gpu_layers = "all";
  options.memory.memory_limit = {
      {.bytes = must(Engine::open(options))->plan().devices.front().planned_bytes, .share = std::nullopt}};
  const auto engine = must(Engine::open(options));
  StubTower tower(*engine);
  const auto conversation = must(engine->new_conversation());
  const StubTower::Rows rows = must(tower.encode(5));
  for (std::size_t turn = 1; turn <= 3; ++turn) {
    EXPECT_EQ(must(tower.encode(5)), rows);
    const auto prompt = prompt_with(rows, 300 * turn);
    expect_equal(must(conversation->generate(prompt, greedy(3), nullptr, nullptr)), cold_run(prompt, 3));
    EXPECT_LE(fake(*engine).status().ours_peak_bytes, options.memory.memory_limit.front().bytes);
  }
  EXPECT_EQ(tower.weight_bytes(), 0U);  // the last prompt needed its place
}

// B10: a refusal names owners as people know them, and what they gave.
TEST(SideOwners, AreNamedInARefusal) {
  EngineOptions options = small_steps();
  options.gpu_layers = "all";
  const auto engine = must(Engine::open(options));
  StubTower tower(*engine);
  must(tower.encode(5));
  device::FakeSettings settings;
  settings.others_bytes = fake(*engine).status().total_bytes - used(*engine);
  fake(*engine).apply(settings);
  const auto conversation = must(engine->new_conversation());
  const auto refused = conversation->generate(prompt_of(1000), greedy(2), nullptr, nullptr);
  ASSERT_FALSE(refused);
  const MemoryFacts facts = refused.error().memory.value();
  EXPECT_TRUE(std::ranges::any_of(facts.tried, [](const std::string& text) { return text.starts_with("the vision tower gave back"); }))
      << refused.error().message;
  settings.others_bytes = 0;
  fake(*engine).apply(settings);
  expect_equal(must(conversation->generate(prompt_of(1000), greedy(2), nullptr, nullptr)), cold_run(prompt_of(1000), 2));
}

// An owner's own wish does not take from itself what it already has.
TEST(SideOwners, ARefusedPictureLeavesTheTowerWhole) {
  EngineOptions options = small_steps();
  options.gpu_layers = "all";
  const auto engine = must(Engine::open(options));
  StubTower tower(*engine);
  must(tower.encode(5));
  engine->reclaim(Level::Answer);
  device::FakeSettings settings;
  settings.others_bytes = fake(*engine).status().total_bytes - used(*engine);
  fake(*engine).apply(settings);
  EXPECT_EQ(tower.encode(6).error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(tower.weight_bytes(), StubTower::kWeights);
  settings.others_bytes = 0;
  fake(*engine).apply(settings);
  EXPECT_TRUE(tower.encode(6));
}

}  // namespace
}  // namespace ebb::tests
