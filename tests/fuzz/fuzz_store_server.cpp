// The rendezvous server, asked by a stranger over a real connection: any bytes, alone or after a right hello.
// Afterwards it must still serve.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "rendezvous/store_auth.hpp"
#include "rendezvous/store_protocol.hpp"
#include "rendezvous/store_server.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::rendezvous;

constexpr const char* kJob = "fuzz";
// Values stay in the store, so that a server's life is bounded.
constexpr int kInputsPerServer = 1000;

std::string hello() {
  StoreHello hello;
  hello.job = kJob;
  return make_frame(StoreOperation::hello, {}, hello.encode());
}

std::shared_ptr<StoreServer> new_server() {
  ServerOptions options;
  options.addresses = *resolve("127.0.0.1", 0, Deadline::after(std::chrono::seconds(10)));
  options.job = kJob;
  options.linger = std::chrono::nanoseconds(0);
  auto server = StoreServer::listen(options);
  FERRULE_REQUIRE_OR(server.ok(), server.status().text());
  return *server;
}

Descriptor connect_to(const StoreServer& server) {
  Descriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress address = server.addresses().front();
  FERRULE_REQUIRE(::connect(connection.get(), address.get(), address.bytes) == 0);
  // Closing resets the connection: thousands of them a second would otherwise use up all ports.
  const linger reset{1, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return connection;
}

void send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // it has hung up, as it may
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Until the server hangs up, which it must when it has seen the end of what was sent.
void read_to_end(int connection) {
  char bytes[4096];
  while (::recv(connection, bytes, sizeof bytes, 0) > 0) {
  }
}

// Frames made of the input: known operations, small keys, values as they come. A get waits for nothing.
std::string frames(fuzz::Input& input) {
  std::string all;
  while (!input.empty()) {
    static constexpr StoreOperation kOperations[] = {StoreOperation::set,     StoreOperation::get,
                                                     StoreOperation::hello,   StoreOperation::ok,
                                                     StoreOperation::refused, StoreOperation::proof};
    const StoreOperation operation = input.choose(kOperations);
    const std::string_view key = input.text(input.pick(8));
    const std::string_view value = input.text(input.pick(64));
    all += make_frame(operation, key,
                      operation == StoreOperation::get && value.size() < 9 ? encode_u64(0) : value);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static auto* server = new std::shared_ptr<StoreServer>;  // outlives what runs at exit
  static int inputs = 0;
  if (inputs++ % kInputsPerServer == 0) *server = new_server();
  fuzz::Input input(data, bytes);
  const std::uint32_t kind = input.pick(4);
  const Descriptor connection = connect_to(**server);
  if (kind != 0) send_all(connection.get(), hello());
  send_all(connection.get(), kind < 2 ? std::string(input.rest()) : frames(input));
  ::shutdown(connection.get(), SHUT_WR);
  read_to_end(connection.get());
  FERRULE_REQUIRE((*server)->set("alive", "yes").ok());
  return 0;
}
