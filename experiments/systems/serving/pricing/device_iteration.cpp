#include "experiments/systems/serving/pricing/device_iteration.hpp"

#include <algorithm>
#include <stdexcept>

#include "experiments/systems/serving/pricing/kernel_cost.hpp"

namespace orrery::experiments {

namespace {

/// Rounded down.
std::int64_t scaled(std::int64_t value, std::int64_t numerator, std::int64_t denominator) {
  return static_cast<std::int64_t>(static_cast<__int128>(value) * numerator / denominator);
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

DeviceIterationModel::DeviceIterationModel(std::shared_ptr<const DecoderKernels> kernels, hw::Device device,
                                           std::optional<hw::LinkParams> between_lanes,
                                           std::optional<ExpertExchange> exchange,
                                           std::shared_ptr<const RouterReplay> replay)
    : kernels_(std::move(kernels)),
      device_(std::move(device)),
      between_lanes_(std::move(between_lanes)),
      exchange_(std::move(exchange)),
      replay_(std::move(replay)) {
  const std::vector<std::int32_t>& kind_of = kernels_->kind_of();
  const auto kinds = static_cast<std::size_t>(*std::max_element(kind_of.begin(), kind_of.end())) + 1;
  dense_.resize(kinds);
  beside_experts_.resize(kinds);
  layers_before_.assign(kinds, std::vector<std::int64_t>{0});
  std::size_t routed = 0;
  for (const std::int32_t of : kind_of) {
    routed_before_.push_back(routed);
    routed += kernels_->by_mix(static_cast<std::size_t>(of)) ? 1 : 0;
  }
  for (const std::int32_t of : kind_of)
    for (std::size_t kind = 0; kind < kinds; ++kind)
      layers_before_[kind].push_back(layers_before_[kind].back() + (static_cast<std::size_t>(of) == kind ? 1 : 0));
}

template <class Lower, class Each>
void DeviceIterationModel::price(Lower lower, Each each) {
  launches_.clear();
  lower(launches_);
  const std::int64_t ranks = kernels_->ranks();
  for (const hw::Kernel& kernel : launches_.kernels) each(kernel_cost(device_, kernel, ranks));
  for (const models::Communication& c : launches_.communications) {
    const bool lanes = c.ranks > kernels_->tensor_parallel();
    const hw::LinkParams* const link = lanes && between_lanes_ ? &*between_lanes_ : nullptr;
    CollectiveAmong among{.ranks = c.ranks, .lanes = lanes, .link = link, .time_s = {}};
    if (exchange_ && c.kind == models::Collective::all_to_all) among.time_s = exchange_->time_s(c.bytes, c.ranks);
    each(collective_cost(device_, among, library_call(c.kind), c.bytes, c.op, ranks));
  }
}

template <class Lower>
std::size_t DeviceIterationModel::keep(Lower lower) {
  IterationCost cost;
  price(lower, [&](const KernelCost& kernel) { cost.add_scaled(kernel, 1); });
  entries_.push_back(cost);
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
    if (mixed_.size() >= kMixes)
      return price(lower, [&](const KernelCost& kernel) { out.launched.push_back({kernel, layers}); });
    known = mixed_.emplace(key, keep(lower)).first;
  }
  out.uses.push_back({known->second, layers});
}

void DeviceIterationModel::add_replayed(std::size_t kind, const Segment& segment, std::int64_t layers, CostParts& out) {
  const std::int64_t tokens = segment.tokens;
  out.uses.push_back({tabulated(beside_experts_[kind], tokens,
                                [&](models::Launches& to) { kernels_->beside_experts(kind, tokens, to); }),
                      layers});
  replay_->find(segment.runs, stretches_);
  stands_for_.assign(replay_->layers(), 0);
  for (std::int32_t layer = segment.first; layer < segment.last; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    if (static_cast<std::size_t>(kernels_->kind_of()[l]) == kind) ++stands_for_[replay_->layer_of(routed_before_[l])];
  }
  for (std::size_t of_trace = 0; of_trace < stands_for_.size(); ++of_trace) {
    if (stands_for_[of_trace] == 0) continue;
    const RouterReplay::Place place{segment.placement, of_trace};
    replay_->count(place, stretches_, rows_);
    add_experts(kind, tokens, place, stands_for_[of_trace], out);
  }
}

void DeviceIterationModel::add_experts(std::size_t kind, std::int64_t tokens, RouterReplay::Place place,
                                       std::int64_t layers, CostParts& out) {
  const RouterReplay::Sums all = replay_->sums(place, rows_);
  const std::int64_t ranks = replay_->ranks();
  std::int64_t longest = -1;
  for (const std::size_t rank : replay_->busiest(place, rows_)) {
    candidate_.clear();
    std::int64_t time = 0;
    const models::RoutedRows mine = replay_->of_rank(place, rank, rows_);
    const auto lower = [&](models::Launches& to) {
      kernels_->experts(kind, tokens, mine, to);
      for (models::Communication& c : to.communications)
        if (c.kind == models::Collective::all_to_all) c.bytes = scaled(c.bytes, all.most_rows * ranks, all.rows);
    };
    price(lower, [&](KernelCost kernel) {
      time += kernel.time_ps;
      // Time is this rank's. The work was counted as if all ranks had as much: rows, weights of experts, what travels.
      const bool product = kernel.op == hw::OpClass::expert_up || kernel.op == hw::OpClass::expert_down;
      for (std::int64_t* work : {&kernel.flops, &kernel.compute_pj}) *work = scaled(*work, all.rows, mine.rows * ranks);
      for (std::int64_t* work : {&kernel.dram_bytes, &kernel.memory_pj})
        *work = product ? scaled(*work, all.experts, mine.experts * ranks) : scaled(*work, all.rows, mine.rows * ranks);
      for (std::int64_t* work : {&kernel.exchange_bytes, &kernel.network_pj})
        *work = scaled(*work, all.rows, all.most_rows * ranks);
      candidate_.push_back(kernel);
    });
    if (time <= longest) continue;
    longest = time;
    std::swap(slowest_, candidate_);
  }
  for (const KernelCost& kernel : slowest_) out.launched.push_back({kernel, layers});
}

/// A multiplicative hash of the sums that differ most.
std::uint64_t DeviceIterationModel::Attention::hash() const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;  // 2^64 over the golden ratio
  std::uint64_t hash = kind;
  for (const std::int64_t sum : {prefill.q_tokens, prefill.pairs, decode.sequences, decode.context_tokens})
    hash = (hash ^ (hash >> 32) ^ static_cast<std::uint64_t>(sum)) * kOdd;
  return hash ^ (hash >> 32);
}

void DeviceIterationModel::add_attention(const Attention& attention, std::int64_t layers, CostParts& out) {
  if (attention.prefill.sequences == 0 && attention.decode.sequences == 0) return;
  const AttentionCost& cost = attentions_.get(attention, [&](AttentionCost& made) {
    made.first = {};
    made.others.clear();
    price([&](models::Launches& to) { kernels_->attention(attention.kind, attention.prefill, attention.decode, to); },
          [&](const KernelCost& kernel) {
            if (made.first.launches == 0)
              made.first = kernel;
            else
              made.others.push_back(kernel);
          });
  });
  out.launched.push_back({cost.first, layers});
  for (const KernelCost& kernel : cost.others) out.launched.push_back({kernel, layers});
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
      if (replay_ != nullptr && !segment.runs.empty() && kernels_->by_mix(kind))
        add_replayed(kind, segment, layers, out);
      else
        add_dense(kind, mix, layers, out);
      add_attention({kind, segment.prefill, segment.decode}, layers, out);
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
  for (const CostParts::Launched& launched : parts_.launched) out.add_scaled(launched.cost, launched.times);
}

}  // namespace orrery::experiments
