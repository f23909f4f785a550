#include "experiments/systems/serving/replica/expert_memory.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace orrery::experiments {

using traces::ExpertId;

void ReplayedStep::begin(const BatchShape& shape) {
  if (shape.segments.size() > 64) throw std::logic_error("an iteration of more than 64 segments");
  stretches_.resize(shape.segments.size());
  for (std::size_t s = 0; s < shape.segments.size(); ++s) plan_.replay->find(shape.segments[s].runs, stretches_[s]);
  used_ = 0;
  at_.assign(plan_.routed.size(), 0);
  for (std::size_t l = 0; l < plan_.routed.size(); ++l) {
    std::uint64_t segments = 0;
    for (std::size_t s = 0; s < shape.segments.size(); ++s)
      if (shape.segments[s].first <= plan_.routed[l] && plan_.routed[l] < shape.segments[s].last)
        segments |= std::uint64_t{1} << s;
    at_[l] = find(segments, plan_.replay->layer_of(l));
  }
}

std::size_t ReplayedStep::find(std::uint64_t segments, std::size_t layer) {
  for (std::size_t i = 0; i < used_; ++i)
    if (chosen_[i].segments == segments && chosen_[i].layer == layer) return i;
  if (used_ == chosen_.size()) chosen_.emplace_back();
  Chosen& chosen = chosen_[used_];
  chosen.segments = segments;
  chosen.layer = layer;
  chosen.experts.clear();
  chosen.scores.clear();
  const traces::RouterTrace& trace = plan_.replay->trace();
  const std::vector<std::uint16_t>& scores = trace.layers[layer].scores;
  for (std::size_t s = 0; s < stretches_.size(); ++s) {
    if ((segments >> s & 1) == 0) continue;
    for (const RouterReplay::Stretch& stretch : stretches_[s])
      for (std::int64_t time = 0; time < stretch.times; ++time) {
        const auto own = trace.choices(layer, stretch.first, stretch.last);
        chosen.experts.insert(chosen.experts.end(), own.begin(), own.end());
        if (plan_.setup.scores)
          chosen.scores.insert(chosen.scores.end(), scores.begin() + stretch.first * trace.experts,
                               scores.begin() + stretch.last * trace.experts);
      }
  }
  return used_++;
}

std::optional<std::span<const ExpertId>> ReplayedStep::of(std::size_t layer, std::int64_t ahead) const {
  if (ahead > 0) return std::nullopt;  // who is in the next iteration is decided after this one
  return chosen_[at_[layer]].experts;
}

ExpertMemory::ExpertMemory(std::shared_ptr<const ExpertMemoryPlan> plan)
    : plan_(std::move(plan)),
      step_(*plan_),
      layers_(plan_->policies, plan_->times, plan_->setup),
      tokens_(static_cast<std::size_t>(plan_->setup.experts)) {}

/// Time of a layer's products if all of its experts were on the devices; their energy is added to `joules`.
std::int64_t ExpertMemory::all_on_devices(std::size_t layer, double& joules) {
  rows_.clear();
  const std::span<const ExpertId> chosen = step_.of(layer, 0).value();
  for (const ExpertId e : chosen) ++tokens_[e];
  for (const ExpertId e : chosen)
    if (tokens_[e] > 0) rows_.push_back(std::exchange(tokens_[e], 0));
  const Priced all = plan_->times.gpu(rows_);
  joules += all.energy_j;
  return all.time_ps;
}

void ExpertMemory::begin(const BatchShape& shape, const ExactTime& at, std::int64_t ps_per_tick,
                         IterationPrice& price) {
  if (begun_) layers_.pass(std::max<std::int64_t>(0, at.minus(*begun_, ps_per_tick) - lasted_ps_));
  step_.begin(shape);
  std::int64_t products_ps = 0, layers = 0;
  double all_j = 0;
  for (std::size_t l = 0; l < layers_.layers(); ++l) products_ps += all_on_devices(l, all_j);
  for (const Segment& segment : shape.segments) layers = std::max<std::int64_t>(layers, segment.last - segment.first);
  const std::int64_t beside_ps = std::max<std::int64_t>(0, price.time_ps - products_ps);
  const std::int64_t dense_ps = beside_ps / std::max<std::int64_t>(1, layers);

  const std::int64_t from = layers_.now_ps();
  const ExpertTotals before = layers_.totals();
  std::int64_t dense_played_ps = 0;
  for (std::size_t l = 0; l < layers_.layers(); ++l) {
    const bool any = !step_.of(l, 0)->empty();
    layers_.play(l, step_, any ? dense_ps : 0);
    dense_played_ps += any ? dense_ps : 0;
  }
  layers_.pass(std::max<std::int64_t>(0, beside_ps - dense_played_ps));
  begun_ = at;
  lasted_ps_ = layers_.now_ps() - from;
  const std::int64_t extra_ps = lasted_ps_ - std::max(beside_ps, dense_played_ps) - products_ps;
  settle(extra_ps, before, all_j);
  price.time_ps += extra_ps;
  price.energy_pj += beside_.energy_pj();
  price.step_ps = price.step_energy_pj = 0;
  price.horizon = 1;
}

void ExpertMemory::settle(std::int64_t extra_ps, const ExpertTotals& before, double all_j) {
  const ExpertTotals& now = layers_.totals();
  beside_ = {};
  beside_.time_ps = extra_ps;
  const auto time = [&](hw::OpClass op) -> std::int64_t& { return beside_.class_ps[static_cast<std::size_t>(op)]; };
  const auto energy = [&](hw::OpClass op) -> std::int64_t& { return beside_.class_pj[static_cast<std::size_t>(op)]; };
  time(extra_ps > 0 ? hw::OpClass::copy : hw::OpClass::expert_up) = extra_ps;
  const double products_j = (now.experts_j - before.experts_j) + (now.host_j - before.host_j) - all_j;
  beside_.compute_pj = energy(hw::OpClass::expert_up) = std::llround(products_j * 1e12);
  beside_.network_pj = energy(hw::OpClass::copy) = std::llround((now.copies_j - before.copies_j) * 1e12);
  beside_.dram_bytes = -(now.on_host - before.on_host) * plan_->times.weight_bytes(0);
}

}  // namespace orrery::experiments
