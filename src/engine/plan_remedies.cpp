#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "engine/internal/planner.h"

namespace ebb::engine {
namespace {

constexpr std::size_t kLeastAdvisedContext = 256;  // below it a chat is of no use
constexpr std::size_t kLeastAdvisedChunk = 128;    // the last step of the order in which memory is given up

std::size_t planned_bytes(const Placement& placement) {
  return std::transform_reduce(placement.devices.begin(), placement.devices.end(), placement.host.sum(), std::plus<>(),
                               [](const PlaceBytes& bytes) { return bytes.sum(); });
}

/// Changes of a load, tried one by one; each is kept as a sentence when all fits with it.
class Remedies {
 public:
  Remedies(const PlacementRequest& request, const PlacementLoad& load, const Placement& now)
      : request_(request), load_(load), now_bytes_(planned_bytes(now)) {}

  void try_chunk() {
    for (std::size_t chunk = load_.chunk_tokens / 2; chunk >= kLeastAdvisedChunk; chunk /= 2) {
      PlacementLoad load = load_;
      load.chunk_tokens = chunk;
      if (keep(load, fmt::format("-ub {}", chunk), "prompts are read in smaller steps")) return;
    }
  }

  void try_parallel() {
    for (std::size_t parallel = load_.parallel; parallel-- > 1;) {
      PlacementLoad load = load_;
      load.parallel = parallel;
      if (keep(load, fmt::format("-np {}", parallel), "room for fewer chats at once")) return;
    }
  }

  void try_kv_types() {
    for (std::size_t choice_idx = 1; choice_idx < request_.kv_choices.size(); ++choice_idx) {
      PlacementLoad load = load_;
      load.kv_choice_idx = choice_idx;
      keep(load, request_.kv_choices[choice_idx].flags, "");
    }
  }

  void try_context() {
    PlacementLoad load = load_;
    const std::size_t context = largest_context(request_, load, load_.tokens);
    if (context < kLeastAdvisedContext || context >= load_.tokens) return;
    load.tokens = context;
    keep(load, fmt::format("-c {}", context), "");
  }

  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  bool keep(const PlacementLoad& load, const std::string& flags, std::string_view price) {
    if (!fits_complete(request_, load)) return false;
    const std::size_t bytes = planned_bytes(place(request_, load));
    const std::string saved = bytes < now_bytes_ ? fmt::format(": saves {}", format_bytes(now_bytes_ - bytes)) : "";
    sentences_.push_back(fmt::format("{} would fit{}{}", flags, saved, price.empty() ? "" : fmt::format(" ({})", price)));
    return true;
  }

  const PlacementRequest& request_;
  const PlacementLoad load_;
  const std::size_t now_bytes_;
  std::vector<std::string> sentences_;
};

/// Rounded up, so that what is advised is enough.
std::string in_mib(std::size_t bytes) { return fmt::format("{}MiB", div_up(bytes, kMiB)); }

/// How much more each usable device would need so that all fits; the same for every one.
std::size_t missing_bytes(PlacementRequest request, const PlacementLoad& load) {
  const std::vector<PlacementDevice> devices = request.devices;
  const auto fits_with = [&](std::size_t more) {
    for (std::size_t idx = 0; idx < devices.size(); ++idx) request.devices[idx].limit_bytes = devices[idx].limit_bytes + more;
    return fits_complete(request, load);
  };
  std::size_t page = request.host_page_bytes;
  for (const PlacementDevice& device : devices) page = std::max(page, device.page_bytes);
  std::size_t low = 0, high = page;
  // Past this, no amount of device memory helps: it is the host that is too small.
  while (!fits_with(high)) {
    if (high > (std::size_t{1} << 50)) return 0;
    low = high;
    high *= 2;
  }
  while (high - low > page) {
    const std::size_t middle = low + (high - low) / 2;
    (fits_with(middle) ? high : low) = middle;
  }
  return high;
}

std::string more_memory(const PlacementRequest& request, const PlacementLoad& load, const PlanWish& wish) {
  const std::size_t missing = missing_bytes(request, load);
  if (missing == 0) {
    return fmt::format("more host memory: {} may be used", format_bytes(request.host_limit_bytes));
  }
  bool raising_helps = !wish.limited.empty();
  std::vector<std::string> wanted;
  for (std::size_t device_idx = 0; device_idx < request.devices.size(); ++device_idx) {
    const PlacementDevice& device = request.devices[device_idx];
    if (device.banned) continue;
    const bool limited = device_idx < wish.limited.size() && wish.limited[device_idx];
    raising_helps = raising_helps && limited && device.limit_bytes + missing <= device.free_bytes;
    wanted.push_back(in_mib(device.limit_bytes + missing));
  }
  if (raising_helps) {
    const bool same = std::ranges::all_of(wanted, [&](const std::string& text) { return text == wanted.front(); });
    return same ? fmt::format("--memory-limit {} would fit", wanted.front())
                : fmt::format("--memory-limit {} would fit", fmt::join(wanted, ","));
  }
  return fmt::format("{} more on {} would fit", in_mib(missing), wanted.size() == 1 ? "the device" : "each device");
}

}  // namespace

std::vector<std::string> find_remedies(const PlacementRequest& request, const PlacementLoad& load, const PlanWish& wish,
                                       const Placement& placement) {
  // From what costs least to what costs most: time for prompts, room for other chats, a little accuracy, length, money.
  Remedies remedies(request, load, placement);
  remedies.try_chunk();
  remedies.try_parallel();
  remedies.try_kv_types();
  remedies.try_context();
  std::vector<std::string> sentences = remedies.take();
  sentences.push_back(more_memory(request, load, wish));
  if (!placement.fits && request.all_on_devices) {
    sentences.push_back("-ngl auto would put what does not fit on the CPU, where it is slower");
  }
  return sentences;
}

}  // namespace ebb::engine
