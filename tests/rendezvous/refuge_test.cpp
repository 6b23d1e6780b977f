// The store that each process serves for those who must meet again.
#include "rendezvous/refuge.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace ferrule::rendezvous {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(5s); }
Deadline at_once() { return Deadline::after(1ms); }

std::shared_ptr<Refuge> own() {
  auto refuge = Refuge::at("127.0.0.1");
  EXPECT_TRUE(refuge.ok()) << refuge.status().text();
  return *refuge;
}

TEST(Refuge, IsOneForAProcessAndAddress) {
  EXPECT_EQ(own(), own());
  EXPECT_NE(own(), Refuge::of_threads());
  EXPECT_EQ(Refuge::of_threads(), Refuge::of_threads());
}

TEST(Refuge, IsOpenedByItsText) {
  auto store = open_refuge(own()->text(), soon());
  ASSERT_TRUE(store.ok()) << store.status().text();
  ASSERT_TRUE((*store)->set("refuge_test/here", "yes").ok());
  EXPECT_EQ(*own()->store()->get("refuge_test/here", soon()), "yes");
  own()->forget("refuge_test/");
  EXPECT_EQ((*store)->get("refuge_test/here", at_once()).status().code(), ErrorCode::timeout);
}

TEST(Refuge, ForgetsOnlyWhatStartsWithThePrefix) {
  Store& store = *Refuge::of_threads()->store();
  for (const char* key : {"a/1", "a/2", "ab", "b/1"}) ASSERT_TRUE(store.set(key, key).ok());
  Refuge::of_threads()->forget("a/");
  EXPECT_FALSE(store.get("a/1", at_once()).ok());
  EXPECT_FALSE(store.get("a/2", at_once()).ok());
  EXPECT_EQ(*store.get("ab", at_once()), "ab");
  EXPECT_EQ(*store.get("b/1", at_once()), "b/1");
  EXPECT_TRUE(store.set("a/1", "another value").ok()) << "a key that was forgotten can be set anew";
  for (const char* key : {"a", "b"}) Refuge::of_threads()->forget(key);
}

TEST(Refuge, NotesAreKeptButNotWithoutEnd) {
  Refuge& refuge = *Refuge::of_threads();
  for (int i = 0; i < 5000; ++i) refuge.note("note/" + std::to_string(i) + "/");
  EXPECT_TRUE(refuge.store()->get("note/4999/", at_once()).ok());
  EXPECT_FALSE(refuge.store()->get("note/0/", at_once()).ok());
  refuge.forget("note/");
}

TEST(Refuge, WhoDoesNotKnowItsNameIsTurnedAway) {
  const std::string text = own()->text();
  const auto other = open_refuge(text.substr(0, text.rfind(' ')) + " another", soon());
  EXPECT_EQ(other.status().code(), ErrorCode::peer_lost) << "its process has ended, and another has its port";
}

TEST(Refuge, TextsThatAreNoneAreRefused) {
  for (const char* text : {"", " ", "127.0.0.1", "127.0.0.1 80", "127.0.0.1 0 x", "127.0.0.1 99999 x",
                           "127.0.0.1 8x x", "not.an.address.invalid 80 x"}) {
    EXPECT_FALSE(open_refuge(text, soon()).ok()) << text;
  }
}

// Whoever asks learns of a death at once, and does not wait for the deadline.
TEST(Refuge, AProcessThatHasEndedIsLost) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto refuge = Refuge::at("127.0.0.1");
    const std::string text = refuge.ok() ? (*refuge)->text() : "";
    [[maybe_unused]] const auto written = ::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::array<char, 256> text{};
  const ssize_t bytes = ::read(ends[0], text.data(), text.size());
  ASSERT_GT(bytes, 0);
  const std::string theirs(text.data(), static_cast<std::size_t>(bytes));
  EXPECT_NE(theirs, own()->text()) << "a child of fork() serves a refuge of its own";
  EXPECT_EQ(open_refuge(theirs, Deadline::after(60s)).status().code(), ErrorCode::peer_lost);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ferrule::rendezvous
