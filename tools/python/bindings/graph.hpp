// Operator graphs and machines as Python holds them: what prices a graph needs both.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/systems/graph/device.hpp"
#include "experiments/systems/graph/source.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

/// Columns that grow row by row, as a dict of arrays.
class Rows {
 public:
  void text(const char* name, std::string_view value) { list(name).append(py::str(value.data(), value.size())); }
  void number(const char* name, double value) { list(name).append(value); }
  void whole(const char* name, std::int64_t value) { list(name).append(value); }
  py::dict take() { return std::move(columns_); }

 private:
  py::list list(const char* name) {
    if (!columns_.contains(name)) columns_[name] = py::list();
    return columns_[name];
  }
  py::dict columns_;
};

/// A graph with its sizes, if they are known; a pass makes another one.
struct PyGraph {
  std::shared_ptr<const models::OpGraph> graph;
  models::Bindings sizes;
  std::vector<std::pair<std::string, std::int64_t>> unmapped;
  std::vector<std::string> notes;
};

/// A part of the catalog (or a file), and its cost model where it can run kernels.
class PyMachine {
 public:
  PyMachine(const experiments::Systems& systems, const std::string& part, const std::string& changes,
            const std::string& cost);

  py::dict facts() const;
  py::dict kernels(const PyGraph& graph) const;
  py::dict cost(const hw::Kernel& kernel) const;
  /// Throws sim::ConfigError for a part that runs no kernels.
  const experiments::graph::GraphDevice& device() const;

 private:
  hw::AnyPart part_;
  sim::Node entry_;
  std::string file_;
  std::shared_ptr<const experiments::graph::GraphDevice> device_;
};

}  // namespace orrery::python
