// Flags about memory: budgets, and when bytes go back. In config.yaml they stand in the block memory_management.
#include "base/bytes.h"
#include "cli/internal/setters.h"

namespace ebb::cli {

namespace {

constexpr std::uint32_t kOpens = kOpensModel;
constexpr std::string_view kBlock = "memory_management";
constexpr std::size_t kLeastLimit = 4 * kKiB;  // less holds no page of any device

tl::unexpected<Error> not_a_limit(std::string_view allowed) {
  return fail(ErrorCode::InvalidArgument, std::string(allowed));
}

Result<engine::MemoryLimit> parse_limit(Text text) {
  constexpr Text kAllowed =
      "use a size such as 20GiB, a share such as 80%, or none; or a list with one for each device";
  engine::MemoryLimit limit;
  if (text.ends_with('%')) {
    const Result<double> share = parse_share(text);
    if (!share) return not_a_limit(kAllowed);
    limit.share = *share;
    return limit;
  }
  const Result<std::size_t> bytes = parse_bytes(text);
  if (!bytes || *bytes < kLeastLimit) return not_a_limit(kAllowed);
  limit.bytes = *bytes;
  return limit;
}

Status set_memory_limit(Options& options, Text text) {
  std::vector<engine::MemoryLimit> limits;
  while (text != "none") {
    const std::size_t comma = text.find(',');
    EBB_TRY_ASSIGN(const engine::MemoryLimit limit, parse_limit(text.substr(0, comma)));
    limits.push_back(limit);
    if (comma == Text::npos) break;
    text.remove_prefix(comma + 1);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  options.engine.memory.memory_limit = std::move(limits);
  return {};
}
Status set_utilization(Options& options, Text text) {
  EBB_TRY_ASSIGN(const double share, parse_share(text));
  options.engine.memory.memory_limit = {engine::MemoryLimit{0, share}};
  return {};
}
Status set_host_limit(Options& options, Text text) {
  std::optional<std::size_t>& limit = options.engine.memory.host_limit_bytes;
  if (text == "none") {
    limit.reset();
    return {};
  }
  const Result<std::size_t> bytes = parse_bytes(text);
  if (!bytes || *bytes < kLeastLimit) return not_a_limit("use a size such as 32GiB, or none");
  limit = *bytes;
  return {};
}
Status set_idle_unload(Options& options, Text text) {
  if (text == "-1") text = "0";  // how others spell "never"
  return set_integer(options.engine.memory.idle_unload_s, text, 0, kMaxSeconds);
}

}  // namespace

std::vector<Setting> memory_settings() {
  using O = Options;
  return {
      {"memory-limit",
       {},
       "LIST",
       Group::Memory,
       "never hold more on a device: 20GiB, 80%, or a list with one for each; none = all of it",
       kOpens,
       true,
       false,
       set_memory_limit,
       {kBlock, "", true}},
      {"gpu-memory-utilization",
       {},
       "X",
       Group::Memory,
       "another word for the same: 0.8 is --memory-limit 80%",
       kOpens,
       false,
       false,
       set_utilization},
      {"host-limit",
       {},
       "SIZE",
       Group::Memory,
       "never hold more of the host for parked chats, records and caches: 32GiB; none = no limit",
       kOpens,
       true,
       false,
       set_host_limit,
       {kBlock, "", false}},
      {"balance-memory",
       {},
       "",
       Group::Memory,
       "fill several devices evenly instead of one after the other",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.balance, t); },
       {kBlock, "balance", false}},
      {"yield-to-others",
       {},
       "",
       Group::Memory,
       "shrink when another program takes memory (on; --yield-to-others=false)",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.yield_to_others, t); },
       {kBlock, "", false}},
      {"after-generation",
       {},
       "",
       Group::Memory,
       "give spare memory back after each answer (on; --after-generation=false)",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.after_generation, t); },
       {kBlock, "", false}},
      {"full-every-turns",
       {},
       "N",
       Group::Memory,
       "give caches back too after every N turns (5); 0 = never",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.memory.full_every_turns, t, 0, kMaxTurns); },
       {kBlock, "", false}},
      {"park-after-generation",
       {},
       "",
       Group::Memory,
       "after each answer the chat's memory waits on the host",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.park_after_generation, t); },
       {kBlock, "", false}},
      {"unload-after-generation",
       {},
       "",
       Group::Memory,
       "after each answer the weights leave the device; the next one brings them back",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.unload_after_generation, t); },
       {kBlock, "", false}},
      {"sleep-idle-seconds",
       {"--idle-unload"},
       "S",
       Group::Memory,
       "weights leave the device after S seconds without work; 0 = they stay (0)",
       kOpens,
       true,
       false,
       set_idle_unload,
       {kBlock, "idle_unload", false}},
      {"auto-gc",
       {},
       "",
       Group::Memory,
       "look at memory in the background (on; --auto-gc=false)",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.memory.auto_gc, t); },
       {kBlock, "", false}},
      {"gc-threshold",
       {},
       "X",
       Group::Memory,
       "share of the limit, or of the device, at which that look acts (0.8)",
       kOpens,
       true,
       false,
       [](O& o, Text t) -> Status {
         EBB_TRY_ASSIGN(o.engine.memory.gc_threshold, parse_share(t));
         return {};
       },
       {kBlock, "", false}},
      {"gc-interval",
       {},
       "S",
       Group::Memory,
       "seconds between looks (300)",
       kOpens,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.memory.gc_interval_s, t, 1, kMaxSeconds); },
       {kBlock, "", false}},
  };
}

}  // namespace ebb::cli
