#include "experiments/systems/serving/pricing/gpu_iteration.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace {

/// A cost as an integer. Sums over layers, ranks and kernels must fit too, hence the wide margin below 2^63.
std::int64_t whole(double cost, const char* unit) {
  if (!(cost < 1e15))
    throw std::overflow_error(fmt::format("a kernel of {:.3g} {}: check the figures of the part", cost * 1e-12, unit));
  return static_cast<std::int64_t>(cost);
}
std::int64_t to_ps(double seconds) {
  return whole(std::ceil(seconds * 1e12), "s");
}
std::int64_t to_pj(double joules) {
  return whole(std::floor(joules * 1e12 + 0.5), "J");
}

hw::CollectiveCost price_collective(const hw::LinkParams& link, const models::Communication& c) {
  return hw::library_collective(link, library_call(c.kind), c.ranks, c.bytes);
}

}  // namespace

hw::LibraryCall library_call(models::Collective kind) {
  switch (kind) {
    case models::Collective::all_reduce:
      return hw::LibraryCall::all_reduce;
    case models::Collective::all_gather:
      return hw::LibraryCall::all_gather;
    case models::Collective::reduce_scatter:
      return hw::LibraryCall::reduce_scatter;
    case models::Collective::all_to_all:
      return hw::LibraryCall::all_to_all;
  }
  throw std::logic_error("a collective that no library has");
}

GpuIterationModel::GpuIterationModel(models::Transformer transformer, const hw::GpuParams& gpu,
                                     std::unique_ptr<hw::CostModel> cost)
    : transformer_(std::move(transformer)), gpu_(gpu), cost_model_(std::move(cost)) {
  const std::size_t kinds = transformer_.kinds.size();
  dense_.resize(kinds);
  layers_before_.assign(kinds, std::vector<std::int64_t>{0});
  for (const std::int32_t kind_of : transformer_.kind_of)
    for (std::size_t kind = 0; kind < kinds; ++kind)
      layers_before_[kind].push_back(layers_before_[kind].back() + (static_cast<std::size_t>(kind_of) == kind ? 1 : 0));
}

template <class Lower>
IterationCost GpuIterationModel::price(Lower lower) {
  launches_.clear();
  lower(launches_);
  const std::int64_t ranks = transformer_.ranks();
  IterationCost out;
  for (const hw::Kernel& kernel : launches_.kernels) {
    const hw::Cost cost = cost_model_->cost(kernel);
    const auto op = static_cast<std::size_t>(kernel.op);
    const std::int64_t ps = to_ps(cost.time_s);
    const std::int64_t compute_pj = to_pj(cost.compute_energy_j) * ranks;
    const std::int64_t memory_pj = to_pj(cost.memory_energy_j) * ranks;
    out.time_ps += ps;
    out.class_ps[op] += ps;
    out.compute_pj += compute_pj;
    out.memory_pj += memory_pj;
    out.class_pj[op] += compute_pj + memory_pj;
    // Model FLOPs: products and attention, which is what MFU counts; passes over memory run on other units.
    if (!std::holds_alternative<hw::Streaming>(kernel.shape))
      out.flops += static_cast<std::int64_t>(cost.flops) * ranks;
    out.dram_bytes += static_cast<std::int64_t>(cost.dram_bytes) * ranks;
  }
  for (const models::Communication& communication : launches_.communications) {
    const hw::CollectiveCost cost = price_collective(gpu_.link, communication);
    const auto op = static_cast<std::size_t>(communication.op);
    const std::int64_t ps = to_ps(cost.time_s);
    const std::int64_t pj = to_pj(cost.link_energy_j) * ranks;
    // The kernel that moves the data keeps the device awake as any other does.
    const std::int64_t active_pj = to_pj(gpu_.power.active_w * cost.time_s) * ranks;
    out.time_ps += ps;
    out.class_ps[op] += ps;
    out.network_pj += pj;
    out.compute_pj += active_pj;
    out.class_pj[op] += pj + active_pj;
  }
  return out;
}

template <class Lower>
const IterationCost& GpuIterationModel::tabulated(Table& table, std::int64_t index, Lower lower) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= kFlat) {
    const auto [entry, fresh] = table.far.try_emplace(index);
    if (fresh) entry->second = price(lower);
    return entry->second;
  }
  if (i >= table.near.size()) table.near.resize(i + i / 2 + 64);
  if (!table.near[i]) table.near[i] = price(lower);
  return *table.near[i];
}

const IterationCost& GpuIterationModel::dense(std::size_t kind, const models::TokenMix& mix) {
  const auto lower = [&](models::Launches& out) { models::lower_dense(transformer_, kind, mix, out); };
  if (!transformer_.kinds[kind].experts || mix.prompt == 0) return tabulated(dense_[kind], mix.tokens(), lower);
  const std::array key{static_cast<std::int64_t>(kind), mix.decode, mix.prompt, mix.prompts};
  if (const auto known = mixed_.find(key); known != mixed_.end()) return known->second;
  if (mixed_.size() < kMixes) return mixed_.emplace(key, price(lower)).first->second;
  return scratch_ = price(lower);
}
const IterationCost& GpuIterationModel::embedding(std::int64_t tokens) {
  return tabulated(embedding_, tokens,
                   [&](models::Launches& out) { models::lower_embedding(transformer_, tokens, out); });
}
const IterationCost& GpuIterationModel::head(std::int64_t rows) {
  return tabulated(head_, rows, [&](models::Launches& out) { models::lower_head(transformer_, rows, out); });
}

void GpuIterationModel::cost(const BatchShape& shape, IterationCost& out) {
  for (const Segment& segment : shape.segments) {
    if (segment.first == 0) out.add(embedding(segment.tokens));
    const std::int64_t prompt = segment.prefill.q_tokens;
    const models::TokenMix mix{segment.tokens - prompt, prompt, segment.prefill.sequences};
    for (std::size_t kind = 0; kind < dense_.size(); ++kind) {
      const std::vector<std::int64_t>& before = layers_before_[kind];
      const std::int64_t layers =
          before[static_cast<std::size_t>(segment.last)] - before[static_cast<std::size_t>(segment.first)];
      if (layers == 0) continue;
      out.add_scaled(dense(kind, mix), layers);
      const auto lower = [&](models::Launches& launches) {
        models::lower_attention(transformer_, kind, segment.prefill, segment.decode, launches);
      };
      out.add_scaled(price(lower), layers);
    }
  }
  if (shape.logit_rows > 0) out.add(head(shape.logit_rows));
}

}  // namespace orrery::experiments
