// Tables of figures: where a figure stands in summary.json, its unit, what it means, and how it comes from what a run
// left behind. The summary is written from the table, and docs/reference/outputs.md lists the table, so both agree.
//
//   const FigureTable<Run> table{
//       {"requests.arrived", "requests", "How many arrived.", [](const Run& run) { return run.arrived; }},
//       {"tokens.{prompt,output}", "tokens", "Of completed requests.", &Run::prompt, &Run::output},
//       {"rejected.*", "requests", "Turned away for this reason.", [](const Run& run) { return reasons(run); }},
//       {"kv", kv_figures(), [](const Run& run) { return summarise(run.kv); }}};
//
// In a path, {a,b} stands for each of several names, and * for a name that the run gives or a place in a list.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// What the reference says of a figure.
struct FigureInfo {
  std::string path;  ///< dotted, with {a,b} and *
  std::string unit;  ///< its symbol; empty where there is none
  std::string meaning;
};

/// The value of a figure in one run, or nothing: a figure that this run does not have is left out.
struct FigureValue {
  FigureValue(std::nullopt_t) {}
  FigureValue(std::int64_t value) : node(sim::Node::integer(value)) {}
  FigureValue(double value) : node(sim::Node::real(value)) {}
  FigureValue(std::string value) : node(sim::Node::string(std::move(value))) {}
  FigureValue(sim::Node value) : node(std::move(value)) {}
  std::optional<sim::Node> node;
};

/// Where the values of a row go that has `count` of them: with one, the part of the path before the first name that
/// only the run knows ("kv.split.{a,b}" goes to "kv.split"); with several, the same for each name of the first {a,b}.
/// Throws std::logic_error if there are not as many names, or no such part.
std::vector<std::string> figure_places(const std::string& path, std::size_t count);
/// Adds a value at a dotted place, and the objects on the way. Throws std::logic_error if there is one already.
void put_figure(sim::Node& root, std::string_view place, sim::Node value);
/// The same figures, and the reason of an infeasible run (Outcome::infeasible).
std::vector<FigureInfo> figures_or_reason(std::vector<FigureInfo> infos);
/// The same figures below `path`.
std::vector<FigureInfo> figures_below(const std::string& path, std::vector<FigureInfo> infos);

/// A row: one figure, or several that share unit and meaning.
template <class Source>
struct Figure {
  using Get = std::function<FigureValue(const Source&)>;

  /// With one value, it is that of the figure; where the path has {a,b} or *, the object or list that stands before
  /// them. With several, there is one for each name of the first {a,b}, in that order.
  template <std::convertible_to<Get>... More>
  Figure(const std::string& path, std::string unit, std::string meaning, Get first, More... more)
      : infos{{path, std::move(unit), std::move(meaning)}},
        places(figure_places(path, 1 + sizeof...(more))),
        gets{std::move(first), std::move(more)...} {}
  /// What another table writes: an object, or with a path that ends in * a list or object of them.
  Figure(const std::string& path, std::vector<FigureInfo> inner, Get get)
      : infos(figures_below(path, std::move(inner))), places(figure_places(path, 1)), gets{std::move(get)} {}

  std::vector<FigureInfo> infos;
  std::vector<std::string> places;
  std::vector<Get> gets;  ///< as many as places
};

/// Rows in the order in which they are written.
template <class Source>
class FigureTable {
 public:
  FigureTable(std::initializer_list<Figure<Source>> rows) : rows_(rows) {}

  /// Adds all figures that `source` has to an object.
  void write(const Source& source, sim::Node& root) const {
    for (const Figure<Source>& row : rows_)
      for (std::size_t i = 0; i < row.gets.size(); ++i)
        if (FigureValue value = row.gets[i](source); value.node)
          put_figure(root, row.places[i], std::move(*value.node));
  }
  /// An object with these figures.
  sim::Node written(const Source& source) const {
    sim::Node root = sim::Node::object();
    write(source, root);
    return root;
  }
  std::vector<FigureInfo> infos() const {
    std::vector<FigureInfo> all;
    for (const Figure<Source>& row : rows_) all.insert(all.end(), row.infos.begin(), row.infos.end());
    return all;
  }

 private:
  std::vector<Figure<Source>> rows_;
};

}  // namespace orrery::experiments
