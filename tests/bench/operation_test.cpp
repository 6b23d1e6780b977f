// The operations of ferrule-bench: names, factors, and a run of each.
#include "bench/ferrule_bench/operation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bench/program_run.hpp"

namespace ferrule::bench {
namespace {

constexpr Operation kAll[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                              Operation::broadcast,  Operation::reduce,         Operation::gather,
                              Operation::scatter,    Operation::alltoall,       Operation::sendrecv};

TEST(OperationNames, AreNcclTestsOwn) {
  for (const Operation operation : kAll) {
    const std::string text(name(operation));
    ASSERT_TRUE(parse_operation(text).ok());
    EXPECT_EQ(*parse_operation(text), operation);
    EXPECT_EQ(*parse_operation(text + "_perf"), operation);
  }
  const auto wrong = parse_operation("hypercube");
  EXPECT_THAT(wrong.status().text(), testing::HasSubstr("no operation 'hypercube'"));
  EXPECT_THAT(wrong.status().text(), testing::HasSubstr("alltoall, sendrecv"));
}

TEST(BusFactors, AreNcclTestsOwn) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 4), 1.5);
  for (const Operation parts : {Operation::reduce_scatter, Operation::all_gather, Operation::gather,
                                Operation::scatter, Operation::alltoall}) {
    EXPECT_DOUBLE_EQ(bus_factor(parts, 4), 0.75) << name(parts);
  }
  for (const Operation whole : {Operation::broadcast, Operation::reduce, Operation::sendrecv}) {
    EXPECT_DOUBLE_EQ(bus_factor(whole, 4), 1) << name(whole);
  }
  for (const Operation operation : kAll) EXPECT_EQ(bus_factor(operation, 1), 0) << name(operation);
}

class OperationRun : public testing::TestWithParam<Operation> {};

TEST_P(OperationRun, IsCheckedAndRight) {
  const bool codecs = takes_codecs(GetParam());
  const std::string arguments = "-t 3 -b 1000 -e 64K -f 8 -n 2 -w 1 -m 2 --operation " +
                                std::string(name(GetParam())) + (codecs ? " --codec none --codec int8" : "") +
                                (reduces(GetParam()) ? " -o all" : "") + " -r 1";
  const ProgramRun run = run_program(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, testing::HasSubstr("Out of bounds values : 0 OK"));
  ASSERT_FALSE(run.json["results"].empty());
  for (const auto& result : run.json["results"])
    EXPECT_EQ(result["operation"], std::string(name(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Every, OperationRun, testing::ValuesIn(kAll),
                         [](const auto& tested) { return std::string(name(tested.param)); });

// A codec that an operation does not take is said so, not measured as raw data.
TEST(OperationRun, ACodecThatDoesNotApplyIsSkippedAloud) {
  const ProgramRun run = run_program("-t 2 -b 1K -e 1K -n 1 --operation broadcast --codec int4");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.out + run.err, testing::HasSubstr("broadcast is always exact"));
}

}  // namespace
}  // namespace ferrule::bench
