// Router traces: files of both kinds, their faults, pieces of them.
#include "support.hpp"
#include "traces/router/router_trace.hpp"

namespace test_router_trace {

using namespace orrery;
using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

RouterTrace read(const std::string& path, const RouterReading& reading = {}) {
  return read_router_trace(path, reading);
}

/// Two layers of three tokens, two of four experts each.
RouterTrace small() {
  RouterTrace t{.experts = 4, .top_k = 2, .context = 2, .layers = {}};
  t.layers.push_back({.layer = 3, .choices = {0, 1, 1, 2, 3, 0}, .scores = {}});
  t.layers.push_back({.layer = 5, .choices = {2, 3, 0, 2, 1, 3}, .scores = {}});
  return t;
}

bool same(const RouterTrace& a, const RouterTrace& b) {
  if (a.experts != b.experts || a.top_k != b.top_k || a.context != b.context || a.layers.size() != b.layers.size())
    return false;
  for (std::size_t l = 0; l < a.layers.size(); ++l)
    if (a.layers[l].layer != b.layers[l].layer || a.layers[l].choices != b.layers[l].choices ||
        a.layers[l].scores != b.layers[l].scores)
      return false;
  return true;
}

}  // namespace

TEST_CASE("router traces: CSV of one layer, what comments say of experts and texts", "[unit]") {
  const Scratch scratch;
  const RouterTrace t = read(scratch.file(
      "a.csv",
      "# Model (Q4, 48 layers, 128 experts, top-2), tokens in contexts of 512; more\nexperts\n0a69\n186f\n\n0a7F\n"));
  CHECK(t.experts == 128);
  CHECK(t.top_k == 2);
  CHECK(t.context == 512);
  REQUIRE(t.layers.size() == 1);
  CHECK(t.layers[0].layer == 0);
  CHECK(t.layers[0].choices == std::vector<ExpertId>{0x0a, 0x69, 0x18, 0x6f, 0x0a, 0x7f});
  CHECK(t.tokens() == 3);
  CHECK(t.choices(0, 1, 2)[1] == 0x6f);
}

TEST_CASE("router traces: columns by name; layers in any order; experts that nobody states", "[unit]") {
  const Scratch scratch;
  const std::string path = scratch.file("a.csv", "note,layer,experts\nx,7,0002\nx,4,0105\ny,4,0001\ny,7,0301\n");
  const RouterTrace t = read(path);
  REQUIRE(t.layers.size() == 2);
  CHECK(t.layers[0].layer == 7);
  CHECK(t.layers[0].choices == std::vector<ExpertId>{0, 2, 3, 1});
  CHECK(t.layers[1].choices == std::vector<ExpertId>{1, 5, 0, 1});
  CHECK(t.experts == 8);  // the least power of two above 5
  CHECK(t.context == 0);
  CHECK(t.text_tokens() == 2);
  CHECK(read(path, {.else_experts = 60}).experts == 60);
  CHECK(read(path, {.experts = 64, .context = 100, .else_experts = 60}).experts == 64);
  CHECK(read(path, {.context = 100}).context == 100);
}

TEST_CASE("router traces: both kinds of file keep all that they hold", "[unit]") {
  const Scratch scratch;
  RouterTrace t = small();
  write_router_trace(t, scratch.path("a.csv"));
  CHECK(same(read(scratch.path("a.csv")), t));
  for (RouterLayer& layer : t.layers)
    for (int i = 0; i < 12; ++i) layer.scores.push_back(static_cast<std::uint16_t>(5000 * i + 7));
  write_router_trace(t, scratch.path("a.ort"));
  CHECK(same(read(scratch.path("a.ort")), t));
  // 44 bytes of header, and a layer: its number, 6 choices of a byte, 12 scores of two.
  CHECK(read_bytes(scratch.path("a.ort")).size() == 8 + 4 * 4 + 8 + 4 + 2 * (4 + 6 + 24));
  CHECK(same(read(scratch.file("b.ort", zstd(read_bytes(scratch.path("a.ort"))))), t));
  CHECK(same(read(scratch.file("b.csv", gzip(read_bytes(scratch.path("a.csv"))))), small()));
}

TEST_CASE("router traces: more than 256 experts take four digits, two bytes", "[unit]") {
  const Scratch scratch;
  RouterTrace t{.experts = 300, .top_k = 2, .context = 0, .layers = {{.layer = 0, .choices = {299, 1}, .scores = {}}}};
  write_router_trace(t, scratch.path("a.csv"));
  CHECK(read_bytes(scratch.path("a.csv")) == "# router trace: 300 experts\nlayer,experts\n0,012b0001\n");
  CHECK(same(read(scratch.path("a.csv")), t));
  write_router_trace(t, scratch.path("a.ort"));
  CHECK(same(read(scratch.path("a.ort")), t));
}

TEST_CASE("router traces: what tells them from traces of requests", "[unit]") {
  const Scratch scratch;
  write_router_trace(small(), scratch.path("a.ort"));
  CHECK(is_router_trace(scratch.path("a.ort")));
  CHECK(is_router_trace(scratch.file("b.csv", "# x\nlayer,experts\n")));
  CHECK(is_router_trace(scratch.file("c.csv", "experts\n")));
  CHECK_FALSE(is_router_trace(scratch.file("d.csv", "arrived_s,prompt_tokens,output_tokens\n")));
  CHECK_FALSE(is_router_trace(scratch.file("e.csv", "")));
}

TEST_CASE("router traces: every fault is one line with its place", "[unit]") {
  const Scratch scratch;
  const auto fault = [&](const std::string& content, const RouterReading& reading = {}) {
    const std::string path = scratch.file("f.csv", content);
    std::string text = fault_of([&] { (void)read(path, reading); });
    if (text.starts_with(path)) text = text.substr(path.size());
    return text;
  };
  CHECK(fault("# nothing\n") == ": expected a column 'experts', got no header");
  CHECK(fault("a,b\n") == ":1: expected a column 'experts', got 'a,b'");
  CHECK(fault("experts\n") == ": expected at least one token, got none");
  CHECK(fault("experts\n001\n") == ":2: expected experts of 2 hex digits each, got '001'");
  CHECK(fault("experts\n00zz\n") == ":2: expected hex digits, got '00zz'");
  CHECK(fault("experts\n0001\n000102\n") == ":3: expected 2 experts as above, got 3");
  CHECK(fault("experts\n0001\n0303\n") == ":3: expert 3 is chosen twice");
  CHECK(fault("experts\n0001\n0309\n", {.experts = 8}) == ":3: expected experts below 8, got 9");
  CHECK(fault("layer,experts\nx,0001\n") == ":2: expected the number of a layer, got 'x'");
  CHECK(fault("layer,experts\n0001\n") == ":2: expected 2 cells, got 1");
  CHECK(fault("layer,experts\n0,0001\n1,0001\n1,0001\n") ==
        ": expected as many tokens of layer 1 as of layer 0, 1; got 2");
}

TEST_CASE("router traces: damaged binary files", "[unit]") {
  const Scratch scratch;
  write_router_trace(small(), scratch.path("a.ort"));
  const std::string good = read_bytes(scratch.path("a.ort"));
  const auto fault = [&](const std::string& content) {
    const std::string path = scratch.file("f.ort", content);
    return fault_of([&] { (void)read(path); }).substr(path.size());
  };
  for (const std::size_t size : {good.size() - 1, std::size_t{30}, std::size_t{9}})
    CHECK(fault(good.substr(0, size)) == ": the router trace ends too early");
  CHECK(fault(good + "x") == ": expected the end of the router trace, got more bytes");
  std::string bad = good;
  bad[12] = 9;  // experts a token
  CHECK(fault(bad) == ": expected experts a token from 1 to 4, got 9");
  bad = good;
  bad[good.size() - 1] = 9;
  CHECK(fault(bad) == ": layer 5, token 2: expected experts below 4, got 9");
  bad = good;
  bad[30] = 1;  // 2^48 tokens: no memory is asked for
  CHECK(fault(bad).starts_with(": 281474976710659 tokens of 2 layers are more than a router trace may have"));
}

TEST_CASE("router traces: pieces, and texts side by side", "[unit]") {
  const RouterTrace t = small();
  const RouterTrace tail = part_of(t, 1, 3);
  CHECK(tail.layers[0].choices == std::vector<ExpertId>{1, 2, 3, 0});
  CHECK(tail.context == 0);  // token 1 does not begin a text
  CHECK(part_of(t, 2, 3).context == 2);
  // Three texts of a token each, then one of all three and nothing left over.
  CHECK(side_by_side(t, 3).layers[1].choices == t.layers[1].choices);
  RouterTrace long_one{
      .experts = 8, .top_k = 1, .context = 2, .layers = {{.layer = 0, .choices = {0, 1, 2, 3, 4, 5, 6}, .scores = {}}}};
  // Two texts of 3 tokens would cut a context: 2 each, tokens 0 and 2, then 1 and 3.
  CHECK(side_by_side(long_one, 2).layers[0].choices == std::vector<ExpertId>{0, 2, 1, 3});
  long_one.context = 0;
  CHECK(side_by_side(long_one, 2).layers[0].choices == std::vector<ExpertId>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("router traces: of another model", "[unit]") {
  const auto fault = [](const RoutedModel& model) {
    return fault_of([&] { check_router_trace(small(), model, "a.csv"); });
  };
  CHECK(fault({.name = "m", .experts = 8, .top_k = 2, .layers = 9}) ==
        "a.csv: a router trace of another model: expected 2 of 8 experts a token as m has, got 2 of 4");
  CHECK(fault({.name = "m", .experts = 4, .top_k = 2, .layers = 5}) ==
        "a.csv: a router trace of another model: layer 5 where m has layers 0 to 4");
  CHECK(fault({.name = "m", .experts = 4, .top_k = 2, .layers = 6}) == "nothing thrown");
}

}  // namespace test_router_trace
