// Helpers of the reference interpreter: indices, and one op at hand.
#pragma once

#include <functional>
#include <numeric>
#include <stdexcept>

#include "tests/models/interpreter.hpp"

namespace orrery::models::test {

inline std::int64_t count_of(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

inline Value filled(std::vector<std::int64_t> dims, double with = 0) {
  Value v{std::move(dims), {}};
  v.data.assign(static_cast<std::size_t>(count_of(v.dims)), with);
  return v;
}

using Place = std::vector<std::int64_t>;

/// Calls `visit` with every place of a shape, in order.
inline void for_each_place(const std::vector<std::int64_t>& dims, const std::function<void(const Place&)>& visit) {
  Place place(dims.size(), 0);
  for (std::int64_t n = count_of(dims); n > 0; --n) {
    visit(place);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++place[i] < dims[i]) break;
      place[i] = 0;
    }
  }
}

/// Where a place of a broadcast result lies in an operand.
inline std::size_t offset_in(const Value& v, const Place& place) {
  std::int64_t at = 0;
  const std::size_t skip = place.size() - v.dims.size();
  for (std::size_t i = 0; i < v.dims.size(); ++i) at = at * v.dims[i] + (v.dims[i] == 1 ? 0 : place[skip + i]);
  return static_cast<std::size_t>(at);
}

/// One op with its operands' values and its outputs to fill.
struct Step {
  const OpNode& op;
  std::vector<const Value*> in;
  std::vector<Value*> out;

  const Value& x(std::size_t slot = 0) const { return *in.at(slot); }
  Value& y(std::size_t place = 0) const { return *out.at(place); }
  bool has(std::size_t slot) const { return slot < in.size(); }
  /// out[0][i] = f(inputs at i, broadcast).
  void map(const std::function<double(const std::vector<double>&)>& f) const {
    std::size_t n = 0;
    for_each_place(y().dims, [&](const Place& place) {
      std::vector<double> values;
      for (const Value* v : in) values.push_back(v->data.at(offset_in(*v, place)));
      y().data.at(n++) = f(values);
    });
  }
  std::vector<std::int64_t> list(std::string_view name) const {
    std::vector<std::int64_t> values;
    if (const Attribute* attribute = op.find(name))
      for (const SymExpr& e : std::get<std::vector<SymExpr>>(*attribute)) values.push_back(e.constant().value());
    return values;
  }
};

/// True if the family knows the kind (and has run it).
bool run_elementwise(const Step& step, const Bindings& bindings);
bool run_rows(const Step& step);
bool run_movement(const Step& step, const Bindings& bindings);
bool run_products(const Step& step);
bool run_images(const Step& step);

}  // namespace orrery::models::test
