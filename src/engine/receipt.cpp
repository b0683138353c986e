#include "engine/receipt.h"

namespace ebb::engine {

std::string_view action_name(Action action) {
  switch (action) {
    case Action::Reset:
      return "reset";
    case Action::Delete:
      return "delete";
    case Action::Park:
      return "park";
    case Action::Unload:
      return "unload";
    case Action::Load:
      return "load";
    case Action::Reclaim:
      return "reclaim";
  }
  return "";
}

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::AfterGeneration:
      return "after_generation";
    case Reason::Turns:
      return "turns";
    case Reason::User:
      return "user";
    case Reason::Threshold:
      return "threshold";
    case Reason::Pressure:
      return "pressure";
    case Reason::Yield:
      return "yield";
    case Reason::Idle:
      return "idle";
    case Reason::Delete:
      return "delete";
  }
  return "";
}

}  // namespace ebb::engine
