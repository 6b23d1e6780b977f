// One slice in flight: how far it is, and its requests. Private to the executor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/run.hpp"

namespace ferrule::executor {

struct Run::Slice {
  std::uint32_t number = 0;
  std::size_t next = 0;  ///< instruction to execute next
  std::byte* scratch = nullptr;
  std::vector<std::uint32_t> uses_left;  ///< by slot; a received view goes back when it reaches 0
  // By number of the send or receive. `*_posted` is false where the range is empty or its turn has not come.
  std::vector<std::unique_ptr<transport::Send>> sends;
  std::vector<std::unique_ptr<transport::Recv>> recvs;
  std::vector<std::uint32_t> send_slots;
  std::vector<char> send_posted;
  std::vector<char> recv_posted;
  std::uint32_t sends_under_way = 0;
};

}  // namespace ferrule::executor
