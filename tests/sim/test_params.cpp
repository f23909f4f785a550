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

TEST_CASE("the ends of a range belong to it, unless it is open", "[unit]") {
  const auto first = [](const char* json) {
    const auto faults = faults_of(json);
    return faults.empty() ? std::string("none") : faults.front();
  };
  CHECK(first(R"({"share": 0})") == "none");
  CHECK(first(R"({"share": 1})") == "none");
  CHECK(first(R"({"share": -0.001})") == "f.json:/share: expected 0 to 1, got -0.001");
  CHECK(first(R"({"share": 1.001})") == "f.json:/share: expected 0 to 1, got 1.001");
  CHECK(first(R"({"share": 0, "budget": 1})") == "none");
  CHECK(first(R"({"share": 0, "memory": "0 B"})") == "f.json:/memory: expected > 0 B, got \"0 B\"");
  CHECK(first(R"({"share": 0, "memory": "1 B"})") == "none");
  CHECK(first(R"({"share": true})") == "f.json:/share: expected a number, got true");
  CHECK(first(R"({"share": "0.5"})") == "f.json:/share: expected a number, got \"0.5\"");
}

TEST_CASE("a range as text", "[unit]") {
  CHECK(range_text(any_value(), Unit::none) == "any value");
  CHECK(range_text(at_least(1), Unit::none) == ">= 1");
  CHECK(range_text(at_least(0.5), Unit::ratio) == ">= 0.5");
  CHECK(range_text(positive(), Unit::bytes_per_s) == "> 0 B/s");
  CHECK(range_text(between(-1, 2.5), Unit::none) == "-1 to 2.5");
  CHECK(range_text(between(1e-3, 1), Unit::seconds) == "1 ms to 1 s");
  CHECK(range_text(Range{.max = 5}, Unit::none) == "<= 5");
  CHECK(range_text(at_least(123'456'789), Unit::tokens) == ">= 123456789");
  CHECK(range_text(at_least(1e17), Unit::none) == ">= 1e+17");  // not written out
  CHECK(range_text(at_least(999'999'999'999'999), Unit::none) == ">= 999999999999999");
  CHECK(range_text(at_least(-1e17), Unit::none) == ">= -1e+17");
}

TEST_CASE("what is expected of a field, by its type", "[unit]") {
  const auto of = [](const char* type, Unit unit = Unit::none) {
    FieldInfo info;
    info.type = type;
    info.unit = unit;
    return expectation(info);
  };
  CHECK(of("boolean") == "true or false");
  CHECK(of("string") == "a string");
  CHECK(of("list") == "a string with commas, or an array of strings and whole numbers");
  CHECK(of("object") == "an object");
  CHECK(of("integer") == "a whole number");
  CHECK(of("number") == "a number");
  CHECK(of("integer", Unit::bytes) == "a quantity in B such as \"80 GiB\"");
  CHECK(of("number", Unit::watts) == "a quantity in W such as \"400 W\"");
  FieldInfo choice;
  choice.type = "string";
  choice.choices = {"red", "green"};
  CHECK(expectation(choice) == "one of red, green");
}

TEST_CASE("whole numbers are read exactly, as integers, reals or quantities", "[unit]") {
  const auto budget = [](const char* value) {
    Faults faults;
    const auto p =
        parse_params<Everything>(parse_json(R"({"share": 0, "budget": )" + std::string(value) + "}", "f.json"), faults);
    return faults.empty() ? std::to_string(p.budget) : faults.all().front().text();
  };
  CHECK(budget("9007199254740993") == "9007199254740993");  // 2^53 + 1 is no double
  CHECK(budget("9223372036854775807") == "9223372036854775807");
  CHECK(budget("3.0") == "3");
  CHECK(budget("9.0e18") == "9000000000000000000");
  CHECK(budget("9.1e18") == "f.json:/budget: expected a whole number, got 9.1e+18");
  CHECK(budget("2.5") == "f.json:/budget: expected a whole number, got 2.5");
  CHECK(budget("null") == "f.json:/budget: expected a whole number, got null");
}

TEST_CASE("choices are spelt as people type", "[unit]") {
  Faults faults;
  const auto colour = [&](const char* json) { return parse_params<Everything>(parse_json(json, "f"), faults).colour; };
  CHECK(colour(R"({"share": 0, "colour": "RED"})") == Colour::red);
  CHECK(faults.empty());
  CHECK(colour(R"({"share": 0, "colour": "blue"})") == Colour::green);  // the default
  CHECK(faults.all().front().text() == "f:/colour: expected one of red, green, got \"blue\"");
  CHECK(faults.size() == 1);
  (void)colour(R"({"share": 0, "colour": 3})");
  CHECK(faults.all().back().text() == "f:/colour: expected one of red, green, got 3");
}

TEST_CASE("null takes an optional's value, a fault leaves it", "[unit]") {
  struct Times {
    std::optional<double> end = 5;
    std::optional<std::vector<double>> marks;
    std::vector<double> steps{1, 2};
    static constexpr auto fields() {
      return sim::FieldTable{field("end", &Times::end, Unit::none, at_least(0), "An end."),
                             field("marks", &Times::marks, "Marks."), field("steps", &Times::steps, "Steps.")};
    }
  };
  Faults faults;
  const auto read = [&](const char* json) { return parse_params<Times>(parse_json(json, "f"), faults); };
  CHECK(read("{}").end == 5);
  CHECK_FALSE(read(R"({"end": null})").end);
  CHECK(read(R"({"end": 7, "steps": []})").steps.empty());
  CHECK(read(R"({"steps": [3]})").steps == std::vector<double>{3});  // in place of the default's
  CHECK(read(R"({"marks": [4, 5]})").marks == std::vector<double>{4, 5});
  CHECK(faults.empty());
  CHECK(read(R"({"end": -1})").end == 5);
  CHECK(faults.all().front().text() == "f:/end: expected >= 0, got -1");
  CHECK(write_params(read("{}")).dump() == R"({"end":5,"marks":null,"steps":[1,2]})");
}

namespace {

struct Listed {
  TextList cores;
  static constexpr auto fields() { return sim::FieldTable{field("cores", &Listed::cores, "Cores.")}; }
};

}  // namespace

TEST_CASE("lists of texts: a string with commas, or an array", "[unit]") {
  Faults faults;
  const auto read = [&](const std::string& value) {
    return parse_params<Listed>(parse_json("{\"cores\": " + value + "}", "f"), faults);
  };
  using Items = std::vector<std::string>;
  CHECK(read(R"("0-7,12")").cores.items == Items{"0-7", "12"});
  CHECK(read(R"("a")").cores.items == Items{"a"});
  CHECK(read(R"("a,")").cores.items == Items{"a", ""});
  CHECK(read(R"(",a,,b")").cores.items == Items{"", "a", "", "b"});
  CHECK(read(R"("")").cores.items == Items{""});
  CHECK(read(R"(["a", 5, "b,c"])").cores.items == Items{"a", "5", "b,c"});
  CHECK(read("[]").cores.items.empty());
  CHECK(faults.empty());
  CHECK(write_params(read(R"(["a", 5])")).dump() == R"({"cores":"a,5"})");
  CHECK(write_params(read(R"(["a", "b,c"])")).dump() == R"({"cores":["a","b,c"]})");  // commas within
  CHECK(write_params(read("[]")).dump() == R"({"cores":[]})");
  for (const char* value : {"[1.5]", "3", "[\"a\", null]", "{}"}) CHECK(read(value).cores.items.empty());
  REQUIRE(faults.size() == 4);
  CHECK(faults.all()[1].text() ==
        "f:/cores: expected a string with commas, or an array of strings and whole numbers, got 3");
  CHECK(describe_params<Listed>()[0].type == "list");
}

TEST_CASE("paths count from the file that names them, catalog names and references do not", "[unit]") {
  struct Files {
    std::string path, part;
    std::vector<std::string> more;
    static constexpr auto fields() {
      return sim::FieldTable{field("path", &Files::path, Unit::path, any_value(), "A file."),
                             field("part", &Files::part, Unit::reference, any_value(), "A part."),
                             field("more", &Files::more, Unit::path, any_value(), "Files.")};
    }
  };
  Faults faults;
  const auto read = [&](const char* json) { return parse_params<Files>(parse_json(json, "/a/b/f.json"), faults); };
  CHECK(read(R"({"path": "t.csv"})").path == "/a/b/t.csv");
  CHECK(read(R"({"path": "../x/./t.csv"})").path == "/a/x/t.csv");
  CHECK(read(R"({"path": "/t.csv"})").path == "/t.csv");
  CHECK(read(R"({"path": "catalog:t"})").path == "catalog:t");
  CHECK(read(R"({"path": ""})").path.empty());
  CHECK(read(R"({"part": "h100"})").part == "h100");
  CHECK(read(R"({"more": ["t.csv", "catalog:t"]})").more == std::vector<std::string>{"/a/b/t.csv", "catalog:t"});
  // All that name a file: a reference that is no name of the catalog too.
  Node node = parse_json(R"({"path": "p", "part": "q", "more": ["r", "", "catalog:s", 3]})", "f");
  std::string found;
  const PathVisitor note = [&](Node& item) { found += item.as_string(); };
  for_each_path(describe_params<Files>(), node, note);
  CHECK(found == "pqr");
  node = parse_json(R"({"more": "t", "path": ["u"]})", "f");  // no list, and a list that is none
  for_each_path<Files>(RegistrySet{}, node, note);
  CHECK(found == "pqrt");
  CHECK(faults.empty());
}

TEST_CASE("a text may be put into its canonical form, with a note", "[unit]") {
  struct Part {
    std::string name = "none";
    static constexpr auto fields() {
      return sim::FieldTable{
          canonical(field("name", &Part::name, "Its name."), [](std::string& text, const Origin& where, Faults& notes) {
            if (text == "h100") text = "h100-sxm5", notes.note(where.pointer + " is that");
          })};
    }
  };
  Faults faults;
  CHECK(parse_params<Part>(parse_json(R"({"name": "h100"})", "f"), faults).name == "h100-sxm5");
  CHECK(faults.notes() == std::vector<std::string>{"/name is that"});
  CHECK(parse_params<Part>(parse_json(R"({"name": "a100"})", "f"), faults).name == "a100");
  CHECK(faults.empty());
  CHECK(parse_params<Part>(parse_json(R"({"name": 3})", "f"), faults).name == "none");
  CHECK(faults.size() == 1);
}

namespace {

struct Base {
  std::int64_t first = 1;
  static constexpr auto fields() { return sim::FieldTable{field("first", &Base::first, "The first.")}; }
};
struct Other {
  std::int64_t between = 2;
};
struct Derived : Other, Base {
  std::int64_t second = 3, third = 4;
  static constexpr auto fields() {
    return joined(inherited<Derived>(Base::fields()), sim::FieldTable{field("second", &Derived::second, "The second.")},
                  sim::FieldTable{field("third", &Derived::third, "The third.")});
  }
};

}  // namespace

TEST_CASE("tables are joined and inherited", "[unit]") {
  Faults faults;
  const auto read = parse_params<Derived>(parse_json(R"({"third": 40, "first": 10})", "f"), faults);
  CHECK(faults.empty());
  CHECK(read.first == 10);
  CHECK(read.between == 2);
  CHECK(read.second == 3);
  CHECK(read.third == 40);
  CHECK(write_params(read).dump() == R"({"first":10,"second":3,"third":40})");
}

TEST_CASE("a policy block that must be there is told with what may stand in it", "[unit]") {
  struct Needs {
    Shapes::Choice shape;
    static constexpr auto fields() {
      return sim::FieldTable{required(choice("shape", &Needs::shape, nullptr, "A shape."))};
    }
  };
  const RegistrySet all = registries();
  Faults faults;
  (void)parse_params<Needs>(parse_json("{}", "f"), all, faults);
  CHECK(faults.all().front().text() == "f:/shape: missing: expected a policy block (known: point, square)");
  const auto infos = describe_params<Needs>(all);
  CHECK(infos[0].default_value.is_null());
  Faults unnamed;
  (void)parse_params<Needs>(parse_json(R"({"shape": {}})", "f"), all, unnamed);
  CHECK(unnamed.all().front().text() == "f:/shape: unknown shape policy '' (known: point, square)");
  CHECK_THROWS_WITH(describe_params<Needs>(), "parameters with choices are read without registries");
}

TEST_CASE("a registry tells its components, sorted, with their fields", "[unit]") {
  const Shapes registry = shapes();
  CHECK(registry.kind() == "shape");
  const auto all = registry.components();
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "point");
  CHECK(all[0].kind == "shape");
  CHECK(all[0].doc == "Nothing.");
  CHECK(all[0].fields.empty());
  CHECK(all[1].name == "square");
  CHECK(all[1].fields.at(0).name == "side");
  CHECK(registry.canonical("square") == "square");
  CHECK(registry.canonical("SQUARE") == "square");
  CHECK(registry.canonical("cube") == "cube");
  Faults faults;
  const auto choice = registry.prepare("Square", nullptr, {"f", "/x"}, faults);
  CHECK(choice.name == "square");
  CHECK(choice.make(2)->area() == 2);
  CHECK(registry.prepare("cube", nullptr, {"f", "/x"}, faults).name.empty());
  CHECK(faults.all().front().text() == "f:/x: unknown shape policy 'cube' (known: point, square)");
  // A block by another spelling of a policy's name; parameters of policies that are not chosen are checked too.
  Faults found;
  const auto block = registry.parse_block(parse_json(R"({"policy": "SQUARE", "square": {"side": 2}})", "f"), "", found);
  CHECK(block.make(1)->area() == 4);
  CHECK(found.empty());
  (void)registry.parse_block(parse_json(R"({"policy": "point", "square": {"sid": 2}})", "f"), "", found);
  CHECK(found.all().front().text() == "f:/square/sid: unknown key 'sid' (did you mean 'side'?)");
}

TEST_CASE("descriptions: defaults, requirement and docs of every field", "[unit]") {
  const auto infos = describe_params<Everything>();
  REQUIRE(infos.size() == 9);
  CHECK(infos[1].default_value.as_string() == "green");
  CHECK(infos[2].default_value.is_null());
  CHECK(infos[2].type == "number");
  CHECK(infos[3].type == "object");
  CHECK(infos[3].default_value.dump() == R"({"bandwidth":"1000000000 B/s"})");
  CHECK(infos[4].default_value.dump() == "[]");
  CHECK_FALSE(infos[4].optional);
  CHECK_FALSE(infos[4].required);
  CHECK(infos[5].default_value.is_null());  // it has to be told
  CHECK(infos[7].type == "boolean");
  CHECK(infos[7].default_value.kind() == Node::Kind::boolean);
  CHECK(infos[8].type == "string");
  CHECK(infos[8].doc == "A text.");
  const auto annotated_infos = describe_params<House>(registries());
  CHECK(annotated_infos[3].default_value.is_null());  // a section
  CHECK(annotated_infos[2].nested[1].optional);
  CHECK(annotated_infos[2].nested[1].default_value.is_null());
}

}  // namespace test_params
