// Shows which of the operators that graphs may call have no kernel on CUDA, by asking torch's
// dispatcher once the plugin has brought LibTorch's CUDA library, on any machine; and that such an
// operator is refused when a graph is loaded, in words.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/operator_list.h"
#include "tests/adaptor/loaded_plugin.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::loaded_plugin;

// What becomes of a graph of one call of `op` with two tensors, on `device`; "" when it loads.
std::string refusal(const std::string& op, c10::Device device) {
  testing::GraphBuilder b("case", lanes::GraphKind::inference);
  const auto x = b.input({2});
  b.output(b.compute(op, {testing::arg(x), testing::arg(x)}, {2}));
  const lanes::Graph graph = b.finish();
  const ValueTable values(graph.values.size());
  const StaticValues is_static(graph.values.size(), false);
  const auto call = OperatorCall::resolve(graph, 0, at::Generator(), values, is_static, device);
  return call ? "" : call.error().message;
}

TEST(CudaKernels, AreThereForAllListedOperatorsButThoseOfTheCpu) {
  loaded_plugin();
  std::vector<std::string_view> without;
  for (const std::string_view name : allowed_operators()) {
    if (name.starts_with("laneway::")) continue;  // run on the CPU, wherever the graph does
    const auto found = c10::Dispatcher::singleton().findSchema(operator_name(name));
    ASSERT_TRUE(found.has_value()) << name;
    if (!found->hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA)) without.push_back(name);
  }
  EXPECT_THAT(
      without,
      ElementsAre("aten::_add_relu.Scalar", "aten::_add_relu.Tensor", "aten::_add_relu_.Scalar",
                  "aten::_add_relu_.Tensor", "aten::_scaled_dot_product_flash_attention_for_cpu",
                  "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                  "aten::histogram.bin_ct", "aten::histogram.bins_tensor", "aten::mkldnn_rnn_layer",
                  "aten::mkldnn_rnn_layer_backward", "aten::slow_conv3d_forward"));
}

TEST(CudaKernels, AnOperatorWithoutOneIsRefusedInWords) {
  loaded_plugin();
  const c10::Device cuda(c10::DeviceType::CUDA, 0);
  EXPECT_THAT(
      refusal("aten::_add_relu.Tensor", cuda),
      AllOf(HasSubstr("node 0 (aten::_add_relu.Tensor)"), HasSubstr("has no kernel on cuda:0"),
            HasSubstr("connected to the service"), HasSubstr("from train.py:")));
  EXPECT_EQ(refusal("aten::_add_relu.Tensor", c10::Device(c10::DeviceType::CPU)), "");
  EXPECT_EQ(refusal("aten::add.Tensor", cuda), "");
}

}  // namespace
}  // namespace laneway::adaptor
