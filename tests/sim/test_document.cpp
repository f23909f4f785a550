#include <catch2/catch.hpp>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "sim/base/document.hpp"
#include "tests/sim/input_support.hpp"

namespace test_document {

using namespace orrery::sim;
namespace fs = std::filesystem;
using orrery::test::fault_of;
using orrery::test::Scratch;

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

TEST_CASE("nodes: kinds, values and members", "[unit]") {
  CHECK(Node().is_null());
  CHECK(Node::boolean(true).as_boolean());
  CHECK_FALSE(Node::boolean(false).as_boolean());
  CHECK(Node::boolean(true).kind() == Node::Kind::boolean);
  CHECK(Node::integer(3).is_number());
  CHECK(Node::integer(3).as_number() == 3);
  CHECK(Node::real(0.5).is_number());
  CHECK(Node::real(0.5).as_number() == 0.5);
  CHECK_FALSE(Node::string("x").is_number());
  CHECK_FALSE(Node::boolean(true).is_number());
  CHECK(Node::array().is_array());
  CHECK_FALSE(Node::array().is_object());
  Node object = Node::object();
  CHECK(object.is_object());
  object.set("a", Node::integer(1));
  object.set("b", Node::integer(2)).set_origin({"g.json", "/x"});
  object.add("c", Node::string("three"));
  object.set("a", Node::string("one"));  // keeps its place
  CHECK(object.dump() == R"({"a":"one","b":2,"c":"three"})");
  CHECK(object.find("b")->origin().pointer == "/x");
  CHECK(object.member(2).as_string() == "three");
  CHECK(object.find("d") == nullptr);
  object.erase("d");
  object.erase("b");
  CHECK(object.dump() == R"({"a":"one","c":"three"})");
}

TEST_CASE("nodes: what a message shows of them", "[unit]") {
  CHECK(Node::string("a\"b").shown() == R"("a\"b")");
  CHECK(Node::integer(-3).shown() == "-3");
  CHECK(Node::real(1.5).shown() == "1.5");
  CHECK(Node::boolean(true).shown() == "true");
  CHECK(Node::boolean(false).shown() == "false");
  CHECK(Node().shown() == "null");
  CHECK(parse_json("[1]", "f").shown() == "an array");
  CHECK(parse_json("{}", "f").shown() == "an object");
}

TEST_CASE("nodes: where a member would be that is not there", "[unit]") {
  const Node root = parse_json(R"({"a": {"b": 1}})", "f.json");
  const auto pointer = [&](const char* dotted) { return root.origin_at(dotted).pointer; };
  CHECK(pointer("a") == "/a");
  CHECK(pointer("a.b") == "/a/b");
  CHECK(pointer("a.x") == "/a/x");
  CHECK(pointer("a.x.y") == "/a/x/y");
  CHECK(pointer("z.b") == "/z/b");
  CHECK(root.origin_at("z.b.c").file == "f.json");
  CHECK(root.origin_of("x/y~z").pointer == "/x~1y~0z");
  CHECK(root.at("a.b")->as_integer() == 1);
  CHECK(root.at("a")->is_object());
  CHECK(root.at("b") == nullptr);
  CHECK(root.at("a.b.c") == nullptr);
}

TEST_CASE("json: whole numbers are exact to 63 bits, larger ones are reals", "[unit]") {
  const Node root = parse_json("[9223372036854775807, 9223372036854775808, -9223372036854775808, 1.0, -5]", "f.json");
  CHECK(root.items()[0].kind() == Node::Kind::integer);
  CHECK(root.items()[0].as_integer() == std::numeric_limits<std::int64_t>::max());
  CHECK(root.items()[1].kind() == Node::Kind::real);
  CHECK(root.items()[1].as_number() == 0x1p63);
  CHECK(root.items()[2].kind() == Node::Kind::integer);
  CHECK(root.items()[2].as_integer() == std::numeric_limits<std::int64_t>::min());
  CHECK(root.items()[3].kind() == Node::Kind::real);
  CHECK(root.items()[4].as_integer() == -5);
}

TEST_CASE("json: a syntax error stands at its line and column", "[unit]") {
  const auto at = [](const std::string& text) {
    const std::string fault = fault_of([&] { parse_json(text, "f"); });
    const auto end = fault.find(": expected valid JSON: syntax error");
    return end == std::string::npos ? fault : fault.substr(0, end);
  };
  CHECK(at("x") == "f:1:1");
  CHECK(at("[1 2]") == "f:1:4");
  CHECK(at("\n\n  ]") == "f:3:3");
  CHECK(at("[1,\n2") == "f:2:2");  // behind the last character
}

TEST_CASE("json: comments may stand anywhere, and a comma behind the last item", "[unit]") {
  const auto read = [](const std::string& text) { return parse_json(text, "f").dump(); };
  CHECK(read("[1, 2,]") == "[1,2]");
  CHECK(read("[1,\t\r\n ]") == "[1]");
  CHECK(read(R"({"a": [1,], "b": {"c": 2, }, })") == R"({"a":[1],"b":{"c":2}})");
  CHECK(read("[1, // one, ]\n]") == "[1]");
  CHECK(read("[1, /* ] */ ] // }") == "[1]");
  CHECK(read("[1 /* , */, 2 /* x */]") == "[1,2]");
  CHECK(read("/**/ [ /*/ 2, */ 1] //") == "[1]");
  CHECK(read(R"(["a", "b"])") == R"(["a","b"])");
  CHECK(read(R"(["a",])") == R"(["a"])");
  CHECK(read(R"(["// no, ]", "/*", "a\",]\\", ])") == R"(["// no, ]","/*","a\",]\\"])");
  CHECK(read("[1,2 ]") == "[1,2]");
  CHECK(read("[[1,],[2]]") == "[[1],[2]]");
  CHECK(read("[true,]") == "[true]");
  for (const char* text : {"[,]", "{,}", "[1,,]", "[,1]", R"({"a":1,,})", "[1,] /*", "[/*/]", "[\"a]", "[1],"})
    CHECK_THAT(fault_of([&] { parse_json(text, "f"); }), Catch::Contains("expected valid JSON"));
}

TEST_CASE("json: nesting ends below 200", "[unit]") {
  const auto nested = [](std::size_t depth) {
    return parse_json(std::string(depth, '[') + std::string(depth, ']'), "f.json");
  };
  CHECK(nested(199).is_array());
  CHECK(fault_of([&] { nested(200); }) == "f.json: expected JSON nested less than 200 deep");
}

TEST_CASE("json: every repeated key is told where it stands", "[unit]") {
  CHECK(fault_of([] { parse_json(R"({"a/b": [{"~": 1, "~": {}}], "c": 1, "a/b": 2, "a/b": 3})", "f"); }) ==
        "f:/a~1b/0/~0: this key is given twice\nf:/a~1b: this key is given twice\nf:/a~1b: this key is given twice");
  CHECK(parse_json(R"({"a": {"x": 1}, "b": {"x": 2}})", "f").at("b.x")->as_integer() == 2);  // of another object
}

TEST_CASE("json as text: compact, on a line, indented", "[unit]") {
  const Node root =
      parse_json(R"({"a": [1, {"c": 0.5, "d": []}, [2, 3]], "b": {}, "e": {"f": null, "g": true}})", "f.json");
  CHECK(root.dump() == R"({"a":[1,{"c":0.5,"d":[]},[2,3]],"b":{},"e":{"f":null,"g":true}})");
  CHECK(root.dump(0) == R"({"a": [1, {"c": 0.5, "d": []}, [2, 3]], "b": {}, "e": {"f": null, "g": true}})");
  CHECK(root.dump(2) == R"({
  "a": [1, {"c": 0.5, "d": []}, [2, 3]],
  "b": {},
  "e": {
    "f": null,
    "g": true
  }
})");
  CHECK(Node::real(-0.0).dump() == "0");
  CHECK(Node::real(-0.5).dump() == "-0.5");
  CHECK(Node::real(1e300).dump() == "1e+300");
  CHECK(Node::string("\xff").dump() == "\"\xEF\xBF\xBD\"");  // no UTF-8: the sign for that
}

TEST_CASE("merging: what is above replaces, key by key, in the place of what is below", "[unit]") {
  Node below = parse_json(R"({"a": 1, "b": {"x": 1, "y": [1, 2]}, "c": {"d": 1}})", "below.json");
  merge_over(below, parse_json(R"({"e": 5, "b": {"y": [3], "z": 4}, "c": 7, "a": {"n": 1}})", "above.json"));
  CHECK(below.dump() == R"({"a":{"n":1},"b":{"x":1,"y":[3],"z":4},"c":7,"e":5})");
  CHECK(below.origin().file == "above.json");
  CHECK(below.find("b")->origin().file == "above.json");
  CHECK(below.at("b.x")->origin().file == "below.json");
  CHECK(below.at("b.y")->origin().file == "above.json");
  CHECK(below.find("e")->origin().pointer == "/e");
}

TEST_CASE("bases: of several the later wins, one that many name is read once", "[unit]") {
  const Scratch scratch;
  scratch.write("root.json", R"({"a": "root", "b": "root", "c": "root", "d": "root"})");
  scratch.write("left.json", R"({"base": "root.json", "b": "left", "c": "left"})");
  scratch.write("right.json", R"({"base": ["root.json"], "c": "right"})");
  const fs::path top = scratch.write("top.json", R"({"base": ["left.json", "right.json"], "d": "top"})");
  // right.json has root's b, which lies over left's.
  CHECK(read_config(top).dump() == R"({"a":"root","b":"root","c":"right","d":"top"})");
  const std::vector<std::string> set{"a=1", "e.f=2"};
  CHECK(read_config(top, set).dump() == R"({"a":1,"b":"root","c":"right","d":"top","e":{"f":2}})");
  CHECK(read_config(read_json(top), set).at("e.f")->as_integer() == 2);
  CHECK(read_config(scratch.write("none.json", R"({"base": [], "x": 1})")).dump() == R"({"x":1})");
}

TEST_CASE("bases: what is no object, no path or itself is a fault where it is named", "[unit]") {
  const Scratch scratch;
  const std::string at = scratch.path().string() + "/";
  const auto fault = [&](const char* name, const char* text) {
    const fs::path path = scratch.write(name, text);
    return fault_of([&] { read_config(path); });
  };
  CHECK(fault("list.json", "[1]") == at + "list.json: expected an object, got an array");
  CHECK(fault("over.json", R"({"base": "list.json"})") == at + "list.json: expected an object, got an array");
  CHECK(fault("path.json", R"({"base": ["over.json", true]})").find(at + "list.json:") == 0);  // in their order
  CHECK(fault("self.json", R"({"base": "./self.json"})") ==
        at + "self.json:/base: expected a file that does not lead back here, got '" + at + "self.json'");
  CHECK(fault("second.json", R"({"base": ["ok.json", 5]})") ==
        at + "second.json:/base/0: expected a file, found none at '" + at + "ok.json'");
  scratch.write("ok.json", "{}");
  CHECK(fault("second.json", R"({"base": ["ok.json", 5]})") == at + "second.json:/base/1: expected a path, got 5");
  CHECK(fault("folder.json", R"({"base": "../"})").find(at + "folder.json:/base: expected a file, found none") == 0);
}

TEST_CASE("bases: a thousand files at most", "[unit]") {
  const Scratch scratch;
  std::string names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i) + ".json";
    scratch.write(name, "{\"n\": " + std::to_string(i) + "}");
    names += (i == 0 ? "\"" : ", \"") + name + "\"";
  }
  const fs::path most = scratch.write("most.json", "{\"base\": [" + names + "]}");
  CHECK(read_config(most).find("n")->as_integer() == 999);
  scratch.write("more.json", "{}");
  const fs::path more = scratch.write("top.json", "{\"base\": [" + names + ", \"more.json\"]}");
  CHECK(fault_of([&] { read_config(more); }) == more.string() + ":/base: expected at most 1000 files to build on");
}

TEST_CASE("assignments: the value is JSON or else a text, and stands under its name", "[unit]") {
  Node root = parse_json(R"({"list": [1, {"x": 2}]})", "f.json");
  assign(root, R"(a.b={"c": [1, {"d/e": 2}]})");
  const Node& inner = *root.at("a.b.c")->items()[1].find("d/e");
  CHECK(inner.origin().pointer == "/a/b/c/1/d~1e");
  CHECK(inner.origin().file == "--set");
  CHECK(root.find("a")->origin().pointer == "/a");
  CHECK(root.find("a")->origin().file == "--set");
  assign(root, "text=b=c");
  CHECK(root.find("text")->as_string() == "b=c");
  assign(root, "empty=");
  CHECK(root.find("empty")->as_string().empty());
  assign(root, "list.0=null");
  CHECK(root.find("list")->items()[0].is_null());
  assign(root, "list.1=7");
  CHECK(root.find("list")->dump() == "[null,7]");
  assign(root, "n/m.k=1");
  CHECK(root.at("n/m.k")->origin().pointer == "/n~1m/k");
}

TEST_CASE("assignments: what leads nowhere is a fault with its pointer", "[unit]") {
  Node root = parse_json(R"({"list": [1, 2], "n": 3})", "f.json");
  const auto fault = [&](const char* text) { return fault_of([&] { assign(root, text); }); };
  CHECK(fault("=1") == "--set =1: expected name=value, e.g. workload.rate_scale=2");
  CHECK(fault("a") == "--set a: expected name=value, e.g. workload.rate_scale=2");
  CHECK(fault(".a=1") == "--set .a=1: expected a name between the dots");
  CHECK(fault("a.=1") == "--set a.=1: expected a name between the dots");
  CHECK(fault("list.2=1") == "--set list.2=1:/list/2: expected an index below 2, got '2'");
  CHECK(fault("list.1x=1") == "--set list.1x=1:/list/1x: expected an index below 2, got '1x'");
  CHECK(fault("list.-1=1") == "--set list.-1=1:/list/-1: expected an index below 2, got '-1'");
  CHECK(fault("n.x.y=1") == "--set n.x.y=1:/n/x: expected an object to set 'x' in, got 3");
  CHECK(fault("list.0.x=1") == "--set list.0.x=1:/list/0/x: expected an object to set 'x' in, got 1");
}

TEST_CASE("documents: the folder of an assignment is where the program runs", "[unit]") {
  CHECK(folder_of({"a/b/c.json", "/x"}) == "a/b");
  CHECK(folder_of({"c.json", ""}).empty());
  CHECK(folder_of({"--set x=1", ""}) == fs::current_path());
}

TEST_CASE("documents: a dash is standard input", "[unit]") {
  std::istringstream text(R"({"a": 1})");
  std::streambuf* const before = std::cin.rdbuf(text.rdbuf());
  const Node root = read_json("-");
  std::cin.rdbuf(before);
  std::cin.clear();
  CHECK(root.find("a")->origin().file == "-");
}

TEST_CASE("a hash of a text is FNV-1a, and goes on from another", "[unit]") {
  // Of 64 bits: http://www.isthe.com/chongo/tech/comp/fnv, test vectors.
  CHECK(hash_text("") == 0xcbf29ce484222325ULL);
  CHECK(hash_text("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(hash_text("foobar") == 0x85944171f73967e8ULL);
  CHECK(hash_text("bar", hash_text("foo")) == hash_text("foobar"));
  CHECK(hash_text("\xff") == (0xcbf29ce484222325ULL ^ 0xff) * 0x100000001b3ULL);  // a byte, not -1
}

}  // namespace test_document
