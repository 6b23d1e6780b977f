#include "bench/compare/workers/worker.hpp"

#include <fmt/format.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "bench/compare/workers/tensors.hpp"

namespace ferrule::compare {
namespace {

using Clock = std::chrono::steady_clock;

Result<int> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Status(ErrorCode::invalid_argument, fmt::format("bad socket path '{}'", path));
  path.copy(address.sun_path, path.size());
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0 || connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return Status(ErrorCode::system, fmt::format("cannot reach the driver at {}: {}", path, strerror(errno)));
  return socket_fd;
}

/// As the inside of a JSON string.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

class Session {
 public:
  Session(const WorkerId& id, Contestant& contestant)
      : contestant_(contestant), tensors_(id.rank, id.ranks) {}

  /// The answer to one command, as JSON.
  std::string answer(const std::string& line) {
    auto made = dispatch(line);
    return made.ok() ? *made : fmt::format(R"({{"error":"{}"}})", escaped(made.status().text()));
  }

 private:
  Result<std::string> dispatch(const std::string& line);
  Result<std::string> run(int warmup, int iterations, bool in_place);
  Result<std::string> verify(bool in_place);
  Result<double> iterate(bool in_place);

  Contestant& contestant_;
  Tensors tensors_;
};

Result<std::string> Session::dispatch(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "prepare") {
    std::size_t bytes = 0, repeat = 0;
    std::uint32_t seed = 0;
    if (words >> bytes >> repeat >> seed) {
      FERRULE_RETURN_IF_ERROR(tensors_.prepare(bytes, repeat, seed));
      return std::string(R"({"ok":true})");
    }
  } else if (command == "run") {
    int warmup = 0, iterations = 0;
    bool in_place = false;
    if (words >> warmup >> iterations >> in_place) return run(warmup, iterations, in_place);
  } else if (command == "verify") {
    bool in_place = false;
    if (words >> in_place) return verify(in_place);
  } else if (command == "release") {
    tensors_.release();
    return std::string(R"({"ok":true})");
  }
  return Status(ErrorCode::invalid_argument, fmt::format("cannot understand the command '{}'", line));
}

/// Nanoseconds that this rank's all-reduces took.
Result<double> Session::iterate(bool in_place) {
  tensors_.restore(in_place);
  FERRULE_RETURN_IF_ERROR(contestant_.barrier());
  const auto start = Clock::now();
  FERRULE_RETURN_IF_ERROR(tensors_.reduce(contestant_, in_place));
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

Result<std::string> Session::run(int warmup, int iterations, bool in_place) {
  std::string times;
  for (int i = 0; i < warmup + iterations; ++i) {
    const auto elapsed_ns = iterate(in_place);
    if (!elapsed_ns.ok()) return elapsed_ns.status();
    if (i >= warmup) times += fmt::format("{}{:.0f}", times.empty() ? "" : ",", *elapsed_ns);
  }
  // Nobody goes to sleep while another rank still needs its help.
  FERRULE_RETURN_IF_ERROR(contestant_.barrier());
  return fmt::format(R"({{"times_ns":[{}]}})", times);
}

Result<std::string> Session::verify(bool in_place) {
  tensors_.restore(in_place);
  FERRULE_RETURN_IF_ERROR(contestant_.barrier());
  const std::uint64_t before = contestant_.bytes_sent();
  FERRULE_RETURN_IF_ERROR(tensors_.reduce(contestant_, in_place));
  const std::uint64_t sent = contestant_.bytes_sent() - before;
  FERRULE_RETURN_IF_ERROR(contestant_.barrier());
  auto judgement = tensors_.judge(contestant_);
  if (!judgement.ok()) return judgement.status();
  judgement->wire_bytes = sent;
  return judgement->json();
}

}  // namespace

Status Contestant::bounds(std::span<const double>, std::span<double> bounds) const {
  std::fill(bounds.begin(), bounds.end(), 0.0);
  return {};
}

int serve(const WorkerId& id, Contestant& contestant) {
  const auto connected = connect_to(id.socket);
  if (!connected.ok()) {
    fmt::print(stderr, "rank {}: {}\n", id.rank, connected.status().text());
    return 1;
  }
  FILE* commands = fdopen(*connected, "r");
  if (commands == nullptr) return 1;
  dprintf(*connected,
          R"({"rank":%d,"pid":%d,"about":"%s"})"
          "\n",
          id.rank, static_cast<int>(getpid()), escaped(id.about).c_str());
  Session session(id, contestant);
  char* line = nullptr;
  std::size_t capacity = 0;
  // A blocking read: a rank whose turn it is not costs nothing.
  for (ssize_t length = 0; (length = getline(&line, &capacity, commands)) > 0;) {
    const std::string command(line, static_cast<std::size_t>(length - 1));
    if (command == "quit") break;
    dprintf(*connected, "%s\n", session.answer(command).c_str());
  }
  std::free(line);
  std::fclose(commands);
  return 0;
}

std::string argument(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return argv[i + 1];
  }
  return otherwise;
}

}  // namespace ferrule::compare
