#include "experiments/systems/training/reserved.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "experiments/systems/training/part_programs.hpp"
#include "policies/memory/caching_allocator.hpp"

namespace orrery::experiments::training {
namespace {

constexpr std::int64_t kBucket = 25 << 20;  // of PyTorch's DDP

/// A rank whose tensors come and go.
class Rank {
 public:
  Rank(const PartPrograms& programs, const Plan& plan, const StageCosts& stage, std::int64_t again,
       std::int64_t capacity)
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
  std::int64_t gradient_bytes(const HeldParameter& own) const {
    return plan_.gradients_fp32 ? 4 * own.elements : own.bytes;
  }
  /// Parameters of the rank, with their positions; a table that embedding and head both read is there once.
  template <class Act>
  void each_parameter(Act act) const {
    const bool first =
        std::ranges::any_of(positions_, [](const Position& at) { return at.there && at.part == PartName::embedding; });
    const std::vector<HeldParameter>& tables = programs_.parameters(PartName::embedding);
    for (std::int64_t at = 0; at < std::ssize(positions_); ++at) {
      const Position& position = positions_[static_cast<std::size_t>(at)];
      if (!position.there) continue;
      for (const HeldParameter& own : programs_.parameters(position.part)) {
        const bool again = position.part == PartName::head && first &&
                           std::ranges::any_of(tables, [&](const HeldParameter& table) { return table.id == own.id; });
        if (!again) act(own, at);
      }
    }
  }

  void keep(std::int64_t bytes) { (void)allocator_.allocate(std::max<std::int64_t>(1, bytes)); }

  void set_up() {
    std::int64_t gradients = 0;
    each_parameter([&](const HeldParameter& own, std::int64_t) {
      keep(own.bytes);
      gradients += gradient_bytes(own);
    });
    for (std::int64_t left = plan_.gradient_buckets && plan_.copies() > 1 ? gradients : 0; left > 0; left -= kBucket)
      keep(std::min(left, kBucket));
    each_parameter([&](const HeldParameter& own, std::int64_t) {
      if (own.states > 2) keep(state_share(4 * own.elements));  // the fp32 copy
    });
    if (!plan_.gradients_anew)
      each_parameter([&](const HeldParameter& own, std::int64_t) { keep(gradient_bytes(own)); });
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

  Key key(const StorageRef& what, std::int32_t micro, std::int64_t position, const Chunk& chunk) const {
    switch (what.owner) {
      case StorageOwner::own:
        return {micro, position, what.id};
      case StorageOwner::before:
        return {micro, position - 1, what.id};
      case StorageOwner::first:
        return {micro, chunk.first, what.id};
      case StorageOwner::last:
        return {micro, chunk.last, what.id};
    }
    return {};
  }

  void play(const MemoryProgram& program, std::int32_t micro, std::int64_t position, const Chunk& chunk) {
    for (const MemoryEvent& event : program) {
      const Key own = key(event.what, micro, position, chunk);
      switch (event.kind) {
        case MemoryEvent::Kind::allocate:
          put(own, event.bytes);
          break;
        case MemoryEvent::Kind::release:
          release(own);
          break;
        case MemoryEvent::Kind::take:
          take(own, key(event.from, micro, position, chunk), event.bytes);
          break;
        case MemoryEvent::Kind::gradient:
          gradient(event.what.id, event.bytes, position);
          break;
        case MemoryEvent::Kind::scratch:
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
    if (!chunk.has_first) put({pass.micro_batch, chunk.first, kStream}, programs_.stream_bytes);
    for (std::int64_t at = chunk.first; at <= chunk.last; ++at) {
      const Position& own = positions_[static_cast<std::size_t>(at)];
      if (!own.there) continue;
      play(programs_.forward(own.part, own.again), pass.micro_batch, at, chunk);
    }
  }

  void backward(const policies::StagePass& pass) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(pass.chunk)];
    if (!chunk.has_last) put({pass.micro_batch, chunk.last - 1, kGradientStream}, programs_.stream_bytes);
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
    each_parameter([&](const HeldParameter& own, std::int64_t at) {
      if (!plan_.update_apart || gradient_bytes(own) >= 4 * own.elements) return;
      wide.push_back(allocator_.allocate(state_share(4 * own.elements)));
      free_gradients(at, own.id);  // once it is widened
      largest = std::max(largest, own.bytes);
    });
    if (first)
      each_parameter([&](const HeldParameter& own, std::int64_t) {
        for (int moment = 0; moment < 2; ++moment) keep(state_share(4 * own.elements));
      });
    if (largest > 0) allocator_.free(allocator_.allocate(largest));
    for (const Block block : wide) allocator_.free(block);
    for (const auto& [parameter, blocks] : gradients_)
      for (const Block block : blocks) allocator_.free(block);
    gradients_.clear();
  }

  const PartPrograms& programs_;
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
  const PartPrograms programs = part_programs(layer, sizes, plan.recompute);
  return Rank(programs, plan, stage, again, capacity).run(passes);
}

}  // namespace orrery::experiments::training
