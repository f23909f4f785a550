#include "experiments/fidelity/table_kind.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/fault.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMostReasons = 8;  ///< that a report names

/// The message of a fault without the line, so that rows with the same fault share a reason.
std::string reason_of(const sim::ConfigError& error) {
  const std::string& message = error.faults().front().message;
  const std::size_t colon = message.starts_with("line ") ? message.find(": ") : std::string::npos;
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace

std::optional<Learnable> learnable(const hw::CatalogEntry<hw::GpuParams>& gpu, const std::string& library,
                                   const hw::Kernel& kernel) {
  const auto query = hw::residual_query(kernel, gpu.part.sms);
  return query ? std::optional(Learnable{gpu.name, library, *query}) : std::nullopt;
}

Predictions::Column& Predictions::column(std::string_view metric) {
  for (Column& column : columns_)
    if (column.metric == metric) return column;
  columns_.push_back({std::string(metric), {}, 0, {}});
  return columns_.back();
}

void Predictions::add(std::string_view metric, std::size_t row, double measured, double predicted,
                      std::initializer_list<std::string_view> regimes, std::optional<ServedRun> served,
                      std::optional<Learnable> learnable) {
  if (!(measured > 0) || !std::isfinite(measured)) return skip(metric, row, "no measurement above zero");
  if (!(predicted > 0) || !std::isfinite(predicted)) return skip(metric, row, "the model has no answer for this shape");
  column(metric).rows.push_back({row, measured, predicted, regimes, std::move(served), std::move(learnable)});
}

void Predictions::skip(std::string_view metric, std::size_t, std::string_view reason) {
  Column& c = column(metric);
  ++c.uncovered;
  if (std::find(c.reasons.begin(), c.reasons.end(), reason) != c.reasons.end()) return;
  if (c.reasons.size() < kMostReasons) {
    c.reasons.emplace_back(reason);
  } else if (c.reasons.size() == kMostReasons) {
    c.reasons.emplace_back("and others");
  }
}

void Predictions::each_row(std::string_view metric, const MeasuredTable& table,
                           const std::function<void(std::size_t row)>& predict_row) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    try {
      predict_row(row);
    } catch (const sim::ConfigError& error) {
      skip(metric, row, reason_of(error));
    } catch (const std::overflow_error& error) {  // sizes whose product does not fit 64 bits
      skip(metric, row, error.what());
    }
  }
}

std::optional<hw::DType> dtype_named(std::string_view name) {
  using hw::DType;
  constexpr std::pair<std::string_view, DType> kOtherNames[]{
      {"float", DType::fp32},    {"float32", DType::fp32}, {"half", DType::fp16}, {"float16", DType::fp16},
      {"bfloat16", DType::bf16}, {"float8", DType::fp8},   {"e4m3", DType::fp8},  {"fp8_e4m3", DType::fp8},
      {"e5m2", DType::fp8},      {"fp8_e5m2", DType::fp8}, {"s8", DType::int8}};
  for (const auto& [other, dtype] : kOtherNames)
    if (other == name) return dtype;
  return sim::value_named<DType>(name);
}

void Predictions::skip_all(std::string_view metric, const MeasuredTable& table, std::string_view reason) {
  for (std::size_t row = 0; row < table.rows(); ++row) skip(metric, row, reason);
}

}  // namespace orrery::experiments
