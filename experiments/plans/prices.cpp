#include "experiments/plans/prices.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments::plans {
namespace {

struct PriceFile : Prices {
  std::string note;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<PriceFile>(Prices::fields()),
                       sim::FieldTable{sim::field("note", &PriceFile::note, "Source of the prices.")});
  }
};

std::string plain(const std::string& part) {
  constexpr std::string_view kCatalog = "catalog:";
  return part.starts_with(kCatalog) ? part.substr(kCatalog.size()) : part;
}

}  // namespace

double figure(const sim::Node& summary, std::string_view path) {
  const sim::Node* value = summary.at(path);
  return value != nullptr && value->is_number() ? value->as_number() : NAN;
}

std::optional<double> Prices::of(const std::string& part) const {
  std::optional<double> own;
  std::optional<double> any;
  for (const PriceParams& price : prices) {
    if (!price.part) any = price.per_hour;
    if (price.part && plain(*price.part) == plain(part)) own = price.per_hour;
  }
  return own ? own : any;
}

Prices read_prices(const std::string& path) {
  sim::Faults faults;
  const sim::Node root = sim::read_json(path);
  const auto file = sim::parse_params<PriceFile>(root, faults);
  faults.throw_if_any();
  return file;
}

Cost cost_of(const Prices& prices, double per_device_hour, std::int64_t devices, const sim::Node& summary) {
  const double prompt_share = figure(summary, "utilisation.prompt_time");
  const double hours = figure(summary, "simulated_s") / 3600;
  const double rent = per_device_hour * static_cast<double>(devices) * hours;
  const double energy = prices.electricity_per_kwh.value_or(0) * figure(summary, "energy_j.total") / 3.6e6;
  const double all = rent + energy;
  const auto per_million = [](double cost, double tokens) { return tokens > 0 ? cost / tokens * 1e6 : NAN; };
  const double output = figure(summary, "tokens.output");
  return {.per_million_output = per_million(all, output),
          .input_share_per_million = per_million(all * prompt_share, figure(summary, "tokens.prompt")),
          .output_share_per_million = per_million(all * (1 - prompt_share), output),
          .energy_share = all > 0 ? energy / all : 0};
}

}  // namespace orrery::experiments::plans
