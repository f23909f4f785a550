// What drivers that move from point to point share: neighbours, mutants and crossings that are allowed, and which
// proposal a result answers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// The canonical point of `raw`; parameters that count there and had no value draw one.
Point completed(const Space& space, Point raw, sim::RandomStream& random);

/// An allowed point that differs from `from` in one parameter that counts there (Space::step of `width`), and in those
/// that come to count by it. Nothing if `tries` draws find none.
std::optional<Point> neighbour(const Space& space, const Point& from, double width, sim::RandomStream& random,
                               int tries = 200);

/// Changes each parameter that counts with probability `rate`, and at least one, by Space::step. The width of a step
/// is `width` times a number between 1/64 and 1, uniform by its logarithm, so that coarse and fine moves both come
/// (Mühlenbein and Schlierkamp-Voosen 1993). Not checked against constraints.
Point mutated(const Space& space, const Point& from, double rate, double width, sim::RandomStream& random);

/// Each parameter from one parent or the other; what counts in the child takes its value from a parent where it
/// counts, or is drawn. Not checked against constraints.
Point crossed(const Space& space, const Point& a, const Point& b, sim::RandomStream& random);

/// Whether some parameter can move by ever smaller steps (a real, or a long range of integers).
bool has_fine_steps(const Space& space);
/// The same for one parameter.
bool is_fine(const Parameter& parameter);

/// For each result the index of the proposal that it answers, nothing for a point that was not asked for. Results come
/// in the order of proposals; some may be missing.
std::vector<std::optional<std::size_t>> answered(const Space& space, std::span<const Proposal> asked,
                                                 std::span<const Trial> told);

}  // namespace orrery::experiments::search
