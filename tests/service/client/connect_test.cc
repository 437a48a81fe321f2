// Shows what laneway_connect tells a service and its caller: versions, of Laneway and of torch, who
// is there, and for how long an answer is waited for.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "base/version.h"
#include "service/api/laneway.h"
#include "tests/service/client/fake_service.h"

namespace laneway::testing {
namespace {

// Makes a job with these options; what the service heard of the client's torch.
std::string torch_that_is_told(laneway_connect_options options) {
  FakeService fake;
  const std::string address = fake.address().text();
  options.address = address.c_str();
  laneway_service* service = nullptr;
  laneway_error error{};
  EXPECT_EQ(laneway_connect(&options, &service, &error), LANEWAY_OK) << error.message;
  laneway_job_options job{};
  job.size = sizeof job;
  laneway_job* made = nullptr;
  EXPECT_EQ(laneway_job_create(service, &job, "graph", 5, &made, &error), LANEWAY_OK)
      << error.message;
  laneway_job_release(made);
  laneway_service_close(service);
  laneway_service_release(service);
  return fake.torch_version();
}

TEST(Connect, TheTorchOfTheClientIsToldWithItsJobs) {
  laneway_connect_options options{};
  options.size = sizeof options;
  EXPECT_EQ(torch_that_is_told(options), "");
  options.torch_version = "2.15.0+cu132";
  EXPECT_EQ(torch_that_is_told(options), "2.15.0+cu132");
  options.size = offsetof(laneway_connect_options, answer_ns);  // as one that knows it, and no more
  EXPECT_EQ(torch_that_is_told(options), "2.15.0+cu132");
  // As a program that was compiled before the field was there: what lies behind is not read.
  options.size = offsetof(laneway_connect_options, torch_version);
  EXPECT_EQ(torch_that_is_told(options), "");
}

TEST(Connect, ATorchVersionThatIsNoneIsRefused) {
  laneway_connect_options options{};
  options.size = sizeof options;
  options.torch_version = "2.15 or so";
  laneway_service* service = nullptr;
  laneway_error error{};
  EXPECT_EQ(laneway_connect(&options, &service, &error), LANEWAY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("torch_version of 10 bytes is no version"),
            std::string::npos)
      << error.message;
}

int connect_to(const FakeService& fake, laneway_error* error) {
  const std::string address = fake.address().text();
  const laneway_connect_options options{.size = sizeof options,
                                        .reserved = 0,
                                        .address = address.c_str(),
                                        .name = nullptr,
                                        .timeout_ns = 0,
                                        .torch_version = nullptr,
                                        .answer_ns = 0};
  laneway_service* service = nullptr;
  return laneway_connect(&options, &service, error);
}

TEST(Connect, AServiceOfAnotherReleaseIsRefusedWithBothVersions) {
  const std::string client = std::string("this client is Laneway ") + version();
  laneway_error error{};
  FakeService protocol;
  protocol.be_another_release(/*protocol=*/9, /*hello=*/1);
  EXPECT_EQ(connect_to(protocol, &error), LANEWAY_UNSUPPORTED);
  EXPECT_NE(std::string(error.message).find("protocol 9 and this program speaks 1"),
            std::string::npos)
      << error.message;
  EXPECT_NE(std::string(error.message).find(client), std::string::npos) << error.message;
  FakeService hello;
  hello.be_another_release(/*protocol=*/1, /*hello=*/9);
  EXPECT_EQ(connect_to(hello, &error), LANEWAY_UNSUPPORTED);
  EXPECT_NE(std::string(error.message).find("Hello has version 1 and this program speaks 9"),
            std::string::npos)
      << error.message;
  EXPECT_NE(std::string(error.message).find(client), std::string::npos) << error.message;
}

TEST(Connect, ARequestToAServiceThatDoesNotAnswerEndsInTheTimeThatItsCallerGives) {
  FakeService fake;
  const std::string address = fake.address().text();
  laneway_connect_options options{};
  options.size = sizeof options;
  options.address = address.c_str();
  options.answer_ns = 1;  // at once: before any answer
  laneway_service* service = nullptr;
  laneway_error error{};
  EXPECT_EQ(laneway_connect(&options, &service, &error), LANEWAY_TIMED_OUT);
  options.answer_ns = 2'000'000'000;
  ASSERT_EQ(laneway_connect(&options, &service, &error), LANEWAY_OK) << error.message;
  fake.lose_replies(1'000'000);
  char* json = nullptr;
  EXPECT_EQ(laneway_service_status(service, &json, &error), LANEWAY_TIMED_OUT);
  EXPECT_NE(std::string(error.message).find(address + " did not answer within 2 s: it is stopped"),
            std::string::npos)
      << error.message;
  laneway_service_close(service);  // returns although nobody answers
  laneway_service_release(service);
}

TEST(Connect, NobodyThereIsToldWithWhatToDo) {
  const TemporaryAddress address;
  const std::string text = address->text();
  const laneway_connect_options options{.size = sizeof options,
                                        .reserved = 0,
                                        .address = text.c_str(),
                                        .name = nullptr,
                                        .timeout_ns = 0,
                                        .torch_version = nullptr,
                                        .answer_ns = 0};
  laneway_service* service = nullptr;
  laneway_error error{};
  EXPECT_EQ(laneway_connect(&options, &service, &error), LANEWAY_UNAVAILABLE);
  EXPECT_NE(std::string(error.message).find("start one with `lanewayd`"), std::string::npos)
      << error.message;
}

}  // namespace
}  // namespace laneway::testing
