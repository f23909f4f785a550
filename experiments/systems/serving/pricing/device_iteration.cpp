#include "experiments/systems/serving/pricing/device_iteration.hpp"

#include <algorithm>
#include <stdexcept>

#include "experiments/systems/serving/pricing/kernel_cost.hpp"

namespace orrery::experiments {

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

DeviceIterationModel::DeviceIterationModel(std::shared_ptr<const DecoderKernels> kernels, hw::Device device)
    : kernels_(std::move(kernels)), device_(std::move(device)) {
  const std::vector<std::int32_t>& kind_of = kernels_->kind_of();
  const auto kinds = static_cast<std::size_t>(*std::max_element(kind_of.begin(), kind_of.end())) + 1;
  dense_.resize(kinds);
  layers_before_.assign(kinds, std::vector<std::int64_t>{0});
  for (const std::int32_t of : kind_of)
    for (std::size_t kind = 0; kind < kinds; ++kind)
      layers_before_[kind].push_back(layers_before_[kind].back() + (static_cast<std::size_t>(of) == kind ? 1 : 0));
}

template <class Lower>
IterationCost DeviceIterationModel::price(Lower lower) {
  launches_.clear();
  lower(launches_);
  const std::int64_t ranks = kernels_->ranks();
  IterationCost out;
  for (const hw::Kernel& kernel : launches_.kernels) add_kernel(device_, kernel, ranks, out);
  for (const models::Communication& c : launches_.communications)
    add_collective(device_, library_call(c.kind), c.ranks, c.bytes, c.op, ranks, out);
  return out;
}

template <class Lower>
std::size_t DeviceIterationModel::keep(Lower lower) {
  entries_.push_back(price(lower));
  return entries_.size() - 1;
}

template <class Lower>
std::size_t DeviceIterationModel::tabulated(Table& table, std::int64_t index, Lower lower) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= kFlat) {
    const auto [entry, fresh] = table.far.try_emplace(index, kNone);
    if (fresh) entry->second = keep(lower);
    return entry->second;
  }
  if (i >= table.near.size()) table.near.resize(i + i / 2 + 64, kNone);
  if (table.near[i] == kNone) table.near[i] = keep(lower);
  return table.near[i];
}

void DeviceIterationModel::add_dense(std::size_t kind, const models::TokenMix& mix, std::int64_t layers,
                                     CostParts& out) {
  const auto lower = [&](models::Launches& launches) { kernels_->dense(kind, mix, launches); };
  if (mix.prompt == 0 || !kernels_->by_mix(kind))
    return out.uses.push_back({tabulated(dense_[kind], mix.tokens(), lower), layers});
  const std::array key{static_cast<std::int64_t>(kind), mix.decode, mix.prompt, mix.prompts};
  auto known = mixed_.find(key);
  if (known == mixed_.end()) {
    if (mixed_.size() >= kMixes) return out.add_rest(price(lower), layers);
    known = mixed_.emplace(key, keep(lower)).first;
  }
  out.uses.push_back({known->second, layers});
}

void DeviceIterationModel::parts(const BatchShape& shape, CostParts& out) {
  const auto edge = [&](Table& table, std::int64_t rows, auto lower) {
    out.uses.push_back({tabulated(table, rows, lower), 1});
  };
  for (const Segment& segment : shape.segments) {
    if (segment.last > std::ssize(kernels_->kind_of()))
      throw std::logic_error("a segment of more layers than there are");
    const auto tokens = segment.tokens;
    if (segment.first == 0)
      edge(embedding_, tokens, [&](models::Launches& launches) { kernels_->embedding(tokens, launches); });
    const std::int64_t prompt = segment.prefill.q_tokens;
    const models::TokenMix mix{tokens - prompt, prompt, segment.prefill.sequences};
    for (std::size_t kind = 0; kind < dense_.size(); ++kind) {
      const std::vector<std::int64_t>& before = layers_before_[kind];
      const std::int64_t layers =
          before[static_cast<std::size_t>(segment.last)] - before[static_cast<std::size_t>(segment.first)];
      if (layers == 0) continue;
      add_dense(kind, mix, layers, out);
      out.add_rest(price([&](models::Launches& launches) {
                     kernels_->attention(kind, segment.prefill, segment.decode, launches);
                   }),
                   layers);
    }
    if (kernels_->has_ending() && segment.last == std::ssize(kernels_->kind_of()))
      edge(ending_, tokens, [&](models::Launches& launches) { kernels_->ending(tokens, launches); });
  }
  if (shape.logit_rows > 0)
    edge(head_, shape.logit_rows, [&](models::Launches& launches) { kernels_->head(shape.logit_rows, launches); });
}

void DeviceIterationModel::cost(const BatchShape& shape, IterationCost& out) {
  parts_.clear();
  parts(shape, parts_);
  for (const CostParts::Use& use : parts_.uses) out.add_scaled(entries_[use.entry], use.times);
  if (parts_.has_rest) out.add(parts_.rest);
}

}  // namespace orrery::experiments
