#include "tests/adaptor/index_cases.h"

#include <initializer_list>
#include <utility>

namespace laneway::testing {
namespace {

using lanes::DType;
using lanes::ValueIndex;
using Case = IndexCase;

lanes::NamedArgument none() { return {"", {}}; }
lanes::NamedArgument truth(bool value) { return {"", {value}}; }
lanes::NamedArgument word(const char* text) { return {"", {std::string(text)}}; }
lanes::NamedArgument ints(std::initializer_list<int64_t> numbers) {
  std::vector<lanes::Argument> elements;
  for (const int64_t number : numbers) elements.push_back({number});
  return arg_list(std::move(elements));
}

void more_results(GraphBuilder& b, size_t count) {
  for (; count > 0; --count) b.last().results.push_back({false, {lanes::kNoValue}});
}

std::vector<Case> loss_cases() {
  const auto loss = [](std::string op, std::vector<int64_t> self, std::vector<int64_t> index) {
    return Case{
        op,
        index,
        0,
        4,
        [op, self](GraphBuilder& b, ValueIndex target) {
          b.compute(op, {arg(b.input(self)), arg(target), none(), arg_int(1), arg_int(-7)}, {});
          more_results(b, 1);
        },
        -7};
  };
  const auto back = [](std::string op, std::vector<int64_t> self, std::vector<int64_t> index) {
    return Case{op,
                index,
                0,
                4,
                [op, self](GraphBuilder& b, ValueIndex target) {
                  const auto grad = b.input({});
                  const auto weight = b.input({});
                  b.compute(op,
                            {arg(grad), arg(b.input(self)), arg(target), none(), arg_int(1),
                             arg_int(-7), arg(weight)},
                            self);
                },
                -7};
  };
  const auto margin = [](bool backward) {
    const std::string op =
        backward ? "aten::multi_margin_loss_backward" : "aten::multi_margin_loss";
    return Case{
        op,
        {2},
        0,
        4,
        [op, backward](GraphBuilder& b, ValueIndex target) {
          std::vector<lanes::NamedArgument> arguments;
          if (backward) arguments.push_back(arg(b.input({})));
          arguments.push_back(arg(b.input({2, 5})));
          arguments.push_back(arg(target));
          arguments.push_back(arg_int(1));
          arguments.push_back(arg_real(1));
          b.compute(op, arguments, backward ? std::vector<int64_t>{2, 5} : std::vector<int64_t>{});
        },
        {}};
  };
  return {loss("aten::nll_loss_forward", {2, 5}, {2}),
          loss("aten::nll_loss_forward", {5}, {}),
          loss("aten::nll_loss2d_forward", {1, 5, 1, 2}, {1, 1, 2}),
          back("aten::nll_loss_backward", {2, 5}, {2}),
          back("aten::nll_loss2d_backward", {1, 5, 1, 2}, {1, 1, 2}),
          margin(false),
          margin(true)};
}

// Operators over (self, dim, index, …).
std::vector<Case> dimension_cases() {
  std::vector<Case> cases;
  const auto add =
      [&](const std::string& op, int64_t low, bool in_place,
          std::function<void(GraphBuilder&, std::vector<lanes::NamedArgument>&)> more) {
        for (const int64_t dim : {int64_t{0}, int64_t{-1}}) {
          const bool first = dim == 0;
          const bool vector_index = op.find("index") != std::string::npos;
          const std::vector<int64_t> self =
              first ? std::vector<int64_t>{5, 2} : std::vector<int64_t>{2, 5};
          cases.push_back(
              {op,
               vector_index ? std::vector<int64_t>{2} : std::vector<int64_t>{2, 2},
               low,
               4,
               [=](GraphBuilder& b, ValueIndex index) {
                 const auto target = in_place ? b.compute("aten::clone", {arg(b.input(self))}, self)
                                              : b.input(self);
                 std::vector<lanes::NamedArgument> arguments = {arg_int(dim), arg(index)};
                 more(b, arguments);
                 if (in_place) {
                   b.write(op, target, arguments);
                   return;
                 }
                 arguments.insert(arguments.begin(), arg(target));
                 const bool selects = op == "aten::gather" || op == "aten::index_select";
                 b.compute(op, arguments, selects ? std::vector<int64_t>{2, 2} : self);
               },
               {}});
        }
      };
  const auto nothing = [](GraphBuilder&, std::vector<lanes::NamedArgument>&) {};
  const auto source = [](GraphBuilder& b, std::vector<lanes::NamedArgument>& to) {
    to.push_back(arg(b.input({2, 2})));
  };
  const auto number = [](GraphBuilder&, std::vector<lanes::NamedArgument>& to) {
    to.push_back(arg_real(1));
  };
  const auto tensor = [](GraphBuilder& b, std::vector<lanes::NamedArgument>& to) {
    to.push_back(arg(b.input({})));
  };
  const auto reduced = [](const char* how, bool by_name) {
    return [=](GraphBuilder& b, std::vector<lanes::NamedArgument>& to) {
      to.push_back(arg(b.input({2, 2})));
      to.push_back(by_name ? keyword("reduce", {std::string(how)}) : word(how));
    };
  };
  const auto number_reduced = [](GraphBuilder&, std::vector<lanes::NamedArgument>& to) {
    to.push_back(arg_real(1));
    to.push_back(keyword("reduce", {std::string("add")}));
  };
  add("aten::gather", 0, false, nothing);
  add("aten::index_select", 0, false, nothing);
  for (const bool in_place : {false, true}) {
    const std::string end = in_place ? "_" : "";
    add("aten::index_add" + end, 0, in_place, source);
    add("aten::index_copy" + end, 0, in_place, source);
    add("aten::index_fill" + end + ".int_Scalar", -5, in_place, number);
    add("aten::index_fill" + end + ".int_Tensor", -5, in_place, tensor);
    add("aten::index_reduce" + end, 0, in_place, reduced("prod", false));
    add("aten::scatter" + end + ".src", 0, in_place, source);
    add("aten::scatter" + end + ".value", 0, in_place, number);
    add("aten::scatter" + end + ".reduce", 0, in_place, reduced("add", true));
    add("aten::scatter" + end + ".value_reduce", 0, in_place, number_reduced);
    add("aten::scatter_add" + end, 0, in_place, source);
    add("aten::scatter_reduce" + end + ".two", 0, in_place, reduced("amax", false));
  }
  return cases;
}

std::vector<Case> list_cases() {
  const auto listed = [](ValueIndex index) {
    return arg_list({{lanes::NoneArgument{}}, {lanes::ValueArgument{index}}});
  };
  std::vector<Case> cases;
  for (const char* op : {"aten::index.Tensor", "aten::_unsafe_index.Tensor"}) {
    cases.push_back({op,
                     {2},
                     -5,
                     4,
                     [=](GraphBuilder& b, ValueIndex index) {
                       b.compute(op, {arg(b.input({3, 5})), listed(index)}, {3, 2});
                     },
                     {}});
  }
  for (const char* op : {"aten::index_put", "aten::_unsafe_index_put"}) {
    cases.push_back({op,
                     {2},
                     -5,
                     4,
                     [=](GraphBuilder& b, ValueIndex index) {
                       const auto self = b.input({3, 5});
                       b.compute(op, {arg(self), listed(index), arg(b.input({3, 2}))}, {3, 5});
                     },
                     {}});
  }
  cases.push_back({"aten::index_put_",
                   {2},
                   -5,
                   4,
                   [=](GraphBuilder& b, ValueIndex index) {
                     const auto self = b.compute("aten::clone", {arg(b.input({3, 5}))}, {3, 5});
                     b.write("aten::index_put_", self, {listed(index), arg(b.input({3, 2}))});
                   },
                   {}});
  cases.push_back({"aten::take",
                   {2},
                   -5,
                   4,
                   [](GraphBuilder& b, ValueIndex index) {
                     b.compute("aten::take", {arg(b.input({5, 1})), arg(index)}, {2});
                   },
                   {}});
  cases.push_back({"aten::put",
                   {2},
                   -5,
                   4,
                   [](GraphBuilder& b, ValueIndex index) {
                     const auto self = b.input({5});
                     b.compute("aten::put", {arg(self), arg(index), arg(b.input({2}))}, {5});
                   },
                   {}});
  return cases;
}

std::vector<Case> table_cases() {
  const auto table = [](GraphBuilder& b) { return arg(b.input({5, 3})); };
  const auto bag = [=](const char* op, bool offsets) {
    return Case{op,
                {2},
                0,
                offsets ? 3 : 4,
                [=](GraphBuilder& b, ValueIndex index) {
                  const auto other = b.input({offsets ? 3 : 2}, DType::int64);
                  b.compute(op,
                            {table(b), arg(offsets ? other : index), arg(offsets ? index : other),
                             truth(false), arg_int(1)},
                            {2, 3});
                  more_results(b, 3);
                },
                {}};
  };
  return {{"aten::embedding",
           {2},
           0,
           4,
           [=](GraphBuilder& b, ValueIndex index) {
             b.compute("aten::embedding", {table(b), arg(index)}, {2, 3});
           },
           {}},
          {"aten::embedding_renorm",
           {2},
           -5,
           4,
           [=](GraphBuilder& b, ValueIndex index) {
             b.compute("aten::embedding_renorm", {table(b), arg(index), arg_real(1), arg_real(2)},
                       {5, 3});
           },
           {}},
          {"aten::embedding_renorm_",
           {2},
           -5,
           4,
           [=](GraphBuilder& b, ValueIndex index) {
             const auto self = b.compute("aten::clone", {table(b)}, {5, 3});
             b.write("aten::embedding_renorm_", self, {arg(index), arg_real(1), arg_real(2)});
           },
           {}},
          {"aten::embedding_dense_backward",
           {2},
           0,
           4,
           [](GraphBuilder& b, ValueIndex index) {
             b.compute("aten::embedding_dense_backward",
                       {arg(b.input({2, 3})), arg(index), arg_int(5), arg_int(-1), truth(true)},
                       {5, 3});
           },
           {}},
          bag("aten::_embedding_bag", false),
          bag("aten::_embedding_bag", true),
          bag("aten::_embedding_bag_forward_only", false),
          bag("aten::_embedding_bag_forward_only", true)};
}

// Those whose other operands a backward pass brings.
std::vector<Case> bag_cases() {
  const auto bag = [](bool dense, bool bags) {
    const std::string op =
        dense ? "aten::_embedding_bag_dense_backward" : "aten::_embedding_bag_backward";
    return Case{
        op,
        {2},
        0,
        bags ? 1 : 4,
        [=](GraphBuilder& b, ValueIndex index) {
          const auto grad = b.input({2, 3});
          const auto other = b.input({2}, DType::int64);
          const auto sizes = b.input({2}, DType::int64);
          std::vector<lanes::NamedArgument> arguments = {arg(grad), arg(bags ? other : index)};
          if (!dense) arguments.push_back(arg(b.input({2}, DType::int64)));
          arguments.push_back(arg(bags ? index : other));
          arguments.push_back(arg(sizes));
          arguments.push_back(arg(sizes));
          arguments.push_back(arg_int(5));
          arguments.push_back(truth(false));
          arguments.push_back(arg_int(0));
          if (!dense) arguments.push_back(truth(false));
          arguments.push_back(none());
          b.compute(op, arguments, {5, 3});
        },
        {}};
  };
  const auto weights = [](bool bags) {
    const char* op = "aten::_embedding_bag_per_sample_weights_backward";
    return Case{op,
                {2},
                0,
                bags ? 1 : 4,
                [=](GraphBuilder& b, ValueIndex index) {
                  const auto grad = b.input({2, 3});
                  const auto weight = b.input({5, 3});
                  const auto other = b.input({2}, DType::int64);
                  const auto offsets = b.input({2}, DType::int64);
                  b.compute(op,
                            {arg(grad), arg(weight), arg(bags ? other : index), arg(offsets),
                             arg(bags ? index : other), arg_int(0)},
                            {2});
                },
                {}};
  };
  return {bag(true, false), bag(true, true), bag(false, false),
          bag(false, true), weights(false),  weights(true)};
}

std::vector<Case> pool_cases() {
  return {{"aten::max_pool2d_with_indices_backward",
           {1, 1, 1, 2},
           0,
           7,
           [](GraphBuilder& b, ValueIndex index) {
             const auto grad = b.input({1, 1, 1, 2});
             b.compute("aten::max_pool2d_with_indices_backward",
                       {arg(grad), arg(b.input({1, 1, 2, 4})), ints({2, 2}), ints({2, 2}),
                        ints({0, 0}), ints({1, 1}), truth(false), arg(index)},
                       {1, 1, 2, 4});
           },
           {}},
          {"aten::max_pool3d_with_indices_backward",
           {1, 1, 1, 1, 2},
           0,
           15,
           [](GraphBuilder& b, ValueIndex index) {
             const auto grad = b.input({1, 1, 1, 1, 2});
             b.compute("aten::max_pool3d_with_indices_backward",
                       {arg(grad), arg(b.input({1, 1, 2, 2, 4})), ints({2, 2, 2}), ints({2, 2, 2}),
                        ints({0, 0, 0}), ints({1, 1, 1}), truth(false), arg(index)},
                       {1, 1, 2, 2, 4});
           },
           {}},
          {"aten::adaptive_max_pool2d_backward",
           {1, 1, 1, 2},
           0,
           7,
           [](GraphBuilder& b, ValueIndex index) {
             const auto grad = b.input({1, 1, 1, 2});
             b.compute("aten::adaptive_max_pool2d_backward",
                       {arg(grad), arg(b.input({1, 1, 2, 4})), arg(index)}, {1, 1, 2, 4});
           },
           {}},
          {"aten::adaptive_max_pool3d_backward",
           {1, 1, 1, 1, 2},
           0,
           15,
           [](GraphBuilder& b, ValueIndex index) {
             const auto grad = b.input({1, 1, 1, 1, 2});
             b.compute("aten::adaptive_max_pool3d_backward",
                       {arg(grad), arg(b.input({1, 1, 2, 2, 4})), arg(index)}, {1, 1, 2, 2, 4});
           },
           {}}};
}

}  // namespace

std::vector<IndexCase> index_cases() {
  std::vector<Case> cases;
  for (auto* make :
       {&loss_cases, &dimension_cases, &list_cases, &table_cases, &bag_cases, &pool_cases}) {
    for (Case& made : (*make)()) cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace laneway::testing
