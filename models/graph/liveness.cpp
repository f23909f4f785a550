#include "models/graph/liveness.hpp"

#include <algorithm>

#include "models/graph/op_work.hpp"

namespace orrery::models {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// Input whose memory output `slot` takes; nothing for an output of its own.
std::optional<std::size_t> updated_input(const OpNode& op, std::size_t slot) {
  if (op.kind == OpKind::kv_write) return slot == 0 ? std::optional<std::size_t>(0) : std::nullopt;
  const Attribute* updates = op.find("updates");
  if (updates == nullptr) return std::nullopt;
  const auto* inputs = std::get_if<std::vector<SymExpr>>(updates);
  if (inputs == nullptr || slot >= inputs->size()) return std::nullopt;
  const std::optional<std::int64_t> input = (*inputs)[slot].constant();
  if (!input || *input < 0 || *input >= std::ssize(op.inputs)) return std::nullopt;
  return static_cast<std::size_t>(*input);
}

/// Whether an op reads every operand at the place that it writes.
bool is_elementwise(const OpNode& op) {
  if (op.integer("in_place", 1) == 0) return false;
  if (op.kind != OpKind::fused) return info(op.kind).pattern == Pattern::elementwise;
  const OpGraph& region = *op.regions.front();
  return std::ranges::all_of(region.ops(), [&](OpId id) {
    const OpNode& inner = region.op(id);
    if (inner.integer("in_place", 1) == 0) return false;
    return inner.kind == OpKind::reshape || info(inner.kind).pattern == Pattern::elementwise;
  });
}

/// The storage's own tensor, if `tensor` is it or a reshape of it: the same elements at the same places.
bool is_whole(const OpGraph& graph, TensorId tensor, TensorId root) {
  while (tensor != root) {
    const std::optional<OpId> maker = graph.producer(tensor);
    if (!maker || graph.op(*maker).kind != OpKind::reshape) return false;
    tensor = graph.op(*maker).inputs.front();
  }
  return true;
}

/// What the regions of a branch or loop need at most beside the op's operands.
std::int64_t inner_peak(const OpNode& op, const Bindings& bindings) {
  if (op.kind != OpKind::branch && op.kind != OpKind::loop) return 0;
  std::int64_t most = 0;
  for (const auto& region : op.regions) most = std::max(most, liveness(*region, bindings).peak);
  return most;
}

}  // namespace

Storages::Storages(const OpGraph& graph)
    : graph_(&graph),
      of_(graph.tensor_count(), kNone),
      made_(graph.op_count()),
      read_(graph.op_count()),
      before_(graph.op_count()) {
  const auto add_use = [&](std::size_t storage, OpId op) {
    if (all_[storage].uses.empty() || all_[storage].uses.back() != op) all_[storage].uses.push_back(op);
  };
  for (const TensorId id : graph.tensors()) {
    if (graph.producer(id)) continue;
    of_[index(id)] = all_.size();
    all_.push_back({id, std::nullopt, {}, graph.is_output(id)});
  }
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    std::vector<std::size_t>& read = read_[index(id)];
    for (const TensorId input : op.inputs) {
      const std::size_t storage = of_[index(input)];
      if (std::find(read.begin(), read.end(), storage) == read.end()) read.push_back(storage);
      add_use(storage, id);
    }
    const bool is_view = info(op.kind).pattern == Pattern::view;
    for (std::size_t slot = 0; slot < op.outputs.size(); ++slot) {
      const TensorId output = op.outputs[slot];
      std::size_t& own = of_[index(output)];
      if (is_view) own = of_[index(op.inputs.front())];
      if (const auto input = updated_input(op, slot)) {
        const std::size_t storage = of_[index(op.inputs[*input])];
        // Whoever reads the old value later needs it to stay: then the update goes to memory of its own.
        const TensorId old = op.inputs[*input];
        if (graph.consumers(old).back() == id && !graph.is_output(old)) {
          own = storage;
          for (const OpId reader : all_[storage].uses)
            if (reader != id) before_[index(id)].push_back(reader);
        }
      }
      if (own == kNone) {
        own = all_.size();
        all_.push_back({output, id, {}, false});
        made_[index(id)].push_back(own);
      }
      all_[own].kept = all_[own].kept || graph.is_output(output);
    }
  }
}

std::vector<std::size_t> Storages::replaceable(OpId id) const {
  std::vector<std::size_t> found;
  const OpNode& op = graph_->op(id);
  if (op.outputs.empty() || !is_elementwise(op) || all_[of(op.outputs.front())].maker != id) return found;
  for (const TensorId input : op.inputs) {
    const Storage& storage = all_[of(input)];
    // An op that also reads a part of the storage, or reads it turned, needs it while it writes.
    const bool whole = std::ranges::all_of(
        op.inputs, [&](TensorId other) { return of(other) != of(input) || is_whole(*graph_, other, storage.tensor); });
    if (!storage.maker || storage.kept || !whole) continue;
    if (std::find(found.begin(), found.end(), of(input)) == found.end()) found.push_back(of(input));
  }
  return found;
}

SymExpr Storages::bytes(std::size_t storage) const {
  return graph_->tensor(all_[storage].tensor).bytes();
}

Liveness liveness(const OpGraph& graph, const Bindings& bindings, bool in_place) {
  return liveness(Storages(graph), bindings, in_place);
}

Liveness liveness(const Storages& storages, const Bindings& bindings, bool in_place) {
  const OpGraph& graph = storages.graph();
  Liveness out;
  const auto steps = static_cast<std::int64_t>(graph.op_count());
  std::vector<std::int32_t> lifetime(storages.all().size(), -1);
  std::vector<bool> replaced;
  for (std::size_t i = 0; i < storages.all().size(); ++i)
    if (!storages.all()[i].maker) out.persistent += bytes_of(graph, storages.all()[i].tensor, bindings);
  out.live.assign(graph.op_count() + 1, 0);
  const auto add = [&](const Lifetime& life) {
    out.live[static_cast<std::size_t>(life.begin)] += life.bytes;
    out.live[static_cast<std::size_t>(life.end)] -= life.bytes;
    out.lifetimes.push_back(life);
    replaced.push_back(false);
  };
  for (const OpId id : graph.ops()) {
    const auto step = static_cast<std::int64_t>(index(id));
    for (const std::size_t i : storages.made_by(id)) {
      const Storage& storage = storages.all()[i];
      Lifetime life{storage.tensor, step, step + 1, bytes_of(graph, storage.tensor, bindings), std::nullopt};
      if (!storage.uses.empty()) life.end = static_cast<std::int64_t>(index(storage.uses.back())) + 1;
      if (storage.kept) life.end = steps;
      if (in_place && storage.tensor == graph.op(id).outputs.front()) {
        for (const std::size_t operand : storages.replaceable(id)) {
          const auto place = static_cast<std::size_t>(lifetime[operand]);
          const Lifetime& old = out.lifetimes[place];
          if (old.end != step + 1 || old.bytes != life.bytes || replaced[place]) continue;
          life.in_place_of = lifetime[operand];
          replaced[place] = true;
          out.live[static_cast<std::size_t>(step)] -= old.bytes;
          out.live[static_cast<std::size_t>(step) + 1] += old.bytes;
          break;
        }
      }
      lifetime[i] = static_cast<std::int32_t>(out.lifetimes.size());
      add(life);
    }
    if (const std::int64_t inner = inner_peak(graph.op(id), bindings); inner > 0)
      add({std::nullopt, step, step + 1, inner, std::nullopt});
    if (const std::int64_t scratch = graph.op(id).expr("scratch", 0).eval(bindings); scratch > 0)
      add({std::nullopt, step, step + 1, scratch, std::nullopt});
  }
  std::int64_t sum = 0;
  for (std::size_t step = 0; step < out.live.size(); ++step) {
    out.live[step] = sum += out.live[step];
    if (sum <= out.peak) continue;
    out.peak = sum;
    out.peak_step = static_cast<std::int64_t>(step);
  }
  out.live.pop_back();
  return out;
}

std::vector<SymExpr> memory_impacts(const OpGraph& graph) {
  const Storages storages(graph);
  std::vector<SymExpr> impacts(graph.op_count());
  for (std::size_t i = 0; i < storages.all().size(); ++i) {
    const Storage& storage = storages.all()[i];
    if (!storage.maker) continue;
    const SymExpr bytes = storages.bytes(i);
    impacts[index(*storage.maker)] += bytes;
    const OpId last = storage.uses.empty() ? *storage.maker : storage.uses.back();
    if (!storage.kept) impacts[index(last)] -= bytes;
  }
  return impacts;
}

}  // namespace orrery::models
