// Lines out of files: ends, byte-order mark, length, and decompression.
#include "support.hpp"
#include "traces/line_source.hpp"

namespace test_lines {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

std::vector<std::string> lines_of(const std::string& path, std::size_t chunk = 256 * 1024) {
  LineSource source(path, chunk);
  std::vector<std::string> lines;
  std::string_view line;
  while (source.next(line)) lines.emplace_back(line);
  REQUIRE_FALSE(source.next(line));
  REQUIRE(source.number() == static_cast<std::int64_t>(lines.size()));
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines end with LF, CRLF or the file", "[unit]") {
  const Scratch scratch;
  CHECK(lines_of(scratch.file("a", "")) == Lines{});
  CHECK(lines_of(scratch.file("b", "x")) == Lines{"x"});
  CHECK(lines_of(scratch.file("c", "x\n")) == Lines{"x"});
  CHECK(lines_of(scratch.file("d", "x\r\ny\r\n")) == Lines{"x", "y"});
  CHECK(lines_of(scratch.file("e", "x\r\n\r\ny\r")) == Lines{"x", "", "y"});
  CHECK(lines_of(scratch.file("f", "\n\n")) == Lines{"", ""});
  CHECK(lines_of(scratch.file("g", "\xef\xbb\xbfx\n\xef\xbb\xbfy\n")) ==
        Lines{"x", "\xef\xbb\xbfy"});  // a mark only at the start
}

TEST_CASE("lines do not depend on the size of the buffer", "[unit][prop]") {
  const Scratch scratch;
  std::string content;
  Lines expected;
  for (std::size_t i = 0; i < 50; ++i) {
    expected.push_back(std::string(i * i % 301, static_cast<char>('a' + i % 26)));
    content += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  const std::string path = scratch.file("t", content);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}, std::size_t{4096}})
    CHECK(lines_of(path, chunk) == expected);
}

TEST_CASE("a line of megabytes is one line", "[unit]") {
  const Scratch scratch;
  const std::string longest(3'000'000, 'z');
  CHECK(lines_of(scratch.file("t", "a\n" + longest + "\nb")) == Lines{"a", longest, "b"});
}

TEST_CASE("gzip and zstd are read by their first bytes, whatever the name", "[unit]") {
  const Scratch scratch;
  std::string content;
  for (int i = 0; i < 200'000; ++i) content += std::to_string(i * 7919 % 100003) + "\n";  // > 1 MB: many reads
  const Lines expected = lines_of(scratch.file("plain", content));
  REQUIRE(expected.size() == 200'000);
  CHECK(lines_of(scratch.file("a.csv", gzip(content))) == expected);
  CHECK(lines_of(scratch.file("b.csv", zstd(content))) == expected);
  CHECK(lines_of(scratch.file("c.gz", content)) == expected);
  // Members and frames one after another read as one file.
  CHECK(lines_of(scratch.file("d", gzip("x\ny") + gzip("z\n"))) == Lines{"x", "yz"});
  CHECK(lines_of(scratch.file("e", zstd("x\ny") + zstd("z\n"))) == Lines{"x", "yz"});
  CHECK(lines_of(scratch.file("f", gzip(""))) == Lines{});
  CHECK(lines_of(scratch.file("g", zstd(""))) == Lines{});
}

TEST_CASE("compressed files that are cut off or damaged are faults", "[unit]") {
  const Scratch scratch;
  std::string content;
  for (int i = 0; i < 2000; ++i) content += std::to_string(i * 7919 % 100003) + "\n";
  const std::string gz = gzip(content), zst = zstd(content);
  for (const std::size_t keep : {std::size_t{5}, gz.size() / 2, gz.size() - 1}) {
    const std::string path = scratch.file("cut.gz", gz.substr(0, keep));
    CHECK(fault_of([&] { lines_of(path); }) == path + ": the gzip stream is cut off: the file is not whole");
  }
  for (const std::size_t keep : {std::size_t{5}, zst.size() / 2, zst.size() - 1}) {
    const std::string path = scratch.file("cut.zst", zst.substr(0, keep));
    CHECK(fault_of([&] { lines_of(path); }) == path + ": the zstd stream is cut off: the file is not whole");
  }
  std::string bad = gz;
  bad[gz.size() - 6] = static_cast<char>(bad[gz.size() - 6] ^ 1);  // in the check sum
  const std::string path = scratch.file("bad.gz", bad);
  CHECK(fault_of([&] { lines_of(path); }) == path + ": the gzip stream is damaged: incorrect data check");
  CHECK_THAT(fault_of([&] { lines_of(scratch.file("bad.zst", zst.substr(0, 4) + std::string(50, '\xff'))); }),
             Catch::Contains("bad.zst: the zstd stream is damaged"));
}

TEST_CASE("files that cannot be read are faults", "[unit]") {
  const Scratch scratch;
  const std::string none = scratch.path("none.csv");
  CHECK(fault_of([&] { LineSource{none}; }) == none + ": cannot read the trace: No such file or directory");
  CHECK(fault_of([&] { LineSource{scratch.path("")}; }) ==
        scratch.path("") + ": cannot read the trace: expected a file, got a folder");
  CHECK(fault_of([&] { LineSource{""}; }) == "trace: expected the path of a trace file, got none");
}

}  // namespace test_lines
