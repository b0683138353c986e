// Whoever holds memory beside the model and the chats: captured graphs, a vision tower, a draft model. The three levels,
// unloading and pressure ask each of them to give (M6); what it needs it takes again, with_room(), when it is used.
// Called by Reclaimer with the engine's `step` held, so never in the middle of a pass.
#pragma once

#include <string_view>

#include "engine/receipt.h"

namespace ebb::engine {

class SideOwner {
 public:
  SideOwner() = default;
  SideOwner(const SideOwner&) = delete;  // the engine knows it by its address
  SideOwner& operator=(const SideOwner&) = delete;
  virtual ~SideOwner() = default;

  /// For receipts and refusals: "the vision tower".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Gives back: at Answer what only the last pass needed; at Turns also caches and what is surplus; at Full all but
  /// weights, and those too with `all`. What stays is in the ledger under its owner.
  virtual void give(Level level, bool all) = 0;
};

}  // namespace ebb::engine
