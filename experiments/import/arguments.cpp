#include "experiments/import/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/import/vllm_words.hpp"

namespace orrery::experiments {

using sim::Node;

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Node argument_value(const std::string& word) {
  if (word == "True" || word == "true") return Node::boolean(true);
  if (word == "False" || word == "false") return Node::boolean(false);
  if (!word.empty() && (word.front() == '{' || word.find_first_not_of("0123456789.eE+-") == std::string::npos)) {
    try {
      return sim::parse_json(word, "arguments");
    } catch (const sim::ConfigError&) {
      return Node::string(word);
    }
  }
  return Node::string(word);
}

EngineArguments launch_arguments(const std::vector<std::string>& words) {
  EngineArguments arguments;
  std::string last;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.ends_with(".py")) continue;  // `torchrun --nnodes 8 pretrain_gpt.py --num-layers …`
    if (word == "-m") {                   // a module in place of it
      ++i;
      continue;
    }
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      last = with_underscores(word.substr(2, equals == std::string::npos ? equals : equals - 2));
      arguments[last] = equals == std::string::npos ? Node::boolean(true) : argument_value(word.substr(equals + 1));
    } else if (!last.empty()) {
      Node& value = arguments[last];
      value = value.kind() == Node::Kind::boolean
                  ? argument_value(word)
                  : Node::string((value.is_string() ? value.as_string() : value.dump()) + " " + word);
    }
  }
  if (arguments.empty() && !words.empty())
    sim::throw_fault({"arguments", ""}, fmt::format("expected --NAME VALUE, got '{}'", words.front()));
  return arguments;
}

namespace launch {

void add_members(const Node& object, const std::string& prefix, EngineArguments& arguments) {
  for (const auto& [name, value] : object.members()) {
    if (value.is_object()) {
      add_members(value, prefix + name + ".", arguments);
    } else {
      arguments[with_underscores(prefix + name)] = value;
    }
  }
}

}  // namespace launch

EngineArguments launch_arguments(const std::filesystem::path& file) {
  const Node root = sim::read_json(file);
  if (!root.is_object()) sim::throw_fault({file.string(), ""}, "expected an object of arguments, got " + root.shown());
  EngineArguments arguments;
  launch::add_members(root, "", arguments);
  return arguments;
}

EngineArguments launch_arguments(const std::string& file, const std::vector<std::string>& words) {
  EngineArguments arguments;
  if (!file.empty()) arguments = launch_arguments(std::filesystem::path(file));
  for (auto& [name, value] : launch_arguments(words)) arguments[name] = value;
  return arguments;
}

const Node* ArgumentReader::find(const std::string& name) {
  used_.insert(name);
  const auto entry = arguments_.find(name);
  return entry == arguments_.end() || entry->second.is_null() ? nullptr : &entry->second;
}

std::int64_t ArgumentReader::number(const std::string& name, std::int64_t fallback) {
  const Node* node = find(name);
  if (node == nullptr) return fallback;
  constexpr double kMost = 1e15;  // whole numbers beyond are nobody's, and a double has no room for them
  if (node->is_number() && std::fabs(node->as_number()) < kMost) return static_cast<std::int64_t>(node->as_number());
  if (node->is_string())
    if (const auto value = human_number(node->as_string())) return *value;
  ignore(name, *node);
  return fallback;
}

bool ArgumentReader::flag(const std::string& name, bool fallback) {
  const Node* node = find(name);
  if (find("no_" + name) != nullptr) return false;
  if (node == nullptr) return fallback;
  if (node->kind() == Node::Kind::boolean) return node->as_boolean();
  ignore(name, *node);
  return fallback;
}

std::string ArgumentReader::text(const std::string& name) {
  const Node* node = find(name);
  if (node == nullptr) return "";
  if (node->is_string()) return node->as_string();
  ignore(name, *node);
  return "";
}

void ArgumentReader::skip(std::initializer_list<const char*> names) {
  for (const char* name : names) used_.insert(name);
}

void ArgumentReader::ignore(const std::string& name, const Node& value) {
  out_.ignored.push_back(name + "=" + value.dump());
}
void ArgumentReader::ignore(const std::string& name, const std::string& value) {
  out_.ignored.push_back(name + "=" + value);
}

ImportedConfig ArgumentReader::finish(Node config) {
  for (const auto& [name, value] : arguments_)
    if (!used_.contains(name)) ignore(name, value);
  out_.config = std::move(config);
  return std::move(out_);
}

}  // namespace orrery::experiments
