#include "bench/ferrule_bench/options.hpp"

#include <gmock/gmock.h>

#include "bench/ferrule_bench/case_list.hpp"
#include "bench/ferrule_bench/jitter.hpp"

namespace ferrule::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ferrule-bench");
  return parse_options(static_cast<int>(words.size()), words.data());
}

Options options_of(std::vector<const char*> words) {
  const ParsedOptions parsed = parse(std::move(words));
  EXPECT_FALSE(parsed.finished) << parsed.text;
  return parsed.options;
}

/// The text of a command line that must be refused.
std::string refusal(std::vector<const char*> words) {
  const ParsedOptions parsed = parse(std::move(words));
  EXPECT_TRUE(parsed.finished);
  EXPECT_EQ(parsed.exit_code, 2);
  return parsed.text;
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const Options o = options_of({});
  EXPECT_EQ(o.sizes.min_bytes, std::uint64_t{32} << 20);
  EXPECT_EQ(o.sizes.max_bytes, std::uint64_t{32} << 20);
  EXPECT_EQ(o.sizes.step_bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(o.iters, 20);
  EXPECT_EQ(o.warmup_iters, 5);
  EXPECT_EQ(o.check_iters, 1);
  EXPECT_EQ(o.agg_iters, 1);
  EXPECT_EQ(o.average, Average::mean);
  EXPECT_THAT(o.codecs, ElementsAre("none"));
  EXPECT_THAT(o.algorithms, ElementsAre("auto"));
  EXPECT_EQ(o.ranks, 0);
  EXPECT_FALSE(o.error_feedback);
}

TEST(Options, TakesTheFlagsOfNcclTests) {
  const Options o =
      options_of({"-b",  "8",  "-e",   "128M", "-f", "2",  "-n", "7",  "-w", "3",  "-c", "0",  "-o",
                  "avg", "-d", "half", "-r",   "0",  "-m", "4",  "-a", "3",  "-z", "1",  "-J", "out.json"});
  EXPECT_EQ(o.sizes.min_bytes, 8u);
  EXPECT_EQ(o.sizes.max_bytes, std::uint64_t{128} << 20);
  EXPECT_EQ(o.sizes.factor, 2u);
  EXPECT_EQ(o.iters, 7);
  EXPECT_EQ(o.warmup_iters, 3);
  EXPECT_EQ(o.check_iters, 0);
  EXPECT_THAT(o.ops, ElementsAre(ReduceOp::avg));
  EXPECT_THAT(o.dtypes, ElementsAre(DType::f16));
  EXPECT_EQ(o.agg_iters, 4);
  EXPECT_EQ(o.average, Average::max);
  EXPECT_TRUE(o.blocking);
  EXPECT_EQ(o.json_path, "out.json");
}

TEST(Options, TakesTheirLongNames) {
  const Options o = options_of({"--minbytes",
                                "64K",
                                "--maxbytes=1M",
                                "--stepbytes",
                                "64K",
                                "--iters",
                                "2",
                                "--warmup_iters",
                                "0",
                                "--check",
                                "2",
                                "--op",
                                "max",
                                "--datatype",
                                "int32",
                                "--agg_iters",
                                "1",
                                "--average",
                                "0",
                                "--blocking",
                                "0",
                                "--nthreads",
                                "1",
                                "--ngpus",
                                "1",
                                "--root",
                                "all"});
  EXPECT_EQ(o.sizes.step_bytes, 65536u);
  EXPECT_EQ(o.average, Average::rank0);
  EXPECT_THAT(o.dtypes, ElementsAre(DType::i32));
}

TEST(Options, TakesSeveralCodecsAndAlgorithms) {
  const Options o =
      options_of({"--codec", "none", "--codec", "int4:block=128", "--algo", "ring", "--algo", "direct",
                  "--error-feedback", "--ranks", "4", "--link", "1gbit,1ms", "--timeout", "2.5"});
  EXPECT_THAT(o.codecs, ElementsAre("none", "int4:block=128"));
  EXPECT_THAT(o.algorithms, ElementsAre("ring", "direct"));
  EXPECT_TRUE(o.error_feedback);
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.link, "1gbit,1ms");
  EXPECT_EQ(o.timeout, std::chrono::milliseconds(2500));
  EXPECT_FALSE(options_of({"--error-feedback", "--no-error-feedback"}).error_feedback);
}

TEST(Options, ThreadsAreLoopbackRanks) {
  const Options o = options_of({"-t", "3"});
  EXPECT_EQ(o.ranks, 3);
  EXPECT_EQ(o.transport, "loopback");
  EXPECT_THAT(refusal({"-t", "3", "--transport", "ucx"}), HasSubstr("loopback"));
  EXPECT_THAT(refusal({"-t", "3", "--ranks", "4"}), HasSubstr("disagree"));
}

TEST(Options, GpusAreIgnoredWithANote) {
  EXPECT_THAT(options_of({"-g", "8"}).notes, ElementsAre(HasSubstr("--ranks 8")));
  EXPECT_THAT(options_of({"-g", "1"}).notes, SizeIs(0));
}

TEST(Options, JitterIsARankAndADuration) {
  const Options o = options_of({"--jitter", "2:1.5ms", "--ranks", "3"});
  ASSERT_TRUE(o.jitter.has_value());
  EXPECT_EQ(o.jitter->rank, 2);
  EXPECT_EQ(o.jitter->most, std::chrono::microseconds(1500));
  EXPECT_FALSE(options_of({}).jitter.has_value());
  EXPECT_THAT(refusal({"--jitter", "3:1ms", "--ranks", "3"}), HasSubstr("3 ranks"));
  for (const char* text : {"2", "2:", ":1ms", "-1:1ms", "x:1ms", "2:1", "2:1h", "2:-1ms", "2:0ms", "2:11s",
                           "2:nanms", "2:1ms:1ms", "99999999999:1ms", "1x:1ms"})
    EXPECT_THAT(refusal({"--jitter", text}), HasSubstr("RANK:DURATION")) << text;
}

TEST(Jitter, IsSeededAndEvenlySpread) {
  Options options = options_of({"--jitter", "1:1ms", "--ranks", "2"});
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto late = lateness(options, 1, i);
    EXPECT_GE(late.count(), 0);
    EXPECT_LE(late, options.jitter->most);
    EXPECT_EQ(late, lateness(options, 1, i));
    EXPECT_EQ(lateness(options, 0, i).count(), 0);
    sum += static_cast<double>(late.count());
  }
  EXPECT_NEAR(sum / 1000, 0.5e6, 0.05e6);
  const auto before = lateness(options, 1, 7);
  options.seed = 2;
  EXPECT_NE(lateness(options, 1, 7), before);
}

TEST(Options, MistakesAreNamed) {
  EXPECT_THAT(refusal({"-b", "8X"}), HasSubstr("8X"));
  EXPECT_THAT(refusal({"-b", "2M", "-e", "1M"}), HasSubstr("maxbytes"));
  EXPECT_THAT(refusal({"-d", "quarter"}), HasSubstr("bfloat16"));
  EXPECT_THAT(refusal({"-o", "xor"}), HasSubstr("prod"));
  EXPECT_THAT(refusal({"-n", "0"}), HasSubstr("iters"));
  EXPECT_THAT(refusal({"-a", "4"}), HasSubstr("average"));
  EXPECT_THAT(refusal({"--codec", "int4:block"}), HasSubstr("int4:block"));
  EXPECT_THAT(refusal({"--plot", "picture.gif"}), HasSubstr(".png"));
  EXPECT_THAT(refusal({"--timeout", "0"}), HasSubstr("timeout"));
  EXPECT_THAT(refusal({"--ranks", "0"}), HasSubstr("ranks"));
  EXPECT_THAT(refusal({"--nonsense"}), HasSubstr("nonsense"));
  EXPECT_THAT(refusal({"word"}), HasSubstr("word"));
}

TEST(Options, HelpExplainsEffectiveBandwidth) {
  const ParsedOptions parsed = parse({"--help"});
  EXPECT_TRUE(parsed.finished);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.text, HasSubstr("UNCOMPRESSED"));
  EXPECT_THAT(parsed.text, HasSubstr("2(n-1)/n"));
}

TEST(CaseList, AllCombinesAndSkipsWhatACodecDoesNotTake) {
  const auto list = list_cases(options_of({"--codec", "none", "--codec", "int4", "-d", "all", "-o", "all"}));
  ASSERT_TRUE(list.ok());
  std::size_t cases = 0;
  for (const CaseGroup& group : list->groups) cases += group.cases.size();
  EXPECT_EQ(cases, 7u * 5u + 3u * 2u);
  EXPECT_THAT(list->skipped, SizeIs(7 * 5 - 3 * 2));
}

TEST(CaseList, ErrorFeedbackIsForLossyCodecs) {
  const auto list = list_cases(options_of({"--codec", "none", "--codec", "int4", "--error-feedback"}));
  ASSERT_TRUE(list.ok());
  ASSERT_THAT(list->groups, SizeIs(1));
  EXPECT_FALSE(list->groups[0].cases[0].error_feedback);
  EXPECT_TRUE(list->groups[0].cases[1].error_feedback);
}

TEST(CaseList, NothingLeftIsAnError) {
  const auto list = list_cases(options_of({"--codec", "int4", "-d", "int32"}));
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.status().code(), ErrorCode::unsupported);
  EXPECT_THAT(list.status().text(), HasSubstr("int4"));
}

}  // namespace
}  // namespace ferrule::bench
