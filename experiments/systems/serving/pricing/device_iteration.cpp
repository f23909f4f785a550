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

DeviceIterationModel::DeviceIterationModel(std::unique_ptr<DecoderKernels> kernels, hw::Device device)
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
const IterationCost& DeviceIterationModel::tabulated(Table& table, std::int64_t index, Lower lower) {
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

const IterationCost& DeviceIterationModel::dense(std::size_t kind, const models::TokenMix& mix) {
  const auto lower = [&](models::Launches& out) { kernels_->dense(kind, mix, out); };
  if (mix.prompt == 0 || !kernels_->by_mix(kind)) return tabulated(dense_[kind], mix.tokens(), lower);
  const std::array key{static_cast<std::int64_t>(kind), mix.decode, mix.prompt, mix.prompts};
  if (const auto known = mixed_.find(key); known != mixed_.end()) return known->second;
  if (mixed_.size() < kMixes) return mixed_.emplace(key, price(lower)).first->second;
  return scratch_ = price(lower);
}
const IterationCost& DeviceIterationModel::embedding(std::int64_t tokens) {
  return tabulated(embedding_, tokens, [&](models::Launches& out) { kernels_->embedding(tokens, out); });
}
const IterationCost& DeviceIterationModel::head(std::int64_t rows) {
  return tabulated(head_, rows, [&](models::Launches& out) { kernels_->head(rows, out); });
}
const IterationCost& DeviceIterationModel::ending(std::int64_t tokens) {
  return tabulated(ending_, tokens, [&](models::Launches& out) { kernels_->ending(tokens, out); });
}

void DeviceIterationModel::cost(const BatchShape& shape, IterationCost& out) {
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
        kernels_->attention(kind, segment.prefill, segment.decode, launches);
      };
      out.add_scaled(price(lower), layers);
    }
    if (kernels_->has_ending() && segment.last == std::ssize(kernels_->kind_of())) out.add(ending(segment.tokens));
  }
  if (shape.logit_rows > 0) out.add(head(shape.logit_rows));
}

}  // namespace orrery::experiments
