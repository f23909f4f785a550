// What devices cost: prices of the user's, from the config or a file, and the cost of a run by them.
//
// Cost of a run = price of its devices for as long as it lasts, and of its energy where electricity has a price of its
// own. It is divided between input and output tokens by device time (observe/token_times.hpp): a token of a large
// prompt chunk costs little and one of a small decode batch much; time in which nothing runs is divided likewise. The
// time of a request's first output token, which comes with the prompt's last chunk, is the prompt's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/document.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::plans {

struct PriceParams {
  std::optional<std::string> part;
  double per_hour = 0;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("part", &PriceParams::part, "Part from the catalog; null: every part that has no price of its own."),
        sim::required(sim::field("per_hour", &PriceParams::per_hour, sim::Unit::none, sim::at_least(0),
                                 "Price of one device per hour."))};
  }
};

/// What a prices file holds, and the section `plans` too.
struct Prices {
  std::vector<PriceParams> prices;
  std::string currency;
  std::optional<double> electricity_per_kwh;

  static constexpr auto fields() {
    using P = Prices;
    return sim::FieldTable{
        sim::field("prices", &P::prices, "Prices of devices per hour; empty: no costs are reported."),
        sim::field("currency", &P::currency, "Currency of the prices, such as USD."),
        sim::field("electricity_per_kwh", &P::electricity_per_kwh, sim::Unit::none, sim::at_least(0),
                   "Price of energy, if it is not part of the price of devices; null: it is.")};
  }

  /// Of one device and hour: the part's own (the last that names it), else that of every part.
  std::optional<double> of(const std::string& part) const;
};

/// The number at a dotted path of a summary; NaN where there is none.
double figure(const sim::Node& summary, std::string_view path);

/// A prices file: these fields and a `note` that says where they are from. Throws sim::ConfigError.
Prices read_prices(const std::string& path);

/// In the currency of the prices.
struct Cost {
  double per_million_output = 0;                                     ///< all of the cost, over output tokens
  double input_share_per_million = 0, output_share_per_million = 0;  ///< the parts of it that are input's and output's
  double energy_share = 0;                                           ///< of electricity in all
};
/// Of a run by its summary, whose utilisation.prompt_time divides it; NaN where that is not told.
Cost cost_of(const Prices& prices, double per_device_hour, std::int64_t devices, const sim::Node& summary);

}  // namespace orrery::experiments::plans
