#include <unistd.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "sim/base/document.hpp"

namespace test_document {

using namespace orrery::sim;
namespace fs = std::filesystem;

namespace {

/// A folder of its own that goes with the test.
class Scratch {
 public:
  Scratch()
      : path_(fs::temp_directory_path() /
              ("orrery-document-" + std::to_string(counter()++) + "-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  static int& counter() {
    static int value = 0;
    return value;
  }
  fs::path path_;
};

std::string fault_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

}  // namespace

TEST_CASE("values remember where they came from", "[unit]") {
  const Node root = parse_json(R"({"a": {"b/c": [1, 2.5, "x", null, true]}})", "f.json");
  const Node& list = *root.find("a")->find("b/c");
  CHECK(list.items()[1].origin().pointer == "/a/b~1c/1");
  CHECK(list.items()[1].origin().file == "f.json");
  CHECK(list.items()[0].as_integer() == 1);
  CHECK(list.items()[1].as_number() == 2.5);
  CHECK(list.items()[2].as_string() == "x");
  CHECK(list.items()[3].is_null());
  CHECK(root.at("a.b/c") == &list);
  CHECK(root.at("a.x.y") == nullptr);
  CHECK(root.dump() == R"({"a":{"b/c":[1,2.5,"x",null,true]}})");
}

TEST_CASE("syntax errors tell line and column", "[unit]") {
  CHECK_THAT(fault_of([] { parse_json("{\"a\": 1,\n  \"b\" 2}", "f.json"); }),
             Catch::StartsWith("f.json:2:7: expected valid JSON"));
  CHECK_THAT(fault_of([] { parse_json("", "f.json"); }), Catch::Contains("expected valid JSON"));
  CHECK_THAT(fault_of([] { parse_json(std::string(300, '['), "f.json"); }), Catch::Contains("200 deep"));
}

TEST_CASE("a key given twice is a fault, not the last one's win", "[unit]") {
  CHECK(fault_of([] { parse_json(R"({"a": 1, "b": {"x": 1, "x": 2}})", "f.json"); }) ==
        "f.json:/b/x: this key is given twice");
}

TEST_CASE("a missing file is a fault", "[unit]") {
  CHECK(fault_of([] { read_config("/no/such.json"); }) == "/no/such.json: expected a readable JSON file, found none");
}

TEST_CASE("bases merge below, key by key", "[unit]") {
  const Scratch scratch;
  scratch.write("deep/base.json", R"({"a": {"x": 1, "y": 2}, "list": [1, 2, 3], "path": "t.csv"})");
  scratch.write("second.json", R"({"a": {"y": 20}})");
  const fs::path top =
      scratch.write("top.json", R"({"base": ["deep/base.json", "second.json"], "a": {"z": 3}, "list": [9]})");
  const Node root = read_config(top);
  CHECK(root.find("base") == nullptr);
  CHECK(root.find("a")->dump() == R"({"x":1,"y":20,"z":3})");
  CHECK(root.find("list")->dump() == "[9]");
  // A path stays relative to the file that names it.
  CHECK(folder_of(root.find("path")->origin()) == scratch.path() / "deep");
}

TEST_CASE("a base that leads back is a fault, a missing one too", "[unit]") {
  const Scratch scratch;
  scratch.write("a.json", R"({"base": "b.json"})");
  const fs::path b = scratch.write("b.json", R"({"base": "a.json"})");
  CHECK_THAT(fault_of([&] { read_config(b); }),
             Catch::Contains("a.json:/base: expected a file that does not lead back here"));
  const fs::path c = scratch.write("c.json", R"({"base": "none.json"})");
  CHECK_THAT(fault_of([&] { read_config(c); }), Catch::Contains("c.json:/base: expected a file, found none"));
  const fs::path d = scratch.write("d.json", R"({"base": 3})");
  CHECK_THAT(fault_of([&] { read_config(d); }), Catch::Contains("d.json:/base: expected a path, got 3"));
}

TEST_CASE("assignments lie on top", "[unit]") {
  Node root = parse_json(R"({"a": {"b": 1}, "list": [{"c": 1}]})", "f.json");
  assign(root, "a.b=2");
  assign(root, "a.new.deep=\"x\"");
  assign(root, "name=plain text");
  assign(root, "list.0.c=[1,2]");
  CHECK(root.dump() == R"({"a":{"b":2,"new":{"deep":"x"}},"list":[{"c":[1,2]}],"name":"plain text"})");
  CHECK(root.find("a")->find("b")->origin().file == "--set");
  CHECK(root.find("a")->find("b")->origin().pointer == "/a/b");
  CHECK_THAT(fault_of([&] { assign(root, "novalue"); }), Catch::Contains("expected name=value"));
  CHECK_THAT(fault_of([&] { assign(root, "a..b=1"); }), Catch::Contains("expected a name between the dots"));
  CHECK_THAT(fault_of([&] { assign(root, "list.3.c=1"); }), Catch::Contains("expected an index below 1, got '3'"));
  CHECK_THAT(fault_of([&] { assign(root, "a.b.c=1"); }), Catch::Contains("expected an object to set 'c' in, got 2"));
}

TEST_CASE("a value at hand is assigned with its origin", "[unit]") {
  Node root = parse_json(R"({"a": {"b": 1}, "list": [{"c": 1}]})", "f.json");
  const Node study =
      parse_json(R"({"a.b": 2, "list.0.d": {"e": 3}, "new.deep": 4, "a.b.c": 5, "list.1": 6})", "s.json");
  for (const char* name : {"a.b", "list.0.d", "new.deep"}) assign(root, name, *study.find(name));
  CHECK(root.dump() == R"({"a":{"b":2},"list":[{"c":1,"d":{"e":3}}],"new":{"deep":4}})");
  CHECK(root.at("a.b")->origin().pointer == "/a.b");
  CHECK(root.at("a.b")->origin().file == "s.json");
  CHECK(root.find("new")->origin().pointer == "/new.deep");  // made on the way
  CHECK(fault_of([&] { assign(root, "a.b.c", *study.find("a.b.c")); }) ==
        "s.json:/a.b.c: expected an object to set 'c' in, got 2");
  CHECK(fault_of([&] { assign(root, "list.1", *study.find("list.1")); }) ==
        "s.json:/list.1: expected an index below 1, got '1'");
}

TEST_CASE("indented text parses back to the same", "[prop]") {
  const Node root = parse_json(R"({"a":{"b":[1,{"c":0.1}],"d":{}},"e":"quote \" and é","f":1e300})", "f.json");
  CHECK(parse_json(root.dump(2), "g.json").dump() == root.dump());
}

}  // namespace test_document
