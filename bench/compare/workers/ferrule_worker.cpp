// Ferrule as a contestant, through its public interface.

#include <fmt/format.h>

#include <cstdlib>

#include "bench/compare/workers/worker.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::compare {
namespace {

/// The lossy codec in "auto:int4", or the codec itself.
std::string plain_codec(const std::string& spec) {
  return spec.rfind("auto:", 0) == 0 ? spec.substr(5) : spec;
}

class FerruleContestant : public Contestant {
 public:
  FerruleContestant(Communicator comm, Codec codec, const std::string& spec, const std::string& algorithm)
      : comm_(std::move(comm)), codec_(std::move(codec)) {
    options_.codec = spec;
    options_.algorithm = algorithm;
    exact_.codec = "none";
    exact_.algorithm = "auto";
  }

  Status barrier() override {
    std::int32_t token = 1;
    return comm_.all_reduce(TensorView(&token, 1), ReduceOp::sum, exact_);
  }
  Status all_reduce(const float* send, float* recv, std::size_t count) override {
    return comm_.all_reduce(send, TensorView(recv, count), ReduceOp::sum, options_);
  }
  std::size_t block() const override { return codec_.block(); }
  Status bounds(std::span<const double> magnitudes, std::span<double> bounds) const override {
    return detail::to_status(ferruleAllReduceErrorBound(codec_.handle(), options_.algorithm.c_str(),
                                                        comm_.size(), ferruleFloat32, ferruleSum,
                                                        magnitudes.data(), magnitudes.size(), bounds.data()));
  }
  std::uint64_t bytes_sent() const override { return comm_.stats().bytes_sent; }

 private:
  Communicator comm_;
  Codec codec_;
  AllReduceOptions options_;
  AllReduceOptions exact_;
};

int fail(int rank, const Status& status) {
  fmt::print(stderr, "rank {}: {}\n", rank, status.text());
  return 1;
}

int run(int argc, char** argv) {
  WorkerId id;
  id.rank = std::atoi(argument(argc, argv, "--rank").c_str());
  id.ranks = std::atoi(argument(argc, argv, "--ranks").c_str());
  id.socket = argument(argc, argv, "--socket");
  const std::string spec = argument(argc, argv, "--codec", "none");
  auto codec = Codec::create(plain_codec(spec));
  if (!codec.ok()) return fail(id.rank, codec.status());
  auto comm = Communicator::connect(id.rank, id.ranks, argument(argc, argv, "--rendezvous"));
  if (!comm.ok()) return fail(id.rank, comm.status());
  id.about = fmt::format("Ferrule {}, transport {}", ferruleVersion(), comm->transport());
  FerruleContestant contestant(std::move(*comm), std::move(*codec), spec,
                               argument(argc, argv, "--algorithm", "auto"));
  return serve(id, contestant);
}

}  // namespace
}  // namespace ferrule::compare

int main(int argc, char** argv) { return ferrule::compare::run(argc, argv); }
