// Orders given in the config, by device: "F0 F1 B0 F2 B1 B2". F: forward, B: the whole backward pass, I and W: its
// halves; then the micro-batch, and ".1" for a chunk other than 0. The route is the plain one, or folded.
#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {
namespace {

enum class ListedRoute : std::uint8_t { plain, folded };
constexpr auto enum_names(ListedRoute) {
  using enum ListedRoute;
  return sim::names<ListedRoute>({{"plain", plain}, {"folded", folded}});
}

struct ListedScheduleParams {
  std::vector<std::string> orders;
  ListedRoute route = ListedRoute::plain;
  static constexpr auto fields() {
    using P = ListedScheduleParams;
    return sim::FieldTable{
        sim::field("orders", &P::orders,
                   "Passes of each device in order. F0: forward of micro-batch 0; B0: backward; I0 and W0: its halves; "
                   "F0.1: forward of chunk 1."),
        sim::field(
            "route", &P::route,
            "Route through the chunks: round all devices for each chunk (plain), or down them and back up (folded).")};
  }
};

/// One word of an order; nothing if it is none.
std::optional<StagePass> listed_pass(std::string_view word) {
  constexpr std::string_view kLetters = "FBIW";
  if (word.empty() || kLetters.find(word.front()) == std::string_view::npos) return std::nullopt;
  StagePass pass{.kind = static_cast<PassKind>(kLetters.find(word.front()))};
  const char* const end = word.data() + word.size();
  auto read = std::from_chars(word.data() + 1, end, pass.micro_batch);
  if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '.')
    read = std::from_chars(read.ptr + 1, end, pass.chunk);
  if (read.ec != std::errc{} || read.ptr != end || pass.micro_batch < 0 || pass.chunk < 0) return std::nullopt;
  return pass;
}

class ListedSchedule final : public PipelineSchedule {
 public:
  explicit ListedSchedule(const ListedScheduleParams& params) : params_(params) {
    for (const std::string& text : params_.orders) {
      order_.emplace_back();
      std::istringstream words(text);
      for (std::string word; words >> word;) {
        if (const auto pass = listed_pass(word))
          order_.back().push_back(*pass);
        else if (!fault_)
          fault_ = fmt::format("'{}' is no pass; expected F, B, I or W and a micro-batch, as F0 or F0.1", word);
      }
    }
  }

  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (fault_) return fault_;
    if (std::ssize(order_) != view.devices)
      return fmt::format("{} orders are listed, the pipeline has {} devices", order_.size(), view.devices);
    if (params_.route == ListedRoute::folded && view.chunks != 2) return "a folded route has two chunks a device";
    return check_order(*this, view, order_);
  }
  std::vector<PipelineRoute> routes(const ScheduleView& view) const override {
    if (params_.route == ListedRoute::folded) return {folded_route(view.devices)};
    return PipelineSchedule::routes(view);
  }
  ScheduleOrder order(const ScheduleView&) const override { return order_; }

 private:
  ListedScheduleParams params_;
  ScheduleOrder order_;
  std::optional<std::string> fault_;
};

}  // namespace

void add_listed_schedule(ScheduleRegistry& registry) {
  registry.add<ListedScheduleParams>(
      "listed", "The order of passes on each device, as given in the config.",
      [](const ListedScheduleParams& params) { return std::make_unique<ListedSchedule>(params); });
}

}  // namespace orrery::policies
