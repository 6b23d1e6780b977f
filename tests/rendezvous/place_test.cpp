#include "rendezvous/place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rendezvous/fields.hpp"
#include "rendezvous/host_list.hpp"

namespace ferrule::rendezvous {
namespace {

using testing::ElementsAre;
using Strings = std::vector<std::string>;

TEST(Place, ParsesAddressesOfBothFamilies) {
  EXPECT_EQ(parse_place("tcp://node7:29400")->text(), "tcp://node7:29400");
  EXPECT_EQ(parse_place("tcp://[::1]:80")->text(), "tcp://[::1]:80");
  EXPECT_EQ(parse_place("tcp://[::1]:80")->hosts, Strings{"::1"});
  EXPECT_EQ(parse_place("tcp://fd00::7")->hosts, Strings{"fd00::7"});
  EXPECT_FALSE(parse_place("tcp://node7")->port.has_value());
  EXPECT_EQ(parse_place("file:///a/b")->path, "/a/b");
}

TEST(Place, RefusesWhatIsNone) {
  for (const char* text : {"", "tcp://", "tcp://:1", "tcp://a:", "tcp://a:0", "tcp://a:65536", "tcp://a:-1",
                           "tcp://a:1x", "tcp://[::1", "tcp://[::1]80", "tcp://a b:1", "tcp://a/b:1",
                           "tcp://a:b:]c", "tcp://[a[b]:1", "file://relative", "http://a:1", "a:1"}) {
    const auto place = parse_place(text);
    EXPECT_EQ(place.status().code(), ErrorCode::invalid_argument) << text;
    EXPECT_NE(place.status().text().find("tcp://host:port"), std::string::npos) << place.status().text();
  }
}

TEST(PortRange, ParsesRangesAndRefusesOthers) {
  EXPECT_EQ(parse_port_range("20000-20015")->last, 20015);
  EXPECT_EQ(parse_port_range("20000")->last, 20000);
  for (const char* text : {"", "-", "1-", "-2", "5-4", "0-3", "1-70000", "a-b", "1-2-3"}) {
    EXPECT_EQ(parse_port_range(text).status().code(), ErrorCode::invalid_argument) << text;
  }
}

TEST(CandidatePorts, FixedPortsStandAlone) {
  EXPECT_THAT(candidate_ports(*parse_place("tcp://a:5000"), PortRange{1, 9}), ElementsAre(5000));
}

TEST(CandidatePorts, StayInTheRangeAndReachAllOfIt) {
  Place place = *parse_place("tcp://a");
  place.job = "some job";
  const auto ports = candidate_ports(place, PortRange{20000, 20015});
  const std::set<std::uint16_t> distinct(ports.begin(), ports.end());
  EXPECT_EQ(distinct.size(), 16u);
  EXPECT_EQ(*distinct.begin(), 20000);
  EXPECT_EQ(*distinct.rbegin(), 20015);
}

TEST(CandidatePorts, AreBelowTheSystemsOwnAndDependOnTheJob) {
  Place place = *parse_place("tcp://a");
  std::set<std::uint16_t> starts;
  for (int job = 0; job < 100; ++job) {
    place.job = "job " + std::to_string(job);
    const auto ports = candidate_ports(place, std::nullopt);
    EXPECT_EQ(ports.size(), 16u);
    for (const auto port : ports) EXPECT_TRUE(port >= 24576 && port <= 32767) << port;
    starts.insert(ports.front());
  }
  EXPECT_GT(starts.size(), 80u);
}

TEST(HostList, Expands) {
  EXPECT_EQ(expand_host_list("node7").value(), Strings{"node7"});
  EXPECT_EQ(expand_host_list("a,b").value(), (Strings{"a", "b"}));
  EXPECT_EQ(expand_host_list("node[1-3,7]").value(), (Strings{"node1", "node2", "node3", "node7"}));
  EXPECT_EQ(expand_host_list("n[08-10]-ib,login").value(), (Strings{"n08-ib", "n09-ib", "n10-ib", "login"}));
  EXPECT_EQ(expand_host_list("r[1-2]n[0-1]").value(), (Strings{"r1n0", "r1n1", "r2n0", "r2n1"}));
  EXPECT_EQ(expand_host_list("n[1-65536]").value().size(), 65536u);
}

TEST(HostList, RefusesWhatIsNone) {
  for (const char* text : {"", "a,,b", "a,", "n[", "n]", "n[1-3", "n[]", "n[x]", "n[3-1]", "n[1-]", "n[[1]]",
                           "n[1-3]]", "n[1-65537]", "n[1-300][1-300]", "n[1-99999999999999999999]"}) {
    EXPECT_EQ(expand_host_list(text).status().code(), ErrorCode::invalid_argument) << text;
  }
}

TEST(HostList, EndsWithTheLargestNumber) {
  EXPECT_EQ(expand_host_list("n[18446744073709551614-18446744073709551615]").value(),
            (Strings{"n18446744073709551614", "n18446744073709551615"}));
}

// Names of a hundred thousand characters, 65,536 times, would be 6 GB.
TEST(HostList, RefusesLongNames) {
  const std::string longest(255, 'n');
  EXPECT_EQ(expand_host_list(longest).value(), Strings{longest});
  for (const std::string& text :
       {longest + "n", longest + "n[1-65536]", "n[" + std::string(100000, '0') + "1-65000]",
        "[1-60000]" + std::string(100000, 'n')}) {
    EXPECT_EQ(expand_host_list(text).status().code(), ErrorCode::invalid_argument) << text.size();
  }
}

TEST(Fields, ComeBackAsTheyWere) {
  const Strings fields = {"", "a", std::string("\0\xff", 2), std::string(100000, 'x')};
  EXPECT_EQ(unpack(pack(fields)).value(), fields);
  EXPECT_EQ(unpack(pack({})).value(), Strings{});
}

TEST(Fields, RefuseEveryTruncationAndEveryLie) {
  const std::string good = pack({"one", "two", ""});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(unpack(good.substr(0, size)).status().code(), ErrorCode::corrupt) << size;
  }
  EXPECT_EQ(unpack(good + "x").status().code(), ErrorCode::corrupt);
  EXPECT_EQ(unpack("\xff\xff\xff\xff").status().code(), ErrorCode::corrupt);
  EXPECT_EQ(unpack(std::string("\1\0\0\0\xff\xff\xff\xff", 8)).status().code(), ErrorCode::corrupt);
}

}  // namespace
}  // namespace ferrule::rendezvous
