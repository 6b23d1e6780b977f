// The collectives beside all-reduce as a whole: operation x algorithm x codec x world 1 to 8, even and uneven
// parts, in and out of place, every root: exact ones bring the very elements, lossy ones stay within their
// bound, replicas are the same bits, and nothing is lost for good.
#include <numeric>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using Counts = std::vector<std::size_t>;

std::vector<std::string> algorithms_of(const char* collective) {
  const char* names = ferruleCollectiveAlgorithmNames(collective);
  EXPECT_NE(names, nullptr) << collective;
  return names == nullptr ? std::vector<std::string>() : split_names(names);
}

CollectiveOptions options_of(const std::string& algorithm, const std::string& codec = "") {
  CollectiveOptions options;
  options.algorithm = algorithm;
  options.codec = codec;
  options.seed = 7;
  return options;
}

// Parts of any size, nothing among them.
Counts uneven_counts(int world, std::size_t seed) {
  Counts counts;
  for (int rank = 0; rank < world; ++rank) {
    counts.push_back((seed * 131 + static_cast<std::size_t>(rank) * 977) % 700);
  }
  if (world > 1) counts[1] = 0;
  return counts;
}

std::size_t total_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), 0UL); }
std::size_t begin_of(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, 0UL);
}
std::size_t at(const Counts& counts, int rank) { return counts[static_cast<std::size_t>(rank)]; }

float value(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 13) % 101);
}

std::vector<float> values(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value(rank, first + i);
  return all;
}

#define REQUIRE_OK(expression)                   \
  do {                                           \
    const Status status_ = (expression);         \
    ASSERT_TRUE(status_.ok()) << status_.text(); \
  } while (false)

constexpr int kWorlds[] = {1, 2, 3, 4, 5, 7, 8};

TEST(Collectives, ReduceScatterGivesEachRankItsExactSum) {
  for (const int world : kWorlds) {
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::string& algorithm : algorithms_of("reduce_scatter")) {
        for (const std::size_t seed : {0UL, 1UL, 5UL}) {
          const Counts counts =
              seed == 0 ? Counts(static_cast<std::size_t>(world), 333) : uneven_counts(world, seed);
          SCOPED_TRACE(algorithm + ", world " + std::to_string(world) + ", seed " + std::to_string(seed));
          const std::vector<float> input = values(rank, total_of(counts));
          std::vector<float> output(at(counts, rank), -1.0F);
          REQUIRE_OK(comm.reduce_scatter_v(input.data(), {output.data(), output.size()}, counts,
                                           ReduceOp::avg, options_of(algorithm)));
          for (std::size_t i = 0; i < output.size(); ++i) {
            float sum = 0;
            for (int other = 0; other < world; ++other) sum += value(other, begin_of(counts, rank) + i);
            ASSERT_EQ(output[i], sum / static_cast<float>(world)) << "element " << i;
          }
          // In place: the part of it that is the rank's own.
          std::vector<float> whole = input;
          float* own = whole.data() + begin_of(counts, rank);
          REQUIRE_OK(comm.reduce_scatter_v(whole.data(), {own, output.size()}, counts, ReduceOp::avg,
                                           options_of(algorithm)));
          ASSERT_TRUE(std::equal(output.begin(), output.end(), own));
        }
      }
    });
  }
}

TEST(Collectives, AllGatherBringsTheVeryElements) {
  for (const int world : kWorlds) {
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::string& algorithm : algorithms_of("all_gather")) {
        for (const std::size_t seed : {0UL, 2UL}) {
          const Counts counts =
              seed == 0 ? Counts(static_cast<std::size_t>(world), 257) : uneven_counts(world, seed);
          SCOPED_TRACE(algorithm + ", world " + std::to_string(world));
          std::vector<float> input = values(rank, at(counts, rank), begin_of(counts, rank));
          std::vector<float> expected;
          for (int other = 0; other < world; ++other) {
            const auto part = values(other, at(counts, other), begin_of(counts, other));
            expected.insert(expected.end(), part.begin(), part.end());
          }
          std::vector<float> output(expected.size(), -1.0F);
          REQUIRE_OK(
              comm.all_gather_v({input.data(), input.size()}, output.data(), counts, options_of(algorithm)));
          ASSERT_EQ(output, expected);
          std::vector<float> whole(expected.size(), -1.0F);
          float* own = whole.data() + begin_of(counts, rank);
          std::copy(input.begin(), input.end(), own);
          REQUIRE_OK(comm.all_gather_v({own, input.size()}, whole.data(), counts, options_of(algorithm)));
          ASSERT_EQ(whole, expected);
        }
      }
    });
  }
}

TEST(Collectives, BroadcastAndReduceFromEveryRoot) {
  for (const int world : kWorlds) {
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::size_t count : {0UL, 1UL, 1000UL, 40001UL}) {
        for (int root = 0; root < world; ++root) {
          for (const std::string& algorithm : algorithms_of("broadcast")) {
            std::vector<float> data = values(rank, count);
            REQUIRE_OK(comm.broadcast({data.data(), count}, root, options_of(algorithm)));
            ASSERT_EQ(data, values(root, count)) << algorithm << " from " << root << " of " << world;
          }
          for (const std::string& algorithm : algorithms_of("reduce")) {
            const std::vector<float> input = values(rank, count);
            std::vector<float> output(rank == root ? count : 0);
            REQUIRE_OK(comm.reduce({const_cast<float*>(input.data()), count}, output.data(), root,
                                   ReduceOp::avg, options_of(algorithm)));
            for (std::size_t i = 0; i < output.size(); ++i) {
              float sum = 0;
              for (int other = 0; other < world; ++other) sum += value(other, i);
              ASSERT_EQ(output[i], sum / static_cast<float>(world)) << algorithm << " to " << root;
            }
          }
        }
      }
    });
  }
}

TEST(Collectives, GatherAndScatterAreEachOthersOpposite) {
  for (const int world : kWorlds) {
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::size_t seed : {0UL, 3UL}) {
        const Counts counts =
            seed == 0 ? Counts(static_cast<std::size_t>(world), 100) : uneven_counts(world, seed);
        for (int root = 0; root < world; ++root) {
          std::vector<float> part = values(rank, at(counts, rank));
          std::vector<float> whole(rank == root ? total_of(counts) : 0);
          REQUIRE_OK(comm.gather_v({part.data(), part.size()}, whole.data(), counts, root));
          std::vector<float> back(part.size(), -1.0F);
          REQUIRE_OK(comm.scatter_v(whole.data(), {back.data(), back.size()}, counts, root));
          ASSERT_EQ(back, part) << "root " << root << " of " << world;
          for (int other = 0; rank == root && other < world; ++other) {
            const auto expected = values(other, at(counts, other));
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                   whole.begin() + static_cast<std::ptrdiff_t>(begin_of(counts, other))));
          }
        }
      }
    });
  }
}

TEST(Collectives, AllToAllOfAnyCounts) {
  const auto count = [](int from, int to) {
    return static_cast<std::size_t>((from * 31 + to * 17) % 5) * 9000;
  };
  for (const int world : kWorlds) {
    run_world(world, [&](int rank, Communicator& comm) {
      Counts sent;
      Counts received;
      std::vector<float> input;
      std::vector<float> expected;
      for (int other = 0; other < world; ++other) {
        sent.push_back(count(rank, other));
        received.push_back(count(other, rank));
        const auto part = values(rank * 16 + other, sent.back());
        input.insert(input.end(), part.begin(), part.end());
        const auto due = values(other * 16 + rank, received.back());
        expected.insert(expected.end(), due.begin(), due.end());
      }
      for (int turn = 0; turn < 3; ++turn) {
        std::vector<float> output(expected.size(), -1.0F);
        REQUIRE_OK(comm.all_to_all_v(input.data(), sent, {output.data(), output.size()}, received));
        ASSERT_EQ(output, expected) << "world " << world;
      }
      const auto even = static_cast<std::size_t>(world) * 50;
      std::vector<std::int32_t> out(even);
      std::vector<std::int32_t> in(even);
      for (std::size_t i = 0; i < even; ++i)
        in[i] = static_cast<std::int32_t>(1000 * rank) + static_cast<std::int32_t>(i / 50);
      REQUIRE_OK(comm.all_to_all(in.data(), {out.data(), even}));
      for (std::size_t i = 0; i < even; ++i)
        ASSERT_EQ(out[i], static_cast<std::int32_t>(1000 * (i / 50)) + rank);
    });
  }
}

TEST(Collectives, NobodyLeavesABarrierBeforeAllHaveComeToIt) {
  for (const int world : kWorlds) {
    std::atomic<int> arrived{0};
    auto comms = make_world(world);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      for (int turn = 1; turn <= 20; ++turn) {
        if (rank == turn % world) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        arrived.fetch_add(1);
        REQUIRE_OK(comm.barrier());
        ASSERT_GE(arrived.load(), turn * world);
      }
    });
  }
}

// ---- lossy

double largest_of(const std::vector<float>& input, std::size_t begin, std::size_t end) {
  double largest = 0;
  for (std::size_t i = begin; i < end; ++i) largest = std::max<double>(largest, std::fabs(input[i]));
  return largest;
}

// What one encode of each contribution may lose, with room for every re-encode of a ring.
double bound_of(const Codec& codec, const Ranks& inputs, std::size_t begin, std::size_t end) {
  double bound = 0;
  for (const auto& input : inputs) {
    std::vector<float> part(input.begin() + static_cast<std::ptrdiff_t>(begin),
                            input.begin() + static_cast<std::ptrdiff_t>(end));
    auto one = codec.error_bound({part.data(), part.size()});
    EXPECT_TRUE(one.ok());
    bound += *one + 1e-6 * largest_of(input, begin, end);
  }
  return bound * static_cast<double>(inputs.size() + 1);
}

TEST(LossyCollectives, ReduceScatterStaysWithinItsBoundAndKeepsTheLedger) {
  for (const int world : {2, 3, 4, 8}) {
    const Counts counts = uneven_counts(world, 11);
    const Ranks inputs = random_ranks(world, total_of(counts), 21);
    for (const std::string& algorithm : algorithms_of("reduce_scatter")) {
      for (const std::string& spec : lossy_codecs()) {
        SCOPED_TRACE(algorithm + " " + spec + ", world " + std::to_string(world));
        Ranks outputs(static_cast<std::size_t>(world));
        Ranks residuals(static_cast<std::size_t>(world));
        auto comms = make_world(world);
        on_all_ranks(comms, [&](int rank, Communicator& comm) {
          const auto r = static_cast<std::size_t>(rank);
          auto residual = Residual::create(total_of(counts));
          ASSERT_TRUE(residual.ok());
          std::fill(residual->values().begin(), residual->values().end(), 0.25F);
          CollectiveOptions options = options_of(algorithm, spec);
          options.residual = &*residual;
          outputs[r].resize(at(counts, rank));
          REQUIRE_OK(comm.reduce_scatter_v(inputs[r].data(), {outputs[r].data(), outputs[r].size()}, counts,
                                           ReduceOp::sum, options));
          residuals[r].assign(residual->values().begin(), residual->values().end());
        });
        auto codec = Codec::create(spec);
        ASSERT_TRUE(codec.ok());
        for (int rank = 0; rank < world && !HasFailure(); ++rank) {
          const std::size_t begin = begin_of(counts, rank);
          const double bound = bound_of(*codec, inputs, begin, begin + at(counts, rank)) + 2.0 * world;
          for (std::size_t i = 0; i < at(counts, rank); ++i) {
            double in = 0;
            double left = 0;
            for (std::size_t other = 0; other < inputs.size(); ++other) {
              in += inputs[other][begin + i] + 0.25;
              left += residuals[other][begin + i];
            }
            const double out = outputs[static_cast<std::size_t>(rank)][i];
            ASSERT_NEAR(in, out + left, 1e-4) << "the ledger, element " << i << " of rank " << rank;
            ASSERT_NEAR(in, out, bound) << "the bound, element " << i << " of rank " << rank;
          }
        }
      }
    }
  }
}

TEST(LossyCollectives, AllGatherIsIdenticalEverywhereAndKeepsTheLedger) {
  for (const int world : {2, 3, 4, 8}) {
    const Counts counts = uneven_counts(world, 12);
    for (const std::string& algorithm : algorithms_of("all_gather")) {
      for (const std::string& spec : lossy_codecs()) {
        SCOPED_TRACE(algorithm + " " + spec + ", world " + std::to_string(world));
        run_world(world, [&](int rank, Communicator& comm) {
          std::vector<float> input = random_values(at(counts, rank), 31U + static_cast<unsigned>(rank));
          auto residual = Residual::create(input.size());
          ASSERT_TRUE(residual.ok());
          std::fill(residual->values().begin(), residual->values().end(), 0.25F);
          CollectiveOptions options = options_of(algorithm, spec);
          options.residual = &*residual;
          std::vector<float> output(total_of(counts));
          REQUIRE_OK(comm.all_gather_v({input.data(), input.size()}, output.data(), counts, options));
          expect_identical(comm, output);
          for (std::size_t i = 0; i < input.size(); ++i) {
            const double out = output[begin_of(counts, rank) + i];
            ASSERT_NEAR(input[i] + 0.25, out + residual->values()[i], 1e-5) << "element " << i;
          }
        });
      }
    }
  }
}

// Four nodes of two: raw inside, 4 bits between, in fewer bytes between than raw.
TEST(LossyCollectives, HierarchicalHasACodecForEachLevel) {
  ::setenv("FERRULE_TOPOLOGY", "2x4", 1);
  auto comms = make_world(8);
  ::unsetenv("FERRULE_TOPOLOGY");
  constexpr std::size_t kEach = 4096;
  const Ranks inputs = random_ranks(8, 8 * kEach, 3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<float> output(kEach);
    Work work;
    REQUIRE_OK(comm.reduce_scatter(inputs[r].data(), {output.data(), kEach}, ReduceOp::sum,
                                   options_of("", "none/int4"), &work));
    REQUIRE_OK(work.wait());
    EXPECT_EQ(work.algorithm(), "hierarchical");
    EXPECT_EQ(work.codec().substr(0, 9), "none/int4");
    // Six raw parts inside (three peers, two owners each), one part of 4 bits between; headers and agreement.
    EXPECT_LT(work.bytes_sent(), 6 * kEach * 4 + kEach * 3 / 4 + 4096);
    for (std::size_t i = 0; i < kEach; ++i) {
      double sum = 0;
      for (const auto& input : inputs) sum += input[r * kEach + i];
      ASSERT_NEAR(output[i], sum, 2.5);
    }
    std::vector<float> all(8 * kEach);
    REQUIRE_OK(comm.all_gather({output.data(), kEach}, all.data(), options_of("", "none/int8")));
    expect_identical(comm, all);
  });
}

TEST(LossyCollectives, DoNotDependOnSlices) {
  const Counts counts{3001, 0, 777, 5000};
  const Ranks inputs = random_ranks(4, total_of(counts), 8);
  std::vector<std::vector<std::vector<float>>> first(4);
  for (const char* slice : {"256", "3000", "1M"}) {
    ::setenv("FERRULE_SLICE", slice, 1);
    auto comms = make_world(4);
    ::unsetenv("FERRULE_SLICE");
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const auto r = static_cast<std::size_t>(rank);
      std::vector<std::vector<float>> outputs;
      for (const char* codec : {"none", "int4:round=stochastic", "int8"}) {
        std::vector<float> part(counts[r]);
        REQUIRE_OK(comm.reduce_scatter_v(inputs[r].data(), {part.data(), part.size()}, counts, ReduceOp::sum,
                                         options_of("direct", codec)));
        std::vector<float> whole(total_of(counts));
        REQUIRE_OK(
            comm.all_gather_v({part.data(), part.size()}, whole.data(), counts, options_of("ring", codec)));
        outputs.push_back(whole);
      }
      if (first[r].empty()) first[r] = outputs;
      ASSERT_EQ(first[r], outputs) << "slices of " << slice;
    });
  }
}

TEST(LossyCollectives, AreLossyOnlyWhereItIsAskedFor) {
  CommunicatorConfig config;
  config.codec = "int4";
  auto comms = make_world(2, config);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> mine = random_values(65536, static_cast<unsigned>(rank));
    std::vector<float> whole(2 * mine.size());
    Work work;
    REQUIRE_OK(comm.all_gather({mine.data(), mine.size()}, whole.data(), {}, &work));
    REQUIRE_OK(work.wait());
    EXPECT_EQ(work.codec(), "none") << "parameters stay exact under a default codec";
    REQUIRE_OK(comm.reduce_scatter(whole.data(), {mine.data(), mine.size()}, ReduceOp::sum, {}, &work));
    REQUIRE_OK(work.wait());
    EXPECT_EQ(work.codec().substr(0, 4), "int4");
    REQUIRE_OK(comm.broadcast({mine.data(), mine.size()}, 0, {}, &work));
    REQUIRE_OK(work.wait());
    EXPECT_EQ(work.codec(), "none");
    const Status refused = comm.broadcast({mine.data(), mine.size()}, 0, options_of("", "int4"));
    EXPECT_EQ(refused.code(), ErrorCode::unsupported);
    EXPECT_NE(refused.text().find("broadcast is always exact"), std::string::npos) << refused.text();
  });
}

// ---- arguments and disagreements

TEST(CollectiveArguments, AreRefusedBeforeAnythingMoves) {
  auto comms = make_world(2);
  on_all_ranks(comms, [&](int, Communicator& comm) {
    std::vector<float> a(8);
    std::vector<float> b(8);
    const auto refuse = [](const Status& status, const char* text) {
      EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.text();
      EXPECT_NE(status.text().find(text), std::string::npos) << status.text();
    };
    refuse(comm.broadcast({a.data(), 8}, 2), "root 2 of broadcast is no rank of a world of 2");
    refuse(comm.reduce_scatter(nullptr, {b.data(), 4}), "send is null but count is 8");
    refuse(comm.all_to_all(a.data(), {a.data(), 8}), "never in place");
    refuse(comm.all_gather({a.data() + 1, 4}, a.data()), "overlap in part");
    refuse(comm.all_gather_v({a.data(), 4}, b.data(), Counts{4, 4, 4}), "there are 3 for 2 ranks");
    refuse(comm.broadcast({a.data(), 8}, 0, options_of("ring")),
           "no algorithm of broadcast is named 'ring' (there are auto, tree, direct)");
    refuse(comm.send({a.data(), 8}, comm.rank()), "is this rank itself");
    refuse(comm.recv({a.data(), 8}, 9), "rank 9 is not in a world of 2");
    const Counts huge{SIZE_MAX / 4, SIZE_MAX / 4};
    EXPECT_EQ(
        ferruleAllGatherV(a.data(), b.data(), huge.data(), ferruleFloat32, nullptr, comm.handle(), nullptr),
        ferruleInvalidArgument);
    REQUIRE_OK(comm.barrier());  // and all is well
  });
}

TEST(CollectiveArguments, ADisagreementNamesBothValues) {
  auto comms = make_world(3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> part(16);
    std::vector<float> whole(64);
    const Counts counts = rank == 1 ? Counts{4, 7, 4} : Counts{4, 6, 4};
    const Status uneven = comm.reduce_scatter_v(whole.data(), {part.data(), at(counts, rank)}, counts);
    EXPECT_EQ(uneven.code(), ErrorCode::mismatch);
    EXPECT_NE(uneven.text().find("reduce_scatter #0"), std::string::npos) << uneven.text();
    EXPECT_NE(uneven.text().find("4,7,4"), std::string::npos) << uneven.text();
    EXPECT_NE(uneven.text().find("4,6,4"), std::string::npos) << uneven.text();
    const Status root = comm.broadcast({part.data(), 16}, rank == 2 ? 1 : 0);
    EXPECT_EQ(root.code(), ErrorCode::mismatch);
    EXPECT_NE(root.text().find("root is"), std::string::npos) << root.text();
    const Status kind = rank == 0 ? comm.barrier() : comm.broadcast({part.data(), 0}, 0);
    EXPECT_EQ(kind.code(), ErrorCode::mismatch);
    EXPECT_NE(kind.text().find("collective is"), std::string::npos) << kind.text();
    REQUIRE_OK(comm.barrier());  // the communicator is as good as before
  });
}

// Both plans are known to both ranks: the messages themselves show it.
TEST(CollectiveArguments, ADisagreementAboutKnownPlansIsFoundToo) {
  auto comms = make_world(2);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> part(64);
    std::vector<float> whole(128);
    for (const std::size_t count : {16UL, 32UL}) {
      REQUIRE_OK(comm.all_gather({part.data(), count}, whole.data()));
    }
    const std::size_t mine = rank == 0 ? 16 : 32;
    const Status status = comm.all_gather({part.data(), mine}, whole.data());
    EXPECT_EQ(status.code(), ErrorCode::mismatch);
    EXPECT_NE(status.text().find("16"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("32"), std::string::npos) << status.text();
  });
}

TEST(CollectiveArguments, ARankThatNeverComesIsNamed) {
  CommunicatorConfig config;
  config.timeout = std::chrono::milliseconds(400);
  auto comms = make_world(3, config);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == 2) return;
    std::vector<float> data(100);
    const Status status = comm.broadcast({data.data(), data.size()}, 0);
    EXPECT_EQ(status.code(), ErrorCode::timeout);
    EXPECT_NE(status.text().find("broadcast #0 timed out"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 2"), std::string::npos) << status.text();
  });
}

// A root that runs ahead of the others must not flood them.
TEST(Collectives, ManyBroadcastsInARowAreHeldTogether) {
  auto comms = make_world(3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    for (int turn = 0; turn < 300; ++turn) {
      std::vector<std::int32_t> data(5000, rank == 0 ? turn : -1);
      if (rank == 2 && turn == 10) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      REQUIRE_OK(comm.broadcast({data.data(), data.size()}, 0));
      ASSERT_EQ(data.back(), turn);
    }
  });
}

TEST(Collectives, RunAsynchronouslyInOrder) {
  auto comms = make_world(4);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<std::vector<float>> parts(10, values(rank, 2000));
    std::vector<std::vector<float>> wholes(10, std::vector<float>(8000));
    std::vector<Work> works(20);
    for (std::size_t i = 0; i < 10; ++i) {
      REQUIRE_OK(comm.all_gather({parts[i].data(), 2000}, wholes[i].data(), {}, &works[2 * i]));
      REQUIRE_OK(comm.reduce_scatter(wholes[i].data(), {parts[i].data(), 2000}, ReduceOp::max, {},
                                     &works[2 * i + 1]));
    }
    for (Work& work : works) REQUIRE_OK(work.wait());
    for (const auto& part : parts) ASSERT_EQ(part, values(rank, 2000));
  });
}

}  // namespace
}  // namespace ferrule::testing
