#include <catch2/catch.hpp>

#include "sim/base/registry.hpp"

namespace test_params {

enum class Colour { red, green };
constexpr auto enum_names(Colour) {
  using enum Colour;
  return orrery::sim::names<Colour>({{"red", red}, {"green", green}});
}

using namespace orrery;
using namespace orrery::sim;

namespace {

struct Link {
  double bandwidth = 1e9;
  static constexpr auto fields() {
    return sim::FieldTable{field("bandwidth", &Link::bandwidth, Unit::bytes_per_s, positive(), "How fast it is.")};
  }
};

struct Everything {
  std::int64_t budget = 512;
  Colour colour = Colour::green;
  std::optional<double> until;
  Link link;
  std::vector<Link> links;
  double share = 0.1;
  std::int64_t memory = 1024;
  bool on = false;
  std::string name;

  static constexpr auto fields() {
    return sim::FieldTable{field("budget", &Everything::budget, Unit::tokens, at_least(1), "Tokens."),
                           field("colour", &Everything::colour, "A choice."),
                           field("until", &Everything::until, Unit::seconds, any_value(), "An end, or none."),
                           field("link", &Everything::link, "A nested struct."),
                           field("links", &Everything::links, "An array of them."),
                           required(field("share", &Everything::share, Unit::ratio, between(0, 1), "A share.")),
                           field("memory", &Everything::memory, Unit::bytes, positive(), "Bytes."),
                           field("on", &Everything::on, "A switch."),
                           field("name", &Everything::name, "A text.")};
  }
};

std::vector<std::string> faults_of(const std::string& json) {
  Faults faults;
  (void)parse_params<Everything>(parse_json(json, "f.json"), faults);
  std::vector<std::string> texts;
  for (const Fault& fault : faults.all()) texts.push_back(fault.text());
  return texts;
}

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct SquareParams {
  double side = 1;
  static constexpr auto fields() {
    return sim::FieldTable{field("side", &SquareParams::side, Unit::none, positive(), "Side.")};
  }
};
struct Square final : Shape {
  Square(double s, double f) : side(s), factor(f) {}
  double side, factor;
  double area() const override { return side * side * factor; }
};
using Shapes = Registry<Shape, double>;

Shapes shapes() {
  Shapes registry("shape");
  registry.add<SquareParams>("square", "Four equal sides.", [](const SquareParams& p, double factor) {
    return std::make_unique<Square>(p.side, factor);
  });
  registry.add<NoParams>("point", "Nothing.", [](const NoParams&, double) { return std::make_unique<Square>(0, 0); });
  return registry;
}

struct Rooms {
  std::int64_t count = 1;
  std::optional<Shapes::Choice> door;
  static constexpr auto fields() {
    return sim::FieldTable{field("count", &Rooms::count, Unit::count, at_least(0), "How many."),
                           only_if_given(choice("door", &Rooms::door, "square", "Of each, if they have one."))};
  }
};
struct Cellar {
  std::int64_t count = 0;
  bool empty() const { return count == 0; }
  static constexpr auto fields() {
    return sim::FieldTable{field("count", &Cellar::count, Unit::count, at_least(0), "How many rooms.")};
  }
};
struct House {
  Shapes::Choice floor, roof;
  Rooms rooms;
  Cellar cellar;
  static constexpr auto fields() {
    return sim::FieldTable{required(choice("floor", &House::floor, "square", "Its outline.")),
                           choice("roof", &House::roof, "point", "What is on top."),
                           sim::section("rooms", &House::rooms, "What is in it."),
                           only_if_given(sim::section("cellar", &House::cellar, "What is below."))};
  }
};

RegistrySet registries() {
  RegistrySet all;
  all.add(shapes());
  return all;
}

struct Drawing {};
struct FileParams {
  std::string path, note;
  static constexpr auto fields() {
    return sim::FieldTable{field("path", &FileParams::path, Unit::path, any_value(), "A file."),
                           field("note", &FileParams::note, "A text.")};
  }
};
using Drawings = Registry<Drawing>;
struct Archive {
  Drawings::Choice plan;
  std::vector<FileParams> more;
  std::optional<FileParams> spare;
  Node extra;
  static constexpr auto fields() {
    return sim::FieldTable{
        choice("plan", &Archive::plan, "file", "A drawing."), field("more", &Archive::more, "Files."),
        field("spare", &Archive::spare, "A file, or none."),
        annotated(field("extra", &Archive::extra, "Anything."),
                  [](FieldInfo& info, const RegistrySet*) { info.nested = describe_params<FileParams>(); })};
  }
};

std::string faults_of_house(const std::string& json) {
  Faults faults;
  const RegistrySet all = registries();
  (void)parse_params<House>(parse_json(json, "h.json"), all, faults, std::array<std::string_view, 1>{"kind"});
  std::string texts;
  for (const Fault& fault : faults.all()) texts += fault.text() + "\n";
  return texts;
}

}  // namespace

TEST_CASE("a struct is read from its table, absent fields keep their defaults", "[unit]") {
  Faults faults;
  const auto p = parse_params<Everything>(
      parse_json(R"({"share": 0.5, "budget": 7, "colour": "red", "until": "2 min", "link": {"bandwidth": "2 GB/s"},
                     "links": [{}, {"bandwidth": "3 GB/s"}], "memory": "1.5 KiB", "on": true, "name": "n"})",
                 "f.json"),
      faults);
  REQUIRE(faults.empty());
  CHECK(p.budget == 7);
  CHECK(p.colour == Colour::red);
  CHECK(*p.until == 120);
  CHECK(p.link.bandwidth == 2e9);
  CHECK(p.links.size() == 2);
  CHECK(p.links[0].bandwidth == 1e9);
  CHECK(p.links[1].bandwidth == 3e9);
  CHECK(p.memory == 1536);
  CHECK(p.on);
}

TEST_CASE("every fault of a document is reported, each where it stands", "[unit]") {
  CHECK(faults_of(R"({"bugdet": 3, "budget": 0, "colour": "gren", "until": "3 m", "link": {"bandwidth": "-1 GB/s"},
                      "links": [{"bandwidth": 3}], "memory": "1.3 B", "on": 1, "name": 5})") ==
        std::vector<std::string>{
            "f.json:/bugdet: unknown key 'bugdet' (did you mean 'budget'?)", "f.json:/budget: expected >= 1, got 0",
            "f.json:/colour: expected one of red, green, got \"gren\" (did you mean 'green'?)",
            "f.json:/until: expected a quantity in s such as \"1 s\", got \"3 m\"",
            "f.json:/link/bandwidth: expected > 0 B/s, got \"-1 GB/s\"",
            "f.json:/links/0/bandwidth: expected a quantity in B/s such as \"900 GB/s\", got 3",
            "f.json:/share: missing: expected a number", "f.json:/memory: expected a whole number, got \"1.3 B\"",
            "f.json:/on: expected true or false, got 1", "f.json:/name: expected a string, got 5"});
  CHECK(faults_of("[]") == std::vector<std::string>{"f.json: expected an object, got an array"});
  CHECK(faults_of(R"({"share": 2})") == std::vector<std::string>{"f.json:/share: expected 0 to 1, got 2"});
  CHECK(faults_of(R"({"share": 0, "budget": 1.5})") ==
        std::vector<std::string>{"f.json:/budget: expected a whole number, got 1.5"});
  CHECK(faults_of(R"({"share": 0, "links": {}})") ==
        std::vector<std::string>{"f.json:/links: expected an array, got an object"});
}

TEST_CASE("written parameters read back the same", "[prop]") {
  Everything p;
  p.until = 1.0 / 3.0;
  p.links = {Link{1.5}, Link{1e12 / 7}};
  p.share = 0.3;
  Faults faults;
  const Node written = write_params(p);
  const auto q = parse_params<Everything>(parse_json(written.dump(2), "f.json"), faults);
  CHECK(faults.empty());
  CHECK(write_params(q).dump() == written.dump());
  CHECK(*q.until == *p.until);
}

TEST_CASE("a table tells type, unit, default, range and doc", "[unit]") {
  const std::vector<FieldInfo> infos = describe_params<Everything>();
  CHECK(infos[0].name == "budget");
  CHECK(infos[0].type == "integer");
  CHECK(infos[0].default_value.as_integer() == 512);
  CHECK(range_text(infos[0].range, infos[0].unit) == ">= 1");
  CHECK(infos[1].choices == std::vector<std::string>{"red", "green"});
  CHECK(infos[2].optional);
  CHECK(infos[3].nested.size() == 1);
  CHECK(infos[4].array);
  CHECK(infos[5].required);
  CHECK(infos[6].default_value.as_string() == "1024 B");
}

TEST_CASE("a registry makes what a block chooses, and checks the blocks of the others", "[unit]") {
  const Shapes registry = shapes();
  Faults faults;
  const auto choice = registry.parse_block(
      parse_json(R"({"policy": "square", "square": {"side": 3}, "point": {}})", "f.json"), "point", faults);
  REQUIRE(faults.empty());
  CHECK(choice.name == "square");
  CHECK(choice.make(2.0)->area() == 18);
  CHECK(Shapes::write_block(choice).dump() == R"({"policy":"square","square":{"side":3}})");
  CHECK(registry.names() == std::vector<std::string>{"point", "square"});
  const auto fallback = registry.parse_block(parse_json("{}", "f.json"), "square", faults);
  CHECK(fallback.make(1.0)->area() == 1);

  const auto bad = [&](const char* json) {
    Faults found;
    (void)registry.parse_block(parse_json(json, "f.json"), "point", found);
    return found.empty() ? std::string("none") : found.all().front().text();
  };
  CHECK(bad(R"({"policy": "sqare"})") == "f.json:/policy: unknown shape policy 'sqare' (did you mean 'square'?)");
  CHECK(bad(R"({"policy": 1})") == "f.json:/policy: expected the name of a policy, got 1 (known: point, square)");
  CHECK(bad(R"({"square": {"side": -1}})") == "f.json:/square/side: expected > 0, got -1");
  CHECK(bad(R"({"cicle": {}})") == "f.json:/cicle: unknown key 'cicle' (known: point, policy, square)");
  CHECK(bad("3") == "f.json: expected an object, got 3");
}

TEST_CASE("chosen policies and sections are fields", "[unit]") {
  const RegistrySet all = registries();
  Faults faults;
  const auto house = parse_params<House>(
      parse_json(R"({"floor": {"square": {"side": 2}}, "rooms": null, "cellar": {"count": 0}})", "h.json"), all,
      faults);
  REQUIRE(faults.empty());
  CHECK(house.floor.make(3)->area() == 12);
  CHECK(house.roof.name == "point");
  CHECK_FALSE(house.rooms.door);
  // All that decides, in the table's order; what is not there stays away.
  CHECK(write_params(house).dump() == R"({"floor":{"policy":"square","square":{"side":2}},)"
                                      R"("roof":{"policy":"point","point":{}},"rooms":{"count":1}})");
  const auto again = parse_params<House>(write_params(house), all, faults);
  CHECK(write_params(again).dump() == write_params(house).dump());
  const auto with_door =
      parse_params<House>(parse_json(R"({"floor": {}, "rooms": {"door": {}}})", "h.json"), all, faults);
  CHECK(with_door.rooms.door->name == "square");
  CHECK(faults.empty());

  const auto infos = describe_params<House>(all);
  CHECK(infos[0].required);
  CHECK(infos[0].policies.size() == 2);
  CHECK(infos[0].default_value.is_null());
  CHECK(infos[1].default_value.as_string() == "point");
  CHECK(infos[2].default_value.is_null());
  CHECK(infos[2].nested[1].policies.size() == 2);
}

TEST_CASE("paths of a document are found with and without a description of everything", "[unit]") {
  RegistrySet all;
  Drawings drawings("drawing");
  for (const char* name : {"mirror", "file", "sheet"})
    drawings.add<FileParams>(name, "From a file.", [](const FileParams&) { return std::make_unique<Drawing>(); });
  all.add(std::move(drawings));
  // Five paths: in two policies of three, by name and not as they were registered, in a list, in an optional struct,
  // and where only an annotation says what an object holds. A name of a catalog, an empty text and a text that is no
  // path are none.
  const Node document = parse_json(
      R"({"plan": {"policy": "file", "mirror": {"path": "m.txt"}, "file": {"path": "a.txt", "note": "b.txt"}},
          "more": [{"path": "c.txt", "note": ""}, {"path": "", "note": ""}, {"path": "catalog:x", "note": ""}],
          "spare": {"path": "e.txt"}, "extra": {"path": "d.txt"}})",
      "d.json");
  const auto found = [&](const auto& walk) {
    std::vector<std::string> paths;
    Node node = document;
    walk(node, [&](Node& path) {
      paths.push_back(path.as_string());
      path = Node::string("x");
    });
    CHECK(node.find("extra")->find("path")->as_string() == "x");
    return paths;
  };
  const std::vector<std::string> typed =
      found([&](Node& node, const PathVisitor& visit) { for_each_path<Archive>(all, node, visit); });
  CHECK(typed == std::vector<std::string>{"a.txt", "m.txt", "c.txt", "e.txt", "d.txt"});
  CHECK(typed == found([&](Node& node, const PathVisitor& visit) {
          for_each_path(describe_params<Archive>(all), node, visit);
        }));
}

TEST_CASE("faults of choices and sections stand where they are", "[unit]") {
  CHECK(faults_of_house(R"({"kind": 1, "roof": {"policy": "dome"}, "rooms": {"counts": 1}, "hall": {}})") ==
        "h.json:/hall: unknown key 'hall' (known: cellar, floor, kind, roof, rooms)\n"
        "h.json:/floor: missing: expected a policy block (such as {\"policy\": \"square\"})\n"
        "h.json:/roof/policy: unknown shape policy 'dome' (known: point, square)\n"
        "h.json:/rooms/counts: unknown key 'counts' (did you mean 'count'?)\n");
  CHECK(faults_of_house(R"({"floor": {}, "rooms": 3})") == "h.json:/rooms: expected an object, got 3\n");
}

TEST_CASE("a set holds one registry of a type", "[unit]") {
  RegistrySet all = registries();
  CHECK(all.get<Shapes>().names() == std::vector<std::string>{"point", "square"});
  CHECK(all.find<Registry<Shape>>() == nullptr);
  CHECK_THROWS_AS(all.get<Registry<Shape>>(), std::logic_error);
  CHECK_THROWS_AS(all.add(shapes()), std::logic_error);
}

TEST_CASE("a name can be registered once", "[unit]") {
  Shapes registry = shapes();
  CHECK_THROWS_WITH(
      registry.add<NoParams>("point", "Again.", [](const NoParams&, double) { return std::make_unique<Square>(0, 0); }),
      "shape: 'point' is registered twice");
}

TEST_CASE("the nearest name is a likely slip, not any name", "[unit]") {
  const std::vector<std::string> known{"sarathi", "static", "vllm_v0"};
  CHECK(nearest_name("sarahti", known) == "sarathi");
  CHECK(nearest_name("vllm", known).empty());
  CHECK(nearest_name("vllm_v1", known) == "vllm_v0");
  CHECK(nearest_name("zzz", known).empty());
  const std::vector<std::string> verbs{"list", "run", "slo"};
  CHECK(nearest_name("rnu", verbs) == "run");  // two letters swapped
  CHECK(nearest_name("foo", verbs).empty());
  // Two slips from four letters on, one below.
  const std::vector<std::string> orca{"orca"};
  CHECK(nearest_name("orxx", orca) == "orca");
  CHECK(nearest_name("orx", orca).empty());
}

namespace {

struct Held {
  Node block = parse_json(R"({"rate": 3})", "default");
  static constexpr auto fields() { return sim::FieldTable{field("block", &Held::block, "A block.")}; }
};

}  // namespace

TEST_CASE("null takes back the object that is the default", "[unit]") {
  Faults faults;
  const auto held = [&](const char* json) { return parse_params<Held>(parse_json(json, "f.json"), faults).block; };
  CHECK(held("{}").at("rate")->as_integer() == 3);
  CHECK(held(R"({"block": {"rate": 4}})").at("rate")->as_integer() == 4);
  CHECK(held(R"({"block": null})").is_null());
  CHECK(faults.empty());
}

}  // namespace test_params
