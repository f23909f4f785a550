#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/base/params.hpp"

namespace test_enum_names {

enum class Taste { sweet, sour, unnamed };
constexpr auto enum_names(Taste) {
  using enum Taste;
  return orrery::sim::names<Taste>({{"sweet", sweet}, {"sour", sour}});
}
enum class Old { first, second };
enum class Plain { one };

}  // namespace test_enum_names

// As plugins for 0.1 say it.
template <>
struct orrery::sim::EnumNames<test_enum_names::Old> {
  using E = test_enum_names::Old;
  static constexpr std::array<std::pair<std::string_view, E>, 2> names{{{"first", E::first}, {"second", E::second}}};
};

namespace test_enum_names {

namespace sim = orrery::sim;

struct Params {
  Taste taste = Taste::sweet;
  Old old = Old::second;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("taste", &Params::taste, "Of it."), sim::field("old", &Params::old, "Or new.")};
  }
};

TEST_CASE("names of an enum, from values and back", "[unit]") {
  STATIC_REQUIRE(sim::to_string(Taste::sour) == "sour");
  STATIC_REQUIRE(sim::to_string(Taste::unnamed).empty());
  STATIC_REQUIRE(sim::value_named<Taste>("sweet") == Taste::sweet);
  STATIC_REQUIRE(!sim::value_named<Taste>("bitter"));
  STATIC_REQUIRE(sim::names_of<Taste>.size() == 2);
  STATIC_REQUIRE(sim::to_string(Old::first) == "first");
  STATIC_REQUIRE(sim::value_named<Old>("second") == Old::second);
  STATIC_REQUIRE(sim::NamedEnum<Taste>);
  STATIC_REQUIRE(sim::NamedEnum<Old>);
  STATIC_REQUIRE(!sim::NamedEnum<Plain>);
}

TEST_CASE("fields take the names of an enum, however they are told", "[unit]") {
  sim::Faults faults;
  const auto read = sim::parse_params<Params>(sim::parse_json(R"({"taste": "sour", "old": "first"})", "test"), faults);
  CHECK(faults.empty());
  CHECK(read.taste == Taste::sour);
  CHECK(read.old == Old::first);
  const std::vector<sim::FieldInfo> fields = sim::describe_params<Params>();
  CHECK(fields[0].choices == std::vector<std::string>{"sweet", "sour"});
  CHECK(fields[1].choices == std::vector<std::string>{"first", "second"});
  CHECK(fields[1].default_value.as_string() == "second");
}

}  // namespace test_enum_names
