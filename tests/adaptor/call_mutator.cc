#include "tests/adaptor/call_mutator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace laneway::testing {
namespace {

using lanes::Argument;

constexpr int64_t kMostElements = 1 << 20;
constexpr int64_t kMostExtent = 1 << 16;

template <class T, size_t N>
const T& any_of(const T (&choices)[N], Random& random) {
  return choices[random.below(N)];
}

class Mutator {
 public:
  Mutator(OperandCall& call, Random& random) : call_(call), random_(random) {}

  void mutate_once() {
    if (call_.arguments.empty()) return;
    const uint64_t tensors = call_.tensors.size();
    if (tensors > 0 && random_.chance(0.6)) {
      tensor(call_.tensors[random_.below(tensors)]);
      return;
    }
    lanes::NamedArgument& given = call_.arguments[random_.below(call_.arguments.size())];
    argument(given.argument, 0);
  }

 private:
  void tensor(OperandTensor& t) {
    const OperandTensor before = t;
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: size(t); break;
      case 4: rank(t); break;
      case 5: t.dtype = static_cast<lanes::DType>(random_.below(lanes::kDTypeCount)); break;
      case 6:
      case 7: strides(t); break;
      case 8: contents(t); break;
      case 9: {
        const OperandTensor& other = call_.tensors[random_.below(call_.tensors.size())];
        t.sizes = other.sizes;
        t.strides = other.strides;
        break;
      }
      case 10: t.offset = random_.between(0, 3); break;
      case 11: t.route = random_.chance(0.5) ? Route::computed : Route::disguised; break;
    }
    if (t.elements() > kMostElements || t.extent() > kMostExtent) t = before;
  }

  void size(OperandTensor& t) {
    if (t.sizes.empty()) {
      t.sizes.push_back(random_.between(0, 3));
    } else {
      int64_t& chosen = t.sizes[random_.below(t.sizes.size())];
      const int64_t choices[] = {0,          1,          chosen - 1,  chosen + 1,
                                 chosen * 2, chosen / 2, chosen + 17, random_.between(0, 20)};
      chosen = std::max<int64_t>(any_of(choices, random_), 0);
    }
    t.make_dense();
  }

  void rank(OperandTensor& t) {
    const auto place = static_cast<int64_t>(random_.below(t.sizes.size() + 1));
    if (random_.chance(0.5) && place < static_cast<int64_t>(t.sizes.size())) {
      t.sizes.erase(t.sizes.begin() + place);
    } else {
      t.sizes.insert(t.sizes.begin() + place, random_.between(0, 3));
    }
    t.make_dense();
  }

  void strides(OperandTensor& t) {
    if (t.sizes.empty()) return;
    const size_t d = random_.below(t.sizes.size());
    switch (random_.below(5)) {
      case 0: t.strides[d] = 0; break;
      case 1: std::fill(t.strides.begin(), t.strides.end(), 0); break;
      case 2: t.strides[d] = random_.between(0, 9); break;
      case 3: {
        const size_t e = random_.below(t.sizes.size());
        std::swap(t.sizes[d], t.sizes[e]);
        t.make_dense();
        std::swap(t.sizes[d], t.sizes[e]);
        std::swap(t.strides[d], t.strides[e]);
        break;
      }
      case 4:
        for (int64_t& stride : t.strides) stride *= 2;
        break;
    }
    if (random_.chance(0.3)) t.route = Route::disguised;
  }

  void contents(OperandTensor& t) {
    static constexpr int64_t kNumbers[] = {
        0,    1,       -1,        -1,        2,         7,
        -100, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, std::numeric_limits<int64_t>::min()};
    t.contents.clear();
    const uint64_t count = random_.below(8) + 1;
    for (uint64_t i = 0; i < count; ++i) {
      t.contents.push_back(random_.chance(0.5) ? random_.between(0, 4) : any_of(kNumbers, random_));
    }
    if (random_.chance(0.3)) t.route = Route::computed;
  }

  void argument(Argument& given, int depth) {
    if (random_.chance(0.05) && !std::holds_alternative<lanes::ValueArgument>(given.content)) {
      given = {};
      return;
    }
    if (auto* number = std::get_if<int64_t>(&given.content)) {
      integer(*number);
    } else if (auto* real = std::get_if<double>(&given.content)) {
      const double choices[] = {0.0, -1.0, 1.0, 0.5, NAN, INFINITY, 1e300, -1e-300, *real * 2};
      *real = any_of(choices, random_);
    } else if (auto* truth = std::get_if<bool>(&given.content)) {
      *truth = !*truth;
    } else if (auto* word = std::get_if<std::string>(&given.content)) {
      static const char* const kWords[] = {"",    "none", "mean",  "sum",  "trunc", "floor",
                                           "max", "add",  "right", "amax", "tanh",  "prod"};
      *word = any_of(kWords, random_);
    } else if (auto* type = std::get_if<lanes::DTypeArgument>(&given.content)) {
      type->dtype = static_cast<lanes::DType>(random_.below(lanes::kDTypeCount));
    } else if (auto* format = std::get_if<lanes::MemoryFormatArgument>(&given.content)) {
      format->format = static_cast<lanes::MemoryFormat>(random_.below(4));
    } else if (auto* list = std::get_if<lanes::ListArgument>(&given.content)) {
      elements(list->elements, depth);
    } else if (std::holds_alternative<lanes::ValueArgument>(given.content)) {
      given = {};
    } else if (random_.chance(0.5)) {
      fill_in(given);
    }
  }

  void integer(int64_t& number) {
    const int64_t choices[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               -2,
                               7,
                               100,
                               number + 1,
                               number - 1,
                               number * 2,
                               -number,
                               INT32_MAX,
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()};
    const uint64_t usual = random_.chance(0.8) ? 12 : 15;
    number = choices[random_.below(usual)];
  }

  void elements(std::vector<Argument>& list, int depth) {
    if (list.empty()) {
      list.push_back({int64_t{1}});
      return;
    }
    const auto place = static_cast<int64_t>(random_.below(list.size()));
    switch (random_.below(6)) {
      case 0: list.erase(list.begin() + place); break;
      case 1: list.insert(list.begin() + place, Argument(list[static_cast<size_t>(place)])); break;
      case 2: list.clear(); break;
      case 3: std::swap(list.front(), list[static_cast<size_t>(place)]); break;
      default:
        if (depth < 3) argument(list[static_cast<size_t>(place)], depth + 1);
    }
  }

  // Something where nothing was.
  void fill_in(Argument& given) {
    if (random_.chance(0.5) && !call_.tensors.empty()) {
      call_.tensors.push_back(call_.tensors[random_.below(call_.tensors.size())]);
      given = {lanes::ValueArgument{static_cast<uint32_t>(call_.tensors.size() - 1)}};
    } else if (random_.chance(0.5)) {
      given = {random_.between(-1, 3)};
    } else {
      given = {lanes::ListArgument{{{int64_t{1}}, {int64_t{2}}}}};
    }
  }

  OperandCall& call_;
  Random& random_;
};

}  // namespace

void mutate_call(OperandCall& call, Random& random) {
  Mutator mutator(call, random);
  const uint64_t count = random.chance(0.5) ? 1 : 1 + random.below(4);
  for (uint64_t i = 0; i < count; ++i) mutator.mutate_once();
}

}  // namespace laneway::testing
