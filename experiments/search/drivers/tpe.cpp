// Tree-structured Parzen estimator: propose what is common among good points and rare among the others.
//
// Points told are divided into good ones (a share of them, the best by constraint domination; with several objectives
// by rank and crowding) and others. For each parameter the values of either group give a density: for numbers and
// ordinals a mixture of normals in the unit interval, each as wide as the gaps to its neighbours, and one as wide as
// the interval; for categories smoothed counts. Only points in which a parameter counts take part, so conditions need
// nothing more. Of `candidates` draws from the good densities that one is proposed whose ratio good / other is largest.
// In a batch, what was proposed counts among the others. Source: Bergstra et al. 2011 (NeurIPS), section 4; the several
// objectives: Ozaki et al. 2020 without its weights. Left out: densities of several parameters together.
#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/search/process/acquisition.hpp"
#include "experiments/search/driver.hpp"
#include "experiments/search/ranking.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct TpeParams {
  std::int64_t initial = 10;
  std::int64_t candidates = 24;
  double good = 0.15;
  std::int64_t most_good = 25;

  static constexpr auto fields() {
    using P = TpeParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("initial", &P::initial, Unit::count, sim::at_least(1),
                   "Random points before densities are estimated."),
        sim::field("candidates", &P::candidates, Unit::count, sim::at_least(1),
                   "Draws from which a proposal is chosen."),
        sim::field("good", &P::good, Unit::ratio, sim::between(0.01, 0.9), "Share of points that count as good."),
        sim::field("most_good", &P::most_good, Unit::count, sim::at_least(1), "Most points that count as good."),
    };
  }
};

/// Density of one parameter's values among some points.
class Density {
 public:
  Density(const Space& space, std::size_t parameter, const std::vector<const Point*>& points)
      : space_(space), parameter_(parameter) {
    const Parameter& p = space.parameters()[parameter];
    if (p.kind == ParameterKind::categorical) {
      shares_.assign(p.choices.size(), 1.0);  // one of each: nothing is impossible
      for (const Point* point : points)
        if (const double value = (*point)[parameter]; !std::isnan(value)) ++shares_[std::size_t(value)];
      double sum = 0;
      for (const double share : shares_) sum += share;
      for (double& share : shares_) share /= sum;
      return;
    }
    std::vector<double> middles;
    for (const Point* point : points)
      if (const double value = (*point)[parameter]; !std::isnan(value))
        middles.push_back(space.to_unit(parameter, value));
    std::sort(middles.begin(), middles.end());
    const double least = 1 / std::min(100.0, 2.0 + double(middles.size()));
    for (std::size_t i = 0; i < middles.size(); ++i) {
      const double left = i > 0 ? middles[i] - middles[i - 1] : middles[i];
      const double right = i + 1 < middles.size() ? middles[i + 1] - middles[i] : 1 - middles[i];
      add(middles[i], std::clamp(std::max(left, right), least, 1.0));
    }
    add(0.5, 1);
  }

  double draw(sim::RandomStream& random) const {
    if (!shares_.empty()) {
      double u = random.uniform();
      std::size_t i = 0;
      while (i + 1 < shares_.size() && u >= shares_[i]) u -= shares_[i++];
      return double(i);
    }
    const Part& part = parts_[random.below(parts_.size())];
    return space_.from_unit(parameter_, random.truncated_normal(part.middle, part.width, 0, 1));
  }

  double log_at(double value) const {
    if (!shares_.empty()) return sim::det_log(shares_[std::size_t(value)]);
    const double u = space_.to_unit(parameter_, value);
    double sum = 0;
    for (const Part& part : parts_) {
      const double z = (u - part.middle) / part.width;
      sum += part.scale * sim::det_exp(-0.5 * z * z);
    }
    return sim::det_log(sum / double(parts_.size()));
  }

 private:
  struct Part {
    double middle, width, scale;
  };
  void add(double middle, double width) {
    const double inside = normal_below((1 - middle) / width) - normal_below(-middle / width);
    parts_.push_back({middle, width, 1 / (width * inside)});
  }

  const Space& space_;
  std::size_t parameter_;
  std::vector<double> shares_;
  std::vector<Part> parts_;
};

class TpeDriver final : public StreamDriver {
 public:
  TpeDriver(const TpeParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {}

  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    const std::vector<std::size_t> order = ranked();
    while (batch.size() < most) {
      const std::size_t proposed = told_.size() + out_.size() + batch.size();
      const bool early = static_cast<std::int64_t>(proposed) < params_.initial || told_.size() < 2;
      auto point = early ? space_.sample(random_) : suggest(order, batch);
      if (!point) break;
      batch.push_back({*std::move(point)});
    }
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override {
    out_.assign(out.begin(), out.end());
    return true;
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials)
      if (trial.proposal.fidelity == 1 && known_.insert(space_.key(trial.proposal.point)).second)
        told_.push_back(trial);
  }

 private:
  std::vector<std::size_t> ranked() const {
    std::vector<const Evaluation*> all;
    for (const Trial& trial : told_) all.push_back(&trial.result);
    return best_first(all);
  }

  std::optional<Point> suggest(const std::vector<std::size_t>& order, const std::vector<Proposal>& batch) {
    const auto share = static_cast<std::size_t>(std::ceil(params_.good * double(told_.size())));
    const std::size_t count = std::min<std::size_t>(std::max<std::size_t>(1, share), std::size_t(params_.most_good));
    std::vector<const Point*> good, others;
    for (std::size_t k = 0; k < order.size(); ++k)
      (k < count ? good : others).push_back(&told_[order[k]].proposal.point);
    for (const auto* waiting : {&batch, &std::as_const(out_)})
      for (const Proposal& proposal : *waiting) others.push_back(&proposal.point);
    std::vector<Density> likely, usual;
    for (std::size_t p = 0; p < space_.size(); ++p) {
      likely.emplace_back(space_, p, good);
      usual.emplace_back(space_, p, others);
    }
    std::optional<Point> best;
    double best_score = 0;
    std::int64_t found = 0;
    for (std::int64_t draws = 0; draws < kDrawsEach * params_.candidates && found < params_.candidates; ++draws) {
      Point point(space_.size());
      for (std::size_t p = 0; p < point.size(); ++p) point[p] = likely[p].draw(random_);
      point = space_.canonical(std::move(point));
      if (!space_.allowed(point) || is_known(point, batch)) continue;
      ++found;
      double score = 0;
      for (std::size_t p = 0; p < point.size(); ++p)
        if (!std::isnan(point[p])) score += likely[p].log_at(point[p]) - usual[p].log_at(point[p]);
      if (!best || score > best_score) {
        best = std::move(point);
        best_score = score;
      }
    }
    return best ? best : space_.sample(random_);
  }

  bool is_known(const Point& point, const std::vector<Proposal>& batch) const {
    if (known_.contains(space_.key(point))) return true;
    const auto same = [&](const Proposal& p) { return space_.key(p.point) == space_.key(point); };
    return std::any_of(batch.begin(), batch.end(), same) || std::any_of(out_.begin(), out_.end(), same);
  }

  static constexpr std::int64_t kDrawsEach = 20;  // for a candidate that is allowed and new
  TpeParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<Trial> told_;
  std::set<std::string> known_;
  std::vector<Proposal> out_;  ///< whose results are still to come; they count as bad ones
};

}  // namespace

void add_tpe_driver(DriverRegistry& registry) {
  registry.add<TpeParams>(
      "tpe", "Tree-structured Parzen estimator: proposes what is common among good points and rare among others.",
      [](const TpeParams& params, const DriverSetup& setup) { return std::make_unique<TpeDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
