// For authors of plugins: policies in a shared object that is built out of the tree, against the installed package, and
// loaded by `orrery --plugin FILE.so` or `orrery.load_plugin(path)`. docs/explain/plugins.md walks through the smallest
// one.
//
// A plugin links the installed static libraries and keeps what it takes from them to itself: that works for the command
// and for the Python module alike, neither of which exports its symbols. Both sides then hold a copy of the code, made
// from the same headers: the ABI below is a digest of them, and a plugin for another one is refused before it is
// called.
#pragma once

#include "models/sym/symbol_names.hpp"
#include "policies/plugin_abi.hpp"
#include "policies/plugin_hooks.hpp"

#define ORRERY_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

/// The entry of a plugin, once in a shared object: members of orrery::policies::Plugin in their order, e.g.
///   ORRERY_PLUGIN(.name = "mine", .doc = "Shortest prompt first.", .batching = add_mine)
#define ORRERY_PLUGIN(...)                                                                                       \
  ORRERY_PLUGIN_EXPORT const char* orrery_plugin_abi() {                                                         \
    return ORRERY_PLUGIN_ABI;                                                                                    \
  }                                                                                                              \
  ORRERY_PLUGIN_EXPORT const orrery::policies::Plugin* orrery_plugin(const orrery::policies::PluginHost& host) { \
    static constexpr orrery::policies::Plugin plugin{__VA_ARGS__};                                               \
    orrery::models::share_names(host.intern_name);                                                               \
    return &plugin;                                                                                              \
  }                                                                                                              \
  static_assert(true, "takes the semicolon")
