// The search for an expression: generations of candidates from a source, each evaluated once, the best kept.
//
// Where candidates come from is a Source: genetic programming here (genetic_source), or a program of the user's
// (process_source.hpp). The loop is the same: read and bound what was proposed, drop what is known (expressions that
// simplify alike are one), run the rest, tell the source. Results do not depend on the number of threads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/evolve/evaluator.hpp"

namespace orrery::experiments::evolve {

/// Where an expression came from.
struct Descent {
  const char* how = "proposed";      ///< "start", "random", "crossover", "subtree", "point", "constant", "elite"
  std::vector<std::size_t> parents;  ///< entries of the archive
  std::int64_t island = 0;
};

/// A text that a source puts forward.
struct Proposal {
  std::string text;
  Descent from = {};
};

/// An expression that was evaluated, in its simplified form.
struct Candidate {
  std::string text;
  Tree tree;
  std::int64_t generation = 0;
  Descent from = {};
  std::optional<double> fitness;  ///< less is better
  double violation = 0;           ///< how far beyond the bounds; less is better, before fitness
  Figures figures;                ///< at the training scenarios that it came to
  std::string why;                ///< why it has no fitness
};

/// Whether a is better than b: less beyond the bounds, then by fitness, then by size; what has no fitness is worst.
bool better(const Candidate& a, const Candidate& b);

/// Distinct candidates in the order of their evaluation.
class Archive {
 public:
  std::optional<std::size_t> find(const std::string& text) const;
  std::size_t add(Candidate candidate);
  const Candidate& operator[](std::size_t index) const { return all_[index]; }
  std::size_t size() const { return all_.size(); }
  /// The best (better()), the first of equals. Nothing if none has a fitness.
  std::optional<std::size_t> best() const { return best_; }
  bool better(std::size_t a, std::size_t b) const;

 private:
  std::vector<Candidate> all_;
  std::map<std::string, std::size_t> index_;
  std::optional<std::size_t> best_;
};

/// What became of a proposal.
struct Verdict {
  std::string text;                  ///< as proposed
  std::optional<std::size_t> entry;  ///< in the archive
  Refusal refusal;                   ///< if it has none
  bool fresh = false;                ///< evaluated now
};

class Source {
 public:
  virtual ~Source() = default;
  /// Candidates of a generation (from 0); none is no fault.
  virtual std::vector<Proposal> propose(std::int64_t generation, const Archive& archive) = 0;
  virtual void told(std::span<const Verdict> verdicts, const Archive& archive) = 0;
  /// Whether nothing more will come.
  virtual bool ended() const { return false; }
  /// What went wrong with it, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Genetic programming. Borrows the study.
std::unique_ptr<Source> genetic_source(const EvolveStudy& study);

struct GenerationRow {
  std::int64_t proposed = 0, fresh = 0, known = 0, refused = 0;
  std::optional<double> best, median;  ///< figure of the best so far, and the median of this generation
  double best_violation = 0;
  std::size_t best_nodes = 0;
};

/// Something at the training and at the held-out scenarios.
struct Comparison {
  std::string name;
  Figures training, held_out;
};

struct EvolveResult {
  Archive archive;
  std::vector<GenerationRow> generations;
  std::int64_t faulty = 0, too_large = 0, forbidden = 0;  ///< refused proposals by kind
  std::vector<Comparison> baselines;
  std::optional<Comparison> best;    ///< of the archive
  std::vector<std::size_t> lineage;  ///< of the best: itself, its first parent, that one's, …
  std::vector<std::string> notes;
  std::int64_t runs = 0;
};

struct EvolveOptions {
  std::size_t jobs = 1;
  std::function<void(std::int64_t generation, std::int64_t runs)> progress;  ///< may be empty
  std::function<bool()> stop = {};                                           ///< asked by any thread; may be empty
};

/// Throws sim::ConfigError for faults of the base and the baselines, Stopped.
EvolveResult evolve(const Systems& systems, const EvolveStudy& study, Source& source, const EvolveOptions& options);

/// Quantile of values, linear between ranks; nothing without any.
std::optional<double> quantile(std::vector<double> values, double q);

}  // namespace orrery::experiments::evolve
