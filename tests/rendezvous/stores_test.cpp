// Every kind of store keeps the same promises.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/file_store.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"
#include "rendezvous/wrapped_stores.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The store under test, and what it needs to live, which is destroyed after it.
struct Fixture {
  std::vector<std::shared_ptr<void>> keep;
  std::shared_ptr<Store> store;
};

Fixture make_memory() { return {{}, std::make_shared<MemoryStore>()}; }

Fixture make_file() {
  std::string path = (std::filesystem::temp_directory_path() / "ferrule-store-XXXXXX").string();
  EXPECT_NE(::mkdtemp(path.data()), nullptr);
  std::shared_ptr<void> remover(nullptr, [path](void*) { std::filesystem::remove_all(path); });
  return {{remover}, std::make_shared<FileStore>(path, "file://" + path)};
}

std::shared_ptr<StoreServer> serve(const char* ip) {
  auto addresses = resolve(ip, 0, Deadline::after(seconds(5)));
  ServerOptions options;
  options.addresses = addresses.value();
  options.job = "test";
  options.linger = milliseconds(100);
  auto server = StoreServer::listen(options);
  EXPECT_TRUE(server.ok()) << server.status().text();
  return server.value();
}

Fixture make_served() { return {{}, serve("127.0.0.1")}; }

Fixture make_tcp_at(const char* ip) {
  auto server = serve(ip);
  auto store = TcpStore::connect(server->addresses(), "test", Deadline::after(seconds(10)));
  EXPECT_TRUE(store.ok()) << store.status().text();
  return {{server}, store.value()};
}
Fixture make_tcp() { return make_tcp_at("127.0.0.1"); }
Fixture make_tcp6() { return make_tcp_at("[::1]"); }

Fixture make_callback() {
  auto memory = std::make_shared<MemoryStore>();
  auto store = std::make_shared<CallbackStore>(
      [memory](std::string_view key, std::string_view value) { return memory->set(key, value); },
      [memory](std::string_view key, std::chrono::nanoseconds timeout) {
        return memory->get(key, Deadline::after(timeout));
      },
      "callback");
  return {{memory}, store};
}

Fixture make_prefix() {
  return {{}, std::make_shared<PrefixStore>(std::make_shared<MemoryStore>(), "group")};
}

struct Kind {
  const char* name;
  Fixture (*make)();
};

class StoreKinds : public testing::TestWithParam<Kind> {
 protected:
  Fixture fixture_ = GetParam().make();
  Store& store_ = *fixture_.store;
};

INSTANTIATE_TEST_SUITE_P(All, StoreKinds,
                         testing::Values(Kind{"memory", make_memory}, Kind{"file", make_file},
                                         Kind{"served", make_served}, Kind{"tcp", make_tcp},
                                         Kind{"tcp6", make_tcp6}, Kind{"callback", make_callback},
                                         Kind{"prefix", make_prefix}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(StoreKinds, GivesBackWhatWasSet) {
  const std::string binary("\0\n\xff any bytes", 14);
  ASSERT_TRUE(store_.set("some/key:with%signs", binary).ok());
  ASSERT_TRUE(store_.set("empty", "").ok());
  EXPECT_EQ(store_.get("some/key:with%signs", Deadline::after(seconds(5))).value(), binary);
  EXPECT_EQ(store_.get("empty", Deadline::after(seconds(5))).value(), "");
}

TEST_P(StoreKinds, TakesTheLargestKeyAndValueButNoLarger) {
  const std::string key(Store::kMaxKeyBytes, 'k');
  const std::string other = key.substr(1) + "x";
  std::string value(Store::kMaxValueBytes, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7);
  // A prefix takes its part of the key's length.
  if (std::string(GetParam().name) != "prefix") {
    ASSERT_TRUE(store_.set(key, value).ok());
    ASSERT_TRUE(store_.set(other, "another").ok());
    EXPECT_EQ(store_.get(key, Deadline::after(seconds(10))).value(), value);
    EXPECT_EQ(store_.get(other, Deadline::after(seconds(10))).value(), "another");
  }
  EXPECT_EQ(store_.set(key + "k", "v").code(), ErrorCode::invalid_argument);
  EXPECT_EQ(store_.set("k", value + "v").code(), ErrorCode::invalid_argument);
  EXPECT_EQ(store_.set("two words", "v").code(), ErrorCode::invalid_argument);
}

TEST_P(StoreKinds, TimesOutNamingKeyAndStore) {
  const auto value = store_.get("never", Deadline::after(milliseconds(50)));
  ASSERT_EQ(value.status().code(), ErrorCode::timeout);
  EXPECT_NE(value.status().text().find("never"), std::string::npos) << value.status().text();
  EXPECT_NE(value.status().text().find(store_.describe()), std::string::npos) << value.status().text();
}

TEST_P(StoreKinds, RefusesASecondValueButNotTheSameAgain) {
  ASSERT_TRUE(store_.set("key", "one").ok());
  EXPECT_TRUE(store_.set("key", "one").ok());
  EXPECT_EQ(store_.set("key", "two").code(), ErrorCode::mismatch);
  EXPECT_EQ(store_.get("key", Deadline::after(seconds(5))).value(), "one");
}

// All threads wait for keys that others set later; a get must not keep a set of the same store from going on.
TEST_P(StoreKinds, ServesThreadsThatWaitForEachOther) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 5;
  std::vector<std::thread> threads;
  std::vector<int> right(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const auto key = [&](int of) { return std::to_string(round) + "/" + std::to_string(of); };
        if (t % 2 == 0) (void)store_.get(key((t + 1) % kThreads), Deadline::after(seconds(30)));
        EXPECT_TRUE(store_.set(key(t), std::to_string(100 * round + t)).ok());
        for (int of = 0; of < kThreads; ++of) {
          const auto value = store_.get(key(of), Deadline::after(seconds(30)));
          if (value.ok() && value.value() == std::to_string(100 * round + of)) ++right[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(kThreads, kThreads * kRounds));
}

TEST(TcpStore, ManyClientsSeeOneServer) {
  auto server = serve("127.0.0.1");
  constexpr int kClients = 64;
  std::vector<std::thread> threads;
  std::vector<std::string> seen(kClients);
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      auto store = TcpStore::connect(server->addresses(), "test", Deadline::after(seconds(30)));
      if (!store.ok()) return;
      EXPECT_TRUE(store.value()->set("from/" + std::to_string(c), "x").ok());
      seen[c] = store.value()->get("answer", Deadline::after(seconds(30))).value();
    });
  }
  for (int c = 0; c < kClients; ++c) {
    EXPECT_EQ(server->get("from/" + std::to_string(c), Deadline::after(seconds(30))).value(), "x");
  }
  ASSERT_TRUE(server->set("answer", "42").ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<std::string>(kClients, "42"));
}

TEST(TcpStore, WaitsForAServerThatComesLater) {
  auto first = serve("127.0.0.1");
  const auto addresses = first->addresses();
  first.reset();
  std::shared_ptr<StoreServer> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(milliseconds(200));
    ServerOptions options;
    options.addresses = addresses;
    options.job = "test";
    auto server = StoreServer::listen(options);
    ASSERT_TRUE(server.ok()) << server.status().text();
    late = server.value();
    EXPECT_TRUE(late->set("key", "value").ok());
  });
  auto store = TcpStore::connect(addresses, "test", Deadline::after(seconds(30)));
  starter.join();
  ASSERT_TRUE(store.ok()) << store.status().text();
  EXPECT_EQ(store.value()->get("key", Deadline::after(seconds(10))).value(), "value");
}

TEST(TcpStore, SaysWhatItTriedWhenNobodyServes) {
  auto server = serve("127.0.0.1");
  const auto addresses = server->addresses();
  server.reset();
  const auto store = TcpStore::connect(addresses, "test", Deadline::after(milliseconds(100)));
  ASSERT_EQ(store.status().code(), ErrorCode::timeout);
  EXPECT_NE(store.status().text().find(addresses[0].text()), std::string::npos) << store.status().text();
  EXPECT_NE(store.status().text().find("Connection refused"), std::string::npos) << store.status().text();
}

TEST(TcpStore, IsTurnedAwayByTheServerOfAnotherJobAndFindsItsOwn) {
  auto other = serve("127.0.0.1");
  const auto refused = TcpStore::connect(other->addresses(), "mine", Deadline::after(milliseconds(100)));
  ASSERT_EQ(refused.status().code(), ErrorCode::timeout);
  EXPECT_NE(refused.status().text().find("another job"), std::string::npos) << refused.status().text();

  ServerOptions options;
  options.addresses = resolve("127.0.0.1", 0, Deadline::after(seconds(5))).value();
  options.job = "mine";
  auto mine = StoreServer::listen(options).value();
  const auto store =
      TcpStore::connect({other->addresses()[0], mine->addresses()[0]}, "mine", Deadline::after(seconds(10)));
  ASSERT_TRUE(store.ok()) << store.status().text();
  EXPECT_EQ(store.value()->address().port(), mine->port());
}

TEST(TcpStore, ReportsALostServerAtOnce) {
  auto server = serve("127.0.0.1");
  auto store = TcpStore::connect(server->addresses(), "test", Deadline::after(seconds(10))).value();
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    server.reset();
  });
  const auto value = store->get("never", Deadline::after(seconds(120)));
  stopper.join();
  EXPECT_EQ(value.status().code(), ErrorCode::system);
  EXPECT_NE(value.status().text().find("lost the rendezvous server"), std::string::npos);
}

TEST(StoreServer, NamesAddressReasonAndAdviceOfABusyPort) {
  auto server = serve("127.0.0.1");
  ServerOptions options;
  options.addresses = server->addresses();
  const auto second = StoreServer::listen(options);
  ASSERT_EQ(second.status().code(), ErrorCode::system);
  for (const std::string& part :
       {server->addresses()[0].text(), std::string("in use"), std::string("FERRULE_PORT_RANGE")}) {
    EXPECT_NE(second.status().text().find(part), std::string::npos) << second.status().text();
  }
}

TEST(StoreServer, SaysThatAnAddressIsNotOfThisHost) {
  ServerOptions options;
  options.addresses = resolve("192.0.2.77", 0, Deadline::after(seconds(5))).value();
  const auto server = StoreServer::listen(options);
  ASSERT_EQ(server.status().code(), ErrorCode::system);
  EXPECT_NE(server.status().text().find("no interface of this host"), std::string::npos)
      << server.status().text();
}

}  // namespace
}  // namespace ferrule::rendezvous
