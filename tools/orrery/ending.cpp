#include "tools/orrery/ending.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "experiments/base/stopped.hpp"
#include "experiments/study/sqlite.hpp"
#include "sim/base/fault.hpp"
#include "sim/base/write_fault.hpp"
#include "tools/orrery/interrupt.hpp"
#include "tools/orrery/terminal.hpp"

namespace orrery::tools {
namespace {

constexpr int kOurs = 1, kInput = 2;
constexpr std::size_t kMostFaults = 100;  ///< that are told; a config with more is another format

int tell(int code, const std::string& text) {
  fmt::print(stderr, "orrery: {}\n", text);
  return code;
}

bool stdout_is_whole() {
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
}

int told_output() {
  fmt::print(stderr, "stdout: could not be written in full\n");
  return kOurs;
}

}  // namespace

void tell_faults(const sim::ConfigError& error) {
  const bool colours = takes_colour(stderr);
  const std::size_t shown = std::min(error.faults().size(), kMostFaults);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string text = error.faults()[i].text();
    fmt::print(stderr, "{}\n", colours ? coloured_fault(text) : text);
  }
  if (shown < error.faults().size()) fmt::print(stderr, "and {} more faults\n", error.faults().size() - shown);
}

int told_exception() {
  try {
    throw;
  } catch (const experiments::Stopped&) {
    fmt::print(stderr, "interrupted: nothing was written\n");
    return kInterrupted;
  } catch (const sim::ConfigError& error) {
    tell_faults(error);
    return kInput;
  } catch (const experiments::study::StoreError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kOurs;
  } catch (const sim::WriteFault& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kOurs;
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "{}: {}\n", error.path1().string(), error.code().message());
    return kInput;
  } catch (const std::bad_alloc&) {
    return tell(kInput, "the input asks for more memory than there is");
  } catch (const std::length_error&) {
    return tell(kInput, "the input asks for more memory than there is");
  } catch (const std::overflow_error& error) {
    return tell(kInput, error.what());
  } catch (const std::exception& error) {
    if (!stdout_is_whole()) return told_output();  // fmt throws where it cannot write
    return tell(kOurs, fmt::format("internal fault: {}", error.what()));
  }
}

int written(int code) {
  if (code == 0 && !stdout_is_whole()) return told_output();
  return code;
}

}  // namespace orrery::tools
