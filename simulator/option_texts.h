// Texts: the command line of laneway-simulate as it was given, and the names that CLI11 reads it
// by. Value type; options.cc checks what it says.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace laneway::simulator {

// As given; empty: not given.
struct Texts {
  std::string trace, generate, save_trace, format, rows, policy, lanes, memory, reserve,
      copy_bandwidth, store, seed, estimates, json, csv, timeline, pairs, open_lanes, devices,
      jitter, replay, policy_patience, turn_gap, calibration;
  std::vector<std::string> where, settings;
  friend bool operator==(const Texts&, const Texts&) = default;
};

// Each option of the program, read into `texts`, which must outlive the app.
void declare(CLI::App& app, Texts& texts);

}  // namespace laneway::simulator
