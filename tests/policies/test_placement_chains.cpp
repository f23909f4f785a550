// What passes of placement share: lists in a text, chains of ops.
#include <catch2/catch.hpp>

#include "policies/placement/placement.hpp"

namespace test_placement_chains {

using namespace orrery;
using namespace orrery::models;
using Pieces = std::vector<std::string>;

TEST_CASE("a text is cut at separators, without the blanks around", "[unit]") {
  CHECK(policies::split("a+b+c", '+') == Pieces{"a", "b", "c"});
  CHECK(policies::split("  a  b +c ", '+') == Pieces{"a  b", "c"});
  CHECK(policies::split("a", '+') == Pieces{"a"});
  CHECK(policies::split("", '+') == Pieces{""});
  CHECK(policies::split("+a+ ", '+') == Pieces{"", "a", ""});
  CHECK(policies::split("a.b", '.') == Pieces{"a", "b"});
}

TEST_CASE("names of kinds are those of the table, in its order", "[unit]") {
  const Pieces names = policies::op_kind_names();
  REQUIRE(names.size() == op_kinds().size());
  CHECK(names.front() == "matmul");
  CHECK(names.back() == "custom");
}

TEST_CASE("a chain's inner results have one reader each, and the graph gives none of them", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {8}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});  // 0
  const TensorId b = graph.emit(OpKind::exp, {a});   // 1
  graph.emit(OpKind::neg, {b});                      // 2
  using Chain = std::vector<OpId>;
  const auto chain = [](const OpGraph& of, int first, const std::vector<OpKind>& kinds) {
    return policies::match_chain(of, OpId{first}, kinds);
  };
  CHECK(chain(graph, 0, {OpKind::relu, OpKind::exp, OpKind::neg}) == Chain{OpId{0}, OpId{1}, OpId{2}});
  CHECK(chain(graph, 0, {OpKind::relu, OpKind::exp}) == Chain{OpId{0}, OpId{1}});
  CHECK(chain(graph, 1, {OpKind::exp}) == Chain{OpId{1}});
  CHECK(chain(graph, 0, {OpKind::exp}).empty());
  CHECK(chain(graph, 0, {OpKind::relu, OpKind::neg}).empty());
  CHECK(chain(graph, 2, {OpKind::neg, OpKind::relu}).empty());  // nobody reads the last
  OpGraph read = graph, given = graph;
  read.emit(OpKind::tanh, {b});
  CHECK(chain(read, 0, {OpKind::relu, OpKind::exp, OpKind::neg}).empty());
  CHECK(chain(read, 0, {OpKind::relu, OpKind::exp}).size() == 2);  // the chain's own result may be read
  given.mark_output(a);
  CHECK(chain(given, 0, {OpKind::relu, OpKind::exp}).empty());
  CHECK(chain(given, 0, {OpKind::relu}).size() == 1);
  OpGraph sink;
  OpNode node;
  node.inputs = {sink.input("x", {8}, ElementType::fp16)};
  sink.add(std::move(node), {});
  CHECK(chain(sink, 0, {OpKind::custom, OpKind::relu}).empty());  // makes nothing
}

}  // namespace test_placement_chains
