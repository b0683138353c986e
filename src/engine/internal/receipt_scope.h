// From here to finish(): what an act gave back, by the ledger and by the devices themselves.
// Called by reclaimer.cpp with the engine's `step` held, so nothing else moves memory in between.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/receipt.h"
#include "memory/ledger.h"

namespace ebb::engine {

class ReceiptScope {
 public:
  ReceiptScope(Engine::State& engine, Action action, Reason reason, std::uint64_t conversation = 0, int level = 0);
  ReceiptScope(const ReceiptScope&) = delete;  // one act, one receipt
  ReceiptScope& operator=(const ReceiptScope&) = delete;

  /// Unmaps what was given up and hands it to the devices; waits at most `patience` for them to count it as free.
  /// The receipt becomes the engine's last one.
  [[nodiscard]] Receipt finish(std::chrono::milliseconds patience);

 private:
  void keep_the_rest();  // names what the devices still hold for us, by kind and owner, and why it stays

  Engine::State& engine_;
  Receipt receipt_;
  memory::LedgerSnapshot before_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ebb::engine
