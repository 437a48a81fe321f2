// Journal: what was asked of the fake and what it had to complain about: counts by name, notes
// (when they are on) and complaints in words. Guarded by the Gpu's mutex.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "tests/fake_cuda/settings.h"

namespace laneway::fake_cuda {

class Journal {
 public:
  explicit Journal(const Settings& settings) : settings_(settings) {}

  void call(const char* name);
  void kernel(const std::string& name);
  // A line of the notes.
  void note(const std::string& line);
  // Something that a caller got wrong, or that the fake cannot do; goes to stderr unless quiet.
  void complain(const std::string& what);

  size_t count(const std::string& name) const;
  void reset_counts() { counts_.clear(); }
  void set_noting(bool on) { noting_ = on; }
  bool noting() const { return noting_ || !settings_.notes_path.empty(); }
  std::string take_notes();
  const std::string& complaints() const { return complaints_; }

 private:
  const Settings& settings_;
  std::map<std::string, size_t> counts_;
  std::string notes_;
  std::string complaints_;
  size_t complained_ = 0;
  bool noting_ = false;
};

}  // namespace laneway::fake_cuda
