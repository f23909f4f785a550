// Speculation: how many tokens are proposed for the decodes of an iteration, who proposes them, how many are kept.
//
// A speculator proposes for every decode that has no item of its own; the replica verifies all proposals of an
// iteration together (1 + drafts tokens a sequence), asks how many survive, and each sequence goes on by its own number
// of tokens (ragged). What drafting costs belongs to the iteration model: the replica says in the shape how many draft
// steps there are.
//
// Tokens of a step under independent acceptance a and g drafts: E = (1 - a^(g+1)) / (1 - a) (Leviathan et al. 2023).
//
// Contract
//  - length() depends on the numbers it is given alone, so that iterations without drafts can be leapt over.
//  - Draws depend on the run's seed, the sequence's order and how many tokens it has, not on who else is in the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/base/types.hpp"
#include "policies/speculation/acceptance.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What the models of a replica say about a step, in ps. For choosing a length; asked for the same numbers again.
class StepPrices {
 public:
  virtual ~StepPrices() = default;
  /// An iteration of `sequences` decodes, each of `tokens` new tokens on a context of `context`.
  virtual std::int64_t verify_ps(std::int64_t sequences, std::int64_t tokens, std::int64_t context) const = 0;
  /// Drafting `drafts` tokens for each of them.
  virtual std::int64_t draft_ps(std::int64_t sequences, std::int64_t drafts, std::int64_t context) const = 0;
};

/// Who drafts, as far as memory and time go.
enum class Drafter : std::uint8_t {
  none,   ///< costs nothing (n-gram lookup)
  model,  ///< a model of its own, named by the parameter `model`
  layers  ///< layers of the target beside those it has: multi-token prediction
};

class Speculator : public Acceptance {
 public:
  virtual Drafter drafter() const = 0;
  /// Of Drafter::layers.
  virtual std::int64_t draft_layers() const { return 0; }
  /// Most tokens proposed for each of `decodes` sequences beside `prompt_tokens` of prompts; 0: none.
  virtual std::int64_t length(std::int64_t decodes, std::int64_t prompt_tokens) = 0;
  /// Of `most`, how many are proposed for this sequence, which has emitted `generated` tokens.
  virtual std::int64_t drafts(const Sequence&, std::int64_t /*generated*/, std::int64_t most) { return most; }
};

/// Made with prices of the models and a seed.
using SpeculationRegistry = sim::Registry<Speculator, const StepPrices&, std::uint64_t>;

/// Adds none, draft_model, n_gram, mtp (register.cpp: one line a policy).
void register_speculation(SpeculationRegistry& registry);

/// (1 - a^(g+1)) / (1 - a): tokens a step emits on average with `drafts` proposals, each kept with probability `rate`
/// if all before it are.
double tokens_a_step(double rate, std::int64_t drafts);

}  // namespace orrery::policies
