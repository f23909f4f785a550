#include "experiments/systems/training/part_programs.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "models/graph/liveness.hpp"

namespace orrery::experiments::training {
namespace {

using models::index;
using models::OpId;
using models::Phase;
using models::TensorId;
using models::TensorRole;

/// What the parts of a model allocate, op by op.
class Builder {
 public:
  Builder(const LayerGraph& layer, const models::Bindings& sizes, Recompute recompute)
      : layer_(layer),
        graph_(layer.graph),
        sizes_(sizes),
        recompute_(recompute),
        storages_(graph_),
        taken_(storages_.all().size(), -1),
        gradient_(storages_.all().size(), false) {
    takeovers();
    find_gradients();
    stream_in_ = handed(PartName::embedding, PartName::layer, Phase::forward);
    stream_out_ = handed(PartName::layer, PartName::head, Phase::forward);
    gradient_out_ = handed(PartName::head, PartName::layer, Phase::backward);
    gradient_in_ = handed(PartName::layer, PartName::embedding, Phase::backward);
    for (const PartName part : {PartName::embedding, PartName::layer, PartName::head}) {
      const bool again = part == PartName::layer && recompute_ != Recompute::none;
      out_.forwards[training::index(part)] = pass(part, Phase::forward, false);
      out_.backwards[training::index(part)] = pass(part, Phase::backward, false);
      if (!again) continue;
      out_.forward_again = pass(part, Phase::forward, true);
      out_.backward_again = replay();
      for (const MemoryEvent& event : out_.backwards[training::index(part)]) out_.backward_again.push_back(event);
    }
    find_parameters();
    for (const std::optional<std::size_t> stream : {stream_in_, stream_out_})
      if (stream) out_.stream_bytes = std::max(out_.stream_bytes, bytes(*stream));
  }

  PartPrograms take() { return std::move(out_); }

 private:
  std::int64_t bytes(std::size_t storage) const { return storages_.bytes(storage).eval(sizes_); }
  PartName part_of(OpId op) const { return layer_.places[index(op)].part; }
  Phase phase_of(OpId op) const { return graph_.op(op).phase; }
  const OpPlace& place(OpId op) const { return layer_.places[index(op)]; }

  /// Which storage lies where another lay, as liveness has it.
  void takeovers() {
    const models::Liveness live = models::liveness(storages_, sizes_);
    scratch_.assign(graph_.op_count(), 0);
    for (const models::Lifetime& life : live.lifetimes) {
      if (!life.tensor) {
        if (life.begin < std::ssize(scratch_)) scratch_[static_cast<std::size_t>(life.begin)] += life.bytes;
        continue;
      }
      if (!life.in_place_of) continue;
      const auto& before = live.lifetimes[static_cast<std::size_t>(*life.in_place_of)];
      if (before.tensor) taken_[storages_.of(*life.tensor)] = static_cast<std::int32_t>(storages_.of(*before.tensor));
    }
  }

  void find_gradients() {
    for (std::size_t s = 0; s < storages_.all().size(); ++s) {
      const models::Storage& storage = storages_.all()[s];
      gradient_[s] = storage.maker && phase_of(*storage.maker) == Phase::backward &&
                     std::ranges::any_of(storage.uses, [&](OpId use) { return phase_of(use) == Phase::optimizer; });
    }
  }

  /// What ops of `from` make and ops of `to` read: the largest of it in the weights' type, else of all.
  std::optional<std::size_t> handed(PartName from, PartName to, Phase phase) const {
    std::optional<std::size_t> most;
    const hw::DType weights = product_type(graph_);
    const auto rank = [&](std::size_t s) {
      return std::pair(models::dtype_of(graph_.tensor(storages_.all()[s].tensor).type) == weights, bytes(s));
    };
    for (std::size_t s = 0; s < storages_.all().size(); ++s) {
      const models::Storage& storage = storages_.all()[s];
      if (!storage.maker || part_of(*storage.maker) != from || phase_of(*storage.maker) != phase || gradient_[s])
        continue;
      if (graph_.tensor(storage.tensor).elements().constant()) continue;  // tables that do not go by tokens
      const bool read =
          std::ranges::any_of(storage.uses, [&](OpId use) { return part_of(use) == to && phase_of(use) == phase; });
      if (read && (!most || rank(s) > rank(*most))) most = s;
    }
    return most;
  }

  StorageRef ref(std::size_t storage, PartName user) const {
    const auto is = [&](const std::optional<std::size_t>& one) { return one && *one == storage; };
    const PartName maker = part_of(*storages_.all()[storage].maker);
    if (is(stream_in_) || is(stream_out_)) return {kStream, maker == user ? StorageOwner::own : StorageOwner::before};
    // A gradient lies with the part that reads it.
    if (is(gradient_in_) || is(gradient_out_))
      return {kGradientStream, maker == user ? StorageOwner::before : StorageOwner::own};
    const auto id = static_cast<std::int32_t>(storage);
    // What a layer makes for the head alone is there once.
    if (maker == PartName::layer && for_head(storage)) return {id, StorageOwner::last};
    if (maker == user) return {id, StorageOwner::own};
    return {id, maker == PartName::embedding ? StorageOwner::first
                : maker == PartName::head    ? StorageOwner::last
                                             : StorageOwner::before};
  }

  bool for_head(std::size_t storage) const {
    const auto& uses = storages_.all()[storage].uses;
    return !uses.empty() && std::ranges::all_of(uses, [&](OpId use) { return part_of(use) == PartName::head; });
  }

  /// The last op of a phase, and of a part where one is given, that reads a storage.
  std::optional<OpId> last_use(std::size_t storage, Phase phase, std::optional<PartName> part = {}) const {
    std::optional<OpId> last;
    for (const OpId use : storages_.all()[storage].uses)
      if (phase_of(use) == phase && (!part || part_of(use) == *part)) last = use;
    return last;
  }

  /// Whether the forward pass that runs again leaves it out at first.
  bool dropped(std::size_t storage) const {
    const OpPlace& made = place(*storages_.all()[storage].maker);
    switch (recompute_) {
      case Recompute::full:
        return true;
      case Recompute::selective:
        return made.core;
      case Recompute::by_op:
        return made.by_op;
      case Recompute::none:
        break;
    }
    return false;
  }

  /// Whether `op`, of `part`, is the last that needs it in this pass, and nobody does later.
  bool ends(std::size_t storage, OpId op, PartName part, Phase phase, bool again) const {
    const models::Storage& own = storages_.all()[storage];
    const bool stream = ref(storage, part).id < 0;
    const auto of_part = stream && part_of(*own.maker) != part ? std::optional(part) : std::nullopt;
    if (stream && !of_part && last_use(storage, phase == Phase::forward ? Phase::forward : Phase::backward, part) != op)
      return false;
    const auto backward = last_use(storage, Phase::backward, of_part);
    if (phase == Phase::backward) return backward ? *backward == op : !stream || of_part;
    if (stream) return of_part && !backward && !again && last_use(storage, Phase::forward, of_part) == op;
    const bool kept = backward && !(again && dropped(storage));
    if (kept) return false;
    // Recomputation by op keeps all that the other ops make.
    if (again && recompute_ == Recompute::by_op && !dropped(storage)) return false;
    return last_use(storage, Phase::forward).value_or(*own.maker) == op;
  }

  /// Whether something may lie where a storage lay: a layer that runs again keeps what it was given.
  bool may_take(std::size_t from, PartName part, bool again) const {
    if (gradient_[from]) return false;
    const StorageRef held = ref(from, part);
    return !(again && held.id == kStream && held.owner == StorageOwner::before);
  }

  void add_op(OpId op, PartName part, Phase phase, bool again, bool replayed, MemoryProgram& out) const {
    const auto makes = [&](std::size_t s) { return bytes(s) > 0; };
    for (const std::size_t s : storages_.made_by(op)) {
      if (!makes(s)) continue;
      StorageRef what = ref(s, part);
      if (replayed && what.id == kStream) what.id = kAgain;
      if (gradient_[s])
        out.push_back({.kind = MemoryEvent::Kind::gradient, .what = {parameter_of(s)}, .bytes = bytes(s)});
      else if (taken_[s] >= 0 && may_take(static_cast<std::size_t>(taken_[s]), part, again || replayed))
        out.push_back({.kind = MemoryEvent::Kind::take,
                       .what = what,
                       .from = ref(static_cast<std::size_t>(taken_[s]), part),
                       .bytes = bytes(s)});
      else
        out.push_back({.kind = MemoryEvent::Kind::allocate, .what = what, .bytes = bytes(s)});
    }
    if (scratch_[index(op)] > 0) out.push_back({.kind = MemoryEvent::Kind::scratch, .bytes = scratch_[index(op)]});
    const auto release = [&](std::size_t s) {
      const models::Storage& storage = storages_.all()[s];
      if (!storage.maker || gradient_[s] || !makes(s)) return;
      if (replayed && (part_of(*storage.maker) != part || !dropped(s))) return;
      if (ends(s, op, part, phase, again)) out.push_back({.kind = MemoryEvent::Kind::release, .what = ref(s, part)});
    };
    for (const std::size_t s : storages_.read_by(op)) release(s);
    for (const std::size_t s : storages_.made_by(op))
      if (storages_.all()[s].uses.empty()) release(s);
  }

  MemoryProgram pass(PartName part, Phase phase, bool again) const {
    MemoryProgram out;
    for (const OpId op : graph_.ops())
      if (part_of(op) == part && phase_of(op) == phase) add_op(op, part, phase, again, false, out);
    return out;
  }

  /// The layer's forward ops that run again before its backward ops.
  MemoryProgram replay() const {
    MemoryProgram out;
    for (const OpId op : graph_.ops()) {
      if (part_of(op) != PartName::layer || phase_of(op) != Phase::forward) continue;
      const bool runs = recompute_ == Recompute::full || (recompute_ == Recompute::selective && place(op).core) ||
                        (recompute_ == Recompute::by_op && place(op).by_op);
      if (runs) add_op(op, PartName::layer, Phase::forward, false, true, out);
    }
    return out;
  }

  /// Number of the parameter whose gradient a storage is: an optimizer's step reads both, maybe behind a cast.
  std::int32_t parameter_of(std::size_t storage) const {
    for (OpId op : storages_.all()[storage].uses) {
      if (phase_of(op) != Phase::optimizer) continue;
      for (int hops = 0; hops < 4; ++hops) {
        for (const TensorId input : graph_.op(op).inputs)
          if (graph_.tensor(input).role == TensorRole::parameter) return static_cast<std::int32_t>(index(input));
        const auto readers = graph_.consumers(graph_.op(op).outputs.front());
        if (readers.begin() == readers.end()) break;
        op = *readers.begin();
      }
    }
    return -1;
  }

  void find_parameters() {
    for (const TensorId id : graph_.with_role(TensorRole::parameter)) {
      std::array<bool, kParts> readers{};
      HeldParameter own{static_cast<std::int32_t>(index(id)), graph_.tensor(id).elements().eval(sizes_),
                        graph_.tensor(id).bytes().eval(sizes_), 0};
      for (const OpId reader : graph_.consumers(id)) {
        if (phase_of(reader) == Phase::forward) readers[training::index(part_of(reader))] = true;
        if (phase_of(reader) != Phase::optimizer) continue;
        for (const TensorId input : graph_.op(reader).inputs)
          if (graph_.tensor(input).role == TensorRole::state) ++own.states;
      }
      for (std::size_t i = 0; i < kParts; ++i)
        if (readers[i]) out_.held[i].push_back(own);
    }
  }

  const LayerGraph& layer_;
  const models::OpGraph& graph_;
  const models::Bindings& sizes_;
  Recompute recompute_;
  models::Storages storages_;
  std::vector<std::int32_t> taken_;    ///< by storage: whose place it takes; -1: nobody's
  std::vector<bool> gradient_;         ///< by storage: of a parameter
  std::vector<std::int64_t> scratch_;  ///< by op
  std::optional<std::size_t> stream_in_, stream_out_, gradient_in_, gradient_out_;
  PartPrograms out_;
};

}  // namespace

PartPrograms part_programs(const LayerGraph& layer, const models::Bindings& sizes, Recompute recompute) {
  return Builder(layer, sizes, recompute).take();
}

}  // namespace orrery::experiments::training
