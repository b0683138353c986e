// Picks the next token from the model's logits: penalties, top_k, top_p, min_p, temperature, then one random draw.
// Refuses logits that are not numbers (T6) and never picks a forbidden id (image markers, padding, rows past the
// vocabulary). Called by conversation.cpp once a token, so the usual case looks at each logit once and at few of them
// twice. Invariant: same options, seed and logits give the same token with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/options.h"

namespace ebb::engine {

using TokenId = std::int32_t;

/// Errors   InvalidArgument naming the option, its value and the range allowed.
[[nodiscard]] Status validate_sampling(const SamplingOptions& options);

class Sampler {
 public:
  /// `vocabulary` ids may be picked, except `forbidden`. Ids of `forbidden` out of range (-1 = "none") are ignored.
  /// Errors   as validate_sampling.
  [[nodiscard]] static Result<Sampler> create(const SamplingOptions& options, std::size_t vocabulary,
                                              std::span<const TokenId> forbidden);

  /// Shape    logits [at least vocabulary] f32; rows past the vocabulary are not looked at.
  ///          history: all tokens so far, oldest first; the penalties see the last `repeat_last_n` of them.
  /// Errors   Unsupported when a logit is NaN or +inf, or nothing is left to pick.
  [[nodiscard]] Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> history);

  /// The seed in use: the one asked for, or a fresh one below 2^32 (exact in every JSON reader).
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    TokenId id;
    float logit;
  };
  enum class Mark : std::uint8_t { Free, Forbidden, Penalised };

  Sampler(const SamplingOptions& options, std::size_t vocabulary, std::span<const TokenId> forbidden);

  static bool better(const Candidate& a, const Candidate& b);
  Status scan_blocks(std::span<const float> logits);
  void apply_penalties(std::span<const float> logits, std::span<const TokenId> history);
  void clear_penalties();
  void collect_best(std::span<const float> logits, std::size_t count);
  void collect_above(std::span<const float> logits, float bound);
  double collect_likely(std::span<const float> logits);
  [[nodiscard]] double total_weight() const;
  void keep_top_p(double total);
  void keep_min_p();
  TokenId draw();
  double uniform();

  SamplingOptions options_;
  std::size_t vocabulary_;
  std::size_t forbidden_count_ = 0;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<Mark> marks_;            // [vocabulary]
  std::vector<Candidate> penalised_;   // with their adjusted logits
  std::vector<float> block_max_;       // largest logit of each block, marked ids included
  std::vector<float> block_order_;     // scratch for finding a threshold
  std::vector<Candidate> candidates_;  // best first once collected
  std::vector<double> weights_;        // scratch of draw()
};

struct IdLogProb {
  TokenId id = 0;
  double log_prob = 0;
};
struct LogProbs {
  IdLogProb chosen;
  std::vector<IdLogProb> top;  // best first, lower id first among equals
};

/// Natural log-probabilities of the model's own softmax over `logits`, in double, before any sampling option.
/// Shape    logits [vocabulary] f32; pass no padded rows. `chosen` is an index into them.
[[nodiscard]] LogProbs log_probs(std::span<const float> logits, TokenId chosen, std::size_t top_count);

}  // namespace ebb::engine
