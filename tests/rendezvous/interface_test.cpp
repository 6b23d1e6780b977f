#include "rendezvous/interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ferrule::rendezvous {
namespace {

using testing::HasSubstr;

SocketAddress ip(const char* text) { return resolve(text, 0, Deadline::never()).value().front(); }

std::vector<InterfaceAddress> machine() {
  return {{"lo", ip("127.0.0.1")},  {"docker0", ip("172.17.0.1")},
          {"eth0", ip("10.0.0.5")}, {"eth1", ip("192.168.7.5")},
          {"lo", ip("::1")},        {"eth0", ip("fd00::5")},
          {"eth0", ip("fe80::1")}};
}

struct Case {
  const char* name;
  const char* wanted;
  const char* rendezvous;  // "" for none
  const char* route_source;
  const char* default_source;
  bool single_host;
  const char* interface;
  const char* address;
};

const Case kCases[] = {
    {"routes_there", "", "10.0.0.1", "10.0.0.5", "192.168.7.5", false, "eth0", "10.0.0.5"},
    {"routes_there_v6", "", "fd00::1", "fd00::5", "192.168.7.5", false, "eth0", "fd00::5"},
    {"own_address", "", "10.0.0.5", "10.0.0.5", "", false, "eth0", "10.0.0.5"},
    {"loopback", "", "127.0.0.1", "127.0.0.1", "10.0.0.5", false, "lo", "127.0.0.1"},
    {"loopback_v6", "", "::1", "::1", "10.0.0.5", false, "lo", "::1"},
    {"debian_hosts_file", "", "127.0.1.1", "127.0.0.1", "10.0.0.5", false, "eth0", "10.0.0.5"},
    {"debian_hosts_file_no_route", "", "127.0.1.1", "127.0.0.1", "", false, "eth0", "10.0.0.5"},
    {"debian_hosts_file_single", "", "127.0.1.1", "127.0.0.1", "10.0.0.5", true, "lo", "127.0.0.1"},
    {"debian_hosts_file_odd_source", "", "127.0.1.1", "127.0.1.1", "10.0.0.5", true, "lo", "127.0.0.1"},
    {"file_takes_default_route", "", "", "", "192.168.7.5", false, "eth1", "192.168.7.5"},
    {"no_routes_known", "", "", "", "", false, "eth0", "10.0.0.5"},
    {"named", "eth1", "10.0.0.1", "10.0.0.5", "", false, "eth1", "192.168.7.5"},
    {"named_exactly", "=eth1", "10.0.0.1", "10.0.0.5", "", false, "eth1", "192.168.7.5"},
    {"prefix_prefers_route", "eth", "192.168.7.1", "192.168.7.5", "", false, "eth1", "192.168.7.5"},
    {"prefix_of_family", "eth", "fd00::1", "", "", false, "eth0", "fd00::5"},
    {"excluded", "^docker,lo,eth0", "10.0.0.1", "10.0.0.5", "", false, "eth1", "192.168.7.5"},
    {"loopback_by_name", "lo", "10.0.0.1", "10.0.0.5", "", false, "lo", "127.0.0.1"},
};

class Interfaces : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Table, Interfaces, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(Interfaces, AreChosenByTheRules) {
  const Case& c = GetParam();
  InterfaceQuery query;
  query.interfaces = machine();
  query.wanted = c.wanted;
  query.single_host = c.single_host;
  if (*c.rendezvous != '\0') query.rendezvous = ip(c.rendezvous);
  if (*c.route_source != '\0') query.route_source = ip(c.route_source);
  if (*c.default_source != '\0') query.default_source = ip(c.default_source);
  const auto choice = choose_interface(query);
  ASSERT_TRUE(choice.ok()) << choice.status().text();
  EXPECT_EQ(choice->name, c.interface);
  EXPECT_EQ(choice->ip, c.address);
  EXPECT_FALSE(choice->why.empty());
}

TEST(InterfaceChoice, NamesTheInterfacesThatThereAre) {
  InterfaceQuery query;
  query.interfaces = machine();
  query.wanted = "ib";
  const auto choice = choose_interface(query);
  ASSERT_EQ(choice.status().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(choice.status().text(), HasSubstr("FERRULE_SOCKET_IFNAME='ib'"));
  EXPECT_THAT(choice.status().text(), HasSubstr("lo, docker0, eth0, eth1"));
}

TEST(InterfaceChoice, LoopbackOnlyWhereNothingElseIs) {
  InterfaceQuery query;
  query.interfaces = {{"lo", ip("127.0.0.1")}};
  EXPECT_EQ(choose_interface(query)->why, "no other interface is up");
  query.interfaces.clear();
  EXPECT_EQ(choose_interface(query).status().code(), ErrorCode::system);
}

TEST(InterfaceNames, MatchAsInNccl) {
  EXPECT_TRUE(interface_is_wanted("eth0", "eth"));
  EXPECT_TRUE(interface_is_wanted("ib0", "eth,ib"));
  EXPECT_FALSE(interface_is_wanted("lo", "eth,ib"));
  EXPECT_FALSE(interface_is_wanted("eth10", "=eth1"));
  EXPECT_TRUE(interface_is_wanted("eth1", "=eth0,eth1"));
  EXPECT_FALSE(interface_is_wanted("docker0", "^docker"));
  EXPECT_TRUE(interface_is_wanted("eth0", "^docker,lo"));
  EXPECT_FALSE(interface_is_wanted("eth10", "^=eth10"));
  EXPECT_TRUE(interface_is_wanted("eth101", "^=eth10"));
}

TEST(InterfaceChoice, OfThisMachineForALoopbackRendezvous) {
  const auto choice = choose_interface(ip("127.0.0.1"), false);
  ASSERT_TRUE(choice.ok()) << choice.status().text();
  EXPECT_EQ(choice->ip, "127.0.0.1");
}

TEST(SocketAddresses, KnowTheirTextAndLoopback) {
  EXPECT_EQ(resolve("[::1]", 80, Deadline::never())->front().text(), "[::1]:80");
  EXPECT_EQ(resolve("127.0.0.1", 80, Deadline::never())->front().text(), "127.0.0.1:80");
  EXPECT_TRUE(ip("127.0.1.1").is_loopback());
  EXPECT_TRUE(ip("::1").is_loopback());
  EXPECT_TRUE(ip("::ffff:127.0.0.1").is_loopback());
  EXPECT_FALSE(ip("128.0.0.1").is_loopback());
  const auto unknown = resolve("no-such-host.invalid", 80, Deadline::after(std::chrono::seconds(20)));
  ASSERT_EQ(unknown.status().code(), ErrorCode::system);
  EXPECT_THAT(unknown.status().text(), HasSubstr("no-such-host.invalid"));
}

}  // namespace
}  // namespace ferrule::rendezvous
