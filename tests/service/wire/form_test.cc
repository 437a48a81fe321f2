// Shows that a struct's fields are all of its members in the order of their declaration, and that a
// message whose form changes has another version. Of every type of message the table below has the
// version and the hash of its form (message_form.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>

#include "service/trace/trace_file.h"
#include "service/wire/trace_record.h"
#include "tests/service/wire/every_message.h"
#include "tests/service/wire/message_form.h"

namespace laneway::wire {
namespace {

using laneway::testing::form_of;

struct Inner {
  bool one = false;
  std::string two;
};
struct Outer {
  uint32_t first = 0;
  Inner second;
  std::array<uint8_t, 3> third{};
  std::vector<Inner> fourth;
  Bytes fifth;
};
struct Empty {};
struct Based : Inner {
  int own = 0;
};
struct Constructed {
  explicit Constructed(int from) : value(from) {}
  int value;
};

TEST(Fields, AreAllMembersInTheirOrder) {
  Outer outer;
  const auto members = fields(outer);
  static_assert(std::tuple_size_v<decltype(members)> == 5);
  EXPECT_EQ(&std::get<0>(members), &outer.first);
  EXPECT_EQ(&std::get<1>(members), &outer.second);
  EXPECT_EQ(&std::get<2>(members), &outer.third);
  EXPECT_EQ(&std::get<3>(members), &outer.fourth);
  EXPECT_EQ(&std::get<4>(members), &outer.fifth);
  EXPECT_EQ(form_of<Outer>(), "{u4,{bool,text},bytes3,[{bool,text}],size}");
}

TEST(Fields, AreThoseOfPlainStructsAlone) {
  static_assert(field_count<Empty>() == 0);
  static_assert(field_count<Inner>() == 2);
  // The base counts as one: fields() of it does not compile, since no name binds to a base.
  static_assert(field_count<Based>() == 2);
  static_assert(!PlainStruct<Constructed>);
  static_assert(!PlainStruct<std::string> && !PlainStruct<Bytes> && !PlainStruct<JobId>);
}

struct Known {
  uint16_t version;
  uint32_t hash;
};

// FNV-1a, so that the table is the same with every library.
uint32_t hash_of(const std::string& form) {
  uint32_t hash = 2166136261u;
  for (const char byte : form) hash = (hash ^ static_cast<uint8_t>(byte)) * 16777619u;
  return hash;
}

const std::map<uint16_t, Known>& known_forms() {
  static const std::map<uint16_t, Known> forms{
      {0, {19, 0x99dfc2a6}},  {1, {1, 0xa7b63c87}},   {2, {1, 0x5465b825}},
      {3, {7, 0xd98aebba}},   {4, {1, 0xbf0d7d04}},   {5, {1, 0x6f6e9c86}},
      {6, {1, 0x755ff3c7}},   {7, {1, 0xebc18f71}},   {8, {1, 0xf31dae58}},
      {9, {1, 0x755ff3c7}},   {10, {1, 0x755ff3c7}},  {11, {1, 0x97e134ec}},
      {12, {2, 0x875e0791}},  {13, {1, 0xbf0d7d04}},  {14, {1, 0xbf0d7d04}},
      {15, {1, 0x5465b825}},  {16, {1, 0xbf0d7d04}},  {17, {1, 0x3792e261}},
      {18, {3, 0x23dc9fd7}},  {19, {1, 0x6f6e9c86}},  {20, {1, 0xbf0d7d04}},
      {21, {1, 0x5465b825}},  {101, {1, 0xfbca6ebb}}, {102, {1, 0x5465b825}},
      {103, {2, 0x413a1df9}}, {104, {2, 0x49959d81}}, {105, {2, 0x66778502}},
      {106, {2, 0x3310032c}}, {107, {1, 0x5465b825}}, {108, {1, 0x8d5d76ef}},
      {109, {1, 0xbf0d7d04}}, {151, {1, 0x98a55136}}, {152, {1, 0x5465b825}},
      {153, {1, 0x6f6e9c86}}, {201, {6, 0xfab944d4}}, {202, {1, 0x186835e0}},
      {203, {1, 0x191d882c}}, {204, {2, 0xfe6e2722}}, {205, {1, 0x191d882c}},
      {206, {1, 0x9d77ad5a}}, {207, {1, 0x9cf39b69}}, {208, {1, 0x938b33fa}},
      {209, {1, 0xe051ea8f}}, {210, {9, 0x4847b6ef}}, {211, {1, 0x5465b825}},
      {212, {1, 0x757c75db}}, {213, {1, 0xe3d51ebc}}, {251, {1, 0xb0c2a920}},
      {252, {3, 0x35b9c6c1}}, {253, {2, 0xcc2ee8e2}}, {254, {7, 0x4f1b0481}},
      {255, {1, 0xb0c2a920}}, {256, {1, 0x3365bf35}}, {257, {11, 0x4eca6c13}},
      {258, {2, 0x70dac9fd}}, {271, {1, 0x9f0a2424}}, {272, {1, 0x755ff3c7}},
      {273, {1, 0x755ff3c7}}, {274, {1, 0x6f6e9c86}}, {275, {1, 0x5465b825}},
      {281, {1, 0xc5c43153}}, {301, {6, 0x90bd8cb0}}, {302, {1, 0x61ecc514}},
      {303, {1, 0x5465b825}}, {304, {2, 0xc9810252}}, {305, {1, 0x14911e2b}},
      {306, {2, 0xbf0d7d04}}, {307, {1, 0xbb97f46d}}, {331, {2, 0x8f6ff705}},
      {332, {1, 0xbf0d7d04}}, {333, {1, 0x5465b825}}, {334, {1, 0x5465b825}},
      {335, {1, 0x5465b825}}, {336, {1, 0xbf0d7d04}}, {337, {1, 0x6f6e9c86}},
      {338, {1, 0x7211a821}}, {361, {5, 0x11178900}}, {362, {1, 0x6f6e9c86}},
      {363, {1, 0x6f6e9c86}}, {364, {1, 0x5465b825}}, {365, {2, 0xd89cd69b}},
      {366, {1, 0x5465b825}}, {381, {2, 0x42836311}}, {382, {1, 0x0c44c616}},
      {383, {1, 0xfbca6ebb}}, {384, {1, 0x5465b825}}, {385, {1, 0x5465b825}},
      {386, {1, 0xbf0d7d04}}, {411, {8, 0x5a72a9d9}}, {412, {1, 0x757c75db}},
      {413, {1, 0x757c75db}}, {414, {1, 0x6f6e9c86}}, {415, {1, 0x6f6e9c86}},
      {421, {1, 0x7cc6de0f}}, {422, {1, 0x6f6e9c86}}, {110, {5, 0x8a61a398}},
      {416, {1, 0x8606a375}}, {308, {1, 0x5465b825}}, {309, {1, 0x6f6e9c86}},
      {310, {1, 0x4b825b0c}}, {339, {1, 0xde130792}},
  };
  return forms;
}

void expect_known(uint16_t number, uint32_t version, const char* name, const std::string& form) {
  const auto known = known_forms().find(number);
  const bool same = known != known_forms().end() && known->second.version == version &&
                    known->second.hash == hash_of(form);
  std::array<char, 64> row{};
  std::snprintf(row.data(), row.size(), "{%d, {%d, 0x%08x}},", static_cast<int>(number),
                static_cast<int>(version), static_cast<unsigned>(hash_of(form)));
  EXPECT_TRUE(same) << name << " has form " << form << " in version " << version
                    << ". With a form that changed the version must be raised; then the row is "
                    << row.data();
}

TEST(Form, AMessageWhoseFormChangesHasAnotherVersion) {
  laneway::testing::for_each_message([]<class M, class Family>() {
    expect_known(M::kType.number, M::kType.version, M::kType.name, form_of<M>());
  });
  expect_known(0, service::kTraceVersion, "a record of the trace", form_of<trace::Record>());
}

}  // namespace
}  // namespace laneway::wire
