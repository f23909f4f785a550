// Faults as text, and the names that a slip may have meant.
#include "sim/base/fault.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace test_fault {

using namespace orrery::sim;
using Names = std::vector<std::string>;

TEST_CASE("fault: place, message and hint, as far as they are there", "[unit]") {
  CHECK(Fault{{"f.json", "/a/b"}, "wrong", "right"}.text() == "f.json:/a/b: wrong (right)");
  CHECK(Fault{{"f.json", ""}, "wrong", ""}.text() == "f.json: wrong");
  CHECK(Fault{{"", "/a"}, "wrong", ""}.text() == "/a: wrong");
  CHECK(Fault{{"", ""}, "wrong", "right"}.text() == "wrong (right)");
}

TEST_CASE("fault: all of a file are thrown at once, a line each", "[unit]") {
  Faults faults;
  CHECK(faults.empty());
  CHECK_NOTHROW(faults.throw_if_any());
  faults.note("taken as b");
  faults.note("taken as c");
  faults.note("taken as b");
  CHECK(faults.notes() == Names{"taken as b", "taken as c"});  // told once
  CHECK(faults.empty());
  CHECK_NOTHROW(faults.throw_if_any());  // a note is no fault
  faults.add({"f", "/a"}, "one");
  faults.add({"f", "/b"}, "two", "hint");
  CHECK_FALSE(faults.empty());
  CHECK(faults.size() == 2);
  try {
    faults.throw_if_any();
    FAIL("not thrown");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()) == "f:/a: one\nf:/b: two (hint)");
    REQUIRE(error.faults().size() == 2);
    CHECK(error.faults()[1].hint == "hint");
  }
  CHECK_THROWS_WITH(throw_fault({"g", ""}, "alone", "so"), "g: alone (so)");
}

TEST_CASE("nearest names: a letter more, less, other, or two swapped is one slip", "[unit]") {
  // Three letters allow one slip: the name found is within one, the one that is not found beyond.
  const auto near = [](const char* text, const char* known) { return !nearest_name(text, Names{known}).empty(); };
  CHECK(near("abc", "abcd"));
  CHECK(near("abc", "xabc"));
  CHECK(near("abc", "ab"));
  CHECK(near("abc", "abd"));
  CHECK(near("abc", "bac"));
  CHECK(near("abc", "acb"));
  CHECK_FALSE(near("abc", "abcde"));
  CHECK_FALSE(near("abc", "a"));
  CHECK_FALSE(near("abc", "xyc"));
  CHECK_FALSE(near("abc", "cba"));  // three swaps, or two changes
  // Four letters allow two.
  CHECK(near("abcd", "badc"));  // two swaps
  CHECK(near("abcd", "abcdef"));
  CHECK(near("abcd", "ab"));
  CHECK(near("abcd", "axyd"));
  CHECK_FALSE(near("abcd", "xyzd"));
  CHECK_FALSE(near("abcd", "badcx"));  // two swaps and a letter
  CHECK_FALSE(near("abcd", "abcdefg"));
  // Nine letters allow three, eight two.
  CHECK(near("abcdefghi", "abcdefxyz"));
  CHECK_FALSE(near("abcdefgh", "abcdexyz"));
  CHECK_FALSE(near("abcdefghi", "abcdewxyz"));
  // Never the whole name.
  CHECK_FALSE(near("a", "b"));
  CHECK(near("ab", "b"));
  CHECK_FALSE(near("ab", "xy"));
  CHECK_FALSE(near("", "a"));
}

TEST_CASE("nearest names: all that are as near, sorted, each once", "[unit]") {
  const Names known{"mode", "node", "code", "mode", "nodes"};
  CHECK(nearest_names("xode", known) == Names{"code", "mode", "node"});
  CHECK(nearest_name("xode", known) == "code");          // the first of equals
  CHECK(nearest_names("mode", known) == Names{"mode"});  // itself: nothing is nearer
  CHECK(nearest_names("nodes", known) == Names{"nodes"});
  CHECK(nearest_names("zzzz", known).empty());
  CHECK(nearest_name("zzzz", known).empty());
}

TEST_CASE("a hint names what is near, a few or many, or all", "[unit]") {
  CHECK(name_hint("x", {}) == "none is allowed here");
  CHECK(name_hint("", {"b", "a"}) == "known: a, b");
  CHECK(name_hint("zzz", {"beta", "alpha"}) == "known: alpha, beta");
  CHECK(name_hint("alpa", {"beta", "alpha"}) == "did you mean 'alpha'?");
  const auto numbered = [](int count) {
    Names names;
    for (int i = 0; i < count; ++i) names.push_back("part-" + std::string(1, static_cast<char>('a' + i)));
    return names;
  };
  CHECK(name_hint("part", numbered(2)) == "did you mean 'part-a' or 'part-b'?");
  CHECK(name_hint("part", numbered(4)) == "did you mean 'part-a', 'part-b', 'part-c' or 'part-d'?");
  CHECK(name_hint("part", numbered(5)) == "near it: part-a, part-b, part-c, part-d, part-e");
  CHECK_THAT(name_hint("part", numbered(16)), Catch::EndsWith("part-o, part-p"));
  CHECK_THAT(name_hint("part", numbered(17)), Catch::EndsWith("part-o, part-p, …"));
}

}  // namespace test_fault
