#include "support.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace orrery::traces::test {

Scratch::Scratch() {
  static int count = 0;
  folder_ = (std::filesystem::temp_directory_path() / fmt::format("orrery-traces-{}-{}", ::getpid(), ++count)).string();
  std::filesystem::create_directories(folder_);
}
Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}
std::string Scratch::path(std::string_view name) const {
  return folder_ + "/" + std::string(name);
}
std::string Scratch::file(std::string_view name, std::string_view content) const {
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string gzip(std::string_view content) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view content) {
  std::string out(ZSTD_compressBound(content.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3));
  return out;
}

FormatTable all_formats() {
  FormatTable table;
  register_formats(table);
  return table;
}

sim::RegistrySet all_registries() {
  sim::RegistrySet registries;
  add_trace_registries(registries);
  return registries;
}

std::vector<TraceRecord> read_all(TraceSource& source) {
  std::vector<TraceRecord> records;
  TraceRecord record;
  while (source.next(record)) records.push_back(record);
  return records;
}

std::vector<TraceRecord> read_all(const TraceParams& params) {
  return read_all(*open_trace(params, all_formats()));
}

std::vector<std::string> short_form(const std::vector<TraceRecord>& records) {
  std::vector<std::string> texts;
  for (const TraceRecord& r : records)
    texts.push_back(fmt::format("{}/{}/{}", r.arrival_ns, r.prompt_tokens, r.output_tokens));
  return texts;
}

std::string fault_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "nothing thrown";
}

std::string fault_of(const TraceParams& params) {
  return fault_of([&] { read_all(params); });
}

GeneratorParams generator(std::string_view json) {
  const sim::RegistrySet registries = all_registries();
  sim::Faults faults;
  GeneratorParams config = parse_generator(sim::parse_json(json, "g.json"), registries, faults);
  faults.throw_if_any();
  return config;
}

}  // namespace orrery::traces::test
