// What a figure table writes and what it lists.
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>

#include "experiments/base/figure_table.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/systems/serving/system.hpp"

namespace test_figure_table {

using namespace orrery;
using namespace orrery::experiments;
using sim::Node;

namespace {

struct Shop {
  std::int64_t sold = 3, returned = 1;
  double taken = 2.5;
  bool has_till = true;
};

Node by_colour(const Shop&) {
  Node node = Node::object();
  node.set("red", Node::integer(2));
  return node;
}

std::vector<std::string> paths(const std::vector<FigureInfo>& infos) {
  std::vector<std::string> all;
  for (const FigureInfo& info : infos) all.push_back(info.path);
  return all;
}

}  // namespace

TEST_CASE("a figure table writes rows in their order, with the objects on the way", "[unit]") {
  const FigureTable<Shop> table{
      {"name", "", "Name.", [](const Shop&) { return std::string("corner"); }},
      {"goods.{sold,returned}", "count", "Sold; of these, returned.", &Shop::sold, &Shop::returned},
      {"money.till.taken", "EUR", "Taken.", &Shop::taken},
      {"goods.colours.*", "count", "Sold of a colour.", by_colour},
      {"money.owed", "EUR", "Not known.", [](const Shop&) { return Node{}; }}};
  // The later row of goods joins the object that is there; null is a value.
  CHECK(
      table.written(Shop{}).dump() ==
      R"({"name":"corner","goods":{"sold":3,"returned":1,"colours":{"red":2}},"money":{"till":{"taken":2.5},"owed":null}})");
  Node root = Node::object();
  root.set("status", Node::string("ok"));
  FigureTable<Shop>({{"sold", "count", "Sold.", &Shop::sold}}).write(Shop{}, root);
  CHECK(root.dump() == R"({"status":"ok","sold":3})");
}

TEST_CASE("a figure that a run does not have is left out, and so are objects made for it alone", "[unit]") {
  const FigureTable<Shop> table{{"sold", "count", "Sold.", &Shop::sold},
                                {"till.taken", "EUR", "Taken.", [](const Shop& shop) {
                                   return shop.has_till ? FigureValue(shop.taken) : std::nullopt;
                                 }}};
  CHECK(table.written(Shop{}).dump() == R"({"sold":3,"till":{"taken":2.5}})");
  CHECK(table.written(Shop{.has_till = false}).dump() == R"({"sold":3})");
  CHECK(paths(table.infos()) == std::vector<std::string>{"sold", "till.taken"});  // it may be there
}

TEST_CASE("a figure table lists each row once, and those of other tables below their path", "[unit]") {
  const FigureTable<Shop> inner{{"{sold,returned}", "count", "Sold; returned.", &Shop::sold, &Shop::returned},
                                {"colours.*", "count", "Of a colour.", by_colour}};
  const FigureTable<Shop> table{{"name", "", "Name.", [](const Shop&) { return std::string("corner"); }},
                                {"shops.*", inner.infos(), [&](const Shop& shop) {
                                   Node all = Node::array();
                                   for (int i = 0; i < 2; ++i) all.push(inner.written(shop));
                                   return all;
                                 }}};
  const std::vector<FigureInfo> infos = table.infos();
  CHECK(paths(infos) == std::vector<std::string>{"name", "shops.*.{sold,returned}", "shops.*.colours.*"});
  CHECK(infos[1].unit == "count");
  CHECK(infos[1].meaning == "Sold; returned.");
  CHECK(table.written(Shop{}).dump() == R"({"name":"corner","shops":[{"sold":3,"returned":1,"colours":{"red":2}},)"
                                        R"({"sold":3,"returned":1,"colours":{"red":2}}]})");
}

TEST_CASE("the place of a figure is its path up to what only the run knows", "[unit]") {
  using Places = std::vector<std::string>;
  CHECK(figure_places("energy_j", 1) == Places{"energy_j"});
  CHECK(figure_places("a.b.c", 1) == Places{"a.b.c"});
  CHECK(figure_places("a.b.{c,d}", 1) == Places{"a.b"});
  CHECK(figure_places("a.*.{c,d}", 1) == Places{"a"});
  CHECK(figure_places("a.{b,cc,d}", 3) == Places{"a.b", "a.cc", "a.d"});
  CHECK(figure_places("{b,c}.{mean,max}", 2) == Places{"b", "c"});
  CHECK(figure_places("{b,c}_s.total", 2) == Places{"b_s.total", "c_s.total"});
}

TEST_CASE("a row with too few or too many values, or no place, is a bug", "[unit]") {
  CHECK_THROWS_AS(figure_places("a.{b,c}", 3), std::logic_error);
  CHECK_THROWS_AS(figure_places("a.{b,c,d}", 2), std::logic_error);
  CHECK_THROWS_AS(figure_places("a.b", 2), std::logic_error);
  CHECK_THROWS_AS(figure_places("*.b", 1), std::logic_error);
  const FigureTable<Shop> twice{{"sold", "count", "Sold.", &Shop::sold}, {"sold", "count", "Again.", &Shop::returned}};
  CHECK_THROWS_AS(twice.written(Shop{}), std::logic_error);
}

TEST_CASE("names of a latency are those of its figures", "[unit]") {
  sim::SampleStats samples;
  std::string names = "{";
  const Node latency = distribution_figures(samples, 1, kLatencyQuantiles);
  for (const auto& [name, value] : latency.members()) names += (names.size() > 1 ? "," : "") + name;
  CHECK(latency_names() == names + "}");
}

TEST_CASE("every figure of a serving run is declared once, in a sentence", "[unit]") {
  std::set<std::string> seen;
  for (const FigureInfo& info : serving_figures()) {
    INFO(info.path);
    CHECK(seen.insert(info.path).second);
    CHECK(info.meaning.size() > 4);
  }
  CHECK(seen.contains("status"));
  CHECK(seen.contains("replicas.*.busy"));
  CHECK(seen.contains("kv_tiers.prefixes.hits.*.tier"));
}

}  // namespace test_figure_table
