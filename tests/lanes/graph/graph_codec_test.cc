// Shows that the binary form of a graph is what graph_codec.h says: graphs survive the way there
// and back, bytes that were accepted are written the same again, every strict prefix and every
// wrong tag, count or text is refused with its place, and no count makes the decoder reserve more
// than the bytes justify.
#include "lanes/graph/graph_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lanes/graph/graph_head.h"
#include "lanes/graph/limits.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

using ::testing::HasSubstr;
using Buffer = std::vector<std::byte>;

// An independent, literal writer of the format, for golden bytes.
struct Bytewise {
  Buffer bytes;
  Bytewise& number(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Bytewise& u8(uint64_t v) { return number(v, 1); }
  Bytewise& u32(uint64_t v) { return number(v, 4); }
  Bytewise& u64(uint64_t v) { return number(v, 8); }
  Bytewise& str(const std::string& text) {
    u32(text.size());
    for (const char c : text) u8(static_cast<uint8_t>(c));
    return *this;
  }
};

Bytewise golden_header(uint32_t version = 2) {
  Bytewise b;
  for (const char c : {'L', 'W', 'G', 'R'}) b.u8(static_cast<uint8_t>(c));
  b.u32(version).str("g").u8(2);                // name, kind inference
  b.u32(3).u8(1).u8(0).u8(0).u8(1);             // context
  b.u8(1).u8(0).u8(1).u8(2).u8(0).u8(1).u8(9);  // its float32 precisions and dtype
  return b;
}

// One input of two floats, multiplied by 0.5.
Bytewise golden() {
  Bytewise b = golden_header();
  b.u32(3).str("").str("aten::mul.Scalar").str("a.py:1 in f");
  b.u32(2);  // storages
  b.u8(1).u32(0).u64(8);
  b.u8(0).u32(0).u64(8);
  b.u32(2);  // values
  b.u8(0).u8(8).u32(0).u64(0).u32(1).u64(2).u64(1);
  b.u8(0).u8(8).u32(1).u64(0).u32(1).u64(2).u64(1);
  b.u32(1).u32(0);         // inputs
  b.u32(1).u32(1);         // outputs
  b.u32(1).u32(1).u32(2);  // one node: op, source
  b.u32(2).u32(0).u8(1).u32(0).u32(0).u8(3).u64(0x3fe0000000000000);
  b.u32(1).u8(0).u32(1).u32(1);  // results
  b.u32(0);                      // writes
  b.u32(1);                      // first write
  return b;
}

std::string refusal(const Buffer& bytes) {
  const Result<Graph> result = decode_graph(bytes);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.error().code, ErrorCode::invalid_graph);
  return result.error().message;
}

TEST(GraphCodec, BytesAreThoseOfTheFormatLetterByLetter) {
  const Result<Graph> decoded = decode_graph(golden().bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const Graph& graph = decoded.value();
  EXPECT_EQ(graph.name, "g");
  EXPECT_EQ(graph.kind, GraphKind::inference);
  EXPECT_EQ(graph.context,
            (NumericContext{
                .threads = 3,
                .flush_denormal = true,
                .float32 = {Float32Precision::tf32, Float32Precision::full, Float32Precision::tf32,
                            Float32Precision::bf16, Float32Precision::full, Float32Precision::tf32},
                .default_dtype = DType::float64}));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "aten::mul.Scalar");
  EXPECT_EQ(graph.nodes[0].source, "a.py:1 in f");
  EXPECT_EQ(graph.nodes[0].arguments[1].argument, Argument{0.5});
  EXPECT_EQ(graph.values[1].sizes, std::vector<int64_t>{2});
  EXPECT_EQ(graph.first_write, 1u);
  EXPECT_EQ(encode_graph(graph), golden().bytes);
}

TEST(GraphCodec, GraphsSurviveThereAndBack) {
  for (const Graph& graph : {testing::training_graph(), testing::inference_graph(),
                             testing::every_kind_graph(), Graph{}}) {
    const Buffer bytes = encode_graph(graph);
    const Result<Graph> decoded = decode_graph(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded.value(), graph);
    EXPECT_EQ(encode_graph(decoded.value()), bytes);
  }
}

TEST(GraphCodec, RandomGraphsSurviveThereAndBack) {
  Random random(testing::seed_from_environment(7));
  for (int i = 0; i < 500; ++i) {
    const Graph graph = testing::random_graph(random);
    const Buffer bytes = encode_graph(graph);
    const Result<Graph> decoded = decode_graph(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    ASSERT_EQ(decoded.value(), graph);
    ASSERT_EQ(encode_graph(decoded.value()), bytes);
  }
}

TEST(GraphCodec, RealArgumentsKeepTheirBits) {
  testing::GraphBuilder builder("reals");
  const std::vector<double> reals = {-0.0, INFINITY, -INFINITY, std::nan("0x123"), 5e-324};
  for (const double real : reals) builder.compute("aten::full", {testing::arg_real(real)}, {1});
  const Result<Graph> decoded = decode_graph(encode_graph(builder.finish()));
  ASSERT_TRUE(decoded.ok());
  for (size_t i = 0; i < reals.size(); ++i) {
    const double back = std::get<double>(decoded.value().nodes[i].arguments[0].argument.content);
    EXPECT_EQ(std::memcmp(&back, &reals[i], sizeof back), 0) << reals[i];
  }
}

TEST(GraphCodec, EveryStrictPrefixIsRefused) {
  for (const Graph& graph : {testing::training_graph(), testing::every_kind_graph()}) {
    Buffer bytes = encode_graph(graph);
    while (!bytes.empty()) {
      bytes.pop_back();
      ASSERT_FALSE(decode_graph(bytes).ok()) << bytes.size();
    }
  }
}

TEST(GraphCodec, TheHeadAloneSaysTheThreadsAndIsRefusedWhereItIsCutOff) {
  Random random(testing::seed_from_environment(3));
  const Buffer whole = encode_graph(testing::random_graph(random));
  const auto graph = decode_graph(whole);
  ASSERT_TRUE(graph.ok());
  const auto head = read_graph_head(whole);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head.value().threads, graph.value().context.threads);
  const size_t threads_end = 8 + 4 + graph.value().name.size() + 1 + 4;
  for (size_t size = 0; size < threads_end; ++size) {
    const auto cut = read_graph_head(std::span(whole).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().code, ErrorCode::invalid_graph);
  }
}

TEST(GraphCodec, TrailingBytesAreRefused) {
  Bytewise b = golden();
  b.u8(0);
  EXPECT_THAT(refusal(b.bytes), HasSubstr("1 bytes follow the graph"));
}

TEST(GraphCodec, MagicVersionAndEnumsAreChecked) {
  Buffer bytes = golden().bytes;
  bytes[3] = std::byte{'X'};
  EXPECT_THAT(refusal(bytes), HasSubstr("magic at byte 3"));
  EXPECT_THAT(
      refusal(golden_header(1).bytes),
      HasSubstr("version at byte 4 of 29: version 1 is unknown, this build reads version 2"));
  bytes = golden().bytes;
  bytes[13] = std::byte{3};
  EXPECT_THAT(refusal(bytes), HasSubstr("graph kind at byte 13"));
  bytes = golden().bytes;
  bytes[18] = std::byte{2};
  EXPECT_THAT(refusal(bytes), HasSubstr("mkldnn at byte 18"));
  bytes = golden().bytes;
  bytes[28] = std::byte{12};
  EXPECT_THAT(refusal(bytes), HasSubstr("default dtype at byte 28"));
}

TEST(GraphCodec, TextTableStartsWithTheEmptyText) {
  EXPECT_THAT(refusal(golden_header().u32(0).u64(0).u64(0).u64(0).bytes),
              HasSubstr("entry 0 must be there"));
  EXPECT_THAT(refusal(golden_header().u32(1).str("x").u64(0).u64(0).u64(0).bytes),
              HasSubstr("entry 0 must be there"));
}

TEST(GraphCodec, TextTableInAnotherOrderIsAcceptedAndRewrittenCanonically) {
  Bytewise b = golden_header();
  b.u32(4).str("").str("never named").str("line").str("op");
  b.u32(0).u32(0).u32(0).u32(0);
  b.u32(1).u32(3).u32(2).u32(0).u32(0).u32(0);
  b.u32(1);
  const Result<Graph> decoded = decode_graph(b.bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded.value().nodes[0].op, "op");
  const Buffer canonical = encode_graph(decoded.value());
  EXPECT_NE(canonical, b.bytes);
  EXPECT_EQ(decode_graph(canonical).value(), decoded.value());
  EXPECT_EQ(encode_graph(decode_graph(canonical).value()), canonical);
}

TEST(GraphCodec, TextMustBeUtf8) {
  const std::vector<std::string> wrong = {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                          "\xe2\x82"};
  for (const std::string& text : wrong) {
    EXPECT_THAT(refusal(golden_header().u32(2).str("").str(text).u64(0).u64(0).u64(0).bytes),
                HasSubstr("text at byte 37 of"));
  }
  EXPECT_THAT(
      refusal(golden_header().u32(2).str("").str("größe €𝛼").u64(0).u64(0).u32(0).u32(0).bytes),
      ::testing::Eq("accepted"));
}

TEST(GraphCodec, LyingCountsAreRefusedBeforeAnythingIsReserved) {
  EXPECT_THAT(refusal(golden_header().u32(1).str("").u32(4'000'000).bytes),
              HasSubstr("storage count at byte 37 of 41: count 4000000 needs at least 52000000 "
                        "bytes, 0 are left"));
  EXPECT_THAT(refusal(golden_header().u32(1).str("").u32(UINT32_MAX).bytes),
              HasSubstr("count 4294967295 is over the limit of 4000000"));
  EXPECT_THAT(refusal(golden_header().u32(1).str("").u32(0).u32(0).u32(4'097).u64(0).bytes),
              HasSubstr("inputs at byte 45 of 57: count 4097 is over the limit of 4096"));
  EXPECT_THAT(refusal(golden_header().u32(2).str("").u32(4'097).u64(0).bytes),
              HasSubstr("over the limit of 4096"));
}

// A list of depth 4 is the deepest; a hundred thousand open brackets do not exhaust the stack.
TEST(GraphCodec, ListsNestToTheLimit) {
  const auto nested = [](int depth) {
    Bytewise b = golden_header();
    b.u32(1).str("").u32(0).u32(0).u32(0).u32(0).u32(1).u32(0).u32(0).u32(1).u32(0);
    for (int i = 0; i < depth; ++i) b.u8(11).u32(1);
    return b.u8(0).u32(0).u32(0).u32(1).bytes;
  };
  EXPECT_TRUE(decode_graph(nested(static_cast<int>(limits::kMaxListDepth))).ok());
  EXPECT_THAT(refusal(nested(static_cast<int>(limits::kMaxListDepth) + 1)),
              HasSubstr("lists are nested deeper than 4"));
  EXPECT_THAT(refusal(nested(100'000)), HasSubstr("lists are nested deeper than 4"));
}

// Sixteen million one-byte arguments are the most, however many lists share them.
TEST(GraphCodec, ArgumentsHaveALimitInTotal) {
  const uint32_t per_list = 1'000'000;
  Bytewise b = golden_header();
  b.u32(1).str("").u32(0).u32(0).u32(0).u32(0).u32(1).u32(0).u32(0).u32(17);
  for (int i = 0; i < 17; ++i) {
    b.u32(0).u8(11).u32(per_list);
    b.bytes.resize(b.bytes.size() + per_list);
  }
  b.u32(0).u32(0).u32(1);
  EXPECT_THAT(refusal(b.bytes), HasSubstr("more than 16000000 arguments"));
}

TEST(GraphCodec, TextsAreInTheTable) {
  Bytewise b = golden_header();
  b.u32(1).str("").u32(0).u32(0).u32(0).u32(0).u32(1).u32(1).u32(0).u32(0).u32(0).u32(0).u32(1);
  EXPECT_THAT(refusal(b.bytes),
              HasSubstr("node operator at byte 57 of 81: text 1 is not in the table, which has 1"));
}

}  // namespace
}  // namespace laneway::lanes
