// Never the same point twice, whatever the driver proposes.
//
// What was evaluated is told to the driver at once from memory, which costs nothing of the budget; where a driver keeps
// coming back to known points, or finds no allowed one to begin with, unseen ones are drawn in their place; where none
// is left, the search ends.
#pragma once

#include <map>
#include <set>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

class UniqueDriver final : public Driver {
 public:
  UniqueDriver(std::unique_ptr<Driver> inner, const Space& space, sim::RandomStream random);
  std::vector<Proposal> ask(std::size_t most) override;
  bool whole_batches() const override { return inner_->whole_batches(); }
  bool can_ask(std::span<const Proposal> out) override;
  /// Results of points that ask() gave, or of points that nobody asked for.
  void tell(std::span<const Trial> trials) override;
  std::vector<std::pair<std::string, double>> statistics() const override { return inner_->statistics(); }
  std::size_t distinct() const { return known_.size(); }

 private:
  using Key = std::pair<std::string, double>;
  Key key(const Proposal& proposal) const;
  struct Asked {
    Proposal proposal;
    Key key;
  };
  std::vector<Proposal> first_points(std::size_t most);
  std::vector<Proposal> fresh_of(std::vector<Proposal> batch, bool replace);
  std::optional<Proposal> unseen(double fidelity);
  bool seen(const Key& key) const { return known_.contains(key) || out_.contains(key); }
  void ask_for(Proposal proposal, std::vector<Proposal>& fresh);

  std::unique_ptr<Driver> inner_;
  const Space& space_;
  sim::RandomStream random_;
  std::map<Key, Evaluation> known_;
  std::vector<Asked> asked_;     ///< by the inner driver, and not told to it: what is out, known points between
  std::set<Key> out_;            ///< points that wait for their results
  std::uint64_t next_grid_ = 0;  ///< where the walk for an unseen point goes on
  std::set<double> exhausted_;   ///< fidelities at which a walk found none
  bool proposed_ = false;        ///< the inner driver found a point by itself
};

}  // namespace orrery::experiments::search
