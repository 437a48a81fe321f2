// Loaded before LibTorch (LD_PRELOAD), this says in its place that it is another minor version. For
// tests/python/test_mixed_torch.py.
#include <map>
#include <string>

namespace caffe2 {

__attribute__((visibility("default"))) const std::map<std::string, std::string>& GetBuildOptions() {
  static const std::map<std::string, std::string> options{{"TORCH_VERSION", "2.99.1"}};
  return options;
}

}  // namespace caffe2
