// RemoteRecording: what a thread calls of torch's operators, written down and done again when it is
// launched. Operators run when they are called, so while it records they run too, for the sake of
// the memory that they allocate; what they wrote, and what they drew, is taken back at the end. So
// recorded work has happened only when it was launched, as on a device that really defers it.
//
// Made, ended and launched by the thread that has entered the lane.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "adaptor/device/torch_device.h"
#include "tests/remote_backend/remote_lane.h"

namespace laneway::testing {

class RemoteRecording final : public adaptor::Recording {
 public:
  static constexpr int kNever = -1;
  static constexpr int kAtEnd = -2;
  // What recordings of this process refuse from here on: the call of that number (from 0), or the
  // end.
  static void refuse(int what);
  // A call of that number allocates eight bytes more of the lane while it is recorded.
  static void allocate_more(int call);
  // The next `times` recordings are spoilt, as by another thread, at the call of that number (from
  // 0), or at the end.
  static void spoil(int what, int times);
  // How many launches of this process fail from here on.
  static void fail_launches(int times);
  // How many were started in this process.
  static int started();

  RemoteRecording(RemoteLane& lane, adaptor::RandomState& random);
  ~RemoteRecording() override;
  RemoteRecording(const RemoteRecording&) = delete;
  RemoteRecording& operator=(const RemoteRecording&) = delete;

  Status end() override;
  bool is_spoilt(const std::string&) const override { return spoilt_; }
  Status launch() override;

  // A call of an operator on this thread: runs it and writes it down. Throws what it throws.
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack);

 private:
  struct Step {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;
    torch::jit::Stack results;
  };
  struct Written {
    at::Tensor place;
    at::Tensor before;
  };

  // Whether this recording is to be spoilt now.
  bool is_to_be_spoilt(int what);
  void stop();
  void save_written(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments);
  static void run(const Step& step);

  RemoteLane& lane_;
  adaptor::RandomState& random_;
  std::vector<std::byte> random_before_;
  bool recording_ = false;
  bool spoilt_ = false;
  std::vector<Step> steps_;
  std::vector<Written> written_;
};

}  // namespace laneway::testing
