// PolicyOptions: the options in the text of a policy, `key=value[:key=value…]`. A policy takes
// those that it knows in its constructor; each call names the key, what it may be, and what it is
// when it is left out. The first thing that is wrong is kept and told by finish(), so that a
// constructor need not ask after each key. Not thread-safe.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace laneway::policies {

class PolicyOptions {
 public:
  // No option is given.
  PolicyOptions() = default;
  // `policy` is for messages. Error invalid_argument: an item is not key=value, or a key comes
  // twice.
  static Result<PolicyOptions> parse(std::string policy, std::string_view text);

  // The place of the value in `allowed`; 0, the first, when it is left out.
  size_t choice(const std::string& key, std::initializer_list<const char*> allowed);
  bool flag(const std::string& key, bool otherwise);  // yes or no
  double number(const std::string& key, double otherwise, double least, double most);
  // A number of seconds of at least a microsecond; `key` ends in _s.
  Duration time(const std::string& key, Duration otherwise, Duration most);
  // A whole number.
  uint64_t count(const std::string& key, uint64_t otherwise, uint64_t least, uint64_t most);

  // The options that nobody took, as text, for somebody else; none is wrong then.
  std::string take_rest();

  // Error invalid_argument names the key, the value and what it may be; or a key that nobody took,
  // and those that there are.
  Status finish() const;

 private:
  // The value; null when it is left out. Notes the key as known.
  const std::string* take(const std::string& key);
  void wrong(const std::string& key, const std::string& value, const std::string& remedy);

  std::string policy_;
  std::map<std::string, std::string> given_;
  std::map<std::string, std::string> left_;  // of `given_`, what nobody took
  std::string known_;                        // keys, for messages
  std::string error_;                        // empty: nothing is wrong
};

}  // namespace laneway::policies
