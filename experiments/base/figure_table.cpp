#include "experiments/base/figure_table.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace orrery::experiments {
namespace {

/// "a.b" of "a.b.{c,d}.*".
std::string before_patterns(const std::string& path) {
  const std::size_t pattern = path.find_first_of("{*");
  if (pattern == std::string::npos) return path;
  const std::size_t dot = path.rfind('.', pattern);
  if (dot == std::string::npos) throw std::logic_error(fmt::format("figure '{}' has no place of its own", path));
  return path.substr(0, dot);
}

}  // namespace

std::vector<std::string> figure_places(const std::string& path, std::size_t count) {
  if (count == 1) return {before_patterns(path)};
  const std::size_t open = path.find('{'), close = path.find('}');
  std::vector<std::string> places;
  for (std::size_t begin = open; begin < close;) {
    const std::size_t end = path.find_first_of(",}", ++begin);
    places.push_back(before_patterns(path.substr(0, open) + path.substr(begin, end - begin) + path.substr(close + 1)));
    begin = end;
  }
  if (places.size() != count) throw std::logic_error(fmt::format("figure '{}' has {} values", path, count));
  return places;
}

void put_figure(sim::Node& root, std::string_view place, sim::Node value) {
  sim::Node* parent = &root;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = place.find('.', begin)) != std::string_view::npos; begin = dot + 1) {
    const std::string_view name = place.substr(begin, dot - begin);
    sim::Node* inner = parent->find(name);
    parent = inner != nullptr ? inner : &parent->set(std::string(name), sim::Node::object());
  }
  const std::string_view name = place.substr(begin);
  if (parent->find(name) != nullptr) throw std::logic_error(fmt::format("figure '{}' is there already", place));
  parent->set(std::string(name), std::move(value));
}

std::vector<FigureInfo> figures_or_reason(std::vector<FigureInfo> infos) {
  infos.push_back({"reason", "", "Why the design is infeasible."});
  return infos;
}

std::vector<FigureInfo> figures_below(const std::string& path, std::vector<FigureInfo> infos) {
  for (FigureInfo& info : infos) info.path = path + "." + info.path;
  return infos;
}

}  // namespace orrery::experiments
