// One rank of the chaos tests: random collectives through the public interface, every result checked, every
// event told to the driver on stdout. What it is to do wrong, and when, the driver says by arguments.
//
// Lines are "<event> <nanoseconds of CLOCK_MONOTONIC> <rest>"; tests/chaos/chaos_run.py reads them.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule::chaos {
namespace {

using std::chrono::milliseconds;

struct Arguments {
  int rank = 0;
  int size = 1;
  std::string place;
  unsigned seed = 0;
  int steps = 10;
  milliseconds timeout{1500};  ///< of a collective
  int own_step = -1;           ///< the step at which this rank does something of its own: ...
  std::string own_deed;        ///< "mismatch", "abort", "leave", or nothing
};

Arguments parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  Arguments arguments;
  arguments.rank = std::stoi(given.at("--rank"));
  arguments.size = std::stoi(given.at("--size"));
  arguments.place = given.at("--place");
  arguments.seed = static_cast<unsigned>(std::stoul(given.at("--seed")));
  arguments.steps = std::stoi(given.at("--steps"));
  arguments.timeout = milliseconds(std::stoi(given.at("--timeout-ms")));
  if (given.count("--own-step") != 0) arguments.own_step = std::stoi(given["--own-step"]);
  if (given.count("--own-deed") != 0) arguments.own_deed = given["--own-deed"];
  return arguments;
}

void tell(const char* event, const std::string& rest) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::string line =
      std::string(event) + " " + std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec) + " " + rest;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line.data(), line.size());
}

[[noreturn]] void wrong(const std::string& what) {
  tell("wrong", what);
  ::_exit(3);
}

/// What one collective is; all ranks draw the same.
struct Step {
  std::size_t count = 0;
  std::string codec;
  std::string algorithm;
  bool in_place = false;
};

template <class T>
const T& draw(std::mt19937& engine, const std::vector<T>& from) {
  return from[engine() % from.size()];
}

std::vector<std::string> words(const char* list) {
  std::vector<std::string> found(1);
  for (; *list != '\0'; ++list) {
    if (*list == ',') {
      found.emplace_back();
    } else {
      found.back() += *list;
    }
  }
  return found;
}

Step make_step(const Arguments& arguments, int number) {
  std::mt19937 engine(arguments.seed * 7919U + static_cast<unsigned>(number));
  Step step;
  step.count = draw<std::size_t>(engine, {1, 130, 4096, 70000, 200003});
  step.codec = draw<std::string>(engine, {"none", "none", "int4", "int8:block=64", "bf16"});
  step.algorithm = draw(engine, words(ferruleAlgorithmNames()));
  step.in_place = engine() % 2 == 0;
  return step;
}

/// Integers, so that sums are exact in any order.
float input_of(int rank, int number, std::size_t element) {
  const auto mixed = (element * 2654435761U + static_cast<std::size_t>(number) * 40503U +
                      static_cast<std::size_t>(rank) * 9176U) >>
                     7;
  return static_cast<float>(static_cast<int>(mixed % 41) - 20);
}

class Worker {
 public:
  Worker(Arguments arguments, Communicator comm)
      : arguments_(std::move(arguments)),
        comm_(std::move(comm)),
        engine_(arguments_.seed * 31U + static_cast<unsigned>(arguments_.rank)) {}

  /// Returns false once a collective has failed for good.
  bool run() {
    for (number_ = 0; number_ < arguments_.steps; ++number_) {
      if (arguments_.own_step == number_ && arguments_.own_deed == "leave") break;
      // Ranks that always call at the same moment would never show what happens while one computes.
      if (engine_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(engine_() % 8000));
      if (!one_step(make_step(arguments_, number_))) return false;
    }
    return true;
  }

 private:
  bool one_step(const Step& step) {
    const bool mine = arguments_.own_step == number_;
    const std::size_t count = step.count + (mine && arguments_.own_deed == "mismatch" ? 1 : 0);
    std::vector<float> input(count);
    for (std::size_t i = 0; i < count; ++i) input[i] = input_of(arguments_.rank, number_, i);
    std::vector<float> output = step.in_place ? input : std::vector<float>(count, -1.0F);
    auto residual = residual_of(step, count);
    const std::vector<float> before(residual->values().begin(), residual->values().end());
    AllReduceOptions options;
    options.codec = step.codec;
    options.algorithm = step.algorithm;
    options.timeout = arguments_.timeout;
    options.residual = &*residual;
    std::thread aborter;
    if (mine && arguments_.own_deed == "abort") aborter = std::thread([this] { comm_.abort(); });
    tell("call",
         std::to_string(number_) + " " + step.algorithm + " " + step.codec + " " + std::to_string(count));
    const Status status = comm_.all_reduce(step.in_place ? output.data() : input.data(),
                                           {output.data(), count}, ReduceOp::sum, options);
    if (aborter.joinable()) aborter.join();
    if (!status.ok()) return failed(status, *residual, before);
    tell("done", std::to_string(number_));
    check_sum(step, output, *residual, before);
    return !is_lossy(step) || ledger_holds(step, output, *residual, before);
  }

  static bool is_lossy(const Step& step) { return step.codec != "none"; }

  /// One for each length; a step with a count of its own gets a new one.
  Residual* residual_of(const Step& step, std::size_t count) {
    const auto key = step.codec + std::to_string(count);
    auto found = residuals_.find(key);
    if (found == residuals_.end()) {
      auto made = Residual::create(count);
      if (!made.ok()) wrong("no residual: " + made.status().text());
      found = residuals_.emplace(key, std::move(made).value()).first;
    }
    return &found->second;
  }

  float exact_sum(std::size_t element) const {
    float sum = 0;
    for (int rank = 0; rank < arguments_.size; ++rank) sum += input_of(rank, number_, element);
    return sum;
  }

  void check_sum(const Step& step, const std::vector<float>& output, const Residual& residual,
                 const std::vector<float>& before) const {
    const float world = static_cast<float>(arguments_.size);
    // int4 is the coarsest: 0.08 of the largest magnitude an encode, a few encodes, and what residuals add.
    const float limit = is_lossy(step) ? 20.0F * world * 3.0F : 0.0F;
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (!(std::fabs(output[i] - exact_sum(i)) <= limit)) {
        wrong("step " + std::to_string(number_) + " element " + std::to_string(i) + ": " +
              std::to_string(output[i]) + " instead of " + std::to_string(exact_sum(i)));
      }
    }
    if (!is_lossy(step) && !same(residual, before)) wrong("an exact sum changed the residual");
  }

  static bool same(const Residual& residual, const std::vector<float>& before) {
    return std::memcmp(residual.values().data(), before.data(), before.size() * sizeof(float)) == 0;
  }

  /// Over all ranks: inputs and residuals before = output and residuals after. False: a rank was lost on the
  /// way.
  bool ledger_holds(const Step& step, const std::vector<float>& output, const Residual& residual,
                    const std::vector<float>& before) {
    std::vector<float> change(before.size());
    for (std::size_t i = 0; i < change.size(); ++i) change[i] = before[i] - residual.values()[i];
    AllReduceOptions options;
    options.codec = "none";
    options.timeout = arguments_.timeout;
    tell("call", std::to_string(number_) + " ledger none " + std::to_string(change.size()));
    const Status status = comm_.all_reduce({change.data(), change.size()}, ReduceOp::sum, options);
    if (!status.ok()) return failed(status, residual, {});
    tell("done", std::to_string(number_));
    const float tolerance = 1e-3F * static_cast<float>(arguments_.size);
    for (std::size_t i = 0; i < change.size(); ++i) {
      if (!(std::fabs(exact_sum(i) + change[i] - output[i]) <= tolerance)) {
        wrong("the ledger of step " + std::to_string(number_) + " (" + step.algorithm + ", " + step.codec +
              ") at element " + std::to_string(i) + " is off by " +
              std::to_string(exact_sum(i) + change[i] - output[i]));
      }
    }
    return true;
  }

  /// `before` is empty where no residual took part.
  bool failed(const Status& status, const Residual& residual, const std::vector<float>& before) {
    tell("failed", std::string(error_code_name(status.code())) + " " + status.text());
    if (!before.empty() && !same(residual, before)) {
      wrong("a failed collective changed its residual");
    }
    if (status.code() == ErrorCode::mismatch) return true;  // the communicator is as it was
    float one = 1;
    tell("call", "next");
    const Status next = comm_.all_reduce({&one, 1});
    if (next.ok()) wrong("a call after the failure has succeeded");
    tell("next", std::string(error_code_name(next.code())) + " " + next.text());
    return false;
  }

  const Arguments arguments_;
  Communicator comm_;
  std::mt19937 engine_;
  int number_ = 0;
  std::map<std::string, Residual> residuals_;
};

/// The driver says when a rank that has failed may go: an exit is news for its peers, too.
void wait_for_driver() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  ::poll(&input, 1, 60'000);
}

int run(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Arguments arguments = parse(argc, argv);
  CommunicatorConfig config;
  config.timeout = std::chrono::seconds(10);
  tell("connecting", std::to_string(::getpid()));
  auto comm = Communicator::connect(arguments.rank, arguments.size, arguments.place, config);
  if (!comm.ok()) {
    tell("unconnected", std::string(error_code_name(comm.status().code())) + " " + comm.status().text());
    wait_for_driver();
    return 0;
  }
  tell("connected", "");
  {
    Worker worker(arguments, std::move(comm).value());
    if (!worker.run()) wait_for_driver();
    tell("closing", "");
  }
  tell("closed", "");
  return 0;
}

}  // namespace
}  // namespace ferrule::chaos

int main(int argc, char** argv) {
  try {
    return ferrule::chaos::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos_worker: %s\n", error.what());
    return 2;
  }
}
