#include "experiments/search/moves.hpp"

#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kFinest = 64;  ///< the widest step of a mutation over its finest

}  // namespace

Point completed(const Space& space, Point raw, sim::RandomStream& random) {
  for (std::size_t i = 0; i < raw.size(); ++i)
    if (std::isnan(raw[i])) raw[i] = space.from_unit(i, random.uniform());
  return space.canonical(std::move(raw));
}

std::optional<Point> neighbour(const Space& space, const Point& from, double width, sim::RandomStream& random,
                               int tries) {
  for (int i = 0; i < tries; ++i) {
    const std::size_t p = random.below(space.size());
    if (std::isnan(from[p])) continue;
    Point next = from;
    next[p] = space.step(p, from[p], width, random);
    if (next[p] == from[p]) continue;
    next = completed(space, std::move(next), random);
    if (space.allowed(next)) return next;
  }
  return std::nullopt;
}

Point mutated(const Space& space, const Point& from, double rate, double width, sim::RandomStream& random) {
  Point next = from;
  const std::size_t always = random.below(space.size());
  for (std::size_t p = 0; p < next.size(); ++p) {
    if (std::isnan(from[p]) || (p != always && !random.bernoulli(rate))) continue;
    const double share = is_fine(space.parameters()[p]) ? sim::det_exp(-random.uniform() * sim::det_log(kFinest)) : 1;
    next[p] = space.step(p, from[p], width * share, random);
  }
  return completed(space, std::move(next), random);
}

Point crossed(const Space& space, const Point& a, const Point& b, sim::RandomStream& random) {
  Point child(a.size());
  for (std::size_t p = 0; p < child.size(); ++p) {
    const bool first = random.bernoulli(0.5);
    const double own = first ? a[p] : b[p], other = first ? b[p] : a[p];
    child[p] = std::isnan(own) ? other : own;
  }
  return completed(space, std::move(child), random);
}

bool is_fine(const Parameter& parameter) {
  if (parameter.has_choices()) return false;
  const auto levels = parameter.levels();
  return !levels || *levels > kLongRange;
}

bool has_fine_steps(const Space& space) {
  for (const Parameter& parameter : space.parameters())
    if (is_fine(parameter)) return true;
  return false;
}

std::vector<std::optional<std::size_t>> answered(const Space& space, std::span<const Proposal> asked,
                                                 std::span<const Trial> told) {
  std::vector<std::optional<std::size_t>> answers;
  std::size_t next = 0;
  for (const Trial& trial : told) {
    const std::string key = space.key(trial.proposal.point);
    std::size_t i = next;
    while (i < asked.size() && space.key(asked[i].point) != key) ++i;
    if (i < asked.size()) {
      answers.emplace_back(i);
      next = i + 1;
    } else {
      answers.emplace_back(std::nullopt);
    }
  }
  return answers;
}

}  // namespace orrery::experiments::search
