// `training/zero_bubble_schedules.csv`: bubble rates and iterations of six schedules (Qi et al., ICLR 2024, tables
// 3-5).
//
// Of each model the first setting gives what the table does not say: the lengths of the backward pass for weights and
// of a message over that of the forward pass, solved from the rates of 1F1B, ZB-H1 and ZB-H2 (least squares over a
// pattern search), and the scale from the iteration of 1F1B. The backward pass for inputs has the forward pass'
// products and is taken as long: rates tell sums of the two alone. All else is predicted. First and last stage have a
// layer fewer, for embedding and head, so stages are taken as equal; 1F1B-I has a layer a chunk. A rate is the share of
// the longest device's span that it waits, as the authors count. It is judged as its complement, so that percentages
// are points of the rate.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "experiments/fidelity/table_kind.hpp"
#include "policies/schedule/order_run.hpp"

namespace orrery::experiments {
namespace zero_bubble_table {

using policies::ScheduleView;

/// Times of a device's whole share, in forward passes of the first setting.
struct PassTimes {
  std::array<double, 2> values{0.8, 0.05};  ///< backward for weights, message; the other two are 1
  double unit_s = 0;
};

class ZeroBubbleTables final : public TableKind {
 public:
  ZeroBubbleTables() { policies::register_schedules(registry_); }
  std::string_view name() const override { return "training_zero_bubble"; }
  bool reads(std::string_view path) const override { return path == "training/zero_bubble_schedules.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    std::map<std::string, PassTimes> times;
    std::map<std::string, std::int64_t> first_setting;
    out.each_row("efficiency", table, [&](std::size_t row) {
      const std::string& model = table.text(row, "model");
      const std::int64_t micro = table.count(row, "micro_batches");
      if (!first_setting.contains(model)) {
        first_setting[model] = micro;
        times[model] = solved(table, model, micro);
      }
      const policies::OrderTimes run = timed(table.text(row, "schedule"), shape(table, row), times[model]);
      const std::string_view regime = micro == first_setting[model] ? "first setting" : "other settings";
      out.add("efficiency", row, 1 - table.number(row, "bubble_rate_calculated"), 1 - run.bubble, {regime});
      const std::string& measured = table.text(row, "iter_s");
      if (!measured.empty() && times[model].unit_s > 0)
        out.add("iteration", row, table.number(row, "iter_s"), run.span * times[model].unit_s, {regime});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "model") + "x" + table.text(row, "micro_batches");
  }

 private:
  struct Shape {
    std::int64_t stages = 0, micro_batches = 0, layers = 0;
    /// The authors' count of activations: a layer keeps s b h (34 + 5 a s / h), 32 s b h of it for weights (section 3).
    double kept_for_weights = 1;
  };
  static Shape shape(const MeasuredTable& table, std::size_t row) {
    const double scores = 5 * static_cast<double>(table.count(row, "heads")) *
                          static_cast<double>(table.count(row, "seq")) /
                          static_cast<double>(table.count(row, "hidden"));
    return {table.count(row, "stages"), table.count(row, "micro_batches"), table.count(row, "layers"),
            32 / (34 + scores)};
  }

  policies::OrderTimes timed(const std::string& name, const Shape& shape, const PassTimes& times) const {
    ScheduleView view{.devices = shape.stages,
                      .micro_batches = shape.micro_batches,
                      .forward = 1,
                      .backward_input = 1,
                      .backward_weight = times.values[0],
                      .transfer = times.values[1],
                      .kept_for_weights = shape.kept_for_weights};
    if (name == "1F1B-I") view.chunks = (shape.layers + 2) / shape.stages;
    const auto chunks = static_cast<double>(view.chunks);
    view.forward /= chunks, view.backward_input /= chunks, view.backward_weight /= chunks;
    const auto schedule = made(name);
    return policies::run_order(*schedule, view, schedule->order(view), policies::view_lengths(view));
  }

  std::unique_ptr<policies::PipelineSchedule> made(const std::string& name) const {
    static const std::map<std::string, std::pair<const char*, double>> kNames{
        {"1F1B", {"1f1b", 0}},   {"1F1B-I", {"interleaved", 0}}, {"ZB-H1", {"zb_h1", 0}},
        {"ZB-H2", {"zb_h2", 0}}, {"ZB-1p", {"zb_auto", 1}},      {"ZB-2p", {"zb_auto", 2}}};
    const auto known = kNames.find(name);
    if (known == kNames.end()) sim::throw_fault({"schedule", ""}, fmt::format("schedule '{}' is not modelled", name));
    sim::Node params = sim::Node::object();
    if (known->second.second > 0) params.set("kept", sim::Node::real(known->second.second));
    sim::Faults faults;
    const auto choice = registry_.prepare(known->second.first, &params, {"schedule", ""}, faults);
    faults.throw_if_any();
    return choice.make();
  }

  /// Least squares on three rates of one setting: steps along each length, halved where none helps.
  PassTimes solved(const MeasuredTable& table, const std::string& model, std::int64_t micro) const {
    std::vector<std::size_t> rows;
    std::size_t plain = table.rows();
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (table.text(row, "model") != model || table.count(row, "micro_batches") != micro) continue;
      const std::string& name = table.text(row, "schedule");
      if (name == "1F1B" || name == "ZB-H1" || name == "ZB-H2") rows.push_back(row);
      if (name == "1F1B") plain = row;
    }
    const auto error = [&](const PassTimes& times) {
      double sum = 0;
      for (const std::size_t row : rows) {
        const double off = timed(table.text(row, "schedule"), shape(table, row), times).bubble -
                           table.number(row, "bubble_rate_calculated");
        sum += off * off;
      }
      return sum;
    };
    PassTimes best;
    double least = error(best);
    for (double step = 0.2; step > 0.002;) {
      bool better = false;
      for (double& value : best.values)
        for (const double by : {step, -step}) {
          const double before = value;
          value = std::max(0.0, value + by);
          const double now = error(best);
          if (now < least)
            least = now, better = true;
          else
            value = before;
        }
      if (!better) step /= 2;
    }
    if (plain < table.rows() && !table.text(plain, "iter_s").empty())
      best.unit_s = table.number(plain, "iter_s") / timed("1F1B", shape(table, plain), best).span;
    return best;
  }

  policies::ScheduleRegistry registry_{"schedule"};
};

}  // namespace zero_bubble_table

std::unique_ptr<TableKind> training_zero_bubble_tables() {
  return std::make_unique<zero_bubble_table::ZeroBubbleTables>();
}

}  // namespace orrery::experiments
