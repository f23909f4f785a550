#include "experiments/systems/training/reserved.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "models/graph/liveness.hpp"
#include "policies/memory/caching_allocator.hpp"

namespace orrery::experiments::training {
namespace {

using models::index;
using models::OpId;
using models::Phase;
using models::TensorId;
using models::TensorRole;

/// What is allocated beside storages of the graph.
constexpr std::int32_t kStream = -1;          // what a part hands to the next
constexpr std::int32_t kGradientStream = -2;  // its gradient, which the part gets back
constexpr std::int64_t kBucket = 25 << 20;    // of PyTorch's DDP
constexpr std::int32_t kAgain = -3;           // the stream of a layer that runs again

/// Whose a storage is, as the part that runs sees it: its own, the part's before it, the chunk's first's or last's.
enum class Owner : std::uint8_t { own, before, first, last };

struct Ref {
  std::int32_t id = 0;
  Owner owner = Owner::own;
};

struct Event {
  enum class Kind : std::uint8_t { allocate, release, take, gradient, scratch };
  Kind kind = Kind::allocate;
  Ref what, from;  ///< `take`: what lies where `from` lay
  std::int64_t bytes = 0;
};
using Program = std::vector<Event>;

struct Parameter {
  std::int32_t id = 0;
  std::int64_t elements = 0, bytes = 0;
  std::int64_t states = 0;  ///< of 4 bytes an element each
};

/// What the parts of a model allocate, op by op.
class Programs {
 public:
  Programs(const LayerGraph& layer, const models::Bindings& sizes, Recompute recompute)
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
      forward_[training::index(part)] = pass(part, Phase::forward, false);
      backward_[training::index(part)] = pass(part, Phase::backward, false);
      if (!again) continue;
      forward_again_ = pass(part, Phase::forward, true);
      backward_again_ = replay();
      for (const Event& event : backward_[training::index(part)]) backward_again_.push_back(event);
    }
    find_parameters();
    for (const std::optional<std::size_t> stream : {stream_in_, stream_out_})
      if (stream) stream_bytes_ = std::max(stream_bytes_, bytes(*stream));
  }

  const Program& forward(PartName part, bool again) const {
    return again && part == PartName::layer ? forward_again_ : forward_[training::index(part)];
  }
  const Program& backward(PartName part, bool again) const {
    return again && part == PartName::layer ? backward_again_ : backward_[training::index(part)];
  }
  const std::vector<Parameter>& parameters(PartName part) const { return parameters_[training::index(part)]; }
  std::int64_t stream_bytes() const { return stream_bytes_; }

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

  Ref ref(std::size_t storage, PartName user) const {
    const auto is = [&](const std::optional<std::size_t>& one) { return one && *one == storage; };
    const PartName maker = part_of(*storages_.all()[storage].maker);
    if (is(stream_in_) || is(stream_out_)) return {kStream, maker == user ? Owner::own : Owner::before};
    // A gradient lies with the part that reads it.
    if (is(gradient_in_) || is(gradient_out_)) return {kGradientStream, maker == user ? Owner::before : Owner::own};
    const auto id = static_cast<std::int32_t>(storage);
    // What a layer makes for the head alone is there once.
    if (maker == PartName::layer && for_head(storage)) return {id, Owner::last};
    if (maker == user) return {id, Owner::own};
    return {id, maker == PartName::embedding ? Owner::first : maker == PartName::head ? Owner::last : Owner::before};
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
    const Ref held = ref(from, part);
    return !(again && held.id == kStream && held.owner == Owner::before);
  }

  void add_op(OpId op, PartName part, Phase phase, bool again, bool replayed, Program& out) const {
    const auto makes = [&](std::size_t s) { return bytes(s) > 0; };
    for (const std::size_t s : storages_.made_by(op)) {
      if (!makes(s)) continue;
      Ref what = ref(s, part);
      if (replayed && what.id == kStream) what.id = kAgain;
      if (gradient_[s])
        out.push_back({.kind = Event::Kind::gradient, .what = {parameter_of(s)}, .bytes = bytes(s)});
      else if (taken_[s] >= 0 && may_take(static_cast<std::size_t>(taken_[s]), part, again || replayed))
        out.push_back({.kind = Event::Kind::take,
                       .what = what,
                       .from = ref(static_cast<std::size_t>(taken_[s]), part),
                       .bytes = bytes(s)});
      else
        out.push_back({.kind = Event::Kind::allocate, .what = what, .bytes = bytes(s)});
    }
    if (scratch_[index(op)] > 0) out.push_back({.kind = Event::Kind::scratch, .bytes = scratch_[index(op)]});
    const auto release = [&](std::size_t s) {
      const models::Storage& storage = storages_.all()[s];
      if (!storage.maker || gradient_[s] || !makes(s)) return;
      if (replayed && (part_of(*storage.maker) != part || !dropped(s))) return;
      if (ends(s, op, part, phase, again)) out.push_back({.kind = Event::Kind::release, .what = ref(s, part)});
    };
    for (const std::size_t s : storages_.read_by(op)) release(s);
    for (const std::size_t s : storages_.made_by(op))
      if (storages_.all()[s].uses.empty()) release(s);
  }

  Program pass(PartName part, Phase phase, bool again) const {
    Program out;
    for (const OpId op : graph_.ops())
      if (part_of(op) == part && phase_of(op) == phase) add_op(op, part, phase, again, false, out);
    return out;
  }

  /// The layer's forward ops that run again before its backward ops.
  Program replay() const {
    Program out;
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
      Parameter own{static_cast<std::int32_t>(index(id)), graph_.tensor(id).elements().eval(sizes_),
                    graph_.tensor(id).bytes().eval(sizes_), 0};
      for (const OpId reader : graph_.consumers(id)) {
        if (phase_of(reader) == Phase::forward) readers[training::index(part_of(reader))] = true;
        if (phase_of(reader) != Phase::optimizer) continue;
        for (const TensorId input : graph_.op(reader).inputs)
          if (graph_.tensor(input).role == TensorRole::state) ++own.states;
      }
      for (std::size_t i = 0; i < kParts; ++i)
        if (readers[i]) parameters_[i].push_back(own);
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
  std::int64_t stream_bytes_ = 0;
  std::array<Program, kParts> forward_, backward_;
  Program forward_again_, backward_again_;
  std::array<std::vector<Parameter>, kParts> parameters_;
};

/// A rank whose tensors come and go.
class Rank {
 public:
  Rank(const Programs& programs, const Plan& plan, const StageCosts& stage, std::int64_t again, std::int64_t capacity)
      : programs_(programs), plan_(plan), allocator_(capacity) {
    for (const ChunkCosts& chunk : stage.chunks) {
      Chunk own{std::ssize(positions_), 0, chunk.first, chunk.last};
      // What comes from the stage before lies in the embedding's place.
      positions_.push_back({PartName::embedding, false, chunk.first});
      for (std::int64_t l = 0; l < chunk.layers; ++l) positions_.push_back({PartName::layer, again-- > 0, true});
      positions_.push_back({PartName::head, false, chunk.last});
      own.last = std::ssize(positions_) - 1;
      chunks_.push_back(own);
    }
    set_up();
  }

  Reserved run(const PassOrder& passes) {
    for (int step = 0; step < 2; ++step) {
      micro_batches_.assign(positions_.size(), 0);
      for (const policies::StagePass& pass : passes)
        pass.kind == policies::PassKind::forward ? forward(pass) : backward(pass);
      update(step == 0);
    }
    return {allocator_.peak_allocated(), allocator_.peak_reserved(), allocator_.exceeded()};
  }

 private:
  using Block = policies::CachingAllocator::Block;
  struct Position {
    PartName part = PartName::layer;
    bool again = false, there = true;
  };
  struct Chunk {
    std::int64_t first = 0, last = 0;
    bool has_first = false, has_last = false;
  };
  /// Micro-batch, position, what.
  using Key = std::tuple<std::int32_t, std::int64_t, std::int32_t>;

  /// Of the optimizer's states, which copies may share out.
  std::int64_t state_share(std::int64_t bytes) const {
    return plan_.zero != Zero::none ? (bytes + plan_.copies() - 1) / plan_.copies() : bytes;
  }
  std::int64_t gradient_bytes(const Parameter& own) const {
    return plan_.gradients_fp32 ? 4 * own.elements : own.bytes;
  }
  /// Parameters of the rank, with their positions; a table that embedding and head both read is there once.
  template <class Act>
  void each_parameter(Act act) const {
    const bool first =
        std::ranges::any_of(positions_, [](const Position& at) { return at.there && at.part == PartName::embedding; });
    const std::vector<Parameter>& tables = programs_.parameters(PartName::embedding);
    for (std::int64_t at = 0; at < std::ssize(positions_); ++at) {
      const Position& position = positions_[static_cast<std::size_t>(at)];
      if (!position.there) continue;
      for (const Parameter& own : programs_.parameters(position.part)) {
        const bool again = position.part == PartName::head && first &&
                           std::ranges::any_of(tables, [&](const Parameter& table) { return table.id == own.id; });
        if (!again) act(own, at);
      }
    }
  }

  void keep(std::int64_t bytes) { (void)allocator_.allocate(std::max<std::int64_t>(1, bytes)); }

  void set_up() {
    std::int64_t gradients = 0;
    each_parameter([&](const Parameter& own, std::int64_t) {
      keep(own.bytes);
      gradients += gradient_bytes(own);
    });
    for (std::int64_t left = plan_.gradient_buckets && plan_.copies() > 1 ? gradients : 0; left > 0; left -= kBucket)
      keep(std::min(left, kBucket));
    each_parameter([&](const Parameter& own, std::int64_t) {
      if (own.states > 2) keep(state_share(4 * own.elements));  // the fp32 copy
    });
    if (!plan_.gradients_anew) each_parameter([&](const Parameter& own, std::int64_t) { keep(gradient_bytes(own)); });
  }

  void put(const Key& key, std::int64_t bytes) {
    release(key);
    held_[key] = allocator_.allocate(bytes);
  }
  void release(const Key& key) {
    const auto found = held_.find(key);
    if (found == held_.end()) return;
    allocator_.free(found->second);
    held_.erase(found);
  }
  /// All that a position still has of a micro-batch.
  void clear(std::int32_t micro, std::int64_t position) {
    auto at = held_.lower_bound({micro, position, std::numeric_limits<std::int32_t>::min()});
    while (at != held_.end() && std::get<0>(at->first) == micro && std::get<1>(at->first) == position) {
      allocator_.free(at->second);
      at = held_.erase(at);
    }
  }

  Key key(const Ref& what, std::int32_t micro, std::int64_t position, const Chunk& chunk) const {
    switch (what.owner) {
      case Owner::own:
        return {micro, position, what.id};
      case Owner::before:
        return {micro, position - 1, what.id};
      case Owner::first:
        return {micro, chunk.first, what.id};
      case Owner::last:
        return {micro, chunk.last, what.id};
    }
    return {};
  }

  void play(const Program& program, std::int32_t micro, std::int64_t position, const Chunk& chunk) {
    for (const Event& event : program) {
      const Key own = key(event.what, micro, position, chunk);
      switch (event.kind) {
        case Event::Kind::allocate:
          put(own, event.bytes);
          break;
        case Event::Kind::release:
          release(own);
          break;
        case Event::Kind::take:
          take(own, key(event.from, micro, position, chunk), event.bytes);
          break;
        case Event::Kind::gradient:
          gradient(event.what.id, event.bytes, position);
          break;
        case Event::Kind::scratch:
          allocator_.free(allocator_.allocate(event.bytes));
          break;
      }
    }
  }

  void take(const Key& own, const Key& from, std::int64_t bytes) {
    const auto found = held_.find(from);
    if (found == held_.end()) return put(own, bytes);
    const Block block = found->second;
    held_.erase(found);
    release(own);
    held_[own] = block;
  }

  /// The first micro-batch's gradients stay where they are made anew; others are added to what is there.
  void gradient(std::int32_t parameter, std::int64_t bytes, std::int64_t position) {
    const bool first = micro_batches_[static_cast<std::size_t>(position)] == 0;
    const Block block = allocator_.allocate(bytes);
    if (plan_.gradients_anew && first)
      gradients_[{position, parameter}].push_back(block);
    else
      allocator_.free(block);
  }

  void free_gradients(std::int64_t position, std::int32_t parameter) {
    const auto found = gradients_.find({position, parameter});
    if (found == gradients_.end()) return;
    for (const Block block : found->second) allocator_.free(block);
    gradients_.erase(found);
  }

  void forward(const policies::StagePass& pass) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(pass.chunk)];
    if (!chunk.has_first) put({pass.micro_batch, chunk.first, kStream}, programs_.stream_bytes());
    for (std::int64_t at = chunk.first; at <= chunk.last; ++at) {
      const Position& own = positions_[static_cast<std::size_t>(at)];
      if (!own.there) continue;
      play(programs_.forward(own.part, own.again), pass.micro_batch, at, chunk);
    }
  }

  void backward(const policies::StagePass& pass) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(pass.chunk)];
    if (!chunk.has_last) put({pass.micro_batch, chunk.last - 1, kGradientStream}, programs_.stream_bytes());
    for (std::int64_t at = chunk.last; at >= chunk.first; --at) {
      const Position& own = positions_[static_cast<std::size_t>(at)];
      if (own.there) {
        play(programs_.backward(own.part, own.again), pass.micro_batch, at, chunk);
        ++micro_batches_[static_cast<std::size_t>(at)];
      }
      if (at != chunk.last) clear(pass.micro_batch, at);
    }
    clear(pass.micro_batch, chunk.last);  // the embedding reads the head's gradient of a table that they share
  }

  void update(bool first) {
    std::vector<Block> wide;
    std::int64_t largest = 0;
    each_parameter([&](const Parameter& own, std::int64_t at) {
      if (!plan_.update_apart || gradient_bytes(own) >= 4 * own.elements) return;
      wide.push_back(allocator_.allocate(state_share(4 * own.elements)));
      free_gradients(at, own.id);  // once it is widened
      largest = std::max(largest, own.bytes);
    });
    if (first)
      each_parameter([&](const Parameter& own, std::int64_t) {
        for (int moment = 0; moment < 2; ++moment) keep(state_share(4 * own.elements));
      });
    if (largest > 0) allocator_.free(allocator_.allocate(largest));
    for (const Block block : wide) allocator_.free(block);
    for (const auto& [parameter, blocks] : gradients_)
      for (const Block block : blocks) allocator_.free(block);
    gradients_.clear();
  }

  const Programs& programs_;
  const Plan& plan_;
  policies::CachingAllocator allocator_;
  std::vector<Position> positions_;
  std::vector<Chunk> chunks_;
  std::map<Key, Block> held_;
  std::map<std::pair<std::int64_t, std::int32_t>, std::vector<Block>> gradients_;  ///< by position and parameter
  std::vector<std::int64_t> micro_batches_;                                        ///< by position, of this step
};

}  // namespace

PassOrder passes_of(const StepRun& run, std::int64_t stage) {
  PassOrder order;
  for (const PassRun& pass : run.passes)
    if (pass.stage == stage) order.push_back(pass.pass);
  return order;
}

std::optional<Reserved> reserved_memory(const LayerGraph& layer, const models::Bindings& sizes, const Plan& plan,
                                        const StageCosts& stage, std::int64_t again, const PassOrder& passes,
                                        std::int64_t capacity) {
  const bool halves = std::ranges::any_of(passes, [](const policies::StagePass& pass) {
    return pass.kind != policies::PassKind::forward && pass.kind != policies::PassKind::backward;
  });
  const bool shared = plan.copies() > 1 || plan.expert_copies() > 1;
  if (halves || (shared && plan.zero >= Zero::gradients) || stage.host_bytes(0) > 0) return std::nullopt;
  if (plan.experts > 1 && plan.zero != Zero::none) return std::nullopt;
  for (const ChunkCosts& chunk : stage.chunks)
    if (chunk.host_bytes > 0) return std::nullopt;
  const Programs programs(layer, sizes, plan.recompute);
  return Rank(programs, plan, stage, again, capacity).run(passes);
}

}  // namespace orrery::experiments::training
