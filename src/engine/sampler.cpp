#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "base/check.h"

namespace ebb::engine {

namespace {

// 256 floats are 1 KiB: 1,024 blocks for Gemma's vocabulary, so that the k-th largest block maximum is cheap to find.
constexpr std::size_t kBlockLogits = 256;
constexpr double kBinsPerNat = 16;
constexpr std::size_t kWeightBins = 1024;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr std::int32_t kMagnitudeBits = 0x7fffffff;
constexpr std::int32_t kInfinityBits = 0x7f800000;

// Signed integers in the order of the floats they come from. Integer maxima vectorise where float maxima, which must
// care for NaN and signed zeros, do not.
std::int32_t order_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ ((bits >> 31) & kMagnitudeBits);
}
float from_order_key(std::int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & kMagnitudeBits)); }

struct BlockScan {
  std::int32_t max_key;
  std::int32_t nan_count;
};
BlockScan scan_block(const float* logits, std::size_t count) {
  std::int32_t max_key = std::numeric_limits<std::int32_t>::min();
  std::int32_t nan_count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    max_key = std::max(max_key, order_key(logits[i]));
    nan_count += (std::bit_cast<std::int32_t>(logits[i]) & kMagnitudeBits) > kInfinityBits ? 1 : 0;
  }
  return {max_key, nan_count};
}

Status check_range(const char* name, float value, float lowest, float highest) {
  if (value >= lowest && value <= highest) return {};
  return fail(ErrorCode::InvalidArgument,
              fmt::format("{} {} is out of range; use {} to {}", name, value, lowest, highest));
}
Status check_finite(const char* name, float value) {
  if (std::isfinite(value)) return {};
  return fail(ErrorCode::InvalidArgument, fmt::format("{} {} is not a finite number", name, value));
}

std::uint64_t choose_seed(const std::optional<std::uint64_t>& wanted) {
  if (wanted) return *wanted;
  return std::random_device{}();
}

}  // namespace

Status validate_sampling(const SamplingOptions& options) {
  EBB_TRY(check_finite("temperature", options.temperature));
  if (options.temperature < 0) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("temperature {} is negative; use 0 (always the likeliest token) or more", options.temperature));
  }
  if (options.top_k < 0) {
    return fail(ErrorCode::InvalidArgument, fmt::format("top_k {} is negative; use 0 (off) or more", options.top_k));
  }
  EBB_TRY(check_range("top_p", options.top_p, 0, 1));
  EBB_TRY(check_range("min_p", options.min_p, 0, 1));
  EBB_TRY(check_finite("repeat_penalty", options.repeat_penalty));
  if (options.repeat_penalty <= 0) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("repeat_penalty {} is out of range; use 1 (off) or another number above 0",
                            options.repeat_penalty));
  }
  EBB_TRY(check_finite("presence_penalty", options.presence_penalty));
  EBB_TRY(check_finite("frequency_penalty", options.frequency_penalty));
  if (options.repeat_last_n < -1) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("repeat_last_n {} is out of range; use -1 (all tokens), 0 (off) or more", options.repeat_last_n));
  }
  return {};
}

bool Sampler::better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

Result<Sampler> Sampler::create(const SamplingOptions& options, std::size_t vocabulary,
                                std::span<const TokenId> forbidden) {
  EBB_TRY(validate_sampling(options));
  EBB_CHECK(vocabulary > 0, "vocabulary {}", vocabulary);
  return Sampler(options, vocabulary, forbidden);
}

Sampler::Sampler(const SamplingOptions& options, std::size_t vocabulary, std::span<const TokenId> forbidden)
    : options_(options),
      vocabulary_(vocabulary),
      seed_(choose_seed(options.seed)),
      random_(seed_),
      marks_(vocabulary, Mark::Free),
      block_max_((vocabulary + kBlockLogits - 1) / kBlockLogits) {
  for (const TokenId id : forbidden) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_ || marks_[id] == Mark::Forbidden) continue;
    marks_[id] = Mark::Forbidden;
    ++forbidden_count_;
  }
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  EBB_CHECK(logits.size() >= vocabulary_, "{} logits, vocabulary {}", logits.size(), vocabulary_);
  logits = logits.first(vocabulary_);
  EBB_TRY(scan_blocks(logits));
  apply_penalties(logits, history);

  const bool greedy = options_.temperature == 0;
  if (greedy) {
    collect_best(logits, 1);
  } else if (options_.top_k > 0) {
    collect_best(logits, static_cast<std::size_t>(options_.top_k));
    keep_top_p(total_weight());
    keep_min_p();
  } else {
    keep_top_p(collect_likely(logits));
    keep_min_p();
  }
  clear_penalties();

  if (candidates_.empty()) {
    return fail(ErrorCode::Unsupported,
                "no token can follow: every logit is -inf or belongs to a token that must not be generated");
  }
  return greedy ? candidates_.front().id : draw();
}

Status Sampler::scan_blocks(std::span<const float> logits) {
  std::int32_t nan_count = 0;
  std::int32_t max_key = std::numeric_limits<std::int32_t>::min();
  for (std::size_t block_idx = 0; block_idx < block_max_.size(); ++block_idx) {
    const std::size_t begin = block_idx * kBlockLogits;
    const BlockScan scan = scan_block(logits.data() + begin, std::min(kBlockLogits, vocabulary_ - begin));
    block_max_[block_idx] = from_order_key(scan.max_key);
    nan_count += scan.nan_count;
    max_key = std::max(max_key, scan.max_key);
  }
  if (nan_count != 0 || max_key >= kInfinityBits) {
    return fail(ErrorCode::Unsupported, fmt::format("the model computed {} logits that are not numbers; the file is "
                                                    "damaged, or its values overflow this arithmetic "
                                                    "(try --exact)",
                                                    nan_count != 0 ? nan_count : 1));
  }
  return {};
}

void Sampler::apply_penalties(std::span<const float> logits, std::span<const TokenId> history) {
  if (options_.repeat_penalty == 1.0F && options_.presence_penalty == 0.0F && options_.frequency_penalty == 0.0F)
    return;
  if (options_.repeat_last_n >= 0) {
    history = history.last(std::min(history.size(), static_cast<std::size_t>(options_.repeat_last_n)));
  }
  std::vector<TokenId> seen(history.begin(), history.end());
  std::sort(seen.begin(), seen.end());
  for (auto run = seen.begin(); run != seen.end();) {
    const TokenId id = *run;
    const auto run_end = std::upper_bound(run, seen.end(), id);
    const auto count = static_cast<float>(run_end - run);
    run = run_end;
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_ || marks_[id] == Mark::Forbidden) continue;
    float logit = logits[id];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= options_.presence_penalty + count * options_.frequency_penalty;
    // Penalties of 1e38 overflow; the largest finite value keeps the order and the softmax defined.
    logit = std::isnan(logit) ? kMinusInfinity : std::min(logit, std::numeric_limits<float>::max());
    marks_[id] = Mark::Penalised;
    penalised_.push_back({id, logit});
  }
}

void Sampler::clear_penalties() {
  for (const Candidate& candidate : penalised_) marks_[candidate.id] = Mark::Free;
  penalised_.clear();
}

// The k-th largest block maximum bounds the k-th largest logit from below, because k blocks hold one at least as large.
// Marked ids may own maxima, so the rank counts them too. Only blocks that reach the bound are looked at again.
void Sampler::collect_best(std::span<const float> logits, std::size_t count) {
  float bound = kMinusInfinity;
  const std::size_t rank = count + forbidden_count_ + penalised_.size();
  if (rank <= block_max_.size()) {
    block_order_ = block_max_;
    const auto nth = block_order_.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(block_order_.begin(), nth, block_order_.end(), std::greater<>());
    bound = *nth;
  }
  collect_above(logits, bound);
  if (candidates_.size() > count) {
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(candidates_.begin(), end, candidates_.end(), better);
    candidates_.resize(count);
  }
  std::sort(candidates_.begin(), candidates_.end(), better);
}

// Every allowed token whose logit reaches `bound`, and every penalised one.
void Sampler::collect_above(std::span<const float> logits, float bound) {
  candidates_.clear();
  for (const Candidate& candidate : penalised_) {
    if (candidate.logit > kMinusInfinity) candidates_.push_back(candidate);
  }
  for (std::size_t block_idx = 0; block_idx < block_max_.size(); ++block_idx) {
    if (block_max_[block_idx] < bound) continue;
    const std::size_t end = std::min(vocabulary_, (block_idx + 1) * kBlockLogits);
    for (std::size_t id = block_idx * kBlockLogits; id < end; ++id) {
      if (logits[id] >= bound && logits[id] > kMinusInfinity && marks_[id] == Mark::Free) {
        candidates_.push_back({static_cast<TokenId>(id), logits[id]});
      }
    }
  }
}

// Without top_k: the tokens that top_p can keep, best first, found through a histogram of the weights, since sorting
// the whole vocabulary would take longer than the model does. Returns the weight of all tokens, kept or not.
double Sampler::collect_likely(std::span<const float> logits) {
  collect_best(logits, 1);
  if (candidates_.empty()) return 0;
  if (options_.top_p >= 1.0F) {
    collect_above(logits, kMinusInfinity);
    if (options_.min_p > 0.0F) std::sort(candidates_.begin(), candidates_.end(), better);
    return 0;
  }
  const double best = candidates_.front().logit;
  std::array<double, kWeightBins> weight_of_bin{};
  double total = 0;
  const auto count = [&](float logit) {
    const double below = best - logit;
    if (below >= kWeightBins / kBinsPerNat) return;  // e^-64 of the likeliest: nothing beside rounding
    const double weight = std::exp(-below);
    weight_of_bin[static_cast<std::size_t>(below * kBinsPerNat)] += weight;
    total += weight;
  };
  for (std::size_t id = 0; id < vocabulary_; ++id) {
    if (marks_[id] == Mark::Free) count(logits[id]);
  }
  for (const Candidate& candidate : penalised_) count(candidate.logit);

  double sum = 0;
  std::size_t bins = 0;
  while (bins < kWeightBins && sum < options_.top_p * total) sum += weight_of_bin[bins++];
  // One bin more than needed: sums in another order may differ in their last digits.
  collect_above(logits, static_cast<float>(best - static_cast<double>(bins + 1) / kBinsPerNat));
  std::sort(candidates_.begin(), candidates_.end(), better);
  return total;
}

double Sampler::total_weight() const {
  double total = 0;
  for (const Candidate& candidate : candidates_) {
    total += std::exp(static_cast<double>(candidate.logit) - candidates_.front().logit);
  }
  return total;
}

void Sampler::keep_top_p(double total) {
  if (options_.top_p >= 1.0F) return;
  double sum = 0;
  for (std::size_t kept = 0; kept < candidates_.size(); ++kept) {
    sum += std::exp(static_cast<double>(candidates_[kept].logit) - candidates_.front().logit);
    if (sum >= options_.top_p * total) {
      candidates_.resize(kept + 1);
      return;
    }
  }
}

void Sampler::keep_min_p() {
  if (options_.min_p <= 0.0F || candidates_.empty()) return;
  const double least = candidates_.front().logit + std::log(static_cast<double>(options_.min_p));
  while (candidates_.back().logit < least) candidates_.pop_back();
}

TokenId Sampler::draw() {
  const double best =
      std::ranges::max(candidates_, {}, &Candidate::logit).logit;  // not sorted when every token may follow
  const double temperature = options_.temperature;
  weights_.clear();
  double total = 0;
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(std::exp((candidate.logit - best) / temperature));
    total += weights_.back();
  }
  double left = uniform() * total;
  for (std::size_t i = 0; i + 1 < candidates_.size(); ++i) {
    left -= weights_[i];
    if (left < 0) return candidates_[i].id;
  }
  return candidates_.back().id;
}

// [0, 1) from the top 53 bits; std::uniform_real_distribution differs between standard libraries.
double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

LogProbs log_probs(std::span<const float> logits, TokenId chosen, std::size_t top_count) {
  EBB_CHECK(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size(), "id {} of {}", chosen, logits.size());
  const double best = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - best);
  const double log_total = best + std::log(total);

  std::vector<TokenId> order(logits.size());
  for (std::size_t id = 0; id < order.size(); ++id) order[id] = static_cast<TokenId>(id);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(top_count, order.size()));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](TokenId a, TokenId b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });

  LogProbs result;
  result.chosen = {chosen, logits[chosen] - log_total};
  for (auto id = order.begin(); id != end; ++id) result.top.push_back({*id, logits[*id] - log_total});
  return result;
}

}  // namespace ebb::engine
