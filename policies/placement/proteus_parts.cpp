#include "policies/placement/proteus_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

namespace orrery::policies::proteus {
namespace {

using models::GraphError;
using models::index;
using models::OpGraph;
using models::OpId;
using models::OpNode;
using models::Subgraph;
using models::TensorId;

/// Groups while they are contracted: who uses whom.
class Groups {
 public:
  explicit Groups(const OpGraph& graph) : of_(graph.op_count()), sizes_(graph.op_count(), 1), next_(graph.op_count()) {
    for (std::size_t i = 0; i < of_.size(); ++i) of_[i] = i;
    for (const OpId op : graph.ops())
      for (const TensorId input : graph.op(op).inputs)
        if (const auto maker = graph.producer(input)) next_[index(*maker)].insert(index(op));
    count_ = of_.size();
  }

  std::size_t count() const { return count_; }
  const std::vector<std::size_t>& of() const { return of_; }

  /// Draws a pair and contracts it; false if none is left.
  bool contract(double saturated, sim::RandomStream& random) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<double> weights;
    for (std::size_t a = 0; a < next_.size(); ++a)
      for (const std::size_t b : next_[a]) {
        const double size_a = sizes_[a], size_b = sizes_[b];
        pairs.emplace_back(a, b);
        weights.push_back(size_a >= saturated && size_b >= saturated ? 1e-5 : 1 / (size_a + size_b));
      }
    while (true) {
      double total = 0;
      for (const double weight : weights) total += weight;
      if (total <= 0) return false;
      double point = random.uniform() * total;
      std::size_t drawn = 0, last = 0;
      for (; drawn < weights.size(); ++drawn) {
        if (weights[drawn] <= 0) continue;
        last = drawn;
        if (point < weights[drawn]) break;
        point -= weights[drawn];
      }
      drawn = std::min(drawn, last);  // rounding may step past the end
      const auto [a, b] = pairs[drawn];
      if (!has_detour(a, b)) {
        merge(a, b);
        return true;
      }
      weights[drawn] = 0;
    }
  }

 private:
  /// True if a path leads from `a` to `b` through a third group.
  bool has_detour(std::size_t a, std::size_t b) const {
    std::vector<bool> seen(next_.size(), false);
    std::vector<std::size_t> open;
    for (const std::size_t to : next_[a])
      if (to != b) open.push_back(to);
    while (!open.empty()) {
      const std::size_t now = open.back();
      open.pop_back();
      if (now == b) return true;
      if (seen[now]) continue;
      seen[now] = true;
      for (const std::size_t to : next_[now]) open.push_back(to);
    }
    return false;
  }

  void merge(std::size_t a, std::size_t b) {
    for (std::size_t& group : of_)
      if (group == b) group = a;
    sizes_[a] += std::exchange(sizes_[b], 0);
    next_[a].insert(next_[b].begin(), next_[b].end());
    next_[b].clear();
    for (std::set<std::size_t>& uses : next_)
      if (uses.erase(b) > 0) uses.insert(a);
    next_[a].erase(a);
    --count_;
  }

  std::vector<std::size_t> of_;
  std::vector<double> sizes_;
  std::vector<std::set<std::size_t>> next_;
  std::size_t count_ = 0;
};

/// Sum of squares of the parts' sizes: least where they are alike, for the same number of parts.
double imbalance(const std::vector<std::size_t>& group) {
  std::map<std::size_t, double> sizes;
  for (const std::size_t g : group) sizes[g] += 1;
  double sum = 0;
  for (const auto& [g, size] : sizes) sum += size * size;
  return sum;
}

/// An op of an optimised part.
struct Piece {
  std::size_t order = 0;  ///< earliest op of the whole graph that it stands for
  std::size_t part = 0;
  OpId op{};
  friend bool operator>(const Piece& a, const Piece& b) {
    return std::tuple(a.order, a.part, a.op) > std::tuple(b.order, b.part, b.op);
  }
};

class Assembly {
 public:
  Assembly(const OpGraph& graph, std::span<const Subgraph> parts, std::span<const OpGraph> optimised)
      : graph_(graph), parts_(parts), optimised_(optimised), out_(start(graph)) {
    for (const OpId op : graph.ops()) places_.emplace(graph.op(op).name, index(op));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (optimised[p].outputs().size() != parts[p].outputs.size())
        throw GraphError(fmt::format("part {} gave {} tensors, got {} back", p, parts[p].outputs.size(),
                                     optimised[p].outputs().size()));
      for (std::size_t i = 0; i < parts[p].outputs.size(); ++i)
        made_by_.emplace(parts[p].outputs[i], std::pair(p, optimised[p].outputs()[i]));
    }
    for (const TensorId id : graph.tensors())
      if (graph.tensor(id).role != models::TensorRole::activation)
        now_[{kWhole, id}] = *out_.find_tensor(graph.tensor(id).name);
    bring_new_tensors();
  }

  OpGraph run() {
    std::vector<std::vector<Piece>> pieces(parts_.size());
    std::map<std::pair<std::size_t, OpId>, std::int64_t> waits;
    std::map<std::pair<std::size_t, TensorId>, std::vector<Piece>> readers;
    std::priority_queue<Piece, std::vector<Piece>, std::greater<>> ready;
    std::size_t left = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (const OpId op : optimised_[p].ops()) {
        const Piece piece{order_of(p, op, pieces[p]), p, op};
        pieces[p].push_back(piece);
        std::int64_t missing = 0;
        for (const TensorId input : optimised_[p].op(op).inputs) {
          const auto source = source_of(p, input);
          if (now_.contains(source)) continue;
          readers[source].push_back(piece);
          ++missing;
        }
        waits[{p, op}] = missing;
        if (missing == 0) ready.push(piece);
        ++left;
      }
    }
    while (!ready.empty()) {
      const Piece piece = ready.top();
      ready.pop();
      --left;
      for (const TensorId made : add(piece))
        for (const Piece& reader : readers[{piece.part, made}])
          if (--waits[{reader.part, reader.op}] == 0) ready.push(reader);
    }
    if (left > 0) throw GraphError("parts wait for each other: one was optimised across a path outside of it");
    for (const TensorId output : graph_.outputs()) out_.mark_output(now_.at(source_of(kWhole, output)));
    return std::move(out_);
  }

 private:
  using Source = std::pair<std::size_t, TensorId>;  ///< a tensor of an optimised part, or of the whole graph
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();

  static OpGraph start(const OpGraph& graph) {
    OpGraph out;
    out.name = graph.name;
    out.facts = graph.facts;
    for (const TensorId id : graph.tensors())
      if (graph.tensor(id).role != models::TensorRole::activation) out.add_tensor(graph.tensor(id));
    return out;
  }

  /// Tensors that exist before the run and that an optimiser added (a folded constant, say).
  void bring_new_tensors() {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      for (const TensorId id : optimised_[p].tensors()) {
        models::Tensor tensor = optimised_[p].tensor(id);
        if (tensor.role == models::TensorRole::activation || parts_[p].graph.find_tensor(tensor.name)) continue;
        if (out_.find_tensor(tensor.name)) tensor.name += fmt::format(".part{}", p);
        now_[{p, id}] = out_.add_tensor(std::move(tensor));
      }
  }

  /// Where a tensor comes from: through what parts take, and give without having made it.
  Source source_of(std::size_t part, TensorId tensor) const {
    while (true) {
      if (part == kWhole) {
        const auto made = made_by_.find(tensor);
        if (made == made_by_.end()) return {kWhole, tensor};
        std::tie(part, tensor) = made->second;
      }
      const OpGraph& own = optimised_[part];
      if (own.producer(tensor) || now_.contains({part, tensor})) return {part, tensor};
      const auto inner = parts_[part].graph.find_tensor(own.tensor(tensor).name);
      if (!inner || index(*inner) >= parts_[part].inputs.size())
        throw GraphError(fmt::format("part {}: tensor '{}' comes from nowhere", part, own.tensor(tensor).name));
      tensor = parts_[part].inputs[index(*inner)];  // a part's first tensors are its inputs, in order
      part = kWhole;
    }
  }

  std::optional<std::size_t> earliest(const OpGraph& graph, OpId op) const {
    const auto place = places_.find(graph.op(op).name);
    if (place != places_.end()) return place->second;
    std::optional<std::size_t> least;
    for (const auto& region : graph.op(op).regions)
      for (const OpId inner : region->ops())
        if (const auto own = earliest(*region, inner)) least = least ? std::min(*least, *own) : *own;
    return least;
  }

  /// An op that the optimiser made up stands where its latest operand does.
  std::size_t order_of(std::size_t part, OpId op, const std::vector<Piece>& before) const {
    if (const auto known = earliest(optimised_[part], op)) return *known;
    std::size_t latest = 0;
    for (const TensorId input : optimised_[part].op(op).inputs)
      if (const auto maker = optimised_[part].producer(input)) latest = std::max(latest, before[index(*maker)].order);
    return latest;
  }

  std::span<const TensorId> add(const Piece& piece) {
    const OpGraph& own = optimised_[piece.part];
    OpNode node = own.op(piece.op);
    std::vector<models::Tensor> outputs;
    for (const TensorId output : node.outputs) outputs.push_back(own.tensor(output));
    for (TensorId& input : node.inputs) input = now_.at(source_of(piece.part, input));
    node.outputs.clear();
    while (!names_.insert(node.name).second) node.name += fmt::format(".part{}", piece.part);
    const OpId added = out_.add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < own.op(piece.op).outputs.size(); ++i)
      now_[{piece.part, own.op(piece.op).outputs[i]}] = out_.op(added).outputs[i];
    return own.op(piece.op).outputs;
  }

  const OpGraph& graph_;
  std::span<const Subgraph> parts_;
  std::span<const OpGraph> optimised_;
  OpGraph out_;
  std::unordered_map<std::string, std::size_t> places_;
  std::set<std::string> names_;
  std::map<TensorId, Source> made_by_;
  std::map<Source, TensorId> now_;
};

}  // namespace

std::vector<std::int32_t> partition(const OpGraph& graph, std::int64_t parts, std::int64_t tries,
                                    const sim::RandomStream& random) {
  const std::size_t wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, parts));
  const double saturated = 2.0 * static_cast<double>(graph.op_count()) / static_cast<double>(wanted);
  std::vector<std::size_t> best;
  for (std::int64_t attempt = 0; attempt < tries; ++attempt) {
    sim::RandomStream stream = random.child(static_cast<std::uint64_t>(attempt));
    Groups groups(graph);
    while (groups.count() > wanted && groups.contract(saturated, stream)) {
    }
    if (best.empty() || imbalance(groups.of()) < imbalance(best)) best = groups.of();
  }
  std::vector<std::int32_t> numbered;
  std::map<std::size_t, std::int32_t> numbers;
  for (const std::size_t group : best)
    numbered.push_back(numbers.try_emplace(group, static_cast<std::int32_t>(numbers.size())).first->second);
  return numbered;
}

std::vector<Subgraph> cut(const OpGraph& graph, std::span<const std::int32_t> part_of) {
  std::vector<std::vector<OpId>> members;
  for (const OpId op : graph.ops()) {
    const auto part = static_cast<std::size_t>(part_of[index(op)]);
    if (part >= members.size()) members.resize(part + 1);
    members[part].push_back(op);
  }
  std::vector<Subgraph> parts;
  for (const std::vector<OpId>& ops : members) {
    Subgraph part = models::extract(graph, ops, fmt::format("{}.part{}", graph.name, parts.size()));
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const models::TensorRole role = graph.tensor(part.inputs[i]).role;
      if (role != models::TensorRole::activation) part.graph.annotate(static_cast<TensorId>(i)).role = role;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

OpGraph assemble(const OpGraph& graph, std::span<const Subgraph> parts, std::span<const OpGraph> optimised) {
  return Assembly(graph, parts, optimised).run();
}

}  // namespace orrery::policies::proteus
