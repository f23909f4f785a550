// Genetic programming over expressions (Koza 1992): ramped half-and-half at the start, then tournaments, an elite,
// crossover and three mutations. Of two whose fitness is close the smaller wins (lexicographic parsimony with buckets,
// Luke and Panait 2002). Every child draws from a stream of its own, named by generation and place.
#include <algorithm>
#include <cmath>

#include "experiments/evolve/evolution.hpp"

namespace orrery::experiments::evolve {

namespace {

constexpr int kNewTries = 8;  // draws for a child that is not known yet

class GeneticSource final : public Source {
 public:
  explicit GeneticSource(const EvolveStudy& study)
      : study_(study), stream_(static_cast<std::uint64_t>(study.search.seed), "evolve") {}

  std::vector<std::string> propose(std::int64_t generation, const Archive& archive) override {
    const sim::RandomStream stream = stream_.child(static_cast<std::uint64_t>(generation));
    std::vector<std::string> texts;
    const auto wanted = static_cast<std::size_t>(study_.genetic.population);
    if (population_.empty()) {
      texts = study_.starts;
      texts.resize(std::min(texts.size(), wanted));
    } else {
      for (const std::size_t one : elite(archive)) texts.push_back(archive[one].text);
    }
    for (std::size_t i = texts.size(); i < wanted; ++i) {
      sim::RandomStream random = stream.child(i);
      std::string text;
      for (int tries = 0; tries < kNewTries; ++tries) {
        text = text_of(population_.empty() ? first(i, random) : child(archive, random), study_.names);
        Refusal none;
        const auto tree = read_candidate(study_, text, none);
        if (tree && !archive.find(text_of(simplified(*tree), study_.names))) break;
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }

  void told(std::span<const Verdict> verdicts, const Archive&) override {
    population_.clear();
    for (const Verdict& one : verdicts)
      if (one.entry) population_.push_back(*one.entry);
  }

 private:
  /// Depths and shapes take turns.
  Tree first(std::size_t index, sim::RandomStream& random) const {
    const std::size_t depths = std::max<std::size_t>(1, std::min<std::size_t>(study_.material.most_depth, 5) - 1);
    return random_tree(study_.material, Type::number, 2 + index / 2 % depths, index % 2 == 0, random);
  }

  std::vector<std::size_t> elite(const Archive& archive) const {
    std::vector<std::size_t> all = population_;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return archive.better(a, b); });
    all.resize(std::min(all.size(), static_cast<std::size_t>(study_.genetic.elite)));
    return all;
  }

  bool wins(const Archive& archive, std::size_t a, std::size_t b) const {
    const Candidate &x = archive[a], &y = archive[b];
    if (x.fitness && y.fitness) {
      const double close = study_.genetic.parsimony * std::max(std::abs(*x.fitness), std::abs(*y.fitness));
      if (std::abs(*x.fitness - *y.fitness) <= close && x.tree.size() != y.tree.size())
        return x.tree.size() < y.tree.size();
    }
    return archive.better(a, b);
  }

  const Tree& parent(const Archive& archive, sim::RandomStream& random) const {
    std::size_t best = population_[random.below(population_.size())];
    for (std::int64_t i = 1; i < study_.genetic.tournament; ++i) {
      const std::size_t other = population_[random.below(population_.size())];
      if (wins(archive, other, best)) best = other;
    }
    return archive[best].tree;
  }

  Tree child(const Archive& archive, sim::RandomStream& random) const {
    const GeneticParams& g = study_.genetic;
    const Material& material = study_.material;
    double which = random.uniform();
    const Tree& tree = parent(archive, random);
    if (which < g.crossover) return crossover(material, tree, parent(archive, random), random);
    which -= g.crossover;
    if (which < g.subtree) return mutate_subtree(material, tree, random);
    which -= g.subtree;
    if (which < g.point) return mutate_point(material, tree, random);
    which -= g.point;
    if (which < g.constant) return mutate_constant(material, tree, random);
    return random_tree(material, Type::number, 4, false, random);
  }

  const EvolveStudy& study_;
  sim::RandomStream stream_;
  std::vector<std::size_t> population_;  ///< entries of the archive
};

}  // namespace

std::unique_ptr<Source> genetic_source(const EvolveStudy& study) {
  return std::make_unique<GeneticSource>(study);
}

}  // namespace orrery::experiments::evolve
