// Genetic programming over expressions (Koza 1992): ramped half-and-half at the start, then tournaments, an elite,
// crossover and three mutations. Of two whose fitness is close the smaller wins (lexicographic parsimony with buckets,
// Luke and Panait 2002). Every child draws from a stream of its own, named by generation and place.
//
// Islands breed each by itself; every few generations the best of each join the next (a ring). Parents are the last
// generation, or the best of every niche that was ever seen on the island (MAP-Elites, Mouret and Clune 2015).
#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/evolve/evolution.hpp"

namespace orrery::experiments::evolve {

namespace {

constexpr int kNewTries = 8;            // draws for a child that is not known yet
constexpr std::size_t kNicheNodes = 4;  // expressions of so many lengths share a niche

/// What expressions of a niche have in common: which names they use, and about how long they are.
using Niche = std::pair<std::vector<std::uint32_t>, std::size_t>;

Niche niche_of(const Tree& tree) {
  std::vector<std::uint32_t> names;
  for (const TreeNode& node : tree)
    if (node.kind == TreeNode::Kind::name) names.push_back(node.index);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return {std::move(names), tree.size() / kNicheNodes};
}

class Island {
 public:
  explicit Island(const EvolveStudy& study) : study_(study) {}

  bool empty() const { return population_.empty(); }
  std::span<const std::size_t> population() const { return population_; }
  /// The next generation begins.
  void clear() { population_.clear(); }
  /// An entry of the archive that was proposed here, or comes from elsewhere.
  void join(std::size_t entry, const Archive& archive) {
    population_.push_back(entry);
    if (!archive[entry].fitness) return;
    const auto [niche, is_new] = niches_.emplace(niche_of(archive[entry].tree), entry);
    if (!is_new && archive.better(entry, niche->second)) niche->second = entry;
  }

  /// The best of the population, each once.
  std::vector<std::size_t> best(const Archive& archive, std::int64_t count) const {
    std::vector<std::size_t> all = population_;
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::ranges::stable_sort(all, [&](std::size_t a, std::size_t b) { return archive.better(a, b); });
    all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
    return all;
  }

  std::size_t parent(const Archive& archive, sim::RandomStream& random) const {
    if (study_.genetic.parents == Parents::niches && !niches_.empty())
      return std::next(niches_.begin(), static_cast<std::ptrdiff_t>(random.below(niches_.size())))->second;
    std::size_t best = population_[random.below(population_.size())];
    for (std::int64_t i = 1; i < study_.genetic.tournament; ++i) {
      const std::size_t other = population_[random.below(population_.size())];
      if (wins(archive, other, best)) best = other;
    }
    return best;
  }

 private:
  bool wins(const Archive& archive, std::size_t a, std::size_t b) const {
    const Candidate &x = archive[a], &y = archive[b];
    if (x.fitness && y.fitness && x.violation == y.violation) {
      const double close = study_.genetic.parsimony * std::max(std::abs(*x.fitness), std::abs(*y.fitness));
      if (std::abs(*x.fitness - *y.fitness) <= close && x.tree.size() != y.tree.size())
        return x.tree.size() < y.tree.size();
    }
    return archive.better(a, b);
  }

  const EvolveStudy& study_;
  std::vector<std::size_t> population_;  ///< entries of the archive
  std::map<Niche, std::size_t> niches_;  ///< the best of each
};

class GeneticSource final : public Source {
 public:
  explicit GeneticSource(const EvolveStudy& study)
      : study_(study),
        stream_(static_cast<std::uint64_t>(study.search.seed), "evolve"),
        islands_(static_cast<std::size_t>(study.genetic.islands), Island(study)) {}

  std::vector<Proposal> propose(std::int64_t generation, const Archive& archive) override {
    const sim::RandomStream stream = stream_.child(static_cast<std::uint64_t>(generation));
    const auto wanted = static_cast<std::size_t>(study_.genetic.population), count = islands_.size();
    std::vector<Proposal> all;
    for (std::size_t k = 0; k < count; ++k) {
      const Island& island = islands_[k];
      const std::size_t end = wanted * (k + 1) / count;
      if (generation == 0) {
        for (std::size_t i = k; i < study_.starts.size() && all.size() < end; i += count)
          all.push_back({study_.starts[i], {"start", {}, static_cast<std::int64_t>(k)}});
      } else {
        for (const std::size_t one : island.best(archive, study_.genetic.elite))
          all.push_back({archive[one].text, {"elite", {one}, static_cast<std::int64_t>(k)}});
      }
      while (all.size() < end) {
        sim::RandomStream random = stream.child(all.size());
        all.push_back(fresh(island, all.size(), archive, random));
        all.back().from.island = static_cast<std::int64_t>(k);
      }
      ends_.resize(count);
      ends_[k] = end;
    }
    return all;
  }

  void told(std::span<const Verdict> verdicts, const Archive& archive) override {
    std::size_t at = 0;
    for (std::size_t k = 0; k < islands_.size(); ++k) {
      islands_[k].clear();
      for (; at < ends_[k]; ++at)
        if (verdicts[at].entry) islands_[k].join(*verdicts[at].entry, archive);
    }
    if (++generations_ % study_.genetic.migrate_every != 0 || islands_.size() < 2) return;
    std::vector<std::vector<std::size_t>> leaving;
    for (const Island& one : islands_) leaving.push_back(one.best(archive, study_.genetic.migrants));
    for (std::size_t k = 0; k < islands_.size(); ++k)
      for (const std::size_t entry : leaving[k]) islands_[(k + 1) % islands_.size()].join(entry, archive);
  }

 private:
  /// A text that is not known yet, if a few draws find one.
  Proposal fresh(const Island& island, std::size_t place, const Archive& archive, sim::RandomStream& random) const {
    Proposal one;
    for (int tries = 0; tries < kNewTries; ++tries) {
      Descent from;
      const Tree tree = island.empty() ? first(place, random, from) : child(island, archive, random, from);
      one = {text_of(tree, study_.names), std::move(from)};
      Refusal none;
      const auto read = read_candidate(study_, one.text, none);
      if (read && !archive.find(text_of(simplified(*read), study_.names))) break;
    }
    return one;
  }

  /// Depths and shapes take turns.
  Tree first(std::size_t index, sim::RandomStream& random, Descent& from) const {
    from.how = "random";
    const std::size_t depths = std::max<std::size_t>(1, std::min<std::size_t>(study_.material.most_depth, 5) - 1);
    return random_tree(study_.material, Type::number, 2 + index / 2 % depths, index % 2 == 0, random);
  }

  Tree child(const Island& island, const Archive& archive, sim::RandomStream& random, Descent& from) const {
    const GeneticParams& g = study_.genetic;
    const Material& material = study_.material;
    double which = random.uniform();
    const std::size_t parent = island.parent(archive, random);
    const Tree& tree = archive[parent].tree;
    from.parents = {parent};
    if (which < g.crossover) {
      from = {"crossover", {parent, island.parent(archive, random)}};
      return crossover(material, tree, archive[from.parents[1]].tree, random);
    }
    which -= g.crossover;
    from.how = "subtree";
    if (which < g.subtree) return mutate_subtree(material, tree, random);
    which -= g.subtree;
    from.how = "point";
    if (which < g.point) return mutate_point(material, tree, random);
    which -= g.point;
    from.how = "constant";
    if (which < g.constant) return mutate_constant(material, tree, random);
    from = {"random", {}};
    return random_tree(material, Type::number, 4, false, random);
  }

  const EvolveStudy& study_;
  sim::RandomStream stream_;
  std::vector<Island> islands_;
  std::vector<std::size_t> ends_;  ///< of each island's proposals in the generation
  std::int64_t generations_ = 0;
};

}  // namespace

std::unique_ptr<Source> genetic_source(const EvolveStudy& study) {
  return std::make_unique<GeneticSource>(study);
}

}  // namespace orrery::experiments::evolve
