#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/internal/engine_state.h"
#include "memory/page_pool.h"

namespace ebb::engine {

DecodeCeiling measure_decode_ceiling(Engine& engine, int rounds) {
  using Clock = std::chrono::steady_clock;
  model::Model& model = *engine.state().model;
  DecodeCeiling ceiling;
  for (const memory::PagePool* pool : engine.state().pools->all()) {
    if (pool->device().kind() == device::Kind::Cuda) return ceiling;  // the host cannot read what lies there
  }
  ceiling.bytes_per_token = model.step_weight_bytes();
  const std::uint64_t expected = model.read_step_weights();  // also brings the file's pages in
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point start = Clock::now();
    EBB_CHECK(model.read_step_weights() == expected, "weights changed while they were read");
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    ceiling.read_bytes_per_second =
        std::max(ceiling.read_bytes_per_second, static_cast<double>(ceiling.bytes_per_token) / seconds);
  }
  return ceiling;
}

}  // namespace ebb::engine
