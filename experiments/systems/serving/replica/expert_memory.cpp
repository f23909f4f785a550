#include "experiments/systems/serving/replica/expert_memory.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments {

using traces::ExpertId;

void ReplayedStep::begin(const BatchShape& shape) {
  stretches_.resize(shape.segments.size());
  for (std::size_t s = 0; s < shape.segments.size(); ++s) plan_.replay->find(shape.segments[s].runs, stretches_[s]);
  used_ = 0;
  at_.assign(plan_.routed.size(), 0);
  std::vector<std::size_t> segments;  // that pass a layer
  for (std::size_t l = 0; l < plan_.routed.size(); ++l) {
    segments.clear();
    for (std::size_t s = 0; s < shape.segments.size(); ++s)
      if (shape.segments[s].first <= plan_.routed[l] && plan_.routed[l] < shape.segments[s].last) segments.push_back(s);
    at_[l] = find(segments, plan_.replay->layer_of(l));
  }
}

std::size_t ReplayedStep::find(const std::vector<std::size_t>& segments, std::size_t layer) {
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
  for (const std::size_t s : segments)
    for (const RouterReplay::Stretch& stretch : stretches_[s])
      for (std::int64_t time = 0; time < stretch.times; ++time) {
        const auto own = trace.choices(layer, stretch.first, stretch.last);
        chosen.experts.insert(chosen.experts.end(), own.begin(), own.end());
        if (plan_.setup.scores)
          chosen.scores.insert(chosen.scores.end(), scores.begin() + stretch.first * trace.experts,
                               scores.begin() + stretch.last * trace.experts);
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

/// A layer's products if all of its experts were on the devices.
Priced ExpertMemory::all_on_devices(std::size_t layer) {
  rows_.clear();
  const std::span<const ExpertId> chosen = step_.of(layer, 0).value();
  for (const ExpertId e : chosen) ++tokens_[e];
  for (const ExpertId e : chosen)
    if (tokens_[e] > 0) rows_.push_back(std::exchange(tokens_[e], 0));
  return plan_->times.gpu(rows_);
}

void ExpertMemory::begin(const BatchShape& shape, const ExactTime& at, std::int64_t ps_per_tick,
                         IterationPrice& price) {
  if (begun_) layers_.idle(std::max<std::int64_t>(0, at.minus(*begun_, ps_per_tick) - lasted_ps_));
  layers_.forget();
  step_.begin(shape);
  Priced all;
  std::int64_t layers = 0;
  for (std::size_t l = 0; l < layers_.layers(); ++l) all.add(all_on_devices(l));
  for (const Segment& segment : shape.segments) layers = std::max<std::int64_t>(layers, segment.last - segment.first);
  const std::int64_t beside_ps = std::max<std::int64_t>(0, price.time_ps - all.time_ps);
  const std::int64_t dense_ps = beside_ps / std::max<std::int64_t>(1, layers);

  const std::int64_t from = layers_.now_ps();
  std::int64_t dense_played_ps = 0;
  for (std::size_t l = 0; l < layers_.layers(); ++l) {
    const bool any = !step_.of(l, 0)->empty();
    layers_.play(l, step_, any ? dense_ps : 0);
    dense_played_ps += any ? dense_ps : 0;
  }
  layers_.pass(std::max<std::int64_t>(0, beside_ps - dense_played_ps));
  begun_ = at;
  lasted_ps_ = layers_.now_ps() - from;
  const std::int64_t extra_ps = lasted_ps_ - std::max(beside_ps, dense_played_ps) - all.time_ps;
  settle(extra_ps, all);
  price.time_ps += extra_ps;
  price.energy_pj += beside_.energy_pj();
  price.step_ps = price.step_energy_pj = 0;
  price.horizon = 1;
}

void ExpertMemory::settle(std::int64_t extra_ps, const Priced& all) {
  const ExpertTotals& now = layers_.totals();
  const Priced& done = now.products;
  const auto picojoules = [](double joules) { return std::llround(joules * 1e12); };
  beside_ = {};
  beside_.time_ps = extra_ps;
  const auto time = [&](hw::OpClass op) -> std::int64_t& { return beside_.class_ps[static_cast<std::size_t>(op)]; };
  const auto energy = [&](hw::OpClass op) -> std::int64_t& { return beside_.class_pj[static_cast<std::size_t>(op)]; };
  time(hw::OpClass::expert_down) = done.down_ps - all.down_ps;
  time(hw::OpClass::expert_up) = done.time_ps - all.time_ps - time(hw::OpClass::expert_down);
  time(hw::OpClass::copy) = extra_ps - (done.time_ps - all.time_ps);
  energy(hw::OpClass::expert_down) = picojoules(done.down_j - all.down_j);
  energy(hw::OpClass::expert_up) = picojoules(done.energy_j - all.energy_j) - energy(hw::OpClass::expert_down);
  energy(hw::OpClass::copy) = beside_.network_pj = picojoules(now.copies_j);
  beside_.memory_pj = picojoules(done.memory_j - all.memory_j);
  beside_.compute_pj = energy(hw::OpClass::expert_up) + energy(hw::OpClass::expert_down) - beside_.memory_pj;
  beside_.dram_bytes = -now.on_host * plan_->times.weight_bytes(0);
  beside_.flops = -std::llround(now.host_flops);
}

}  // namespace orrery::experiments
