// ConfigLines: which option stands in which line of the file of --config, so that what is wrong
// with one is said with its place. Reads only where options stand; what they mean is read by
// options.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace laneway::service {

class ConfigLines {
 public:
  struct Line {
    std::string key;  // "pool", or "[SECTION]"
    uint32_t number = 0;
  };

  // Nothing of a file that cannot be read.
  static ConfigLines read(const std::string& path);

  const std::vector<Line>& lines() const { return lines_; }
  // "PATH:LINE: "; "" when no line has the key. Of several the last.
  std::string place_of(const std::string& key) const;
  std::string place_of(const Line& line) const;

 private:
  std::string path_;
  std::vector<Line> lines_;
};

}  // namespace laneway::service
