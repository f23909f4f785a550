#include "policies/memory/remat.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "models/graph/op_work.hpp"

namespace orrery::policies {
namespace {

using models::index;
using models::OpId;
using models::OpKind;

constexpr std::int64_t kMostIngredients = 64;  // what takes more to bring back is not worth a look
constexpr std::size_t kMostOps = 10;           // times the ops of the graph

}  // namespace

bool repeatable(const models::OpNode& op) {
  const models::Pattern pattern = models::info(op.kind).pattern;
  if (pattern == models::Pattern::communication) return false;
  switch (op.kind) {
    case OpKind::branch:
    case OpKind::loop:
    case OpKind::sampling:
    case OpKind::optimizer_step:
    case OpKind::kv_write:
    case OpKind::custom:
      return false;
    default:
      return op.find("updates") == nullptr;
  }
}

namespace {

class Walk {
 public:
  Walk(const models::Storages& storages, const models::Bindings& bindings, std::int64_t limit,
       const std::vector<double>& op_s, const std::vector<bool>& may_drop, const DropScore& score)
      : storages_(storages), limit_(limit), op_s_(op_s), may_drop_(may_drop), score_(score) {
    const std::size_t count = storages.all().size();
    bytes_.resize(count);
    next_use_.assign(count, 0);
    resident_.assign(count, false);
    pinned_.assign(count, 0);
    counted_.assign(count, 0);
    overwritten_.assign(count, std::numeric_limits<std::size_t>::max());
    for (std::size_t i = 0; i < count; ++i) {
      const models::Storage& storage = storages.all()[i];
      bytes_[i] = storage.maker ? models::bytes_of(storages.graph(), storage.tensor, bindings) : 0;
      resident_[i] = !storage.maker;
    }
    for (const OpId id : storages.graph().ops())
      if (!storages.before(id).empty())
        for (const std::size_t read : storages.read_by(id))
          if (storages.graph().op(id).find("updates") != nullptr) overwritten_[read] = index(id);
  }

  RematResult run() {
    for (const OpId id : storages_.graph().ops()) {
      step(id);
      if (result_.gave_up) break;
    }
    return std::move(result_);
  }

 private:
  const models::Storage& storage(std::size_t i) const { return storages_.all()[i]; }
  bool is_view(OpId id) const { return models::info(storages_.graph().op(id).kind).pattern == models::Pattern::view; }
  bool read_later(std::size_t i) const { return storage(i).kept || next_use_[i] < storage(i).uses.size(); }

  void step(OpId id) {
    now_ = index(id);
    for (const std::size_t read : storages_.read_by(id)) ++pinned_[read];
    for (const std::size_t read : storages_.read_by(id))
      if (!resident_[read]) bring_back(read);
    make(id, false);
    for (const std::size_t read : storages_.read_by(id)) {
      --pinned_[read];
      ++next_use_[read];
      release(read);
    }
    for (const std::size_t made : storages_.made_by(id)) release(made);
  }

  /// Runs an op: for the first time, or again for the sake of `wanted`.
  void make(OpId id, bool again, std::size_t wanted = 0) {
    std::int64_t need = 0;
    for (const std::size_t made : storages_.made_by(id)) need += bytes_[made];
    make_room(need);
    if (live_ + need > limit_) result_.within_limit = false;
    result_.ops.push_back(id);
    if (again) {
      ++result_.again;
      result_.again_s += op_s_[index(id)];
      resident_[wanted] = true;
      live_ += bytes_[wanted];
      return;  // its other outputs are thrown away, or there already
    }
    for (const std::size_t made : storages_.made_by(id)) {
      resident_[made] = true;
      live_ += bytes_[made];
    }
  }

  void bring_back(std::size_t i) {
    result_.gave_up = result_.gave_up || result_.ops.size() > kMostOps * storages_.graph().op_count();
    if (result_.gave_up) return;
    const OpId maker = *storage(i).maker;
    for (const std::size_t read : storages_.read_by(maker)) ++pinned_[read];
    for (const std::size_t read : storages_.read_by(maker))
      if (!resident_[read]) bring_back(read);
    make(maker, true, i);
    renew_views(i);
    for (const std::size_t read : storages_.read_by(maker)) {
      --pinned_[read];
      release(read);
    }
  }

  /// Views of a storage made again show the old one until they are made again too.
  void renew_views(std::size_t i) {
    for (const OpId use : storage(i).uses) {
      if (index(use) >= now_) break;
      if (is_view(use)) result_.ops.push_back(use);
    }
  }

  void release(std::size_t i) {
    if (!resident_[i] || pinned_[i] > 0 || !storage(i).maker || read_later(i)) return;
    resident_[i] = false;
    live_ -= bytes_[i];
  }

  void make_room(std::int64_t need) {
    while (live_ + need > limit_) {
      std::optional<std::size_t> victim;
      double most = 0;
      for (std::size_t i = 0; i < bytes_.size(); ++i) {
        const std::optional<Droppable> found = droppable(i);
        if (!found) continue;
        const double value = score_(*found);
        if (value <= most) continue;
        most = value;
        victim = i;
      }
      if (!victim) return;
      resident_[*victim] = false;
      live_ -= bytes_[*victim];
      ++result_.dropped;
    }
  }

  std::optional<Droppable> droppable(std::size_t i) const {
    if (!resident_[i] || pinned_[i] > 0 || bytes_[i] == 0 || !storage(i).maker || storage(i).kept || !read_later(i))
      return std::nullopt;
    if (!may_drop_.empty() && !may_drop_[i]) return std::nullopt;
    const std::size_t next = index(storage(i).uses[next_use_[i]]);
    Droppable out{.storage = i,
                  .bytes = bytes_[i],
                  .uses_left = static_cast<std::int64_t>(storage(i).uses.size() - next_use_[i]),
                  .steps_away = static_cast<std::int64_t>(next - now_)};
    ++round_;
    std::int64_t ingredients = 0;
    if (!cost(i, next, 1, ingredients, out)) return std::nullopt;
    return out;
  }

  /// Adds what bringing back storage `i` before step `next` takes; false if it cannot be.
  bool cost(std::size_t i, std::size_t next, std::int64_t depth, std::int64_t& ingredients, Droppable& out) const {
    if (counted_[i] == round_) return true;
    counted_[i] = round_;
    const OpId maker = *storage(i).maker;
    if (++ingredients > kMostIngredients || !repeatable(storages_.graph().op(maker))) return false;
    out.depth = std::max(out.depth, depth);
    out.regenerate_s += op_s_[index(maker)];
    for (const std::size_t read : storages_.read_by(maker)) {
      if (overwritten_[read] < next) return false;
      if (!resident_[read] && !cost(read, next, depth + 1, ingredients, out)) return false;
    }
    return true;
  }

  const models::Storages& storages_;
  std::int64_t limit_;
  const std::vector<double>& op_s_;
  const std::vector<bool>& may_drop_;
  const DropScore& score_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::size_t> next_use_;  // index into uses
  std::vector<bool> resident_;
  std::vector<std::int32_t> pinned_;            // operands of ops that run or wait for an ingredient
  std::vector<std::size_t> overwritten_;        // step of the op that updates it
  mutable std::vector<std::uint64_t> counted_;  // round in which a storage's cost was counted last
  mutable std::uint64_t round_ = 0;
  std::int64_t live_ = 0;
  std::size_t now_ = 0;
  RematResult result_;
};

}  // namespace

std::vector<double> op_times(const models::OpGraph& graph, const PassContext& context,
                             const models::Bindings& bindings) {
  std::vector<double> times;
  for (const OpId id : graph.ops()) {
    if (context.cost != nullptr) {
      times.push_back(context.time_s(graph, id, bindings));
      continue;
    }
    const models::OpWork work = models::work(graph, id, bindings);
    times.push_back(static_cast<double>(*work.bytes().constant() + *work.flops().constant()) * 1e-12);
  }
  return times;
}

RematResult run_schedule(const models::Storages& storages, const models::Bindings& bindings, std::int64_t limit,
                         const std::vector<double>& op_s, const std::vector<bool>& may_drop, const DropScore& score) {
  return Walk(storages, bindings, limit, op_s, may_drop, score).run();
}

}  // namespace orrery::policies
