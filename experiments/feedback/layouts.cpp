#include "experiments/feedback/layouts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace orrery::experiments::feedback {
namespace {

constexpr std::int64_t kEveryCount = 16;  ///< nodes, up to which layouts have any number of them

/// Shapes of so many devices.
std::vector<Shape> shapes(std::int64_t devices, std::int64_t node_devices) {
  std::vector<Shape> all;
  for (std::int64_t tensor = 1; tensor <= std::min(devices, node_devices); ++tensor) {
    if (devices % tensor != 0) continue;
    for (std::int64_t pipeline = 1; pipeline <= devices / tensor; ++pipeline)
      if (devices / tensor % pipeline == 0) all.push_back({devices / tensor / pipeline, pipeline, tensor});
  }
  return all;
}

/// The share of a model that a rank holds: layers from..to, of each of them from..to; parts of 1.
struct Share {
  double layers_from = 0, layers_to = 1, rows_from = 0, rows_to = 1;
};

Share share_of(const Layout& layout, std::int64_t device) {
  const Shape& s = layout.shape;
  const std::int64_t rank = device - layout.first;
  const auto stage = static_cast<double>(rank / (s.tensor * s.data)), part = static_cast<double>(rank % s.tensor);
  const auto stages = static_cast<double>(s.pipeline), parts = static_cast<double>(s.tensor);
  return {stage / stages, (stage + 1) / stages, part / parts, (part + 1) / parts};
}

bool holds(const Layout& layout, std::int64_t device) {
  return device >= layout.first && device < layout.first + layout.shape.devices();
}

/// A model cut wherever one of two layouts cuts it: cells of which a rank holds all or nothing.
class Cells {
 public:
  Cells(const Layout& a, const Layout& b)
      : layers_(cuts(a.shape.pipeline, b.shape.pipeline)), rows_(cuts(a.shape.tensor, b.shape.tensor)) {}
  std::size_t count() const { return (layers_.size() - 1) * (rows_.size() - 1); }
  /// each(cell, share of the model) for those that lie in a rank's share.
  template <class Each>
  void in(const Share& share, Each each) const {
    for (std::size_t l = begin(layers_, share.layers_from); middle(layers_, l) < share.layers_to; ++l)
      for (std::size_t r = begin(rows_, share.rows_from); middle(rows_, r) < share.rows_to; ++r)
        each(l * (rows_.size() - 1) + r, (layers_[l + 1] - layers_[l]) * (rows_[r + 1] - rows_[r]));
  }

 private:
  static std::vector<double> cuts(std::int64_t a, std::int64_t b) {
    std::set<double> all;
    for (const std::int64_t parts : {a, b})
      for (std::int64_t i = 0; i <= parts; ++i) all.insert(static_cast<double>(i) / static_cast<double>(parts));
    return {all.begin(), all.end()};
  }
  /// The piece between two cuts that begins at `from`; the middle of one, beyond the last more than all.
  static std::size_t begin(const std::vector<double>& all, double from) {
    return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), from) - all.begin());
  }
  static double middle(const std::vector<double>& all, std::size_t piece) {
    return piece + 1 < all.size() ? (all[piece] + all[piece + 1]) / 2 : 2;
  }

  std::vector<double> layers_, rows_;
};

}  // namespace

double move_s(const training::TrainingMachine& machine, double weight_bytes, const Layout& from, const Layout& to) {
  if (from == to) return 0;
  const Cells cells(from, to);
  const std::int64_t node = machine.node_devices;
  // Which nodes hold a cell, and which want it; shares of the model that go in and out of nodes, and into devices.
  std::map<std::int64_t, std::vector<bool>> had;
  for (std::int64_t device = from.first; device < from.first + from.shape.devices(); ++device) {
    std::vector<bool>& own = had.try_emplace(device / node, cells.count(), false).first->second;
    cells.in(share_of(from, device), [&](std::size_t cell, double) { own[cell] = true; });
  }
  std::map<std::int64_t, double> in, out;
  std::map<std::int64_t, std::vector<bool>> got;
  double fullest_device = 0;
  for (std::int64_t device = to.first; device < to.first + to.shape.devices(); ++device) {
    std::vector<bool> own(cells.count(), false);
    if (holds(from, device)) cells.in(share_of(from, device), [&](std::size_t cell, double) { own[cell] = true; });
    const auto local = had.find(device / node);
    std::vector<bool>& arrived = got.try_emplace(device / node, cells.count(), false).first->second;
    double received = 0;
    cells.in(share_of(to, device), [&](std::size_t cell, double size) {
      if (own[cell]) return;
      received += size;
      if ((local != had.end() && local->second[cell]) || arrived[cell]) return;
      arrived[cell] = true;
      in[device / node] += size;
      // The holders share the sending out, node by node.
      double holders = 0;
      for (const auto& [other, theirs] : had) holders += theirs[cell] ? 1 : 0;
      for (const auto& [other, theirs] : had)
        if (theirs[cell]) out[other] += size / holders;
    });
    fullest_device = std::max(fullest_device, received);
  }
  double fullest_node = 0;
  for (const auto* side : {&in, &out})
    for (const auto& [which, share] : *side) fullest_node = std::max(fullest_node, share);
  double time = 0;
  if (fullest_device > 0) time = training::message(machine, 0, 1, 1, fullest_device * weight_bytes).time_s;
  // A message to the next node of a whole node's devices goes over all its adapters: each device has its part.
  if (fullest_node > 0)
    time = std::max(
        time,
        training::message(machine, 0, node, node, fullest_node * weight_bytes / static_cast<double>(node)).time_s);
  return time;
}

std::vector<Layout> layouts(CallPricer& pricer, const FeedbackConfig& config, const Call& call, std::size_t most) {
  const std::int64_t devices = config.machine.devices, node = std::min(devices, config.machine.node_devices);
  std::vector<std::pair<double, Layout>> all;
  const auto add = [&](std::int64_t count, std::int64_t step) {
    for (const Shape& shape : shapes(count, node)) {
      const CallCost& cost = pricer.cost(call, shape);
      if (!cost.obstacle.empty()) continue;
      if (cost.resident_bytes + cost.working_bytes > static_cast<double>(config.machine.device.memory_bytes)) continue;
      for (std::int64_t first = 0; first + count <= devices; first += step)
        all.emplace_back(cost.time_s, Layout{first, shape});
    }
  };
  for (std::int64_t count = 1; count < node; count *= 2)
    if (node % count == 0) add(count, count);
  // Of many nodes only powers of two of them, one after the other, and all: any run of any length is too many.
  const std::int64_t nodes = devices / node;
  for (std::int64_t count = 1; count <= std::min(nodes, kEveryCount); ++count) add(count * node, node);
  for (std::int64_t count = 2 * kEveryCount; count < nodes; count *= 2) add(count * node, count * node);
  if (nodes > kEveryCount) add(devices, node);
  std::ranges::sort(all);
  if (all.size() > most) all.resize(most);
  std::vector<Layout> best;
  for (auto& [time, layout] : all) best.push_back(layout);
  return best;
}

std::vector<Move> PlanEstimator::moves(const CallPlan& plan) {
  std::vector<Move> all;
  for (std::size_t i = 0; i < config_.calls.size(); ++i) {
    const Call& call = config_.calls[i];
    const auto trainer = config_.trainer(call.model);
    if (!trainer || *trainer == i || plan[*trainer] == plan[i]) continue;
    const auto key = std::make_tuple(config_.kind_of[call.model], plan[*trainer], plan[i]);
    auto known = moved_.find(key);
    if (known == moved_.end())
      known =
          moved_.emplace(key, move_s(config_.machine, pricer_.weight_bytes(call.model), plan[*trainer], plan[i])).first;
    all.push_back({*trainer, i, known->second});
  }
  return all;
}

namespace {

/// A call or a move of the estimate.
struct ListedTask {
  const Layout* on = nullptr;
  const Layout* also = nullptr;
  double time_s = 0, ready_s = 0;
  std::size_t waits = 0;
  std::vector<std::size_t> next;  ///< that wait for it
  bool done = false;
};

void wait_for(std::vector<ListedTask>& tasks, std::size_t before, std::size_t after) {
  tasks[before].next.push_back(after);
  ++tasks[after].waits;
}

/// Runs the tasks by the time at which they are ready; gives the end of the last.
double list_schedule(std::vector<ListedTask>& tasks, std::int64_t devices) {
  std::vector<double> free(static_cast<std::size_t>(devices), 0);
  double last = 0;
  const auto each_device = [&](const ListedTask& task, auto each) {
    for (const Layout* on : {task.on, task.also})
      if (on != nullptr)
        for (std::int64_t d = on->first; d < on->first + on->shape.devices(); ++d)
          each(free[static_cast<std::size_t>(d)]);
  };
  for (std::size_t left = tasks.size(); left > 0; --left) {
    ListedTask* next = nullptr;
    for (ListedTask& task : tasks)
      if (!task.done && task.waits == 0 && (next == nullptr || task.ready_s < next->ready_s)) next = &task;
    double start = next->ready_s;
    each_device(*next, [&](double at) { start = std::max(start, at); });
    const double end = start + next->time_s;
    each_device(*next, [&](double& at) { at = end; });
    next->done = true;
    last = std::max(last, end);
    for (const std::size_t after : next->next) {
      --tasks[after].waits;
      tasks[after].ready_s = std::max(tasks[after].ready_s, end);
    }
  }
  return last;
}

}  // namespace

double PlanEstimator::time_s(const CallPlan& plan) {
  // Of plans with one bound, that whose first iteration is faster.
  constexpr double kTie = 1e-6;
  return config_.params.workload.lag == 0 ? first_s(plan) : overlapped_s(plan) + kTie * first_s(plan);
}

double PlanEstimator::call_s(const CallPlan& plan, std::size_t call) {
  const Call& own = config_.calls[call];
  return pricer_.cost(own, plan[call].shape).time_s + pricer_.load_s(own, plan[call].shape);
}

double PlanEstimator::host_bytes(const CallPlan& plan) {
  const std::int64_t node = std::min(config_.machine.devices, config_.machine.node_devices);
  std::vector<double> nodes(static_cast<std::size_t>(config_.machine.devices / node), 0);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (!config_.in_host(config_.calls[i].model)) continue;
    bool counted = false;  // by an earlier call that has them in the same way
    for (std::size_t k = 0; k < i; ++k)
      counted = counted || (config_.calls[k].model == config_.calls[i].model && plan[k] == plan[i]);
    for (std::int64_t d = plan[i].first; !counted && d < plan[i].first + plan[i].shape.devices(); ++d)
      nodes[static_cast<std::size_t>(d / node)] += pricer_.cost(config_.calls[i], plan[i].shape).resident_bytes;
  }
  return *std::ranges::max_element(nodes);
}

double PlanEstimator::first_s(const CallPlan& plan) {
  std::vector<ListedTask> tasks(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    tasks[i].on = &plan[i];
    tasks[i].time_s = call_s(plan, i);
    for (const std::size_t before : config_.calls[i].after) wait_for(tasks, before, i);
  }
  for (const Move& move : moves(plan)) {
    tasks.push_back({.on = &plan[move.from], .also = &plan[move.to], .time_s = move.time_s});
    wait_for(tasks, tasks.size() - 1, move.to);
  }
  return list_schedule(tasks, config_.machine.devices);
}

double PlanEstimator::overlapped_s(const CallPlan& plan) {
  const std::size_t calls = plan.size();
  std::vector<double> time(calls), weights(calls, 0), load(static_cast<std::size_t>(config_.machine.devices), 0);
  const auto add = [&](const Layout& on, double time_s) {
    for (std::int64_t d = on.first; d < on.first + on.shape.devices(); ++d) load[static_cast<std::size_t>(d)] += time_s;
  };
  for (std::size_t i = 0; i < calls; ++i) {
    time[i] = call_s(plan, i);
    add(plan[i], time[i]);
  }
  for (const Move& move : moves(plan)) {
    weights[move.to] = move.time_s;
    add(plan[move.to], move.time_s);
  }
  double slowest = *std::ranges::max_element(load);
  for (std::size_t i = 0; i < calls; ++i) {
    const auto trainer = config_.trainer(config_.calls[i].model);
    if (!trainer) continue;
    // The longest chain from this call to the training of its model; calls stand after those they wait for.
    std::vector<double> chain(calls, -1);
    chain[i] = weights[i] + time[i];
    for (std::size_t k = i + 1; k < calls; ++k)
      for (const std::size_t before : config_.calls[k].after)
        if (chain[before] >= 0) chain[k] = std::max(chain[k], chain[before] + time[k]);
    const bool generates = config_.calls[i].kind == CallKind::generate;
    const auto spans = static_cast<double>(1 + (generates ? config_.params.workload.lag : 0));
    if (chain[*trainer] >= 0) slowest = std::max(slowest, chain[*trainer] / spans);
  }
  return slowest;
}

double PlanEstimator::memory_bytes(const CallPlan& plan) {
  const auto devices = static_cast<std::size_t>(config_.machine.devices);
  std::vector<double> resident(devices, 0), working(devices, 0);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Call& call = config_.calls[i];
    const CallCost& cost = pricer_.cost(call, plan[i].shape);
    const auto trainer = config_.trainer(call.model);
    // Trained weights stay where they are trained; elsewhere they are there for the call.
    const bool stays = trainer ? *trainer == i : !config_.in_host(call.model),
               there = trainer && *trainer != i && plan[*trainer] == plan[i];
    double once = 0;
    for (std::size_t k = 0; k < i && !trainer; ++k)
      if (config_.calls[k].model == call.model && plan[k] == plan[i]) once = cost.resident_bytes;  // counted there
    for (std::int64_t d = plan[i].first; d < plan[i].first + plan[i].shape.devices(); ++d) {
      const auto device = static_cast<std::size_t>(d);
      if (stays) resident[device] += cost.resident_bytes - once;
      working[device] = std::max(working[device], cost.working_bytes + (stays || there ? 0 : cost.resident_bytes));
    }
  }
  double most = 0;
  for (std::size_t d = 0; d < devices; ++d) most = std::max(most, resident[d] + working[d]);
  return most;
}

}  // namespace orrery::experiments::feedback
