#include "experiments/rl/core/archive.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "experiments/base/run_folder.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr std::string_view kHeader = "orrery-rl-checkpoint 1\n";

}  // namespace

void Archive::finish() const {
  if (place_ != bytes_.size()) throw std::runtime_error("checkpoint: more state than there is to restore");
}

void Archive::raw(void* data, std::size_t size) {
  if (size == 0) return;
  if (!reading_) {
    bytes_.append(static_cast<const char*>(data), size);
    return;
  }
  if (size > bytes_.size() - place_) throw std::runtime_error("checkpoint: ends too soon");
  std::memcpy(data, bytes_.data() + place_, size);
  place_ += size;
}

std::size_t Archive::length(std::size_t size, std::size_t each) {
  auto count = static_cast<std::uint64_t>(size);
  raw(&count, sizeof(count));
  if (reading_ && count > (bytes_.size() - place_) / each) throw std::runtime_error("checkpoint: ends too soon");
  return static_cast<std::size_t>(count);
}

void Archive::mismatch() {
  throw std::runtime_error("checkpoint: a network of another shape");
}

void write_checkpoint(const std::filesystem::path& path, const std::string& identity, const Archive& archive) {
  const std::string& bytes = archive.bytes();
  std::filesystem::path unfinished = path;
  unfinished += ".part";
  write_text(unfinished,
             std::string(kHeader) + identity + "\n" + fmt::format("{:016x}\n", sim::hash_text(bytes)) + bytes);
  std::filesystem::rename(unfinished, path);
}

bool is_checkpoint(const std::filesystem::path& path, const std::string& identity) {
  std::ifstream file(path, std::ios::binary);
  std::string first, second;
  return std::getline(file, first) && first + "\n" == kHeader &&
         (identity.empty() || (std::getline(file, second) && second == identity));
}

Archive read_checkpoint(const std::filesystem::path& path, const std::string& identity) {
  const sim::Origin here{path.string(), ""};
  std::ifstream file(path, std::ios::binary);
  if (!file) sim::throw_fault(here, "cannot read the checkpoint");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!text.starts_with(kHeader)) sim::throw_fault(here, "expected a checkpoint of `orrery train`");
  const std::size_t name_end = text.find('\n', kHeader.size());
  const std::size_t hash_end = name_end == std::string::npos ? name_end : text.find('\n', name_end + 1);
  if (hash_end == std::string::npos) sim::throw_fault(here, "the checkpoint is not whole");
  if (text.substr(kHeader.size(), name_end - kHeader.size()) != identity)
    sim::throw_fault(here, "the checkpoint belongs to another training",
                     "environment, learner and seed must be those that it was made with");
  const std::string bytes = text.substr(hash_end + 1);
  if (text.substr(name_end + 1, hash_end - name_end - 1) != fmt::format("{:016x}", sim::hash_text(bytes)))
    sim::throw_fault(here, "the checkpoint is not whole");
  return Archive(bytes);
}

}  // namespace orrery::experiments::rl
