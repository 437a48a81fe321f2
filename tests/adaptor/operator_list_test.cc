// Shows that every operator on the list is one that this build of torch has and can run on a CPU
// (four are CUDA's alone), and that none of them has a trait that a graph from outside must not
// use: hidden mutation, storages that are set or resized, metadata changed in place, files, names,
// draws from the process's own generator.
#include "adaptor/operators/operator_list.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/operators/random_operators.h"
#include "base/torch_version.h"

namespace laneway::adaptor {
namespace {

// Calls `check(name, handle)` for every listed operator that torch has.
template <class Check>
void for_each_operator(const Check& check) {
  for (const std::string_view name : allowed_operators()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(name));
    if (handle) check(std::string(name), *handle);
  }
}

bool has_generator(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const auto& argument) {
                       return argument.type()->str().find("Generator") != std::string::npos;
                     });
}

TEST(OperatorList, IsSortedWithoutDoubles) {
  const auto list = allowed_operators();
  EXPECT_GT(list.size(), 500U);
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  EXPECT_EQ(std::adjacent_find(list.begin(), list.end()), list.end());
  for (const std::string_view name : list) EXPECT_TRUE(operator_allowed(name)) << name;
  EXPECT_FALSE(operator_allowed("aten::"));
  EXPECT_FALSE(operator_allowed(""));
}

// What captures for CUDA record where a CPU has operators of its own.
constexpr std::string_view kOfCudaAlone[] = {
    "aten::_cudnn_rnn", "aten::_cudnn_rnn_backward",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_efficient_attention_backward"};

// What torch no longer has, and the first minor version without it.
constexpr std::pair<std::string_view, int> kGone[] = {{"aten::cholesky", 14}};

bool is_gone(std::string_view name) {
  const int minor = std::stoi(std::string(torch_minor(TORCH_VERSION)).substr(sizeof "2." - 1));
  return std::any_of(std::begin(kGone), std::end(kGone),
                     [&](const auto& row) { return row.first == name && minor >= row.second; });
}

TEST(OperatorList, NamesOperatorsThatRunOnACpu) {
  register_random_operators();
  for (const std::string_view name : allowed_operators()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(name));
    if (is_gone(name)) {
      EXPECT_FALSE(handle.has_value()) << name;
      continue;
    }
    ASSERT_TRUE(handle.has_value()) << name;
    if (std::find(std::begin(kOfCudaAlone), std::end(kOfCudaAlone), name) !=
        std::end(kOfCudaAlone)) {
      EXPECT_FALSE(handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) << name;
      continue;
    }
    EXPECT_TRUE(handle->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                handle->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect) ||
                handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU))
        << name;
  }
}

TEST(OperatorList, HasNoOperatorWithAForbiddenName) {
  for_each_operator([](const std::string& name, const c10::OperatorHandle&) {
    for (const char* part : {"resize", "::set_", "storage", "from_file", "rename", "names", "save",
                             "load", "_cuda", "record_stream", "set_data", "swap"}) {
      EXPECT_EQ(name.find(part), std::string::npos) << name;
    }
    // They resize what they write.
    EXPECT_FALSE(name.ends_with("out")) << name;
  });
  // Their schemas hide that they write running statistics.
  for (const char* name : {"aten::native_batch_norm", "aten::cudnn_batch_norm",
                           "aten::miopen_batch_norm", "aten::batch_norm"}) {
    EXPECT_FALSE(operator_allowed(name)) << name;
  }
}

TEST(OperatorList, TakesNothingButPlainTypes) {
  for_each_operator([](const std::string& name, const c10::OperatorHandle& handle) {
    for (const auto* list : {&handle.schema().arguments(), &handle.schema().returns()}) {
      for (const c10::Argument& argument : *list) {
        const std::string type = argument.type()->str();
        for (const char* forbidden :
             {"Storage", "Dict", "Stream", "__torch__", "Any", "Quantizer"}) {
          EXPECT_EQ(type.find(forbidden), std::string::npos) << name << ": " << type;
        }
      }
    }
    EXPECT_FALSE(handle.schema().is_vararg() || handle.schema().is_varret()) << name;
  });
}

TEST(OperatorList, DeclaresEveryWrite) {
  for_each_operator([](const std::string& name, const c10::OperatorHandle& handle) {
    // torch's convention: a trailing underscore writes its first argument.
    std::string plain = name.substr(0, name.find('.'));
    const bool in_place = plain.ends_with("_") && !plain.ends_with("__");
    const auto& arguments = handle.schema().arguments();
    if (in_place) {
      ASSERT_FALSE(arguments.empty()) << name;
      const c10::AliasInfo* alias = arguments[0].alias_info();
      EXPECT_TRUE(alias != nullptr && alias->isWrite()) << name;
    }
    const bool any_write = std::any_of(arguments.begin(), arguments.end(), [](const auto& a) {
      return a.alias_info() != nullptr && a.alias_info()->isWrite();
    });
    EXPECT_EQ(any_write, handle.schema().is_mutable()) << name;
    // Metadata of a persistent tensor would stay changed for all later iterations.
    EXPECT_FALSE(handle.hasTag(at::Tag::inplace_view)) << name;
  });
}

// Each of these is compared with the graph in every iteration (CallResolver); one more must be
// looked at before it is listed.
TEST(OperatorList, ShapesThatDependOnDataAreKnown) {
  std::vector<std::string> dynamic;
  for_each_operator([&](const std::string& name, const c10::OperatorHandle& handle) {
    if (handle.hasTag(at::Tag::dynamic_output_shape)) dynamic.push_back(name);
  });
  EXPECT_EQ(dynamic,
            (std::vector<std::string>{"aten::_ctc_loss", "aten::_ctc_loss.Tensor",
                                      "aten::index.Tensor", "aten::repeat_interleave.Tensor"}));
}

// Looked at and left out, each with why.
TEST(OperatorList, LeavesOutWhatIsNotSafe) {
  const std::pair<const char*, const char*> left_out[] = {
      {"aten::_cummax_helper", "writes results of any size without looking at it"},
      {"aten::_cummin_helper", "writes results of any size without looking at it"},
      {"aten::_lazy_clone", "makes the storage of its argument one that is copied on a write"},
      {"aten::_fused_moving_avg_obs_fq_helper", "resizes what it observes with"},
      {"aten::_dyn_quant_pack_4bit_weight", "reads weights without looking at their size"},
      {"aten::_compute_linear_combination", "reads coefficients without looking at their number"},
      {"aten::_transform_bias_rescale_qkv", "reads a bias without looking at its size"},
      {"aten::_slow_conv2d_forward", "reads a kernel without looking at its size"},
      {"aten::convolution_overrideable", "has no kernel on a CPU"},
      {"aten::from_file", "opens files"},
      {"aten::set_.source_Storage", "sets storage"},
      {"aten::set_data", "sets storage"},
      {"aten::resize_", "resizes storage"},
      {"aten::resize_as_", "resizes storage"},
      {"aten::_resize_output_", "resizes storage"},
      {"aten::record_stream", "streams belong to the service"},
      {"aten::pin_memory", "memory belongs to the lane"},
      {"aten::_pin_memory", "memory belongs to the lane"},
      {"aten::_sparse_coo_tensor_unsafe", "makes a tensor that is not strided"},
      {"aten::sparse_coo_tensor.size", "makes a tensor that is not strided"},
      {"aten::_sparse_coo_tensor_with_dims", "makes a tensor that is not strided"},
      {"aten::_nested_tensor_from_tensor_list", "makes a tensor that is not strided"},
      {"aten::quantize_per_tensor", "makes a quantized tensor"},
      {"aten::_empty_affine_quantized", "makes a quantized tensor"},
      {"aten::to_sparse", "makes a tensor that is not strided"},
      {"aten::_to_sparse", "makes a tensor that is not strided"},
      {"aten::to_mkldnn", "makes a tensor that is not strided"},
      {"aten::_cudnn_rnn_flatten_weight", "makes the memory of several tensors one"},
      {"aten::_cudnn_init_dropout_state", "is seeded with a number of its own"},
      {"aten::_scaled_dot_product_flash_attention", "returns numbers that size other tensors"},
      {"aten::_copy_from", "is of another device"},
  };
  for (const auto& [name, why] : left_out) EXPECT_FALSE(operator_allowed(name)) << name << why;
}

TEST(OperatorList, DrawsFromGeneratorsThatAreArguments) {
  for_each_operator([](const std::string& name, const c10::OperatorHandle& handle) {
    if (!handle.hasTag(at::Tag::nondeterministic_seeded)) return;
    // Fused attention and recurrent layers draw for their dropout only, which CallResolver keeps
    // at 0.
    EXPECT_TRUE(has_generator(handle.schema()) ||
                handle.schema().argumentIndexWithName("dropout_p").has_value() ||
                handle.schema().argumentIndexWithName("dropout").has_value())
        << name;
  });
}

}  // namespace
}  // namespace laneway::adaptor
