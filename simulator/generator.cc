#include "simulator/generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/random.h"

namespace laneway::simulator {
namespace {

struct Profile {
  const char* model;
  int batch;
  int64_t iteration_tenths;  // of a millisecond, on a P100
  const char* persistent_mb;
  const char* ephemeral_mb;
};

constexpr std::array<Profile, 31> kProfiles = {{
    {"alexnet", 25, 213, "265.4", "784.5"},        {"alexnet", 50, 293, "294.9", "943.0"},
    {"alexnet", 100, 452, "353.9", "1260.1"},      {"googlenet", 25, 593, "71.7", "1324.7"},
    {"googlenet", 50, 1002, "129.8", "1905.0"},    {"googlenet", 100, 1798, "216.0", "3095.8"},
    {"inception3", 50, 3618, "380.2", "6502.9"},   {"inception3", 100, 6829, "591.3", "10969.7"},
    {"inception4", 25, 4054, "372.2", "7068.0"},   {"inception4", 50, 7285, "587.8", "10767.3"},
    {"inception4", 75, 10366, "759.5", "13975.5"}, {"overfeat", 25, 504, "587.2", "3106.9"},
    {"overfeat", 100, 990, "678.8", "3629.5"},     {"resnet101", 25, 2165, "282.9", "5367.2"},
    {"resnet101", 50, 3826, "456.0", "8198.6"},    {"resnet101", 75, 5481, "702.3", "10956.7"},
    {"resnet152", 25, 3087, "350.1", "6629.9"},    {"resnet152", 50, 5484, "575.8", "10614.5"},
    {"resnet152", 75, 7835, "822.2", "14171.2"},   {"resnet50", 25, 1254, "227.4", "4300.9"},
    {"resnet50", 50, 2257, "339.0", "6217.6"},     {"resnet50", 75, 3251, "459.4", "8125.4"},
    {"vgg11", 25, 1059, "535.6", "3682.8"},        {"vgg11", 50, 1854, "564.3", "4672.4"},
    {"vgg11", 100, 3340, "621.7", "6721.4"},       {"vgg16", 25, 1916, "556.6", "4332.8"},
    {"vgg16", 50, 3532, "585.3", "6157.0"},        {"vgg16", 100, 6579, "642.7", "8970.8"},
    {"vgg19", 25, 2239, "576.8", "4353.1"},        {"vgg19", 50, 4150, "605.5", "6157.0"},
    {"vgg19", 100, 7702, "663.0", "9119.8"},
}};

// Of the length's logarithm, in seconds.
constexpr double kMean = 4.38;
constexpr double kDeviation = 1.35;
constexpr double kLeast = 5;  // seconds
constexpr double kMost = 1'600;
constexpr int64_t kTenthsPerSecond = 10'000;

// The sum of twelve uniform numbers less six: near enough, and additions alone.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.unit();
  return sum;
}

struct Drawn {
  const Profile* profile;
  int64_t iterations;
  int64_t tenths() const { return iterations * profile->iteration_tenths; }
};

Drawn draw(Random& random) {
  const Profile& profile = kProfiles[random.below(kProfiles.size())];
  const double length = std::clamp(std::exp(kMean + kDeviation * normal(random)), kLeast, kMost);
  const double iterations = length * static_cast<double>(kTenthsPerSecond) /
                            static_cast<double>(profile.iteration_tenths);
  return {&profile, std::max<int64_t>(std::llround(iterations), 1)};
}

std::string line_of(uint64_t id, int64_t submit_s, const Drawn& job) {
  const Profile& profile = *job.profile;
  std::array<char, 200> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "%llu,%s,%d,%lld,%lld,%lld.%lld,%s,%s,%lld.%04lld\n",
                    static_cast<unsigned long long>(id), profile.model, profile.batch,
                    static_cast<long long>(submit_s), static_cast<long long>(job.iterations),
                    static_cast<long long>(profile.iteration_tenths / 10),
                    static_cast<long long>(profile.iteration_tenths % 10), profile.persistent_mb,
                    profile.ephemeral_mb, static_cast<long long>(job.tenths() / kTenthsPerSecond),
                    static_cast<long long>(job.tenths() % kTenthsPerSecond));
  return {text.data(), static_cast<size_t>(size)};
}

}  // namespace

std::string generated_trace(uint64_t jobs, uint64_t seed) {
  constexpr int64_t kPartOfMakespan = 20;
  Random random(seed);
  std::vector<Drawn> drawn;
  int64_t tenths = 0;
  for (uint64_t i = 0; i < jobs; ++i) {
    drawn.push_back(draw(random));
    tenths += drawn.back().tenths();
  }
  std::vector<int64_t> submits_s(jobs);
  for (int64_t& submit : submits_s) {
    submit = random.between(0, tenths / kTenthsPerSecond / kPartOfMakespan);
  }
  std::sort(submits_s.begin(), submits_s.end());
  std::string text =
      "job_id,model_name,batch_size,submit_time_s,iterations,iteration_ms,persistent_mb,"
      "ephemeral_mb,duration_s\n";
  for (uint64_t i = 0; i < jobs; ++i) {
    text += line_of(i, submits_s[i] - submits_s[0], drawn[i]);
  }
  return text;
}

}  // namespace laneway::simulator
