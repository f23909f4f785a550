// The store: rows come back as they went in, whose it is, one writer, no room.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "study_support.hpp"

namespace orrery::experiments::study::test_store {
namespace {

using namespace test;
using Catch::Contains;

StoreFacts facts() {
  return {.study = "s",
          .mode = "sweep",
          .hash = "12",
          .version = "1",
          .build = "b",
          .document = "{}",
          .columns = {{"rate", "parameter", ""},
                      {"policy", "parameter", ""},
                      {"ttft", "measure", "ttft_s.p99"},
                      {"objective_ttft", "objective", "minimise"}}};
}

PointRow row(std::int64_t id) {
  return {.id = id,
          .key = "k" + std::to_string(id),
          .cells = {0.1 * double(id), std::string("fcfs"), 1.0 / double(id), 1.0 / double(id)},
          .runs = {id}};
}

std::string refusal(const fs::path& file, const StoreFacts& of) {
  try {
    Store store(file, of);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return {};
}

TEST_CASE("rows come back as they went in", "[store]") {
  Scratch scratch;
  {
    Store store(scratch / "s.sqlite", facts());
    CHECK(store.fresh());
    store.add_run(1, "k1", {.figures = {1.0 / 3}});
    store.add_run(2, "k2",
                  {.status = TrialStatus::infeasible, .reason = "infeasible: does not fit", .figures = {std::nan("")}});
    store.add_point(row(1));
    PointRow second{.id = 2,
                    .repeat = 1,
                    .key = "k2",
                    .fidelity = 0.5,
                    .status = TrialStatus::infeasible,
                    .reason = "it's \"so\", indeed",
                    .cells = {std::int64_t{3}, {}, {}, {}},
                    .runs = {2}};
    store.add_point(second);
    store.commit();
  }
  Store store(scratch / "s.sqlite", facts());
  CHECK_FALSE(store.fresh());
  CHECK_FALSE(store.complete());
  CHECK(store.points() == 2);
  CHECK(store.next_run() == 3);
  CHECK(store.find_run("k1")->second.figures == std::vector<double>{1.0 / 3});
  CHECK(store.find_run("k2")->second.reason == "infeasible: does not fit");
  CHECK_FALSE(store.find_run("k3"));
  CHECK(store.point(1)->cells == row(1).cells);
  CHECK(store.point(1)->status == TrialStatus::ok);
  CHECK(store.point(2)->reason == "it's \"so\", indeed");
  CHECK(store.point(2)->fidelity == 0.5);
  CHECK(std::get<std::int64_t>(store.point(2)->cells[0]) == 3);
  CHECK_FALSE(store.point(3));
  store.finish();
  CHECK_FALSE(fs::exists(scratch / "s.sqlite-wal"));  // one plain file
}

TEST_CASE("what was not committed is gone, what was is there", "[store]") {
  Scratch scratch;
  {
    Store store(scratch / "s.sqlite", facts());
    store.add_point(row(1));
    store.commit();
    store.add_point(row(2));
  }
  Store store(scratch / "s.sqlite", facts());
  CHECK(store.points() == 1);
}

TEST_CASE("another study's store, another build's, no store, a second writer", "[store]") {
  Scratch scratch;
  { Store store(scratch / "s.sqlite", facts()); }
  StoreFacts other = facts();
  other.study = "t";
  CHECK_THAT(refusal(scratch / "s.sqlite", other),
             Contains("s.sqlite: the store is of the sweep 's', not of the sweep 't'"));
  other = facts();
  other.hash = "13";
  CHECK_THAT(refusal(scratch / "s.sqlite", other), Contains("the store is of another version of 's'"));
  other = facts();
  other.build = "c";
  CHECK_THAT(refusal(scratch / "s.sqlite", other), Contains("begun by another build"));
  CHECK_NOTHROW(Store(scratch / "s.sqlite", other, true));
  scratch.write("text", "this is a longer text that is no database at all, is it?");
  CHECK_THAT(refusal(scratch / "text", facts()), Contains("text: expected a store of orrery, found something else"));
  CHECK(slurp(scratch / "text").starts_with("this is"));
  CHECK_THAT(refusal("/dev/full", facts()), Contains("/dev/full: expected a place for a store"));
  CHECK_THAT(refusal("/proc/none/s.sqlite", facts()), Contains("expected a place that can be written"));
  Database(scratch / "other.sqlite", true).execute("CREATE TABLE mine(x)");
  CHECK_THAT(refusal(scratch / "other.sqlite", facts()), Contains("found something else"));
  Store first(scratch / "s.sqlite", facts());
  CHECK_THAT(refusal(scratch / "s.sqlite", facts()), Contains("another process writes this store"));
}

TEST_CASE("a store is removed, unless it is written or no store", "[store]") {
  Scratch scratch;
  const auto refused = [](const std::filesystem::path& file) -> std::string {
    try {
      Store::remove(file);
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  {
    const Store store(scratch / "s.sqlite", facts());
    CHECK_THAT(refused(scratch / "s.sqlite"), Contains("another process writes this store"));
    CHECK(std::filesystem::exists(scratch / "s.sqlite"));
  }
  CHECK(refused(scratch / "s.sqlite") == "");
  CHECK_FALSE(std::filesystem::exists(scratch / "s.sqlite"));
  CHECK(refused(scratch / "s.sqlite") == "");  // nothing there: nothing to do
  scratch.write("begun", "");                  // killed before the first table
  CHECK(refused(scratch / "begun") == "");
  CHECK_FALSE(std::filesystem::exists(scratch / "begun"));
  Database(scratch / "other.sqlite", true).execute("CREATE TABLE mine(x)");
  CHECK_THAT(refused(scratch / "other.sqlite"), Contains("found something else"));
  CHECK(std::filesystem::exists(scratch / "other.sqlite"));
}

TEST_CASE("no room: an error, and what was committed is whole", "[store]") {
  Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{256 * 1024, 256 * 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    int code = 1;
    try {
      Store store(scratch / "s.sqlite", facts());
      for (std::int64_t i = 1; i < 1'000'000; ++i) {
        store.add_point(row(i));
        if (i % 100 == 0) store.commit();
      }
    } catch (const StoreError& error) {
      code = std::string(error.what()).find("is the disk full?") != std::string::npos ? 42 : 2;
    } catch (...) {
      code = 3;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
  Store store(scratch / "s.sqlite", facts());
  REQUIRE(store.points() >= 100);
  CHECK(store.points() % 100 == 0);  // whole transactions
  for (std::int64_t i = 1; i <= store.points(); ++i) REQUIRE(store.point(i)->cells == row(i).cells);
}

}  // namespace
}  // namespace orrery::experiments::study::test_store
